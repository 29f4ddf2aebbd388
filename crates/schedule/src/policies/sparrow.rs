//! A few random nodes, and whichever of them is free first.

use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::Deciding;
use crate::policies::by_load::percent;
use crate::policies::tarcil::could_fit_at_random;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::Part;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// Batch sampling with late binding (Sparrow, as described in the dissertation,
/// chapter 7): `d` probes for each CPU asked for, at random nodes that are
/// large enough, busy ones included. The least loaded of those with room takes
/// the job; a job that may spread takes its CPUs from the least loaded on. When
/// they have no room it queues at all of them, and the first to have room runs
/// it. Does not look at interference.
#[derive(Debug)]
pub struct Sparrow {
    rng: ChaCha8Rng,
    /// Probes for each CPU asked for.
    probes: usize,
}

/// Probes for one decision, however many CPUs are asked for.
const MOST_PROBES: usize = 512;

impl Sparrow {
    pub fn new(seed: u64) -> Self {
        Sparrow::with_probes(seed, 2)
    }

    /// With `probes` for each CPU asked for, at least 1.
    pub fn with_probes(seed: u64, probes: usize) -> Self {
        Sparrow {
            rng: ChaCha8Rng::seed_from_u64(seed),
            probes: probes.max(1),
        }
    }

    /// Different nodes that `request` could fit on, in the order drawn, of
    /// `count` drawn.
    fn probe(
        &mut self,
        request: &PlacementRequest,
        cluster: &Cluster,
        count: usize,
    ) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = Vec::with_capacity(count);
        for _ in 0..count {
            match could_fit_at_random(&mut self.rng, request, cluster) {
                Some(node) if !nodes.contains(&node) => nodes.push(node),
                Some(_) => {}
                None => break,
            }
        }
        nodes
    }
}

impl Policy for Sparrow {
    fn name(&self) -> &'static str {
        "sparrow"
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        let probes = (self.probes * request.demand.cpus as usize).clamp(1, MOST_PROBES);
        let mut share = *request;
        if request.spread {
            share.demand.cpus = 1;
        }
        let probed = self.probe(&share, cluster, probes);
        let mut free: Vec<(f64, NodeId)> = probed
            .iter()
            .filter(|node| share.may_use(cluster, **node))
            .map(|node| (cluster.free_cpu_fraction(*node), *node))
            .collect();
        free.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut parts = Vec::new();
        let mut missing = request.demand.cpus;
        for (_, node) in &free {
            let cpus = cluster.summary(*node).free_cpus.min(missing);
            parts.push(Part { node: *node, cpus });
            missing -= cpus;
            if missing == 0 {
                break;
            }
        }
        if missing > 0 {
            // What is spread cannot wait at one node for all of its CPUs.
            let whole = |node: &NodeId| cluster.summary(*node).cpus >= request.demand.cpus;
            let whole = probed.into_iter().filter(whole).collect();
            return Decision::queue_at(whole, &share, cluster);
        }
        let unused = free[parts.len()..].iter().map(|(_, node)| *node);
        let choice = Choice::default().with_runners_up(unused);
        Decision::Place(Choice {
            parts,
            examined: probes as u32,
            score: free[0].0,
            ..choice
        })
    }

    fn why(&self, _ask: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        let (probes, free) = (choice.examined, cluster.free_cpu_fraction(choice.node()));
        let free = percent(free);
        Deciding::by(
            "cpus",
            format!("the least loaded of {probes} random probes: {free} of its CPUs are free"),
        )
    }

    fn runner_up(&self, _ask: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        let free = percent(cluster.free_cpu_fraction(node));
        format!("{free} of its CPUs are free")
    }

    fn unused(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        let said = self.runner_up(request, cluster, node);
        format!("not among those probed; {said}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::App;
    use crate::cluster::Node;
    use crate::cluster::node_set::NodeSet;
    use std::sync::Arc;

    fn cluster(nodes: usize, cpus: u32) -> Cluster {
        Cluster::new((0..nodes).map(|n| Node {
            name: format!("n{n}"),
            cpus,
            memory_bytes: 1 << 30,
            platform: None,
            shares_cpus: false,
        }))
        .unwrap()
    }

    fn app(cpus: u32) -> Arc<App> {
        Arc::new(App::bare("app", Default::default()).with_demand(cpus, 0))
    }

    #[test]
    fn takes_the_freer_of_its_probes() {
        let mut cluster = cluster(2, 4);
        let busy = cluster.id("n0").unwrap();
        cluster.admit(busy, app(2)).unwrap();
        let app = app(1);
        let mut policy = Sparrow::with_probes(1, 32);
        for _ in 0..50 {
            // With 32 probes both nodes are seen but for a chance of 2^-31.
            let Decision::Place(choice) = policy.choose(&PlacementRequest::of(&app), &cluster)
            else {
                panic!("there is room");
            };
            assert_eq!(choice.node(), cluster.id("n1").unwrap());
            assert_eq!(choice.runners_up[0], Some(busy));
        }
    }

    #[test]
    fn waits_where_it_probed_and_not_where_it_could_never_run() {
        let mut cluster = cluster(3, 2);
        for node in cluster.ids() {
            cluster.admit(node, app(1)).unwrap();
        }
        let (app2, app3) = (app(2), app(3));
        let mut policy = Sparrow::new(1);
        match policy.choose(&PlacementRequest::of(&app2), &cluster) {
            Decision::QueueAt(nodes) => assert!((1..=3).contains(&nodes.len())),
            other => panic!("{other:?}"),
        }
        assert_eq!(
            policy.choose(&PlacementRequest::of(&app3), &cluster),
            Decision::Wait(crate::policy::Waiting::Never, None)
        );
    }

    #[test]
    fn spreads_over_its_probes() {
        let cluster = cluster(8, 2);
        let app = app(6);
        let mut request = PlacementRequest::of(&app);
        request.spread = true;
        let mut policy = Sparrow::with_probes(3, 8);
        let Decision::Place(choice) = policy.choose(&request, &cluster) else {
            panic!("there is room");
        };
        assert_eq!(choice.parts.len(), 3);
        assert!(choice.parts.iter().all(|part| part.cpus == 2));
    }

    #[test]
    fn keeps_to_what_is_allowed() {
        let cluster = cluster(1000, 1);
        let only: NodeSet = cluster.ids().skip(700).take(1).collect();
        let app = app(1);
        let mut request = PlacementRequest::of(&app);
        request.allowed = Some(&only);
        for seed in 0..20 {
            let Decision::Place(choice) = Sparrow::new(seed).choose(&request, &cluster) else {
                panic!("there is room");
            };
            assert_eq!(choice.node().index(), 700);
        }
    }
}
