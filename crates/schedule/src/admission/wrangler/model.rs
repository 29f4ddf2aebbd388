//! What was learned, as a file: `jostle-wrangler/1`.

use super::features::before_start;
use super::features::class;
use super::platt::Sigmoid;
use super::report::Cause;
use super::report::Share;
use super::report::TrainingReport;
use super::report::Used;
use super::scale::Scale;
use super::scale::scaled;
use super::svm::Plane;
use crate::admission::control::NodeReadings;
use crate::error::TrainingError;
use jostle_profile::json;
use jostle_statistics::ByNumber;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeMap;

/// The format this version writes.
pub const FORMAT: &str = "jostle-wrangler/1";

/// Share of a score that its causes cover (Wrangler, chapter 3).
const EXPLAINED: f64 = 0.75;

/// A weight that decides nothing.
const NO_WEIGHT: f64 = 1e-9;

/// One classifier with calibrated probabilities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Linear {
    pub scales: Vec<Scale>,
    pub plane: Plane,
    pub sigmoid: Sigmoid,
    /// Probability above which a start is vetoed.
    pub confidence: f64,
}

impl Linear {
    pub(super) fn score(&self, values: &[f32]) -> f64 {
        self.plane.score(&scaled(&self.scales, values))
    }

    pub(super) fn probability(&self, values: &[f32]) -> f64 {
        self.sigmoid.probability(self.score(values))
    }

    /// The first feature that decides something and is missing.
    fn missing(&self, values: &[f32]) -> Option<usize> {
        let weights = self.plane.weights.iter().zip(&self.scales).zip(values);
        let missing = |((weight, scale), value): ((&f64, &Scale), &f32)| {
            weight.abs() > NO_WEIGHT && scale.factor > 0.0 && !value.is_finite()
        };
        weights.into_iter().position(missing)
    }

    /// What speaks for slow in `values`, feature by feature: weight × scaled value.
    pub(super) fn contributions(&self, values: &[f32]) -> Vec<f64> {
        let values = scaled(&self.scales, values);
        let parts = self.plane.weights.iter().zip(&values);
        parts
            .map(|(weight, value)| (weight * value).max(0.0))
            .collect()
    }
}

/// The features behind at least three quarters of `contributions`, by class of cause,
/// most first; empty where nothing speaks for slow.
pub(super) fn causes(names: &[String], contributions: &[f64]) -> Vec<Cause> {
    let total: f64 = contributions.iter().sum();
    let mut order: Vec<usize> = (0..names.len())
        .filter(|at| contributions[*at] > 0.0)
        .collect();
    order.sort_by_number(|at| -contributions[*at]);
    let mut covered = 0.0;
    let mut found: Vec<Cause> = Vec::new();
    for at in order {
        if covered >= EXPLAINED * total {
            break;
        }
        covered += contributions[at];
        let share = contributions[at] / total;
        let counter = Share {
            counter: names[at].clone(),
            share,
        };
        let class = class(&names[at]);
        match found.iter_mut().find(|cause| cause.class == class) {
            Some(cause) => {
                cause.share += share;
                cause.counters.push(counter);
            }
            None => found.push(Cause {
                class: class.into(),
                share,
                counters: vec![counter],
            }),
        }
    }
    found.sort_by_number(|it| -it.share);
    found
}

/// Multi-task learning: a part of all windows, one of every node and one of every
/// workload, which add up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Shared {
    pub scales: Vec<Scale>,
    pub all: Plane,
    pub nodes: BTreeMap<String, Plane>,
    pub workloads: BTreeMap<String, Plane>,
    pub sigmoid: Sigmoid,
    pub confidence: f64,
    /// Better than a constant answer on the windows that it did not see.
    pub helps: bool,
}

impl Shared {
    /// For one pair, of which the node or the workload may be unknown.
    pub(super) fn of(&self, node: Option<&str>, workload: &str) -> Linear {
        let mut plane = self.all.clone();
        let node = node.and_then(|node| self.nodes.get(node));
        for part in node.into_iter().chain(self.workloads.get(workload)) {
            plane.add(part);
        }
        Linear {
            scales: self.scales.clone(),
            plane,
            sigmoid: self.sigmoid,
            confidence: self.confidence,
        }
    }
}

/// What is used for one pair of node and workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Pair {
    pub node: String,
    /// Empty for every workload.
    pub workload: String,
    /// Absent where the windows do not give one.
    pub separate: Option<Linear>,
    pub used: Used,
    /// Why none is used.
    pub why: Option<String>,
}

/// What `jostle train` learns, and what admission uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WranglerModel {
    format: String,
    tool_version: String,
    /// What is learned from, in the order of the weights.
    features: Vec<String>,
    pairs: Vec<Pair>,
    shared: Option<Shared>,
    report: TrainingReport,
}

