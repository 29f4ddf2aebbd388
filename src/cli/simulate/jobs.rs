//! Jobs on a cluster, under several policies and admissions.

use super::Args;
use super::unwritten;
use super::write_json;
use crate::cli::output;
use crate::console::note;
use crate::error::Error;
use crate::error::Result;
use crate::report::Style;
use crate::report::simulation;
use jostle_profile::document;
use jostle_simulate as simulate;
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
    policies: Vec<PolicyResult<'a>>,
    /// Real time; never the same twice.
    timing: Vec<PolicyTiming<'a>>,
}

#[derive(Serialize)]
struct PolicyResult<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    /// Performance, and the share of jobs that do not pass it.
    performance_cdf: &'a [[f64; 2]],
}

#[derive(Serialize)]
struct PolicyTiming<'a> {
    policy: &'a str,
    admission: &'a str,
    decision_p50_seconds: f64,
    decision_p99_seconds: f64,
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
    let contenders: Vec<Contender> = policies
        .iter()
        .flat_map(|policy| {
            let with = |admission: &String| (policy.clone(), admission.clone());
            admissions.iter().map(with)
        })
        .collect();
    let seeds = args.all_seeds();
    let pool = args.pool()?;
    let parallel = pool.current_num_threads() > 1 && contenders.len() * seeds.len() > 1;
    let runs = pool.install(|| all(scenario, &contenders, &seeds))?;

    let mut summaries = Vec::with_capacity(contenders.len());
    let mut cdfs = Vec::with_capacity(contenders.len());
    for (policy, runs) in contenders.iter().zip(&runs) {
        let summary = Summary::of(runs).ok_or_else(|| {
            Error::Gate(format!(
                "{}: no job ran under {}: every one asks for more CPUs or memory than any node has",
                args.scenario.display(),
                policy.0
            ))
        })?;
        summaries.push(summary);
        let outcomes = runs.iter().map(|(outcome, _)| outcome);
        cdfs.push(simulate::performance_cdf(outcomes, CDF_STEPS));
    }
    let document = Document {
        scenario: &scenario.name,
        policies: summaries
            .iter()
            .zip(&cdfs)
            .map(|(summary, cdf)| PolicyResult {
                summary,
                performance_cdf: cdf,
            })
            .collect(),
        timing: summaries
            .iter()
            .map(|summary| PolicyTiming {
                policy: &summary.policy,
                admission: &summary.admission,
                decision_p50_seconds: summary.decision_times.p50_seconds,
                decision_p99_seconds: summary.decision_times.p99_seconds,
                parallel,
            })
            .collect(),
    };
    if let Some(dir) = out {
        write(dir, &document)?;
    }
    if args.json {
        output::json(&document)
    } else {
        let style = Style::for_stdout();
        output::text(&simulation::page(
            &scenario.name,
            &summaries,
            parallel,
            style,
        ))
    }
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
    let names: Vec<String> = document
        .policies
        .iter()
        .map(|result| match result.summary.admission.as_str() {
            "none" => result.summary.policy.clone(),
            admission => format!("{} + {admission}", result.summary.policy),
        })
        .collect();
    let lines: Vec<(&str, &[[f64; 2]])> = names
        .iter()
        .zip(&document.policies)
        .map(|(name, result)| (name.as_str(), result.performance_cdf))
        .collect();
    let svg = simulation::cdf_plot(document.scenario, &lines)
        .ok_or_else(|| unwritten(&path, "the plot could not be drawn"))?;
    document::replace(&path, svg.as_bytes()).map_err(|error| unwritten(&path, error))
}
