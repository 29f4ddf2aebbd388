//! Wrangler: no start where the node's counters predict that it would be slow.

mod features;
mod fitted;
mod judge;
mod model;
mod options;
mod platt;
mod report;
mod scale;
mod svm;
mod train;
mod windows;

pub use self::features::node_readings;
pub use self::model::Forecast;
pub use self::model::WranglerModel;
pub use self::options::Confidence;
pub use self::options::TrainingOptions;
pub use self::report::Cause;
pub use self::report::Confusion;
pub use self::report::FeatureReport;
pub use self::report::PairReport;
pub use self::report::Score;
pub use self::report::Share;
pub use self::report::TrainingReport;
pub use self::report::Used;

use self::windows::Windows;
use super::control::Admission;
use super::control::Admitted;
use super::control::NodeReadings;
use super::control::Verdict;
use super::control::Waiter;
use super::none::NoAdmission;
use crate::cluster::Cluster;
use crate::cluster::Node;
use crate::cluster::NodeId;
use crate::error::TrainingError;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_RECORDING;
use std::collections::HashMap;
use std::path::Path;

/// Vetoes of one job; after so many it takes what it gets. The paper only suggests such
/// a cap.
const VETOES: u32 = 3;

/// Predicts from a node's counters that what starts there would be slow (Wrangler,
/// chapters 3 and 4), in front of the policy's choice; the order of jobs is another
/// admission's.
///
/// Per node and workload, a linear support vector machine on counters scaled to 0–1,
/// the rarer class weighted up to the other; its scores become probabilities by Platt
/// scaling on windows held out. Beside it one machine that all share, with a part per
/// node and per workload. A start is vetoed when slow is predicted with more than the
/// asked confidence, by a model that was better than a constant answer on the later
/// third of the windows; everything else is admitted.
///
/// The `node` of a window may be a node's name or that of a platform, which then
/// serves all nodes of it.
pub struct Wrangler {
    /// Decides who is next.
    inner: Box<dyn Admission>,
    model: Option<WranglerModel>,
    /// Names by which a model is found; filled as nodes are seen.
    nodes: Vec<Vec<String>>,
    /// The workload of each job that waits.
    apps: HashMap<u64, String>,
    vetoes: HashMap<u64, u32>,
}

/// Learns from CSV files of windows, of agents or with columns `node`, `straggler` (0
/// or 1), optionally `workload`, and counters.
///
/// # Errors
///
/// [`TrainingError`], with file and line.
pub fn train(
    paths: &[impl AsRef<Path>],
    options: TrainingOptions,
) -> Result<WranglerModel, TrainingError> {
    train::train(Windows::load(paths)?, options)
}

/// The same from `text`; `file` is named in errors.
///
/// # Errors
///
/// As [`train`].
pub fn train_on_text(
    text: &str,
    file: &str,
    options: TrainingOptions,
) -> Result<WranglerModel, TrainingError> {
    train::train(Windows::parse(text, file)?, options)
}

/// A model file, or windows to learn from.
///
/// # Errors
///
/// [`TrainingError`], with the file.
pub fn load(path: &Path, options: TrainingOptions) -> Result<WranglerModel, TrainingError> {
    let file = path.display().to_string();
    let text =
        regular::read_text(path, LONGEST_RECORDING).map_err(|error| TrainingError::Read {
            file: file.clone(),
            why: error.to_string(),
        })?;
    match text.trim_start().starts_with('{') {
        true => WranglerModel::from_json(&text, &file),
        false => train_on_text(&text, &file, options),
    }
}

/// Names by which windows may call `node`.
fn names(node: &Node) -> Vec<&str> {
    let platform = node.platform.as_deref();
    [Some(node.name.as_str()), platform]
        .into_iter()
        .flatten()
        .collect()
}

impl Wrangler {
    /// Without a model every start is admitted.
    pub fn new(model: Option<WranglerModel>) -> Self {
        Wrangler {
            inner: Box::new(NoAdmission::new()),
            model,
            nodes: Vec::new(),
            apps: HashMap::new(),
            vetoes: HashMap::new(),
        }
    }

