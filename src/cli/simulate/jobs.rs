//! Jobs on a cluster, under several policies and admissions.

use super::Args;
use super::unwritten;
use super::write_json;
use crate::cli::output;
use crate::report::Style;
use crate::report::simulation;
use jostle_measure::console::note;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile::document;
use jostle_simulate as simulate;
use jostle_simulate::DecisionTimes;
use jostle_simulate::Outcome;
use jostle_simulate::Scenario;
use jostle_simulate::Summary;
use jostle_simulate::Timing;
use rayon::prelude::*;
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

/// Points of a distribution in the document.
const CDF_STEPS: usize = 100;

/// After so long the first word on how far it is.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Document<'a> {
    scenario: &'a str,
    policies: Vec<PolicyResult>,
    /// Real time; never the same twice.
    timing: Vec<PolicyTiming>,
}

#[derive(Serialize)]
struct PolicyResult {
    #[serde(flatten)]
    summary: Summary,
    /// Performance, and the share of jobs that do not pass it.
    performance_cdf: Vec<[f64; 2]>,
}

#[derive(Serialize)]
struct PolicyTiming {
    policy: String,
    admission: String,
    #[serde(flatten)]
    times: DecisionTimes,
    /// Runs shared the machine with others, which makes decisions slower.
    parallel: bool,
}

/// A policy behind an admission.
type Contender = (String, String);

pub fn run(scenario: &Scenario, args: &Args, out: Option<&Path>) -> Result<()> {
    let policies = match args.policies.is_empty() {
        true => &scenario.policies,
        false => &args.policies,
    };
    let admissions = match args.admissions.is_empty() {
        true => &scenario.admissions,
        false => &args.admissions,
    };
    for admission in admissions {
        scenario
            .check_admission(admission)
            .map_err(|error| Error::request(format!("{admission}: {error}")))?;
    }
    let with = |policy: &String| {
        let with = |admission: &String| (policy.clone(), admission.clone());
        admissions.iter().map(with).collect::<Vec<Contender>>()
    };
    let contenders: Vec<Contender> = policies.iter().flat_map(with).collect();
    let seeds = args.all_seeds();
    let pool = args.pool()?;
    let parallel = pool.current_num_threads() > 1 && contenders.len() * seeds.len() > 1;
    let runs = pool.install(|| all(scenario, &contenders, &seeds))?;

    let mut results = Vec::with_capacity(contenders.len());
    for ((policy, _), runs) in contenders.iter().zip(&runs) {
        let summary = Summary::of(runs).ok_or_else(|| {
            Error::Gate(format!(
                "{}: no job ran under {policy}: every one asks for more CPUs or memory than any \
                 node has",
                args.scenario.display(),
            ))
        })?;
        let outcomes = runs.iter().map(|(outcome, _)| outcome);
        results.push(PolicyResult {
            summary,
            performance_cdf: simulate::performance_cdf(outcomes, CDF_STEPS),
        });
    }
    let timing = results.iter().map(|result| PolicyTiming {
        policy: result.summary.policy.clone(),
        admission: result.summary.admission.clone(),
        times: result.summary.decision_times,
        parallel,
    });
    let document = Document {
        scenario: &scenario.name,
        timing: timing.collect(),
        policies: results,
    };
    if let Some(dir) = out {
        write(dir, &document)?;
    }
    if args.json {
        return output::json(&document);
    }
    let results = document.policies.into_iter();
    let summaries: Vec<Summary> = results.map(|result| result.summary).collect();
    let style = Style::for_stdout();
    output::text(&simulation::page(
        &scenario.name,
        &summaries,
        parallel,
        style,
    ))
}

/// Runs by contender, each in the order of `seeds`. A workload is drawn once
/// and given to every contender.
fn all(
    scenario: &Scenario,
    contenders: &[Contender],
    seeds: &[u64],
) -> Result<Vec<Vec<(Outcome, Timing)>>> {
    let (began, done) = (Instant::now(), AtomicUsize::new(0));
    let by_seed: Vec<Vec<(Outcome, Timing)>> = seeds
        .par_iter()
        .map(|seed| {
            let workload = scenario
                .workload(*seed)
                .map_err(|error| Error::request(error.to_string()))?;
            contenders
                .par_iter()
                .map(|(policy, admission)| {
                    let settings = scenario.settings(policy, admission, *seed);
                    let result = simulate::run(&workload, &settings).map_err(|error| {
                        Error::request(format!("{}, {policy}, seed {seed}: {error}", scenario.name))
                    });
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if began.elapsed() > PATIENCE {
                        let all = contenders.len() * seeds.len();
                        note!("jostle: {done} of {all} runs: {policy}, seed {seed}");
                    }
                    result
                })
                .collect()
        })
        .collect::<Result<_>>()?;
    let mut by_contender: Vec<Vec<_>> = contenders.iter().map(|_| Vec::new()).collect();
    for runs in by_seed {
        for (contender, run) in by_contender.iter_mut().zip(runs) {
            contender.push(run);
        }
    }
    Ok(by_contender)
}

fn write(dir: &Path, document: &Document) -> Result<()> {
    write_json(dir, document.scenario, document)?;
    let path = dir.join(format!("{}.svg", document.scenario));
    let name = |summary: &Summary| match summary.admission.as_str() {
        "none" => summary.policy.clone(),
        admission => format!("{} + {admission}", summary.policy),
    };
    let results = document.policies.iter();
    let lines = results.map(|result| (name(&result.summary), &result.performance_cdf[..]));
    let lines: Vec<(String, &[[f64; 2]])> = lines.collect();
    let svg = simulation::cdf_plot(document.scenario, &lines)
        .ok_or_else(|| unwritten(&path, "the plot could not be drawn"))?;
    document::replace(&path, svg.as_bytes()).map_err(|error| unwritten(&path, error))
}
