//! What the blocks of a sequence say, level by level.

use super::Ends;
use super::Kept;
use super::LONGEST_BLOCK;
use super::LevelPlayed;
use super::SequenceLog;
use crate::experiment::executor::Arm;
use crate::experiment::levels::FEWEST_PAIRS;
use crate::experiment::log::Held;
use crate::experiment::log::Nearby;
use crate::experiment::log::PairRecord;
use crate::experiment::search::Played;
use crate::experiment::settings::Half;
use jostle_statistics::Block;
use jostle_statistics::Contrasts;
use jostle_statistics::States;
use jostle_statistics::location;
use std::rc::Rc;

/// Shares of the time held by a neighbour between which blocks are told apart: with
/// less, the robust estimate is of the free time anyway; with more, too few are
/// left.
const TOLD_APART: std::ops::RangeInclusive<f64> = 0.05..=0.8;

/// Log ratio of the sources' speed then from which on.
const TOLD_APART_FROM: f64 = -0.15;

/// Blocks of an arm at 100 from which on enough of them must be of the free time.
const MANY: usize = 24;

/// Whether enough of the blocks, each with its arm and whether it is of the free time, are
/// of that. All of them together bound the loss when free as well, within
/// `1 / (1 - held)` times what they show, which says more than next to none does.
fn leaves_enough(blocks: impl Iterator<Item = (usize, bool)>, arms: usize) -> bool {
    let mut counts = vec![(0, 0); arms];
    for (arm, free) in blocks {
        counts[arm].0 += 1;
        counts[arm].1 += usize::from(free);
    }
    let few = |(all, free): &(usize, usize)| *all >= MANY && *free < FEWEST_PAIRS;
    !counts.iter().any(few)
}

/// Whether a neighbour who slows the sources by so much, percent, makes a loss beside
/// them another one.
pub(in crate::experiment) fn matters(slowed_percent: f64) -> bool {
    (1.0 - slowed_percent / 100.0).max(1e-9).ln() <= TOLD_APART_FROM
}

/// Whether blocks while somebody unseen had the core are told apart from the others.
pub(in crate::experiment) fn comes_and_goes(held: &Held) -> bool {
    TOLD_APART.contains(&held.share) && held.slowed <= TOLD_APART_FROM
}

impl SequenceLog {
    /// What all blocks so far say, level by level, and pair by pair. With
    /// `look_for_carry_over` what is still coming after a switch is skipped, and
    /// the blocks to come are lengthened where that takes most of them.
    pub(in crate::experiment) fn judge(&mut self, look_for_carry_over: bool) -> Judgement {
        self.look_at_ends(look_for_carry_over);
        self.judge_by(self.contrasts(), false)
    }

    /// The same when no more blocks come: what has too few of the free time is judged by all
    /// of them.
    pub(in crate::experiment) fn judge_last(&self) -> Judgement {
        self.judge_by(self.contrasts(), true)
    }

    fn look_at_ends(&mut self, look_for_carry_over: bool) {
        if look_for_carry_over {
            self.shorten();
            let known = self.contrasts_by(Ends::Block, None);
            let (skip, late) = self.carry_over(&known);
            let (grain, rounded) = match self.is_in_parts() {
                true => (1.0, false),
                false => self.grain(&known),
            };
            let short = late || rounded;
            (self.skip, self.grain) = (skip, grain);
            let longer = self.skip + 2 * self.sequence.read;
            if short && self.sequence.period * longer <= LONGEST_BLOCK {
                self.sequence.read *= 2;
            }
        }
    }

