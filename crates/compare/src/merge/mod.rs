//! Several runs of one program on one machine as one profile.
//!
//! Each number is pooled over the runs with the spread between them, which the
//! intervals of a single run leave out (`jostle_statistics::pool`). Scores come
//! from the scores of the runs. Runs that disagree are named.

mod curve;
mod entry;
mod usage;

use crate::conditions;
use curve::Shared;
use jostle_profile::Conditions;
use jostle_profile::Estimate;
use jostle_profile::MergedFacts;
use jostle_profile::MergedRun;
use jostle_profile::Profile;
use jostle_profile::WarningFacts;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use thiserror::Error;

/// Why profiles cannot be merged; runs are numbered from 1 in the order given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MergeError {
    #[error("there is nothing to merge: give two profiles or more")]
    TooFew,
    #[error("profile {number} is merged already; merge the single runs")]
    Merged { number: usize },
    #[error("profiles {first} and {number} hold the same measurement; give each run once")]
    Twice { first: usize, number: usize },
    #[error("profiles 1 and {number} are not runs of one program on one machine: {why}")]
    Unlike { number: usize, why: String },
}

/// One profile of all `runs`.
///
/// # Errors
/// Fewer than two runs, a run that is there twice or merged already, or runs of
/// different programs, machines, metrics, loads or thresholds.
pub fn merge(runs: &[Profile]) -> Result<Profile, MergeError> {
    check(runs)?;
    let mut runs: Vec<&Profile> = runs.iter().collect();
    runs.sort_by(|a, b| a.conditions.recorded_at.cmp(&b.conditions.recorded_at));
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
        return Err(MergeError::TooFew);
    };
    let ids: BTreeSet<&String> = runs.iter().flat_map(|run| run.resources.keys()).collect();
    let shared = Shared {
        spread: curve::common_spread_of(&runs, &ids),
        threshold: first.qos.threshold,
        tests: ids.len() as f64,
    };
    let mut merged = (*last).clone();
    merged.resources = ids
        .into_iter()
        .map(|id| (id.clone(), entry::merge(id, &runs, &shared)))
        .collect();
    merged.partial = runs.iter().any(|run| run.partial);
    merged.readings = None;
    merged.workload.labels = common_labels(&runs);
    let baselines: Vec<Estimate> = runs.iter().filter_map(|run| run.metric.baseline).collect();
    merged.metric.baseline = curve::estimate(&baselines, shared.spread);
    merged.usage = usage::merge(&runs);
    merged.conditions = conditions_of(&runs, &last.conditions);
    // What only some runs measured is of the first of them.
    let together = runs.iter().find(|run| !run.together.is_empty());
    merged.together = together.map_or(Vec::new(), |run| run.together.clone());
    merged.scaling = runs.iter().find_map(|run| run.scaling.clone());
    if !merged.together.is_empty() || merged.scaling.is_some() {
        merged.conditions.warn(warning(
            "one-run",
            "two sources at once, and more CPUs or copies, are from one run and not merged".into(),
        ));
    }
    let disagree = |it: &&jostle_profile::ResourceEntry| {
        it.warnings
            .iter()
            .any(|warning| warning.code == entry::DISAGREE)
    };
    let disagreeing = merged.resources.values().filter(disagree).count();
    if disagreeing > 0 {
        let message = format!(
            "the {} runs disagree on {disagreeing} resources by more than their noise",
            runs.len()
        );
        merged.conditions.warn(warning(entry::DISAGREE, message));
    }
    merged.merged = Some(MergedFacts {
        spread_percent: 100.0 * shared.spread,
        runs: runs.iter().map(|run| run_of(&run.conditions)).collect(),
    });
    Ok(merged)
}

