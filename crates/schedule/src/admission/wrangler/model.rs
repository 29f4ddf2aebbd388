//! What is learned from windows, and how well it holds on later ones.

use super::options::Confidence;
use super::options::WranglerOptions;
use super::platt::Sigmoid;
use super::svm::Svm;
use super::windows::Window;
use serde::Serialize;

/// Folds of the training part for the probabilities; each is one stretch of
/// time.
const FOLDS: usize = 3;

/// Predictions against what came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Confusion {
    pub true_positives: u32,
    pub false_positives: u32,
    pub true_negatives: u32,
    pub false_negatives: u32,
}

impl Confusion {
    fn of(pairs: impl Iterator<Item = (bool, bool)>) -> Self {
        let mut confusion = Confusion::default();
        for (predicted, straggler) in pairs {
            *match (predicted, straggler) {
                (true, true) => &mut confusion.true_positives,
                (true, false) => &mut confusion.false_positives,
                (false, false) => &mut confusion.true_negatives,
                (false, true) => &mut confusion.false_negatives,
            } += 1;
        }
        confusion
    }

    fn right(&self) -> u32 {
        self.true_positives + self.true_negatives
    }
}

/// How a model was made and what it is worth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupReport {
    /// Name of the node or platform, `all` for the model of all windows.
    pub group: String,
    pub trained_on: usize,
    /// The last third, which the model never saw.
    pub tested_on: usize,
    /// Share of stragglers among those to learn from.
    pub base_rate: f64,
    /// Probability above which a start is vetoed.
    pub confidence: f64,
    /// On the last third, by the sign of the score.
    pub predicted: Confusion,
    /// On the last third, by confidence.
    pub confident: Confusion,
    /// Mean squared error of the probability on the last third.
    pub brier: f64,
    /// The same for always saying [`Self::base_rate`].
    pub brier_of_base_rate: f64,
}

/// A share of a straggler's score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    pub counter: String,
    /// Of what speaks for a straggler, 0–1.
    pub share: f64,
}

/// A classifier of windows with calibrated probabilities.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Model {
    /// Least value and 1/range of every counter; 0 for one that is constant.
    scale: Vec<(f64, f64)>,
    svm: Svm,
    sigmoid: Sigmoid,
    pub confidence: f64,
}

/// Why a set of windows gives no model.
pub(super) enum Unfit {
    OneClass { windows: usize, stragglers: bool },
    Few,
}

/// At least so many windows in all.
pub(super) const LEAST_WINDOWS: usize = 30;

impl Model {
    /// Learns from the first two thirds of `windows` and looks at the rest.
    pub(super) fn train(
        group: &str,
        windows: &[&Window],
        options: &WranglerOptions,
    ) -> Result<(Model, GroupReport), Unfit> {
        if windows.len() < LEAST_WINDOWS {
            return Err(Unfit::Few);
        }
        let (train, test) = windows.split_at(windows.len() * 2 / 3);
        let positive = train.iter().filter(|window| window.straggler).count();
        if positive == 0 || positive == train.len() {
            return Err(Unfit::OneClass {
                windows: train.len(),
                stragglers: positive > 0,
            });
        }
        let scale = scale(train);
        let xs: Vec<Vec<f64>> = train
            .iter()
            .map(|window| scaled(&scale, &window.counters))
            .collect();
        let ys: Vec<bool> = train.iter().map(|window| window.straggler).collect();
        let (scores, labels) = unseen_scores(&xs, &ys, options.seed);
        let sigmoid = Sigmoid::fit(&scores, &labels);
        let all: Vec<usize> = (0..xs.len()).collect();
        let mut model = Model {
            scale,
            svm: Svm::train(&xs, &ys, &all, options.seed),
            sigmoid,
            confidence: 0.0,
        };
        model.confidence = match options.confidence {
            Confidence::Above(p) => p,
            Confidence::Tuned => tuned(sigmoid, &scores, &labels),
        };
        let base_rate = positive as f64 / train.len() as f64;
        let seen: Vec<(f64, f64, bool)> = test
            .iter()
            .map(|window| {
                let score = model.score(&window.counters);
                (score, sigmoid.probability(score), window.straggler)
            })
            .collect();
        let brier = |p: &dyn Fn(f64) -> f64| {
            let errors = seen
                .iter()
                .map(|(_, sure, straggler)| (p(*sure) - f64::from(u8::from(*straggler))).powi(2));
            errors.sum::<f64>() / seen.len() as f64
        };
        let report = GroupReport {
            group: group.into(),
            trained_on: train.len(),
            tested_on: test.len(),
            base_rate,
            confidence: model.confidence,
            predicted: Confusion::of(seen.iter().map(|(score, _, is)| (*score > 0.0, *is))),
            confident: Confusion::of(
                seen.iter()
                    .map(|(_, sure, is)| (*sure > model.confidence, *is)),
            ),
            brier: brier(&|sure| sure),
            brier_of_base_rate: brier(&|_| base_rate),
        };
        Ok((model, report))
    }

