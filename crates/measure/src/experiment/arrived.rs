//! Entries are judged by the pressure that arrived, not by what was asked for.
//!
//! A source may fall short of its intensity: the target holds it up, it yields
//! to the load generator, or somebody else takes the resource. The points of
//! a curve then stand at the intensity that arrived, and so do the scores. Where
//! 100 % did not arrive, no verdict "not sensitive" is left.

use super::sources::SourceFacts;
use crate::warning::Warning;
use jostle_profile::CurvePoint;
use jostle_profile::PlacementMode;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::Status;
use jostle_profile::cpulist::format_list;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Intensity;
use jostle_profile::resource::Resource;

/// Share of the pressure asked for at 100 % that a verdict "not sensitive" rests on
/// at least.
pub(super) const ENOUGH: f64 = 0.9;
/// Share of its peak that a source reaches at least with the target held still where
/// anything is said of what the target does to it: what others take beside and without
/// the target alike cancels, until they are what the source mostly meets.
const STARVED: f64 = 0.7;
/// The same of a core's sources for what they reach to be their full scale: in slices
/// they warm up each time.
const SLICED: f64 = 0.85;
/// Points by which a source may stay below what was asked before it is said, and
/// before its points are moved.
const SHORT_POINTS: f64 = 5.0;

/// Clocks below this part of the usual one are not believed.
const SLOWEST: f64 = 0.5;

/// Sources that need nothing but the execution units of the core.
pub(super) const GAUGES: [Resource; 4] = [
    Resource::Int,
    Resource::Fp,
    Resource::Vector,
    Resource::Branch,
];

/// What else is known of the source of an entry.
pub(super) struct Circumstances<'a> {
    /// Clock of the target's CPU beside the target, in parts of what it is without:
    /// [`clock_beside`].
    pub(super) clock: f64,
    pub(super) facts: &'a SourceFacts,
    /// CPUs that requests are sent from.
    pub(super) generator: &'a [usize],
    /// Whether it sends nothing while the target is held still.
    pub(super) generator_waits: bool,
}

/// How fast the clock of the target's CPU is beside the target, in parts of what it is
/// while the target is stopped, as the source tells that needs nothing but execution units
/// and time-shares that CPU; 1 unless it is certainly slower. Wide vector instructions of
/// the target lower it for about a millisecond, so for the sources as well.
pub(super) fn clock_beside(int: &ResourceEntry, mode: PlacementMode) -> f64 {
    let at_100 = int.probe_curve.last();
    let at_100 = at_100.filter(|point| point.intensity == 100.0 && point.ci95[1] < 1.0);
    match (mode, at_100) {
        (PlacementMode::SameCpu, Some(point)) => point.performance.clamp(SLOWEST, 1.0),
        _ => 1.0,
    }
}

/// Sets the full scale of `entry`, moves its points and scores to the pressure
/// that arrived, and takes back what too little pressure cannot show. The share of
/// its calibrated peak that the source reached with the target held still; `None`
/// where that is not known.
pub(super) fn judge(
    resource: Resource,
    entry: &mut ResourceEntry,
    known: &Circumstances,
) -> Option<f64> {
    if entry.curve.is_empty() && entry.probe_curve.is_empty() {
        return None;
    }
    entry.full_scale_pressure = known.facts.full_scale;
    // A share of the CPU is the target's to give; what is held is held, unless a device
    // was too slow to read it.
    let row = resource.row();
    let shared: Vec<usize> = on_generator(entry, known.generator);
    if row.intensity != Intensity::Rate {
        let full = known.facts.full_scale.filter(|full| *full > 0.0);
        if let Some(full) = full.filter(|_| row.domain == Domain::BlockDevice) {
            tolerated(entry, full, &shared, None);
            without_caused(entry, yields_to(&shared));
        }
        return None;
    }
    let alone = alone_at_100(entry);
    // A peak taken at the start is what the machine gave in that moment, and what is
    // shared with others by more than a core gives now more and now less.
    let least = if of_a_core(resource) { SLICED } else { STARVED };
    let start = known.facts.full_scale;
    let share_alone = alone.zip(start).map(|(alone, start)| alone / start);
    let gives_less = share_alone.is_some_and(|share| (least..1.0).contains(&share));
    let full = match known.facts.calibrated {
        Some(true) if gives_less && shared.is_empty() => alone,
        Some(true) => start,
        _ => alone.or(start),
    };
    entry.full_scale_pressure = full;
    let full = full.filter(|full| *full > 0.0)?;
    let share_alone = share_alone.filter(|_| known.facts.calibrated == Some(true));
    let starved = share_alone.filter(|share| *share < ENOUGH && Some(full) == start);
    // Within a core what counts is the pressure per cycle.
    let placement = entry.placement.as_ref();
    let sliced = placement.is_some_and(|placement| placement.mode == PlacementMode::SameCpu);
    let clock = match sliced && of_a_core(resource) {
        true => known.clock,
        false => 1.0,
    };
    tolerated(entry, full * clock, &shared, starved);
    let reason = yields_to(&shared).or_else(|| {
        starved.filter(|share| *share < STARVED).map(|share| {
            format!(
                "with the target stopped too the source reached {:.0} % of its calibrated peak: \
                 somebody else uses it",
                100.0 * share
            )
        })
    });
    without_caused(entry, reason);
    if known.generator_waits && takes(entry) && beyond_the_core(resource) {
        entry.warn(Warning::GeneratorWaits.facts());
    }
    share_alone
}

