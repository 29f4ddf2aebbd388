//! How much of its speed a member kept, from its blocks.
//!
//! Blocks are compared within a round, which holds each arm once in random order, so
//! that whatever changes slowly cancels. The value is the robust location of these
//! differences of logs; its interval comes from resampling them, in runs where
//! neighbours correlate.
//!
//! What a neighbour costs is work not done, which is a mean, and a robust location
//! is one only where the noise is even. So blocks are put together until few of them
//! are enough to be about even, and where the mean over all of them still says
//! something else, beyond its own error, the mean it is.

use jostle_profile::Estimate;
use jostle_statistics::Bootstrap;
use jostle_statistics::Course;
use jostle_statistics::Step;
use jostle_statistics::block_length;
use jostle_statistics::mean;
use jostle_statistics::median;
use jostle_statistics::standard_deviation;
use jostle_statistics::stream;
use jostle_statistics::student_quantile;
use std::collections::BTreeMap;

/// One block of one member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub round: usize,
    /// Or apart.
    pub together: bool,
    pub work: f64,
    pub seconds: f64,
    /// As in [`super::Did`].
    pub place: Option<(u32, f64)>,
}

/// What the blocks of a member say.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimated {
    /// Speed together as a fraction of the speed apart.
    pub value: f64,
    pub ci95: [f64; 2],
    pub blocks: u64,
    /// Work per second apart.
    pub apart: Estimate,
    /// Whether the mean was taken because a robust location says something else.
    pub uneven: bool,
    error: LogError,
}

/// How far the log of a ratio may be off.
#[derive(Clone, Debug, PartialEq)]
enum LogError {
    /// Standard error of a mean, with its degrees of freedom.
    Mean { error: f64, freedom: f64 },
    /// Of a robust location.
    Robust(Bootstrap),
}

impl Estimated {
    pub fn half_width(&self) -> f64 {
        0.5 * (self.ci95[1] - self.ci95[0])
    }

    /// Standard error of the log of the value.
    pub fn log_error(&self) -> f64 {
        match &self.error {
            LogError::Mean { error, .. } => *error,
            LogError::Robust(bootstrap) => bootstrap.error,
        }
    }

    /// How far the log of the value may be off in each direction, with a chance of
    /// `alpha` that it is farther off in one of them. For levels far out in the tail.
    pub fn log_reach(&self, alpha: f64) -> f64 {
        match &self.error {
            LogError::Mean { error, freedom } => student_quantile(1.0 - alpha, *freedom) * error,
            LogError::Robust(bootstrap) => {
                let [low, high] = bootstrap.student(alpha);
                0.5 * (high - low)
            }
        }
    }
}

const RESAMPLES: usize = 1000;
/// Fewest rounds that say anything.
pub(super) const FEWEST: usize = 4;
/// Rounds that are put together, tried in this order.
const TOGETHER: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
/// Spread of log rates at which blocks are about even.
const EVEN: f64 = 0.12;
/// Rounds put together leave this many at least.
const LEFT: usize = 8;
/// The mean counts where it is further off than this many of its errors.
const FAR: f64 = 2.5;
/// The course of the runs is used where the mean is known so much better then.
const STEADIER: f64 = 0.95;
/// So much better is no course but the blocks themselves, seen by few others: two fifths
/// is what a known course gains.
const TOO_STEADY: f64 = 0.1;
/// How often the course is found anew with the cost of the neighbours as it shows then.
const PASSES: usize = 2;

/// `None` for fewer than 4 rounds that hold both arms, or where nothing was done
/// apart.
pub fn estimate(samples: &[Sample], seed: u64) -> Option<Estimated> {
    let plain = Rounds::of(samples);
    let along = along_the_course(samples).map(|samples| Rounds::of(&samples));
    let better = TOO_STEADY * plain.error()..STEADIER * plain.error();
    let along = along.filter(|along| better.contains(&along.error()));
    let rounds = along.as_ref().unwrap_or(&plain);
    let found = rounds.contrast(seed)?;
    let ends = found.ends.map(f64::exp);
    let (rate, apart) = plain.apart(seed)?;
    Some(Estimated {
        value: found.log_ratio.exp(),
        ci95: ends,
        blocks: 2 * plain.0.len() as u64,
        apart: Estimate {
            value: rate,
            ci95: apart,
        },
        uneven: found.uneven,
        error: found.error,
    })
}

/// Work and seconds of both arms in each round that holds both.
#[derive(Clone)]
struct Rounds(Vec<[(f64, f64); 2]>);

struct Contrast {
    log_ratio: f64,
    ends: [f64; 2],
    uneven: bool,
    error: LogError,
}

