//! A trained model whose intervals were held against entries it had not seen.

use super::error::TableError;
use super::factors::Factors;
use super::guess::Completes;
use super::guess::Guess;
use super::guess::Z95;
use super::mixture::Mixture;
use super::model::Choice;
use super::model::Method;
use super::model::Model;
use super::select::Candidate;
use super::table::Cell;
use super::table::Known;
use super::table::Table;
use super::table::as_value;
use super::table::reach;
use super::trials::Found;
use super::trials::Shown;
use super::trials::Trials;

/// Columns with fewer residuals take the widening of all columns together.
const ENOUGH_RESIDUALS: usize = 60;

/// No interval is believed to be narrower than this much on either side before
/// it is widened, in the units of the table.
const LEAST_HALF: f64 = 0.5;

/// Of the possibilities where the method itself has none.
const USUAL_RANK: usize = 2;
const USUAL_WIDTH: f64 = 0.2;

/// Completes rows.
#[derive(Clone, Debug)]
pub struct Classifier {
    method: Method,
    model: Model,
    /// For what to measure next, and how usual a row is.
    possibilities: Mixture,
    /// Per column, in half widths of the model's own interval: what has to be
    /// added on either side so that 95 % of unseen entries lie within.
    widening: Vec<f64>,
    /// Per column: median error of measurement.
    errors: Vec<f64>,
    /// Shape and limits of the table, without its rows.
    shape: Table,
    /// Largest distance of a row of the training set by its degrees of freedom.
    usual: Vec<(f64, usize)>,
}

impl Classifier {
    /// Learns from `table`; hyper-parameters and intervals are cross-validated
    /// with as much shown of a row as `shown` says.
    pub fn train(table: &Table, method: Method, shown: &Shown, seed: u64) -> Self {
        let trials = Trials::of(table, shown, seed);
        let choice = Choice::of(method, table, &trials, seed);
        let train = |table: &Table| Model::train(method, table, choice, seed);
        let model = train(table);
        let trials = trials.one_by_one();
        let found = match trials.retrains() {
            true => trials.run(table, train),
            false => trials.run(table, |_| model.clone()),
        };
        let possibilities = match &model {
            Model::Mixture(mixture) => mixture.clone(),
            _ => Mixture::train(table, Factors::train(table, USUAL_RANK), USUAL_WIDTH),
        };
        let rows = table.rows().iter();
        let usual = rows.map(|row| possibilities.factors().distance(row));
        Classifier {
            method,
            widening: widening(table, &found),
            errors: errors(table),
            usual: usual.collect(),
            possibilities,
            model,
            shape: table.subset(|_| false),
        }
    }

    pub fn method(&self) -> Method {
        self.method
    }

    /// A belief of every column from what is `known` of a row. Of the known ones
    /// it is what the other rows say, too.
    ///
    /// # Errors
    /// As [`Table::check`].
    pub fn complete(&self, known: &[Cell]) -> Result<Vec<Guess>, TableError> {
        self.shape.check(known)?;
        let guesses = self.model.complete(known, None);
        let widened = guesses.into_iter().zip(&self.widening);
        Ok(widened
            .map(|(guess, by)| self.widened(guess, *by))
            .collect())
    }

    fn widened(&self, guess: Guess, by: f64) -> Guess {
        let value = self.shape.clamp(guess.value);
        let [low, high] = halves(&guess, 0.0).map(|half| half * (1.0 + by));
        let ends = [guess.value - low, guess.value + high];
        Guess {
            value,
            ci95: ends.map(|end| self.shape.clamp(end)),
        }
    }

    /// A measurement of `columns` as exact as those of the training set are in
    /// the middle.
    pub fn candidate(&self, columns: &[usize]) -> Candidate {
        let with_error = columns.iter().map(|column| (*column, self.errors[*column]));
        Candidate {
            columns: with_error.collect(),
        }
    }

    /// Which of `candidates` to measure next so that least remains unknown of the
    /// columns `wanted`, as far as what is `known` lets expect; `None` without
    /// candidates.
    pub fn next(
        &self,
        known: &[Cell],
        candidates: &[Candidate],
        wanted: &[usize],
    ) -> Option<usize> {
        let left = candidates
            .iter()
            .map(|candidate| self.possibilities.left_unknown(known, candidate, wanted));
        let best = left.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        best.map(|(at, _)| at)
    }

