//! Two sources at once: whether they cost more or less together than each by itself
//! says.
//!
//! One of the two reads the target in its blocks, as in a sequence; the other presses
//! meanwhile from CPUs of its own. Blocks beside neither, each and both follow each
//! other in random order, so that all of them share one control.

use super::Run;
use crate::experiment::executor::Arm;
use crate::experiment::executor::Block;
use crate::experiment::executor::BlockReading;
use crate::experiment::executor::BlockRequest;
use crate::experiment::executor::TargetState;
use crate::experiment::executor::WindowError;
use crate::experiment::levels::FEWEST_PAIRS;
use crate::experiment::sequences::SequenceLog;
use jostle_profile::Estimate;
use jostle_profile::Interaction;
use jostle_profile::Together;
use jostle_profile::reading::Reading;
use jostle_statistics::Bootstrap;
use jostle_statistics::mean;
use jostle_statistics::median;
use jostle_statistics::shuffle;
use jostle_statistics::stream;
use rand::rngs::ChaCha8Rng;
use std::time::Duration;

/// Share of the budget that all pairs may have.
const SHARE: f64 = 0.3;
/// Blocks of each arm in a round; of the control twice as many.
const PER_ROUND: usize = 3;
/// Half-width of the 95 % interval of the factor, a fraction, that is narrow enough.
const NARROW: f64 = 0.01;
/// Rounds between two looks at it.
const LOOK_EVERY: usize = 8;
const LONGEST_BLOCK: Duration = Duration::from_millis(100);
const RESAMPLES: usize = 1000;
/// Stands for both sources where an arm names its subject.
const BOTH: usize = usize::MAX;

/// Pressures that a source reached in the blocks of one arm.
type Pressures = Vec<f64>;

/// Two subjects and what was played of them.
struct Pair {
    one: usize,
    other: usize,
    log: SequenceLog,
    rounds: usize,
    /// Of `one` alone and in company, then the same of `other`.
    pressures: [[Pressures; 2]; 2],
}

impl Run<'_, '_> {
    /// Time that the sequences leave for [`Self::play_together`].
    pub(super) fn kept_for_together(&self) -> Duration {
        match self.settings.together.iter().flatten().next() {
            None => Duration::ZERO,
            Some(_) => self.settings.budget.mul_f64(SHARE),
        }
    }

    /// Plays every pair that was asked for.
    pub(super) fn play_together(&mut self) -> Result<(), WindowError> {
        let pairs: Vec<[&str; 2]> = self.settings.together.iter().flatten().copied().collect();
        let most = self
            .settings
            .budget
            .mul_f64(SHARE / pairs.len().max(1) as f64);
        for (index, resources) in pairs.into_iter().enumerate() {
            self.tell(
                None,
                format!("{} and {} at once", resources[0], resources[1]),
            );
            let effect = match self.pair_of(resources) {
                Err(reason) => Err(reason),
                Ok(pair) => self.play_pair(pair, resources, index, most)?,
            };
            self.log.together.push(Together {
                resources: resources.map(String::from),
                effect: match effect {
                    Ok(effect) => Reading::Value(effect),
                    Err(reason) => Reading::unavailable(reason),
                },
            });
        }
        Ok(())
    }

    /// The two subjects, the one that reads the target first.
    fn pair_of(&self, resources: [&str; 2]) -> Result<Pair, String> {
        let subject = |id: &str| {
            let known = self.queue.subjects.iter().position(|it| it.resource == id);
            let subject = known.ok_or_else(|| format!("{id} could not be stressed"))?;
            let mut halves = self.queue.halves.iter().filter(|it| it.subject == subject);
            match halves.find_map(|half| half.error.clone()) {
                Some(error) => Err(format!("{id} could not be stressed: {error}")),
                None => Ok(subject),
            }
        };
        let [one, other] = [subject(resources[0])?, subject(resources[1])?];
        self.bench.at_once(one, other)?;
        let log = |subject: usize| {
            let mut logs = self.sequences.iter();
            let log = logs.find(|log| log.members.contains(&subject));
            log.ok_or_else(|| {
                let id = self.queue.subjects[subject].resource;
                format!("{id} takes too long to switch on and off, and is not played in blocks")
            })
        };
        // Slices are read at both ends; what takes CPU time has another control.
        let rank = |log: &SequenceLog| (log.sequence.slices, !log.sequence.takes_time);
        let (first, second) = (log(one)?, log(other)?);
        let swap = rank(second) > rank(first);
        let (one, other) = if swap { (other, one) } else { (one, other) };
        let (log, beside) = if swap {
            (second, first)
        } else {
            (first, second)
        };
        let mut log = log.for_two(beside, one);
        let rate = median(&mut self.log.baseline().to_vec());
        log.lengthen(rate, self.bench.gap(), LONGEST_BLOCK);
        Ok(Pair {
            one,
            other,
            log,
            rounds: 0,
            pressures: Default::default(),
        })
    }

