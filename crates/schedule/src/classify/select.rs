//! Which measurement tells most about the entries that would not be measured.

use super::mixture::Mixture;
use super::table::Cell;
use super::table::Known;
use jostle_statistics::descending;

/// Something that can be measured: the columns it gives, with the standard
/// deviations of the errors to be expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub columns: Vec<(usize, f64)>,
}

/// Outcomes of a measurement that are gone through.
const OUTCOMES: usize = 24;

/// Rows that are looked at, the likeliest.
const MOST_ROWS: usize = 300;

impl Mixture {
    /// Sum over `wanted` of the standard deviations expected after `candidate` was
    /// measured, given what is `known` already.
    pub fn left_unknown(&self, known: &[Cell], candidate: &Candidate, wanted: &[usize]) -> f64 {
        let weights = self.weights(known, None);
        let mut rows = descending(&weights);
        rows.truncate(MOST_ROWS);
        let total: f64 = rows.iter().map(|row| weights[*row]).sum();
        let mut expected = 0.0;
        for outcome in 0..OUTCOMES {
            // Evenly over the probability: a row stands for its share.
            let row = at_share(
                &rows,
                &weights,
                total * (outcome as f64 + 0.5) / OUTCOMES as f64,
            );
            let cells: Vec<Cell> = candidate
                .columns
                .iter()
                .map(|(column, sd)| {
                    let value = self.mean(row, *column);
                    (*column, Known::Value { value, sd: *sd })
                })
                .collect();
            let after = self.reweighted(&rows, &weights, &cells);
            let open = wanted.iter().filter(|wanted| {
                candidate
                    .columns
                    .iter()
                    .all(|(column, _)| column != *wanted)
            });
            expected += open
                .map(|column| self.deviation(&rows, &after, *column))
                .sum::<f64>();
        }
        let measured: f64 = candidate
            .columns
            .iter()
            .filter(|(column, _)| wanted.contains(column))
            .map(|(_, sd)| sd)
            .sum();
        expected / OUTCOMES as f64 + measured
    }
}

fn at_share(rows: &[usize], weights: &[f64], share: f64) -> usize {
    let mut below = 0.0;
    for row in rows {
        below += weights[*row];
        if below >= share {
            return *row;
        }
    }
    rows[rows.len() - 1]
}
