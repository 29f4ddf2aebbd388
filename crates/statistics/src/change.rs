//! Whether two measured numbers differ, and which of many differences count.
//!
//! # The interval of a difference
//! Intervals of scores and losses are not symmetric. The difference of two such
//! numbers gets its interval from the ends that face each other, squared and
//! added (MOVER: Zou & Donner 2008, "Construction of confidence limits about
//! effect measures"): an upper end that is far away says nothing about a value
//! below.
//!
//! # Why Holm
//! One comparison makes dozens of tests, and a gate must not fire on any of
//! them when nothing changed. Holm's procedure (1979) keeps the chance of a
//! single false claim below the level, whatever the tests have in common: the
//! score and the loss of one resource come from the same windows. Benjamini and
//! Hochberg's keeps the *share* of false claims among all claims low, so that
//! every true difference buys false ones; that is right for a screening whose
//! claims are checked again, not for a gate.

use crate::rank::ascending;
use crate::robust::student_quantile;
use crate::robust::student_share;

/// A number, its 95 % interval, and on how much both rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    pub value: f64,
    pub ci95: [f64; 2],
    /// Degrees of freedom of the interval.
    pub freedom: f64,
    /// Standard deviation that the interval leaves out: from one run to the
    /// next. Zero where the interval has it.
    pub spread: f64,
}

impl Known {
    /// Standard errors towards lower and higher values, without the spread.
    fn inside(&self) -> [f64; 2] {
        let quantile = student_quantile(0.975, self.freedom);
        [self.value - self.ci95[0], self.ci95[1] - self.value].map(|half| half.max(0.0) / quantile)
    }

    /// The same with the spread.
    fn errors(&self) -> [f64; 2] {
        self.inside().map(|error| error.hypot(self.spread))
    }
}

/// How far one number lies from another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// New less old.
    pub value: f64,
    pub ci95: [f64; 2],
    /// Standard errors of what could hide below and above `value`.
    pub errors: [f64; 2],
    pub freedom: f64,
}

impl Difference {
    /// Of two independent numbers.
    pub fn between(old: Known, new: Known) -> Difference {
        let value = new.value - old.value;
        let ([old_low, old_high], [new_low, new_high]) = (old.errors(), new.errors());
        // Lower than it seems: the new one lower, the old one higher.
        let errors = [new_low.hypot(old_high), new_high.hypot(old_low)];
        let freedom = welch(errors[0].max(errors[1]), [old, new]);
        let quantile = student_quantile(0.975, freedom);
        Difference {
            value,
            ci95: [value - quantile * errors[0], value + quantile * errors[1]],
            errors,
            freedom,
        }
    }

    /// Chance of a difference as far from 0, if there were none.
    pub fn p(&self) -> f64 {
        (2.0 * self.p_above(0.0).min(self.p_below(0.0))).min(1.0)
    }

    /// Chance of a difference as large, if it were not above `limit`.
    pub fn p_above(&self, limit: f64) -> f64 {
        let side = usize::from(self.value < limit);
        1.0 - self.share(self.value - limit, self.errors[side])
    }

    /// Chance of a difference as small, if it were not below `limit`.
    pub fn p_below(&self, limit: f64) -> f64 {
        let side = usize::from(self.value < limit);
        self.share(self.value - limit, self.errors[side])
    }

    fn share(&self, distance: f64, error: f64) -> f64 {
        match (distance == 0.0, error > 0.0) {
            (true, _) => 0.5,
            (false, true) => student_share(distance / error, self.freedom),
            (false, false) => f64::from(u8::from(distance > 0.0)),
        }
    }
}

/// Recordings behind a spread between runs, less one.
const SPREAD_FREEDOM: f64 = 30.0;

/// Degrees of freedom of the difference of two numbers, whose standard error is `error`
/// (Welch & Satterthwaite). Shares of it are raised to the fourth power, not the errors,
/// which would leave the range of a double.
fn welch(error: f64, numbers: [Known; 2]) -> f64 {
    if error <= 0.0 {
        return 1e6;
    }
    let share = |part: f64| (part / error).powi(4);
    let parts: f64 = numbers
        .iter()
        .map(|it| {
            let [low, high] = it.inside();
            share(low.max(high)) / it.freedom + share(it.spread) / SPREAD_FREEDOM
        })
        .sum();
    (1.0 / parts).clamp(1.0, 1e6)
}