    fn judge_by(
        &self,
        (blocks, contrasts): (Vec<(&Kept, Block)>, Contrasts),
        last: bool,
    ) -> Judgement {
        let mut judgement = Judgement {
            in_bursts: self.is_in_bursts(),
            ..Judgement::default()
        };
        let states = self.states(&blocks);
        judgement.held = states.as_ref().map(|states| Held {
            share: states.held,
            slowed: states.slowed,
        });
        let told_apart = judgement.held.as_ref().is_some_and(comes_and_goes);
        let states = states.filter(|states| told_apart && self.leaves_enough(&blocks, states));
        judgement.nearby = self.nearby();
        let told_apart = judgement
            .nearby
            .as_ref()
            .is_some_and(|nearby| nearby.told_apart);
        // Blocks that count, where not all do.
        let by_state = states.is_some();
        let all = blocks.clone();
        let chosen = match states {
            Some(states) => Some(states.free),
            None if told_apart => Some(self.near(&blocks)),
            None => None,
        };
        let mut of_all_time = None;
        let (blocks, contrasts) = match chosen {
            None => (blocks, Rc::new(contrasts)),
            Some(chosen) => {
                let of = |blocks: &[(&Kept, Block)]| Rc::new(self.contrasts_of(blocks));
                let pairs = blocks.into_iter().zip(chosen);
                let (free, other): (Vec<_>, Vec<_>) = pairs.partition(|(_, free)| *free);
                let [free, other] = [free, other].map(|blocks| {
                    let blocks = blocks.into_iter().map(|(block, _)| block);
                    blocks.collect::<Vec<(&Kept, Block)>>()
                });
                // Blocks are spread over the time, but for those that wait for a shared cache.
                let rest = match told_apart {
                    true => of(&other),
                    false => Rc::new(contrasts),
                };
                let contrasts = of(&free);
                let few = |arm: usize| {
                    let own = free.iter().zip(&contrasts.ratios);
                    let own = own.filter(|((kept, _), ratio)| kept.arm == arm && ratio.is_some());
                    last && by_state && own.count() < FEWEST_PAIRS
                };
                let full = |(subject, arm)| (arm == Arm::Treat(100.0)).then_some(subject);
                let at_100 = self.arms.iter().enumerate();
                let (of_all, of_part): (Vec<_>, Vec<_>) = at_100
                    .filter_map(|(arm, of)| Some((full(*of)?, rest.clone(), arm)))
                    .partition(|(_, _, arm)| few(*arm));
                judgement.mixtures = of_part;
                let of_all: Vec<usize> = of_all.iter().map(|(subject, _, _)| *subject).collect();
                of_all_time = Some((of_all, rest));
                (free, contrasts)
            }
        };
        for (arm, &(subject, of)) in self.arms.iter().enumerate().skip(1) {
            let mut ratios = Vec::new();
            let mut pressures = Vec::new();
            let (blocks, contrasts) = match &of_all_time {
                Some((subjects, rest)) if subjects.contains(&subject) => (&all, rest),
                _ => (&blocks, &contrasts),
            };
            let own = blocks.iter().zip(&contrasts.ratios);
            for ((block, value), ratio) in own.filter(|((block, _), _)| block.arm == arm) {
                let Some(ratio) = *ratio else { continue };
                ratios.push(ratio);
                pressures.extend(block.reading.pressure);
                if let Arm::Treat(intensity) = of {
                    judgement.pairs.push(PairRecord {
                        at: block.reading.at,
                        subject,
                        half: Half::Tolerated,
                        intensity,
                        log_ratio: ratio,
                        pressure: block.reading.pressure,
                        reference: (value.value - ratio).exp(),
                        counted: Default::default(),
                    });
                }
            }
            match of {
                Arm::Treat(intensity) => judgement.levels.push(LevelPlayed {
                    half: Half::Tolerated,
                    subject,
                    intensity,
                    played: Played {
                        ratios,
                        pressures,
                        contrasts: Some((contrasts.clone(), arm)),
                    },
                }),
                // In this sequence the time that the placebo takes is not in the ratios.
                Arm::Idle => {
                    judgement.idle = Some((contrasts.clone(), arm));
                    let against_control = self.idle_against_control(arm);
                    judgement.sharing.push((subject, of, against_control));
                }
                Arm::Control => judgement.sharing.push((subject, of, ratios)),
                Arm::Probe(_) => {}
            }
        }
        self.judge_probes(&mut judgement, told_apart);
        judgement.level = level(&blocks, &contrasts);
        judgement
    }

    /// When somebody unseen was on the core, as the gauges show; `None` where there
    /// are too few.
    fn states(&self, blocks: &[(&Kept, Block)]) -> Option<States> {
        let probes: Vec<Block> = blocks
            .iter()
            .filter(|(kept, _)| self.gauges.contains(&self.arms[kept.arm].0))
            .filter_map(|(kept, block)| {
                let probe = kept.reading.probe.filter(|probe| *probe > 0.0)?;
                Some(Block {
                    value: probe.ln(),
                    ..*block
                })
            })
            .collect();
        let moments: Vec<f64> = blocks.iter().map(|(_, block)| block.at).collect();
        States::of(&probes, self.arms.len(), &moments)
    }