/// What the look at the peak found, unless the source reached its calibrated peak in
/// the measurement: `share_alone` as [`judge`] found it.
pub(super) fn peak_warning(source: &SourceFacts, share_alone: Option<f64>) -> Option<Warning> {
    let reached = share_alone.is_some_and(|share| share >= ENOUGH);
    let less = |warning: &Warning| matches!(warning, Warning::PeakChanged { change_percent, .. } if *change_percent < 0.0);
    let found = source.warning.as_ref();
    found.filter(|warning| !(reached && less(warning))).cloned()
}

/// Why a source says nothing of the target that is on the CPUs `shared` with the load
/// generator, if there are any.
fn yields_to(shared: &[usize]) -> Option<String> {
    (!shared.is_empty()).then(|| {
        format!(
            "the source yields to the load generator on CPU {}, so what it loses does not come \
             from the target alone",
            format_list(shared)
        )
    })
}

/// Takes back what is said of what the target does to the source, for a `reason`.
pub(super) fn without_caused(entry: &mut ResourceEntry, reason: Option<String>) {
    if let Some(reason) = reason.filter(|_| !entry.probe_curve.is_empty()) {
        entry.caused = None;
        entry.probe_curve.clear();
        add_reason(entry, format!("caused: {reason}"));
    }
}

/// What the source reached at 100 % with the target held still.
fn alone_at_100(entry: &ResourceEntry) -> Option<f64> {
    let at_100 = entry.probe_curve.last()?;
    let alone = at_100.pressure? / at_100.performance;
    (at_100.intensity == 100.0 && alone.is_finite() && alone > 0.0).then_some(alone)
}

/// Whether the target, or what stands still with it, takes some of the resource.
pub(super) fn takes(entry: &ResourceEntry) -> bool {
    let caused = entry.caused.as_ref();
    caused.is_some_and(|caused| caused.score > 0.0)
}

/// Whether `resource` belongs to one core.
fn of_a_core(resource: Resource) -> bool {
    matches!(
        resource.row().domain,
        Domain::LogicalCpu | Domain::PhysicalCore | Domain::L2Group
    )
}

/// Whether a load generator on another core can take some of `resource`.
fn beyond_the_core(resource: Resource) -> bool {
    let domain = resource.row().domain;
    matches!(
        domain,
        Domain::LlcGroup | Domain::NumaNode | Domain::Machine
    )
}

/// CPUs that the source and the load generator have in common. One that takes
/// turns with the target does not yield to the generator.
fn on_generator(entry: &ResourceEntry, generator: &[usize]) -> Vec<usize> {
    let placement = entry.placement.as_ref();
    let apart = placement.filter(|placement| placement.mode != PlacementMode::SameCpu);
    let cpus = apart.map_or(&[][..], |placement| &placement.cpus);
    let shared = cpus.iter().filter(|cpu| generator.contains(cpu));
    shared.copied().collect()
}

