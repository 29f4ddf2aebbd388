//! Any node with room.

use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::Deciding;
use crate::policy::Answer;
use crate::policy::Ask;
use crate::policy::Choice;
use crate::policy::Policy;
use crate::search::draw::Draws;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Each node that has the room with the same chance. The baseline below which
/// no policy should fall.
#[derive(Clone, Debug)]
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

    fn choose(&mut self, ask: &Ask, cluster: &Cluster) -> Answer {
        match self.draws.one(ask, cluster, &mut self.rng) {
            Some(node) => {
                let mut choice = Choice::on(node, ask);
                choice.examined = 1;
                Answer::Place(choice)
            }
            None => Answer::no_room(ask, cluster),
        }
    }

    fn why(&self, _ask: &Ask, cluster: &Cluster, choice: &Choice) -> Deciding {
        Deciding {
            resource: None,
            why: format!(
                "{} was drawn from the nodes with room",
                cluster.name(choice.node())
            ),
        }
    }

    fn runner_up(&self, _ask: &Ask, _cluster: &Cluster, _node: NodeId) -> String {
        "not drawn".into()
    }
}
