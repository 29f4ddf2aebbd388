//! Copies of a cluster that are brought up to date node by node.

use super::Cluster;
use super::NodeId;

impl Cluster {
    /// Brings `node` of this copy to what it is in `original`, with the same
    /// [`ResidentId`](super::ResidentId)s. Other nodes of the copy follow only
    /// where one of their residents has left and its place is another's now.
    /// Every node that changed is added to `followed`.
    ///
    /// A copy that follows is only to be read: applications admitted to it
    /// would be taken for others.
    ///
    /// # Panics
    ///
    /// When `original` has other nodes.
    pub fn follow(&mut self, original: &Cluster, node: NodeId, followed: &mut Vec<NodeId>) {
        assert_eq!(
            self.summaries.len(),
            original.summaries.len(),
            "a copy of it"
        );
        if self.residents.len() < original.residents.len() {
            self.residents.resize(original.residents.len(), None);
        }
        let mut behind = vec![node];
        while let Some(node) = behind.pop() {
            let at = node.index();
            if self.summaries[at].version == original.summaries[at].version {
                continue;
            }
            for slot in std::mem::take(&mut self.states[at].residents) {
                let place = &mut self.residents[slot as usize];
                if place.as_ref().is_some_and(|old| old.node == node) {
                    *place = None;
                    self.running -= 1;
                }
            }
            for slot in &original.states[at].residents {
                let place = &mut self.residents[*slot as usize];
                match place {
                    Some(old) => behind.push(old.node),
                    None => self.running += 1,
                }
                place.clone_from(&original.residents[*slot as usize]);
            }
            let before = self.summaries[at].free_cpus;
            self.summaries[at].clone_from(&original.summaries[at]);
            self.states[at].clone_from(&original.states[at]);
            self.index(node, before);
            followed.push(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::App;
    use crate::cluster::Node;
    use crate::cluster::Resident;
    use crate::cluster::ResidentId;
    use crate::predict::Responses;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn residents(cluster: &Cluster, node: NodeId) -> Vec<(ResidentId, String)> {
        let told = |(id, resident): (ResidentId, &Resident)| (id, resident.app.name().to_string());
        let mut all: Vec<_> = cluster.residents(node).map(told).collect();
        all.sort_unstable();
        all
    }

    fn sorted(nodes: &[NodeId]) -> Vec<NodeId> {
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable();
        nodes
    }

    proptest! {
        /// A copy that followed here and there, and then everywhere, is like
        /// the original; on the way it never mixes up residents.
        #[test]
        fn a_copy_catches_up(
            events in prop::collection::vec((0u8..6, 0usize..4, 0usize..8), 1..80),
        ) {
            let node = |k: usize| Node {
                name: format!("n{k}"),
                cpus: 4,
                memory_bytes: 0,
                platform: None,
                shares_cpus: false,
            };
            let mut original = Cluster::new((0..4).map(node)).unwrap();
            let mut copy = original.clone();
            let ids: Vec<NodeId> = original.ids().collect();
            let mut running: Vec<ResidentId> = Vec::new();
            for (n, (kind, at, which)) in events.into_iter().enumerate() {
                match kind {
                    0..=2 => {
                        let mut app = App::bare(&format!("a{n}"), Responses::default());
                        app.set_scores(which, Some(50.0), Some(10.0));
                        running.extend(original.admit(ids[at], Arc::new(app)));
                    }
                    3 if !running.is_empty() => {
                        original.remove(running.swap_remove(which % running.len()));
                    }
                    4 if original.summary(ids[at]).up => {
                        original.take_down(ids[at]);
                    }
                    4 => original.bring_up(ids[at]),
                    _ => copy.follow(&original, ids[at], &mut Vec::new()),
                }
                for id in &ids {
                    for (_, resident) in copy.residents(*id) {
                        prop_assert_eq!(resident.node, *id);
                    }
                    let summary = copy.recomputed(*id);
                    prop_assert_eq!(&summary, copy.summary(*id));
                }
            }
            for id in &ids {
                copy.follow(&original, *id, &mut Vec::new());
            }
            prop_assert_eq!(copy.summaries(), original.summaries());
            prop_assert_eq!(copy.running(), original.running());
            prop_assert_eq!(copy.units().len(), original.units().len());
            prop_assert_eq!(sorted(copy.open()), sorted(original.open()));
            for id in &ids {
                prop_assert_eq!(residents(&copy, *id), residents(&original, *id));
            }
        }
    }
}