impl Rounds {
    fn of(samples: &[Sample]) -> Rounds {
        let mut rounds: BTreeMap<usize, [(f64, f64); 2]> = BTreeMap::new();
        for sample in samples.iter().filter(|sample| sample.seconds > 0.0) {
            let arms = rounds.entry(sample.round).or_default();
            let sum = &mut arms[usize::from(sample.together)];
            sum.0 += sample.work.max(0.0);
            sum.1 += sample.seconds;
        }
        let both = |arms: &[(f64, f64); 2]| arms.iter().all(|(_, seconds)| *seconds > 0.0);
        Rounds(rounds.into_values().filter(both).collect())
    }

    /// Sums over so many rounds that follow each other.
    fn put_together(&self, count: usize) -> Rounds {
        let chunks = self.0.chunks_exact(count.max(1));
        let sum = |chunk: &[[(f64, f64); 2]]| {
            let mut sums = [(0.0, 0.0); 2];
            for round in chunk {
                for (sum, (work, seconds)) in sums.iter_mut().zip(round) {
                    sum.0 += work;
                    sum.1 += seconds;
                }
            }
            sums
        };
        Rounds(chunks.map(sum).collect())
    }

    fn log_rates(&self, arm: usize) -> Vec<f64> {
        let arms = self.0.iter().map(|round| round[arm]);
        arms.map(|(work, seconds)| (work / seconds).ln()).collect()
    }

    /// Robust spread of the log rates, that of the arm where it is larger; infinite
    /// where a round holds no work at all.
    fn spread(&self) -> f64 {
        let of = |arm: usize| {
            let mut rates = self.log_rates(arm);
            if rates.iter().any(|rate| !rate.is_finite()) {
                return f64::INFINITY;
            }
            let middle = median(&mut rates);
            let mut off: Vec<f64> = rates.iter().map(|rate| (rate - middle).abs()).collect();
            1.4826 * median(&mut off)
        };
        of(0).max(of(1))
    }

    /// As many rounds together as make blocks even, or as leave enough of them.
    fn evened(&self) -> Rounds {
        let fits = |count: &&usize| **count == 1 || self.0.len() / **count >= LEFT;
        let mut last = self.clone();
        for count in TOGETHER.iter().filter(fits) {
            last = self.put_together(*count);
            if last.spread() <= EVEN {
                break;
            }
        }
        last
    }

    fn contrast(&self, seed: u64) -> Option<Contrast> {
        if self.0.len() < FEWEST {
            return None;
        }
        let rounds = self.evened();
        let mean = rounds.mean_contrast()?;
        let rates = [rounds.log_rates(0), rounds.log_rates(1)];
        let differences: Vec<f64> = rates[0].iter().zip(&rates[1]).map(|(a, b)| b - a).collect();
        if differences.iter().any(|difference| !difference.is_finite()) {
            return Some(mean);
        }
        let robust = Bootstrap::of(&differences, RESAMPLES, &mut stream(seed, 0));
        let [low, high] = mean.ends;
        let error = (high - low) / (2.0 * 1.96);
        if (robust.location - mean.log_ratio).abs() > FAR * error {
            return Some(mean);
        }
        Some(Contrast {
            log_ratio: robust.location,
            ends: robust.interval95(),
            uneven: false,
            error: LogError::Robust(robust),
        })
    }

    /// Width of what the mean says.
    fn error(&self) -> f64 {
        let found = self.evened().mean_contrast();
        found.map_or(f64::INFINITY, |found| found.ends[1] - found.ends[0])
    }

    /// Log ratio of the mean rates, with its error from how the rounds differ.
    fn mean_contrast(&self) -> Option<Contrast> {
        let sum = |arm: usize| {
            let arms = self.0.iter().map(|round| round[arm]);
            arms.fold((0.0, 0.0), |sum, (work, seconds)| {
                (sum.0 + work, sum.1 + seconds)
            })
        };
        let [apart, together] = [sum(0), sum(1)];
        let rates = [apart.0 / apart.1, together.0 / together.1];
        if rates[0].is_nan() || rates[0] <= 0.0 {
            return None;
        }
        // Nothing done together is less than half of what is seen at once.
        let least = 0.5 * rates[0] / apart.0.max(1.0);
        let log_ratio = (rates[1].max(least) / rates[0]).ln();
        let n = self.0.len() as f64;
        // How much each round moves the log of the ratio.
        let moves: Vec<f64> = self
            .0
            .iter()
            .map(|round| {
                let pull = |arm: usize, total: (f64, f64)| {
                    let (work, seconds) = round[arm];
                    let rate = (total.0 / total.1).max(least);
                    n * (work - rate * seconds) / (rate * total.1)
                };
                pull(1, together) - pull(0, apart)
            })
            .collect();
        let pieces = (n / block_length(&moves) as f64).max(2.0);
        let strain = (n / pieces).sqrt().min(2.0);
        let error = standard_deviation(&moves) / n.sqrt() * strain;
        let freedom = pieces - 1.0;
        let reach = student_quantile(0.975, freedom) * error;
        Some(Contrast {
            log_ratio,
            ends: [log_ratio - reach, log_ratio + reach],
            uneven: true,
            error: LogError::Mean { error, freedom },
        })
    }

