//! Among ways to give an application what it needs, the one that leaves the
//! cluster most balanced.

use crate::app::App;
use crate::app::Demand;
use crate::app::FULL_SCALE;
use crate::app::STEPS_PER_POINT;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::cluster::PlatformId;
use crate::compare::overrun;
use crate::explanation::Deciding;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::Part;
use crate::policy::PlacementRequest;
use crate::policy::Policy;

/// Imbalance after a placement: Σ (1 − u)² over the utilizations, 0–1, of
/// those resources that it changes, and of no others (Bazaar, section 3.2.1).
/// Lower is better.
pub fn imbalance(changed: impl IntoIterator<Item = f64>) -> f64 {
    let squares = changed.into_iter().map(|used| (1.0 - used).powi(2));
    squares.sum()
}

/// Chooses between resource tuples ⟨nodes, CPUs on each⟩ that reach the target
/// alike. Every tuple is placed where it keeps all residents and the newcomer
/// within what they tolerate, if it can be (D1, D2 ≥ 0 everywhere), and fills
/// best what is used already; of the tuples, the one with the least
/// [`imbalance`] is taken, one that keeps within tolerances before one that
/// does not, and after those the one that oversteps them least.
///
/// Resources are CPUs, memory and every resource the application puts pressure
/// on, of each node that it would run on, and the CPUs of the cluster as a
/// whole. Without a target or speed-ups, or when no tuple of up to eight nodes
/// could reach the target, there is one tuple: the demand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bazaar;

/// Nodes that a tuple may have at most.
const MOST_NODES: u32 = 8;

const OUT_OF_REACH: &str = "nothing reaches the target; the demand is placed as asked";

/// A number of nodes, with the CPUs that each needs by platform; `None` where
/// no number is enough.
struct Tuple {
    nodes: u32,
    cpus: Vec<Option<u32>>,
}

impl Tuple {
    /// Whether it would fit if everything were empty.
    fn possible(&self, request: &PlacementRequest, cluster: &Cluster) -> bool {
        let large_enough = cluster.ids().filter(|id| {
            let node = cluster.node(*id);
            self.cpus[cluster.summary(*id).platform.index()].is_some_and(|cpus| cpus <= node.cpus)
                && request.demand.memory_bytes <= node.memory_bytes
        });
        large_enough.take(self.nodes as usize).count() == self.nodes as usize
    }
}

/// What a node would look like with its share of a tuple.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    part: Part,
    /// Overrun and imbalance.
    key: (i64, f64),
}

fn before(a: (i64, f64), b: (i64, f64)) -> std::cmp::Ordering {
    a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
}

/// Imbalance of what changes on `node` when `demand` of `app` comes.
fn node_imbalance(app: &App, cluster: &Cluster, node: NodeId, demand: Demand) -> f64 {
    let summary = cluster.summary(node);
    let free = f64::from(summary.free_cpus - demand.cpus);
    let mut sum = imbalance([1.0 - free / f64::from(summary.cpus)]);
    let memory = demand.memory_bytes;
    let capacity = cluster.node(node).memory_bytes;
    if memory > 0 && capacity > 0 {
        sum += imbalance([1.0 - (summary.free_memory - memory) as f64 / capacity as f64]);
    }
    for lane in app.caused_on(summary.shares_cpus).iter() {
        if app.caused[lane] > 0 {
            let pressure = f64::from(summary.caused[lane] + app.caused[lane]);
            sum += imbalance([(pressure / f64::from(FULL_SCALE)).min(1.0)]);
        }
    }
    sum
}

impl Bazaar {
    fn tuples(&self, request: &PlacementRequest, cluster: &Cluster) -> Vec<Tuple> {
        let platforms = cluster.platforms().len();
        let (Some(target), Some(scaling)) = (request.target, request.app.scaling()) else {
            return vec![Tuple {
                nodes: 1,
                cpus: vec![Some(request.demand.cpus); platforms],
            }];
        };
        let target = target * (1.0 - 1e-9);
        let cpus = cluster.summaries().iter().map(|summary| summary.cpus);
        let most = cpus.max().unwrap_or(1);
        let most_nodes = if request.spread { MOST_NODES } else { 1 };
        (1..=most_nodes)
            .map(|nodes| Tuple {
                nodes,
                cpus: (0..platforms)
                    .map(|platform| {
                        let relative = request.app.relative_speed(PlatformId::nth(platform));
                        let each = relative * scaling.by_nodes(f64::from(nodes));
                        (1..=most).find(|cpus| each * scaling.by_cpus(f64::from(*cpus)) >= target)
                    })
                    .collect(),
            })
            .filter(|tuple| tuple.cpus.iter().any(Option::is_some))
            .collect()
    }

