//! How well a model holds on windows that it did not see.

use jostle_profile::reading::Reading;
use serde::Deserialize;
use serde::Serialize;

/// Predictions against what came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confusion {
    pub true_positives: u32,
    pub false_positives: u32,
    pub true_negatives: u32,
    pub false_negatives: u32,
}

/// Windows of a kind that a rate of it needs.
const LEAST_OF_A_KIND: u32 = 5;

impl Confusion {
    pub(super) fn of(pairs: impl Iterator<Item = (bool, bool)>) -> Self {
        let mut confusion = Confusion::default();
        for (predicted, slow) in pairs {
            *match (predicted, slow) {
                (true, true) => &mut confusion.true_positives,
                (true, false) => &mut confusion.false_positives,
                (false, false) => &mut confusion.true_negatives,
                (false, true) => &mut confusion.false_negatives,
            } += 1;
        }
        confusion
    }

    pub(super) fn right(&self) -> u32 {
        self.true_positives + self.true_negatives
    }

    fn all(&self) -> u32 {
        self.right() + self.false_positives + self.false_negatives
    }

    pub(super) fn accuracy(&self) -> f64 {
        f64::from(self.right()) / f64::from(self.all().max(1))
    }

    /// More often right than "always slow" and than "never slow".
    pub(super) fn gains(&self) -> bool {
        self.true_positives > self.false_positives && self.true_negatives > self.false_negatives
    }

    /// The same beyond chance. Against either constant answer, right answers differ only
    /// where the predictions do.
    fn beats_constant(&self) -> bool {
        beats(self.true_positives, self.false_positives)
            && beats(self.true_negatives, self.false_negatives)
    }
}

/// Whether `more` answers gained outweigh `less` lost by more than two standard errors.
pub(super) fn beats(more: u32, less: u32) -> bool {
    f64::from(more) - f64::from(less) > 2.0 * f64::from(more + less).sqrt()
}

fn rate(part: u32, rest: u32, kind: &str) -> Reading<f64> {
    let all = part + rest;
    match all >= LEAST_OF_A_KIND {
        true => Reading::Value(f64::from(part) / f64::from(all)),
        false => Reading::unavailable(format!(
            "too little data: {all} {kind} windows to judge by, {LEAST_OF_A_KIND} are needed"
        )),
    }
}

/// What a model is worth on the later third.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Probability above which a start is vetoed.
    pub confidence: f64,
    /// By that confidence.
    pub confusion: Confusion,
    pub accuracy: f64,
    /// Of the slow windows, how many were predicted.
    pub true_positive_rate: Reading<f64>,
    /// Of the others, how many were taken for slow.
    pub false_positive_rate: Reading<f64>,
    /// Mean squared error of the probability.
    pub brier: f64,
    /// The same for always saying the share of slow windows among those learned from.
    pub brier_of_base_rate: f64,
    /// Better than always the same answer, beyond chance.
    pub helps: bool,
}

impl Score {
    /// Of probabilities with what came.
    pub(super) fn of(seen: &[(f64, bool)], confidence: f64, base_rate: f64) -> Score {
        let sure = |(probability, slow): &(f64, bool)| (*probability > confidence, *slow);
        let confusion = Confusion::of(seen.iter().map(sure));
        let brier = |of: &dyn Fn(f64) -> f64| {
            let errors = seen
                .iter()
                .map(|(p, slow)| (of(*p) - f64::from(u8::from(*slow))).powi(2));
            errors.sum::<f64>() / seen.len().max(1) as f64
        };
        let Confusion {
            true_positives,
            false_positives,
            true_negatives,
            false_negatives,
        } = confusion;
        Score {
            confidence,
            confusion,
            accuracy: confusion.accuracy(),
            true_positive_rate: rate(true_positives, false_negatives, "slow"),
            false_positive_rate: rate(false_positives, true_negatives, "other"),
            brier: brier(&|p| p),
            brier_of_base_rate: brier(&|_| base_rate),
            helps: confusion.beats_constant(),
        }
    }
}

/// A share of the score of slow windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    pub counter: String,
    /// Of what speaks for slow, 0–1.
    pub share: f64,
}

/// The counters of one class among those that cover three quarters of the score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    pub class: String,
    pub share: f64,
    pub counters: Vec<Share>,
}

/// Which model admission asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Used {
    /// That of the pair alone.
    Separate,
    /// That of all windows with its parts per node and workload.
    Shared,
    /// Every start is admitted.
    None,
}

/// One pair of node and workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairReport {
    pub node: String,
    /// Empty where the windows do not say what ran.
    pub workload: String,
    /// Windows of the first two thirds of the time, and how many were slow.
    pub trained_on: usize,
    pub trained_slow: usize,
    /// Windows of the later third, and how many were slow.
    pub tested_on: usize,
    pub tested_slow: usize,
    /// Accuracy of always saying "not slow" on the later third.
    pub always_not_slow: Reading<f64>,
    pub separate: Reading<Score>,
    pub shared: Reading<Score>,
    pub used: Used,
    /// Why none is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What speaks for slow in its slow windows, by the model that is used.
    pub causes: Reading<Vec<Cause>>,
}

/// How much there was of one feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeatureReport {
    pub name: String,
    pub class: String,
    /// Share of the windows that have it, 0–1.
    pub available: f64,
}

/// What was learned from, and how well it holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingReport {
    pub files: Vec<String>,
    /// With a label.
    pub windows: usize,
    /// Left out: whether the workload was slow was not known.
    pub unlabelled: usize,
    /// Time of the first window of the later third, where windows have times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later_third_from: Option<String>,
    pub features: Vec<FeatureReport>,
    pub pairs: Vec<PairReport>,
    /// The shared model on the later third of all pairs.
    pub shared: Reading<Score>,
    pub notes: Vec<String>,
}
