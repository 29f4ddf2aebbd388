//! Numbers by application and column, most of them perhaps missing.

use super::error::TableError;

/// What is known of one entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Known {
    /// A number and the standard deviation of its error.
    Value { value: f64, sd: f64 },
    /// Somewhere between the two, both included; either may be infinite.
    Range { low: f64, high: f64 },
}

impl Known {
    /// A number without error.
    pub fn exact(value: f64) -> Self {
        Known::Value { value, sd: 0.0 }
    }

    fn problem(&self) -> Option<String> {
        match *self {
            Known::Value { value, .. } if !value.is_finite() => Some(format!("is {value}")),
            Known::Value { sd, .. } if !(sd.is_finite() && sd >= 0.0) => {
                Some(format!("has the error {sd}"))
            }
            Known::Range { low, high }
                if low.is_nan() || high.is_nan() || low > high || low == high =>
            {
                Some(format!("has the range {low} to {high}"))
            }
            _ => None,
        }
    }
}

/// Column and what is known of it.
pub type Cell = (usize, Known);

/// Rows (applications) of known cells, by ascending column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    columns: usize,
    rows: Vec<Vec<Cell>>,
    limits: Option<[f64; 2]>,
}

impl Table {
    /// Without rows. What is inferred stays within `limits`.
    pub fn new(columns: usize, limits: Option<[f64; 2]>) -> Self {
        Table {
            columns,
            rows: Vec::new(),
            limits,
        }
    }

    /// Adds a row; nothing known at all is allowed.
    ///
    /// # Errors
    /// A column that does not exist or is given twice, a number that is not
    /// finite, a negative error, a range that is none.
    pub fn push(&mut self, mut cells: Vec<Cell>) -> Result<(), TableError> {
        cells.sort_by_key(|(column, _)| *column);
        self.check(&cells)?;
        self.rows.push(cells);
        Ok(())
    }

    /// As [`Table::push`], of a row that is not added.
    ///
    /// # Errors
    /// As [`Table::push`].
    pub fn check(&self, cells: &[Cell]) -> Result<(), TableError> {
        let row = self.rows.len();
        for (place, (column, known)) in cells.iter().enumerate() {
            if *column >= self.columns {
                let columns = self.columns;
                return Err(TableError::NoColumn {
                    column: *column,
                    columns,
                });
            }
            if cells[..place].iter().any(|(other, _)| other == column) {
                return Err(TableError::Twice {
                    row,
                    column: *column,
                });
            }
            if let Some(problem) = known.problem() {
                return Err(TableError::Entry {
                    row,
                    column: *column,
                    problem,
                });
            }
        }
        Ok(())
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    pub fn limits(&self) -> Option<[f64; 2]> {
        self.limits
    }

    /// `value` held within the limits.
    pub fn clamp(&self, value: f64) -> f64 {
        match self.limits {
            Some([low, high]) => value.clamp(low, high),
            None => value,
        }
    }

    /// The rows for which `keep` says so.
    pub fn subset(&self, keep: impl Fn(usize) -> bool) -> Table {
        let rows = self.rows.iter().enumerate();
        Table {
            columns: self.columns,
            rows: rows
                .filter(|(row, _)| keep(*row))
                .map(|(_, cells)| cells.clone())
                .collect(),
            limits: self.limits,
        }
    }

    /// Rows in which something is known of `column`.
    pub fn known_in(&self, column: usize) -> usize {
        let has = |cells: &&Vec<Cell>| cells.iter().any(|(at, _)| *at == column);
        self.rows.iter().filter(has).count()
    }
}

/// Where a column lies and how wide it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub mean: f64,
    /// At least [`LEAST_SPREAD`].
    pub sd: f64,
}

/// A column that is constant, as far as is known, is believed to vary this much.
const LEAST_SPREAD: f64 = 1.0;

/// What a range stands for where only one number can be used: its middle, with
/// the standard deviation of an even distribution. One that is open on a side
/// is as wide as `reach`.
pub(super) fn as_value(known: Known, reach: f64) -> (f64, f64) {
    match known {
        Known::Value { value, sd } => (value, sd),
        Known::Range { low, high } => {
            let (low, high) = match (low.is_finite(), high.is_finite()) {
                (true, true) => (low, high),
                (true, false) => (low, low + reach),
                (false, true) => (high - reach, high),
                (false, false) => (-reach / 2.0, reach / 2.0),
            };
            ((low + high) / 2.0, (high - low) / 12f64.sqrt())
        }
    }
}

/// Width given to a range that is open on a side, in the units of the table.
pub(super) fn reach(limits: Option<[f64; 2]>) -> f64 {
    limits.map_or(100.0, |[low, high]| high - low)
}

/// Mean and standard deviation of every column, weighted by certainty; 0 and
/// [`LEAST_SPREAD`] where nothing is known, unless the others say better.
pub(super) fn spreads(table: &Table) -> Vec<Spread> {
    let reach = reach(table.limits());
    let typical = 0.1 * reach;
    let mut sums = vec![[0.0; 3]; table.columns()];
    for (column, known) in table.rows().iter().flatten() {
        let (value, sd) = as_value(*known, reach);
        let weight = 1.0 / (1.0 + (sd / typical).powi(2));
        let sums = &mut sums[*column];
        sums[0] += weight;
        sums[1] += weight * value;
        sums[2] += weight * value * value;
    }
    let total = sums
        .iter()
        .fold([0.0; 2], |[w, x], sums| [w + sums[0], x + sums[1]]);
    let overall = match total[0] > 0.0 {
        true => total[1] / total[0],
        false => table.limits().map_or(0.0, |[low, high]| (low + high) / 2.0),
    };
    let spread = |sums: [f64; 3]| match sums[0] > 0.0 {
        true => {
            let mean = sums[1] / sums[0];
            let variance = (sums[2] / sums[0] - mean * mean).max(0.0);
            Spread {
                mean,
                sd: variance.sqrt().max(LEAST_SPREAD),
            }
        }
        // Nobody knows anything of it.
        false => Spread {
            mean: overall,
            sd: reach / 12f64.sqrt(),
        },
    };
    sums.into_iter().map(spread).collect()
}