fn tolerated(entry: &mut ResourceEntry, full: f64, shared: &[usize], starved: Option<f64>) {
    let arrived = |point: &CurvePoint| {
        let share = point.pressure? / full * 100.0;
        Some(share.clamp(0.0, 100.0))
    };
    // Asked for and arrived, ascending in both.
    let mut scale = vec![(0.0, 0.0)];
    let mut moved = false;
    for point in &entry.curve {
        let least = scale[scale.len() - 1].1;
        let reached = arrived(point).unwrap_or(point.intensity);
        let short = point.intensity - reached > SHORT_POINTS;
        moved |= short;
        let at = if short { reached } else { point.intensity };
        scale.push((point.intensity, f64::max(at, least)));
    }
    let (Some(&(asked, most)), true) = (scale.last().filter(|_| scale.len() > 1), moved) else {
        return;
    };
    for (point, (asked, at)) in entry.curve.iter_mut().zip(&scale[1..]) {
        point.requested = (asked != at).then_some(*asked);
        point.intensity = *at;
    }
    let place = |x: f64| {
        let above = scale.partition_point(|(asked, _)| *asked < x);
        match scale.get(above) {
            Some((asked, at)) if above > 0 => {
                let (from, low) = scale[above - 1];
                low + (at - low) * (x - from) / (asked - from)
            }
            _ => scale[above.min(scale.len() - 1)].1,
        }
    };
    let enough = most >= ENOUGH * asked;
    let lost = entry.sensitive == Some(true);
    // What was kept under nearly all of it counts as kept under all.
    if lost || !enough {
        entry.tolerated = entry.tolerated.map(|score| {
            let [low, high] = score.ci95;
            // Nothing was seen beyond what arrived.
            let open = high >= asked && !(lost && enough);
            Score {
                score: place(score.score),
                ci95: [place(low), if open { 100.0 } else { place(high) }],
            }
        });
    }
    if enough {
        entry.warn(
            Warning::PressureMissed {
                requested_percent: asked,
                reached_percent: most,
            }
            .facts(),
        );
        return;
    }
    let because = if !shared.is_empty() {
        format!(
            "it yields to the load generator on CPU {}",
            format_list(shared)
        )
    } else if let Some(share) = starved {
        format!(
            "somebody else uses it: with the target stopped it reached {:.0} %",
            100.0 * share
        )
    } else {
        "the target holds it up".to_string()
    };
    let mut reason =
        format!("tolerated: the source reached {most:.0} % of the {asked:.0} % because {because}");
    if !lost {
        entry.sensitive = None;
        entry.status = Status::Unresolved;
        reason += ", and nothing is known beyond";
    }
    add_reason(entry, reason);
}

