//! `jostle evaluate`: how well predictions hold on recorded co-locations.

use super::output;
use super::output::Destination;
use super::population::is_demo;
use crate::report::Style;
use crate::report::evaluation;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::layout;
use jostle_profile::pairs;
use jostle_profile::pairs::Pairs;
use jostle_schedule::evaluate;
use jostle_schedule::evaluate::Evaluation;
use jostle_schedule::evaluate::Known;
use jostle_schedule::predict::Population;
use std::path::Path;
use std::path::PathBuf;

/// Predicts every group of recorded co-locations from the profiles of
/// its applications, and compares with what was measured. Whatever is learned
/// excludes the applications of the group.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Recorded co-locations, as `jostle pairs --out` writes them; several files of one
    /// machine count together
    #[arg(value_name = "PAIRS", required_unless_present = "save_population")]
    pairs: Vec<PathBuf>,
    /// Directory with the profiles of the applications; a file's name without
    /// its ending is the name in PAIRS
    #[arg(long, value_name = "DIR")]
    profiles: PathBuf,
    /// How many of the worst predictions to list for each placement
    #[arg(long, value_name = "N", default_value_t = 5)]
    worst: usize,
    /// Draw predicted against measured into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write what the profiles have in common, and what they leave unexplained of
    /// PAIRS, as it comes with the program
    #[arg(long, value_name = "FILE")]
    save_population: Option<PathBuf>,
    /// Predict groups of profiles from different machines, too
    #[arg(long)]
    mix_machines: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<()> {
    let named = |flag: &str, path: &Option<PathBuf>| {
        let path = path.as_deref();
        path.map(|path| Destination::named(flag, path)).transpose()
    };
    let svg = named("--svg", &args.svg)?;
    let saved = named("--save-population", &args.save_population)?;
    let profiles = profile::load_dir(&args.profiles);
    let profiles = profiles.map_err(|error| Error::request(format!("--profiles {error}")))?;
    let applications = profiles.iter().map(|(_, profile)| profile);
    let mut population = Population::of(applications.filter(|profile| !is_demo(profile)));
    let found = match args.pairs.is_empty() {
        true => None,
        false => Some(against(&args, &profiles)?),
    };
    if let Some(saved) = saved {
        if let Some(found) = &found {
            population.learn_unexplained(found);
        }
        let text = layout::json(&population).map_err(Error::environment)?;
        saved.replace(text.as_bytes())?;
    }
    let Some(found) = found else {
        return Ok(());
    };
    if let Some(svg) = svg {
        let drawn = evaluation::scatter(&found).map_err(Error::environment)?;
        svg.replace(drawn.as_bytes())?;
    }
    if args.json {
        return output::json(&found);
    }
    output::text(&evaluation::page(&found, args.worst, Style::for_stdout()))
}

fn against(args: &Args, profiles: &[(PathBuf, Profile)]) -> Result<Evaluation> {
    let recorded = together(&args.pairs, args.mix_machines)?;
    let paths = args.pairs.iter().map(|path| path.display().to_string());
    let paths = paths.collect::<Vec<_>>().join(", ");
    let known = of_one_machine(&paths, args, &recorded.machine.fingerprint, profiles)?;
    let found = evaluate::evaluate(&recorded, &known);
    match found.placements.is_empty() {
        true => Err(Error::request(format!(
            "{paths}: no group has profiles of all its applications in {}; {}",
            args.profiles.display(),
            found.left_out.join("; ")
        ))),
        false => Ok(found),
    }
}

/// The groups of all `paths` in the first of them.
fn together(paths: &[PathBuf], mix_machines: bool) -> Result<Pairs> {
    let mut all: Option<Pairs> = None;
    for path in paths {
        let recorded = pairs::load(path).map_err(Error::request)?;
        match &mut all {
            None => all = Some(recorded),
            Some(first)
                if mix_machines || first.machine.fingerprint == recorded.machine.fingerprint =>
            {
                first.groups.extend(recorded.groups);
            }
            Some(_) => {
                return Err(Error::request(format!(
                    "{}: measured on another machine than {}; evaluate them one by one, or give \
                     --mix-machines",
                    path.display(),
                    paths[0].display()
                )));
            }
        }
    }
    all.ok_or_else(|| Error::request("PAIRS: name a file that `jostle pairs --out` wrote"))
}

/// The profiles by the names that pairs use, without those of other machines than
/// the pairs were measured on.
fn of_one_machine<'a>(
    pairs: &str,
    args: &Args,
    fingerprint: &str,
    profiles: &'a [(PathBuf, Profile)],
) -> Result<Vec<Known<'a>>> {
    let known: Vec<Known> = profiles
        .iter()
        .filter(|(_, profile)| args.mix_machines || profile.machine.fingerprint == fingerprint)
        .map(|(path, profile)| Known {
            name: stem(path),
            profile,
        })
        .collect();
    if known.len() < profiles.len() {
        warning!(
            "{} of {} profiles left out: measured on another machine than the co-locations; --mix-machines keeps them",
            profiles.len() - known.len(),
            profiles.len()
        );
    }
    match known.is_empty() {
        true => Err(Error::request(format!(
            "--profiles {}: no profile of the machine that {} was measured on",
            args.profiles.display(),
            pairs
        ))),
        false => Ok(known),
    }
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}
