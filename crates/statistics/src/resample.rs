//! Resampling of a sequence: how far its effects may be off.
//!
//! What is drawn is a piece: the blocks of one arm in one stratum, or, where
//! successive pieces correlate, a run of them. All arms and the control are
//! drawn with the same random numbers. So two arms that have blocks in the same
//! strata get the same strata, and what they share (the zero of the control, a
//! state of the machine that changes what a source can do) moves them together.

use super::bootstrap::Bootstrap;
use super::robust::block_length;
use super::robust::influence;
use super::robust::location_sorted;
use super::robust::mean;
use super::robust::standard_deviation;
use super::sequence::Contrasts;
use rand::Rng;
use rand::rngs::ChaCha8Rng;

/// Fewest blocks of an arm that say something about it.
const FEWEST: usize = 4;
/// From this many blocks the location of a resample is found from the
/// influence of its blocks, below from the resample itself.
const LINEAR_FROM: usize = 32;

impl Contrasts {
    /// The log ratio of `arm` to the control with what is not known about
    /// either. `None` for fewer than 4 blocks of the arm or of the control.
    pub fn bootstrap(&self, arm: usize, count: usize, rng: &mut ChaCha8Rng) -> Option<Bootstrap> {
        self.joint(&[arm], count, rng).pop().flatten()
    }

    /// As [`Self::bootstrap`] for several arms. The resamples of one round come
    /// from the same strata, and all have the zero of the same control.
    pub fn joint(
        &self,
        arms: &[usize],
        count: usize,
        rng: &mut ChaCha8Rng,
    ) -> Vec<Option<Bootstrap>> {
        let of = |arm: usize| Pieces::of(self.samples.get(arm)?);
        let control = of(0);
        let pieces: Vec<Option<Pieces>> = arms.iter().map(|arm| of(*arm)).collect();
        let known = pieces.iter().chain([&control]).flatten();
        let draws = known.map(|pieces| pieces.count()).max().unwrap_or(0);
        let numbers: Vec<u32> = (0..count * draws).map(|_| rng.next_u32()).collect();
        let rounds = |pieces: &Pieces| pieces.deviations(&numbers, draws, count);
        let zero = control.as_ref().map(|control| (control, rounds(control)));
        arms.iter()
            .zip(&pieces)
            .map(|(arm, pieces)| {
                let (control, zero) = zero.as_ref()?;
                let pieces = pieces.as_ref()?;
                if *arm == 0 {
                    return None;
                }
                let own = rounds(pieces);
                let (a, b) = (
                    standard_deviation(&own).powi(2),
                    standard_deviation(zero).powi(2),
                );
                // Welch & Satterthwaite.
                let freedom =
                    (a + b).powi(2) / (a * a / pieces.freedom() + b * b / control.freedom());
                let freedom = if freedom.is_finite() {
                    freedom
                } else {
                    pieces.freedom()
                };
                let effect = self.effects[*arm];
                let replicates = own.iter().zip(zero).map(|(own, zero)| effect + own - zero);
                let n = self.samples[*arm].len();
                Some(Bootstrap::of_replicates(
                    effect,
                    n,
                    freedom,
                    replicates.collect(),
                ))
            })
            .collect()
    }
}

/// The ratios of one arm, in pieces.
struct Pieces {
    /// Per piece: bounds in what follows.
    bounds: Vec<(usize, usize)>,
    /// Pieces that are drawn together.
    run: usize,
    location: f64,
    values: Vec<f64>,
    /// Per value, where the location is found from them.
    influence: Option<Vec<f64>>,
}

impl Pieces {
    fn of(sample: &[(usize, f64)]) -> Option<Pieces> {
        let n = sample.len();
        if n < FEWEST {
            return None;
        }
        let mut bounds: Vec<(usize, usize)> = Vec::new();
        for (index, (stratum, _)) in sample.iter().enumerate() {
            match bounds.last_mut() {
                Some(last) if sample[last.0].0 == *stratum => last.1 = index + 1,
                _ => bounds.push((index, index + 1)),
            }
        }
        if bounds.len() < FEWEST {
            bounds = (0..n).map(|index| (index, index + 1)).collect();
        }
        let values: Vec<f64> = sample.iter().map(|(_, ratio)| *ratio).collect();
        let means: Vec<f64> = bounds.iter().map(|(a, b)| mean(&values[*a..*b])).collect();
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let location = location_sorted(&sorted, &mut Vec::new());
        Some(Pieces {
            run: block_length(&means),
            bounds,
            location,
            influence: match n >= LINEAR_FROM {
                true => influence(&values, &sorted, location),
                false => None,
            },
            values,
        })
    }

    fn count(&self) -> usize {
        self.bounds.len()
    }

    /// Independent draws in a resample, less one.
    fn freedom(&self) -> f64 {
        ((self.count() as f64 / self.run as f64).max(2.0) - 1.0).max(1.0)
    }

