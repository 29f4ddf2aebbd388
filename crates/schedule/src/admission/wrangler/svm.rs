//! A linear support vector machine, alone or with parts that groups share.

use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde::Deserialize;
use serde::Serialize;

/// Passes over the data at most, and visits of rows at most.
const PASSES: usize = 300;
const VISITS: usize = 6_000_000;

/// Largest violation of the optimality conditions left when training ends.
const TOLERANCE: f64 = 1e-3;

/// The price of an error against the width of the margin.
const COST: f64 = 1.0;

/// Not a member of a third or second group.
pub(super) const NO_GROUP: u32 = u32::MAX;

/// The groups that a row belongs to: a machine of its own has one, a shared one has
/// all, its node and its workload.
pub(super) type Groups = [u32; 3];

/// The only group of a machine of its own.
pub(super) const ALONE: Groups = [0, NO_GROUP, NO_GROUP];

/// A direction and an offset: scores above 0 are slow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Plane {
    pub weights: Vec<f64>,
    pub bias: f64,
}

impl Plane {
    pub(super) fn score(&self, x: &[f64]) -> f64 {
        let products = self.weights.iter().zip(x).map(|(w, x)| w * x);
        self.bias + products.sum::<f64>()
    }

    pub(super) fn add(&mut self, other: &Plane) {
        for (weight, more) in self.weights.iter_mut().zip(&other.weights) {
            *weight += more;
        }
        self.bias += other.bias;
    }

    fn step(&mut self, x: &[f64], by: f64) {
        self.bias += by;
        for (weight, x) in self.weights.iter_mut().zip(x) {
            *weight += by * x;
        }
    }
}

/// Rows to learn from.
pub(super) struct Rows<'a> {
    pub xs: &'a [Vec<f64>],
    pub slow: &'a [bool],
    pub groups: &'a [Groups],
    /// By group: how little its own part costs against the part of all, λ / λ of it.
    pub freedom: &'a [f64],
}

impl Rows<'_> {
    pub(super) fn has_both(&self, rows: &[usize]) -> bool {
        let slow = rows.iter().filter(|row| self.slow[**row]).count();
        slow > 0 && slow < rows.len()
    }
}

/// A part for every group; the score of a row is the sum over its groups.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Svm {
    pub parts: Vec<Plane>,
}

impl Svm {
    pub(super) fn score(&self, x: &[f64], groups: &Groups) -> f64 {
        let parts = groups.iter().filter(|group| **group != NO_GROUP);
        parts.map(|at| self.parts[*at as usize].score(x)).sum()
    }

