//! `jostle release`: resumes what a killed jostle left stopped or frozen.

use super::output;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::workload;

/// Resume processes that a killed jostle left stopped or frozen
///
/// A measurement that ends, is interrupted or is killed resumes its target by itself.
/// This command is for events that kill every process of jostle at once, such as the
/// OOM killer in a container. Running measurements are not affected.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
}

pub fn run(args: Args) -> Result<()> {
    let released = workload::release(args.dry_run)?;
    let mut text = String::new();
    for one in &released {
        text += &format!("{one}\n");
    }
    if released.is_empty() {
        text = "nothing is held\n".into();
    }
    output::text(&text)?;
    match released.iter().any(workload::Released::failed) {
        true => Err(Error::environment("not everything could be released")),
        false => Ok(()),
    }
}
