//! What the ends of a block add to it: what a switch leaves behind at its begin, and
//! operations that are seen only when they are whole.

use super::ArmOf;
use super::Kept;
use super::SequenceLog;
use crate::experiment::carry_over::carry_over;
use crate::experiment::executor::Arm;
use crate::experiment::executor::TargetTurn;
use jostle_statistics::Block;
use jostle_statistics::RoughContrasts;
use jostle_statistics::location;
use jostle_statistics::median;
use jostle_statistics::normal_quantile;

/// How many times as much the halves of a block differ as the blocks do where blocks
/// become longer: between 1, noise without memory, and `sqrt(3)`.
const ROUNDED: f64 = 1.4;

/// Blocks that an arm is to have before it is known to settle at once.
const FEWEST_SETTLED: usize = 8;
/// What the first part of a block may differ from the rest by, log rate, and the same
/// in parts of the effect.
const SETTLED_WITHIN: f64 = 0.01;
const SETTLED_PART: f64 = 0.05;
/// Standard errors of that difference that have to lie within.
const SETTLED_SURELY: f64 = 2.0;

/// Operations that a turn has to hold for its own rate to be known.
const FEWEST_OF_TURN: f64 = 8.0;

/// What lies farther out counts as so many times the spread of most.
const FARTHEST: f64 = 3.0;

impl SequenceLog {
    /// Periods in which a switch still shows, in the controls or in the blocks at
    /// 100, and whether it shows to the end of some.
    pub(super) fn carry_over(
        &self,
        (blocks, contrasts): &(Vec<(&Kept, Block)>, RoughContrasts),
    ) -> (u32, bool) {
        let full = |arm: &ArmOf| *arm == self.zero() || arm.1 == Arm::Treat(100.0);
        let mut skip = self.skip;
        let mut late = false;
        let mut counts: Vec<f64> = blocks
            .iter()
            .flat_map(|(block, _)| block.reading.turns.iter())
            .map(|turn| turn.operations)
            .collect();
        // Whole operations, and turns without one, say nothing of a turn's rate.
        if median(&mut counts) < FEWEST_OF_TURN {
            return (skip, late);
        }
        for (arm, _) in self.arms.iter().enumerate().filter(|(_, of)| full(of)) {
            let mut positions: Vec<Vec<f64>> = vec![Vec::new(); self.periods() as usize];
            let own = blocks.iter().zip(&contrasts.ratios);
            let own = own.filter(|((block, _), _)| block.arm == arm && block.slow_source == 0);
            for ((block, value), ratio) in own {
                let Some(ratio) = ratio else { continue };
                for turn in &block.reading.turns {
                    let log = (turn.operations / turn.seconds).ln();
                    if let Some(values) = positions.get_mut(turn.position as usize)
                        && log.is_finite()
                    {
                        values.push(log - (value.value - ratio));
                    }
                }
            }
            match carry_over(&positions) {
                Some(positions) => skip = skip.max(positions as u32),
                None => late = true,
            }
        }
        (skip, late)
    }

    /// Whether a target that is beside sources which may leave much behind shows nothing of
    /// it after `skip` periods, in the controls and in the blocks at 100: then shorter
    /// blocks would do. Not seeing a difference is not enough.
    pub(super) fn settles_within(
        &self,
        skip: u32,
        (blocks, contrasts): &(Vec<(&Kept, Block)>, RoughContrasts),
    ) -> bool {
        let full = |arm: &ArmOf| *arm == self.zero() || arm.1 == Arm::Treat(100.0);
        let rate = |block: &Kept, part: std::ops::Range<u32>| {
            let turns = block.reading.turns.iter();
            let turns = turns.filter(|turn| part.contains(&turn.position));
            let turns: Vec<&TargetTurn> = turns.collect();
            let (operations, seconds) = turns.iter().fold((0.0, 0.0), |sum, turn| {
                (sum.0 + turn.operations, sum.1 + turn.seconds)
            });
            (operations / seconds).ln() - self.expected(&turns).unwrap_or_default()
        };
        let arms = self.arms.iter().enumerate().filter(|(_, of)| full(of));
        let mut settled = arms.map(|(arm, _)| {
            let own = blocks.iter().map(|(block, _)| block);
            let own: Vec<&&Kept> = own.filter(|block| block.arm == arm).collect();
            // What waits for its source settles meanwhile.
            if !own.is_empty() && own.iter().all(|block| block.slow_source > 0) {
                return true;
            }
            let differences: Vec<f64> = own
                .iter()
                .map(|block| rate(block, skip..self.skip) - rate(block, self.skip..u32::MAX))
                .filter(|difference| difference.is_finite())
                .collect();
            if differences.len() < FEWEST_SETTLED {
                return false;
            }
            let error = spread(differences.clone()) / (differences.len() as f64).sqrt();
            let most = SETTLED_WITHIN.max(SETTLED_PART * contrasts.effects[arm].abs());
            location(&differences).abs() + SETTLED_SURELY * error <= most
        });
        settled.all(|settled| settled)
    }

