//! Wrangler: no start where the node's counters foretell a straggler.

mod model;
mod options;
mod platt;
mod svm;
mod windows;

pub use self::model::Confusion;
pub use self::model::GroupReport;
pub use self::model::Share;
pub use self::options::Confidence;
pub use self::options::WranglerOptions;

use self::model::LEAST_WINDOWS;
use self::model::Model;
use self::model::Unfit;
use self::windows::Window;
use self::windows::Windows;
use super::control::Admission;
use super::control::Admitted;
use super::control::Waiter;
use super::none::NoAdmission;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::error::TrainingError;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::path::Path;

/// Share of what speaks for a straggler that an explanation covers (Wrangler,
/// chapter 3).
const EXPLAINED: f64 = 0.75;

/// The name of the model of all windows.
const ALL: &str = "all";

/// What was learned, and how well it holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WranglerReport {
    pub file: String,
    pub counters: Vec<String>,
    /// The model of all windows, then those of nodes with enough of their own.
    pub groups: Vec<GroupReport>,
    /// Names that share the model of all, and why.
    pub shared: Vec<(String, String)>,
}

/// Predicts stragglers from a node's counters (Wrangler, chapter 3), in front
/// of the policy's choice; the order of jobs is another admission's.
///
/// Per node with enough windows, and over all of them, a linear support vector
/// machine on counters scaled to 0–1, the rarer class weighted up to the other;
/// its scores become probabilities by Platt scaling on windows held out. A
/// start is vetoed when a straggler is foretold with more than the asked
/// confidence.
///
/// The paper has a model per node *and* workload; windows here do not say what
/// ran, so that a model is per node only. The `node` of a window may be a
/// node's name or that of a platform, which then serves all nodes of it.
pub struct Wrangler {
    /// Decides who is next.
    inner: Box<dyn Admission>,
    options: WranglerOptions,
    all: Model,
    own: BTreeMap<String, Model>,
    /// Which model answers for a node; filled as nodes are seen.
    of: Vec<Option<String>>,
    vetoes: HashMap<u64, u32>,
    report: WranglerReport,
}

impl Wrangler {
    /// Learns from a CSV file: a header line, then a line per window in order
    /// of time. Columns `node`, `straggler` (0 or 1), and any others, which are
    /// counters in the order in which [`Admission::accept`] gets them.
    ///
    /// # Errors
    ///
    /// [`TrainingError`], with file and line.
    pub fn load(path: &Path, options: WranglerOptions) -> Result<Self, TrainingError> {
        Wrangler::learn(Windows::load(path)?, options)
    }

