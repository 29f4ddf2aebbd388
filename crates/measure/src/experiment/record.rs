//! From what was measured to a profile.

use super::arrived;
use super::arrived::Circumstances;
use super::bounds;
use super::bounds::DiskUse;
use super::outcome::Measured;
use super::sources::SourceFacts;
use super::unseen;
use crate::usage::Peaks;
use crate::usage::Probe;
use crate::usage::Track;
use crate::warning::Warning;
use jostle_host::inject::placement::Refusal;
use jostle_host::machine::calibration::Reporter;
use jostle_host::machine::calibration::ReporterPoint;
use jostle_profile::Conditions;
use jostle_profile::CounterFacts;
use jostle_profile::CounterPair;
use jostle_profile::Estimate;
use jostle_profile::PlacementMode;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::SchedulerFacts;
use jostle_profile::Status;
use jostle_profile::Switch;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Resource;
use jostle_statistics::crossing;
use jostle_statistics::performance_fit;
use std::collections::BTreeMap;

/// A second copy that leaves a source more than this much of its performance
/// says nothing that could be told from noise.
const READABLE: f64 = 0.95;
/// A clock below this part of the usual one is worth a warning.
const CLOCK_SLOWED: f64 = 0.95;

/// What the measurement itself does not know.
#[derive(Clone, Debug)]
pub struct RunMetadata {
    /// As far as it is known before anything was measured.
    pub profile: Profile,
    /// Per resource id what is known of its source.
    pub sources: BTreeMap<&'static str, SourceFacts>,
    /// Per resource id what a source loses beside a second copy of itself.
    pub reporters: BTreeMap<String, Reporter>,
    /// CPUs that requests are sent from.
    pub generator: Vec<usize>,
    /// Whether it sends nothing while the target is held still.
    pub generator_waits: bool,
    /// What was counted beside the metric, in the order of the outcomes'
    /// mechanisms.
    pub counters: Vec<(String, Reading<CounterFacts>)>,
    /// What the target used by itself.
    pub used: Option<Track>,
    /// What that is a share of; the peaks of this run come on top.
    pub peaks: Peaks,
    /// Resources that could not be measured, and why.
    pub unavailable: Vec<(&'static str, Refusal)>,
    /// Loss of a spinning thread to the source of `l2-capacity`, where that may change the verdict.
    pub toll: Option<Estimate>,
    /// What needed no measuring.
    pub bounded: Vec<(&'static str, ResourceEntry)>,
    pub warnings: Vec<Warning>,
}

/// Puts a profile together.
pub fn profile(measured: &Measured, metadata: RunMetadata) -> Profile {
    let mut profile = metadata.profile;
    for (resource, refusal) in &metadata.unavailable {
        let status = match refusal {
            Refusal::NotShared(_) => Status::NotShared,
            Refusal::Unavailable(_) => Status::Unavailable,
        };
        let entry = ResourceEntry::without_numbers(status, refusal.reason());
        profile.resources.insert(resource.to_string(), entry);
    }
    let mut alone = Vec::new();
    let clock = clock(measured, &metadata.sources);
    for outcome in &measured.subjects {
        let mut entry = outcome.entry.clone();
        let source = metadata.sources.get(outcome.resource);
        entry.placement = source.map(|source| source.placement.clone());
        mechanism(&mut entry, &outcome.mechanism, &metadata.counters);
        let scheduler = profile.conditions.scheduler.as_ref();
        if entry.switch.is_none() && outcome.resource != Resource::CpuTime.id() {
            entry.switch = no_switch(&entry, scheduler);
        }
        entry.physical_bound = source.and_then(|source| source.bound.clone());
        let mut share_alone = None;
        if let (Some(facts), Ok(resource)) = (source, outcome.resource.parse()) {
            let known = Circumstances {
                clock,
                facts,
                generator: &metadata.generator,
                generator_waits: metadata.generator_waits,
            };
            share_alone = arrived::judge(resource, &mut entry, &known);
            alone.extend(share_alone.map(|share| (resource, share)));
        }
        entry.equivalent_intensity = metadata
            .reporters
            .get(outcome.resource)
            .and_then(|reporter| equivalent_intensity(reporter, &entry));
        let further = [
            source.and_then(|source| arrived::peak_warning(source, share_alone)),
            placebo_slowed(&entry),
        ];
        for warning in outcome.warnings.iter().chain(further.iter().flatten()) {
            entry.warn(warning.facts());
        }
        profile
            .resources
            .insert(outcome.resource.to_string(), entry);
    }
    unseen::never_free(&mut profile.resources, &alone);
    let threshold = profile.qos.threshold;
    unseen::not_told_apart(
        &mut profile.resources,
        &measured.unseen_neighbours,
        threshold,
    );
    if let Some(held) = &measured.private_cache {
        unseen::private_cache_held(&mut profile.resources, held, threshold);
    }
    unseen::never_shared(&mut profile.resources, &measured.cache_sharing);
    for entry in profile.resources.values_mut() {
        bounds::decide(entry, profile.qos.threshold);
    }
    let evicting = profile.resources.get_mut(Resource::L2Capacity.id());
    if let (Some(toll), Some(entry)) = (&metadata.toll, evicting)
        && let Some(warning) = bounds::take_off(entry, toll, threshold)
    {
        entry.warn(warning.facts());
    }
    let bounded = metadata.bounded.into_iter();
    let bounded = bounded.map(|(id, entry)| (id.to_string(), entry));
    profile.resources.extend(bounded);
    let peaks = peaks_of(
        &profile.resources,
        metadata.peaks,
        &metadata.sources,
        &metadata.reporters,
    );
    if let Some(disk) = metadata
        .used
        .as_ref()
        .and_then(|track| disk_use(track, &peaks))
    {
        for resource in [Resource::StorageBandwidth, Resource::StorageCapacity] {
            if let Some(entry) = profile.resources.get_mut(resource.id()) {
                bounds::decide_caused(entry, disk, profile.qos.threshold);
            }
        }
    }
    profile.usage = metadata.used.map(|track| track.usage(&peaks));
    profile.partial = measured.partial.is_some();
    let cut_short = measured.partial.clone();
    // What ended it is said with its numbers.
    let at_the_floor = |warning: &Warning| matches!(warning, Warning::FloorReached { .. });
    let cut_short = cut_short.filter(|_| !metadata.warnings.iter().any(at_the_floor));
    let cut_short = cut_short.map(|reason| Warning::CutShort { reason });
    let warnings = metadata.warnings.iter().chain(&measured.warnings);
    let slow_clock = Some(Warning::ClockSlowed {
        slowed_percent: 100.0 * (1.0 - clock),
    });
    let slow_clock = slow_clock.filter(|_| clock < CLOCK_SLOWED);
    let warnings = warnings.chain(&cut_short).chain(&slow_clock);
    let warnings: Vec<_> = warnings.map(Warning::facts).collect();
    // Of one that did nothing there is nothing to be a fraction of.
    profile.metric.baseline = measured.baseline.filter(|it| it.value > 0.0);
    profile.readings.clone_from(&measured.readings);
    profile.together.clone_from(&measured.together);
    if let Some(scheduler) = &mut profile.conditions.scheduler {
        scheduler.plain_switch_microseconds = match measured.plain_switch {
            Some(cost) => Reading::Value(cost),
            None => Reading::unavailable(
                "no blocks in turns as the scheduler gives them were played beside the placebo",
            ),
        };
    }
    profile.conditions = Conditions {
        noise_percent: measured.noise_percent,
        steal_percent: match measured.steal_percent {
            Some(percent) => Reading::Value(percent),
            None => profile.conditions.steal_percent,
        },
        windows_dropped: measured.windows_dropped,
        windows_kept: measured.windows_kept,
        smallest_detectable_percent: measured.smallest_detectable_percent,
        counters: metadata.counters.into_iter().collect(),
        phases: measured.phases.clone(),
        unseen_neighbours: measured.unseen_neighbours.clone(),
        cache_sharing: measured.cache_sharing.clone(),
        private_cache: measured.private_cache,
        doubts: warnings.iter().map(|one| one.message.clone()).collect(),
        warnings,
        ..profile.conditions
    };
    profile
}

/// The clock of the target's CPU beside the target, in parts of what it is without.
fn clock(measured: &Measured, sources: &BTreeMap<&'static str, SourceFacts>) -> f64 {
    let int = Resource::Int.id();
    let outcome = measured.subjects.iter().find(|it| it.resource == int);
    match outcome.zip(sources.get(int)) {
        Some((outcome, facts)) => arrived::clock_beside(&outcome.entry, facts.placement.mode),
        None => 1.0,
    }
}

/// What the target used of the disk that the storage sources are on; `None` where that
/// is not known.
fn disk_use(track: &Track, peaks: &Peaks) -> Option<DiskUse> {
    let (peak, _) = peaks.sources.get(Resource::StorageBandwidth.id())?;
    let disk = peaks.disk.as_ref().ok()?.first()?;
    Some(DiskUse {
        bytes_per_second: track.disk_bytes_per_second()?,
        flushes_per_second: track.flushes_per_second(disk)?,
        peak_bytes_per_second: *peak,
    })
}

/// Why the cost of a switch is unknown of a source that time-shares the target's
/// CPU; `None` for all others.
fn no_switch(entry: &ResourceEntry, scheduler: Option<&SchedulerFacts>) -> Option<Reading<Switch>> {
    let placement = entry.placement.as_ref()?;
    let measured = !entry.curve.is_empty() && placement.mode == PlacementMode::SameCpu;
    let reason = match scheduler.map(|facts| &facts.turn_seconds) {
        Some(Reading::Unavailable { unavailable }) => unavailable,
        _ => "it needs a metric that can be read turn by turn, and the tolerated direction",
    };
    measured.then(|| Reading::unavailable(reason))
}

/// `peaks`, and those that intensity refers to in this run.
fn peaks_of(
    resources: &BTreeMap<String, ResourceEntry>,
    mut peaks: Peaks,
    sources: &BTreeMap<&'static str, SourceFacts>,
    reporters: &BTreeMap<String, Reporter>,
) -> Peaks {
    for (id, entry) in resources {
        if let Some(equivalent) = entry.equivalent_intensity {
            let curve = reporters.get(id).into_iter().flat_map(|it| &it.curve);
            let probe = Probe {
                equivalent_intensity: equivalent,
                beside_copy: curve.map(|at| (at.intensity, at.performance)).collect(),
            };
            peaks.probes.insert(id.clone(), probe);
        }
        let source = sources.get(id.as_str());
        let calibrated = source.and_then(|source| source.calibrated) == Some(true);
        if let (Some(peak), false) = (entry.full_scale_pressure, calibrated) {
            let from = "the source at 100 % in this run".to_string();
            peaks.sources.insert(id.clone(), (peak, from));
        }
    }
    peaks
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
    let column = |of: fn(&ReporterPoint) -> f64| reporter.curve.iter().map(of).collect();
    let levels: Vec<f64> = column(|point| point.intensity);
    let values: Vec<f64> = column(|point| point.performance);
    let weights: Vec<f64> = column(|point| point.windows as f64);
    let fit = performance_fit(&values, &weights);
    let whole = *fit.last()?;
    (beside.mode == reporter.placement.mode && whole < READABLE)
        .then(|| crossing(&levels, &fit, full.performance.clamp(0.0, 1.0)))
}

/// On a CPU of its own the placebo should cost the target nothing; where it
/// does, something beside the resource is shared.
fn placebo_slowed(entry: &ResourceEntry) -> Option<Warning> {
    let (cost, placement) = (entry.sharing_cost?, entry.placement.as_ref()?);
    let apart = matches!(
        placement.mode,
        PlacementMode::SharedLlc | PlacementMode::SameNuma | PlacementMode::Device
    );
    (apart && cost.ci95[1] < 0.95).then_some(Warning::PlaceboSlowed {
        kept_percent: cost.value * 100.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_profile::CurvePoint;
    use jostle_profile::Placement;

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
            requested: None,
            performance: beside_target,
            ci95: [beside_target, beside_target],
            pressure: None,
            windows: 10,
        });
        equivalent_intensity(&reporter, &entry)
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
