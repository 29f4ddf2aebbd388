//! What changed on one resource, as data.

use jostle_profile::reading::Reading;
use jostle_statistics::Difference;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Chance of any false claim in a comparison in which nothing changed.
pub const LEVEL: f64 = 0.05;

/// What is compared of each resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Score, points.
    Tolerated,
    /// Score, points.
    Caused,
    /// At the highest intensity that both profiles have, percentage points.
    Loss,
    /// Share of the peak that is used, percentage points.
    Use,
}

impl Quantity {
    pub const ALL: [Quantity; 4] = [
        Quantity::Loss,
        Quantity::Tolerated,
        Quantity::Caused,
        Quantity::Use,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Quantity::Tolerated => "tolerated",
            Quantity::Caused => "caused",
            Quantity::Loss => "loss",
            Quantity::Use => "use",
        }
    }

    /// What is told of a difference: `higher` is whether the new number is.
    pub(crate) fn outcome(self, higher: bool) -> Outcome {
        match (self, higher) {
            (Quantity::Tolerated, true) | (Quantity::Caused | Quantity::Loss, false) => {
                Outcome::Better
            }
            (Quantity::Tolerated, false) | (Quantity::Caused | Quantity::Loss, true) => {
                Outcome::Worse
            }
            (Quantity::Use, true) => Outcome::More,
            (Quantity::Use, false) => Outcome::Less,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Quantity::ALL.into_iter().find(|it| it.name() == text);
        found.ok_or_else(|| {
            format!("'{text}' is not compared; there are loss, tolerated, caused and use")
        })
    }
}

/// What is known of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Shown, and a regression.
    Worse,
    /// Shown, and an improvement.
    Better,
    /// Shown: uses more of the resource.
    More,
    /// Shown: uses less of the resource.
    Less,
    /// No difference beyond the margin.
    Same,
    /// Neither.
    Open,
}

/// One number of one resource in both profiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    pub old: f64,
    pub new: f64,
    /// New less old.
    pub difference: f64,
    pub ci95: [f64; 2],
    /// Of this test alone.
    pub p: f64,
    /// Corrected for all tests of the comparison (Holm).
    pub p_corrected: f64,
    pub outcome: Outcome,
    /// Intensity at which the losses were compared, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_intensity: Option<f64>,
    #[serde(skip)]
    pub(crate) tested: Difference,
    /// Variance of the difference that longer runs would not remove.
    #[serde(skip)]
    pub(crate) between_runs: f64,
}

/// A counter whose reaction to the source changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterChange {
    pub name: String,
    /// With the source as a multiple of without it.
    pub old_ratio: f64,
    pub new_ratio: f64,
    /// Corrected for the counters of this resource (Holm).
    pub p_corrected: f64,
}

/// All that is compared of one resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResourceChange {
    pub resource: String,
    pub loss: Reading<Change>,
    pub tolerated: Reading<Change>,
    pub caused: Reading<Change>,
    #[serde(rename = "use")]
    pub used: Reading<Change>,
    /// What explains a change that was shown; empty where no counter does.
    pub counters: Vec<CounterChange>,
}

impl ResourceChange {
    pub fn get(&self, quantity: Quantity) -> &Reading<Change> {
        match quantity {
            Quantity::Loss => &self.loss,
            Quantity::Tolerated => &self.tolerated,
            Quantity::Caused => &self.caused,
            Quantity::Use => &self.used,
        }
    }

    /// Of sensitivity and pressure, without use: the worst that was shown, else
    /// open where anything of the loss is, else the same.
    pub fn outcome(&self) -> Outcome {
        let judged = [&self.loss, &self.tolerated, &self.caused];
        let judged = judged.map(|it| it.value().map(|change| change.outcome));
        let any = |outcome| judged.contains(&Some(outcome));
        let told = self.loss.value().or(self.tolerated.value());
        match (any(Outcome::Worse), any(Outcome::Better)) {
            (true, _) => Outcome::Worse,
            (false, true) => Outcome::Better,
            (false, false) => told.map_or(Outcome::Open, |change| change.outcome),
        }
    }

    /// Whether anything of it is in both profiles.
    pub(crate) fn is_compared(&self) -> bool {
        let judged = [&self.loss, &self.tolerated, &self.caused];
        judged.iter().any(|it| it.value().is_some())
    }
}
