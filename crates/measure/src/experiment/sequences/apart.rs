//! Blocks in which sources and target did not share the cache that they are said to
//! share.
//!
//! A hypervisor moves virtual CPUs to other core complexes and back. What a source
//! then takes from the target is another thing, so blocks are told apart by it. The time
//! of a cache line between the two CPUs is no part of the comparison, and arms are
//! random, so blocks picked by it are compared as fairly as all of them.

use super::Kept;
use super::SequenceLog;
use crate::experiment::log::Nearby;
use jostle_host::machine::transfer::APART_NS;
use jostle_statistics::Block;
use jostle_statistics::median;

/// Shares of the blocks in a shared cache between which they are told apart: with more,
/// the robust estimate is of them anyway; with less, they are too few.
const TOLD_APART: std::ops::RangeInclusive<f64> = 0.1..=0.95;
/// Rounds in a shared cache that their blocks are to come from at least.
const FEWEST_ROUNDS: usize = 4;

impl SequenceLog {
    /// How long sources and target shared a last-level cache.
    pub(super) fn nearby(&self) -> Option<Nearby> {
        let looks = self.blocks.iter().filter_map(|block| block.reading.line_ns);
        let (mut near, mut apart) = (Vec::new(), Vec::new());
        for look in looks.flatten() {
            match look > APART_NS {
                true => apart.push(look),
                false => near.push(look),
            }
        }
        let all = near.len() + apart.len();
        if all == 0 {
            return None;
        }
        let share = near.len() as f64 / all as f64;
        let rounds = self.by_round().filter(|round| {
            let mut shared = round.iter().map(|block| block.reading.shares_cache());
            shared.any(|shared| shared == Some(true))
        });
        let middle = |mut looks: Vec<f64>| (!looks.is_empty()).then(|| median(&mut looks));
        let told_apart = TOLD_APART.contains(&share) && rounds.count() >= FEWEST_ROUNDS;
        Some(Nearby {
            share,
            told_apart,
            of_shared_time: told_apart || share > *TOLD_APART.end(),
            near_ns: middle(near),
            apart_ns: middle(apart),
        })
    }

    /// Which of `blocks` were played in a shared cache.
    pub(super) fn near(&self, blocks: &[(&Kept, Block)]) -> Vec<bool> {
        let shared = |(kept, _): &(&Kept, Block)| kept.reading.shares_cache() == Some(true);
        blocks.iter().map(shared).collect()
    }
}
