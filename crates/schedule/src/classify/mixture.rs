//! Every application of the training set is a possibility, as wide as a
//! bandwidth; what is known of a new one says how likely each is, and the rest
//! follows from those that are (a kernel density estimate, conditioned).
//!
//! It needs no straight lines: two kinds of program that agree in what was
//! measured and differ elsewhere stay two possibilities. What the training set
//! itself does not know is filled by the factor model, with its variance.

use super::factors::Factors;
use super::guess::Guess;
use super::guess::Z95;
use super::table::Cell;
use super::table::Known;
use super::table::Spread;
use super::table::Table;
use super::table::spreads;
use super::truncated::cumulative;
use jostle_statistics::ascending;

/// Bandwidths in standard deviations of a column, chosen from by
/// cross-validation.
pub(super) const WIDTHS: [f64; 5] = [0.05, 0.1, 0.2, 0.4, 0.8];

#[derive(Clone, Debug)]
pub(super) struct Mixture {
    factors: Factors,
    columns: Vec<Spread>,
    rows: usize,
    /// Column by column: mean and variance of every row.
    means: Vec<f64>,
    variances: Vec<f64>,
    /// Column by column: the rows by ascending mean.
    order: Vec<u32>,
    width: f64,
}

impl Mixture {
    pub fn train(table: &Table, factors: Factors, width: f64) -> Self {
        let columns = spreads(table);
        let rows = table.rows().len();
        let mut means = vec![0.0; rows * columns.len()];
        let mut variances = vec![0.0; rows * columns.len()];
        for (row, cells) in table.rows().iter().enumerate() {
            for (column, (mean, sd)) in factors.smoothed(cells).into_iter().enumerate() {
                means[column * rows + row] = table.clamp(mean);
                variances[column * rows + row] = sd * sd;
            }
        }
        let mut order = Vec::with_capacity(rows * columns.len());
        for column in 0..columns.len() {
            let means = &means[column * rows..][..rows];
            order.extend(ascending(means).into_iter().map(|row| row as u32));
        }
        Mixture {
            factors,
            columns,
            rows,
            means,
            variances,
            order,
            width,
        }
    }

    pub fn factors(&self) -> &Factors {
        &self.factors
    }

    pub fn set_width(&mut self, width: f64) {
        self.width = width;
    }

    pub(super) fn mean(&self, row: usize, column: usize) -> f64 {
        self.means[column * self.rows + row]
    }

    /// The weights of `rows` once `cells` are known, too, adding up to 1.
    pub(super) fn reweighted(&self, rows: &[usize], weights: &[f64], cells: &[Cell]) -> Vec<f64> {
        let mut after: Vec<f64> = rows.iter().map(|row| weights[*row].ln()).collect();
        for (column, known) in cells {
            let Known::Value { value, sd } = *known else {
                continue;
            };
            let bandwidth = (self.width * self.columns[*column].sd).powi(2) + sd * sd;
            for (log, row) in after.iter_mut().zip(rows) {
                let at = column * self.rows + row;
                let variance = bandwidth + self.variances[at];
                *log -= 0.5 * ((value - self.means[at]).powi(2) / variance + variance.ln());
            }
        }
        normalize(&mut after);
        after
    }

    /// Standard deviation of a column under such weights.
    pub(super) fn deviation(&self, rows: &[usize], weights: &[f64], column: usize) -> f64 {
        let (mut mean, mut square) = (0.0, 0.0);
        for (weight, row) in weights.iter().zip(rows) {
            let at = column * self.rows + row;
            mean += weight * self.means[at];
            square += weight * (self.means[at].powi(2) + self.variances[at]);
        }
        let bandwidth = (self.width * self.columns[column].sd).powi(2);
        ((square - mean * mean).max(0.0) + bandwidth).sqrt()
    }

    /// How likely each row is, adding up to 1; `without` is left out.
    pub(super) fn weights(&self, known: &[Cell], without: Option<usize>) -> Vec<f64> {
        let mut logs = vec![0.0; self.rows];
        for (column, known) in known {
            let bandwidth = (self.width * self.columns[*column].sd).powi(2);
            let means = &self.means[column * self.rows..][..self.rows];
            let variances = &self.variances[column * self.rows..][..self.rows];
            for ((log, mean), variance) in logs.iter_mut().zip(means).zip(variances) {
                let variance = variance + bandwidth;
                *log += match *known {
                    Known::Value { value, sd } => {
                        let variance = variance + sd * sd;
                        -0.5 * ((value - mean).powi(2) / variance + variance.ln())
                    }
                    Known::Range { low, high } => {
                        let sd = variance.sqrt();
                        let inside = cumulative((high - mean) / sd) - cumulative((low - mean) / sd);
                        inside.max(1e-12).ln()
                    }
                };
            }
        }
        if let Some(row) = without {
            logs[row] = f64::NEG_INFINITY;
        }
        normalize(&mut logs);
        logs
    }

    /// The median of what is likely, and the quantiles around it.
    pub fn complete(&self, known: &[Cell], without: Option<usize>) -> Vec<Guess> {
        let all = |spread: &Spread| Guess::normal(spread.mean, spread.sd);
        if self.rows <= usize::from(without.is_some()) {
            return self.columns.iter().map(all).collect();
        }
        let weights = self.weights(known, without);
        (0..self.columns.len())
            .map(|column| self.quantiles(column, &weights))
            .collect()
    }

    fn quantiles(&self, column: usize, weights: &[f64]) -> Guess {
        let means = &self.means[column * self.rows..][..self.rows];
        let variances = &self.variances[column * self.rows..][..self.rows];
        let bandwidth = (self.width * self.columns[column].sd).powi(2);
        let (mut below, mut spread) = (0.0, bandwidth);
        let mut at = [None; 3];
        for row in &self.order[column * self.rows..][..self.rows] {
            let row = *row as usize;
            below += weights[row];
            spread += weights[row] * variances[row];
            for (at, share) in at.iter_mut().zip([0.025, 0.5, 0.975]) {
                if at.is_none() && below >= share {
                    *at = Some(means[row]);
                }
            }
        }
        let [low, middle, high] = at.map(|at| at.unwrap_or(self.columns[column].mean));
        // A possibility is as wide as the bandwidth; where only one is left, so
        // is the answer.
        let edge = Z95 * spread.sqrt();
        let widened = |end: f64| ((end - middle).powi(2) + edge * edge).sqrt();
        Guess {
            value: middle,
            ci95: [middle - widened(low), middle + widened(high)],
        }
    }
}

/// From logarithms to shares that add up to 1.
fn normalize(logs: &mut [f64]) {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for log in logs.iter_mut() {
        *log = (*log - most).exp();
        sum += *log;
    }
    for weight in logs {
        *weight /= sum;
    }
}
