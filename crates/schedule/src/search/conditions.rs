//! Paragon's conditions on a node, D1 ≥ 0 and D2 ≥ 0 per resource, in the order
//! of their importance to one application.

use crate::app::App;
use crate::cluster::summary::NodeSummary;
use crate::compare::below;
use crate::explanation::Direction;
use crate::predict::LANES;
use crate::predict::LaneSet;
use crate::predict::Lanes;
use jostle_statistics::ByNumber;

/// The conditions that an application sets: D1 ≥ 0 by decreasing `c` of the
/// application, then D2 ≥ 0 by increasing `t` (Paragon, section 3.3.2); among
/// equals in the order of [`Resource::ALL`](jostle_profile::resource::Resource::ALL).
///
/// A condition is given up from the latest backwards, one of D2 and one of D1
/// in turn. Its *rank* is its place in that order, 0 for the first to go; a set
/// of missed conditions is one number with a bit per rank. So of two nodes the
/// one with the lower number misses what matters less, and the *level* of a
/// node, how many conditions must be given up until it is among those left, is
/// the length of its number in bits. Where a search that gives up one condition
/// after the other first finds a node is then the least level of all, found in
/// one pass over the nodes instead of one pass per condition given up.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    d1: Side,
    d2: Side,
    /// Direction and lane by rank.
    by_rank: Vec<(Direction, usize)>,
    /// The application's `c` and `t`, for the comparison.
    caused: Lanes<i32>,
    tolerated: Lanes<i32>,
    /// `t − c` of the application, its share of D1 + D2.
    difference: Lanes<i32>,
    both_counted: [LaneSet; 2],
}

/// The conditions of one direction. Each has a bit, the least important the
/// lowest.
#[derive(Clone, Debug)]
struct Side {
    /// By lane; none where the application has no known score.
    bit: Lanes<u32>,
    /// Rank by bit.
    rank: [u8; LANES],
    /// Rank + 1 of the highest of a set of bits, by its length in bits; 0 for
    /// none.
    level: [u8; 32],
    /// The bits that count on nodes where applications have CPUs of their own,
    /// and where they share CPUs.
    counted: [u32; 2],
}

impl Side {
    const EMPTY: Side = Side {
        bit: [0; LANES],
        rank: [0; LANES],
        level: [0; 32],
        counted: [0; 2],
    };

    /// Rank + 1 of the highest of `missed`; 0 for none.
    #[inline]
    fn level(&self, missed: u32) -> u8 {
        // One bit more, so that there is always a highest one: no branch.
        self.level[(missed << 1 | 1).ilog2() as usize]
    }

    /// A bit per rank of `missed`.
    fn by_rank(&self, missed: u32) -> u64 {
        let bits = LaneSet::from_bits(missed).iter();
        bits.fold(0, |all, bit| all | 1 << self.rank[bit])
    }
}

/// Conditions that a node misses: bits by importance within D1 and D2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missed {
    d1: u32,
    d2: u32,
}

impl Conditions {
    pub(crate) fn of(app: &App) -> Self {
        let counts = app.counted(false).or(app.counted(true));
        let mut d1: Vec<usize> = app.caused_known.and(counts).iter().collect();
        let mut d2: Vec<usize> = app.tolerated_known.and(counts).iter().collect();
        d1.sort_by_number(|lane| -f64::from(app.caused[*lane]));
        d2.sort_by_number(|lane| f64::from(app.tolerated[*lane]));
        let mut conditions = Conditions {
            d1: Side::EMPTY,
            d2: Side::EMPTY,
            by_rank: Vec::with_capacity(d1.len() + d2.len()),
            caused: app.caused,
            tolerated: app.tolerated,
            difference: std::array::from_fn(|lane| app.tolerated[lane] - app.caused[lane]),
            both_counted: [false, true].map(|shared| {
                let known = app.tolerated_known.and(app.caused_known);
                known.and(app.counted(shared))
            }),
        };
        let Conditions {
            d1: side1,
            d2: side2,
            by_rank,
            ..
        } = &mut conditions;
        for bit in 0..d1.len().max(d2.len()) {
            for (side, lanes, direction) in [
                (&mut *side2, &d2, Direction::D2),
                (&mut *side1, &d1, Direction::D1),
            ] {
                // Of the lanes, most important first, the one `bit` from the end.
                let Some(place) = lanes.len().checked_sub(bit + 1) else {
                    continue;
                };
                let lane = lanes[place];
                side.bit[lane] = 1 << bit;
                side.rank[bit] = by_rank.len() as u8;
                by_rank.push((direction, lane));
                side.level[bit + 1] = by_rank.len() as u8;
                for shared in [false, true] {
                    if app.counted(shared).contains(lane) {
                        side.counted[usize::from(shared)] |= 1 << bit;
                    }
                }
            }
        }
        conditions
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_rank.len()
    }

    /// Those that the node of `row` misses. A condition whose D is not known
    /// is never missed: the row then has t = 100 or c = 0 there, and what the
    /// application lacks has no bit.
    #[inline]
    pub(crate) fn missed(&self, summary: &NodeSummary) -> Missed {
        let d1 = below(&summary.tolerated, &self.caused, &self.d1.bit);
        let d2 = below(&self.tolerated, &summary.caused, &self.d2.bit);
        let shared = usize::from(summary.shares_cpus);
        Missed {
            d1: d1 & self.d1.counted[shared],
            d2: d2 & self.d2.counted[shared],
        }
    }

    /// How many conditions are given up before a node that misses these is
    /// left.
    #[inline]
    pub(crate) fn level(&self, missed: Missed) -> u8 {
        self.d1.level(missed.d1).max(self.d2.level(missed.d2))
    }

    /// The missed conditions as one number, a bit per rank.
    pub(crate) fn by_importance(&self, missed: Missed) -> u64 {
        self.d1.by_rank(missed.d1) | self.d2.by_rank(missed.d2)
    }

    /// Direction and lane of what is missed, most important first.
    pub(crate) fn in_order(&self, missed: Missed) -> Vec<(Direction, usize)> {
        let bits = self.by_importance(missed);
        let ranks = (0..self.by_rank.len()).rev();
        ranks
            .filter(|rank| bits >> rank & 1 == 1)
            .map(|rank| self.by_rank[rank])
            .collect()
    }

    /// Sum over what the node of `row` misses of by how much, in steps.
    pub(crate) fn shortfall(&self, summary: &NodeSummary, missed: Missed) -> i64 {
        let missed = self.in_order(missed).into_iter();
        let short = missed.map(|(direction, lane)| match direction {
            Direction::D1 => self.caused[lane] - summary.tolerated[lane],
            Direction::D2 => summary.caused[lane] - self.tolerated[lane],
        });
        short.map(i64::from).sum()
    }

    /// Mean |D1 + D2| in steps over the resources known in both directions:
    /// Paragon's ‖D1 + D2‖₁ by their number, so that a node does not look
    /// tight because little is known of it. Infinite where nothing is.
    #[inline]
    pub(crate) fn slack(&self, summary: &NodeSummary) -> f64 {
        let known = summary.tolerated_known.and(summary.caused_known);
        let both = known.and(self.both_counted[usize::from(summary.shares_cpus)]);
        let mut sum = 0u64;
        for lane in 0..LANES {
            let d = summary.tolerated[lane] - summary.caused[lane] + self.difference[lane];
            let kept = (both.bits() >> lane & 1).wrapping_neg();
            sum += u64::from(d.unsigned_abs() & kept);
        }
        match both.len() {
            0 => f64::INFINITY,
            known => sum as f64 / f64::from(known),
        }
    }
}