/// What a model says of a start.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// That the workload is slow on that node now.
    pub probability: f64,
    /// Above this a start is vetoed.
    pub confidence: f64,
    /// What speaks for it.
    pub causes: Vec<Cause>,
}

impl WranglerModel {
    pub(super) fn new(
        features: Vec<String>,
        pairs: Vec<Pair>,
        shared: Option<Shared>,
        report: TrainingReport,
    ) -> Self {
        WranglerModel {
            format: FORMAT.into(),
            tool_version: env!("CARGO_PKG_VERSION").into(),
            features,
            pairs,
            shared,
            report,
        }
    }

    pub fn report(&self) -> &TrainingReport {
        &self.report
    }

    /// Names of what is learned from, in the order in which values have to come.
    pub fn features(&self) -> &[String] {
        &self.features
    }

    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data");
        text.push('\n');
        text
    }

    /// # Errors
    ///
    /// [`TrainingError`] where the text is no model of this version; `file` is named.
    pub fn from_json(text: &str, file: &str) -> Result<Self, TrainingError> {
        let wrong = |what: String| TrainingError::Windows {
            file: file.into(),
            what,
        };
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| wrong(format!("not JSON: {error}")))?;
        let format = value.get("format").and_then(serde_json::Value::as_str);
        match format {
            Some(FORMAT) => {}
            Some(newer) if newer.starts_with("jostle-wrangler/") => {
                return Err(wrong(format!(
                    "the format is {newer}; this version reads {FORMAT}, a newer jostle is needed"
                )));
            }
            Some(other) => return Err(wrong(format!("the format is '{other}', not {FORMAT}"))),
            None => return Err(wrong(format!("it has no format; {FORMAT} is wanted"))),
        }
        let model: WranglerModel =
            json::read(text.as_bytes()).map_err(|error| wrong(error.to_string()))?;
        let width = model.features.len();
        let fits =
            |plane: &Plane, scales: &[Scale]| plane.weights.len() == width && scales.len() == width;
        let separate = model.pairs.iter().filter_map(|pair| pair.separate.as_ref());
        let mut fit = separate.map(|it| fits(&it.plane, &it.scales));
        let shared = model.shared.as_ref().is_none_or(|it| {
            let parts = it.nodes.values().chain(it.workloads.values());
            parts.chain([&it.all]).all(|part| fits(part, &it.scales))
        });
        if !(shared && fit.all(|fits| fits)) {
            return Err(wrong(format!("its weights are not of {width} features")));
        }
        Ok(model)
    }

    /// The model for `workload` on the node that one of `names` is the name of, or why
    /// there is none.
    pub(super) fn choose(&self, names: &[&str], workload: &str) -> Result<Linear, String> {
        let node = names.iter().find(|name| self.knows_node(name)).copied();
        let is_it = |pair: &&Pair| {
            Some(pair.node.as_str()) == node && ["", workload].contains(&pair.workload.as_str())
        };
        if let Some(pair) = self.pairs.iter().find(is_it) {
            return match (pair.used, &pair.separate, &self.shared) {
                (Used::Separate, Some(separate), _) => Ok(separate.clone()),
                (Used::Shared, _, Some(shared)) => Ok(shared.of(node, &pair.workload)),
                _ => Err(pair.why.clone().unwrap_or_else(|| "it has no model".into())),
            };
        }
        let Some(shared) = self.shared.as_ref().filter(|shared| shared.helps) else {
            return Err("there are no windows of it there, and no shared model that helps".into());
        };
        let workload = match shared.workloads.contains_key(workload) {
            true => workload,
            false => "",
        };
        match node.is_some() || shared.workloads.contains_key(workload) {
            true => Ok(shared.of(node, workload)),
            false => Err("there are no windows of this workload or of this node".into()),
        }
    }

    fn knows_node(&self, name: &str) -> bool {
        self.pairs.iter().any(|pair| pair.node == name)
    }

    /// What is to be expected of `workload` on a node called one of `names` (its own or
    /// that of its platform) with `values` of the features.
    ///
    /// # Errors
    ///
    /// Why that is unknown.
    pub(super) fn forecast(
        &self,
        names: &[&str],
        workload: &str,
        values: &[f32],
    ) -> Result<Forecast, String> {
        let model = self.choose(names, workload)?;
        if values.len() != self.features.len() {
            let (are, were) = (values.len(), self.features.len());
            return Err(format!("{are} counters were read, the model has {were}"));
        }
        if let Some(at) = model.missing(values) {
            return Err(format!("there is no reading of {}", self.features[at]));
        }
        Ok(Forecast {
            probability: model.probability(values),
            confidence: model.confidence,
            causes: causes(&self.features, &model.contributions(values)),
        })
    }

    /// Values of the features on a node where the workload does not run yet.
    pub(super) fn values(&self, readings: &NodeReadings) -> Vec<f32> {
        let names = self.features.iter();
        names.map(|name| before_start(name, readings)).collect()
    }
}
