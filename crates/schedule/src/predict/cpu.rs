//! How much CPU time applications leave each other on a CPU that they share.
//!
//! The kernel's scheduler gives everybody who wants to run the same share, and
//! what one does not want to the others. Two things keep an application below
//! that: it waits for its turn each time it wakes up, and refills what others
//! displaced. Both are known from the time in which the source of `cpu-time` ran
//! beside it and never rested.

use super::points::sorted;
use super::spread::LEAST;
use super::spread::Spread;
use jostle_profile::CurvePoint;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::resource::Resource;
use serde::Deserialize;
use serde::Serialize;

/// What one application wants of a CPU that it shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuNeed {
    /// Share of the CPU that it uses without neighbours, 0–1, and the standard
    /// deviation of that.
    pub demand: f32,
    pub demand_sd: f32,
    /// ln of the performance that it keeps beside a neighbour that never rests,
    /// over its share of the CPU there; and the variance of that.
    pub kept_ln: f32,
    pub kept_variance: f32,
    /// Share of the CPU that it takes from such a neighbour. Below its demand
    /// where waiting keeps it from wanting more, above it where switches and
    /// interrupts on its behalf take more than it is charged for.
    pub taken: f32,
}

/// Needs of a shared CPU, of a population.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypicalCpu {
    pub applications: usize,
    pub demand: Spread,
    pub kept_ln: Spread,
    pub taken: Spread,
    /// How much of what an application that seldom rests lost beside the source,
    /// its share of the CPU apart, is no error.
    #[serde(default = "all")]
    pub believed: f64,
    /// Standard deviation of ln of what it then really keeps.
    #[serde(default)]
    pub kept_open: f64,
}

fn all() -> f64 {
    1.0
}

/// A CPU with everybody on it, as one of them meets it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedCpu {
    /// Most that anybody gets, as a share of the CPU.
    pub level: f32,
    /// Sum of what the others want without neighbours, in CPUs.
    pub others: f32,
    /// Variance of that sum.
    pub variance: f32,
}

/// How much of what applications that seldom rest lost beside the source is no
/// error, and what that leaves open: from ln of what they kept over their share.
///
/// Nobody can keep more than its share. What profiles show above it is error, and
/// errors are as often below: twice the squares above 0, of all squares. Each
/// counts up to [`MOST_TELLING`], so that no single one decides, and by how well it is
/// known: `kept` is ln with its variance. Who surely keeps more than half has several
/// threads, or a load that waits for it, and says nothing of errors.
pub(super) fn believed(kept: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (mut above, mut all, mut weights, mut count) = (0.0, 0.0, 0.0, 0);
    for (ln, variance) in kept {
        if ln > SURELY * variance.sqrt() {
            continue;
        }
        let weight = 1.0 / (variance + WELL_KNOWN.powi(2));
        let square = weight * ln.clamp(-MOST_TELLING, MOST_TELLING).powi(2);
        all += square;
        above += if ln > 0.0 { square } else { 0.0 };
        weights += weight;
        count += 1;
    }
    if count < LEAST || all <= 0.0 {
        return (1.0, 0.0);
    }
    let believed: f64 = (1.0 - 2.0 * above / all).clamp(0.0, 1.0);
    let open = believed * (1.0 - believed) * all / weights;
    (believed, open.sqrt())
}

const MOST_TELLING: f64 = 0.3;

/// Standard deviations that an error is not away from 0.
const SURELY: f64 = 3.0;

/// Standard deviation of ln below which knowing better makes little difference.
const WELL_KNOWN: f64 = 0.03;

/// The share of a CPU that a neighbour which never rests leaves to somebody who
/// wants `demand` of it, over the demand.
fn fair(demand: f32) -> f32 {
    (FAIR / demand.max(0.01)).min(1.0)
}

/// Half of a CPU, and what is as good as it.
const FAIR: f32 = 0.5;
const NEARLY_FAIR: f32 = 0.45;

/// An application that rests for less than this share of the time is held to
/// want all of the CPU: what is missing is what profiling takes.
const NEVER_RESTS: f32 = 0.97;

/// The same, of one that has little to wait for.
const SELDOM_RESTS: f32 = 0.8;

/// ln of what is kept beside a fair share is believed no higher than this: more
/// is noise.
pub(super) const MOST_KEPT: f32 = 0.03;

