//! The best few of many nodes, kept while they are looked at.

use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::RUNNERS_UP;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::PlacementRequest;

/// Nodes by a key of `K` figures, compared one after the other, higher is
/// better; among equals the first in the order of adding.
#[derive(Clone, Copy, Debug)]
pub struct Ranking<const K: usize> {
    best: [Option<([f64; K], NodeId)>; RUNNERS_UP + 1],
    seen: u32,
}

impl<const K: usize> Default for Ranking<K> {
    fn default() -> Self {
        Ranking {
            best: [None; RUNNERS_UP + 1],
            seen: 0,
        }
    }
}

impl<const K: usize> Ranking<K> {
    #[inline]
    pub fn offer(&mut self, node: NodeId, key: [f64; K]) {
        self.seen += 1;
        // Most are no better than the last that is kept.
        if before(Some((key, node)), self.best[RUNNERS_UP]) {
            self.insert(node, key);
        }
    }

    fn insert(&mut self, node: NodeId, key: [f64; K]) {
        let mut held = Some((key, node));
        for place in &mut self.best {
            if before(held, *place) {
                std::mem::swap(&mut held, place);
            }
            if held.is_none() {
                break;
            }
        }
    }

    /// Counts one that is not ranked, as it is there already.
    pub fn skip(&mut self) {
        self.seen += 1;
    }

    /// The key to be passed to be among those kept; `None` while there are
    /// places left.
    pub fn least(&self) -> Option<[f64; K]> {
        self.best[RUNNERS_UP].map(|(key, _)| key)
    }

    /// Best first.
    pub fn best(&self) -> impl Iterator<Item = ([f64; K], NodeId)> {
        self.best.iter().flatten().copied()
    }

    pub fn seen(&self) -> u32 {
        self.seen
    }

    /// The best as a choice, the rest as runners-up, its first figure as score.
    pub fn answer(&self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        let Some((key, node)) = self.best[0] else {
            return Decision::no_room(request, cluster);
        };
        let mut choice = Choice::on(node, request);
        choice.examined = self.seen;
        choice.score = key.first().copied().unwrap_or(0.0);
        let others = self.best[1..].iter().flatten().map(|(_, node)| *node);
        Decision::Place(choice.with_runners_up(others))
    }
}

#[inline]
fn before<const K: usize>(a: Option<([f64; K], NodeId)>, b: Option<([f64; K], NodeId)>) -> bool {
    match (a, b) {
        (Some((key_a, node_a)), Some((key_b, node_b))) => {
            for (a, b) in key_a.iter().zip(&key_b) {
                match a.total_cmp(b) {
                    std::cmp::Ordering::Equal => {}
                    order => return order.is_gt(),
                }
            }
            node_a < node_b
        }
        (Some(_), None) => true,
        (None, _) => false,
    }
}
