//! Paragon's classification: singular value decomposition with biases, refined
//! by stochastic gradient descent over the known entries (dissertation, section
//! 3.2.1; Quasar adds the biases):
//!
//! ε = x − μ − b − q·p;  q += η(ε p − λ q);  p += η(ε q − λ p)
//!
//! Steps are shorter for entries with a large error of their own. A range pulls
//! only while the prediction lies outside of it. A new application gets the b and
//! q that minimize the same objective with p held: a small linear system.

use super::guess::Guess;
use super::table::Cell;
use super::table::Known;
use super::table::Spread;
use super::table::Table;
use super::table::as_value;
use super::table::reach;
use super::table::spreads;
use jostle_statistics::descending;
use nalgebra::DMatrix;
use nalgebra::DVector;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

/// What cross-validation chooses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Knobs {
    /// Similarity concepts.
    pub rank: usize,
    pub lambda: f64,
}

pub(super) const KNOBS: [Knobs; 6] = [
    Knobs {
        rank: 1,
        lambda: 0.05,
    },
    Knobs {
        rank: 2,
        lambda: 0.05,
    },
    Knobs {
        rank: 2,
        lambda: 0.2,
    },
    Knobs {
        rank: 4,
        lambda: 0.05,
    },
    Knobs {
        rank: 4,
        lambda: 0.2,
    },
    Knobs {
        rank: 6,
        lambda: 0.2,
    },
];

const EPOCHS: usize = 30;
/// η of the first epoch; it falls as 1/(1 + epoch/10).
const STEP: f64 = 0.03;
/// Error, in standard deviations of a column, at which an entry counts half.
const HALF_WEIGHT: f64 = 0.5;

/// No step follows an error beyond this many standard deviations: one outlier
/// must not throw the rest.
const FARTHEST: f64 = 3.0;

#[derive(Clone, Debug)]
pub(super) struct Svd {
    columns: Vec<Spread>,
    reach: f64,
    knobs: Knobs,
    /// Column by column: p.
    factors: Vec<f64>,
    /// Spread of what is left over, per column, in its standard deviations.
    residual: Vec<f64>,
}

/// A cell in standard deviations of its column: where it may lie and how much
/// it counts.
#[derive(Clone, Copy)]
struct Pull {
    row: usize,
    column: usize,
    low: f64,
    high: f64,
    weight: f64,
}

impl Pull {
    fn of(row: usize, cell: &Cell, columns: &[Spread]) -> Pull {
        let (column, known) = *cell;
        let Spread { mean, sd } = columns[column];
        let (low, high, error) = match known {
            Known::Value { value, sd } => (value, value, sd),
            Known::Range { low, high } => (low, high, 0.0),
        };
        Pull {
            row,
            column,
            low: (low - mean) / sd,
            high: (high - mean) / sd,
            weight: 1.0 / (1.0 + (error / sd / HALF_WEIGHT).powi(2)),
        }
    }

    /// What to add to `predicted` to be where it should.
    fn error(&self, predicted: f64) -> f64 {
        predicted.clamp(self.low, self.high) - predicted
    }
}

