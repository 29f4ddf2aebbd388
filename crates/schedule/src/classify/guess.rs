//! What is believed of an entry that was not measured.

use super::table::Cell;

/// A belief: the middle, and an interval that is to hold it with 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess {
    pub value: f64,
    pub ci95: [f64; 2],
}

impl Guess {
    pub(super) fn normal(value: f64, sd: f64) -> Self {
        Guess {
            value,
            ci95: [value - Z95 * sd, value + Z95 * sd],
        }
    }
}

/// Half of a 95 % interval in standard deviations.
pub(super) const Z95: f64 = 1.959_964;

/// Completes rows.
pub(super) trait Completes {
    /// A belief of every column; what keeps its rows leaves `without` out.
    fn complete(&self, known: &[Cell], without: Option<usize>) -> Vec<Guess>;
}
