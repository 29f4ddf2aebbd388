//! Which resource units are free, so that one can be drawn at random.

use crate::cluster::ids::NodeId;

/// Free resource units (RU = one CPU and its share of the node; Tarcil,
/// section 7.3.1). Unit `j` of a node is free when `j` is below the node's
/// number of free CPUs; so that a start or an end moves one boundary.
#[derive(Clone, Debug, Default)]
pub struct FreeUnits {
    /// The node of each free unit, in no order.
    nodes: Vec<u32>,
    /// Where each unit stands in `nodes`; units of a node stand together.
    place: Vec<u32>,
    /// First unit of each node.
    first: Vec<u32>,
    /// The unit at each place of `nodes`.
    units: Vec<u32>,
}

const TAKEN: u32 = u32::MAX;

impl FreeUnits {
    /// A further node with `cpus` units, all of them free.
    pub(crate) fn add_node(&mut self, node: NodeId, cpus: u32) {
        self.first.push(self.place.len() as u32);
        for _ in 0..cpus {
            self.place.push(TAKEN);
            self.release(node, self.place.len() as u32 - 1);
        }
    }

    /// Moves the boundary of `node` from `before` free units to `after`.
    pub(crate) fn set_free(&mut self, node: NodeId, before: u32, after: u32) {
        let first = self.first[node.index()];
        for unit in first + after..first + before.max(after) {
            self.take(unit);
        }
        for unit in first + before..first + after.max(before) {
            self.release(node, unit);
        }
    }

    fn release(&mut self, node: NodeId, unit: u32) {
        self.place[unit as usize] = self.nodes.len() as u32;
        self.nodes.push(node.0);
        self.units.push(unit);
    }

    fn take(&mut self, unit: u32) {
        let place = std::mem::replace(&mut self.place[unit as usize], TAKEN) as usize;
        self.nodes.swap_remove(place);
        self.units.swap_remove(place);
        if let Some(moved) = self.units.get(place) {
            self.place[*moved as usize] = place as u32;
        }
    }

    /// How many units are free.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Units there are, free or not, broken or not.
    pub fn total(&self) -> usize {
        self.place.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node of the free unit at `place`, 0 … [`Self::len`]; every free unit
    /// has one place, in no order.
    pub fn node_at(&self, place: usize) -> Option<NodeId> {
        self.nodes.get(place).map(|node| NodeId(*node))
    }
}