    /// Minimizes Σ_g ½‖w_g‖² / freedom_g + Σ C_i · max(0, 1 − y_i · score_i) over the
    /// rows `chosen`, the offset as one more weight, by coordinate descent on the dual
    /// (Hsieh and others, ICML 2008). With one group that is a linear machine; with
    /// more it is multi-task learning: the same as a copy of x for every group of a
    /// row, times the root of its freedom, and zeros for the others (Evgeniou and
    /// Pontil, KDD 2004). The rarer class weighs as much as the other in all: C_i
    /// times a whole number is the same as that many copies of its windows. The order
    /// of visits is drawn from `seed`.
    pub(super) fn train(rows: &Rows, chosen: &[usize], seed: u64) -> Svm {
        let width = rows.xs.first().map_or(0, Vec::len);
        let positive = chosen.iter().filter(|row| rows.slow[**row]).count() as f64;
        let negative = chosen.len() as f64 - positive;
        let larger = positive.max(negative);
        let cost = |slow: bool| COST * larger / if slow { positive } else { negative }.max(1.0);
        let free = |groups: &Groups| -> f64 {
            let groups = groups.iter().filter(|group| **group != NO_GROUP);
            groups.map(|group| rows.freedom[*group as usize]).sum()
        };
        let norm = |row: &usize| {
            let square: f64 = rows.xs[*row].iter().map(|x| x * x).sum();
            free(&rows.groups[*row]) * (1.0 + square)
        };
        let norms: Vec<f64> = chosen.iter().map(norm).collect();
        let empty = Plane {
            weights: vec![0.0; width],
            bias: 0.0,
        };
        let mut svm = Svm {
            parts: vec![empty; rows.freedom.len()],
        };
        let mut alphas = vec![0.0f64; chosen.len()];
        let mut order: Vec<usize> = (0..chosen.len()).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let passes = (VISITS / chosen.len().max(1)).clamp(10, PASSES);
        for _ in 0..passes {
            for last in (1..order.len()).rev() {
                order.swap(last, rng.random_range(0..=last));
            }
            let mut worst = 0.0f64;
            for at in &order {
                let row = chosen[*at];
                let (x, groups) = (&rows.xs[row], &rows.groups[row]);
                let sign = if rows.slow[row] { 1.0 } else { -1.0 };
                let gradient = sign * svm.score(x, groups) - 1.0;
                let (old, most) = (alphas[*at], cost(rows.slow[row]));
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
                    for group in groups.iter().filter(|group| **group != NO_GROUP) {
                        let by = (new - old) * sign * rows.freedom[*group as usize];
                        svm.parts[*group as usize].step(x, by);
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

    fn alone(xs: &[Vec<f64>], slow: &[bool], chosen: &[usize], seed: u64) -> Plane {
        let rows = Rows {
            xs,
            slow,
            groups: &vec![ALONE; xs.len()],
            freedom: &[1.0],
        };
        Svm::train(&rows, chosen, seed).parts.remove(0)
    }

    #[test]
    fn two_points_by_hand() {
        // w = 1·(x₊ − x₋)·α with the offset among the weights: for x = ±1 the
        // margin is met exactly at w = 1, b = 0, α = ½ each.
        let plane = alone(&[vec![1.0], vec![-1.0]], &[true, false], &[0, 1], 1);
        assert!((plane.weights[0] - 1.0).abs() < 1e-3, "{plane:?}");
        assert!(plane.bias.abs() < 1e-3, "{plane:?}");
    }

    #[test]
    fn weights_stand_for_copies() {
        let xs: Vec<Vec<f64>> = [0.9, 0.7, 0.1, 0.2, 0.3, 0.75, 0.4, 0.5, 0.6]
            .map(|x| vec![x])
            .to_vec();
        let slow = [true, true, false, false, false, false, false, false, true];
        let weighted = alone(&xs, &slow, &(0..9).collect::<Vec<_>>(), 3);
        // Each of the 3 that are slow twice: as many as the others.
        let chosen: Vec<usize> = (0..9).chain([0, 1, 8]).collect();
        let copied = alone(&xs, &slow, &chosen, 3);
        assert!((weighted.weights[0] - copied.weights[0]).abs() < 0.02);
        assert!((weighted.bias - copied.bias).abs() < 0.02);
    }

    /// Blocks are the feature map written out: x in the block of each group, times the
    /// root of its freedom.
    #[test]
    fn parts_are_blocks_of_a_wider_machine() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let xs: Vec<Vec<f64>> = (0..60)
            .map(|_| (0..2).map(|_| rng.random::<f64>()).collect())
            .collect();
        let slow: Vec<bool> = (0..60).map(|at| xs[at][at % 2] > 0.6).collect();
        let groups: Vec<Groups> = (0..60).map(|at| [0, 1 + at % 2, NO_GROUP]).collect();
        let freedom = [1.0, 2.0, 2.0];
        let rows = Rows {
            xs: &xs,
            slow: &slow,
            groups: &groups,
            freedom: &freedom,
        };
        let every: Vec<usize> = (0..60).collect();
        let parts = Svm::train(&rows, &every, 7);
        // The offset is a weight as well, so that the blocks have 3 columns and the
        // wide machine's own offset must not be used: its column is 0.
        let wide: Vec<Vec<f64>> = (0..60)
            .map(|at| {
                let mut wide = vec![0.0; 9];
                for group in groups[at].iter().filter(|group| **group != NO_GROUP) {
                    let root = f64::sqrt(freedom[*group as usize]);
                    let block = 3 * *group as usize;
                    for (to, x) in xs[at].iter().chain([&1.0]).enumerate() {
                        wide[block + to] = root * x;
                    }
                }
                wide
            })
            .collect();
        // Without an offset: the same dual by plain coordinate descent.
        let mut weights = [0.0; 9];
        let mut alphas = [0.0f64; 60];
        let positive = slow.iter().filter(|slow| **slow).count() as f64;
        let larger = positive.max(60.0 - positive);
        for _ in 0..20_000 {
            for at in 0..60 {
                let sign = if slow[at] { 1.0 } else { -1.0 };
                let most = larger / if slow[at] { positive } else { 60.0 - positive };
                let score: f64 = weights.iter().zip(&wide[at]).map(|(w, x)| w * x).sum();
                let norm: f64 = wide[at].iter().map(|x| x * x).sum();
                let new = (alphas[at] - (sign * score - 1.0) / norm).clamp(0.0, most);
                for (weight, x) in weights.iter_mut().zip(&wide[at]) {
                    *weight += (new - alphas[at]) * sign * x;
                }
                alphas[at] = new;
            }
        }
        for at in 0..60 {
            let score: f64 = weights.iter().zip(&wide[at]).map(|(w, x)| w * x).sum();
            let ours = parts.score(&xs[at], &groups[at]);
            assert!((score - ours).abs() < 0.05, "{at}: {score} {ours}");
        }
    }
}
