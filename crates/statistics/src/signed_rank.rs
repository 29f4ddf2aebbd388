//! Location of paired differences with an interval that assumes nothing but symmetry.
//!
//! The differences of two things that are the same, paired and put into random order,
//! lie symmetrically about 0, however heavy their tails. The signed-rank statistic of
//! Wilcoxon (1945) has a known distribution then, so an interval of its shifts keeps
//! its promise exactly; its middle is the location of Hodges and Lehmann (1963).

use crate::robust::averages_at_most;
use crate::robust::location_sorted;
use crate::robust::normal_quantile;

/// Up to this many values the distribution is counted out.
const COUNTED: usize = 60;
/// Steps of the bisection for an end of the interval: the range of the values over
/// 2 to this power.
const STEPS: u32 = 60;

/// Location of `values` and the interval that holds it with probability `level`;
/// `None` where there are too few for that, or some are not finite.
pub fn paired(values: &[f64], level: f64) -> Option<(f64, [f64; 2])> {
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let cut = critical(values.len(), 0.5 * (1.0 - level))?;
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let count = sorted.len() * (sorted.len() + 1) / 2;
    let ends = [walsh(&sorted, cut), walsh(&sorted, count - 1 - cut)];
    Some((location_sorted(&sorted, &mut Vec::new()), ends))
}

/// Fewest values that [`paired`] gives an interval for.
pub fn fewest(level: f64) -> usize {
    let tail = 0.5 * (1.0 - level);
    (1..).find(|n| critical(*n, tail).is_some()).unwrap_or(1)
}

/// How many of the averages of two lie on each side of the interval, when at most
/// `tail` of the probability may.
fn critical(n: usize, tail: f64) -> Option<usize> {
    if n > COUNTED {
        let n = n as f64;
        let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        let at = n * (n + 1.0) / 4.0 + normal_quantile(tail) * deviation - 0.5;
        return (at >= 0.0).then_some(at.floor() as usize);
    }
    // Subsets of the ranks by their sum.
    let mut subsets = vec![0.0; n * (n + 1) / 2 + 1];
    subsets[0] = 1.0;
    for rank in 1..=n {
        for sum in (rank..subsets.len()).rev() {
            subsets[sum] += subsets[sum - rank];
        }
    }
    let all = 2f64.powi(n as i32);
    let mut below = 0.0;
    for (sum, ways) in subsets.iter().enumerate() {
        below += ways / all;
        if below > tail {
            return sum.checked_sub(1);
        }
    }
    None
}

/// The average of two values that `rank` others lie below.
fn walsh(sorted: &[f64], rank: usize) -> f64 {
    let (mut low, mut high) = (sorted[0], sorted[sorted.len() - 1]);
    for _ in 0..STEPS {
        let middle = 0.5 * (low + high);
        match averages_at_most(sorted, 2.0 * middle) > rank {
            true => high = middle,
            false => low = middle,
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::stream;
    use rand::RngExt;

    /// From the tables in every textbook: at 5 % on two sides 8 for 10 values, 52 for
    /// 20, 434 for 50.
    #[test]
    fn critical_values_are_those_of_the_tables() {
        for (n, cut) in [(10, 8), (20, 52), (50, 434)] {
            assert_eq!(critical(n, 0.025), Some(cut));
        }
        assert_eq!(critical(5, 0.025), None);
        assert_eq!(critical(6, 0.025), Some(0));
        assert_eq!(fewest(0.95), 6);
        assert_eq!(fewest(0.98), 7);
        // Where the table ends and the approximation begins.
        assert_eq!(critical(60, 0.025), Some(648));
        assert!(critical(61, 0.025).unwrap().abs_diff(672) <= 1);
    }

    #[test]
    fn six_values_need_all_of_their_range() {
        let (middle, ends) = paired(&[3.0, 1.0, 2.0, 6.0, 4.0, 5.0], 0.95).unwrap();
        assert!((middle - 3.5).abs() < 1e-9);
        assert!((ends[0] - 1.0).abs() < 1e-9 && (ends[1] - 6.0).abs() < 1e-9);
        assert_eq!(paired(&[1.0, 2.0, 3.0], 0.95), None);
        assert_eq!(paired(&[f64::NAN; 30], 0.95), None);
    }

    /// Tails as heavy as those of stolen time, and few values: no more misses than
    /// promised, and not many fewer.
    #[test]
    fn intervals_cover_however_heavy_the_tails() {
        let mut rng = stream(5, 0);
        for n in [8, 15, 40, 90] {
            let (mut missed, tries) = (0, 4000);
            for _ in 0..tries {
                let mut value = || {
                    let noise: f64 = (0..6).map(|_| rng.random::<f64>() - 0.5).sum();
                    let wild = if rng.random::<f64>() < 0.15 {
                        40.0
                    } else {
                        1.0
                    };
                    0.7 + wild * noise
                };
                let values: Vec<f64> = (0..n).map(|_| value()).collect();
                let (_, [low, high]) = paired(&values, 0.98).unwrap();
                missed += usize::from(!(low..=high).contains(&0.7));
            }
            let share = missed as f64 / tries as f64;
            assert!((0.010..=0.027).contains(&share), "n {n}: {share}");
        }
    }
}
