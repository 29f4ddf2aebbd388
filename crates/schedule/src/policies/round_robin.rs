//! Node after node.

use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::Deciding;
use crate::policy::Answer;
use crate::policy::Ask;
use crate::policy::Choice;
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

    fn choose(&mut self, ask: &Ask, cluster: &Cluster) -> Answer {
        let count = cluster.len();
        let start = self.next.min(count);
        for (passed, place) in (start..count).chain(0..start).enumerate() {
            let node = NodeId(place as u32);
            if ask.may_use(cluster, node) {
                self.next = (node.index() + 1) % count;
                let mut choice = Choice::on(node, ask);
                choice.examined = passed as u32 + 1;
                return Answer::Place(choice);
            }
        }
        Answer::no_room(ask, cluster)
    }

    fn why(&self, _ask: &Ask, cluster: &Cluster, choice: &Choice) -> Deciding {
        let name = cluster.name(choice.node());
        let why = match choice.examined {
            0 | 1 => format!("{name} is next"),
            examined => format!("{name} is next; {} before it have no room", examined - 1),
        };
        Deciding {
            resource: None,
            why,
        }
    }

    fn runner_up(&self, _ask: &Ask, _cluster: &Cluster, _node: NodeId) -> String {
        "comes later in the round".into()
    }
}
