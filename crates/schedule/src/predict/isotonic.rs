//! Noisy points of a curve that can only fall, made to fall.

use jostle_statistics::pools;

/// A point of a curve: where, what is believed there, and its variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knot {
    /// Intensity, 0–100.
    pub at: f64,
    /// ln of performance.
    pub ln: f64,
    pub variance: f64,
}

/// No reading is so sure that it outweighs all others without end.
const LEAST_VARIANCE: f64 = 1e-10;

/// Weighted least-squares fit of a non-increasing curve through `knots`
/// (ascending in `at`), none above 0: pool adjacent violators (Ayer et al.,
/// 1955), weights 1/variance. A running minimum instead would keep every
/// downward error and no upward one.
///
/// A pooled point is known as well as its members together; where they
/// contradict each other by more than their variances allow, by as much less
/// (Birge ratio: χ² per degree of freedom).
pub fn falling(knots: &[Knot]) -> Vec<Knot> {
    let precision = |knot: &Knot| 1.0 / knot.variance.max(LEAST_VARIANCE);
    let mut fitted = Vec::with_capacity(knots.len());
    for pool in pools(knots.iter().map(|knot| (knot.ln, precision(knot)))) {
        let members = &knots[pool.first..][..pool.count];
        let chi_squared: f64 = members
            .iter()
            .map(|knot| (knot.ln - pool.mean).powi(2) / knot.variance.max(LEAST_VARIANCE))
            .sum();
        let freedom = (members.len() - 1).max(1) as f64;
        let variance = match members {
            [one] => one.variance,
            _ => (chi_squared / freedom).max(1.0) / pool.weight,
        };
        fitted.extend(members.iter().map(|knot| Knot {
            at: knot.at,
            ln: pool.mean.min(0.0),
            variance,
        }));
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knots(points: &[(f64, f64)]) -> Vec<Knot> {
        let knot = |(at, (ln, variance)): (usize, &(f64, f64))| Knot {
            at: at as f64,
            ln: *ln,
            variance: *variance,
        };
        points.iter().enumerate().map(knot).collect()
    }

    fn values(fitted: &[Knot]) -> Vec<f64> {
        fitted.iter().map(|knot| knot.ln).collect()
    }

    #[test]
    fn a_falling_curve_stays_and_violators_meet_at_their_weighted_mean() {
        let falls = knots(&[(-0.1, 1.0), (-0.2, 1.0), (-0.4, 1.0)]);
        assert_eq!(falling(&falls), falls);
        // Weights 1 and 3: (−0.4 · 1 − 0.2 · 3) / 4 = −0.25.
        let fitted = falling(&knots(&[(-0.1, 1.0), (-0.4, 1.0), (-0.2, 1.0 / 3.0)]));
        let expected = [-0.1, -0.25, -0.25];
        for (value, expected) in values(&fitted).iter().zip(expected) {
            assert!((value - expected).abs() < 1e-12, "{fitted:?}");
        }
        assert!((fitted[1].variance - 0.25).abs() < 1e-12, "1 / (1 + 3)");
    }

    #[test]
    fn pooling_reaches_back_and_gains_end_at_none() {
        // −0.3, −0.2 pool to −0.25; then −0.1 joins: −0.2.
        let fitted = falling(&knots(&[(-0.3, 1.0), (-0.2, 1.0), (-0.1, 1.0)]));
        for value in values(&fitted) {
            assert!((value + 0.2).abs() < 1e-12);
        }
        assert_eq!(
            values(&falling(&knots(&[(0.05, 1.0), (0.01, 1.0)]))),
            [0.0, 0.0]
        );
    }

    #[test]
    fn contradiction_widens() {
        // −0.4 and −0.2, each ±0.01: χ² = 2 · (0.1 / 0.01)² = 200 on one degree
        // of freedom; variance 200 · 0.0001 / 2 = 0.01.
        let fitted = falling(&knots(&[(-0.4, 1e-4), (-0.2, 1e-4)]));
        assert!((fitted[0].variance - 0.01).abs() < 1e-9, "{fitted:?}");
    }
}
