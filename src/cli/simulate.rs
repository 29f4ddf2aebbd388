//! `jostle simulate`: policies compete in a scenario, and nobody but the
//! simulator knows the truth.

mod jobs;

use crate::cli::output;
use crate::report;
use crate::report::Style;
use clap::builder::PossibleValue;
use clap::builder::PossibleValuesParser;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile::document;
use jostle_profile::layout;
use jostle_schedule::POLICIES;
use jostle_schedule::admission::ADMISSIONS;
use jostle_simulate as simulate;
use jostle_simulate::InvalidKey;
use jostle_simulate::Scenario;
use jostle_simulate::ScenarioFile;
use jostle_simulate::cloud::StrategySummary;
use jostle_simulate::consolidation::SchemeSummary;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

/// Runs a scenario under several policies, each with the same jobs, and
/// compares what the jobs get. A scenario can also be of machines to rent
/// (kind = "cloud") or of storage to consolidate (kind = "consolidation");
/// both have strategies of their own instead of policies.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// TOML file; scripts/scenarios holds those of the papers, with every key
    /// explained
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Only this policy instead of the scenario's; may be given more than once
    #[arg(long = "policy", value_name = "POLICY", value_parser = policies())]
    policies: Vec<String>,
    /// This admission instead of the scenario's; may be given more than once
    #[arg(long = "admission", value_name = "ADMISSION", value_parser = admissions())]
    admissions: Vec<String>,
    /// Seed of the first run; equal seeds give equal results
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many seeds, counted up from --seed
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Print one JSON document; all of it but `timing` is the same for the same
    /// seeds
    #[arg(long)]
    json: bool,
    /// Also write NAME.json and, of jobs, NAME.svg (how performance is
    /// distributed) into this directory, made when it is not there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only run the first policy once, by itself, and write what the nodes'
    /// counters said at each start and whether the job then straggled: what
    /// --admission wrangler learns from
    #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["admissions", "seeds", "json", "out"])]
    windows: Option<PathBuf>,
    /// Runs at the same time, by default one per CPU; 1 for true decision times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
}

fn policies() -> PossibleValuesParser {
    let kinds = POLICIES.iter();
    PossibleValuesParser::new(kinds.map(|kind| PossibleValue::new(kind.name).help(kind.summary)))
}

fn admissions() -> PossibleValuesParser {
    PossibleValuesParser::new(ADMISSIONS.iter().map(|kind| kind.name))
}

pub fn run(args: Args) -> Result<()> {
    let file = ScenarioFile::load(&args.scenario);
    let file = file.map_err(|error| Error::request(error.to_string()))?;
    match (&file, &args.windows) {
        (ScenarioFile::Jobs(scenario), Some(path)) => return write_windows(scenario, &args, path),
        (ScenarioFile::Jobs(_), None) => {}
        (ScenarioFile::Cloud(_), _) => args.refuse_for("cloud", "strategies")?,
        (ScenarioFile::Consolidation(_), _) => args.refuse_for("consolidation", "schemes")?,
    }
    let name = args.scenario.file_stem().unwrap_or_default();
    let name = name.to_string_lossy();
    let out = args.out.as_deref();
    if let Some(dir) = out
        && let Err(error) = std::fs::create_dir_all(dir)
    {
        let dir = dir.display();
        let wrong = format!("--out {dir}: cannot be made: {error}; name another directory");
        return Err(Error::request(wrong));
    }
    match file {
        ScenarioFile::Jobs(scenario) => jobs::run(&scenario, &args, out),
        ScenarioFile::Cloud(scenario) => study(
            &args,
            &name,
            out,
            [&scenario.name, "cloud", "strategies"],
            |seed| scenario.run(seed),
            StrategySummary::all,
            report::cloud::page,
        ),
        ScenarioFile::Consolidation(scenario) => study(
            &args,
            &name,
            out,
            [&name, "consolidation", "schemes"],
            |seed| scenario.run(seed),
            SchemeSummary::all,
            |outcomes, summaries, style| {
                report::consolidation::page(&name, outcomes, summaries, style)
            },
        ),
    }
}

impl Args {
    fn all_seeds(&self) -> Vec<u64> {
        (0..self.seeds).map(|n| self.seed.wrapping_add(n)).collect()
    }

