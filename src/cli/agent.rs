//! `jostle agent`: the daemon of a node.

use super::output;
use crate::agent::Config;
use crate::agent::Daemon;
use crate::agent::Order;
use crate::agent::Supervisor;
use crate::agent::api;
use crate::agent::log::Log;
use crate::agent::report::Reporter;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::workload;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

/// Run the agent of this node: watch workloads, keep their profiles, find culprits
///
/// Observes only, unless the configuration allows more. SIGHUP reads the
/// configuration again; SIGTERM ends it.
///
/// Examples:
///   jostle agent --config deploy/agent.toml --check
///   jostle agent --config /etc/jostle/agent.toml
///   jostle agent --config deploy/agent.toml --once
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/jostle/agent.toml")]
    config: PathBuf,
    /// Check the configuration, show what it allows and matches now, and stop
    #[arg(long)]
    check: bool,
    /// Look twice, one second apart, print the state of the node as JSON, and stop
    #[arg(long, conflicts_with = "check")]
    once: bool,
    /// Refresh N times, print what each cost the agent as a line of JSON, and stop
    #[arg(long, value_name = "N", conflicts_with_all = ["check", "once"])]
    measure: Option<u64>,
}

pub fn run(args: Args) -> Result<()> {
    let config = Config::load(&args.config)?;
    if args.check {
        Reporter::check(&config.report)?;
        return output::text(&config.describe(&args.config));
    }
    let log = Log::start(&config.agent.log);
    let (interval, listen) = (config.agent.interval, config.api.clone());
    let report = config.report.clone();
    let mut daemon = Daemon::new(config)?;
    if args.once {
        daemon.refresh();
        std::thread::sleep(Duration::from_secs(1));
        daemon.refresh();
        let shown = daemon.board().node().expect("two refreshes");
        return output::json(&shown.state);
    }
    let api = api::serve(&listen, daemon.board().clone(), daemon.store().clone())?;
    if let Some(refreshes) = args.measure {
        return measure(&mut daemon, interval, refreshes);
    }
    release();
    let reporter = Reporter::start(&report, daemon.board().clone())?;
    let orders = orders()?;
    let mut service = Service {
        config: args.config,
        log,
    };
    daemon.run(&orders, &mut service);
    service.stopping();
    drop(reporter);
    api.stop();
    Ok(())
}

/// Resumes what a killed agent left stopped.
fn release() {
    match workload::release(false) {
        Ok(released) => {
            for one in released {
                tracing::warn!("after an earlier jostle: {one}");
            }
        }
        Err(error) => tracing::warn!("cannot tell what an earlier jostle holds: {error}"),
    }
}

fn measure(daemon: &mut Daemon, interval: Duration, refreshes: u64) -> Result<()> {
    for _ in 0..refreshes {
        daemon.refresh();
        let shown = daemon.board().node().expect("a refresh was done");
        let line = serde_json::to_string(&shown.state.agent).map_err(Error::environment)?;
        output::text(&format!("{line}\n"))?;
        std::thread::sleep(interval);
    }
    Ok(())
}

/// Signals as orders.
fn orders() -> Result<mpsc::Receiver<Order>> {
    let failed = |error| Error::environment(format!("cannot watch for signals: {error}"));
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(failed)?;
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().name("signals".into());
    let spawned = thread.spawn(move || {
        for signal in signals.forever() {
            let order = match signal {
                SIGHUP => Order::Reload,
                _ => Order::Stop,
            };
            if sender.send(order).is_err() {
                return;
            }
        }
    });
    spawned.map_err(failed)?;
    Ok(receiver)
}

/// What systemd is told; nothing where it is not there.
struct Service {
    config: PathBuf,
    log: Log,
}

impl Service {
    fn tell(&self, states: &[sd_notify::NotifyState]) {
        // Without systemd there is nobody to tell.
        let _ = sd_notify::notify(false, states);
    }

    fn stopping(&self) {
        self.tell(&[sd_notify::NotifyState::Stopping]);
    }
}

impl Supervisor for Service {
    fn ready(&mut self) {
        self.tell(&[sd_notify::NotifyState::Ready]);
    }

    fn alive(&mut self) {
        self.tell(&[sd_notify::NotifyState::Watchdog]);
    }

    fn reload(&mut self) -> Result<Config> {
        let config = Config::load(&self.config)?;
        self.log.set_level(&config.agent.log);
        Ok(config)
    }
}
