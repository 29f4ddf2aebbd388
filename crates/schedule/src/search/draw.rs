//! Drawing nodes with room at random.

use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::policy::PlacementRequest;
use rand::Rng;
use rand::RngExt;

/// Draws per node wanted before the nodes with room are listed instead.
const TRIES: usize = 32;

/// Draws nodes that may be chosen and have the room, each with the same chance
/// and independently of the draws before (with replacement).
///
/// A place is drawn in the list of nodes with a CPU free and tried again when
/// the demand does not fit there, which leaves the chances of the others equal.
/// When that takes long, because few have the room or may be chosen, they are
/// listed once and drawn from the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draws {
    listed: Vec<NodeId>,
}

impl Draws {
    /// One node; `None` when no node has the room.
    pub(crate) fn one(
        &mut self,
        request: &PlacementRequest,
        cluster: &Cluster,
        rng: &mut impl Rng,
    ) -> Option<NodeId> {
        let mut drawn = None;
        self.many(request, cluster, rng, 1, |node| drawn = Some(node));
        drawn
    }

    /// Calls `look` with `count` draws, or with none when no node has the room.
    pub(crate) fn many(
        &mut self,
        request: &PlacementRequest,
        cluster: &Cluster,
        rng: &mut impl Rng,
        count: usize,
        mut look: impl FnMut(NodeId),
    ) {
        let open = cluster.open();
        let total = open.len() + cluster.empty_by_kind().map(<[NodeId]>::len).sum::<usize>();
        if total == 0 {
            return;
        }
        let at = |place: usize| match open.get(place) {
            Some(node) => *node,
            None => {
                let mut place = place - open.len();
                let mut lists = cluster.empty_by_kind();
                loop {
                    let list = lists.next().expect("the place is below the total");
                    match list.get(place) {
                        Some(node) => return *node,
                        None => place -= list.len(),
                    }
                }
            }
        };
        let (mut found, mut tries) = (0, count * TRIES);
        while found < count && tries > 0 {
            tries -= 1;
            let node = at(rng.random_range(0..total));
            if request.may_use(cluster, node) {
                found += 1;
                look(node);
            }
        }
        if found == count {
            return;
        }
        self.listed.clear();
        let lists = cluster.empty_by_kind().flatten();
        self.listed.extend(
            open.iter()
                .chain(lists)
                .filter(|node| request.may_use(cluster, **node)),
        );
        if self.listed.is_empty() {
            return;
        }
        for _ in found..count {
            look(self.listed[rng.random_range(0..self.listed.len())]);
        }
    }
}
