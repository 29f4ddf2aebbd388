//! Few nodes, and those full.

use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::Deciding;
use crate::policies::least_loaded::freedom;
use crate::policies::least_loaded::percent;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use crate::search::ranking::Ranking;

/// The fullest node that has the room: least free share of CPUs, then least
/// free share of memory, then file order (best fit). The opposite of
/// [`LeastLoaded`](crate::LeastLoaded), and as blind to interference.
#[derive(Clone, Copy, Debug, Default)]
pub struct BinPack;

impl Policy for BinPack {
    fn name(&self) -> &'static str {
        "bin-pack"
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        let mut ranking = Ranking::default();
        request.candidates(cluster, |node| {
            let (cpus, memory) = freedom(cluster, node);
            ranking.offer(node, [-cpus, -memory]);
        });
        ranking.answer(request, cluster)
    }

    fn why(&self, _ask: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        let chosen = choice.node();
        let Some(next) = choice.runners_up[0] else {
            return crate::policy::only_candidate(cluster, chosen);
        };
        let (ours, theirs) = (freedom(cluster, chosen), freedom(cluster, next));
        let name = cluster.name(next);
        if ours.0 < theirs.0 {
            Deciding {
                resource: Some("cpus".into()),
                why: format!(
                    "only {} of its CPUs are free, {} on {name}",
                    percent(ours.0),
                    percent(theirs.0)
                ),
            }
        } else if ours.1 < theirs.1 {
            Deciding {
                resource: Some("memory".into()),
                why: format!(
                    "only {} of its memory is free, {} on {name}, with an equal share of CPUs",
                    percent(ours.1),
                    percent(theirs.1)
                ),
            }
        } else {
            Deciding {
                resource: None,
                why: format!("{name} is as full; the first in the file is taken"),
            }
        }
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