    fn play_pair(
        &mut self,
        mut pair: Pair,
        resources: [&str; 2],
        index: usize,
        most: Duration,
    ) -> Result<Result<Interaction, String>, WindowError> {
        let began = self.bench.now();
        let mut rng = stream(self.settings.seed, u64::MAX / 2 - index as u64);
        loop {
            let blocks = self.compose_pair(&pair);
            let takes = pair.log.block() * blocks.len() as u32;
            let spent = self.bench.now().saturating_sub(began);
            if takes > self.left() || spent + takes > most {
                break;
            }
            let read = match self.bench.play(&blocks) {
                Err(WindowError::Subject(reason)) => return Ok(Err(reason)),
                read => read?,
            };
            pair.rounds += 1;
            pair.log.rounds += 1;
            for (request, result) in blocks.iter().zip(read) {
                match result {
                    Block::Read(reading) => pair.keep(request, reading),
                    Block::Missed => {}
                    Block::Failed(reason) => return Ok(Err(reason)),
                }
            }
            if pair.rounds.is_multiple_of(LOOK_EVERY)
                && pair
                    .effect(&mut rng)
                    .is_some_and(|effect| half_width(effect.factor) <= NARROW)
            {
                break;
            }
        }
        let effect = pair.effect(&mut rng).map(|mut effect| {
            if self.queue.subjects[pair.one].resource != resources[0] {
                effect.each.reverse();
                effect.arrived_percent.reverse();
            }
            effect
        });
        Ok(effect.ok_or_else(|| {
            format!(
                "{} rounds of blocks of {:.0} ms were too few; a longer --budget may do",
                pair.rounds,
                pair.log.block().as_secs_f64() * 1e3
            )
        }))
    }

    /// The blocks of one round: beside neither, each and both.
    fn compose_pair(&mut self, pair: &Pair) -> Vec<BlockRequest> {
        let zero = pair.log.zero().1;
        let treat = Arm::Treat(100.0);
        let beside = Some(pair.other);
        let arms = [
            (zero, None),
            (zero, None),
            (treat, None),
            (zero, beside),
            (treat, beside),
        ];
        let arms = std::iter::repeat_n(arms, PER_ROUND).flatten();
        let mut blocks: Vec<BlockRequest> = arms
            .map(|(arm, beside)| BlockRequest {
                subject: pair.one,
                arm,
                target: TargetState::Running,
                skip: pair.log.skip,
                periods: pair.log.periods(),
                turn: None,
                beside,
            })
            .collect();
        let rng = self.bench.rng();
        shuffle(rng, &mut blocks);
        blocks
    }
}

impl Pair {
    /// Keeps a block in the log as one of its own arm.
    fn keep(&mut self, request: &BlockRequest, reading: BlockReading) {
        let treated = matches!(request.arm, Arm::Treat(_));
        let company = usize::from(treated && request.beside.is_some());
        if treated {
            self.pressures[0][company].extend(reading.pressure);
        }
        self.pressures[1][company].extend(reading.beside);
        let subject = match (treated, request.beside) {
            (_, None) => request.subject,
            (false, Some(other)) => other,
            (true, Some(_)) => BOTH,
        };
        let arm = match request.beside {
            Some(_) => Arm::Treat(100.0),
            None => request.arm,
        };
        let labelled = BlockRequest {
            subject,
            arm,
            ..*request
        };
        self.log.keep(&labelled, reading);
    }

    /// What is known so far; `None` while an arm has too few blocks.
    fn effect(&self, rng: &mut ChaCha8Rng) -> Option<Interaction> {
        let contrasts = self.log.against_control();
        let mut of = |subject: usize| {
            let arm = self.log.arm_of(subject, Arm::Treat(100.0))?;
            let found = contrasts.bootstrap(arm, RESAMPLES, rng)?;
            (found.n >= FEWEST_PAIRS).then_some(found)
        };
        let (one, other, both) = (of(self.one)?, of(self.other)?, of(BOTH)?);
        // The three share their control, whose error is in the factor once with each
        // sign: this interval is rather too wide than too narrow.
        let spread = [&one, &other, &both].map(squared_half_widths);
        let factor = both.location - one.location - other.location;
        let end = |side: usize| {
            // What makes both higher, or the others lower, makes it higher.
            let parts = spread[2][side] + spread[0][1 - side] + spread[1][1 - side];
            parts.sqrt()
        };
        let arrived = self.pressures.each_ref().map(|[alone, company]| {
            let percent = 100.0 * mean(company) / mean(alone);
            percent.is_finite().then_some(percent)
        });
        Some(Interaction {
            each: [fraction(&one), fraction(&other)],
            both: fraction(&both),
            factor: Estimate {
                value: factor.exp(),
                ci95: [(factor - end(0)).exp(), (factor + end(1)).exp()],
            },
            arrived_percent: arrived,
            blocks: both.n as u64,
        })
    }
}

fn fraction(log_ratio: &Bootstrap) -> Estimate {
    Estimate {
        value: log_ratio.location.exp(),
        ci95: log_ratio.interval95().map(f64::exp),
    }
}

/// From the location to each end of the 95 % interval, squared: below, above.
fn squared_half_widths(log_ratio: &Bootstrap) -> [f64; 2] {
    log_ratio
        .interval95()
        .map(|end| (end - log_ratio.location).powi(2))
}

fn half_width(estimate: Estimate) -> f64 {
    (estimate.ci95[1] - estimate.ci95[0]) / 2.0
}
