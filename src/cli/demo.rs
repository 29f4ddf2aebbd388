//! `jostle demo`.

use super::network::NetworkArgs;
use jostle_host::machine::Machine;
use jostle_host::machine::saved;
use jostle_host::machine::saved::Saved;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::workload::demo;
use jostle_profile::resource::Resource;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which demo to run; --list shows them
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// List the demos and what each of them needs
    #[arg(long)]
    list: bool,
    /// MiB of the file that memory-capacity reads [default: 1024]
    #[arg(long, value_name = "MIB")]
    size: Option<u64>,
    /// Directory for scratch files [default: current directory, then /var/tmp]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Percent of its resource that the demo uses, instead of all it gets; of
    /// the calibrated peak for the *-bandwidth demos, of a CPU for cpu-time
    #[arg(long, value_name = "PERCENT")]
    share: Option<f64>,
    /// Operations per second, instead of as many as possible; bytes for the
    /// *-bandwidth demos
    #[arg(long, value_name = "NUMBER", conflicts_with = "share")]
    rate: Option<f64>,
    #[command(flatten)]
    network: NetworkArgs,
    /// Stop after this many seconds instead of running until killed
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<f64>,
}

pub fn run(args: Args) -> Result<()> {
    if args.list {
        return list();
    }
    let demo = demo::find(&args.name.unwrap_or_default())?;
    let limit = match args.seconds.map(Duration::try_from_secs_f64) {
        None => None,
        Some(Ok(limit)) => Some(limit),
        Some(Err(_)) => {
            return Err(Error::request(
                "--for: give a positive number of seconds, for example 2.5",
            ));
        }
    };
    let size = args.size.map(|mebibytes| mebibytes.saturating_mul(1 << 20));
    let mut context = demo::DemoContext::read(size, args.scratch, args.network.resolve()?);
    let share = args
        .share
        .map(|percent| demo.share(percent, calibrated_peak));
    let rate = args.rate.map(demo::Share::rate);
    context.share = share.or(rate).transpose()?;
    demo::run(demo, &context, limit)
}

/// The calibrated peak of `resource` on this machine.
pub fn calibrated_peak(resource: Resource) -> Result<f64, String> {
    let found = match saved::load(&Machine::detect()) {
        Saved::Found(calibration) => calibration,
        Saved::Nothing(reason) | Saved::Ignored(reason) => return Err(reason),
    };
    let source = found.resources.get(resource.id());
    let alone = source.and_then(|source| source.alone.value());
    alone.map(|alone| alone.peak.pressure).ok_or_else(|| {
        format!("the machine file has no peak of {resource}; run `jostle machine --calibrate`")
    })
}

fn list() -> Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    for demo in demo::DEMOS {
        // A reader that has seen enough (`| head`) is no failure.
        if writeln!(out, "{:<18} {}", demo.name, demo.about).is_err() {
            break;
        }
    }
    Ok(())
}
