//! `jostle merge`: several runs of one program as one profile.

use super::output;
use super::output::Destination;
use crate::report::Style;
use crate::report::profile_page;
use crate::report::wrap;
use jostle_compare::merge;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use jostle_profile::Profile;
use std::path::PathBuf;

/// Merge repeated runs of one program on one machine into one profile
///
/// Its intervals hold the spread from run to run, which those of a single run
/// leave out; runs that disagree are named.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Profiles of the same program, metric and machine
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    files: Vec<PathBuf>,
    /// File that is written
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print the merged profile as one JSON document
    #[arg(long)]
    json: bool,
    /// Lay out for this many columns instead of the terminal's (120 in a pipe)
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(60..))]
    width: Option<u16>,
}

pub fn run(args: Args) -> Result<()> {
    let loaded = args
        .files
        .iter()
        .map(|path| profile::load(path).map_err(Error::request));
    let runs: Vec<Profile> = loaded.collect::<Result<_>>()?;
    let merged = merge(&runs).map_err(Error::request)?;
    Destination::named("--out", &args.out)?.write(&merged)?;
    if args.json {
        return output::json(&merged);
    }
    let style = Style::for_stdout();
    let style = args.width.map_or(style, |width| style.with_width(width));
    let mut page = profile_page(&merged, style);
    let out = args.out.display();
    let mut told = format!("{} runs merged into {out}.", runs.len());
    for warning in merged
        .conditions
        .warnings
        .iter()
        .filter(|it| it.code == "runs-disagree")
    {
        told += &format!(
            " Warning: {}; `jostle explain {out}` names them.",
            warning.message
        );
    }
    page.push('\n');
    page += &wrap("", &told, style.prose());
    output::text(&page)
}
