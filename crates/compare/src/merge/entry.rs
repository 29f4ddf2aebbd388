//! One resource over several runs.

use super::curve;
use super::curve::Level;
use super::curve::Shared;
use super::warning;
use super::warnings_of;
use jostle_profile::CounterPair;
use jostle_profile::CurvePoint;
use jostle_profile::Estimate;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::Status;
use jostle_profile::reading::Reading;
use jostle_statistics::mean;
use jostle_statistics::student_quantile;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Code of the warning that runs differ by more than their noise.
pub const DISAGREE: &str = "runs-disagree";
/// Chance of any false verdict over all resources.
const LEVEL: f64 = 0.05;

/// The entry of `id` in all `runs`.
pub fn merge(id: &str, runs: &[&Profile], shared: &Shared) -> ResourceEntry {
    let all: Vec<&ResourceEntry> = runs
        .iter()
        .filter_map(|run| run.resources.get(id))
        .collect();
    let entries: Vec<&ResourceEntry> = all.iter().copied().filter(|it| has_numbers(it)).collect();
    let (Some(first), Some(any)) = (entries.first(), all.first()) else {
        let none = all.first().map(|it| (*it).clone());
        return none.unwrap_or_default();
    };
    let modes: BTreeSet<_> = entries
        .iter()
        .map(|it| it.placement.as_ref().map(|it| it.mode))
        .collect();
    if modes.len() > 1 {
        let reason = "the runs were measured in different placements";
        return ResourceEntry::without_numbers(Status::Unresolved, reason);
    }
    let count = entries.len();
    let curves = |of: fn(&ResourceEntry) -> &[CurvePoint]| -> Vec<&[CurvePoint]> {
        entries.iter().map(|it| of(it)).collect()
    };
    let levels = curve::merge(&curves(|it| &it.curve), shared.spread);
    let probe = curve::merge(&curves(|it| &it.probe_curve), 0.0);
    let scores = |of: fn(&ResourceEntry) -> Option<Score>| -> Vec<Score> {
        entries.iter().filter_map(|it| of(it)).collect()
    };
    let estimates = |of: fn(&ResourceEntry) -> Option<Estimate>| -> Vec<Estimate> {
        entries.iter().filter_map(|it| of(it)).collect()
    };
    let equivalent: Vec<f64> = entries
        .iter()
        .filter_map(|it| it.equivalent_intensity)
        .collect();
    let sensitive = verdict(&entries, &levels, shared);
    let (doubts, warnings) = warnings_of(
        entries
            .iter()
            .map(|it| (it.doubts.as_slice(), it.warnings.as_slice())),
    );
    let mut merged = ResourceEntry {
        status: match sensitive {
            Some(_) => Status::Measured,
            None => Status::Unresolved,
        },
        reason: match sensitive {
            Some(_) => None,
            None => Some(format!("open after {count} runs")),
        },
        placement: first.placement.clone(),
        tolerated: curve::score(&scores(|it| it.tolerated), count),
        caused: curve::score(&scores(|it| it.caused), count),
        inferred: None,
        equivalent_intensity: (equivalent.len() == count).then(|| mean(&equivalent)),
        sensitive,
        curve: levels.iter().map(|level| level.point.clone()).collect(),
        probe_curve: probe.into_iter().map(|level| level.point).collect(),
        sharing_cost: curve::estimate(&estimates(|it| it.sharing_cost), shared.spread),
        mixture: curve::estimate(&estimates(|it| it.mixture), shared.spread),
        switch: entries.iter().find_map(|it| it.switch.clone()),
        pressure_unit: first.pressure_unit.clone(),
        full_scale_pressure: first.full_scale_pressure,
        physical_bound: first.physical_bound.clone(),
        caused_bound: first.caused_bound.clone(),
        counters: counters(&entries),
        counters_steady: steady(&entries),
        phases: Vec::new(),
        doubts,
        warnings,
        unknown: any.unknown.clone(),
    };
    for sentence in disagreements(&entries, &levels) {
        merged.warn(warning(DISAGREE, sentence));
    }
    merged
}

fn has_numbers(entry: &ResourceEntry) -> bool {
    let measured = matches!(entry.status, Status::Measured | Status::Unresolved);
    let numbers = !entry.curve.is_empty() || entry.tolerated.is_some() || entry.caused.is_some();
    measured && entry.inferred.is_none() && numbers
}

