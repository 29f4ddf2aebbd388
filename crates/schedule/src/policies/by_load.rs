//! The baselines that look at load and not at interference.

use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::Deciding;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use crate::policy::only_candidate;
use crate::search::ranking::Ranking;

/// Chooses by the free share of CPUs, then of memory, then by file order; blind
/// to interference.
#[derive(Clone, Copy, Debug)]
pub struct ByLoad {
    name: &'static str,
    full: bool,
}

impl ByLoad {
    /// Most is free (the baseline LL of Paragon's evaluation).
    pub const LEAST_LOADED: ByLoad = ByLoad {
        name: "least-loaded",
        full: false,
    };

    /// Least is free (best fit).
    pub const BIN_PACK: ByLoad = ByLoad {
        name: "bin-pack",
        full: true,
    };
}

/// Free shares of CPUs and of memory.
pub(crate) fn freedom(cluster: &Cluster, node: NodeId) -> (f64, f64) {
    (
        cluster.free_cpu_fraction(node),
        cluster.free_memory_fraction(node),
    )
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The free shares of `node` in words.
pub(crate) fn describe(cluster: &Cluster, node: NodeId) -> String {
    let (cpus, memory) = freedom(cluster, node);
    format!(
        "{} of its CPUs and {} of its memory free",
        percent(cpus),
        percent(memory)
    )
}

impl Policy for ByLoad {
    fn name(&self) -> &'static str {
        self.name
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        let sign = if self.full { -1.0 } else { 1.0 };
        let mut ranking = Ranking::default();
        request.candidates(cluster, |node| {
            let (cpus, memory) = freedom(cluster, node);
            ranking.offer(node, [sign * cpus, sign * memory]);
        });
        ranking.answer(request, cluster)
    }

    fn why(&self, _: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        match choice.runners_up[0] {
            Some(next) => by_freedom(cluster, choice.node(), next, self.full),
            None => only_candidate(cluster, choice.node()),
        }
    }

    fn runner_up(&self, _: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        describe(cluster, node)
    }
}

/// What tells `chosen` from `next`: more of it is free, or less where `full`.
pub(crate) fn by_freedom(cluster: &Cluster, chosen: NodeId, next: NodeId, full: bool) -> Deciding {
    let (ours, theirs) = (freedom(cluster, chosen), freedom(cluster, next));
    let name = cluster.name(next);
    let apart = |ours: f64, theirs: f64| if full { ours < theirs } else { ours > theirs };
    let only = if full { "only " } else { "" };
    if apart(ours.0, theirs.0) {
        let (ours, theirs) = (percent(ours.0), percent(theirs.0));
        Deciding::by(
            "cpus",
            format!("{only}{ours} of its CPUs are free, {theirs} on {name}"),
        )
    } else if apart(ours.1, theirs.1) {
        let (ours, theirs) = (percent(ours.1), percent(theirs.1));
        Deciding::by(
            "memory",
            format!(
                "{only}{ours} of its memory is free, {theirs} on {name}, with an equal share of CPUs"
            ),
        )
    } else {
        let as_much = if full { "full" } else { "free" };
        Deciding::because(format!(
            "{name} is as {as_much}; the first in the file is taken"
        ))
    }
}
