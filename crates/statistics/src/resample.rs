//! Resampling of a sequence: how far its effects may be off.
//!
//! What is drawn is a piece: the blocks of one arm in one stratum, or, where
//! successive pieces correlate, a run of them. All arms and the control are
//! drawn with the same random numbers. So two arms that have blocks in the same
//! strata get the same strata, and what they share (the zero of the control, a
//! state of the machine that changes what a source can do) moves them together.
//! These numbers are the same at every call; so are the errors of the control.

use super::bootstrap::Bootstrap;
use super::bootstrap::stream;
use super::law::OWN_FROM;
use super::robust::block_length;
use super::robust::standard_deviation;
use super::sequence::Contrasts;
use rand::Rng;
use rand::rngs::ChaCha8Rng;

/// Fewest blocks of an arm that say something about it.
const FEWEST: usize = 4;
/// Seeds of the random numbers that all arms have in common.
const STRATA: u64 = 0x5354_5241;
const ZERO: u64 = 0x5a45_524f;

impl Contrasts {
    /// The log ratio of `arm` to the control with what is not known about
    /// either. `None` for fewer than 4 blocks of the arm or of the control.
    pub fn bootstrap(&self, arm: usize, count: usize, rng: &mut ChaCha8Rng) -> Option<Bootstrap> {
        self.joint(&[arm], count, rng).pop().flatten()
    }

    /// As [`Self::bootstrap`] for several arms, in one go. The resamples of one
    /// round come from the same strata, and all have the zero of the same control.
    pub fn joint(
        &self,
        arms: &[usize],
        count: usize,
        rng: &mut ChaCha8Rng,
    ) -> Vec<Option<Bootstrap>> {
        let of = |arm: usize| Errors::of(self, arm);
        let control = of(0);
        let known: Vec<Option<Errors>> = arms.iter().map(|arm| of(*arm)).collect();
        let draws = known.iter().chain([&control]).flatten();
        let draws = draws.map(Errors::draws).max().unwrap_or(0);
        let mut strata = stream(STRATA, 0);
        let mut numbers = Vec::with_capacity(count * draws);
        for round in 0..count {
            strata.set_stream(round as u64);
            numbers.extend((0..draws).map(|_| strata.next_u32()));
        }
        let doubt = self.law.doubt();
        let rounds = |errors: &Errors, rng: &mut ChaCha8Rng| {
            let (errors, width) = match &errors.kind {
                Kind::Many { pieces, strain } => (pieces.errors(&numbers, draws, count), *strain),
                Kind::Few { size, width } => (self.law.errors(*size, count, rng), *width),
            };
            let errors = errors.into_iter().map(|error| error * width * doubt);
            errors.collect::<Vec<f64>>()
        };
        let zero = control.map(|control| {
            let errors = rounds(&control, &mut stream(ZERO, 0));
            (errors, control.freedom)
        });
        let found = arms.iter().zip(&known).map(|(arm, errors)| {
            let (zero, zero_freedom) = zero.as_ref()?;
            let errors = errors.as_ref().filter(|_| *arm != 0)?;
            let own = rounds(errors, rng);
            let square = |errors: &[f64]| standard_deviation(errors).powi(2);
            let (a, b) = (square(&own), square(zero));
            // Welch & Satterthwaite.
            let freedom = (a + b).powi(2) / (a * a / errors.freedom + b * b / zero_freedom);
            let freedom = if freedom.is_finite() {
                freedom
            } else {
                errors.freedom
            };
            let effect = self.effects[*arm];
            let replicates = own.iter().zip(zero).map(|(own, zero)| effect - own + zero);
            let n = self.samples[*arm].len();
            Some(Bootstrap::of_replicates(
                effect,
                n,
                freedom,
                replicates.collect(),
            ))
        });
        found.collect()
    }
}

/// How the location of one arm may err.
struct Errors {
    kind: Kind,
    freedom: f64,
}

enum Kind {
    /// As samples of so many values of the common law.
    Few { size: usize, width: f64 },
    /// As resamples of its own, times the strain of the law.
    Many { pieces: Pieces, strain: f64 },
}

impl Errors {
    /// `None` for too few blocks.
    fn of(contrasts: &Contrasts, arm: usize) -> Option<Errors> {
        let sample = contrasts.samples.get(arm)?;
        let size = sample.len();
        let width = contrasts.widths[arm];
        if size < FEWEST {
            return None;
        }
        if size < OWN_FROM {
            let kind = Kind::Few {
                size,
                width: width.value,
            };
            return Some(Errors {
                kind,
                freedom: width.freedom,
            });
        }
        let values: Vec<f64> = sample.iter().map(|(_, ratio)| *ratio).collect();
        let location = contrasts.law.location(&values, width.value);
        let influence = contrasts.law.influence(&values, location, width.value);
        let strata: Vec<usize> = sample.iter().map(|(stratum, _)| *stratum).collect();
        let pieces = Pieces::of(&strata, &influence);
        let freedom = pieces.freedom();
        Some(Errors {
            kind: Kind::Many {
                pieces,
                strain: contrasts.law.strain(size),
            },
            freedom,
        })
    }

    /// Random numbers a resample takes.
    fn draws(&self) -> usize {
        match &self.kind {
            Kind::Few { .. } => 0,
            Kind::Many { pieces, .. } => pieces.sums.len(),
        }
    }
}