    /// The best nodes for `tuple`, best first; at most as many as it needs and
    /// some more.
    fn places(&self, request: &PlacementRequest, cluster: &Cluster, tuple: &Tuple) -> Vec<Place> {
        let mut places = Vec::new();
        request.candidates_for_sizing(cluster, tuple.nodes > 1, |node| {
            let Some(cpus) = tuple.cpus[cluster.summary(node).platform.index()] else {
                return;
            };
            let demand = Demand {
                cpus,
                ..request.demand
            };
            if cluster.fits(node, demand) {
                let overrun = overrun(request.app, cluster.summary(node));
                let imbalance = node_imbalance(request.app, cluster, node, demand);
                places.push(Place {
                    part: Part { node, cpus },
                    key: (overrun, imbalance),
                });
            }
        });
        places.sort_by(|a, b| before(a.key, b.key).then(a.part.node.cmp(&b.part.node)));
        places
    }

    /// The tuple that leaves the least imbalance, where it fits best.
    fn best(
        &self,
        request: &PlacementRequest,
        cluster: &Cluster,
        tuples: &[Tuple],
    ) -> Option<Choice> {
        let cpus = cluster.summaries().iter().map(|summary| summary.cpus);
        let all: f64 = cpus.map(f64::from).sum();
        let free = cluster.units().len() as f64;
        let mut examined = 0;
        let mut best: Option<((i64, f64), Choice)> = None;
        for tuple in tuples {
            let places = self.places(request, cluster, tuple);
            examined += places.len() as u32;
            let Some((taken, others)) = places.split_at_checked(tuple.nodes as usize) else {
                continue;
            };
            let parts: Vec<Part> = taken.iter().map(|place| place.part).collect();
            let cpus: u32 = parts.iter().map(|part| part.cpus).sum();
            let whole = imbalance([1.0 - (free - f64::from(cpus)) / all]);
            let nodes: f64 = taken.iter().map(|place| place.key.1).sum();
            let overrun = taken.iter().map(|place| place.key.0).sum();
            let key = (overrun, nodes + whole);
            if best
                .as_ref()
                .is_none_or(|(least, _)| before(key, *least).is_lt())
            {
                let choice = Choice {
                    parts,
                    score: -key.1,
                    ..Choice::default()
                };
                let others = others.iter().map(|place| place.part.node);
                best = Some((key, choice.with_runners_up(others)));
            }
        }
        let (_, mut choice) = best?;
        choice.examined = examined;
        Some(choice)
    }
}