    /// True where the row is farther from what is usual than all but one in a
    /// thousand would be, and farther than every row of the training set.
    pub fn is_unlike_any(&self, known: &[Cell]) -> bool {
        let (distance, freedom) = self.possibilities.factors().distance(known);
        if freedom == 0 {
            return false;
        }
        let scaled = |distance: f64, freedom: usize| standardized(distance, freedom);
        let here = scaled(distance, freedom);
        let most = self
            .usual
            .iter()
            .filter(|(_, freedom)| *freedom > 0)
            .map(|(distance, freedom)| scaled(*distance, *freedom))
            .fold(f64::NEG_INFINITY, f64::max);
        here > ONE_IN_A_THOUSAND && here > most
    }
}

/// Median error of measurement of every column; 0 where there is none.
fn errors(table: &Table) -> Vec<f64> {
    let mut errors = vec![Vec::new(); table.columns()];
    let reach = reach(table.limits());
    for (column, known) in table.rows().iter().flatten() {
        errors[*column].push(as_value(*known, reach).1);
    }
    let median = |mut errors: Vec<f64>| {
        errors.sort_unstable_by(f64::total_cmp);
        errors.get(errors.len() / 2).copied().unwrap_or(0.0)
    };
    errors.into_iter().map(median).collect()
}

/// Normal quantile of 0.999.
const ONE_IN_A_THOUSAND: f64 = 3.09;

/// A sum of squares as the normal variable of the same probability (Wilson and
/// Hilferty).
fn standardized(sum: f64, freedom: usize) -> f64 {
    let k = freedom as f64;
    let ninth = 2.0 / (9.0 * k);
    ((sum / k).cbrt() - (1.0 - ninth)) / ninth.sqrt()
}

/// Distances of the interval's ends from its middle, for an observation with an
/// error of its own.
fn halves(guess: &Guess, error: f64) -> [f64; 2] {
    let [low, high] = guess.ci95;
    [guess.value - low, high - guess.value].map(|half| half.max(LEAST_HALF).hypot(Z95 * error))
}

/// By how many half widths the intervals miss what was found, at the quantile
/// that makes them hold (conformal prediction, Romano and others 2019).
///
/// What an entry's own error may have done is allowed for, except at the limits,
/// where it can have gone one way only.
fn widening(table: &Table, found: &[Found]) -> Vec<f64> {
    let mut scores: Vec<Vec<f64>> = vec![Vec::new(); table.columns()];
    let limits = table.limits();
    let at_limit = |value: f64| limits.is_some_and(|limits| limits.contains(&value));
    for found in found {
        let score = match found.hidden {
            Known::Value { value, sd } => {
                let error = if at_limit(value) { 0.0 } else { sd };
                let [low, high] = halves(&found.guess, error);
                let off = value - found.guess.value;
                if off < 0.0 { -off / low } else { off / high }
            }
            // The interval reaches the range or it does not.
            Known::Range { low, high } => {
                let [below, above] = halves(&found.guess, 0.0);
                let value = found.guess.value;
                ((low - value) / above).max((value - high) / below).max(0.0)
            }
        };
        scores[found.column].push(score - 1.0);
    }
    let all: Vec<f64> = scores.iter().flatten().copied().collect();
    let of_all = holding(all);
    let of_column = |scores: Vec<f64>| match scores.len() {
        ENOUGH_RESIDUALS.. => holding(scores),
        _ => of_all,
    };
    scores.into_iter().map(of_column).collect()
}

/// The value below which 95 % of further scores are expected; 0 without any.
fn holding(mut scores: Vec<f64>) -> f64 {
    if scores.is_empty() {
        return 0.0;
    }
    scores.sort_unstable_by(f64::total_cmp);
    let rank = ((scores.len() + 1) as f64 * 0.95).ceil() as usize;
    scores[rank.min(scores.len()) - 1].max(-0.9)
}