    /// Likewise from `text`; `file` is named in errors.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub fn parse(text: &str, file: &str, options: WranglerOptions) -> Result<Self, TrainingError> {
        Wrangler::learn(Windows::parse(text, file)?, options)
    }

    fn learn(windows: Windows, options: WranglerOptions) -> Result<Self, TrainingError> {
        if let Confidence::Above(p) = options.confidence
            && !(0.5..1.0).contains(&p)
        {
            return Err(TrainingError::Confidence(p.to_string()));
        }
        let Windows {
            file,
            counters,
            windows,
        } = windows;
        let every: Vec<&Window> = windows.iter().collect();
        let (all, report) = Model::train(ALL, &every, &options).map_err(|unfit| {
            let what = match unfit {
                Unfit::Few => format!(
                    "{} windows are too few to learn from; at least {LEAST_WINDOWS} are needed",
                    every.len()
                ),
                Unfit::OneClass {
                    windows,
                    stragglers,
                } => format!(
                    "of the {windows} windows to learn from (the first two thirds) {} is a \
                     straggler; both kinds are needed",
                    if stragglers { "every one" } else { "none" }
                ),
            };
            let file = file.clone();
            TrainingError::Windows { file, what }
        })?;
        let mut by_node: BTreeMap<&str, Vec<&Window>> = BTreeMap::new();
        for window in &windows {
            by_node.entry(&window.node).or_default().push(window);
        }
        let mut groups = vec![report];
        let (mut own, mut shared) = (BTreeMap::new(), Vec::new());
        for (node, windows) in by_node {
            let count = windows.len();
            let trained = match options.own_windows {
                least if count < least => Err(format!(
                    "{count} windows, {least} are needed for a model of its own"
                )),
                _ => Model::train(node, &windows, &options).map_err(|unfit| match unfit {
                    Unfit::Few => format!("{count} windows, {LEAST_WINDOWS} are the least"),
                    Unfit::OneClass {
                        stragglers: true, ..
                    } => "nothing but stragglers in its first two thirds".into(),
                    Unfit::OneClass { .. } => "no straggler in its first two thirds".into(),
                }),
            };
            match trained {
                Ok((model, report)) => {
                    own.insert(node.to_string(), model);
                    groups.push(report);
                }
                Err(why) => shared.push((node.to_string(), why)),
            }
        }
        Ok(Wrangler {
            inner: Box::new(NoAdmission::new()),
            options,
            all,
            own,
            of: Vec::new(),
            vetoes: HashMap::new(),
            report: WranglerReport {
                file,
                counters,
                groups,
                shared,
            },
        })
    }

    pub fn report(&self) -> &WranglerReport {
        &self.report
    }

    /// Names of the counters, in the order in which they have to come.
    pub fn counters(&self) -> &[String] {
        &self.report.counters
    }

    fn model(&self, node: NodeId) -> &Model {
        let own = self.of.get(node.index()).and_then(Option::as_ref);
        own.and_then(|name| self.own.get(name)).unwrap_or(&self.all)
    }

    /// Probability that what starts on `node` now becomes a straggler; `None`
    /// when `counters` are not those it was trained on, or not numbers.
    pub fn probability(&self, node: NodeId, counters: &[f32]) -> Option<f64> {
        let finite = counters.iter().all(|value| value.is_finite());
        let usable = finite && counters.len() == self.counters().len();
        usable.then(|| self.model(node).probability(counters))
    }

    /// The counters behind at least three quarters of what speaks for a
    /// straggler, most first; empty when nothing does.
    pub fn explain(&self, node: NodeId, counters: &[f32]) -> Vec<Share> {
        if self.probability(node, counters).is_none() {
            return Vec::new();
        }
        self.model(node)
            .explain(self.counters(), counters, EXPLAINED)
    }

    /// Finds the model of every node not seen before.
    fn know(&mut self, cluster: &Cluster) {
        if self.own.is_empty() {
            return;
        }
        for node in cluster.ids().skip(self.of.len()) {
            let node = cluster.node(node);
            let names = [Some(node.name.as_str()), node.platform.as_deref()];
            let mut names = names.into_iter().flatten();
            let known = names.find(|name| self.own.contains_key(*name));
            self.of.push(known.map(str::to_string));
        }
    }
}

impl Admission for Wrangler {
    fn name(&self) -> &'static str {
        "wrangler"
    }

    fn arrive(&mut self, waiter: Waiter, now: f64) {
        self.inner.arrive(waiter, now);
    }

    fn next(&mut self, now: f64, cluster: &Cluster) -> Option<Admitted> {
        self.know(cluster);
        self.inner.next(now, cluster)
    }

    fn started(&mut self, job: u64, nodes: &[NodeId], now: f64, cluster: &Cluster) {
        self.vetoes.remove(&job);
        self.inner.started(job, nodes, now, cluster);
    }

    fn refused(&mut self, job: u64, now: f64) {
        self.inner.refused(job, now);
    }

    fn ended(&mut self, job: u64, nodes: &[NodeId], now: f64, cluster: &Cluster) {
        self.vetoes.remove(&job);
        self.inner.ended(job, nodes, now, cluster);
    }

    fn changed(&mut self, now: f64) {
        self.inner.changed(now);
    }

    fn accept(&mut self, job: u64, node: NodeId, counters: &[f32], now: f64) -> bool {
        if !self.inner.accept(job, node, counters, now) {
            return false;
        }
        let sure = self.probability(node, counters);
        if sure.is_none_or(|sure| sure <= self.model(node).confidence) {
            return true;
        }
        let vetoes = self.vetoes.entry(job).or_default();
        *vetoes += 1;
        *vetoes > self.options.vetoes
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
