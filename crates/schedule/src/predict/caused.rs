//! What an application presses with on a resource, best evidence first.
//!
//! 1. What it was seen to use, as a share of the peak that intensity refers to:
//!    read directly, while nothing interfered.
//! 2. The intensity of a second copy of the source that costs the source as much
//!    (`equivalent_intensity`). Curves run over that intensity. On a device it
//!    goes before a lesser use: bytes do not tell what requests, their order and
//!    flushes cost. An application that hardly uses the disk is taken to put no
//!    pressure on it, whatever the sources lost meanwhile.
//! 3. `caused`, the intensity at which the source starts to suffer: it errs high
//!    for a source that suffers early. Of `llc-capacity`, whose walk suffers earliest,
//!    what it lost goes first, by calibrations of one machine; beside its own
//!    calibration it counts half.
//! 4. What the source was seen to lose, without a verdict.
//!
//! A source on another CPU loses much if that CPU serves the interrupts of a disk that
//! the application uses, and one that streams loses a little beside anybody. Neither is
//! pressure on memory: both are taken off before what it lost says anything
//! ([`Streams`]).

use super::isotonic::Knot;
use super::isotonic::falling;
use super::points::Z95;
use super::points::sd_around;
use super::points::sorted;
use super::points::with_ends;
use super::responses::DiskUse;
use jostle_profile::PlacementMode;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Status;
use jostle_profile::Usage;
use jostle_profile::UsedBy;
use jostle_profile::UsedQuantity;
use jostle_profile::UsedShare;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Resource;

/// Least standard deviation of a caused pressure, in points, when measured: a
/// score of 0 ± 0 says only that the source kept 95 % of its own beside it.
const MEASURED_SD: f64 = 1.0;

/// The same when not measured as such: inferred, or read from a curve without a
/// verdict. Classification from a few measured resources misses a score by
/// about as much (Paragon reports 5.3 %).
const INFERRED_SD: f64 = 5.0;

/// Least standard deviation of a share that was read.
const READ_SD: f64 = 0.5;

/// Percent of a disk's peak below which an application does not use it.
const HARDLY_USED: f64 = 0.1;

/// What a source must keep of its own beside the application for the pressure
/// caused to count as 0 (see [`ResourceEntry::caused`]).
const SOURCE_KEEPS: f64 = 0.95;

pub(super) fn least_sd(status: Status) -> f64 {
    match status {
        Status::Inferred => INFERRED_SD,
        _ => MEASURED_SD,
    }
}

/// Points of pressure and their standard deviation; `None` when nothing is
/// known.
pub(super) fn caused_of(
    id: &str,
    entry: &ResourceEntry,
    usage: Option<&Usage>,
    streams: Option<Streams>,
) -> Option<(f64, f64)> {
    let used = usage.and_then(|usage| used(id, usage));
    let domain = id.parse::<Resource>().ok().map(|it| it.row().domain);
    if domain == Some(Domain::BlockDevice) && usage.is_some_and(hardly_uses_the_disk) {
        return Some((0.0, READ_SD));
    }
    let suffered = suffered(entry, streams, id == Resource::LlcCapacity.id());
    let device = matches!(domain, Some(Domain::BlockDevice | Domain::NetworkDevice));
    match (used, suffered) {
        (Some(used), Some(more))
            if device && entry.equivalent_intensity.is_some() && more.0 - used.0 > 2.0 * more.1 =>
        {
            Some(more)
        }
        (used, suffered) => used.or(suffered),
    }
}

/// What a source on another CPU loses of its own beside applications for reasons
/// other than the memory they use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Streams {
    /// ln that it keeps beside one that uses nothing it needs.
    pub anybody: f64,
    /// ln that the interrupts of the application's disk leave of its CPU.
    pub interrupts: f64,
}

impl Streams {
    /// What is left of the loss in `knots`.
    fn corrected(self, mut knots: Vec<Knot>) -> Vec<Knot> {
        for knot in &mut knots {
            knot.ln = (knot.ln - self.anybody - self.interrupts).min(0.0);
        }
        knots
    }
}

/// Whether all that the application keeps in memory fits into the machine's largest
/// cache: then it cannot stream past it. `None` where either is not known.
pub(super) fn fits_a_cache(profile: &Profile) -> Option<bool> {
    let largest = profile.machine.caches.iter().map(|cache| cache.size_bytes);
    let resident = profile.usage.as_ref()?.quantities.get("resident")?;
    Some(resident.value()?.ci95[1] < largest.max()? as f64)
}

