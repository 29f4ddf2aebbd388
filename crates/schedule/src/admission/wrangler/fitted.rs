//! A machine with probabilities that come from windows it was not trained on.

use super::options::Confidence;
use super::options::TrainingOptions;
use super::platt::Sigmoid;
use super::report::Confusion;
use super::svm::Rows;
use super::svm::Svm;
use std::collections::BTreeMap;

/// One machine with its probabilities, and what it said of windows that it was not
/// trained on.
pub(super) struct Fitted {
    pub svm: Svm,
    pub sigmoid: Sigmoid,
    pub confidence: f64,
    /// Probability by row, out of fold.
    pub unseen: BTreeMap<usize, f64>,
}

impl Fitted {
    pub(super) fn train(rows: &Rows, chosen: &[usize], options: TrainingOptions) -> Fitted {
        let unseen = unseen_scores(rows, chosen, options.seed);
        let scores: Vec<f64> = unseen.iter().map(|(_, score)| *score).collect();
        let labels: Vec<bool> = unseen.iter().map(|(row, _)| rows.slow[*row]).collect();
        let sigmoid = Sigmoid::fit(&scores, &labels);
        Fitted {
            svm: Svm::train(rows, chosen, options.seed),
            sigmoid,
            confidence: match options.confidence {
                Confidence::Above(p) => p,
                Confidence::Tuned => tuned(sigmoid, &scores, &labels),
            },
            unseen: (unseen.into_iter())
                .map(|(row, score)| (row, sigmoid.probability(score)))
                .collect(),
        }
    }
}

/// Stretches of time in which the windows to learn from are cut for the probabilities.
const FOLDS: usize = 3;

/// A score of every window by a machine that was not trained on it: what a
/// machine says of its own training windows is too sure of itself.
fn unseen_scores(rows: &Rows, chosen: &[usize], seed: u64) -> Vec<(usize, f64)> {
    let mut scores = Vec::new();
    for fold in 0..FOLDS {
        let within = fold * chosen.len() / FOLDS..(fold + 1) * chosen.len() / FOLDS;
        let others: Vec<usize> = [&chosen[..within.start], &chosen[within.end..]].concat();
        if rows.has_both(&others) {
            let svm = Svm::train(rows, &others, seed.wrapping_add(1 + fold as u64));
            let score = |row: &usize| (*row, svm.score(&rows.xs[*row], &rows.groups[*row]));
            scores.extend(chosen[within].iter().map(score));
        }
    }
    scores
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