/// The influence of the blocks of one arm on its location, in pieces.
struct Pieces {
    /// Per piece: sum of the influence, over the number of blocks.
    sums: Vec<f64>,
    /// Pieces that are drawn together.
    run: usize,
}

impl Pieces {
    fn of(strata: &[usize], influence: &[f64]) -> Pieces {
        let n = influence.len() as f64;
        let mean = influence.iter().sum::<f64>() / n;
        let shares = influence.iter().map(|value| (value - mean) / n);
        let mut sums: Vec<f64> = Vec::new();
        for (k, share) in shares.clone().enumerate() {
            match sums.last_mut() {
                Some(sum) if strata[k] == strata[k - 1] => *sum += share,
                _ => sums.push(share),
            }
        }
        if sums.len() < FEWEST {
            sums = shares.collect();
        }
        Pieces {
            run: block_length(&sums),
            sums,
        }
    }

    /// Independent draws in a resample, less one.
    fn freedom(&self) -> f64 {
        (self.sums.len() as f64 / self.run as f64).max(2.0) - 1.0
    }

    /// Of the location, `draws` random numbers for each resample, widened
    /// because a resample knows the centre of the sample.
    fn errors(&self, numbers: &[u32], draws: usize, count: usize) -> Vec<f64> {
        let widening = (1.0 + 1.0 / self.freedom()).sqrt();
        let pieces = self.sums.len();
        let starts = (pieces - self.run + 1) as u64;
        (0..count)
            .map(|round| {
                let (mut left, mut sum) = (pieces, 0.0);
                for number in &numbers[round * draws..] {
                    let start = ((u64::from(*number) * starts) >> 32) as usize;
                    let take = self.run.min(left);
                    sum += self.sums[start..start + take].iter().sum::<f64>();
                    left -= take;
                    if left == 0 {
                        break;
                    }
                }
                widening * sum
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Block;
    use crate::Noise;
    use crate::below;
    use crate::mean;
    use crate::stream;

    /// What one round draws for two arms of the same strata moves both.
    #[test]
    fn arms_share_their_strata_and_the_zero() {
        let mut noise = Noise::seeded(2);
        let mut blocks = Vec::new();
        for stratum in 0..60 {
            let state = 0.05 * noise.normal();
            for arm in [1, 0, 2, 3] {
                let moved = if arm == 1 || arm == 2 { state } else { 0.0 };
                blocks.push(Block {
                    at: blocks.len() as f64,
                    stratum,
                    arm,
                    value: moved + 0.01 * noise.normal(),
                });
            }
        }
        let contrasts = Contrasts::of(&blocks, 4);
        let found = contrasts.joint(&[1, 2, 3, 9, 0], 500, &mut stream(1, 1));
        assert_eq!(found[3], None);
        assert_eq!(found[4], None);
        let spread = |k: usize| found[k].as_ref().unwrap().expanded();
        let alike = correlation(&spread(0), &spread(1));
        let apart = correlation(&spread(0), &spread(2));
        assert!(
            alike > 0.6 && alike > apart + 0.2,
            "alike {alike:.2}, apart {apart:.2}"
        );
        let alone = contrasts.bootstrap(1, 500, &mut stream(1, 1));
        assert_eq!(alone, found[0]);
    }

    fn correlation(a: &[f64], b: &[f64]) -> f64 {
        let (x, y) = (mean(a), mean(b));
        let products: f64 = a.iter().zip(b).map(|(a, b)| (a - x) * (b - y)).sum();
        products / (a.len() - 1) as f64 / standard_deviation(a) / standard_deviation(b)
    }

    /// Coverage where a fifth of the arms have five times the noise of the others.
    #[test]
    fn arms_of_different_noise_are_covered() {
        for strata in [6, 60] {
            let (mut missed, mut intervals) = ([0, 0], [0, 0]);
            for round in 0..40 {
                let mut noise = Noise::seeded(round);
                let mut rng = stream(round, 1);
                let mut blocks = Vec::new();
                for stratum in 0..strata {
                    let mut order: Vec<usize> = (0..21).chain([0, 0]).collect();
                    for i in (1..order.len()).rev() {
                        order.swap(i, below(&mut rng, i + 1));
                    }
                    for arm in order {
                        let width = if arm % 5 == 1 { 0.05 } else { 0.01 };
                        blocks.push(Block {
                            at: blocks.len() as f64,
                            stratum,
                            arm,
                            value: width * noise.normal(),
                        });
                    }
                }
                let arms: Vec<usize> = (1..21).collect();
                let contrasts = Contrasts::of(&blocks, 21);
                for (arm, found) in arms.iter().zip(contrasts.joint(&arms, 400, &mut rng)) {
                    let kind = usize::from(arm % 5 == 1);
                    let [low, high] = found.unwrap().interval95();
                    intervals[kind] += 1;
                    missed[kind] += usize::from(low > 0.0 || high < 0.0);
                }
            }
            for kind in [0, 1] {
                let share = missed[kind] as f64 / intervals[kind] as f64;
                assert!(share < 0.1, "{strata} strata, kind {kind}: {share}");
            }
        }
    }

    #[test]
    fn strata_with_many_blocks_are_drawn_whole() {
        let pieces = Pieces::of(&[0, 0, 1, 2, 2, 2, 3, 4], &[1.0; 8]);
        assert_eq!(pieces.sums.len(), 5);
        // Too few strata: single blocks.
        assert_eq!(Pieces::of(&[0, 0, 0, 1, 1], &[1.0; 5]).sums.len(), 5);
    }
}
