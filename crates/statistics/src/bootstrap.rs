//! Seeded bootstrap of the robust location, with blocks when successive pairs
//! correlate.

use super::rank::ascending;
use super::robust::block_length;
use super::robust::location_sorted;
use super::robust::normal_quantile;
use super::robust::normal_share;
use super::robust::standard_deviation;
use super::robust::student_quantile;
use rand::Rng;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use std::iter::repeat_n;

/// Below this many pairs a resample has too few distinct values for its
/// percentiles to mean much; Student's interval is used instead.
const PERCENTILE_FROM: usize = 8;

/// The bootstrap distribution of the location of one sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Bootstrap {
    /// Location of the sample itself.
    pub location: f64,
    /// Standard error: spread of the resampled locations, times
    /// `sqrt(n / (n - 1))` since a resample knows the sample's centre.
    pub error: f64,
    /// Size of the sample.
    pub n: usize,
    /// Degrees of freedom of the error.
    freedom: f64,
    /// What the resamples are still to be widened by, since one knows the
    /// centre of the sample.
    widening: f64,
    /// Whether percentiles mean something.
    many: bool,
    /// Resampled locations, in drawing order.
    replicates: Vec<f64>,
}

impl Bootstrap {
    /// Resamples `values` (shape n, in time order, finite, n ≥ 1) `count` times.
    pub fn of(values: &[f64], count: usize, rng: &mut ChaCha8Rng) -> Self {
        let n = values.len();
        let order = ascending(values);
        let sorted: Vec<f64> = order.iter().map(|index| values[*index]).collect();
        let mut rank = vec![0; n];
        for (position, index) in order.iter().enumerate() {
            rank[*index] = position;
        }
        let block = block_length(values);
        let mut scratch = Vec::new();
        let location = location_sorted(&sorted, &mut scratch);
        let mut counts = vec![0u32; n];
        let mut resample = Vec::with_capacity(n);
        let replicates: Vec<f64> = (0..count)
            .map(|_| {
                draw(&mut counts, &rank, block, rng);
                resample.clear();
                // Counting by rank yields the resample already in order.
                for (value, times) in sorted.iter().zip(&counts) {
                    resample.extend(repeat_n(*value, *times as usize));
                }
                location_sorted(&resample, &mut scratch)
            })
            .collect();
        // n / block pieces are what is independent.
        let freedom = ((n / block).max(2) - 1) as f64;
        let widening = small_sample(n, block);
        Bootstrap::new(
            location,
            n,
            freedom,
            widening,
            replicates,
            n >= PERCENTILE_FROM,
        )
    }

    /// Of resampled locations that are wide enough as they are.
    pub(crate) fn of_replicates(
        location: f64,
        n: usize,
        freedom: f64,
        replicates: Vec<f64>,
    ) -> Self {
        Bootstrap::new(location, n, freedom, 1.0, replicates, true)
    }

    fn new(
        location: f64,
        n: usize,
        freedom: f64,
        widening: f64,
        replicates: Vec<f64>,
        many: bool,
    ) -> Self {
        let error = match n {
            0 | 1 => f64::INFINITY,
            _ => standard_deviation(&replicates) * widening,
        };
        Bootstrap {
            location,
            error,
            n,
            freedom,
            widening,
            many,
            replicates,
        }
    }

    /// Student's interval at one-sided error `alpha` on each side: for verdicts at levels far out in the tail, which
    /// percentiles of a few hundred resamples cannot reach.
    pub fn student(&self, alpha: f64) -> [f64; 2] {
        if self.n < 2 {
            return [f64::NEG_INFINITY, f64::INFINITY];
        }
        // However well the error is known, n values show a far tail no better than n do.
        let freedom = self.freedom.min(self.n as f64);
        let reach = student_quantile(1.0 - alpha, freedom) * self.error;
        [self.location - reach, self.location + reach]
    }

    /// 95 % percentile interval, expanded for small n: the percentiles are
    /// taken at `alpha' = Phi(-sqrt(n / (n - 1)) t_{0.025, n - 1})` (Hesterberg
    /// 2015, "What teachers should know about the bootstrap", section 5.3), n
    /// being what is independent.
    /// Below 8 pairs it is Student's interval.
    pub fn interval95(&self) -> [f64; 2] {
        if !self.many {
            return self.student(0.025);
        }
        let reach = student_quantile(0.975, self.freedom) * self.widening;
        let tail = normal_share(-reach);
        let mut sorted = self.replicates.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        // A share `tail` of what a further resample would give lies beyond (Hyndman &
        // Fan type 6); type 7 cuts off more, of a few hundred resamples a tenth.
        let count = sorted.len() as f64;
        let place = (tail * (count + 1.0) - 1.0) / (count - 1.0).max(1.0);
        [
            quantile_sorted(&sorted, place),
            quantile_sorted(&sorted, 1.0 - place),
        ]
    }