    /// What is to be expected of `app` on `node`.
    ///
    /// # Errors
    ///
    /// Why that is unknown.
    pub fn forecast(
        &self,
        node: &Node,
        app: &str,
        readings: Option<&NodeReadings>,
    ) -> Result<Forecast, String> {
        let model = self.model.as_ref().ok_or("there is no model")?;
        let readings = readings.ok_or("there is no reading of the node")?;
        model.forecast(&names(node), app, &model.values(readings))
    }

    /// Finds the names of every node not seen before.
    fn know(&mut self, cluster: &Cluster) {
        for node in cluster.ids().skip(self.nodes.len()) {
            let names = names(cluster.node(node));
            self.nodes
                .push(names.into_iter().map(str::to_string).collect());
        }
    }

    fn forget(&mut self, job: u64) {
        self.vetoes.remove(&job);
        self.apps.remove(&job);
    }
}

impl Forecast {
    fn vetoes(&self) -> bool {
        self.probability > self.confidence
    }

    fn words(&self) -> String {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let chance = format!(
            "{} likely to be slow there now, {} is the limit",
            percent(self.probability),
            percent(self.confidence)
        );
        let because = self.causes.iter().map(|cause| {
            let counters: Vec<&str> = cause
                .counters
                .iter()
                .map(|it| it.counter.as_str())
                .collect();
            format!("{} ({})", cause.class, counters.join(", "))
        });
        let because: Vec<String> = because.collect();
        match self.vetoes() && !because.is_empty() {
            true => format!("{chance}; because of {}", because.join(", ")),
            false => chance,
        }
    }
}

impl Admission for Wrangler {
    fn name(&self) -> &'static str {
        "wrangler"
    }

    fn arrive(&mut self, waiter: Waiter, now: f64) {
        self.apps.insert(waiter.job, waiter.app.name().to_string());
        self.inner.arrive(waiter, now);
    }

    fn next(&mut self, now: f64, cluster: &Cluster) -> Option<Admitted> {
        self.know(cluster);
        self.inner.next(now, cluster)
    }

    fn started(&mut self, job: u64, nodes: &[NodeId], now: f64, cluster: &Cluster) {
        self.forget(job);
        self.inner.started(job, nodes, now, cluster);
    }

    fn refused(&mut self, job: u64, now: f64) {
        self.inner.refused(job, now);
    }

    fn ended(&mut self, job: u64, nodes: &[NodeId], now: f64, cluster: &Cluster) {
        self.forget(job);
        self.inner.ended(job, nodes, now, cluster);
    }

    fn changed(&mut self, now: f64) {
        self.inner.changed(now);
    }

    fn accept(&mut self, job: u64, node: NodeId, counters: &[f32], now: f64) -> bool {
        if !self.inner.accept(job, node, counters, now) {
            return false;
        }
        let (Some(model), Some(names)) = (&self.model, self.nodes.get(node.index())) else {
            return true;
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let app = self.apps.get(&job).map_or("", String::as_str);
        match model.forecast(&names, app, counters) {
            Ok(forecast) if forecast.vetoes() => {
                let vetoes = self.vetoes.entry(job).or_default();
                *vetoes += 1;
                *vetoes > VETOES
            }
            _ => true,
        }
    }

    fn verdict(&self, app: &str, node: &Node, readings: Option<&NodeReadings>) -> Option<Verdict> {
        let forecast = self.forecast(node, app, readings);
        Some(match forecast {
            Ok(forecast) => Verdict {
                admitted: !forecast.vetoes(),
                words: forecast.words(),
            },
            Err(why) => Verdict {
                admitted: true,
                words: format!("unknown, admitted: {why}"),
            },
        })
    }

    fn chooses_next(&self) -> bool {
        self.inner.chooses_next()
    }

    fn wake_at(&self) -> Option<f64> {
        self.inner.wake_at()
    }

    fn waiting(&self) -> usize {
        self.inner.waiting()
    }
}

#[cfg(test)]
mod tests;
