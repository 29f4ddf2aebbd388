//! `jostle predict`: how fast programs would be next to each other.

use super::output;
use super::population::population;
use crate::report::Style;
use crate::report::prediction;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_schedule::App;
use jostle_schedule::predict;
use jostle_schedule::predict::Prediction;
use jostle_schedule::predict::Subject;
use jostle_schedule::predict::lane;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;

/// Predicts the performance of each program beside all the others on one
/// machine: the product over resources of what the pressure of the others
/// costs it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Profiles of the programs; one given twice stands for two instances
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The programs take turns on the same CPUs; otherwise each has CPUs of its
    /// own, and what was measured taking turns on one does not count
    #[arg(long)]
    shares_cpus: bool,
    /// Directory with profiles; what they have in common stands in for what a
    /// profile leaves open [default: the profiles recorded with this version]
    #[arg(long, value_name = "DIR")]
    population: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A profile, read once however often it is named.
struct Loaded {
    profile: Profile,
    app: App,
}

#[derive(Serialize)]
struct Outcome<'a> {
    shares_cpus: bool,
    applications: Vec<Application<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Application<'a> {
    file: String,
    #[serde(flatten)]
    prediction: &'a Prediction,
}

pub fn run(args: Args) -> Result<()> {
    let population = population(args.population.as_deref())?;
    let mut loaded: Vec<Loaded> = Vec::new();
    let mut seen: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let mut which = Vec::with_capacity(args.files.len());
    for path in &args.files {
        let place = path.canonicalize().unwrap_or_else(|_| path.clone());
        let index = match seen.entry(place) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let profile = profile::load(path).map_err(Error::request)?;
                let app = App::completed(&profile, &population);
                loaded.push(Loaded { profile, app });
                *new.insert(loaded.len() - 1)
            }
        };
        which.push(index);
    }
    let those: Vec<&Loaded> = which.iter().map(|index| &loaded[*index]).collect();
    let names = told_apart(those.iter().map(|one| one.app.name()));
    let subjects: Vec<Subject> = those
        .iter()
        .zip(&names)
        .map(|(one, name)| Subject {
            name,
            responses: &one.app.responses,
            counted: one.app.counted(args.shares_cpus),
            qos: one.profile.qos.threshold,
        })
        .collect();
    let mut predictions = predict::co_location(&subjects, args.shares_cpus);
    // The library knows that a score is missing; the profile knows why.
    for gap in predictions.iter_mut().flat_map(|p| &mut p.not_known) {
        let why = lane(gap.resource).and_then(|lane| those[gap.subject].app.missing(lane));
        if let Some(why) = why {
            gap.why = why.into();
        }
    }
    let notes = notes(&args, &loaded);
    if args.json {
        let entries = args.files.iter().zip(&predictions);
        let entries = entries.map(|(path, prediction)| Application {
            file: path.display().to_string(),
            prediction,
        });
        return output::json(&Outcome {
            shares_cpus: args.shares_cpus,
            applications: entries.collect(),
            notes: &notes,
        });
    }
    output::text(&prediction::page(
        &predictions,
        args.shares_cpus,
        &notes,
        Style::for_stdout(),
    ))
}

/// The names, with a number behind those that stand more than once.
fn told_apart<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<&str> = names.collect();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    names
        .iter()
        .map(|name| {
            if names.iter().filter(|other| *other == name).count() == 1 {
                return name.to_string();
            }
            let number = count.entry(name).or_default();
            *number += 1;
            format!("{name} #{number}")
        })
        .collect()
}

/// What the reader should know before believing the numbers.
fn notes(args: &Args, loaded: &[Loaded]) -> Vec<String> {
    let mut notes = Vec::new();
    let machine = |one: &Loaded| one.profile.machine.fingerprint.clone();
    if loaded.iter().any(|one| machine(one) != machine(&loaded[0])) {
        let of = loaded.iter().map(|one| {
            let machine = &one.profile.machine;
            let (name, model) = (one.app.name(), &machine.model);
            format!("{name}: {model} ({})", machine.fingerprint)
        });
        notes.push(format!(
            "not measured on the same machine, so that scores may not compare: {}",
            of.collect::<Vec<_>>().join("; ")
        ));
    }
    for one in loaded {
        let name = one.app.name();
        if let Some(most) = one.profile.conditions.max_intensity_percent {
            notes.push(format!(
                "{name}: measured with no source above {most:.0} %: it may tolerate more, and                  cause less, than its scores say"
            ));
        }
        if one.profile.partial {
            notes.push(format!("{name}: its profile was cut short"));
        }
        if !one.app.unknown_resources.is_empty() {
            notes.push(format!(
                "{name}: not known to this version and left out: {}",
                one.app.unknown_resources.join(", ")
            ));
        }
    }
    if !args.shares_cpus && args.files.len() > 1 {
        notes.extend(in_turns_only(loaded));
    }
    notes
}

/// What does not count because it was measured in turns on one CPU: one sentence for all
/// applications of which the same is so.
fn in_turns_only(loaded: &[Loaded]) -> Vec<String> {
    let mut of: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for one in loaded {
        let lanes = one.app.counted(true).without(one.app.counted(false));
        let left_out = lanes.iter().filter(|lane| one.app.mentions(*lane));
        let left_out: Vec<&str> = left_out.map(predict::resource_id).collect();
        let names = of.entry(left_out.join(", ")).or_default();
        if !names.contains(&one.app.name()) {
            names.push(one.app.name());
        }
    }
    of.remove("");
    of.into_iter()
        .map(|(left_out, names)| {
            format!(
                "not counted, because measured in turns on one CPU: {left_out} of {} (--shares-cpus counts it)",
                names.join(", ")
            )
        })
        .collect()
}
