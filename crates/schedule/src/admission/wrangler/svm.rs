//! A linear support vector machine.

use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// Passes over the data at most.
const PASSES: usize = 300;

/// Largest violation of the optimality conditions left when training ends.
const TOLERANCE: f64 = 1e-3;

/// The price of an error against the width of the margin.
const COST: f64 = 1.0;

/// A direction and an offset: scores above 0 are stragglers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Svm {
    pub weights: Vec<f64>,
    pub bias: f64,
}

impl Svm {
    pub(super) fn score(&self, x: &[f64]) -> f64 {
        let products = self.weights.iter().zip(x).map(|(w, x)| w * x);
        self.bias + products.sum::<f64>()
    }

    /// Minimizes ½‖w‖² + Σ C_i · max(0, 1 − y_i(w·x_i + b)) over the windows
    /// `rows` of `xs`, the offset as one more weight, by coordinate descent on
    /// the dual (Hsieh and others, ICML 2008). The rarer class weighs as much
    /// as the other in all: C_i times a whole number is the same as that many
    /// copies of its windows. The order of visits is drawn from `seed`.
    pub(super) fn train(xs: &[Vec<f64>], ys: &[bool], summaries: &[usize], seed: u64) -> Svm {
        let width = xs.first().map_or(0, Vec::len);
        let positive = summaries.iter().filter(|summary| ys[**summary]).count() as f64;
        let negative = summaries.len() as f64 - positive;
        let most = positive.max(negative);
        let cost = |y: bool| COST * most / if y { positive } else { negative }.max(1.0);
        let norms: Vec<f64> = summaries
            .iter()
            .map(|summary| 1.0 + xs[*summary].iter().map(|x| x * x).sum::<f64>())
            .collect();
        let mut svm = Svm {
            weights: vec![0.0; width],
            bias: 0.0,
        };
        let mut alphas = vec![0.0f64; summaries.len()];
        let mut order: Vec<usize> = (0..summaries.len()).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..PASSES {
            for last in (1..order.len()).rev() {
                order.swap(last, rng.random_range(0..=last));
            }
            let mut worst = 0.0f64;
            for at in &order {
                let (x, y) = (&xs[summaries[*at]], ys[summaries[*at]]);
                let sign = if y { 1.0 } else { -1.0 };
                let gradient = sign * svm.score(x) - 1.0;
                let (old, most) = (alphas[*at], cost(y));
                let projected = if old <= 0.0 {
                    gradient.min(0.0)
                } else if old >= most {
                    gradient.max(0.0)
                } else {
                    gradient
                };
                worst = worst.max(projected.abs());
                let new = (old - gradient / norms[*at]).clamp(0.0, most);
                if new != old {
                    alphas[*at] = new;
                    let step = (new - old) * sign;
                    svm.bias += step;
                    for (weight, x) in svm.weights.iter_mut().zip(x) {
                        *weight += step * x;
                    }
                }
            }
            if worst < TOLERANCE {
                break;
            }
        }
        svm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_points_by_hand() {
        // w = 1·(x₊ − x₋)·α with the offset among the weights: for x = ±1 the
        // margin is met exactly at w = 1, b = 0, α = ½ each.
        let svm = Svm::train(&[vec![1.0], vec![-1.0]], &[true, false], &[0, 1], 1);
        assert!((svm.weights[0] - 1.0).abs() < 1e-3, "{svm:?}");
        assert!(svm.bias.abs() < 1e-3, "{svm:?}");
    }

    #[test]
    fn weights_stand_for_copies() {
        let xs: Vec<Vec<f64>> = [0.9, 0.7, 0.1, 0.2, 0.3, 0.75, 0.4, 0.5, 0.6]
            .map(|x| vec![x])
            .to_vec();
        let ys = [true, true, false, false, false, false, false, false, true];
        let weighted = Svm::train(&xs, &ys, &(0..9).collect::<Vec<_>>(), 3);
        // Each of the 3 stragglers twice: as many as the others.
        let summaries: Vec<usize> = (0..9).chain([0, 1, 8]).collect();
        let copied = Svm::train(&xs, &ys, &summaries, 3);
        assert!((weighted.weights[0] - copied.weights[0]).abs() < 0.02);
        assert!((weighted.bias - copied.bias).abs() < 0.02);
    }
}
