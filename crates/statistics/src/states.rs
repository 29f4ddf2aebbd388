//! States of a machine that somebody unseen shares: when it was free, as the
//! sources of a sequence show by their own speed.
//!
//! A neighbour on the hidden sibling thread of a virtual CPU takes caches and
//! execution units away for milliseconds to minutes, and what a target loses to a
//! source is another thing then. The speed of the target must not tell the two
//! apart: a block picked by its own speed, or by that of its controls, is
//! biased. What sources do in their own slices is not part of the comparison. Each
//! block stands where its neighbours say, itself left out, and which arm it has
//! is random, so blocks picked by state are compared as fairly as all of them.

use super::robust::median;
use super::sequence::Block;
use super::sequence::common_drift;

/// States last for about so long, seconds: as far as neighbours count.
const LASTING: f64 = 0.016;
/// Bounds of the probes that this makes on each side.
const REACH: (f64, f64) = (1.0, 8.0);
/// Log ratio to the free level below which the machine counts as held: a busy
/// sibling thread takes a fifth or more, and moments next to it lie between.
const HELD_BY: f64 = -0.06;
/// The level that is reached in this share of the moments is the free one.
const FREE_QUANTILE: f64 = 0.9;
/// Fewest probes that say something.
const FEWEST: usize = 40;

/// Of what the probes around say, a probe itself must show at least so much; where they
/// are mere noise it shows nothing, since it is not among them.
const SHOWN: f64 = 0.5;

/// When the machine was free.
#[derive(Clone, Debug, PartialEq)]
pub struct States {
    /// Per moment asked for.
    pub free: Vec<bool>,
    /// Share of the moments in which it was held, 0–1; moments near a change count
    /// as what they are nearer to.
    pub held: f64,
    /// Log ratio of the sources' speed when held to that when free; 0 when it never
    /// was.
    pub slowed: f64,
}

impl States {
    /// Of `probes` in time order, whose values are logs of what sources did
    /// themselves, each compared with its own arm only, at `moments`, seconds,
    /// ascending. `None` for too few probes.
    pub fn of(probes: &[Block], arms: usize, moments: &[f64]) -> Option<States> {
        if probes.len() < FEWEST || moments.is_empty() {
            return None;
        }
        let gaps = probes.windows(2).map(|pair| pair[1].at - pair[0].at);
        let gap = median(&mut gaps.collect::<Vec<f64>>());
        let reach = (LASTING / gap).clamp(REACH.0, REACH.1).round();
        let own = centred(probes, arms);
        let drift = common_drift(&own, arms, reach as usize);
        let levels: Vec<f64> = moments
            .iter()
            .map(|at| {
                let next = probes.partition_point(|probe| probe.at < *at);
                let [before, after] = [next.saturating_sub(1), next.min(probes.len() - 1)];
                if probes[after].at == *at {
                    return drift[after];
                }
                let gap = probes[after].at - probes[before].at;
                let share = if gap > 0.0 {
                    ((at - probes[before].at) / gap).clamp(0.0, 1.0)
                } else {
                    0.0
                };
                drift[before] * (1.0 - share) + drift[after] * share
            })
            .collect();
        let mut sorted = levels.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let top = sorted[(FREE_QUANTILE * (sorted.len() - 1) as f64) as usize];
        let free: Vec<bool> = levels.iter().map(|level| level - top >= HELD_BY).collect();
        // Moments near a change lie between the two: not free, and not held either.
        let taken = &sorted[..sorted.partition_point(|level| level - top < HELD_BY)];
        let slowed = taken.get(taken.len() / 4).map_or(0.0, |level| level - top);
        if shown(&own, &drift, top) > SHOWN * slowed {
            return Some(States {
                free: vec![true; moments.len()],
                held: 0.0,
                slowed: 0.0,
            });
        }
        let held = sorted.partition_point(|level| level - top < f64::min(HELD_BY, 0.5 * slowed));
        Some(States {
            free,
            held: held as f64 / levels.len() as f64,
            slowed,
        })
    }
}

/// Log ratio, by their own values, of the half of the held probes that their neighbours
/// call the slowest to the free ones; 0 where there are none.
fn shown(own: &[Block], drift: &[f64], top: f64) -> f64 {
    let probes = own.iter().zip(drift);
    let (free, mut held): (Vec<_>, Vec<_>) =
        probes.partition(|(_, drift)| **drift - top >= HELD_BY);
    held.sort_unstable_by(|(_, a), (_, b)| a.total_cmp(b));
    held.truncate(held.len().div_ceil(2));
    if held.is_empty() || free.is_empty() {
        return 0.0;
    }
    let middle = |probes: Vec<(&Block, &f64)>| {
        let mut values: Vec<f64> = probes.iter().map(|(block, _)| block.value).collect();
        median(&mut values)
    };
    middle(held) - middle(free)
}

/// `probes` without the level of their arms. Sources differ by factors of thousands in what
/// they count: of a handful of probes each, drift and such levels are not told apart.
fn centred(probes: &[Block], arms: usize) -> Vec<Block> {
    let mut by_arm = vec![Vec::new(); arms];
    for probe in probes {
        by_arm[probe.arm].push(probe.value);
    }
    let levels: Vec<Option<f64>> = by_arm
        .iter_mut()
        .map(|values| (!values.is_empty()).then(|| median(values)))
        .collect();
    let own = |probe: &Block| Block {
        value: probe.value - levels[probe.arm].unwrap_or(0.0),
        ..*probe
    };
    probes.iter().map(own).collect()
}
