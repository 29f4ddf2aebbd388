//! Who may be placed now, and where: asked before the policy.

use crate::app::App;
use crate::app::Demand;
use crate::cluster::Cluster;
use crate::cluster::Node;
use crate::cluster::NodeId;
use crate::cluster::node_set::NodeSet;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A job as admission knows it, by a number its caller gives it.
#[derive(Clone, Debug)]
pub struct Waiter {
    pub job: u64,
    pub app: Arc<App>,
    pub demand: Demand,
    /// Seconds it would take alone on its best platform, where that is known.
    pub ideal_seconds: Option<f64>,
    /// Seconds spent classifying it.
    pub overhead_seconds: f64,
    /// Higher goes first, where the admission knows priorities.
    pub priority: u32,
}

/// A job that may be placed now.
#[derive(Clone, Debug)]
pub struct Admitted {
    pub job: u64,
    /// Only there; anywhere when absent.
    pub allowed: Option<NodeSet>,
}

/// Current readings of a node by the names of columns; none where unavailable.
pub type NodeReadings = BTreeMap<String, Option<f64>>;

/// What an admission says of a start on a node, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub admitted: bool,
    pub words: String,
}

/// Decides who is placed next. The caller tells it everything that happens and
/// asks [`Self::next`] again after each change; the policy then chooses the
/// node.
pub trait Admission: Send {
    /// The name used on the command line and in scenarios.
    fn name(&self) -> &'static str;

    /// A job wants to be placed.
    fn arrive(&mut self, waiter: Waiter, now: f64);

    /// The next job that may be placed at `now`, if any. The caller reports
    /// what came of it by [`Self::started`] or [`Self::refused`] before it
    /// asks again.
    fn next(&mut self, now: f64, cluster: &Cluster) -> Option<Admitted>;

    /// The job runs on `nodes`, or, where there is none, waits at nodes instead
    /// of here (late binding); this is then told again once it runs.
    fn started(&mut self, job: u64, nodes: &[NodeId], now: f64, cluster: &Cluster);

    /// The policy found no place for it among those allowed: it goes on
    /// waiting where it stood, and is not offered again before something
    /// changes.
    fn refused(&mut self, job: u64, now: f64);

    /// The policy would rather wait for something better, and wants to be asked
    /// again at `until` (seconds) and not before.
    fn postponed(&mut self, job: u64, _until: f64, now: f64) {
        self.refused(job, now);
    }

    /// It has left `nodes`, or will never be placed.
    fn ended(&mut self, job: u64, nodes: &[NodeId], now: f64, cluster: &Cluster);

    /// Something else changed: a node is back, a profile is another, the time
    /// has come that a policy said to wait for. Who was refused may be offered
    /// again.
    fn changed(&mut self, _now: f64) {}

    /// Whether the policy's choice stands; `false` sends it to choose again
    /// without `node`. `counters` are those of the node's last window, each
    /// 0–1, in the order in which the admission was trained.
    fn accept(&mut self, _job: u64, _node: NodeId, _counters: &[f32], _now: f64) -> bool {
        true
    }

    /// What it says of `app` on `node`, whose current readings are known by name;
    /// `None` of an admission that looks at no readings. Nothing changes.
    fn verdict(
        &self,
        _app: &str,
        _node: &Node,
        _readings: Option<&NodeReadings>,
    ) -> Option<Verdict> {
        None
    }

    /// Whether [`Self::next`] has an order of its own; that of arrival otherwise.
    fn chooses_next(&self) -> bool {
        true
    }

    /// Why `job` waits, beyond that there is no room.
    fn why(&self, _job: u64, _now: f64) -> Option<String> {
        None
    }

    /// Whether [`Self::accept`] looks at the counters; they are not read for an
    /// admission that does not.
    fn reads_counters(&self) -> bool {
        true
    }

    /// Seconds after which [`Self::next`] may answer differently although
    /// nothing has changed; `None` when only changes matter.
    fn wake_at(&self) -> Option<f64> {
        None
    }

    /// How many wait.
    fn waiting(&self) -> usize;
}
