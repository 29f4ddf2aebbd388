//! Servers by their current quality.

use crate::app::to_points;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::cluster::node_set::NodeSet;
use crate::cluster::summary::NodeSummary;

/// Not a member of any pool: down.
const NONE: usize = usize::MAX;

/// Pools of servers by ranges of quality; a server moves when its residents
/// change.
#[derive(Clone, Debug)]
pub(super) struct Pools {
    members: Vec<NodeSet>,
    counts: Vec<usize>,
    /// Pool and version by node.
    of: Vec<(usize, u32)>,
    /// Where the lowest pool begins, in whole points: the least quality of a
    /// server seen so far, or 0.
    least: f64,
}

/// Mean of the least tolerated of its residents over the resources of which it
/// is known, in points: Σ t over what it could sum up to. An empty server has
/// 100; one of whose residents nothing is known has 0.
fn quality(summary: &NodeSummary) -> f64 {
    let lanes = summary.tolerated_known.len();
    if lanes == 0 {
        return 0.0;
    }
    let known = summary.tolerated_known.iter();
    let sum: i64 = known.map(|lane| i64::from(summary.tolerated[lane])).sum();
    to_points(1) * sum as f64 / f64::from(lanes)
}

impl Pools {
    /// `relative` pools lie between the least quality seen and 100.
    pub(super) fn new(pools: usize, relative: bool) -> Self {
        Pools {
            members: vec![NodeSet::default(); pools],
            counts: vec![0; pools],
            of: Vec::new(),
            least: if relative { 99.0 } else { 0.0 },
        }
    }

    /// The pool or queue for a quality of `points`, 0–100.
    pub(super) fn range(&self, points: f64) -> usize {
        let pools = self.members.len();
        ((points / 100.0 * pools as f64) as usize).min(pools - 1)
    }

    pub(super) fn members(&self, pool: usize) -> &NodeSet {
        &self.members[pool]
    }

    pub(super) fn count(&self, pool: usize) -> usize {
        self.counts[pool]
    }

    /// The pool that `node` was last seen in; the best for one never seen.
    pub(super) fn pool_of(&self, node: NodeId) -> usize {
        let seen = self.of.get(node.index()).map(|(pool, _)| *pool);
        seen.filter(|pool| *pool != NONE)
            .unwrap_or(self.members.len() - 1)
    }

    /// Brings every server into line: a look at the version of each, more only
    /// where it has changed. True when something had changed beyond what
    /// [`Self::update`] was told.
    pub(super) fn follow(&mut self, cluster: &Cluster) -> bool {
        let mut changed = false;
        loop {
            let least = self.least;
            for node in cluster.ids() {
                changed |= self.place(node, cluster.summary(node));
            }
            if self.least == least {
                return changed;
            }
            // The ranges have moved, and with them everybody.
            for ((_, version), node) in self.of.iter_mut().zip(cluster.ids()) {
                *version = !cluster.summary(node).version;
            }
        }
    }

    pub(super) fn update(&mut self, nodes: &[NodeId], cluster: &Cluster) {
        for node in nodes {
            if node.index() < self.of.len() {
                self.place(*node, cluster.summary(*node));
            }
        }
    }

    fn place(&mut self, node: NodeId, summary: &NodeSummary) -> bool {
        if node.index() >= self.of.len() {
            // Nodes are looked at in order, so that this is the next one.
            self.of.push((NONE, !summary.version));
        }
        let (before, version) = self.of[node.index()];
        if version == summary.version {
            return false;
        }
        let after = match summary.up {
            true => {
                let quality = quality(summary);
                self.least = self.least.min(quality.floor());
                self.range(100.0 * (quality - self.least) / (100.0 - self.least))
            }
            false => NONE,
        };
        if before != after {
            if let Some(members) = self.members.get_mut(before) {
                members.remove(node);
                self.counts[before] -= 1;
            }
            if let Some(members) = self.members.get_mut(after) {
                members.insert(node);
                self.counts[after] += 1;
            }
        }
        self.of[node.index()] = (after, summary.version);
        true
    }
}
