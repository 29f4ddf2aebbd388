//! `jostle show`: print a profile.

use super::duration::parse_duration;
use super::output;
use crate::report::Style;
use crate::report::loads_page;
use crate::report::profile_details;
use crate::report::profile_page;
use crate::report::switch_page;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use jostle_profile::Profile;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The profile to print; several of one service under different loads make a table
    /// of what it tolerates at each
    #[arg(required = true)]
    files: Vec<PathBuf>,
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
    if args.files.len() > 1 {
        return loads(&args);
    }
    let file = &args.files[0];
    let profile = profile::load(file).map_err(Error::request)?;
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
            let file = file.display();
            Error::request(format!("{file}: {reason}; profile the program again"))
        })?;
        return output::text(&page);
    }
    let style = style(&args);
    output::text(&match args.verbose {
        true => profile_details(&profile, style),
        false => profile_page(&profile, style),
    })
}

fn style(args: &Args) -> Style {
    let style = Style::for_stdout();
    args.width.map_or(style, |width| style.with_width(width))
}

/// What one service tolerates under several loads.
fn loads(args: &Args) -> Result<()> {
    for (flag, given) in [
        ("--verbose", args.verbose),
        ("--slice", args.slice.is_some()),
    ] {
        if given {
            return Err(Error::request(format!("{flag}: give one profile")));
        }
    }
    let mut profiles = Vec::new();
    for file in &args.files {
        let profile = profile::load(file).map_err(Error::request)?;
        if let Some((first, of)) = profiles.first().zip(args.files.first()) {
            comparable(first, &profile).map_err(|differs| {
                Error::request(format!(
                    "{}: {differs} than {}; only profiles of one service under different loads \
                     make a table; `jostle compare` and `jostle report` take any two",
                    file.display(),
                    of.display()
                ))
            })?;
        }
        profiles.push(profile);
    }
    match args.json {
        true => output::json(&profiles),
        false => output::text(&loads_page(&profiles, style(args))),
    }
}

/// What differs between two profiles beside their load, in words.
fn comparable(one: &Profile, other: &Profile) -> std::result::Result<(), &'static str> {
    let service = |profile: &Profile| {
        let load = profile.metric.load.as_ref();
        load.map(|load| load.url_kind.clone())
    };
    if one.machine.fingerprint != other.machine.fingerprint {
        return Err("another machine");
    }
    match (service(one), service(other)) {
        (Some(one), Some(other)) if one == other => Ok(()),
        (Some(_), Some(_)) => Err("another service"),
        _ => Err("without a load, other"),
    }
}
