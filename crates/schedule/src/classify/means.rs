//! Every application is like the mean of all: the least that anything else has
//! to beat.

use super::guess::Guess;
use super::table::Spread;
use super::table::Table;
use super::table::spreads;

/// Mean and spread of every column.
#[derive(Clone, Debug)]
pub(super) struct Means(Vec<Spread>);

impl Means {
    pub fn train(table: &Table) -> Self {
        Means(spreads(table))
    }

    pub fn complete(&self) -> Vec<Guess> {
        let guess = |spread: &Spread| Guess::normal(spread.mean, spread.sd);
        self.0.iter().map(guess).collect()
    }
}
