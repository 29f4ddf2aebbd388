//! `jostle demo`.

use super::network::NetworkArgs;
use crate::error::Error;
use crate::error::Result;
use crate::workload::demo;
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
    let context = demo::DemoContext::read(size, args.scratch, args.network.resolve()?);
    demo::run(demo, &context, limit)
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
