//! An application is like the k that measured most like it, where both were
//! measured.

use super::guess::Guess;
use super::table::Cell;
use super::table::Spread;
use super::table::Table;
use super::table::as_value;
use super::table::reach;
use super::table::spreads;

/// How many neighbours cross-validation chooses from.
pub(super) const SIZES: [usize; 6] = [1, 2, 4, 8, 16, 32];

#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    pub k: usize,
    reach: f64,
    columns: Vec<Spread>,
    /// Row by row; NaN where nothing is known.
    values: Vec<f64>,
}

impl Neighbours {
    pub fn train(table: &Table, k: usize) -> Self {
        let width = table.columns();
        let reach = reach(table.limits());
        let mut values = vec![f64::NAN; table.rows().len() * width];
        for (row, cells) in table.rows().iter().enumerate() {
            for (column, known) in cells {
                values[row * width + column] = as_value(*known, reach).0;
            }
        }
        Neighbours {
            k,
            reach,
            columns: spreads(table),
            values,
        }
    }

    /// From the rows other than `without`.
    pub fn complete(&self, known: &[Cell], without: Option<usize>) -> Vec<Guess> {
        let width = self.columns.len();
        let here: Vec<(usize, f64)> = known
            .iter()
            .map(|(column, known)| (*column, as_value(*known, self.reach).0))
            .collect();
        let mut order: Vec<(f64, usize)> = self
            .values
            .chunks_exact(width.max(1))
            .enumerate()
            .filter(|(row, _)| Some(*row) != without)
            .map(|(row, values)| (self.distance(values, &here), row))
            .collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        (0..width)
            .map(|column| {
                let near = order
                    .iter()
                    .map(|(_, row)| self.values[row * width + column])
                    .filter(|value| !value.is_nan());
                self.mean(column, near.take(self.k))
            })
            .collect()
    }

    /// Mean square difference over what both know, with one more that differs
    /// as much as any two do: few columns in common say little.
    fn distance(&self, values: &[f64], here: &[(usize, f64)]) -> f64 {
        let (mut sum, mut count) = (2.0, 1.0);
        for (column, value) in here {
            let other = values[*column];
            if !other.is_nan() {
                sum += ((value - other) / self.columns[*column].sd).powi(2);
                count += 1.0;
            }
        }
        sum / count
    }

    fn mean(&self, column: usize, near: impl Iterator<Item = f64>) -> Guess {
        let spread = self.columns[column];
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for value in near {
            count += 1.0;
            sum += value;
            squares += value * value;
        }
        if count == 0.0 {
            return Guess::normal(spread.mean, spread.sd);
        }
        let mean = sum / count;
        // As if one more neighbour were as far off as the column is wide.
        let around = (squares - count * mean * mean).max(0.0) + spread.sd * spread.sd;
        Guess::normal(mean, (around / (count + 1.0)).sqrt())
    }
}
