//! Any node with room.

use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::Deciding;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use crate::search::draw::Draws;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// Each node that has the room with the same chance. The baseline below which
/// no policy should fall.
#[derive(Debug)]
pub struct Random {
    rng: ChaCha8Rng,
    draws: Draws,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Random {
            rng: ChaCha8Rng::seed_from_u64(seed),
            draws: Draws::default(),
        }
    }
}

impl Policy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        match self.draws.one(request, cluster, &mut self.rng) {
            Some(node) => {
                let mut choice = Choice::on(node, request);
                choice.examined = 1;
                Decision::Place(choice)
            }
            None => Decision::no_room(request, cluster),
        }
    }

    fn why(&self, _ask: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        Deciding::because(format!(
            "{} was drawn from the nodes with room",
            cluster.name(choice.node())
        ))
    }

    fn runner_up(&self, _ask: &PlacementRequest, _cluster: &Cluster, _node: NodeId) -> String {
        "not drawn".into()
    }
}