    /// Log rate that runs in which nobody interfered show where `turns` are, which follow
    /// each other; `None` where that is not known.
    fn expected(&self, turns: &[&TargetTurn]) -> Option<f64> {
        let (first, last) = (turns.first()?, turns.last()?);
        let (from, to) = (first.from?, last.from?);
        let known = self.undisturbed.as_ref().filter(|_| from.from_begin);
        known.filter(|_| from.run == to.run)?.log_rate_of(
            from.run,
            from.operations,
            to.operations + last.operations,
        )
    }

    /// Operations that are seen at once, and whether most of the noise of a block
    /// comes from where it begins and ends, as when few operations are counted, or
    /// bursts of them: twice as long ones say more than twice as many then.
    ///
    /// The end of the first half of a block is the begin of the second. So noise of
    /// ends, uniform on a grain `g`, makes half of the difference of the halves of a
    /// block that holds `n` spread by `g / (sqrt(2) n)`: `sqrt(3)` times as much as
    /// blocks do. With noise that has no memory both spread alike, and with drift
    /// blocks spread more.
    pub(super) fn grain(
        &self,
        (blocks, contrasts): &(Vec<(&Kept, Block)>, RoughContrasts),
    ) -> (f64, bool) {
        let (mut halves, mut wholes, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for ((kept, block), ratio) in blocks.iter().zip(&contrasts.ratios) {
            let turns: Vec<&TargetTurn> = self.counted(kept).collect();
            let Some(ratio) = ratio else { continue };
            let sums = |turns: &[&TargetTurn]| {
                let operations: f64 = turns.iter().map(|turn| turn.operations).sum();
                let seconds: f64 = turns.iter().map(|turn| turn.seconds).sum();
                (operations, seconds)
            };
            let (first, second) = turns.split_at(turns.len() / 2);
            let expected = (block.value - ratio + contrasts.effects[block.arm]).exp();
            let relative = |(operations, seconds): (f64, f64)| operations / seconds / expected;
            halves.push(0.5 * (relative(sums(first)) - relative(sums(second))));
            wholes.push(relative(sums(&turns)) - 1.0);
            counts.push(sums(&turns).0);
        }
        let [halves, wholes] = [spread(halves), spread(wholes)];
        let rounded = halves > ROUNDED * wholes;
        let grain = match rounded {
            true => halves * median(&mut counts) * f64::sqrt(2.0),
            false => 1.0,
        };
        (grain.max(1.0), rounded)
    }
}

/// Standard deviation with what lies far out brought nearer: three times the spread of
/// the 80 % of values that lie closest to the middle. In whole numbers a quantile alone
/// jumps from one to the next.
pub(super) fn spread(mut values: Vec<f64>) -> f64 {
    values.retain(|value| value.is_finite());
    let middle = median(&mut values);
    let mut sizes: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let Some(near) = sizes.get(sizes.len() * 4 / 5) else {
        return 0.0;
    };
    let most = FARTHEST * near / normal_quantile(0.9);
    let squares: f64 = sizes.iter().map(|size| size.min(most).powi(2)).sum();
    (squares / sizes.len() as f64).sqrt()
}
