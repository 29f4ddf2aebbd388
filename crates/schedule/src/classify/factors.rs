//! A few hidden qualities of applications, each of which moves many columns: a
//! Gaussian factor model, x = μ + Λz + e, fitted by expectation maximization to
//! whatever is known. Errors of measurement add to the variance entry by entry,
//! and a range enters by the moments of the normal distribution cut off at its
//! ends.

use super::guess::Guess;
use super::table::Cell;
use super::table::Known;
use super::table::Spread;
use super::table::Table;
use super::table::as_value;
use super::table::reach;
use super::table::spreads;
use super::truncated::Normal;
use jostle_statistics::descending;
use nalgebra::DMatrix;
use nalgebra::SMatrix;
use nalgebra::SVector;

/// Most hidden qualities.
pub(super) const MOST_FACTORS: usize = 6;

/// How many of them cross-validation chooses from.
pub(super) const RANKS: [usize; 4] = [1, 2, 4, 6];

const ROUNDS: usize = 25;

type Hidden = SVector<f64, MOST_FACTORS>;
type Square = SMatrix<f64, MOST_FACTORS, MOST_FACTORS>;
type Loadings = SVector<f64, { MOST_FACTORS + 1 }>;
type Normals = SMatrix<f64, { MOST_FACTORS + 1 }, { MOST_FACTORS + 1 }>;

/// Precision of the belief that a column has nothing to do with a factor.
const LOADING_PRECISION: f64 = 1.0;
/// What is believed of the variance of a column by itself, as a share of its
/// whole variance, and how many entries that belief is worth.
const OWN_VARIANCE: f64 = 0.3;
const OWN_VARIANCE_WORTH: f64 = 2.0;
/// Least variance of a column by itself.
const LEAST_VARIANCE: f64 = 1e-3;

/// Per column, in units of its standard deviation from its mean.
#[derive(Clone, Copy, Debug)]
struct Line {
    mean: f64,
    loadings: Hidden,
    /// Variance that no factor explains.
    own: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Factors {
    columns: Vec<Spread>,
    lines: Vec<Line>,
    reach: f64,
}

/// What is believed of an application's hidden qualities.
#[derive(Clone, Copy, Debug)]
pub(super) struct Belief {
    mean: Hidden,
    covariance: Square,
}

/// An observation as the model takes it: column, value, variance of its error.
type Seen = (usize, f64, f64);

impl Factors {
    pub fn train(table: &Table, rank: usize) -> Self {
        let columns = spreads(table);
        let lines = start(table, &columns, rank.min(MOST_FACTORS));
        let mut model = Factors {
            columns,
            lines,
            reach: reach(table.limits()),
        };
        for _ in 0..ROUNDS {
            model.round(table, rank);
        }
        model
    }

    fn round(&mut self, table: &Table, rank: usize) {
        let width = self.lines.len();
        let mut normals = vec![Normals::zeros(); width];
        let mut rights = vec![Loadings::zeros(); width];
        let mut own = vec![(OWN_VARIANCE * OWN_VARIANCE_WORTH, OWN_VARIANCE_WORTH); width];
        for cells in table.rows() {
            let seen = self.seen(cells);
            let belief = self.believe(&seen);
            let moments = belief.covariance + belief.mean * belief.mean.transpose();
            for (column, value, error) in &seen {
                let line = self.lines[*column];
                let variance = line.own + error;
                let weight = 1.0 / variance;
                let normal = &mut normals[*column];
                let right = &mut rights[*column];
                normal[(0, 0)] += weight;
                right[0] += weight * value;
                for a in 0..rank {
                    normal[(0, a + 1)] += weight * belief.mean[a];
                    normal[(a + 1, 0)] += weight * belief.mean[a];
                    right[a + 1] += weight * value * belief.mean[a];
                    for b in 0..rank {
                        normal[(a + 1, b + 1)] += weight * moments[(a, b)];
                    }
                }
                let share = line.own / variance;
                let off = value - line.mean - line.loadings.dot(&belief.mean);
                let unsure = line.loadings.dot(&(belief.covariance * line.loadings));
                own[*column].0 += share * share * (off * off + unsure) + share * error;
                own[*column].1 += 1.0;
            }
        }
        for (column, line) in self.lines.iter_mut().enumerate() {
            let normal = &mut normals[column];
            normal[(0, 0)] += 1e-6;
            for a in 0..MOST_FACTORS {
                normal[(a + 1, a + 1)] += LOADING_PRECISION;
            }
            if let Some(solver) = normal.cholesky() {
                let solved = solver.solve(&rights[column]);
                line.mean = solved[0];
                line.loadings = Hidden::from_fn(|a, _| solved[a + 1]);
            }
            line.own = (own[column].0 / own[column].1).max(LEAST_VARIANCE);
        }
    }