fn check(runs: &[Profile]) -> Result<(), MergeError> {
    let first = match runs {
        [] | [_] => return Err(MergeError::TooFew),
        [first, ..] => first,
    };
    let mut seen = BTreeMap::new();
    for (number, run) in (1..).zip(runs) {
        if run.merged.is_some() {
            return Err(MergeError::Merged { number });
        }
        let conditions = &run.conditions;
        let measurement = (
            &conditions.recorded_at,
            conditions.seed,
            conditions.duration_seconds.to_bits(),
        );
        if let Some(first) = seen.insert(measurement, number) {
            return Err(MergeError::Twice { first, number });
        }
        if let Some(why) = unlike(first, run) {
            return Err(MergeError::Unlike { number, why });
        }
    }
    Ok(())
}

fn unlike(first: &Profile, run: &Profile) -> Option<String> {
    let [a, b] = [first, run].map(|it| &it.workload.name);
    if a != b {
        return Some(format!("they are named {a} and {b}"));
    }
    let [a, b] = [first, run].map(|it| &it.machine.fingerprint);
    if a != b {
        return Some(format!("the machines are {a} and {b}"));
    }
    let [a, b] = [first, run].map(|it| it.qos.threshold);
    if a != b {
        return Some(format!("the QoS thresholds are {a} and {b}"));
    }
    let notices = conditions::notices(first, run);
    let refusing = notices
        .into_iter()
        .find(|it| it.refuses || it.code == "slice");
    refusing.map(|notice| notice.message)
}

fn run_of(conditions: &Conditions) -> MergedRun {
    MergedRun {
        recorded_at: conditions.recorded_at.clone(),
        duration_seconds: conditions.duration_seconds,
        seed: conditions.seed,
        tool_version: conditions.tool_version.clone(),
    }
}

fn common_labels(runs: &[&Profile]) -> BTreeMap<String, String> {
    let mut labels = runs[0].workload.labels.clone();
    labels.retain(|key, value| {
        runs.iter()
            .all(|run| run.workload.labels.get(key) == Some(value))
    });
    labels
}

/// Times and windows add up; the rest is the last run's.
fn conditions_of(runs: &[&Profile], last: &Conditions) -> Conditions {
    let all = || runs.iter().map(|run| &run.conditions);
    let noise: Vec<f64> = all().filter_map(|it| it.noise_percent).collect();
    let mut merged = last.clone();
    merged.duration_seconds = all().map(|it| it.duration_seconds).sum();
    merged.budget_seconds = all().map(|it| it.budget_seconds).sum();
    merged.windows_kept = all().map(|it| it.windows_kept).sum();
    merged.windows_dropped = all().map(|it| it.windows_dropped).sum();
    merged.noise_percent = (!noise.is_empty()).then(|| jostle_statistics::mean(&noise));
    merged.quick = all().all(|it| it.quick);
    merged.smallest_detectable_percent = None;
    // Seconds since the start of another run mean nothing.
    merged.phases.clear();
    merged.doubts.clear();
    merged.warnings.clear();
    let lists = all().map(|it| (it.doubts.as_slice(), it.warnings.as_slice()));
    (merged.doubts, merged.warnings) = warnings_of(lists);
    merged
}

/// Each sentence once, in order.
fn warnings_of<'a>(
    lists: impl Iterator<Item = (&'a [String], &'a [WarningFacts])>,
) -> (Vec<String>, Vec<WarningFacts>) {
    let (mut doubts, mut warnings) = (Vec::new(), Vec::new());
    let (mut said, mut warned) = (BTreeSet::new(), BTreeSet::new());
    for (more_doubts, more_warnings) in lists {
        doubts.extend(
            more_doubts
                .iter()
                .filter(|it| said.insert(it.as_str()))
                .cloned(),
        );
        let new = more_warnings
            .iter()
            .filter(|it| warned.insert(it.message.as_str()));
        warnings.extend(new.cloned());
    }
    (doubts, warnings)
}

fn warning(code: &str, message: String) -> WarningFacts {
    WarningFacts {
        code: code.into(),
        message,
        fields: BTreeMap::new(),
    }
}
