//! Places a list of applications once.

use crate::admission::Gate;
use crate::admission::Waiter;
use crate::app::App;
use crate::cluster::Cluster;
use crate::cluster::ClusterError;
use crate::cluster::NodeId;
use crate::cluster::node_set::NodeSet;
use crate::explanation::Explanation;
use crate::explanation::NoPlacement;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use std::sync::Arc;

/// What wants a place.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub app: Arc<App>,
    pub target: Option<f64>,
    pub spread: bool,
}

/// What became of it.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    pub placed: Vec<Explanation>,
    pub not_placed: Vec<NoPlacement>,
}

/// Places each of `wanted` next to those placed before it: in their order, or in that
/// of an admission that has one.
///
/// # Errors
///
/// When a policy chose a node that has no room.
pub fn place_all(
    wanted: &[Wanted],
    policy: &mut dyn Policy,
    gate: &mut Gate,
    cluster: &mut Cluster,
) -> Result<Placed, ClusterError> {
    let mut all = Placed::default();
    let Some(queue) = gate.queue() else {
        for (job, one) in wanted.iter().enumerate() {
            match place(job as u64, one, None, policy, gate, cluster)? {
                Ok((explanation, _)) => all.placed.push(explanation),
                Err(refusal) => all.not_placed.push(refusal),
            }
        }
        return Ok(all);
    };
    for (job, one) in wanted.iter().enumerate() {
        queue.arrive(waiter(job as u64, one), 0.0);
    }
    let mut refusals: Vec<Option<NoPlacement>> = vec![None; wanted.len()];
    let mut waits = vec![true; wanted.len()];
    // Each refusal ends an offer, and each start makes new ones.
    while let Some(offer) = gate.queue().and_then(|queue| queue.next(0.0, cluster)) {
        let job = offer.job;
        let one = &wanted[job as usize];
        let answer = place(job, one, offer.allowed, policy, gate, cluster)?;
        let Some(queue) = gate.queue() else {
            break;
        };
        match answer {
            Ok((explanation, nodes)) => {
                queue.started(job, &nodes, 0.0, cluster);
                waits[job as usize] = false;
                all.placed.push(explanation);
            }
            Err(refusal) => {
                queue.refused(job, 0.0);
                refusals[job as usize] = Some(refusal);
            }
        }
    }
    for (job, one) in wanted.iter().enumerate().filter(|(job, _)| waits[*job]) {
        let refusal = refusals[job].take();
        let usual = || policy.refusal(&request(one, None), cluster);
        let mut refusal = refusal.unwrap_or_else(usual);
        if let Some(why) = gate.why(job as u64, 0.0) {
            for node in &mut refusal.nodes {
                node.why = format!("{}; {why}", node.why);
            }
        }
        all.not_placed.push(refusal);
    }
    Ok(all)
}

fn waiter(job: u64, wanted: &Wanted) -> Waiter {
    Waiter {
        job,
        app: wanted.app.clone(),
        demand: wanted.app.demand(),
        ideal_seconds: None,
        overhead_seconds: 0.0,
        priority: 0,
    }
}

fn request<'a>(wanted: &'a Wanted, allowed: Option<&'a NodeSet>) -> PlacementRequest<'a> {
    PlacementRequest {
        target: wanted.target,
        spread: wanted.spread,
        allowed,
        ..PlacementRequest::of(&wanted.app)
    }
}

/// One of them on one of the nodes that are `allowed` and not vetoed.
type Answer = Result<(Explanation, Vec<NodeId>), NoPlacement>;

fn place(
    job: u64,
    wanted: &Wanted,
    mut allowed: Option<NodeSet>,
    policy: &mut dyn Policy,
    gate: &mut Gate,
    cluster: &mut Cluster,
) -> Result<Answer, ClusterError> {
    let mut vetoed: Vec<(NodeId, String)> = Vec::new();
    loop {
        let answer = policy.place(&request(wanted, allowed.as_ref()), cluster);
        let (choice, mut explanation) = match answer {
            Ok(answer) => answer,
            Err(mut refusal) => {
                for (node, words) in &vetoed {
                    let name = cluster.name(*node);
                    let nodes = refusal.nodes.iter_mut();
                    nodes
                        .filter(|reason| reason.node == name)
                        .for_each(|reason| reason.why.clone_from(words));
                }
                return Ok(Err(refusal));
            }
        };
        match gate.judge(job, wanted.app.name(), &choice, cluster, 0.0) {
            Some((node, verdict)) if !verdict.admitted => {
                let every = || cluster.ids().collect();
                allowed.get_or_insert_with(every).remove(node);
                vetoed.push((node, verdict.words));
                continue;
            }
            Some((_, verdict)) => explanation.notes.push(verdict.words),
            None => {}
        }
        choice.start(cluster, &wanted.app, wanted.app.demand())?;
        let nodes: Vec<NodeId> = choice.parts.iter().map(|part| part.node).collect();
        for node in &nodes {
            policy.changed(cluster, *node, 0.0);
        }
        return Ok(Ok((explanation, nodes)));
    }
}
