//! `jostle show`: print a profile.

use super::duration::parse_duration;
use super::output;
use crate::error::Error;
use crate::error::Result;
use crate::report::Style;
use crate::report::profile_details;
use crate::report::profile_page;
use crate::report::switch_page;
use jostle_profile as profile;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The profile to print
    file: PathBuf,
    /// Print the profile as one JSON document, as it was understood
    #[arg(long)]
    json: bool,
    /// Print everything the profile says
    #[arg(long, conflicts_with = "json")]
    verbose: bool,
    /// Print the losses expected on a CPU shared in turns of this length, like 3ms,
    /// and stop
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "json")]
    slice: Option<Duration>,
    /// Lay out for this many columns instead of the terminal's (120 in a pipe)
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(60..))]
    width: Option<u16>,
}

pub fn run(args: Args) -> Result<()> {
    let profile = profile::load(&args.file).map_err(Error::request)?;
    if args.json {
        return output::json(&profile);
    }
    if let Some(slice) = args.slice {
        if slice.is_zero() {
            return Err(Error::request(
                "--slice: a turn takes time; give for example 3ms",
            ));
        }
        let page = switch_page(&profile, slice.as_secs_f64());
        let page = page.map_err(|reason| {
            let file = args.file.display();
            Error::request(format!("{file}: {reason}; profile the program again"))
        })?;
        return output::text(&page);
    }
    let style = Style::for_stdout();
    let style = args.width.map_or(style, |width| style.with_width(width));
    output::text(&match args.verbose {
        true => profile_details(&profile, style),
        false => profile_page(&profile, style),
    })
}