    /// Locations of resamples less the sample's, `draws` random numbers for
    /// each, widened because a resample knows the centre of the sample.
    fn deviations(&self, numbers: &[u32], draws: usize, count: usize) -> Vec<f64> {
        let widening = (1.0 + 1.0 / self.freedom()).sqrt();
        let mut drawn: Vec<usize> = Vec::new();
        let mut resample = Vec::new();
        let mut scratch = Vec::new();
        let sums: Option<Vec<f64>> = self.influence.as_ref().map(|influence| {
            let sums = self
                .bounds
                .iter()
                .map(|(a, b)| influence[*a..*b].iter().sum());
            sums.collect()
        });
        (0..count)
            .map(|round| {
                self.draw(&numbers[round * draws..(round + 1) * draws], &mut drawn);
                if let Some(sums) = &sums {
                    let sum: f64 = drawn.iter().map(|piece| sums[*piece]).sum();
                    return widening * sum / self.values.len() as f64;
                }
                resample.clear();
                for piece in &drawn {
                    let (a, b) = self.bounds[*piece];
                    resample.extend_from_slice(&self.values[a..b]);
                }
                resample.sort_unstable_by(f64::total_cmp);
                widening * (location_sorted(&resample, &mut scratch) - self.location)
            })
            .collect()
    }

    /// As many pieces as there are, in runs.
    fn draw(&self, numbers: &[u32], drawn: &mut Vec<usize>) {
        drawn.clear();
        let count = self.count();
        let starts = (count - self.run + 1) as u64;
        for number in numbers {
            let start = ((u64::from(*number) * starts) >> 32) as usize;
            let take = self.run.min(count - drawn.len());
            drawn.extend(start..start + take);
            if drawn.len() == count {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Block;
    use crate::Noise;
    use crate::robust::location;
    use crate::stream;

    fn pieces(values: &[f64]) -> Pieces {
        let sample: Vec<(usize, f64)> = values.iter().copied().enumerate().collect();
        Pieces::of(&sample).unwrap()
    }

    fn spread(pieces: &Pieces) -> f64 {
        let mut rng = stream(3, 3);
        let draws = pieces.count();
        let numbers: Vec<u32> = (0..2000 * draws).map(|_| rng.next_u32()).collect();
        standard_deviation(&pieces.deviations(&numbers, draws, 2000))
    }

    /// Influence gives the spread that exact resamples have, for normal values and for
    /// skewed ones with a heavy tail.
    #[test]
    fn influence_agrees_with_exact_resamples() {
        let mut noise = Noise::seeded(8);
        for skewed in [false, true] {
            for n in [40, 400] {
                let draw = |_| match skewed {
                    false => noise.normal(),
                    true => noise.uniform().ln() + noise.outlier(0.05, 20.0),
                };
                let values: Vec<f64> = (0..n).map(draw).collect();
                let linear = pieces(&values);
                assert!((linear.location - location(&values)).abs() < 1e-9);
                let mut exact = pieces(&values);
                assert!(exact.influence.take().is_some());
                let ratio = spread(&linear) / spread(&exact);
                println!("n {n} skewed {skewed}: {ratio:.3}");
                assert!(
                    (0.85..1.15).contains(&ratio),
                    "n {n} skewed {skewed}: {ratio}"
                );
            }
        }
    }

    /// More than half of the values are the same, as where the rate is a small whole number.
    #[test]
    fn equal_values_are_resampled_exactly() {
        let values: Vec<f64> = (0..60).map(|k| (k % 5).min(1) as f64).collect();
        let pieces = pieces(&values);
        assert!(pieces.influence.is_none());
        assert!(spread(&pieces).is_finite());
    }

    /// What one round draws for two arms of the same strata moves both.
    #[test]
    fn arms_share_their_strata_and_the_zero() {
        let mut noise = Noise::seeded(2);
        let mut blocks = Vec::new();
        for stratum in 0..40 {
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
        let found = contrasts.joint(&[1, 2, 3, 9], 500, &mut stream(1, 1));
        assert_eq!(found[3], None);
        let spread = |k: usize| found[k].as_ref().unwrap().expanded();
        let alike = correlation(&spread(0), &spread(1));
        let apart = correlation(&spread(0), &spread(2));
        println!("alike {alike:.2}, apart {apart:.2}");
        assert!(alike > 0.6 && alike > apart + 0.2);
        let alone = contrasts.bootstrap(1, 500, &mut stream(1, 1));
        assert_eq!(alone.unwrap().location, contrasts.effects[1]);
    }

    fn correlation(a: &[f64], b: &[f64]) -> f64 {
        let (x, y) = (mean(a), mean(b));
        let products: f64 = a.iter().zip(b).map(|(a, b)| (a - x) * (b - y)).sum();
        products / (a.len() - 1) as f64 / standard_deviation(a) / standard_deviation(b)
    }
}
