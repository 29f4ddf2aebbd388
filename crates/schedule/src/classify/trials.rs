//! Cross-validation: rows of which most is hidden, and what a model says of it.

use super::guess::Completes;
use super::guess::Guess;
use super::table::Cell;
use super::table::Known;
use super::table::Table;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

/// Which cells of a row a model gets to see.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// So many, at random.
    Count(usize),
    /// Those of these columns, as far as they are known.
    Columns(Vec<usize>),
}

/// With more rows than this, what one of them adds to a model is not worth
/// training another without it; methods that keep rows leave it out.
const RETRAINED_UP_TO: usize = 200;

/// Rows tried out of a larger table.
const MOST_TRIED: usize = 100;

/// Folds of a small table, and of one with few rows.
const FOLDS: usize = 5;
const FEW: usize = 40;

/// One row: what is shown of it, and what is to be found.
#[derive(Clone, Debug)]
struct Trial {
    row: usize,
    shown: Vec<Cell>,
    hidden: Vec<Cell>,
}

#[derive(Clone, Debug)]
pub(super) struct Trials {
    trials: Vec<Trial>,
    folds: usize,
}

/// A hidden cell and what was said of it.
pub(super) struct Found {
    pub column: usize,
    pub hidden: Known,
    pub guess: Guess,
}

impl Trials {
    /// Of the rows of `table`, in an order drawn from `seed`.
    pub fn of(table: &Table, shown: &Shown, seed: u64) -> Trials {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut rows: Vec<usize> = (0..table.rows().len()).collect();
        rows.shuffle(&mut rng);
        let retrains = rows.len() <= RETRAINED_UP_TO;
        if !retrains {
            rows.truncate(MOST_TRIED);
        }
        let trials = rows.into_iter().map(|row| {
            let (shown, hidden) = split(&table.rows()[row], shown, &mut rng);
            Trial { row, shown, hidden }
        });
        Trials {
            trials: trials.filter(|trial| !trial.hidden.is_empty()).collect(),
            folds: if retrains { FOLDS } else { 0 },
        }
    }

    /// As many folds as rows, where rows are few.
    pub fn one_by_one(mut self) -> Trials {
        if self.folds > 0 && self.trials.len() <= FEW {
            self.folds = self.trials.len().max(1);
        }
        self
    }

    /// Whether models are trained without the rows that they are tried on.
    pub fn retrains(&self) -> bool {
        self.folds > 0
    }

    /// Every hidden cell with what a model says that was trained without its row.
    pub fn run<M: Completes>(&self, table: &Table, train: impl Fn(&Table) -> M) -> Vec<Found> {
        let mut found = Vec::new();
        self.each(table, &train, |model, trial, without| {
            let guesses = model.complete(&trial.shown, without);
            found.extend(trial.hidden.iter().map(|(column, hidden)| Found {
                column: *column,
                hidden: *hidden,
                guess: guesses[*column],
            }));
        });
        found
    }

    /// Of several models the mean absolute error of each.
    pub fn mean_errors<M: Completes>(
        &self,
        table: &Table,
        train: impl Fn(&Table) -> Vec<M>,
    ) -> Vec<f64> {
        let (mut sums, mut count) = (Vec::new(), 0);
        self.each(table, &train, |models, trial, without| {
            sums.resize(models.len(), 0.0);
            count += trial.hidden.len();
            for (sum, model) in sums.iter_mut().zip(models) {
                let guesses = model.complete(&trial.shown, without);
                for (column, hidden) in &trial.hidden {
                    *sum += miss(*hidden, table.clamp(guesses[*column].value));
                }
            }
        });
        sums.iter().map(|sum| sum / count.max(1) as f64).collect()
    }

    /// Calls `look` for every trial with what was trained without its row.
    fn each<T>(
        &self,
        table: &Table,
        train: &impl Fn(&Table) -> T,
        mut look: impl FnMut(&T, &Trial, Option<usize>),
    ) {
        if self.folds == 0 {
            let trained = train(table);
            for trial in &self.trials {
                look(&trained, trial, Some(trial.row));
            }
            return;
        }
        for fold in 0..self.folds {
            let trials: Vec<&Trial> = self.trials.iter().skip(fold).step_by(self.folds).collect();
            if trials.is_empty() {
                continue;
            }
            let kept = table.subset(|row| trials.iter().all(|trial| trial.row != row));
            let trained = train(&kept);
            for trial in trials {
                look(&trained, trial, None);
            }
        }
    }
}

/// How far `value` lies from what is known.
pub(super) fn miss(known: Known, value: f64) -> f64 {
    match known {
        Known::Value { value: known, .. } => (value - known).abs(),
        Known::Range { low, high } => (value - value.clamp(low, high)).abs(),
    }
}

/// What is shown and what is hidden of `cells`.
fn split(cells: &[Cell], shown: &Shown, rng: &mut ChaCha8Rng) -> (Vec<Cell>, Vec<Cell>) {
    let visible: Vec<usize> = match shown {
        Shown::Columns(columns) => columns.clone(),
        Shown::Count(count) => {
            let mut columns: Vec<usize> = cells.iter().map(|(column, _)| *column).collect();
            for at in 0..(*count).min(columns.len()) {
                let other = rng.random_range(at..columns.len());
                columns.swap(at, other);
            }
            columns.truncate(*count);
            columns
        }
    };
    cells
        .iter()
        .partition(|(column, _)| visible.contains(column))
}