    /// Work per second apart, and its interval.
    fn apart(&self, seed: u64) -> Option<(f64, [f64; 2])> {
        let rates = self.evened().log_rates(0);
        let rates: Vec<f64> = rates.into_iter().filter(|rate| rate.is_finite()).collect();
        if rates.is_empty() {
            return None;
        }
        let found = Bootstrap::of(&rates, RESAMPLES, &mut stream(seed, 1));
        let ends = match rates.len() {
            1 => [found.location; 2],
            _ => found.interval95(),
        };
        Some((found.location.exp(), ends.map(f64::exp)))
    }
}

/// The samples with their work as the other runs of the command show it: so much as
/// would be done at their places in the time that it takes on average. `None` where
/// no course is known.
fn along_the_course(samples: &[Sample]) -> Option<Vec<Sample>> {
    let mut current = samples.to_vec();
    for _ in 0..PASSES {
        let rounds = Rounds::of(&current);
        let slower = rounds.mean_contrast()?.log_ratio.exp();
        let steps = samples.iter().filter_map(|sample| {
            let (run, from) = sample.place?;
            Some(Step {
                run,
                from,
                to: from + sample.work,
                seconds: sample.seconds * if sample.together { slower } else { 1.0 },
            })
        });
        let course = Course::of(&steps.collect::<Vec<Step>>())?;
        current = samples
            .iter()
            .map(|sample| {
                let rate = sample
                    .place
                    .and_then(|(run, from)| course.log_rate_of(run, from, from + sample.work));
                let ahead = rate.map_or(0.0, |rate| rate - course.log_rate);
                Sample {
                    work: sample.work * (-ahead).exp(),
                    ..*sample
                }
            })
            .collect();
    }
    Some(current)
}

/// Mean of the rates apart of a few first blocks; 0 where nothing was done.
pub(super) fn first_rate(did: &[(f64, f64)]) -> f64 {
    let rates: Vec<f64> = did.iter().map(|(work, seconds)| work / seconds).collect();
    match rates.is_empty() {
        true => 0.0,
        false => mean(&rates),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;

    /// A program of wild courses: every tenth part of a block goes at a pace of its own,
    /// the same in each run. Together it keeps `kept`.
    fn wild(kept: f64, seed: u64, runs: u32) -> Vec<Sample> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let length = 30.0;
        let pace: Vec<f64> = (0..300)
            .map(|_| (random.random_range(-2.5..2.5_f64)).exp())
            .collect();
        let (mut run, mut from, mut samples) = (0, 0.0, Vec::new());
        for round in 0.. {
            for together in [round % 2 == 0, round % 2 == 1] {
                let (mut left, mut at) = (1.0, from);
                let slow = if together { kept } else { 1.0 };
                while left > 0.0 && at < length {
                    let cell = (at / length * 300.0) as usize;
                    let rate = pace[cell.min(299)] * slow;
                    let end = (cell + 1) as f64 * length / 300.0;
                    let takes = ((end - at) / rate).min(left);
                    at += (takes * rate).max(1e-9);
                    left -= takes;
                }
                samples.push(Sample {
                    round,
                    together,
                    work: at - from,
                    seconds: 1.0 - left.max(0.0),
                    place: Some((run, from)),
                });
                from = at;
                if from >= length {
                    (run, from) = (run + 1, 0.0);
                }
            }
            if run >= runs {
                return samples;
            }
        }
        unreachable!("rounds do not end by themselves")
    }

    #[test]
    fn a_course_seen_by_few_runs_claims_nothing_that_is_not_so() {
        let mut missed = 0;
        for seed in 0..40 {
            let Some(found) = estimate(&wild(0.66, seed, 3), seed) else {
                continue;
            };
            assert!(found.half_width() > 1e-3, "{seed}: {found:?}");
            let [low, high] = found.ci95;
            missed += u32::from(!(low..=high).contains(&0.66));
        }
        assert!(missed <= 6, "{missed} of 40");
    }
}