    /// Cells in the model's units. Ranges become the observation that has the
    /// same effect as what they cut off, given the other cells.
    fn seen(&self, cells: &[Cell]) -> Vec<Seen> {
        let mut seen: Vec<Seen> = Vec::with_capacity(cells.len());
        let mut ranges = Vec::new();
        for (column, known) in cells {
            let Spread { mean, sd } = self.columns[*column];
            match known {
                Known::Value { value, sd: error } => {
                    seen.push((*column, (value - mean) / sd, (error / sd).powi(2)));
                }
                Known::Range { low, high } => {
                    ranges.push((*column, (low - mean) / sd, (high - mean) / sd));
                }
            }
        }
        if ranges.is_empty() {
            return seen;
        }
        let belief = self.believe(&seen);
        for (column, low, high) in ranges {
            let (mean, variance) = self.of(&belief, column);
            let cut = Normal { mean, variance }.within(low, high);
            let precision = 1.0 / cut.variance - 1.0 / variance;
            // Without effect, or as good as without.
            if precision * variance > 1e-6 {
                let value = (cut.mean / cut.variance - mean / variance) / precision;
                seen.push((column, value, 1.0 / precision));
            }
        }
        seen
    }

    fn believe(&self, seen: &[Seen]) -> Belief {
        let mut precision = Square::identity();
        let mut right = Hidden::zeros();
        for (column, value, error) in seen {
            let line = &self.lines[*column];
            let weighted = line.loadings / (line.own + error);
            precision += weighted * line.loadings.transpose();
            right += weighted * (value - line.mean);
        }
        // Identity plus what is not negative: it has a factorization.
        let covariance = precision
            .cholesky()
            .map_or_else(Square::identity, |solver| solver.inverse());
        Belief {
            mean: covariance * right,
            covariance,
        }
    }

    /// Mean and variance of a column, in the model's units.
    fn of(&self, belief: &Belief, column: usize) -> (f64, f64) {
        let line = &self.lines[column];
        let unsure = line.loadings.dot(&(belief.covariance * line.loadings));
        (
            line.mean + line.loadings.dot(&belief.mean),
            unsure + line.own,
        )
    }

    /// Mean and standard deviation of every column, in the table's units, as if
    /// none had been measured by itself.
    pub fn moments(&self, known: &[Cell]) -> Vec<(f64, f64)> {
        let belief = self.believe(&self.seen(known));
        (0..self.lines.len())
            .map(|column| {
                let (mean, variance) = self.of(&belief, column);
                let spread = self.columns[column];
                (spread.mean + mean * spread.sd, variance.sqrt() * spread.sd)
            })
            .collect()
    }

    pub fn complete(&self, known: &[Cell]) -> Vec<Guess> {
        let moments = self.moments(known);
        let guess = |(mean, sd)| Guess::normal(mean, sd);
        moments.into_iter().map(guess).collect()
    }

    /// The same where the measured columns count as such: what they were before
    /// their errors of measurement.
    pub fn smoothed(&self, known: &[Cell]) -> Vec<(f64, f64)> {
        let mut all = self.moments(known);
        for (column, known) in known {
            let (mean, sd) = all[*column];
            all[*column] = match *known {
                Known::Value { value, sd: 0.0 } => (value, 0.0),
                Known::Value { value, sd: error } => {
                    let own = self.lines[*column].own * self.columns[*column].sd.powi(2);
                    let share = own / (own + error * error);
                    (
                        mean + share * (value - mean),
                        (share * error * error).sqrt(),
                    )
                }
                Known::Range { low, high } => {
                    let variance = sd * sd;
                    let cut = Normal { mean, variance }.within(low, high);
                    (cut.mean, cut.variance.sqrt())
                }
            };
        }
        all
    }

    /// How far the known cells lie from what the model expects of an
    /// application, as a sum of squares, and its degrees of freedom. Ranges are
    /// left out.
    pub fn distance(&self, known: &[Cell]) -> (f64, usize) {
        let mut seen: Vec<Seen> = Vec::new();
        let mut sum = 0.0;
        for cell in known {
            if !matches!(cell.1, Known::Value { .. }) {
                continue;
            }
            // One after the other, each given those before it.
            let belief = self.believe(&seen);
            let (mean, variance) = self.of(&belief, cell.0);
            let Spread { mean: at, sd } = self.columns[cell.0];
            let (value, error) = as_value(cell.1, self.reach);
            let (value, error) = ((value - at) / sd, (error / sd).powi(2));
            sum += (value - mean).powi(2) / (variance + error);
            seen.push((cell.0, value, error));
        }
        (sum, seen.len())
    }
}

/// Principal directions of the table, missing entries at their column's mean.
fn start(table: &Table, columns: &[Spread], rank: usize) -> Vec<Line> {
    let reach = reach(table.limits());
    let (width, rows) = (columns.len(), table.rows().len());
    let mut gram = DMatrix::<f64>::zeros(width, width);
    let mut values = vec![0.0; width];
    for cells in table.rows() {
        values.fill(0.0);
        for (column, known) in cells {
            let (value, _) = as_value(*known, reach);
            values[*column] = (value - columns[*column].mean) / columns[*column].sd;
        }
        for (column, _) in cells {
            for (other, _) in cells {
                gram[(*column, *other)] += values[*column] * values[*other];
            }
        }
    }
    gram /= rows.max(1) as f64;
    let eigen = gram.symmetric_eigen();
    let order = descending(eigen.eigenvalues.as_slice());
    (0..width)
        .map(|column| {
            let loadings = Hidden::from_fn(|factor, _| match order.get(factor) {
                Some(at) if factor < rank => {
                    let strength = eigen.eigenvalues[*at].max(0.0).sqrt();
                    0.9 * strength * eigen.eigenvectors[(column, *at)]
                }
                _ => 0.0,
            });
            Line {
                mean: 0.0,
                loadings,
                own: OWN_VARIANCE,
            }
        })
        .collect()
}