    fn score(&self, counters: &[f32]) -> f64 {
        self.svm.score(&scaled(&self.scale, counters))
    }

    /// Probability of a straggler.
    pub(super) fn probability(&self, counters: &[f32]) -> f64 {
        self.sigmoid.probability(self.score(counters))
    }

    /// The counters that make up at least `cover` of what speaks for a
    /// straggler, most first: contributions weight × scaled value above 0.
    pub(super) fn explain(&self, names: &[String], counters: &[f32], cover: f64) -> Vec<Share> {
        let values = scaled(&self.scale, counters);
        let mut parts: Vec<(usize, f64)> = (self.svm.weights.iter().zip(&values))
            .map(|(weight, value)| weight * value)
            .enumerate()
            .filter(|(_, part)| *part > 0.0)
            .collect();
        let total: f64 = parts.iter().map(|(_, part)| part).sum();
        parts.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut covered = 0.0;
        parts
            .into_iter()
            .map_while(|(at, part)| {
                let more = covered < cover * total;
                covered += part;
                more.then(|| Share {
                    counter: names[at].clone(),
                    share: part / total,
                })
            })
            .collect()
    }
}

fn scale(windows: &[&Window]) -> Vec<(f64, f64)> {
    let width = windows.first().map_or(0, |window| window.counters.len());
    (0..width)
        .map(|at| {
            let values = || windows.iter().map(|window| f64::from(window.counters[at]));
            let least = values().fold(f64::INFINITY, f64::min);
            let most = values().fold(f64::NEG_INFINITY, f64::max);
            let range = most - least;
            (least, if range > 0.0 { 1.0 / range } else { 0.0 })
        })
        .collect()
}

/// Values on the 0–1 scale of the windows learned from, held within it.
fn scaled(scale: &[(f64, f64)], counters: &[f32]) -> Vec<f64> {
    let pairs = scale.iter().zip(counters);
    pairs
        .map(|((least, factor), value)| ((f64::from(*value) - least) * factor).clamp(0.0, 1.0))
        .collect()
}

/// A score of every window by a machine that was not trained on it: what a
/// machine says of its own training windows is too sure of itself.
fn unseen_scores(xs: &[Vec<f64>], ys: &[bool], seed: u64) -> (Vec<f64>, Vec<bool>) {
    let (mut scores, mut labels) = (Vec::new(), Vec::new());
    for fold in 0..FOLDS {
        let within = fold * xs.len() / FOLDS..(fold + 1) * xs.len() / FOLDS;
        let summaries: Vec<usize> = (0..xs.len())
            .filter(|summary| !within.contains(summary))
            .collect();
        let positive = summaries.iter().filter(|summary| ys[**summary]).count();
        if positive == 0 || positive == summaries.len() {
            continue;
        }
        let svm = Svm::train(xs, ys, &summaries, seed.wrapping_add(1 + fold as u64));
        scores.extend(xs[within.clone()].iter().map(|x| svm.score(x)));
        labels.extend(&ys[within]);
    }
    (scores, labels)
}

/// The median of the confidences, of 0.50, 0.51 … 0.95, with the best accuracy.
fn tuned(sigmoid: Sigmoid, scores: &[f64], labels: &[bool]) -> f64 {
    let right = |p: f64| {
        let sure = scores.iter().map(|score| sigmoid.probability(*score) > p);
        Confusion::of(sure.zip(labels.iter().copied())).right()
    };
    let tried: Vec<(f64, u32)> = (50..=95)
        .map(|percent| f64::from(percent) / 100.0)
        .map(|p| (p, right(p)))
        .collect();
    let best = tried.iter().map(|(_, right)| *right).max();
    let range: Vec<f64> = tried
        .iter()
        .filter(|(_, right)| Some(*right) == best)
        .map(|(p, _)| *p)
        .collect();
    range.get(range.len() / 2).copied().unwrap_or(0.7)
}