    fn pool(&self) -> Result<rayon::ThreadPool> {
        let mut pool = rayon::ThreadPoolBuilder::new();
        if let Some(jobs) = self.jobs {
            pool = pool.num_threads(jobs as usize);
        }
        pool.build()
            .map_err(|error| Error::environment(format!("cannot start threads: {error}")))
    }

    /// Refuses what only jobs have; others choose by the key `instead`.
    fn refuse_for(&self, kind: &str, instead: &str) -> Result<()> {
        for (flag, given) in [
            ("--policy", !self.policies.is_empty()),
            ("--admission", !self.admissions.is_empty()),
            ("--windows", self.windows.is_some()),
        ] {
            if given {
                return Err(Error::request(format!(
                    "{flag}: {} is of kind \"{kind}\", which has none; leave the flag out, and \
                     choose by the key `{instead}` of the scenario",
                    self.scenario.display()
                )));
            }
        }
        Ok(())
    }
}

/// Runs the first policy once, first come, first served, and writes labelled
/// windows of it to `path`.
fn write_windows(scenario: &Scenario, args: &Args, path: &Path) -> Result<()> {
    let policies = args.policies.iter().chain(&scenario.policies);
    let policy = policies.map(String::as_str).next().unwrap_or_default();
    let workload = scenario
        .workload(args.seed)
        .map_err(|error| Error::request(error.to_string()))?;
    let settings = scenario.settings(policy, "none", args.seed);
    let (name, seed) = (&scenario.name, args.seed);
    let windows = simulate::windows(&workload, &settings)
        .map_err(|error| Error::request(format!("{name}, {policy}, seed {seed}: {error}")))?;
    let mut csv = Vec::new();
    windows
        .write_csv(&mut csv)
        .map_err(|error| unwritten(path, error))?;
    document::replace(path, &csv).map_err(|error| unwritten(path, error))?;
    output::text(&format!(
        "{}: {} windows of {policy}, seed {seed}; in {} of them the job straggled\n",
        path.display(),
        windows.len(),
        windows.stragglers()
    ))
}

/// A file that could not be written.
fn unwritten(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::environment(format!("cannot write {}: {why}", path.display()))
}

/// Writes `DIR/NAME.json` in one step.
fn write_json(dir: &Path, name: &str, document: &impl Serialize) -> Result<()> {
    let path = dir.join(format!("{name}.json"));
    let json = layout::json(document).map_err(|error| unwritten(&path, error))?;
    document::replace(&path, json.as_bytes()).map_err(|error| unwritten(&path, error))
}

#[derive(Serialize)]
struct Document<'a, O, S> {
    scenario: &'a str,
    kind: &'a str,
    seeds: &'a [u64],
    /// One list, under the name that the kind gives it.
    #[serde(flatten)]
    summaries: BTreeMap<&'a str, &'a [S]>,
    /// By seed.
    runs: &'a [O],
}

/// Of scenarios of which one seed makes one outcome (clouds and consolidations):
/// runs every seed and writes or prints what came of it. `file` is the name of
/// the scenario's file without its ending; the document has the scenario's name,
/// its kind, and the summaries under the third name.
fn study<O: Serialize + Send, S: Serialize>(
    args: &Args,
    file: &str,
    out: Option<&Path>,
    [scenario, kind, list]: [&str; 3],
    run: impl Fn(u64) -> std::result::Result<O, InvalidKey> + Sync,
    summarize: fn(&[O]) -> Vec<S>,
    page: impl Fn(&[O], &[S], Style) -> String,
) -> Result<()> {
    let seeds = args.all_seeds();
    let outcomes = args.pool()?.install(|| {
        let each = seeds.par_iter();
        each.map(|seed| {
            let named = |error| Error::request(format!("{file}, seed {seed}: {error}"));
            run(*seed).map_err(named)
        })
        .collect::<Result<Vec<_>>>()
    })?;
    let summaries = summarize(&outcomes);
    let document = Document {
        scenario,
        kind,
        seeds: &seeds,
        summaries: BTreeMap::from([(list, &summaries[..])]),
        runs: &outcomes,
    };
    if let Some(dir) = out {
        write_json(dir, file, &document)?;
    }
    match args.json {
        true => output::json(&document),
        false => output::text(&page(&outcomes, &summaries, Style::for_stdout())),
    }
}
