//! `jostle show`: print a profile.

use super::output;
use crate::error::Error;
use crate::error::Result;
use crate::report::Style;
use crate::report::profile_table;
use jostle_profile as profile;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The profile to print
    file: PathBuf,
    /// Print the profile as one JSON document, as it was understood
    #[arg(long)]
    json: bool,
    /// Lay out for this many columns instead of the terminal's (120 in a pipe)
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(60..))]
    width: Option<u16>,
}

pub fn run(args: Args) -> Result<()> {
    let profile = profile::load(&args.file).map_err(Error::request)?;
    if args.json {
        return output::json(&profile);
    }
    let style = Style::for_stdout();
    let style = args.width.map_or(style, |width| style.with_width(width));
    output::text(&profile_table(&profile, style))
}
