//! `jostle provision`: how many instances fit on which machine.

use super::output;
use super::population::population;
use super::threads;
use crate::report::Style;
use crate::report::provision_page;
use jostle_host::machine::Machine;
use jostle_host::machine::calibration::Calibration;
use jostle_host::machine::described;
use jostle_host::machine::described::Described;
use jostle_host::machine::saved;
use jostle_host::machine::saved::Saved;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::near::hint;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::provision::FORMAT;
use jostle_profile::provision::MixFit;
use jostle_profile::provision::MixMember;
use jostle_profile::provision::Provision;
use jostle_profile::reading::Reading;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_DOCUMENT;
use jostle_schedule::App;
use jostle_schedule::predict::Lanes;
use jostle_schedule::predict::Population;
use jostle_schedule::predict::lane;
use jostle_schedule::provision::fit::Candidate;
use jostle_schedule::provision::fit::MixEntry;
use jostle_schedule::provision::fit::Question;
use jostle_schedule::provision::fit::Supply;
use jostle_schedule::provision::fit::fit;
use jostle_schedule::provision::fit::parse_mix;
use jostle_schedule::provision::fit::rank;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;

/// Percent of a resource that one step more is.
const STEP: f64 = 25.0;

/// Tell which machine fits a mix of programs, and what it runs out of first
///
/// For each machine: how many copies of the mix keep the QoS of every program, what
/// limits them, what each program is expected to keep, which resource saturates
/// first, and what one step more of each resource buys. Without --mix, each program
/// by itself.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory with the profiles of the programs
    #[arg(long, value_name = "DIR")]
    apps: PathBuf,
    /// TOML file: the programs of one copy of the mix, with [[app]] name, count,
    /// cpus, memory, qos
    #[arg(long, value_name = "FILE")]
    mix: Option<PathBuf>,
    /// A machine as `jostle machine --json` prints it there; may be repeated
    /// [default: this machine]
    #[arg(long = "machine", value_name = "FILE", num_args = 1..)]
    machines: Vec<PathBuf>,
    /// Performance to keep, such as 90%, in place of that of each profile
    #[arg(long, value_name = "PERCENT", value_parser = qos)]
    qos: Option<f64>,
    /// The programs time-share CPUs; otherwise each instance has CPUs of its own
    #[arg(long)]
    shares_cpus: bool,
    /// How much more of a resource one step is, percent
    #[arg(long, value_name = "PERCENT", default_value_t = STEP, value_parser = step)]
    step: f64,
    /// Directory with profiles; what they have in common stands in for what a
    /// profile leaves open [default: the profiles recorded with this version]
    #[arg(long, value_name = "DIR")]
    population: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A share in percent, with or without the sign; as a fraction.
fn qos(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if percent > 1.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("write percent to keep, above 1 and up to 100, such as 90%".into()),
    }
}

fn step(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (1.0..=1000.0).contains(&percent) => Ok(percent),
        _ => Err("write percent from 1 to 1000".into()),
    }
}

pub fn run(args: Args) -> Result<()> {
    threads::ready()?;
    let supplies = supplies(&args.machines)?;
    let population = population(args.population.as_deref())?;
    let profiles = profile::load_dir(&args.apps);
    let profiles = profiles.map_err(|error| Error::request(format!("--apps {error}")))?;
    if profiles.is_empty() {
        return Err(Error::request(format!(
            "--apps {}: holds no profile (*.json); record some with `jostle profile --out`",
            args.apps.display()
        )));
    }
    let mixes = match &args.mix {
        Some(path) => vec![mix(path, &profiles, &population, args.qos)?],
        None => profiles
            .par_iter()
            .map(|(_, profile)| alone(profile, &population, args.qos))
            .collect(),
    };
    let question = Question {
        shares_cpus: args.shares_cpus,
        step_percent: args.mix.is_some().then_some(args.step),
    };
    for (_, candidates) in &mixes {
        comparable(candidates, &supplies)?;
    }
    let answer = Provision {
        format: FORMAT.to_string(),
        tool_version: env!("CARGO_PKG_VERSION").to_string(),
        shares_cpus: args.shares_cpus,
        step_percent: args.step,
        mixes: mixes
            .par_iter()
            .map(|(name, candidates)| answered(name, candidates, &supplies, question))
            .collect(),
    };
    match args.json {
        true => output::json(&answer)?,
        false => output::text(&provision_page(
            &answer,
            args.mix.is_some(),
            Style::for_stdout(),
        ))?,
    }
    let nowhere = answer.mixes.iter().any(|mix| {
        let mut machines = mix.machines.iter();
        machines.all(|it| it.copies.estimate == 0)
    });
    match args.mix.is_some() && nowhere {
        true => Err(Error::Gate("the mix fits on none of the machines".into())),
        false => Ok(()),
    }
}

fn answered(
    name: &str,
    candidates: &[Candidate],
    supplies: &[Supply],
    question: Question,
) -> MixFit {
    let fits = supplies.iter();
    let mut machines: Vec<_> = fits.map(|it| fit(candidates, it, question)).collect();
    rank(&mut machines);
    MixFit {
        name: name.to_string(),
        applications: candidates.iter().map(member).collect(),
        machines,
    }
}

