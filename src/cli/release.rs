//! `jostle release`: what a killed jostle left held goes on.

use super::output;
use crate::error::Error;
use crate::error::Result;
use crate::workload;

/// Let everything go on that a killed jostle left stopped or frozen
///
/// A measurement that ends, is interrupted or is killed lets its target go on by
/// itself. This is for what ends all of jostle at once, such as a kill of the whole
/// cgroup. A measurement that runs is left alone.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
}

pub fn run(args: Args) -> Result<()> {
    let released = workload::release(args.dry_run)?;
    let mut text = String::new();
    let would = if args.dry_run { "would have " } else { "" };
    for one in &released {
        match one.outcome.is_a_deed() {
            true => text += &format!("{would}{one}\n"),
            false => text += &format!("{one}\n"),
        }
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