/// What an application of which `points` were found by what a source that streams
/// lost presses with on others.
///
/// One whose data `fit` a cache moves next to nothing to memory and evicts nobody.
/// One that does stream evicts whatever others keep in the last-level cache while it
/// runs, at half the rate of the source as well as at all of it, and the source's
/// intensity is the share of the time in which it runs: `demand`, not the rate,
/// is what counts, as soon as it is sure that there is a loss.
pub(super) fn streamed(
    (points, sd): (f64, f64),
    fit: Option<bool>,
    suffers: bool,
    demand: f64,
) -> (f64, f64) {
    match fit {
        Some(true) => (0.0, HARDLY_STREAMS_SD),
        Some(false) if suffers => (points.max(100.0 * demand), sd),
        _ => (points, sd),
    }
}

/// Whether the source, all out, surely lost more than is allowed for other reasons.
pub(super) fn surely_suffers(entry: &ResourceEntry, streams: Streams) -> bool {
    let left = streams.corrected(sorted(&entry.probe_curve));
    let last = left.last().filter(|last| last.at >= WHOLE);
    last.is_some_and(|last| last.ln + SURE * last.variance.sqrt() < SOURCE_KEEPS.ln())
}

/// Standard deviation, in points, of what an application that fits a cache presses
/// with on memory.
const HARDLY_STREAMS_SD: f64 = 2.0;

/// Standard deviations from 0 of a loss that is one with 95 % certainty.
const SURE: f64 = 1.645;

/// Requests to disks in a second, flushes included; `None` where they were not
/// read.
pub(super) fn requests(profile: &Profile) -> Option<f64> {
    let quantities = &profile.usage.as_ref()?.quantities;
    let of = |name: &str| Some(quantities.get(name)?.value()?.value);
    let both = of("storage-reads")? + of("storage-writes")?;
    Some(both + of("storage-flushes").unwrap_or(0.0))
}

/// What it asks of a disk; `None` where it uses none.
pub(super) fn disk(profile: &Profile) -> Option<DiskUse> {
    let requests = requests(profile).filter(|many| *many >= USES_A_DISK)?;
    let quantities = &profile.usage.as_ref()?.quantities;
    let busy = quantities.get("storage-busy")?.value()?.value;
    Some(DiskUse {
        requests: requests as f32,
        busy: busy.clamp(0.0, 1.0) as f32,
    })
}

/// An application with more requests to disks in a second uses one: fewer are
/// those of the system, and cost a hundredth of a CPU at most.
pub(super) const USES_A_DISK: f64 = 500.0;

/// ln of what each of [`APART`] kept beside the application from another CPU, all out,
/// and its variance.
pub(super) fn kept_apart(profile: &Profile) -> impl Iterator<Item = (Resource, Knot)> {
    APART.into_iter().filter_map(|resource| {
        let entry = profile.resources.get(resource.id())?;
        let mode = entry.placement.as_ref().map(|placement| placement.mode);
        let apart = matches!(
            mode,
            Some(PlacementMode::SharedLlc | PlacementMode::SameNuma)
        );
        let last = sorted(&entry.probe_curve).last().copied()?;
        (apart && last.at >= WHOLE).then_some((resource, last))
    })
}

/// Sources that are on CPUs of their own, where an interrupt takes their time.
pub(super) const APART: [Resource; 3] = [
    Resource::MemoryBandwidth,
    Resource::LlcBandwidth,
    Resource::LlcCapacity,
];

/// Those of them that stream. What is seen of the last-level cache is a walk through a
/// part of it.
pub(super) const STREAMS: [Resource; 2] = [Resource::MemoryBandwidth, Resource::LlcBandwidth];

/// The source at this intensity or above counts as going all out.
const WHOLE: f64 = 80.0;

/// Whether what it moves to and from the disk, surely, is next to nothing.
fn hardly_uses_the_disk(usage: &Usage) -> bool {
    let id = Resource::StorageBandwidth.id();
    let quantities = usage.quantities.values().filter_map(|used| used.value());
    let mut shares = quantities.filter(|used| used.resource.as_deref() == Some(id));
    let little = |used: &UsedQuantity| {
        let share = used.share.value();
        used.of == UsedBy::Target && share.is_some_and(|share| share.ci95[1] < HARDLY_USED)
    };
    shares.next().is_some_and(little) && shares.all(little)
}

/// The share of the resource that was read directly.
pub(super) fn used(id: &str, usage: &Usage) -> Option<(f64, f64)> {
    let quantities = usage.quantities.values().filter_map(|used| used.value());
    let mut shares = quantities.filter(|used| used.resource.as_deref() == Some(id));
    let used = shares.next()?;
    let UsedShare { percent, ci95, .. } = used.share.value()?;
    let points = percent.clamp(0.0, 100.0);
    let sd = sd_around(*percent, *ci95).max(READ_SD);
    match used.of {
        UsedBy::Target => Some((points, sd)),
        // At most: something from nothing to all of it.
        UsedBy::Namespace | UsedBy::Machine => {
            Some((points / 2.0, sd.hypot(points / 12f64.sqrt())))
        }
    }
}