/// Whether a loss beyond the threshold is shown at any level, or ruled out at
/// the highest; else what all runs say.
fn verdict(entries: &[&ResourceEntry], levels: &[Level], shared: &Shared) -> Option<bool> {
    let tests = shared.tests * levels.len().max(1) as f64;
    let shown = levels.iter().any(|level| {
        let pooled = level.pooled;
        let quantile = student_quantile(1.0 - LEVEL / tests, pooled.freedom);
        (pooled.value + quantile * pooled.error).exp() < shared.threshold
    });
    if shown {
        return Some(true);
    }
    let ruled_out = levels
        .last()
        .is_some_and(|top| top.point.intensity >= 90.0 && top.point.ci95[0] >= shared.threshold);
    let first = entries.first()?.sensitive;
    let all_say = entries.iter().all(|it| it.sensitive == first);
    match (all_say, ruled_out) {
        (true, _) if first.is_some() => first,
        (_, true) => Some(false),
        _ => None,
    }
}

fn disagreements(entries: &[&ResourceEntry], levels: &[Level]) -> Vec<String> {
    let mut sentences = Vec::new();
    let says = |verdict: bool| {
        entries
            .iter()
            .filter(|it| it.sensitive == Some(verdict))
            .count()
    };
    let (sensitive, insensitive) = (says(true), says(false));
    if sensitive > 0 && insensitive > 0 {
        sentences.push(format!(
            "{sensitive} runs say that it is sensitive, and {insensitive} that it is not"
        ));
    }
    if let Some(level) = levels.iter().rev().find(|level| level.pooled.disagree) {
        let losses = level
            .runs
            .iter()
            .map(|kept| format!("{:.0}", 100.0 * (1.0 - kept)));
        sentences.push(format!(
            "the runs differ by more than their noise: at {:.0} % they lost {} %",
            level.point.intensity,
            losses.collect::<Vec<_>>().join(", ")
        ));
    }
    sentences
}

/// Counters that every run read, pooled; a counter moved when it did in most
/// runs and all together.
fn counters(entries: &[&ResourceEntry]) -> BTreeMap<String, Reading<CounterPair>> {
    let names: BTreeSet<&String> = entries.iter().flat_map(|it| it.counters.keys()).collect();
    let merged = names.into_iter().filter_map(|name| {
        let readings = || entries.iter().filter_map(|it| it.counters.get(name));
        let pairs: Vec<&CounterPair> = readings().filter_map(Reading::value).collect();
        // Where it was read nowhere, the reason of the first run stays.
        if pairs.is_empty() {
            return readings().next().map(|it| (name.clone(), it.clone()));
        }
        let ratios: Vec<Estimate> = pairs.iter().filter_map(|it| it.ratio).collect();
        let differences: Vec<Estimate> = pairs.iter().filter_map(|it| it.difference).collect();
        let ratio = curve::estimate(&ratios, 0.0);
        let difference = curve::estimate(&differences, 0.0);
        let outside = |it: &Estimate, none: f64| none < it.ci95[0] || it.ci95[1] < none;
        let clear = ratio.as_ref().is_some_and(|it| outside(it, 1.0))
            || (ratio.is_none() && difference.as_ref().is_some_and(|it| outside(it, 0.0)));
        let moved = pairs.iter().filter(|it| it.moved).count();
        let level = |of: fn(&CounterPair) -> f64| {
            mean(&pairs.iter().map(|it| of(it)).collect::<Vec<f64>>())
        };
        let pair = CounterPair {
            control: level(|it| it.control),
            treat: level(|it| it.treat),
            ratio,
            difference,
            moved: clear && 2 * moved > entries.len(),
            pairs: pairs.iter().map(|it| it.pairs).sum(),
        };
        Some((name.clone(), Reading::Value(pair)))
    });
    merged.collect()
}

/// Read in every run and moved in none.
fn steady(entries: &[&ResourceEntry]) -> Vec<String> {
    let Some((first, rest)) = entries.split_first() else {
        return Vec::new();
    };
    let mut names = first.counters_steady.clone();
    names.retain(|name| rest.iter().all(|it| it.counters_steady.contains(name)));
    names
}