/// The p-values of one family, each raised by Holm's procedure: those below the
/// level may be claimed together.
pub fn holm(family: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![1.0; family.len()];
    let mut least = 0.0_f64;
    for (rank, index) in ascending(family).into_iter().enumerate() {
        let tests_left = (family.len() - rank) as f64;
        least = least.max((family[index] * tests_left).min(1.0));
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Noise;

    fn known(value: f64, half: f64) -> Known {
        Known {
            value,
            ci95: [value - half, value + half],
            freedom: 1e6,
            spread: 0.0,
        }
    }

    #[test]
    fn holm_gives_the_textbook_values() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        let wanted = [0.03, 0.06, 0.06, 0.02];
        for (is, wanted) in adjusted.iter().zip(wanted) {
            assert!((is - wanted).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn a_difference_has_the_interval_of_two_normal_numbers() {
        let found = Difference::between(known(10.0, 1.96), known(13.0, 1.96));
        assert!((found.errors[0] - 2_f64.sqrt()).abs() < 1e-3, "{found:?}");
        assert!((found.ci95[0] - (3.0 - 1.96 * 2_f64.sqrt())).abs() < 1e-2);
        // 3 / sqrt 2 standard errors.
        assert!((found.p() - 0.0339).abs() < 5e-4, "{}", found.p());
        assert!((found.p_above(3.0) - 0.5).abs() < 1e-9);
        assert!(found.p_above(10.0) > 0.99 && found.p_below(10.0) < 0.01);
    }

    #[test]
    fn very_wide_intervals_stay_finite() {
        for half in [1e87, 1e102, 1e-102] {
            let wide = Known {
                freedom: 7.0,
                ..known(0.0, half)
            };
            let found = Difference::between(known(0.0, 0.0), wide);
            assert!((found.freedom - 7.0).abs() < 1e-6, "{found:?}");
            assert!((found.ci95[1] / half - 1.0).abs() < 1e-6, "{found:?}");
        }
    }

    #[test]
    fn ends_that_face_away_do_not_count() {
        let bound = Known {
            ci95: [74.0, 100.0],
            ..known(74.0, 0.0)
        };
        assert!(Difference::between(known(100.0, 0.1), bound).p() > 0.04);
        assert!(Difference::between(known(60.0, 2.0), bound).p() < 1e-6);
        assert_eq!(Difference::between(bound, bound).p(), 1.0);
    }

    /// Comparisons of 48 numbers in which nothing, or one thing, changed:
    /// how many claim something where there is nothing, and how many find it.
    fn claims(planted: f64, left_out: f64, accounted: f64) -> (usize, usize) {
        let mut noise = Noise::seeded(7);
        let (mut false_ones, mut found) = (0, 0);
        for _ in 0..400 {
            let p: Vec<f64> = (0..48)
                .map(|at| {
                    let mut measured = |truth: f64| {
                        let run = truth + left_out * noise.normal();
                        // Twelve windows each: the interval is estimated as well.
                        let windows: Vec<f64> = (0..12).map(|_| run + noise.normal()).collect();
                        let error = crate::standard_deviation(&windows) / 12_f64.sqrt();
                        let half = student_quantile(0.975, 11.0) * error;
                        Known {
                            freedom: 11.0,
                            spread: accounted,
                            ..known(crate::mean(&windows), half)
                        }
                    };
                    let old = measured(50.0);
                    let new = measured(if at == 0 { 50.0 + planted } else { 50.0 });
                    Difference::between(old, new).p()
                })
                .collect();
            let adjusted = holm(&p);
            found += usize::from(adjusted[0] < 0.05);
            false_ones += usize::from(adjusted[1..].iter().any(|it| *it < 0.05));
        }
        (false_ones, found)
    }

    #[test]
    fn nothing_is_claimed_of_equals_and_what_is_planted_is_found() {
        let (false_ones, _) = claims(0.0, 0.0, 0.0);
        assert!(false_ones <= 20, "{false_ones} of 400 null comparisons");
        let (false_ones, found) = claims(3.0, 0.0, 0.0);
        assert!(false_ones <= 20, "{false_ones} of 400 beside a true one");
        assert!(found >= 380, "{found} of 400 planted");
    }

    #[test]
    fn a_spread_between_runs_must_be_accounted_for() {
        let (unaware, _) = claims(0.0, 0.5, 0.0);
        assert!(unaware > 200, "{unaware}: the test would not see it");
        let (aware, found) = claims(5.0, 0.5, 0.5);
        assert!(aware <= 20, "{aware} of 400 null comparisons");
        assert!(found >= 380, "{found} of 400 planted");
    }
}