/// What the source felt.
///
/// The walk through a part of the last-level cache (`walks`) suffers early and then loses
/// nearly all: what it lost counts, not where that began. What it loses beside a copy of the
/// source depends on what other guests do meanwhile: one calibration is one minute of that,
/// and counts half.
fn suffered(entry: &ResourceEntry, streams: Option<Streams>, walks: bool) -> Option<(f64, f64)> {
    let mut least = least_sd(entry.status);
    let from_score = entry
        .caused
        .map(|score| (score.score, sd_around(score.score, score.ci95)));
    let raw = sorted(&entry.probe_curve);
    let probe = match streams {
        Some(streams) => streams.corrected(raw.clone()),
        None => raw.clone(),
    };
    let walked = probe.last().filter(|last| walks && last.at >= WHOLE);
    let (points, sd) = if let Some(equivalent) = entry.equivalent_intensity {
        // The source's loss at 100 was matched: its relative error is ours.
        let found = match (raw.last(), probe.last()) {
            (Some(raw), Some(left)) if raw.ln < 0.0 => (
                equivalent * left.ln / raw.ln,
                equivalent * raw.variance.sqrt() / -raw.ln,
            ),
            _ => (
                equivalent,
                from_score.map_or(2.0 * INFERRED_SD, |(_, sd)| sd),
            ),
        };
        walked.map_or(found, |walked| halfway(found, beside_a_copy(walked)))
    } else if let Some(walked) = walked {
        least = INFERRED_SD;
        beside_a_copy(walked)
    } else if let Some(score) = from_score.filter(|_| streams.is_none()) {
        score
    } else {
        least = INFERRED_SD;
        from_probe(&probe)?
    };
    // Evenly anywhere on the scale is as little as one can know.
    Some((points, sd.clamp(least, 100.0 / 12f64.sqrt())))
}

/// Intensity of a source of `llc-capacity` beside which the walk keeps as much as it kept
/// beside the application, by [`WALK_BESIDE_A_COPY`], and its standard deviation for what
/// is not known of the walk.
fn beside_a_copy(walked: &Knot) -> (f64, f64) {
    let at = |z: f64| {
        let kept = (walked.ln + z * walked.variance.sqrt()).exp();
        let pairs = WALK_BESIDE_A_COPY.windows(2).map(|pair| (pair[0], pair[1]));
        for ((less, above), (more, below)) in pairs {
            if kept >= below {
                let share = ((above - kept) / (above - below)).clamp(0.0, 1.0);
                return less + share * (more - less);
            }
        }
        100.0
    };
    (at(0.0), sd_around(at(0.0), [at(Z95), at(-Z95)]))
}

/// Between two readings of the same measurement: their difference is an error of both.
fn halfway((one, its): (f64, f64), (other, others): (f64, f64)) -> (f64, f64) {
    let apart = (one - other) / 2.0;
    ((one + other) / 2.0, ((its + others) / 2.0).hypot(apart))
}

/// What the walk kept beside a source at an intensity: medians of eleven calibrations of a
/// 2-vCPU guest of an EPYC host, of which other guests used the cache as well.
const WALK_BESIDE_A_COPY: [(f64, f64); 5] = [
    (0.0, 1.0),
    (25.0, 0.85),
    (50.0, 0.19),
    (75.0, 0.14),
    (100.0, 0.12),
];

/// `100 −` the intensity at which the source keeps [`SOURCE_KEEPS`] of its own,
/// from what it kept beside the application; as wide as the points' errors and
/// the gap between the points around the crossing make it.
fn from_probe(probe: &[Knot]) -> Option<(f64, f64)> {
    let fitted = falling(probe);
    fitted.last()?;
    let crossing = |z: f64| {
        let moved: Vec<Knot> = fitted
            .iter()
            .map(|knot| Knot {
                ln: knot.ln + z * knot.variance.sqrt(),
                ..*knot
            })
            .collect();
        crossing(&with_ends(falling(&moved)))
    };
    let (at, unseen) = crossing(0.0);
    let errors = sd_around(at, [crossing(-Z95).0, crossing(Z95).0]);
    Some((100.0 - at, errors.hypot(unseen)))
}