pub(super) fn add_reason(entry: &mut ResourceEntry, reason: String) {
    entry.reason = Some(match entry.reason.take() {
        Some(before) => format!("{before}; {reason}"),
        None => reason,
    });
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use jostle_profile::Placement;

    const SOURCE: Resource = Resource::MemoryBandwidth;

    fn point(intensity: f64, performance: f64, pressure: f64) -> CurvePoint {
        CurvePoint {
            intensity,
            requested: None,
            performance,
            ci95: [performance - 0.01, performance + 0.01],
            pressure: Some(pressure),
            windows: 20,
        }
    }

    /// Nothing was lost at 50 and 100 %, of which so much arrived; alone the source
    /// reaches `alone` of its peak of 200.
    pub(in crate::experiment) fn kept(arrived: [f64; 2], alone: Option<f64>) -> ResourceEntry {
        let mut entry = ResourceEntry::without_numbers(Status::Measured, "");
        entry.reason = None;
        entry.sensitive = Some(false);
        entry.tolerated = Some(Score {
            score: 100.0,
            ci95: [100.0, 100.0],
        });
        entry.curve = vec![point(50.0, 1.0, arrived[0]), point(100.0, 1.0, arrived[1])];
        entry.placement = Some(Placement {
            mode: PlacementMode::SharedLlc,
            cpus: vec![1],
        });
        if let Some(alone) = alone {
            let beside = arrived[1] / alone;
            entry.probe_curve = vec![point(100.0, beside, arrived[1])];
            entry.caused = Some(Score {
                score: 50.0,
                ci95: [40.0, 60.0],
            });
        }
        entry
    }

    fn judged(entry: ResourceEntry, calibrated: bool, generator: &[usize]) -> ResourceEntry {
        loaded(entry, calibrated, generator, false)
    }

    fn loaded(
        entry: ResourceEntry,
        calibrated: bool,
        generator: &[usize],
        generator_waits: bool,
    ) -> ResourceEntry {
        judged_of(SOURCE, entry, calibrated, (generator, generator_waits))
    }

    fn judged_of(
        source: Resource,
        mut entry: ResourceEntry,
        calibrated: bool,
        (generator, generator_waits): (&[usize], bool),
    ) -> ResourceEntry {
        let facts = SourceFacts {
            placement: entry.placement.clone().unwrap(),
            full_scale: Some(200.0),
            calibrated: Some(calibrated),
            warning: None,
            bound: None,
        };
        let known = Circumstances {
            clock: 1.0,
            facts: &facts,
            generator,
            generator_waits,
        };
        judge(source, &mut entry, &known);
        entry
    }

    #[test]
    fn what_a_waiting_generator_takes_is_said_to_be_in_what_is_caused() {
        let entry = kept([99.0, 195.0], Some(200.0));
        let waits = |entry: &ResourceEntry, waits| {
            let entry = loaded(entry.clone(), true, &[2], waits);
            assert!(entry.caused.is_some());
            !entry.doubts.is_empty()
        };
        assert!(waits(&entry, true));
        assert!(!waits(&entry, false));
        let mut nothing = entry.clone();
        nothing.caused.as_mut().unwrap().score = 0.0;
        assert!(!waits(&nothing, true));
    }

    #[test]
    fn within_a_core_pressure_counts_per_cycle() {
        let facts = |entry: &ResourceEntry| SourceFacts {
            placement: entry.placement.clone().unwrap(),
            full_scale: Some(200.0),
            calibrated: Some(true),
            warning: None,
            bound: None,
        };
        let judged = |source, mode, clock| {
            let mut entry = kept([88.0, 174.0], Some(200.0));
            entry.placement.as_mut().unwrap().mode = mode;
            let facts = facts(&entry);
            let known = Circumstances {
                clock,
                facts: &facts,
                generator: &[],
                generator_waits: false,
            };
            judge(source, &mut entry, &known);
            (entry.sensitive, entry.curve[1].pressure)
        };
        let same = PlacementMode::SameCpu;
        assert_eq!(judged(Resource::Prefetcher, same, 1.0), (None, Some(174.0)));
        let slow = judged(Resource::Prefetcher, same, 0.9);
        assert_eq!(
            slow,
            (Some(false), Some(174.0)),
            "what arrived stays as read"
        );
        // Memory keeps its own clock, and so does another core.
        assert_eq!(judged(Resource::MemoryBandwidth, same, 0.9).0, None);
        let sibling = PlacementMode::SmtSibling;
        assert_eq!(judged(Resource::Prefetcher, sibling, 0.9).0, None);
    }

    #[test]
    fn the_clock_is_slower_where_that_is_certain() {
        let int = |performance| {
            let mut entry = kept([99.0, 195.0], Some(200.0));
            entry.probe_curve = vec![point(100.0, performance, 180.0)];
            entry
        };
        let same = PlacementMode::SameCpu;
        assert_eq!(clock_beside(&int(0.9), same), 0.9);
        assert_eq!(clock_beside(&int(0.995), same), 1.0);
        assert_eq!(clock_beside(&int(0.2), same), SLOWEST);
        // A sibling takes execution units.
        assert_eq!(clock_beside(&int(0.9), PlacementMode::SmtSibling), 1.0);
        let mut unknown = int(0.9);
        unknown.probe_curve.clear();
        assert_eq!(clock_beside(&unknown, same), 1.0);
    }

    #[test]
    fn a_source_that_arrived_leaves_the_verdict() {
        let entry = judged(kept([99.0, 195.0], Some(200.0)), true, &[]);
        assert_eq!(entry.sensitive, Some(false));
        assert!(entry.caused.is_some() && entry.reason.is_none() && entry.doubts.is_empty());
        let short = judged(kept([99.0, 184.0], Some(200.0)), true, &[]);
        assert_eq!(short.sensitive, Some(false));
        assert!(short.doubts[0].contains("reached 92 %"), "{short:?}");
        assert_eq!(short.tolerated.unwrap().score, 100.0);
    }

    #[test]
    fn what_did_not_press_is_not_endured() {
        let entry = judged(kept([96.0, 120.0], Some(200.0)), true, &[]);
        assert_eq!((entry.sensitive, entry.status), (None, Status::Unresolved));
        let score = entry.tolerated.unwrap();
        assert_eq!((score.score, score.ci95), (60.0, [60.0, 100.0]));
        let reason = entry.reason.unwrap();
        assert!(
            reason.contains("reached 60 %") && reason.contains("the target holds it up"),
            "{reason}"
        );
        assert_eq!(entry.curve[1].intensity, 60.0);
        assert_eq!(entry.curve[1].requested, Some(100.0));
        assert!(entry.caused.is_some(), "the target did that");
    }

    #[test]
    fn a_loss_stands_at_what_arrived() {
        let mut entry = kept([50.0, 100.0], Some(200.0));
        entry.sensitive = Some(true);
        entry.tolerated = Some(Score {
            score: 75.0,
            ci95: [50.0, 100.0],
        });
        let entry = judged(entry, true, &[]);
        assert_eq!(entry.sensitive, Some(true));
        let score = entry.tolerated.unwrap();
        assert_eq!((score.score, score.ci95), (37.5, [25.0, 100.0]));
    }

    #[test]
    fn a_source_starved_by_others_says_nothing_of_the_target() {
        let entry = judged(kept([60.0, 110.0], Some(120.0)), true, &[]);
        assert!(entry.caused.is_none() && entry.probe_curve.is_empty());
        let reason = entry.reason.unwrap();
        assert!(reason.contains("stopped it reached 60 %"), "{reason}");
        let entry = judged(kept([60.0, 56.0], Some(200.0)), true, &[1]);
        assert!(entry.caused.is_none());
        let reason = entry.reason.unwrap();
        assert!(reason.contains("load generator on CPU 1"), "{reason}");
    }

    #[test]
    fn a_peak_of_the_start_is_replaced_by_what_it_reaches_alone() {
        // Three times what the start saw: half of that was asked for at 50.
        let entry = judged(kept([100.0, 590.0], Some(600.0)), false, &[]);
        assert_eq!(entry.full_scale_pressure, Some(600.0));
        assert_eq!(entry.sensitive, Some(false));
        assert!((entry.curve[0].intensity - 100.0 / 6.0).abs() < 1e-9);
        assert_eq!(entry.curve[1].intensity, 100.0);
        // Fewer than the start saw, and all that the machine gives.
        let entry = judged(kept([88.0, 170.0], Some(172.0)), false, &[]);
        assert_eq!(entry.sensitive, Some(false));
        let unknown = judged(kept([88.0, 170.0], None), false, &[]);
        assert_eq!(unknown.sensitive, None, "85 % of all that is known");
    }

    #[test]
    fn what_the_machine_gives_now_is_the_scale() {
        // A calibrated peak of 200; alone it reaches 160 now, and 150 beside the target.
        let entry = judged(kept([80.0, 150.0], Some(160.0)), true, &[]);
        assert_eq!(entry.full_scale_pressure, Some(160.0));
        assert_eq!(entry.sensitive, Some(false));
        assert!(
            entry.caused.is_some(),
            "what the source loses is measured against that"
        );
        // The target holds it up.
        let held_up = judged(kept([80.0, 130.0], Some(160.0)), true, &[]);
        assert_eq!(held_up.sensitive, None);
        let reason = held_up.reason.unwrap();
        assert!(
            reason.contains("reached 81 %") && reason.contains("the target holds"),
            "{reason}"
        );
    }

    #[test]
    fn a_core_gives_a_source_less_in_slices_and_not_much_less() {
        let judged = |alone: f64| {
            let entry = kept([0.48 * alone, 0.96 * alone], Some(alone));
            let entry = judged_of(Resource::Branch, entry, true, (&[], false));
            (entry.full_scale_pressure, entry.sensitive)
        };
        assert_eq!(judged(176.0), (Some(176.0), Some(false)));
        assert_eq!(judged(150.0), (Some(200.0), None), "somebody else is there");
    }

    #[test]
    fn a_disk_that_was_too_slow_was_not_filled() {
        let judged = |source, held: f64| {
            let entry = kept([held / 2.0, held], None);
            let entry = judged_of(source, entry, false, (&[], false));
            (entry.full_scale_pressure, entry.sensitive)
        };
        let disk = Resource::StorageCapacity;
        assert_eq!(judged(disk, 190.0), (Some(200.0), Some(false)));
        assert_eq!(judged(disk, 150.0), (Some(200.0), None));
        assert_eq!(judged(Resource::L2Capacity, 150.0).1, Some(false));
    }

    #[test]
    fn a_disk_source_on_the_generators_cpu_says_nothing_of_the_target() {
        let judged = |generator: &[usize]| {
            let entry = kept([100.0, 200.0], Some(400.0));
            judged_of(Resource::StorageCapacity, entry, false, (generator, false))
        };
        assert!(judged(&[]).caused.is_some());
        let beside = judged(&[1]);
        assert!(beside.caused.is_none() && beside.probe_curve.is_empty());
        assert!(beside.reason.unwrap().contains("load generator on CPU 1"));
    }

    #[test]
    fn a_peak_that_is_reached_later_is_reached() {
        let said = |change_percent: f64, share_alone| {
            let source = SourceFacts {
                placement: kept([100.0, 200.0], None).placement.unwrap(),
                full_scale: Some(200.0),
                calibrated: Some(true),
                warning: Some(Warning::PeakChanged {
                    change_percent,
                    recorded_at: String::new(),
                }),
                bound: None,
            };
            peak_warning(&source, share_alone).is_some()
        };
        assert!(!said(-20.0, Some(0.95)), "others took it for a moment");
        assert!(said(-20.0, Some(0.85)));
        assert!(said(-20.0, None));
        assert!(said(20.0, Some(1.0)), "it is held at less than there is");
    }
}
