//! What an application presses with on a resource, best evidence first.
//!
//! 1. What it was seen to use, as a share of the peak that intensity refers to:
//!    read directly, while nothing interfered.
//! 2. The intensity of a second copy of the source that costs the source as much
//!    (`equivalent_intensity`). Curves run over that intensity. On a device it
//!    goes before a lesser use: bytes do not tell what requests, their order and
//!    flushes cost. An application that hardly uses the disk counts as pressing on
//!    neither of its resources, whatever the sources lost meanwhile.
//! 3. `caused`, the intensity at which the source starts to suffer: it errs high
//!    for a source that suffers early.
//! 4. What the source was seen to lose, without a verdict.

use super::isotonic::Knot;
use super::isotonic::falling;
use super::points::Z95;
use super::points::sd_around;
use super::points::sorted;
use super::points::with_ends;
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
) -> Option<(f64, f64)> {
    let used = usage.and_then(|usage| used(id, usage));
    let domain = id.parse::<Resource>().ok().map(|it| it.row().domain);
    if domain == Some(Domain::BlockDevice) && usage.is_some_and(hardly_uses_the_disk) {
        return Some((0.0, READ_SD));
    }
    let suffered = suffered(entry);
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

/// ln of what sources on other CPUs kept beside the application, and its variance.
///
/// Virtual CPUs may be threads of one core, and what a device does for one is done
/// on the other: then an application costs everybody beside it, whatever they
/// need. The sources that stream show it best, since they never wait.
pub(super) fn drag(profile: &Profile) -> Option<(f64, f64)> {
    let streams = [Resource::MemoryBandwidth, Resource::LlcBandwidth];
    let entries = streams
        .iter()
        .filter_map(|resource| profile.resources.get(resource.id()));
    let apart = entries.filter(|entry| {
        let mode = entry.placement.as_ref().map(|placement| placement.mode);
        matches!(
            mode,
            Some(PlacementMode::SharedLlc | PlacementMode::SameNuma)
        )
    });
    let last = apart.filter_map(|entry| sorted(&entry.probe_curve).last().copied());
    // Where they differ, one of them met something else.
    last.filter(|knot| knot.at >= WHOLE)
        .map(|knot| (knot.ln.min(0.0), knot.variance))
        .max_by(|a, b| a.0.total_cmp(&b.0))
}

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
fn used(id: &str, usage: &Usage) -> Option<(f64, f64)> {
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
fn suffered(entry: &ResourceEntry) -> Option<(f64, f64)> {
    let mut least = least_sd(entry.status);
    let from_score = entry
        .caused
        .map(|score| (score.score, sd_around(score.score, score.ci95)));
    let probe = sorted(&entry.probe_curve);
    let (points, sd) = if let Some(equivalent) = entry.equivalent_intensity {
        // The source's loss at 100 was matched: its relative error is ours.
        let sd = match probe.last() {
            Some(last) if last.ln < 0.0 => equivalent * last.variance.sqrt() / -last.ln,
            _ => from_score.map_or(2.0 * INFERRED_SD, |(_, sd)| sd),
        };
        (equivalent, sd)
    } else if let Some(score) = from_score {
        score
    } else {
        least = INFERRED_SD;
        from_probe(&probe)?
    };
    // Evenly anywhere on the scale is as little as one can know.
    Some((points, sd.clamp(least, 100.0 / 12f64.sqrt())))
}

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
