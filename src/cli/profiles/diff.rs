//! `jostle profiles diff`: what differs between two profiles, without a gate.

use crate::cli::compare;
use crate::cli::compare_run::Format;
use jostle_compare::Settings;
use jostle_measure::error::Result;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    old: PathBuf,
    new: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Lay out for this many columns instead of the terminal's (120 in a pipe)
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(60..))]
    width: Option<u16>,
}

pub fn run(args: Args) -> Result<()> {
    // To look is not to judge: other machines and metrics are warned of.
    let settings = Settings {
        anyway: true,
        ..Settings::default()
    };
    let comparison = compare::of_files(&args.old, &args.new, &settings)?;
    let format = if args.json {
        Format::Json
    } else {
        Format::Terminal
    };
    compare::print(&comparison, format, args.width, false)
}
