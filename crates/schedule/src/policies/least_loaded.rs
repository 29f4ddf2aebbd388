//! The baseline that does not look at interference.

use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::Deciding;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use crate::search::ranking::Ranking;

/// Most free share of CPUs, then most free share of memory, then file order
/// (the baseline LL of Paragon's evaluation). D1 and D2 are told but not used.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastLoaded;

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

impl Policy for LeastLoaded {
    fn name(&self) -> &'static str {
        "least-loaded"
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        let mut ranking = Ranking::default();
        request.candidates(cluster, |node| {
            let (cpus, memory) = freedom(cluster, node);
            ranking.offer(node, [cpus, memory]);
        });
        ranking.answer(request, cluster)
    }

    fn why(&self, _ask: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        let chosen = choice.node();
        let Some(next) = choice.runners_up[0] else {
            return crate::policy::only_candidate(cluster, chosen);
        };
        by_freedom(cluster, chosen, next)
    }

    fn runner_up(&self, _ask: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        let (cpus, memory) = freedom(cluster, node);
        format!(
            "{} of its CPUs and {} of its memory free",
            percent(cpus),
            percent(memory)
        )
    }
}

/// What tells `chosen` from the more loaded `next`.
pub(crate) fn by_freedom(cluster: &Cluster, chosen: NodeId, next: NodeId) -> Deciding {
    let (ours, theirs) = (freedom(cluster, chosen), freedom(cluster, next));
    let name = cluster.name(next);
    if ours.0 > theirs.0 {
        Deciding {
            resource: Some("cpus".into()),
            why: format!(
                "{} of its CPUs are free, {} on {name}",
                percent(ours.0),
                percent(theirs.0)
            ),
        }
    } else if ours.1 > theirs.1 {
        Deciding {
            resource: Some("memory".into()),
            why: format!(
                "{} of its memory is free, {} on {name}, with an equal share of CPUs",
                percent(ours.1),
                percent(theirs.1)
            ),
        }
    } else {
        Deciding {
            resource: None,
            why: format!("{name} is as free; the first in the file is taken"),
        }
    }
}
