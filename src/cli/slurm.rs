//! `jostle slurm`: places Slurm's jobs by their profiles.

use super::duration;
use super::output;
use crate::serve::slurm;
use crate::serve::slurm::Helper;
use crate::serve::slurm::Options;
use jostle_measure::console::note;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::time::Duration;

/// Place Slurm's jobs apart from those that they would slow down
///
/// Answers the submit plugin (see --plugin), and moves pending jobs as the cluster
/// changes. A job names its profile with `--comment jostle=PROFILE` or the variable
/// JOSTLE_PROFILE. Run it as SlurmUser beside slurmctld. SIGTERM ends it and releases
/// all pending jobs.
///
/// Examples:
///   jostle slurm --plugin > /etc/slurm/job_submit.lua
///   jostle slurm --profiles profiles
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Directory with profiles; a job names the file without .json
    #[arg(long, value_name = "DIR", required_unless_present_any = ["plugin", "release"])]
    profiles: Option<PathBuf>,
    /// Unix socket that the plugin connects to; its mode is 0660
    #[arg(long, value_name = "PATH", default_value = "/run/jostle/slurm.sock")]
    socket: PathBuf,
    /// Start a job where it does least harm after it has waited this long for a
    /// node without harm
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse_duration)]
    patience: Duration,
    /// Look at the queue this often
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse_duration)]
    interval: Duration,
    /// Print the submit plugin for this --socket, and exit
    #[arg(long, conflicts_with_all = ["profiles", "release"])]
    plugin: bool,
    /// Release all pending jobs, such as after a crash, and exit
    #[arg(long, conflicts_with = "profiles")]
    release: bool,
}

pub fn run(args: Args) -> Result<()> {
    if args.release {
        return slurm::release();
    }
    let (true, Some(socket)) = (args.socket.is_absolute(), args.socket.to_str()) else {
        return Err(Error::request(format!(
            "--socket {}: is not an absolute path",
            args.socket.display()
        )));
    };
    if args.plugin {
        return output::text(&slurm::plugin(socket));
    }
    let Some(profiles) = args.profiles else {
        return Err(Error::request("--profiles is missing"));
    };
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Error::environment(format!("cannot watch for signals: {error}")))?;
    let helper = Helper::start(&Options {
        socket: args.socket,
        profiles,
        patience: args.patience,
        interval: args.interval,
    })?;
    note!(
        "jostle slurm: listening on {}; {} profiles",
        helper.address(),
        helper.count
    );
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    let signal = signals.forever().next();
    helper.stop()?;
    match signal {
        Some(SIGINT) => Err(Error::Interrupted("; all pending jobs are released".into())),
        _ => Ok(()),
    }
}
