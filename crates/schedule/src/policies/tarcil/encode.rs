//! One number from many scores, and how well two such numbers match.

use crate::predict::Lanes;

/// Scores that make up an intensity, the highest: beyond them a number of 64
/// bits shows no difference.
const HIGHEST: usize = 18;

/// Scores as two-digit numbers, sorted descending and written one after the
/// other: `[84, 31]` is 8431 (Tarcil, equation 7.1). What is above 99 counts as
/// 99. `N` is at most 19, what a `u128` holds.
pub fn encode<const N: usize>(mut scores: [u8; N]) -> u128 {
    const { assert!(N <= 19, "two digits per score must fit 128 bits") };
    scores.sort_unstable_by(|a, b| b.cmp(a));
    scores
        .iter()
        .fold(0, |code, score| code * 100 + u128::from((*score).min(99)))
}

/// An encoding of `N` scores as a fraction of the greatest, 10^(2N) − 1
/// (Tarcil, equation 7.2).
pub fn normalize<const N: usize>(code: u128) -> f64 {
    code as f64 / (100u128.pow(N as u32) - 1) as f64
}

/// The same of points per resource: the highest scores have their two digits,
/// for a job and for a unit alike, so that both are on one scale. A resource of
/// which nothing is known, or that does not count, is left out: its digits are
/// `00`, which sorting puts last.
pub fn intensity(points: &Lanes<f32>) -> f64 {
    let mut scores = points.map(|points| points.clamp(0.0, 99.0) as u8);
    scores.sort_unstable_by(|a, b| b.cmp(a));
    let highest = scores.first_chunk::<HIGHEST>();
    normalize::<HIGHEST>(encode(*highest.expect("there are more resources")))
}

/// What is done about units that are worse than the job's target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// `Q = U_H` below the target: the less inadequate, the better.
    #[default]
    Corrected,
    /// `Q = T_W − U_H` as printed, which rises as the unit gets worse.
    Literal,
}

/// How well a unit of quality `unit` (U_H, 1 = undisturbed) suits a job with
/// quality target `target` (T_W, 1 = most intensive): 1 is ideal (Tarcil,
/// equation 7.5). All figures are 0–1.
pub fn quality(target: f64, unit: f64, matching: Matching) -> f64 {
    if unit >= target {
        return 1.0 - (unit - target);
    }
    match matching {
        Matching::Corrected => unit,
        Matching::Literal => target - unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::LANES;

    #[test]
    fn digits_stand_in_descending_order() {
        assert_eq!(encode([31, 84]), 8431);
        assert_eq!(encode([84, 31]), 8431);
        assert_eq!(encode([0u8; 18]), 0);
        assert_eq!(encode([99u8; 18]), 10u128.pow(36) - 1);
        assert_eq!(encode([100u8, 7]), 9907);
    }

    #[test]
    fn targets_by_hand() {
        assert!((normalize::<2>(8431) - 8431.0 / 9999.0).abs() < 1e-15);
        assert_eq!(normalize::<18>(encode([99u8; 18])), 1.0);
        let mut points = [0.0; LANES];
        points[3] = 31.9;
        points[11] = 84.2;
        // 84 31 00 … of 99 99 99 …
        assert!((intensity(&points) - 0.8431).abs() < 1e-12);
        points[0] = 100.0;
        assert!((intensity(&points) - 0.998431).abs() < 1e-12);
    }

    #[test]
    fn the_second_branch_and_its_misprint() {
        assert!((quality(0.3, 0.3, Matching::Corrected) - 1.0).abs() < 1e-15);
        assert!((quality(0.3, 0.9, Matching::Corrected) - 0.4).abs() < 1e-15);
        assert_eq!(quality(0.8, 0.5, Matching::Corrected), 0.5);
        assert_eq!(quality(0.8, 0.1, Matching::Corrected), 0.1);
        // As printed, the worse unit looks better.
        assert!((quality(0.8, 0.5, Matching::Literal) - 0.3).abs() < 1e-15);
        assert!((quality(0.8, 0.1, Matching::Literal) - 0.7).abs() < 1e-15);
    }

    #[test]
    fn corrected_quality_of_inadequate_units_stays_below_that_of_adequate_ones() {
        for target in [0.1, 0.5, 0.9] {
            let adequate = (0..=100)
                .map(|u| f64::from(u) / 100.0)
                .filter(|unit| *unit >= target)
                .map(|unit| quality(target, unit, Matching::Corrected))
                .fold(1.0, f64::min);
            let inadequate = (0..=100)
                .map(|u| f64::from(u) / 100.0)
                .filter(|unit| *unit < target)
                .map(|unit| quality(target, unit, Matching::Corrected))
                .fold(0.0, f64::max);
            assert!(inadequate < target && adequate >= target - 1e-12);
        }
    }
}