impl CpuNeed {
    /// From what was measured: `demand` without neighbours, `kept` (ln of
    /// performance and its variance) and `taken` (share of the CPU) beside a
    /// neighbour that never rests. `None` where no two of them follow.
    pub fn of(
        demand: Option<(f32, f32)>,
        kept: Option<(f32, f32)>,
        taken: Option<f32>,
    ) -> Option<Self> {
        let (demand, demand_sd) = match (demand, kept, taken) {
            (Some(demand), ..) => demand,
            (None, _, Some(taken)) if taken >= NEARLY_FAIR => (1.0, 0.05),
            (None, Some((ln, _)), Some(taken)) => ((taken / ln.exp()).clamp(taken, 1.0), 0.15),
            (None, None, Some(taken)) => (taken.clamp(0.0, 1.0), 0.15),
            (None, Some((ln, _)), None) => ((0.5 / ln.exp()).clamp(0.5, 1.0), 0.15),
            (None, None, None) => return None,
        };
        // What one that is always started again misses is the time between its runs,
        // in which nobody asks for its speed.
        let holds_its_own = taken.is_some_and(|taken| taken >= NEARLY_FAIR);
        let demand = match demand.clamp(0.0, 1.0) {
            nearly if nearly >= NEVER_RESTS => 1.0,
            mostly if mostly >= SELDOM_RESTS && holds_its_own => 1.0,
            demand => demand,
        };
        // Its speed is not known there, but how much of the CPU time it needs it got.
        let by_time = || {
            let got = (taken? / demand.max(0.01)).clamp(0.01, 1.0);
            Some((got.ln(), UNKNOWN_KEPT))
        };
        let kept = kept.or_else(by_time);
        let (kept_ln, kept_variance) = kept.map_or((0.0, UNKNOWN_KEPT), |(ln, variance)| {
            // One of several threads takes more than half. Who waits so often that it does not
            // come to its half could have what the neighbour leaves.
            let could = match taken {
                Some(taken) if holds_its_own => taken,
                Some(taken) => 1.0 - taken,
                None => 0.0,
            };
            let share = fair(demand).max((could / demand.max(0.01)).min(1.0));
            (ln - share.ln(), variance)
        });
        // What a fair share limits would take more of fewer neighbours.
        let taken = match taken {
            Some(taken) if demand < FAIR || !holds_its_own => taken.clamp(0.0, 1.0),
            Some(_) => demand,
            None => demand * kept_ln.exp().min(1.0),
        };
        Some(CpuNeed {
            demand,
            demand_sd,
            kept_ln,
            kept_variance,
            taken,
        })
    }

    /// From the entry of `cpu-time` and the CPU time that was read directly.
    pub(super) fn from_profile(profile: &Profile) -> Option<Self> {
        let id = Resource::CpuTime.id();
        let entry = profile.resources.get(id);
        let used = profile.usage.as_ref();
        let used = used.and_then(|usage| usage.quantities.get("cpu")?.value());
        // In CPUs, on however many it ran: here all of it is on one.
        let demand = used.map(|used| {
            let sd = (used.ci95[1] - used.ci95[0]) / 3.92;
            (used.value.min(1.0) as f32, sd as f32)
        });
        let cpus = used.and_then(|used| used.share.value());
        let cpus = cpus.map_or(1.0, |share| share.peak.max(1.0) as f32);
        let taken = entry.and_then(taken).map(|taken| (taken * cpus).min(1.0));
        let kept = entry.and_then(|entry| last(&entry.curve));
        CpuNeed::of(demand, kept, taken)
    }

    /// What is known, drawn towards what is typical.
    pub(super) fn drawn(mut self, typical: &TypicalCpu) -> Self {
        let (ln, variance) = (f64::from(self.kept_ln), f64::from(self.kept_variance));
        // Who seldom rests gets its share whenever it is its turn: what it lost
        // beside the source is refills after switches, and error. Who waits may well
        // be among the few who wait long.
        let (ln, variance) = match self.seldom_rests() {
            true => (
                ln * typical.believed,
                variance * typical.believed.powi(2) + typical.kept_open.powi(2),
            ),
            false => typical.kept_ln.draws(ln, variance),
        };
        (self.kept_ln, self.kept_variance) = (ln as f32, variance as f32);
        self
    }

    pub(super) fn seldom_rests(&self) -> bool {
        self.demand >= SELDOM_RESTS
    }

    fn share(&self, cpu: &SharedCpu) -> f32 {
        (cpu.level / self.cap(cpu.others).max(self.demand).max(0.01)).min(1.0)
    }

    /// Of an application of which nothing is known.
    pub(super) fn typical(typical: &TypicalCpu) -> Self {
        CpuNeed {
            demand: typical.demand.mean.clamp(0.01, 1.0) as f32,
            demand_sd: typical.demand.sd as f32,
            kept_ln: typical.kept_ln.mean as f32,
            kept_variance: typical.kept_ln.sd.powi(2) as f32,
            taken: typical.taken.mean.clamp(0.0, 1.0) as f32,
        }
    }

    /// ln of performance on `cpu`, and the variance of that.
    #[inline]
    pub(super) fn on(&self, cpu: &SharedCpu) -> (f32, f32) {
        let pressed = cpu.others.min(1.0);
        let share = self.share(cpu);
        // Time for the same work grows with the chance to meet a neighbour.
        let delay = (-self.kept_ln.min(MOST_KEPT)).exp() - 1.0;
        let ln = share.ln() - (1.0 + (delay * pressed).max(-0.5)).ln();
        let of_others = if share < 1.0 { cpu.variance / 4.0 } else { 0.0 };
        (ln, self.kept_variance * pressed * pressed + of_others)
    }

