//! `jostle serve`: the events of `schedule --stdin` over a socket.

use super::duration;
use super::output;
use super::schedule;
use crate::serve::events::Events;
use crate::serve::journal::Journal;
use crate::serve::line::Limits;
use crate::serve::listen::Listener;
use crate::serve::server;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_schedule::LONGEST_LINE;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Place applications for schedulers that connect to a socket
///
/// Reads the events of `jostle schedule --stdin`, one JSON object a line, from
/// any number of clients that share one cluster, and answers each on the
/// connection that sent it. SIGTERM ends it.
///
/// Example:
///   jostle serve --apps profiles --state /var/lib/jostle/schedule.state
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Unix socket to listen on; its mode is 0660
    #[arg(long, value_name = "PATH", default_value = "/run/jostle/schedule.sock")]
    socket: PathBuf,
    /// Listen on this loopback address instead, such as 127.0.0.1:7071; every
    /// user of this machine can then connect
    #[arg(long, value_name = "ADDRESS", conflicts_with = "socket")]
    tcp: Option<SocketAddr>,
    /// File that keeps the state, so that it survives a restart
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Connections at a time; one more replaces the one that was idle longest
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Disconnect a client that sends nothing for this long
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse_duration)]
    idle: Duration,
    /// TOML file with [[node]] and [[app]] tables, as of `jostle schedule`
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// Directory with profiles that events may name
    #[arg(long, value_name = "DIR")]
    apps: Option<PathBuf>,
    /// Further directory with profiles; may be given more than once
    #[arg(long, value_name = "DIR")]
    profiles: Vec<PathBuf>,
    /// How to choose; `jostle schedule --help` lists the policies
    #[arg(long, value_name = "POLICY", default_value = "jostle")]
    policy: String,
    /// Who may be placed now, before the policy is asked, as of `jostle schedule`:
    /// none, arq or wrangler:MODEL
    #[arg(long, value_name = "ADMISSION", default_value = "none")]
    admission: String,
    /// What an agent says of its node at the start (`jostle agent --once`), for
    /// --admission wrangler; later readings are events; may be given more than once
    #[arg(long, value_name = "FILE")]
    node_state: Vec<PathBuf>,
    /// Seed of policies that draw at random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do not place what fits nowhere without harm; for policies that look for
    /// harm
    #[arg(long)]
    strict: bool,
    /// Show D1 and D2 of every resource for each placement
    #[arg(long)]
    explain: bool,
}

/// From the first byte of a line to its last.
const LINE_TIME: Duration = Duration::from_secs(30);

/// Until a client takes an answer.
const WRITE_TIME: Duration = Duration::from_secs(10);

pub fn run(args: Args) -> Result<()> {
    let mut signals = signals()?;
    let mut stream = schedule::for_serve(&args.placing())?;
    let listener = Arc::new(match args.tcp {
        Some(address) => Listener::tcp("--tcp", address)?,
        None => Listener::unix("--socket", &args.socket)?,
    });
    let journal = match &args.state {
        Some(path) => {
            stream = stream.that_can_retell();
            let (journal, dropped) = Journal::open(path, &mut stream)?;
            for what in &dropped {
                warning!("--state {}: left out: {what}", path.display());
            }
            Some(journal)
        }
        None => None,
    };
    let events = Arc::new(Events::new(stream, journal));
    let limits = Limits {
        connections: args.connections.into(),
        line_bytes: LONGEST_LINE,
        idle: args.idle,
        line: LINE_TIME,
        write: WRITE_TIME,
    };
    server::serve(vec![listener.clone()], limits, events.clone())?;
    output::text(&format!("listening on {}\n", listener.address()))?;
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    signals.forever().next();
    events.stop();
    listener.remove_file();
    Ok(())
}

impl Args {
    /// The same flags of `jostle schedule --stdin`.
    fn placing(&self) -> schedule::Args {
        schedule::Args {
            nodes: self.nodes.clone(),
            apps: self.apps.clone(),
            only: Vec::new(),
            profiles: self.profiles.clone(),
            population: None,
            policy: self.policy.clone(),
            admission: self.admission.clone(),
            node_state: self.node_state.clone(),
            seed: self.seed,
            strict: self.strict,
            stdin: true,
            explain: self.explain,
            json: false,
        }
    }
}

fn signals() -> Result<Signals> {
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM]);
    signals.map_err(|error| Error::environment(format!("cannot watch for signals: {error}")))
}
