//! From scores to probabilities.

use serde::Deserialize;
use serde::Serialize;

/// p(slow) = 1 / (1 + exp(a · score + b)); a is negative when higher
/// scores mean slow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Sigmoid {
    pub a: f64,
    pub b: f64,
}

impl Sigmoid {
    pub(super) fn probability(self, score: f64) -> f64 {
        let z = self.a * score + self.b;
        // Never the exponential of something large and positive.
        if z >= 0.0 {
            (-z).exp() / (1.0 + (-z).exp())
        } else {
            1.0 / (1.0 + z.exp())
        }
    }

    /// The most likely sigmoid for `scores` with `labels`, the targets drawn in
    /// from 0 and 1 as by Platt; Newton's method with backtracking in the form
    /// of Lin, Lin and Weng (Machine Learning 68, 2007), whose logarithms do
    /// not overflow.
    pub(super) fn fit(scores: &[f64], labels: &[bool]) -> Sigmoid {
        const ROUNDS: usize = 100;
        const LEAST_STEP: f64 = 1e-10;
        const RIDGE: f64 = 1e-12;
        const DONE: f64 = 1e-5;
        let positive = labels.iter().filter(|label| **label).count() as f64;
        let negative = labels.len() as f64 - positive;
        let high = (positive + 1.0) / (positive + 2.0);
        let low = 1.0 / (negative + 2.0);
        let target = |label: bool| if label { high } else { low };
        let data = || scores.iter().zip(labels).map(|(s, l)| (*s, target(*l)));
        let loss = |a: f64, b: f64| -> f64 {
            data()
                .map(|(score, target)| {
                    let z = a * score + b;
                    match z >= 0.0 {
                        true => target * z + (-z).exp().ln_1p(),
                        false => (target - 1.0) * z + z.exp().ln_1p(),
                    }
                })
                .sum()
        };
        let mut fit = Sigmoid {
            a: 0.0,
            b: ((negative + 1.0) / (positive + 1.0)).ln(),
        };
        let mut value = loss(fit.a, fit.b);
        for _ in 0..ROUNDS {
            let (mut h11, mut h22, mut h21) = (RIDGE, RIDGE, 0.0);
            let (mut g1, mut g2) = (0.0, 0.0);
            for (score, target) in data() {
                let p = fit.probability(score);
                let spread = p * (1.0 - p);
                h11 += score * score * spread;
                h22 += spread;
                h21 += score * spread;
                g1 += score * (target - p);
                g2 += target - p;
            }
            if g1.abs() < DONE && g2.abs() < DONE {
                break;
            }
            let determinant = h11 * h22 - h21 * h21;
            let da = -(h22 * g1 - h21 * g2) / determinant;
            let db = -(h11 * g2 - h21 * g1) / determinant;
            let slope = g1 * da + g2 * db;
            let mut step = 1.0;
            let improved = loop {
                let (a, b) = (fit.a + step * da, fit.b + step * db);
                let new = loss(a, b);
                if new < value + 1e-4 * step * slope {
                    (fit, value) = (Sigmoid { a, b }, new);
                    break true;
                }
                step *= 0.5;
                if step < LEAST_STEP {
                    break false;
                }
            };
            if !improved {
                break;
            }
        }
        fit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;

    #[test]
    fn finds_the_sigmoid_that_made_the_labels() {
        let truth = Sigmoid { a: -1.7, b: 0.8 };
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let scores: Vec<f64> = (0..20_000).map(|_| rng.random_range(-3.0..3.0)).collect();
        let labels: Vec<bool> = scores
            .iter()
            .map(|score| rng.random::<f64>() < truth.probability(*score))
            .collect();
        let fit = Sigmoid::fit(&scores, &labels);
        assert!((fit.a - truth.a).abs() < 0.08, "{fit:?}");
        assert!((fit.b - truth.b).abs() < 0.08, "{fit:?}");
    }

    #[test]
    fn huge_scores_and_separable_labels_stay_finite() {
        let scores = [-1e8, -1e8, 1e8, 1e8];
        let fit = Sigmoid::fit(&scores, &[false, false, true, true]);
        assert!(fit.a.is_finite() && fit.b.is_finite(), "{fit:?}");
        assert!(fit.probability(1e8) > 0.5 && fit.probability(-1e8) < 0.5);
        assert_eq!(Sigmoid { a: -1.0, b: 0.0 }.probability(1e300), 1.0);
        assert_eq!(Sigmoid { a: -1.0, b: 0.0 }.probability(-1e300), 0.0);
    }

    #[test]
    fn scores_that_say_nothing_give_the_base_rate() {
        let scores = [1.0; 100];
        let labels: Vec<bool> = (0..100).map(|at| at % 4 == 0).collect();
        let p = Sigmoid::fit(&scores, &labels).probability(1.0);
        assert!((p - 0.25).abs() < 0.01, "{p}");
    }
}