fn member(one: &Candidate) -> MixMember {
    MixMember {
        name: one.app.name().to_string(),
        count: one.count,
        cpus: one.cpus,
        memory_bytes: one.memory_bytes,
        qos: one.qos,
    }
}

type Mix = (String, Vec<Candidate>);

fn alone(profile: &Profile, population: &Population, qos: Option<f64>) -> Mix {
    let mut candidate = Candidate::of(App::completed(profile, population), profile);
    candidate.qos = qos.unwrap_or(candidate.qos);
    (profile.workload.name.clone(), vec![candidate])
}

fn mix(
    path: &Path,
    profiles: &[(PathBuf, Profile)],
    population: &Population,
    qos: Option<f64>,
) -> Result<Mix> {
    let wrong = |problem: String| Error::request(format!("--mix {}: {problem}", path.display()));
    let bytes = regular::read(path, LONGEST_DOCUMENT).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8 text".into()))?;
    let entries = parse_mix(&text).map_err(wrong)?;
    let candidate = |entry: &MixEntry| {
        let found = profiles
            .iter()
            .find(|(_, it)| it.workload.name == entry.name);
        let Some((_, profile)) = found else {
            let names = profiles.iter().map(|(_, it)| it.workload.name.as_str());
            let near = hint(&entry.name, names, "");
            return Err(wrong(format!(
                "no profile in --apps is of `{}`{near}",
                entry.name
            )));
        };
        let mut one = Candidate::of(App::completed(profile, population), profile);
        one.count = entry.count;
        one.cpus = entry.cpus.unwrap_or(one.cpus);
        one.memory_bytes = entry.memory_bytes.or(one.memory_bytes);
        // What the file says of one application goes before what is said of all.
        one.qos = entry.qos.or(qos).unwrap_or(one.qos);
        Ok(one)
    };
    let candidates = entries.iter().map(candidate).collect::<Result<_>>()?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok((name.into_owned(), candidates))
}

/// The machines that were named, or this one.
fn supplies(files: &[PathBuf]) -> Result<Vec<Supply>> {
    if files.is_empty() {
        return Ok(vec![this_machine()]);
    }
    let mut names = BTreeSet::new();
    files
        .iter()
        .map(|path| {
            let machine = described::load(path);
            let machine =
                machine.map_err(|problem| Error::request(format!("--machine {problem}")))?;
            let mut supply = supply(&machine)
                .map_err(|why| Error::request(format!("--machine {}: {why}", path.display())))?;
            if !names.insert(supply.name.clone()) {
                supply.name = path.display().to_string();
            }
            Ok(supply)
        })
        .collect()
}

fn supply(machine: &Described) -> Result<Supply, String> {
    let cpus = machine.cpus.value().copied();
    Ok(Supply {
        name: machine.name.clone(),
        model: machine.model.clone(),
        fingerprint: machine.fingerprint.clone(),
        cpus: cpus
            .ok_or("says nothing of CPUs and memory; give what `jostle machine --json` prints")?,
        memory_bytes: machine.memory_bytes.value().copied(),
        peaks: peaks(machine.calibration.value().map(|it| &**it)),
    })
}

fn this_machine() -> Supply {
    let machine = Machine::detect();
    let saved = saved::load(&machine);
    let calibration = match &saved {
        Saved::Found(calibration) => Some(calibration.as_ref()),
        Saved::Nothing(_) | Saved::Ignored(_) => None,
    };
    Supply {
        name: "this machine".into(),
        model: machine.model.clone(),
        fingerprint: machine.fingerprint(),
        cpus: machine.allowed_cpus.len() as u32,
        memory_bytes: Some(machine.memory.total_bytes).filter(|bytes| *bytes > 0),
        peaks: peaks(calibration),
    }
}

fn peaks(calibration: Option<&Calibration>) -> Lanes<Option<f64>> {
    let mut peaks: Lanes<Option<f64>> = Default::default();
    for (id, source) in calibration.iter().flat_map(|it| &it.resources) {
        if let (Some(lane), Reading::Value(alone)) = (lane(id), &source.alone) {
            peaks[lane] = Some(alone.peak.pressure).filter(|it| *it > 0.0);
        }
    }
    peaks
}

/// Profiles of another machine need its peaks to mean anything there.
fn comparable(candidates: &[Candidate], supplies: &[Supply]) -> Result<()> {
    for supply in supplies {
        let foreign = candidates
            .iter()
            .find(|it| it.fingerprint != supply.fingerprint);
        let Some(foreign) = foreign else { continue };
        if supply.peaks.iter().all(Option::is_none) {
            return Err(Error::request(format!(
                "{}: not calibrated, and {} was recorded on another machine ({}): its pressure \
                 cannot be scaled; run `jostle machine --calibrate` on that machine, then \
                 `jostle machine --json`",
                supply.name,
                foreign.app.name(),
                foreign.app.measured_on
            )));
        }
    }
    Ok(())
}
