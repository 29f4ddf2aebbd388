//! Node after node.

use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::Deciding;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::PlacementRequest;
use crate::policy::Policy;

/// The next node with room after the one chosen last, in the order of adding,
/// and from the last to the first again.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    /// Where the next search starts.
    next: usize,
}

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        let count = cluster.len();
        let start = self.next.min(count);
        for (passed, place) in (start..count).chain(0..start).enumerate() {
            let node = NodeId(place as u32);
            if request.may_use(cluster, node) {
                self.next = (node.index() + 1) % count;
                let mut choice = Choice::on(node, request);
                choice.examined = passed as u32 + 1;
                return Decision::Place(choice);
            }
        }
        Decision::no_room(request, cluster)
    }

    fn why(&self, _ask: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        let name = cluster.name(choice.node());
        let why = match choice.examined {
            0 | 1 => format!("{name} is next"),
            examined => format!("{name} is next; {} before it have no room", examined - 1),
        };
        Deciding::because(why)
    }

    fn runner_up(&self, _ask: &PlacementRequest, _cluster: &Cluster, _node: NodeId) -> String {
        "comes later in the round".into()
    }
}