    /// The resampled locations moved away from the sample's by Hesterberg's
    /// factor at 95 %. In a fit over several samples of different size this
    /// does what moving the percentile does for one.
    pub fn expanded(&self) -> Vec<f64> {
        if self.n < 2 {
            return self.replicates.clone();
        }
        let reach = student_quantile(0.975, self.freedom) / normal_quantile(0.975);
        let factor = reach * self.widening;
        self.replicates
            .iter()
            .map(|value| self.location + (value - self.location) * factor)
            .collect()
    }
}

/// `sqrt(n / (n - 1))`, and for blocks the further narrowing of a resample
/// made of n / block pieces.
fn small_sample(n: usize, block: usize) -> f64 {
    let pieces = (n as f64 / block as f64).max(2.0);
    (pieces / (pieces - 1.0)).sqrt()
}

/// Fills `counts` (by rank) with one resample of blocks of successive values.
fn draw(counts: &mut [u32], rank: &[usize], block: usize, rng: &mut ChaCha8Rng) {
    let n = rank.len();
    counts.fill(0);
    let mut left = n;
    while left > 0 {
        let start = below(rng, n - block + 1);
        let take = block.min(left);
        for index in &rank[start..start + take] {
            counts[*index] += 1;
        }
        left -= take;
    }
}

/// Stream `number` of the random numbers of `seed`.
pub fn stream(seed: u64, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    rng
}

/// Puts `items` into a random order (Fisher and Yates).
pub fn shuffle<T>(rng: &mut ChaCha8Rng, items: &mut [T]) {
    for i in (1..items.len()).rev() {
        items.swap(i, below(rng, i + 1));
    }
}

/// A whole number in 0..n, from 32 random bits (bias below n / 2^32).
pub fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    ((u64::from(rng.next_u32()) * n as u64) >> 32) as usize
}

/// Quantile of ascending values with linear interpolation (Hyndman & Fan
/// type 7). NaN if empty.
pub fn quantile_sorted(sorted: &[f64], probability: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = probability.clamp(0.0, 1.0) * last as f64;
    let lower = position.floor() as usize;
    let upper = (lower + 1).min(last);
    sorted[lower] + (sorted[upper] - sorted[lower]) * (position - lower as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Noise;

    fn misses(n: usize, correlation: f64, outliers: f64, rounds: usize) -> (f64, f64) {
        let mut noise = Noise::seeded(11);
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let (mut percentile, mut strict) = (0, 0);
        for _ in 0..rounds {
            let mut state = noise.normal() * 0.01;
            let step = (1.0 - correlation * correlation).sqrt() * 0.01;
            let sample: Vec<f64> = (0..n)
                .map(|_| {
                    state = correlation * state + step * noise.normal();
                    state + noise.outlier(outliers, 0.3)
                })
                .collect();
            let bootstrap = Bootstrap::of(&sample, 400, &mut rng);
            let [low, high] = bootstrap.interval95();
            percentile += usize::from(low > 0.0 || high < 0.0);
            strict += usize::from(bootstrap.student(0.003)[1] < 0.0);
        }
        (
            percentile as f64 / rounds as f64,
            strict as f64 / rounds as f64,
        )
    }

    fn check_coverage(sizes: &[usize]) {
        for &n in sizes {
            for outliers in [0.0, 0.04] {
                let (missed, strict) = misses(n, 0.0, outliers, 1000);
                assert!(missed < 0.075, "n {n}, outliers {outliers}: {missed}");
                assert!(strict < 0.008, "n {n}, outliers {outliers}: {strict}");
            }
        }
    }

    #[test]
    fn interval_covers_the_truth() {
        check_coverage(&[4, 10]);
    }

    #[test]
    #[ignore = "full tier: a statistics grid"]
    fn interval_covers_the_truth_at_every_size() {
        check_coverage(&[6, 20, 40]);
    }

    /// Short series cannot be told from white noise, so blocks mend only part
    /// of it: without them about a fifth of the intervals miss.
    #[test]
    fn blocks_keep_coverage_when_pairs_correlate() {
        for n in [20, 40] {
            let (missed, _) = misses(n, 0.4, 0.0, 500);
            assert!(missed < 0.2, "n {n}: {missed}");
        }
    }

    #[test]
    fn same_seed_same_interval() {
        let values = [0.1, -0.2, 0.05, 0.3, 0.0, 0.12, 0.04, -0.01, 0.2, 0.15];
        let once = Bootstrap::of(&values, 300, &mut ChaCha8Rng::seed_from_u64(1));
        let again = Bootstrap::of(&values, 300, &mut ChaCha8Rng::seed_from_u64(1));
        assert_eq!(once, again);
    }

    #[test]
    fn degenerate_samples_give_finite_or_open_intervals() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let one = Bootstrap::of(&[0.3], 50, &mut rng);
        assert_eq!(one.interval95(), [f64::NEG_INFINITY, f64::INFINITY]);
        let same = Bootstrap::of(&[0.3; 12], 50, &mut rng);
        assert_eq!(same.interval95(), [0.3, 0.3]);
    }
}
