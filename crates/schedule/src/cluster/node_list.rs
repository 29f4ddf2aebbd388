//! A list of nodes that knows where each stands.

use crate::cluster::ids::NodeId;

/// Members in no order; joining and leaving take constant time.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeList {
    members: Vec<NodeId>,
    /// Place + 1 by node; 0 for those that are not members.
    place: Vec<u32>,
}

impl NodeList {
    pub(crate) fn members(&self) -> &[NodeId] {
        &self.members
    }

    pub(crate) fn set(&mut self, node: NodeId, member: bool) {
        if member {
            self.insert(node);
        } else {
            self.remove(node);
        }
    }

    pub(crate) fn insert(&mut self, node: NodeId) {
        if node.index() >= self.place.len() {
            self.place.resize(node.index() + 1, 0);
        }
        if self.place[node.index()] == 0 {
            self.members.push(node);
            self.place[node.index()] = self.members.len() as u32;
        }
    }

    pub(crate) fn remove(&mut self, node: NodeId) {
        let Some(place @ 1..) = self.place.get(node.index()).copied() else {
            return;
        };
        self.place[node.index()] = 0;
        let at = place as usize - 1;
        self.members.swap_remove(at);
        if let Some(moved) = self.members.get(at) {
            self.place[moved.index()] = place;
        }
    }
}
