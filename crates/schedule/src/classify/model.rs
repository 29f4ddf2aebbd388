//! The ways to complete a row, trained on a table.

use super::factors::Factors;
use super::factors::RANKS;
use super::guess::Completes;
use super::guess::Guess;
use super::means::Means;
use super::mixture::Mixture;
use super::mixture::WIDTHS;
use super::neighbours;
use super::neighbours::Neighbours;
use super::svd;
use super::svd::Svd;
use super::table::Cell;
use super::table::Table;
use super::trials::Trials;
use serde::Serialize;
use std::fmt;

/// How entries are inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The mean of all applications.
    Means,
    /// The mean of the k applications nearest where both were measured.
    Neighbours,
    /// Singular value decomposition with biases, refined by stochastic gradient
    /// descent.
    Svd,
    /// A Gaussian factor model.
    Factors,
    /// Every application of the training set as a possibility, weighted by how
    /// well it agrees with what was measured.
    Mixture,
}

impl Method {
    pub const ALL: [Method; 5] = [
        Method::Means,
        Method::Neighbours,
        Method::Svd,
        Method::Factors,
        Method::Mixture,
    ];

    pub fn id(self) -> &'static str {
        match self {
            Method::Means => "means",
            Method::Neighbours => "neighbours",
            Method::Svd => "svd",
            Method::Factors => "factors",
            Method::Mixture => "mixture",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// A method with what it learned.
#[derive(Clone, Debug)]
pub(super) enum Model {
    Means(Means),
    Neighbours(Neighbours),
    Svd(Svd),
    Factors(Factors),
    Mixture(Mixture),
}

/// What is chosen by cross-validation: each method reads its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    k: usize,
    knobs: svd::Knobs,
    rank: usize,
    width: f64,
}

impl Choice {
    const START: Choice = Choice {
        k: 4,
        knobs: svd::KNOBS[1],
        rank: 2,
        width: 0.2,
    };

    /// The one with the least mean absolute error over `trials`, cell by cell.
    pub fn of(method: Method, table: &Table, trials: &Trials, seed: u64) -> Choice {
        let start = Choice::START;
        let choices: Vec<Choice> = match method {
            Method::Means => return start,
            Method::Neighbours => neighbours::SIZES
                .into_iter()
                .map(|k| Choice { k, ..start })
                .collect(),
            Method::Svd => svd::KNOBS
                .into_iter()
                .map(|knobs| Choice { knobs, ..start })
                .collect(),
            Method::Factors => RANKS
                .into_iter()
                .map(|rank| Choice { rank, ..start })
                .collect(),
            Method::Mixture => WIDTHS
                .into_iter()
                .map(|width| Choice { width, ..start })
                .collect(),
        };
        let retrained = |table: &Table| {
            // A mixture differs by its width only, and costs as much as its factors.
            let first = Model::train(method, table, choices[0], seed);
            let rest = choices[1..].iter().map(|choice| match &first {
                Model::Mixture(mixture) => {
                    let mut mixture = mixture.clone();
                    mixture.set_width(choice.width);
                    Model::Mixture(mixture)
                }
                _ => Model::train(method, table, *choice, seed),
            });
            let mut all: Vec<Model> = rest.collect();
            all.insert(0, first);
            all
        };
        let errors = trials.mean_errors(table, retrained);
        let best = errors.iter().zip(choices).min_by(|a, b| a.0.total_cmp(b.0));
        best.map_or(start, |(_, choice)| choice)
    }
}

impl Model {
    pub fn train(method: Method, table: &Table, choice: Choice, seed: u64) -> Model {
        match method {
            Method::Means => Model::Means(Means::train(table)),
            Method::Neighbours => Model::Neighbours(Neighbours::train(table, choice.k)),
            Method::Svd => Model::Svd(Svd::train(table, choice.knobs, seed)),
            Method::Factors => Model::Factors(Factors::train(table, choice.rank)),
            Method::Mixture => {
                let factors = Factors::train(table, choice.rank);
                Model::Mixture(Mixture::train(table, factors, choice.width))
            }
        }
    }
}

impl Completes for Model {
    fn complete(&self, known: &[Cell], without: Option<usize>) -> Vec<Guess> {
        match self {
            Model::Means(means) => means.complete(),
            Model::Neighbours(neighbours) => neighbours.complete(known, without),
            Model::Svd(svd) => svd.complete(known),
            Model::Factors(factors) => factors.complete(known),
            Model::Mixture(mixture) => mixture.complete(known, without),
        }
    }
}