    /// What it would take of the CPU beside others that want `others`.
    fn cap(&self, others: f32) -> f32 {
        self.demand + (self.taken - self.demand) * others.min(1.0)
    }
}

/// Variance of ln performance beside a fair share where nothing was measured.
const UNKNOWN_KEPT: f32 = 0.1 * 0.1;

/// The highest intensity that was looked at; beyond two thirds it counts as
/// never resting. Lower ones say nothing of it: a source that sleeps now and then
/// wakes up ahead of the target, and costs one that sleeps as well more than one
/// that never sleeps.
fn last(curve: &[CurvePoint]) -> Option<(f32, f32)> {
    let last = sorted(curve).last().copied()?;
    (last.at >= 66.0).then_some((last.ln as f32, last.variance as f32))
}

/// Share of a CPU that the application took from the source at 100 %.
fn taken(entry: &ResourceEntry) -> Option<f32> {
    let whole = entry
        .probe_curve
        .iter()
        .filter(|point| point.requested.unwrap_or(point.intensity) >= 99.0);
    let kept = whole.map(|point| point.performance).next_back()?;
    Some((1.0 - kept).clamp(0.0, 1.0) as f32)
}

/// The most that anybody of `needs` gets of one CPU: everybody gets what it
/// wants up to this level.
pub(super) fn level(needs: &[CpuNeed]) -> f32 {
    let wanted: f32 = needs.iter().map(|need| need.demand).sum();
    let caps = |need: &CpuNeed| need.cap(wanted - need.demand);
    let mut level = 1.0 / needs.len().max(1) as f32;
    // Each round settles at least one application; a few are enough.
    for _ in 0..needs.len().min(16) {
        let (mut left, mut more) = (1.0f32, 0u32);
        for cap in needs.iter().map(caps) {
            match cap > level {
                true => more += 1,
                false => left -= cap,
            }
        }
        if more == 0 {
            return 1.0;
        }
        let next = left / more as f32;
        if next - level < 1e-5 {
            break;
        }
        level = next;
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_keep_tells_how_much_of_a_loss_is_error() {
        let alike = |kept: &[f64]| believed(kept.iter().map(|ln| (*ln, 0.01)));
        // As much above as below: nothing but error.
        assert_eq!(alike(&[-0.1, 0.1, -0.2, 0.2]).0, 0.0);
        // Losses alone: all of them count.
        assert_eq!(alike(&[-0.1, -0.3, 0.0, -0.2]), (1.0, 0.0));
        // Squares 0.01 above of 0.08 in all: three quarters are none.
        let (found, open) = alike(&[0.1, -0.1, -0.1, -0.05f64.sqrt()]);
        assert!((found - 0.75).abs() < 1e-9, "{found}");
        assert!((open - (0.75 * 0.25 * 0.08 / 4.0f64).sqrt()).abs() < 1e-9);
        assert_eq!(alike(&[-0.1]).0, 1.0, "one says nothing");
        // What is hardly known hardly counts.
        let known = [(-0.1, 1e-4), (-0.2, 1e-4), (-0.15, 1e-4), (0.3, 1.0)];
        assert!(believed(known.into_iter()).0 > 0.98);
    }

    #[test]
    fn beside_a_source_that_never_rests_only_that_point_counts() {
        let point = |intensity, performance| CurvePoint {
            intensity,
            performance,
            ci95: [performance - 0.02, performance + 0.02],
            pressure: None,
            requested: None,
            windows: 1,
        };
        // It waits for a source that sleeps now and then, and for no other.
        let curve = [point(40.0, 0.7), point(60.0, 0.75), point(100.0, 0.95)];
        let (ln, _) = last(&curve).unwrap();
        assert!((ln.exp() - 0.95).abs() < 1e-3);
        assert_eq!(last(&curve[..2]), None);
    }

    #[test]
    fn one_that_is_started_again_and_again_wants_its_half() {
        let need = CpuNeed::of(Some((0.85, 0.01)), Some((0.5f32.ln(), 1e-4)), Some(0.49));
        let need = need.unwrap();
        assert_eq!(need.demand, 1.0);
        assert!(need.kept_ln.abs() < 1e-6);
        // Beside such a neighbour it is as fast as it was found to be there, or as the time
        // says that it got.
        let beside = |kept| {
            let need = CpuNeed::of(Some((0.58, 0.01)), kept, Some(0.42)).unwrap();
            let never_rests = CpuNeed::of(Some((1.0, 0.01)), None, Some(0.58)).unwrap();
            let cpu = SharedCpu {
                level: level(&[need, never_rests]),
                others: 1.0,
                variance: 0.0,
            };
            need.on(&cpu).0.exp()
        };
        assert!((beside(Some((0.6f32.ln(), 1e-4))) - 0.6).abs() < 0.01);
        assert!((beside(None) - 0.42 / 0.58).abs() < 0.01);
        // One that waits for a disk does not.
        let waits = CpuNeed::of(Some((0.85, 0.01)), None, Some(0.3)).unwrap();
        assert!((waits.demand - 0.85).abs() < 1e-6);
    }
}