impl Svd {
    pub fn train(table: &Table, knobs: Knobs, seed: u64) -> Self {
        let columns = spreads(table);
        let rows = table.rows().len();
        let rank = knobs.rank.min(columns.len()).max(1);
        let mut pulls: Vec<Pull> = Vec::new();
        for (row, cells) in table.rows().iter().enumerate() {
            pulls.extend(cells.iter().map(|cell| Pull::of(row, cell, &columns)));
        }
        let mut factors = decompose(table, &columns, rank);
        let mut qualities = vec![0.0; rows * rank];
        let mut biases = vec![0.0; rows];
        // Q = AP: what the decomposition says of the rows.
        for pull in &pulls {
            let middle = pull.low.max(-3.0) / 2.0 + pull.high.min(3.0) / 2.0;
            for k in 0..rank {
                qualities[pull.row * rank + k] += middle * factors[pull.column * rank + k];
            }
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for epoch in 0..EPOCHS {
            let step = STEP / (1.0 + epoch as f64 / 10.0);
            pulls.shuffle(&mut rng);
            for pull in &pulls {
                let q = &mut qualities[pull.row * rank..][..rank];
                let p = &mut factors[pull.column * rank..][..rank];
                let bias = &mut biases[pull.row];
                let dot: f64 = q.iter().zip(p.iter()).map(|(q, p)| q * p).sum();
                let error = pull.error(*bias + dot).clamp(-FARTHEST, FARTHEST);
                let error = pull.weight * error;
                *bias += step * (error - knobs.lambda * *bias);
                for (q, p) in q.iter_mut().zip(p) {
                    let (old_q, old_p) = (*q, *p);
                    *q += step * (error * old_p - knobs.lambda * old_q);
                    *p += step * (error * old_q - knobs.lambda * old_p);
                    *q = q.clamp(-FARTHEST, FARTHEST);
                    *p = p.clamp(-FARTHEST, FARTHEST);
                }
            }
        }
        let mut squares = vec![(1.0, 1.0); columns.len()];
        for pull in &pulls {
            let q = &qualities[pull.row * rank..][..rank];
            let p = &factors[pull.column * rank..][..rank];
            let dot: f64 = q.iter().zip(p).map(|(q, p)| q * p).sum();
            let error = pull.error(biases[pull.row] + dot);
            squares[pull.column].0 += error * error;
            squares[pull.column].1 += 1.0;
        }
        Svd {
            columns,
            reach: reach(table.limits()),
            knobs: Knobs { rank, ..knobs },
            factors,
            residual: squares.iter().map(|(sum, n)| (sum / n).sqrt()).collect(),
        }
    }

    pub fn complete(&self, known: &[Cell]) -> Vec<Guess> {
        let rank = self.knobs.rank;
        let line = |column: usize| {
            DVector::from_fn(rank + 1, |k, _| match k {
                0 => 1.0,
                k => self.factors[column * rank + k - 1],
            })
        };
        // Ranges pull towards their nearer end: a few rounds settle which.
        let mut solved = DVector::zeros(rank + 1);
        for _ in 0..4 {
            let ridge = self.knobs.lambda * known.len().max(1) as f64;
            let mut normal = DMatrix::<f64>::identity(rank + 1, rank + 1) * ridge;
            let mut right = DVector::zeros(rank + 1);
            for cell in known {
                let pull = Pull::of(0, cell, &self.columns);
                let line = line(pull.column);
                let predicted = solved.dot(&line);
                let wanted = predicted + pull.error(predicted);
                normal += pull.weight * &line * line.transpose();
                right += pull.weight * wanted * &line;
            }
            if let Some(solver) = normal.cholesky() {
                solved = solver.solve(&right);
            }
            if known
                .iter()
                .all(|(_, known)| matches!(known, Known::Value { .. }))
            {
                break;
            }
        }
        (0..self.columns.len())
            .map(|column| {
                let Spread { mean, sd } = self.columns[column];
                let value = mean + sd * solved.dot(&line(column));
                let value = value.clamp(mean - self.reach, mean + self.reach);
                Guess::normal(value, sd * self.residual[column])
            })
            .collect()
    }
}

/// The first `rank` right singular vectors, column by column; missing entries
/// are at their column's mean.
fn decompose(table: &Table, columns: &[Spread], rank: usize) -> Vec<f64> {
    let reach = reach(table.limits());
    let rows = table.rows().len();
    let mut values = DMatrix::<f64>::zeros(rows.max(1), columns.len());
    for (row, cells) in table.rows().iter().enumerate() {
        for (column, known) in cells {
            let Spread { mean, sd } = columns[*column];
            values[(row, *column)] = (as_value(*known, reach).0 - mean) / sd;
        }
    }
    // The right singular vectors of A are the eigenvectors of AᵀA, which is
    // small however many rows there are.
    let eigen = (values.transpose() * &values).symmetric_eigen();
    let order = descending(eigen.eigenvalues.as_slice());
    let mut factors = vec![0.0; columns.len() * rank];
    for (k, at) in order.iter().take(rank).enumerate() {
        for column in 0..columns.len() {
            factors[column * rank + k] = eigen.eigenvectors[(column, *at)];
        }
    }
    factors
}