impl Policy for Bazaar {
    fn name(&self) -> &'static str {
        "bazaar"
    }

    fn sizes(&self) -> bool {
        true
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        let tuples = self.tuples(request, cluster);
        if let Some(choice) = self.best(request, cluster, &tuples) {
            return Decision::Place(choice);
        }
        if tuples.iter().any(|tuple| tuple.possible(request, cluster)) {
            return Decision::Wait(crate::policy::Waiting::NoRoom, None);
        }
        let untargeted = PlacementRequest {
            target: None,
            ..*request
        };
        let usual = self.tuples(&untargeted, cluster);
        match self.best(request, cluster, &usual) {
            Some(mut choice) => {
                choice.notes.push(OUT_OF_REACH);
                Decision::Place(choice)
            }
            None => Decision::no_room(request, cluster),
        }
    }

    fn why(&self, _ask: &PlacementRequest, _cluster: &Cluster, choice: &Choice) -> Deciding {
        let cpus = choice.parts.iter().map(|part| part.cpus.to_string());
        let cpus: Vec<String> = cpus.collect();
        Deciding::because(format!(
            "least imbalance of the resources that change, {:.4}, with {} CPUs",
            -choice.score,
            cpus.join(" + ")
        ))
    }

    fn runner_up(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        let summary = cluster.summary(node);
        match overrun(request.app, summary) as f64 / f64::from(STEPS_PER_POINT) {
            0.0 => format!(
                "within tolerances, {} CPUs free, less full",
                summary.free_cpus
            ),
            points => format!("{points:.1} points beyond what is tolerated"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Node;
    use crate::predict::lane;
    use crate::scaling::Scaling;
    use std::sync::Arc;

    /// Bandwidth that a node's link needs for `here` of a tenant's `machines`
    /// virtual machines of `bandwidth` each: what the smaller side can send
    /// (Bazaar, section 3.2).
    fn link_bandwidth(here: u32, machines: u32, bandwidth: f64) -> f64 {
        f64::from(here.min(machines.saturating_sub(here))) * bandwidth
    }

    /// Utilizations that a tenant's machines, so many per node, change in a
    /// rack of four nodes of 2 slots and 1 Gbit/s: slots, links, the rack.
    fn changed(placed: &[u32], bandwidth: f64) -> Vec<f64> {
        let machines: u32 = placed.iter().sum();
        let mut changed: Vec<f64> = Vec::new();
        for here in placed {
            changed.push(f64::from(*here) / 2.0);
            changed.push(link_bandwidth(*here, machines, bandwidth) / 1000.0);
        }
        changed.push(f64::from(machines) / 8.0);
        changed
    }

    #[test]
    fn the_papers_example() {
        let few = imbalance(changed(&[2, 1], 500.0));
        let many = imbalance(changed(&[2, 2, 2], 200.0));
        assert!((few - 1.140625).abs() < 1e-12, "{few}");
        assert!((many - 1.1425).abs() < 1e-12, "{many}");
        assert!(few < many);
        // Over all resources, idle nodes and links included, it is the other
        // way round: why only those that change are counted.
        let idle = |nodes: usize| std::iter::repeat_n(0.0, 2 * nodes);
        let all_few = imbalance(changed(&[2, 1], 500.0).into_iter().chain(idle(2)));
        let all_many = imbalance(changed(&[2, 2, 2], 200.0).into_iter().chain(idle(1)));
        assert!((all_few - 5.140625).abs() < 1e-12 && (all_many - 3.1425).abs() < 1e-12);
    }

    fn cluster(cpus: &[u32]) -> Cluster {
        Cluster::new(cpus.iter().enumerate().map(|(n, cpus)| Node {
            name: format!("n{n}"),
            cpus: *cpus,
            memory_bytes: 0,
            platform: None,
            shares_cpus: false,
        }))
        .unwrap()
    }

    fn choose(request: &PlacementRequest, cluster: &Cluster) -> Choice {
        match Bazaar.choose(request, cluster) {
            Decision::Place(choice) => choice,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn fills_what_is_used_but_not_beyond_tolerances() {
        let mut cluster = cluster(&[4, 4, 4]);
        let ids: Vec<NodeId> = cluster.ids().collect();
        let llc = lane("llc-capacity").unwrap();
        let with = |tolerated: f64, caused: f64| {
            let mut app = App::bare("app", Default::default());
            app.set_scores(llc, Some(tolerated), Some(caused));
            Arc::new(app.with_demand(2, 0))
        };
        cluster.admit(ids[1], with(90.0, 30.0)).unwrap();
        let easy = with(90.0, 20.0);
        assert_eq!(
            choose(&PlacementRequest::of(&easy), &cluster).node(),
            ids[1]
        );
        let sensitive = with(10.0, 20.0);
        assert_eq!(
            choose(&PlacementRequest::of(&sensitive), &cluster).node(),
            ids[0]
        );
    }

    #[test]
    fn equivalent_tuples_by_hand() {
        // Speed 4: one node with 4 CPUs, or two with 2.
        let app = App::bare("app", Default::default()).with_scaling(Scaling::amdahl(0.0, 4, 2));
        let app = Arc::new(app);
        let mut request = PlacementRequest::of(&app);
        request.target = Some(4.0);
        request.spread = true;
        // Two half-used nodes of 4: both fill up exactly (0 + 0 + whole), one
        // empty node of 8 would be half full (0.25 + whole).
        let mut cluster = cluster(&[8, 4, 4]);
        let filler = Arc::new(App::bare("f", Default::default()).with_demand(2, 0));
        for id in cluster.ids().skip(1) {
            cluster.admit(id, filler.clone()).unwrap();
        }
        let choice = choose(&request, &cluster);
        let parts: Vec<(usize, u32)> = choice
            .parts
            .iter()
            .map(|part| (part.node.index(), part.cpus))
            .collect();
        assert_eq!(parts, [(1, 2), (2, 2)]);
        // Whole: 12 CPUs free of 16, 4 of them taken.
        assert!((choice.score + 0.25).abs() < 1e-12, "{}", choice.score);
        request.spread = false;
        let choice = choose(&request, &cluster);
        assert_eq!((choice.node().index(), choice.parts[0].cpus), (0, 4));
    }

    #[test]
    fn what_no_tuple_reaches_is_placed_as_asked() {
        let app = App::bare("app", Default::default()).with_scaling(Scaling::amdahl(0.5, 8, 1));
        let app = Arc::new(app);
        let mut request = PlacementRequest::of(&app);
        request.target = Some(5.0);
        let choice = choose(&request, &cluster(&[8]));
        assert_eq!(choice.parts[0].cpus, 1);
        assert_eq!(choice.notes, [OUT_OF_REACH]);
        request.demand.cpus = 9;
        let answer = Bazaar.choose(&request, &cluster(&[8]));
        assert_eq!(answer, Decision::Wait(crate::policy::Waiting::Never, None));
        // Reachable, but taken: wait.
        let mut full = cluster(&[8]);
        let filler = Arc::new(App::bare("f", Default::default()).with_demand(7, 0));
        full.admit(NodeId(0), filler).unwrap();
        request.target = Some(1.6);
        let answer = Bazaar.choose(&request, &full);
        assert_eq!(answer, Decision::Wait(crate::policy::Waiting::NoRoom, None));
    }
}