    /// As [`leaves_enough`], of the `blocks` at 100.
    fn leaves_enough(&self, blocks: &[(&Kept, Block)], states: &States) -> bool {
        let at_100 = |arm: usize| self.arms[arm].1 == Arm::Treat(100.0);
        let own = blocks.iter().zip(&states.free);
        let own = own.map(|((kept, _), free)| (kept.arm, *free));
        leaves_enough(own.filter(|(arm, _)| at_100(*arm)), self.arms.len())
    }

    /// Log ratios of the target's rate without interference, blocks of `idle`,
    /// to its rate under the control, the time lost to it included: one for each
    /// round that has both.
    fn idle_against_control(&self, idle: usize) -> Vec<f64> {
        let rate = |block: &Kept| {
            let (operations, seconds) = self.counted(block).fold((0.0, 0.0), |sum, turn| {
                (sum.0 + turn.all_operations, sum.1 + turn.all_seconds)
            });
            Some((operations / seconds).ln()).filter(|log| log.is_finite())
        };
        self.by_round()
            .filter_map(|round| {
                let of = |arm: usize| -> Vec<f64> {
                    let own = round.iter().filter(|block| block.arm == arm);
                    own.filter_map(rate).collect()
                };
                let (idle, control) = (of(idle), of(0));
                let both = !idle.is_empty() && !control.is_empty();
                both.then(|| location(&idle) - location(&control))
            })
            .collect()
    }
}

/// The control's level, round by round: seconds, log rate.
fn level(blocks: &[(&Kept, Block)], contrasts: &Contrasts) -> Vec<(f64, f64)> {
    let known: Vec<(usize, f64, f64)> = blocks
        .iter()
        .zip(&contrasts.ratios)
        .filter_map(|((_, block), ratio)| Some((block.stratum, block.at, block.value - (*ratio)?)))
        .collect();
    known
        .chunk_by(|a, b| a.0 == b.0)
        .map(|round| {
            let controls: Vec<f64> = round.iter().map(|(_, _, control)| *control).collect();
            (round[round.len() / 2].1, location(&controls))
        })
        .collect()
}

/// What a sequence says.
#[derive(Default)]
pub(in crate::experiment) struct Judgement {
    pub(in crate::experiment) levels: Vec<LevelPlayed>,
    pub(in crate::experiment) pairs: Vec<PairRecord>,
    /// Of arms that do not press: subject, arm, log ratios to the sequence's
    /// control.
    pub(in crate::experiment) sharing: Vec<(usize, Arm, Vec<f64>)>,
    /// The arm without interference in the contrasts.
    pub(in crate::experiment) idle: Option<(Rc<Contrasts>, usize)>,
    /// The control's level, round by round: seconds, log rate.
    pub(in crate::experiment) level: Vec<(f64, f64)>,
    /// How much somebody unseen had of the core; `None` where it cannot be told.
    pub(in crate::experiment) held: Option<Held>,
    /// Whether blocks say nothing since many of those without interference are empty.
    pub(in crate::experiment) in_bursts: bool,
    /// How long sources and target shared a last-level cache; `None` where that is not
    /// known, or does not matter.
    pub(in crate::experiment) nearby: Option<Nearby>,
    /// Where the levels are of the free time alone: per subject the arm at 100 in
    /// the contrasts of all the time; where they are of a shared cache, in those of the
    /// rest of it.
    pub(in crate::experiment) mixtures: Vec<(usize, Rc<Contrasts>, usize)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_to_no_free_time_is_not_enough() {
        let blocks = |all: usize, free: usize| (0..all).map(move |n| (n % 2, n / 2 < free));
        // Two arms of 30 blocks, all but three of each beside somebody unseen.
        assert!(!leaves_enough(blocks(60, 3), 2));
        assert!(leaves_enough(blocks(60, 4), 2));
        // With time there will be more.
        assert!(leaves_enough(blocks(40, 0), 2));
        assert!(matters(30.0) && matters(100.0) && !matters(8.0));
    }
}
