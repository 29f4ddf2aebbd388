//! From what was measured to a profile.

use super::outcome::Measured;
use super::settings::Settings;
use crate::inject::placement::Refusal;
use crate::machine::calibration::Reporter;
use crate::sys::clock::rfc3339;
use crate::warning::Warning;
use jostle_profile::Conditions;
use jostle_profile::CounterFacts;
use jostle_profile::CounterPair;
use jostle_profile::CurvePoint;
use jostle_profile::FORMAT;
use jostle_profile::MachineFacts;
use jostle_profile::MetricFacts;
use jostle_profile::PhysicalBound;
use jostle_profile::Placement;
use jostle_profile::PlacementMode;
use jostle_profile::Profile;
use jostle_profile::Qos;
use jostle_profile::ResourceEntry;
use jostle_profile::Status;
use jostle_profile::WarningFacts;
use jostle_profile::Workload;
use jostle_profile::reading::Reading;
use jostle_statistics::crossing;
use jostle_statistics::performance_fit;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// A second copy that leaves a source more than this much of its performance
/// says nothing that could be told from noise.
const READABLE: f64 = 0.95;

/// What the measurement itself does not know.
#[derive(Clone, Debug)]
pub struct RunMetadata {
    pub workload: Workload,
    pub machine: MachineFacts,
    pub metric: MetricFacts,
    pub target_cpus: Vec<usize>,
    pub slice_period_seconds: Option<f64>,
    pub slice_share_percent: Option<f64>,
    /// Per resource id where its workers ran.
    pub placements: BTreeMap<&'static str, Placement>,
    /// Per resource id the pressure that 100 % stands for.
    pub full_scales: BTreeMap<&'static str, f64>,
    /// Where the peaks come from that intensity refers to.
    pub peaks_from: Option<String>,
    /// Per resource id what a source loses beside a second copy of itself.
    pub reporters: BTreeMap<String, Reporter>,
    /// Per resource id what a reader should know of its source.
    pub source_warnings: BTreeMap<&'static str, Warning>,
    pub bounds: BTreeMap<&'static str, PhysicalBound>,
    /// What was counted beside the metric, in the order of the outcomes'
    /// mechanisms.
    pub counters: Vec<(String, Reading<CounterFacts>)>,
    /// Resources that could not be measured, and why.
    pub unavailable: Vec<(&'static str, Refusal)>,
    pub warnings: Vec<Warning>,
    pub profiler_cpu_percent: Option<f64>,
    pub started: SystemTime,
    /// From the start of the preparations on.
    pub duration_seconds: f64,
    /// As asked for, preparations included.
    pub budget_seconds: f64,
}

/// Points by which a source may stay below what was asked before it is said.
const SHORT_POINTS: f64 = 5.0;

/// Puts a profile together.
pub fn profile(measured: &Measured, settings: &Settings, metadata: RunMetadata) -> Profile {
    let mut resources: BTreeMap<String, ResourceEntry> = metadata
        .unavailable
        .iter()
        .map(|(resource, reason)| {
            let status = match reason {
                Refusal::NotShared(_) => Status::NotShared,
                Refusal::Unavailable(_) => Status::Unavailable,
            };
            let entry = ResourceEntry::without_numbers(status, reason.reason().to_string());
            (resource.to_string(), entry)
        })
        .collect();
    for outcome in &measured.subjects {
        let mut entry = outcome.entry();
        entry.placement = metadata.placements.get(outcome.resource).cloned();
        mechanism(&mut entry, &outcome.mechanism, &metadata.counters);
        entry.physical_bound = metadata.bounds.get(outcome.resource).cloned();
        entry.equivalent_intensity = metadata
            .reporters
            .get(outcome.resource)
            .and_then(|reporter| equivalent_intensity(reporter, &entry));
        if !entry.curve.is_empty() || !entry.probe_curve.is_empty() {
            entry.full_scale_pressure = metadata.full_scales.get(outcome.resource).copied();
        }
        let warnings = [
            metadata.source_warnings.get(outcome.resource).cloned(),
            pressure_missed(&entry),
            placebo_slowed(outcome.sharing_cost, entry.placement.as_ref()),
        ];
        for warning in warnings.into_iter().flatten() {
            entry.warn(warning.facts());
        }
        resources.insert(outcome.resource.to_string(), entry);
    }
    let mut metric = metadata.metric;
    metric.baseline = measured.baseline;
    let cut_short = measured.partial.clone();
    let cut_short = cut_short.map(|reason| Warning::CutShort { reason });
    let warnings: Vec<WarningFacts> = metadata
        .warnings
        .iter()
        .chain(&measured.warnings)
        .chain(&cut_short)
        .map(Warning::facts)
        .collect();
    Profile {
        format: FORMAT.to_string(),
        partial: measured.partial.is_some(),
        workload: metadata.workload,
        machine: metadata.machine,
        metric,
        qos: Qos {
            threshold: settings.qos,
        },
        conditions: Conditions {
            recorded_at: rfc3339(metadata.started),
            duration_seconds: metadata.duration_seconds,
            tool_version: env!("CARGO_PKG_VERSION").to_string(),
            seed: settings.seed,
            budget_seconds: metadata.budget_seconds,
            quick: settings.quick,
            noise_percent: measured.noise_percent,
            steal_percent: match measured.steal_percent {
                Some(percent) => Reading::Value(percent),
                None => Reading::unavailable("no window was measured"),
            },
            windows_dropped: measured.windows_dropped,
            windows_kept: measured.windows_kept,
            smallest_detectable_percent: measured.smallest_detectable_percent,
            slice_period_seconds: metadata.slice_period_seconds,
            slice_share_percent: metadata.slice_share_percent,
            peaks_from: metadata.peaks_from,
            target_cpus: metadata.target_cpus,
            profiler_cpu_percent: metadata.profiler_cpu_percent,
            counters: metadata.counters.into_iter().collect(),
            phases: measured.phases.clone(),
            doubts: warnings.iter().map(|one| one.message.clone()).collect(),
            warnings,
            unknown: Default::default(),
        },
        resources,
        readings: measured.readings.clone(),
        unknown: Default::default(),
    }
}

/// Counters that a reader looks for whether or not they moved.
const ALWAYS: [&str; 1] = ["ipc"];

/// Sorts the counters into those that moved and those that did not.
fn mechanism(
    entry: &mut ResourceEntry,
    changes: &[Option<CounterPair>],
    counters: &[(String, Reading<CounterFacts>)],
) {
    for ((name, facts), change) in counters.iter().zip(changes) {
        let Some(change) = change.as_ref().filter(|_| facts.value().is_some()) else {
            continue;
        };
        if change.moved || ALWAYS.contains(&name.as_str()) {
            entry
                .counters
                .insert(name.clone(), Reading::Value(change.clone()));
        } else {
            entry.counters_steady.push(name.clone());
        }
    }
    for name in ALWAYS {
        let found = counters.iter().find(|(known, _)| known == name);
        if let Some(reason) = found.and_then(|(_, facts)| facts.reason())
            && !changes.is_empty()
        {
            entry
                .counters
                .insert(name.to_string(), Reading::unavailable(reason));
        }
    }
}

/// The intensity of a second copy of the source that costs the source as much
/// as the target does at 100 % of the source: 100 when not even the whole copy
/// costs so much. `None` when the copy hardly costs it anything, so that nothing
/// can be read off, or when it was calibrated in another placement.
fn equivalent_intensity(reporter: &Reporter, entry: &ResourceEntry) -> Option<f64> {
    let beside = entry.placement.as_ref()?;
    let full = entry
        .probe_curve
        .last()
        .filter(|point| point.intensity == 100.0)?;
    let levels: Vec<f64> = reporter.curve.iter().map(|point| point.intensity).collect();
    let values: Vec<f64> = reporter
        .curve
        .iter()
        .map(|point| point.performance)
        .collect();
    let weights: Vec<f64> = reporter
        .curve
        .iter()
        .map(|point| point.windows as f64)
        .collect();
    let fit = performance_fit(&values, &weights);
    let whole = *fit.last()?;
    (beside.mode == reporter.placement.mode && whole < READABLE)
        .then(|| crossing(&levels, &fit, full.performance.clamp(0.0, 1.0)))
}

/// On a CPU of its own the placebo should cost the target nothing; where it
/// does, something beside the resource is shared.
fn placebo_slowed(
    cost: Option<jostle_profile::Estimate>,
    placement: Option<&Placement>,
) -> Option<Warning> {
    let (cost, placement) = (cost?, placement?);
    let apart = matches!(
        placement.mode,
        PlacementMode::SharedLlc | PlacementMode::SameNuma | PlacementMode::Device
    );
    (apart && cost.ci95[1] < 0.95).then_some(Warning::PlaceboSlowed {
        kept_percent: cost.value * 100.0,
    })
}

/// What is to be said when the source stayed below the intensity it was asked
/// for beside the target.
fn pressure_missed(entry: &ResourceEntry) -> Option<Warning> {
    let full = entry.full_scale_pressure?;
    let missing = |point: &CurvePoint| -> Option<f64> {
        Some(point.intensity - point.pressure? / full * 100.0)
    };
    let (points, intensity) = entry
        .curve
        .iter()
        .filter_map(|point| Some((missing(point)?, point.intensity)))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    (points > SHORT_POINTS).then_some(Warning::PressureMissed {
        requested_percent: intensity,
        reached_percent: intensity - points,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::calibration::ReporterPoint;

    fn equivalent(copy: [f64; 4], beside_target: f64) -> Option<f64> {
        let placement = Placement {
            mode: PlacementMode::SharedLlc,
            cpus: vec![0],
        };
        let curve = [25.0, 50.0, 75.0, 100.0]
            .iter()
            .zip(copy)
            .map(|(intensity, performance)| ReporterPoint {
                intensity: *intensity,
                performance,
                windows: 3,
            })
            .collect();
        let reporter = Reporter {
            placement: placement.clone(),
            second_cpus: vec![1],
            curve,
        };
        let mut entry = ResourceEntry::without_numbers(Status::Measured, "");
        entry.placement = Some(placement);
        entry.probe_curve.push(CurvePoint {
            intensity: 100.0,
            performance: beside_target,
            ci95: [beside_target, beside_target],
            pressure: None,
            windows: 10,
        });
        equivalent_intensity(&reporter, &entry)
    }

    #[test]
    fn a_source_that_is_held_up_is_doubted_with_by_how_much() {
        let mut entry = ResourceEntry::without_numbers(Status::Measured, "");
        let point = |intensity, pressure| CurvePoint {
            intensity,
            performance: 1.0,
            ci95: [1.0, 1.0],
            pressure: Some(pressure),
            windows: 4,
        };
        entry.curve = vec![point(50.0, 98.0), point(100.0, 150.0)];
        assert_eq!(pressure_missed(&entry), None, "nobody knows what 100 % is");
        entry.full_scale_pressure = Some(200.0);
        let doubt = pressure_missed(&entry).unwrap().to_string();
        assert!(
            doubt.contains("reached 75 %") && doubt.contains("25 percentage points"),
            "{doubt}"
        );
        entry.curve.pop();
        assert_eq!(pressure_missed(&entry), None);
    }

    #[test]
    fn what_a_target_costs_reads_as_an_intensity_of_a_copy() {
        let copy = [0.95, 0.9, 0.8, 0.6];
        assert!((equivalent(copy, 0.85).unwrap() - 62.5).abs() < 1e-9);
        assert_eq!(equivalent(copy, 1.02), Some(0.0));
        assert_eq!(equivalent(copy, 0.3), Some(100.0));
        assert_eq!(equivalent([1.0, 0.99, 1.0, 0.98], 0.9), None);
    }
}
