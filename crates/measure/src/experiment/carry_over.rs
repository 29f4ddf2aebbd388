//! How long a switch of arms is felt: what a treated slice took away is still
//! coming back in the next control turns, and a source needs turns of its own
//! until it presses. Counting those turns would bias towards "no effect".

use jostle_statistics::location;
use jostle_statistics::median;

/// A position differs from where the effect settles if it does by so many
/// standard errors, by this share of the effect, and by this much.
const CERTAIN: f64 = 3.0;
const SHARE: f64 = 0.1;
const LEAST: f64 = 0.002;
/// Fewer values than this at a position say nothing about it.
const FEWEST: usize = 8;

/// How many positions at the begin of a block to skip. `positions[p]`: log
/// rates of the target at position `p` less the control's level at that time,
/// of all blocks of one arm. At most half of the positions; `None` where even
/// there it is still on its way, and longer blocks are needed.
pub(super) fn carry_over(positions: &[Vec<f64>]) -> Option<usize> {
    let middle = positions.len() / 2;
    let settled: Vec<f64> = positions[middle..].concat();
    if middle == 0 || settled.len() < FEWEST {
        return Some(0);
    }
    let plateau = location(&settled);
    let error = standard_error(&settled, plateau);
    let differs = |values: &Vec<f64>| {
        if values.len() < FEWEST {
            return false;
        }
        let level = location(values);
        let off = (level - plateau).abs();
        let error = error.hypot(standard_error(values, level));
        off > CERTAIN * error && off > SHARE * plateau.abs() && off > LEAST
    };
    let skip = positions[..middle].iter().rposition(differs);
    // The first of the settled ones, against the rest of them.
    let late = skip == Some(middle - 1) && differs(&positions[middle]);
    (!late).then(|| skip.map_or(0, |last| last + 1))
}

/// Standard error of the location, from the median deviation.
fn standard_error(values: &[f64], location: f64) -> f64 {
    let mut deviations: Vec<f64> = values
        .iter()
        .map(|value| (value - location).abs())
        .collect();
    1.4826 * median(&mut deviations) / (values.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_statistics::Noise;

    /// 60 blocks of 8 positions whose level is `at(position)`.
    fn planted(at: impl Fn(usize) -> f64, seed: u64) -> Vec<Vec<f64>> {
        let mut noise = Noise::seeded(seed);
        (0..8)
            .map(|position| {
                (0..60)
                    .map(|_| at(position) + 0.03 * noise.normal())
                    .collect()
            })
            .collect()
    }

    #[test]
    fn what_is_still_coming_is_skipped() {
        let effect = |p: usize| -0.24 * (1.0 - 0.3f64.powi(p as i32 + 1));
        let skip = carry_over(&planted(effect, 1));
        assert!(matches!(skip, Some(1..=3)), "{skip:?}");
        assert_eq!(carry_over(&planted(|_| -0.24, 2)), Some(0));
        let slow = |p: usize| -0.05 * p as f64;
        assert_eq!(
            carry_over(&planted(slow, 3)),
            None,
            "longer blocks are needed"
        );
    }

    #[test]
    fn noise_is_seldom_taken_for_carry_over() {
        let taken = (0..200).filter(|seed| carry_over(&planted(|_| 0.0, *seed)) != Some(0));
        let taken = taken.count();
        assert!(taken <= 6, "{taken} of 200");
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(carry_over(&[]), Some(0));
        assert_eq!(carry_over(&[vec![0.0], vec![1.0]]), Some(0));
    }
}