/// Where the line through `knots` falls to [`SOURCE_KEEPS`], and the standard
/// deviation of that place for not having looked between the knots around it
/// (as [`between`], across instead of down); 100 and 0 when it does not fall
/// so far.
fn crossing(knots: &[Knot]) -> (f64, f64) {
    let level = SOURCE_KEEPS.ln();
    for pair in knots.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        if b.ln < level {
            let share = ((a.ln - level) / (a.ln - b.ln)).clamp(0.0, 1.0);
            let gap = b.at - a.at;
            return (
                a.at + share * gap,
                gap * (share * (1.0 - share) / 3.0).sqrt(),
            );
        }
    }
    (100.0, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_streams_presses_while_it_runs_and_who_fits_a_cache_never() {
        let found = (40.0, 10.0);
        let fits = streamed(found, Some(true), true, 1.0);
        assert_eq!(fits, (0.0, HARDLY_STREAMS_SD));
        assert_eq!(streamed(found, Some(false), true, 0.9), (90.0, 10.0));
        assert_eq!(streamed(found, Some(false), false, 1.0), found);
        assert_eq!(streamed(found, None, true, 1.0), found);
    }

    #[test]
    fn the_walk_tells_how_much_of_the_cache_somebody_holds() {
        let kept = |kept: f64, sd: f64| Knot {
            at: 100.0,
            ln: kept.ln(),
            variance: sd * sd,
        };
        let near = |kept, expected: f64| {
            let (points, sd) = beside_a_copy(&kept);
            assert!((points - expected).abs() < 1e-9 && sd < 1e-9, "{points}");
        };
        near(kept(1.1, 0.0), 0.0);
        near(kept(0.85, 0.0), 25.0);
        near(kept((0.85 + 0.19) / 2.0, 0.0), 37.5);
        near(kept(0.05, 0.0), 100.0);
        assert!(beside_a_copy(&kept(0.4, 0.2)).1 > 3.0);
        // Before a score, and no other source's loss.
        let entry = |id: &str, points: &str| -> (f64, f64) {
            let entry = format!(
                r#"{{"status": "unresolved", "caused": {{"score": 96, "ci95": [90, 99]}},
                "probe_curve": [{points}]}}"#
            );
            let entry: ResourceEntry = serde_json::from_str(&entry).unwrap();
            caused_of(id, &entry, None, None).unwrap()
        };
        let half = r#"{"intensity": 100, "performance": 0.19, "ci95": [0.18, 0.2],
            "windows": 8, "pressure": 1}"#;
        assert!((entry("llc-capacity", half).0 - 50.0).abs() < 1e-9);
        assert_eq!(entry("l2-capacity", half).0, 96.0);
        // The machine's own calibration counts half, and so does what it differs by.
        let mut calibrated: ResourceEntry = serde_json::from_str(&format!(
            r#"{{"status": "unresolved", "equivalent_intensity": 80, "probe_curve": [{half}]}}"#
        ))
        .unwrap();
        let (points, sd) = caused_of("llc-capacity", &calibrated, None, None).unwrap();
        assert!((points - 65.0).abs() < 1e-9, "{points}");
        assert!(sd > 15.0, "{sd}");
        assert_eq!(caused_of("tlb", &calibrated, None, None).unwrap().0, 80.0);
        // Nothing to read off a curve: the calibration alone.
        calibrated.probe_curve.clear();
        let alone = caused_of("llc-capacity", &calibrated, None, None).unwrap();
        assert_eq!(alone.0, 80.0);
        assert_eq!(entry("llc-capacity", "").0, 96.0);
    }

    #[test]
    fn who_surely_takes_from_a_stream_is_told_from_noise() {
        let entry = |low: f64, high: f64| -> ResourceEntry {
            let performance = (low * high).sqrt();
            let entry = format!(
                r#"{{"status": "unresolved", "probe_curve": [{{"intensity": 100, "pressure": 1,
                "performance": {performance}, "ci95": [{low}, {high}], "windows": 8}}]}}"#
            );
            serde_json::from_str(&entry).unwrap()
        };
        let nothing = Streams::default();
        assert!(surely_suffers(&entry(0.7, 0.9), nothing));
        // It lost a tenth, or nothing.
        assert!(!surely_suffers(&entry(0.71, 1.09), nothing));
        // What it would have lost beside anybody is not taken.
        let anybody = Streams {
            anybody: -0.2,
            interrupts: 0.0,
        };
        assert!(!surely_suffers(&entry(0.7, 0.9), anybody));
    }

    #[test]
    fn what_a_stream_loses_for_other_reasons_is_taken_off() {
        let knots = vec![Knot {
            at: 100.0,
            ln: -0.3,
            variance: 0.0,
        }];
        let streams = Streams {
            anybody: -0.1,
            interrupts: -0.15,
        };
        let left = streams.corrected(knots.clone());
        assert!((left[0].ln + 0.05).abs() < 1e-12);
        let all = Streams {
            anybody: -0.4,
            ..streams
        };
        assert_eq!(all.corrected(knots)[0].ln, 0.0);
    }
}
