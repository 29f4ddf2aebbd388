//! Fewest nodes within the least limit of all who share one.

mod forecast;
mod pack;

pub use forecast::Forecast;
pub use forecast::combine;
pub use pack::Move;
pub use pack::Packing;
pub use pack::Piece;
pub use pack::Rules;
pub use pack::Store;

use crate::app::App;
use crate::app::STEPS_PER_POINT;
use crate::app::to_points;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::Deciding;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use crate::predict::Company;
use crate::predict::LaneSet;
use crate::predict::performance;
use crate::predict::resource_id;
use crate::search::ranking::Ranking;

/// BLOC's packing (dissertation, appendix B), one application at a time. A node
/// takes it when on every resource under pressure the summed pressure, its own
/// included, stays below the least of all tolerances by a reserve,
///
/// ```text
/// c_node + c_app  <  min(t_node, t_app) − Δ
/// ```
///
/// and the interference of all pairs there, summed, stays below a tenth.
/// Next-fit: nodes in use are tried from the last one used on; when none takes
/// it, an empty node is opened, the fastest for it. When none is empty, the
/// node whose limits it oversteps least takes it, with a note.
///
/// The interference of a pair is the mean of what each is predicted to lose
/// beside the other; a pair of which nothing is known adds nothing.
#[derive(Clone, Copy, Debug)]
pub struct Bloc {
    /// Points kept free (Δ).
    reserve: i32,
    /// Summed interference allowed, share of performance.
    interference: f64,
    last: usize,
}

impl Default for Bloc {
    fn default() -> Self {
        let rules = Rules::default();
        Bloc {
            reserve: (rules.reserve * 100.0) as i32 * STEPS_PER_POINT,
            interference: rules.interference,
            last: 0,
        }
    }
}

const OVER: &str = "no node takes it within its limits; it is where it oversteps them least";

/// Mean loss of performance of `a` and `b` beside each other, 0–1; `None` when
/// nothing is known of it.
pub fn pair_interference(a: &App, b: &App, shares_cpus: bool) -> Option<f64> {
    let counted = a.counted(shares_cpus).and(b.counted(shares_cpus));
    let loss = |of: &App, by: &App| {
        let known = of.responses.known.and(by.responses.caused_known);
        if known.and(counted).is_empty() {
            return None;
        }
        let company = Company::of(std::iter::once((by.responses.as_ref(), counted)));
        let pressure = company.before(&of.responses, counted);
        let expected = performance(&of.responses, &pressure, counted);
        Some(1.0 - expected.performance())
    };
    match (loss(a, b), loss(b, a)) {
        (None, None) => None,
        (one, other) => Some((one.unwrap_or(0.0) + other.unwrap_or(0.0)) / 2.0),
    }
}

/// Interference of all pairs on `node` with `app` there.
fn node_interference(app: &App, cluster: &Cluster, node: NodeId) -> f64 {
    let shares_cpus = cluster.summary(node).shares_cpus;
    let residents = cluster.residents(node);
    let residents = residents.map(|(_, resident)| resident.app.as_ref());
    let apps: Vec<&App> = std::iter::once(app).chain(residents).collect();
    let mut sum = 0.0;
    for (at, one) in apps.iter().enumerate() {
        for other in &apps[at + 1..] {
            sum += pair_interference(one, other, shares_cpus).unwrap_or(0.0);
        }
    }
    sum
}

impl Bloc {
    /// Steps by which the limit is overstepped where it is most, and there; at
    /// most 0 when it is kept.
    fn worst(&self, app: &App, cluster: &Cluster, node: NodeId) -> (i32, Option<usize>) {
        let summary = cluster.summary(node);
        let counted = app.counted(summary.shares_cpus);
        let pressed: LaneSet = counted
            .iter()
            .filter(|lane| summary.caused[*lane] + app.caused[*lane] > 0)
            .collect();
        let over = |lane: usize| {
            let limit = summary.tolerated[lane].min(app.tolerated[lane]) - self.reserve;
            // Below the limit, not at it.
            summary.caused[lane] + app.caused[lane] - limit + 1
        };
        match pressed.iter().max_by_key(|lane| over(*lane)) {
            Some(lane) => (over(lane), Some(lane)),
            None => (i32::MIN, None),
        }
    }

    fn fits(&self, app: &App, cluster: &Cluster, node: NodeId) -> bool {
        self.worst(app, cluster, node).0 <= 0 && self.bearable(app, cluster, node)
    }

    fn bearable(&self, app: &App, cluster: &Cluster, node: NodeId) -> bool {
        node_interference(app, cluster, node) < self.interference
    }

    fn open_another(&self, request: &PlacementRequest, cluster: &Cluster) -> Option<NodeId> {
        let mut fastest: Ranking<1> = Ranking::default();
        request.candidates(cluster, |node| {
            let summary = cluster.summary(node);
            if summary.residents == 0 {
                let speed = request.app.speed_on(summary.platform);
                fastest.offer(node, [f64::from(speed.unwrap_or(0.0))]);
            }
        });
        fastest.best().next().map(|(_, node)| node)
    }
}

impl Policy for Bloc {
    fn name(&self) -> &'static str {
        "bloc"
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        let count = cluster.len().max(1);
        let mut used: Vec<(i32, usize, NodeId)> = cluster
            .open()
            .iter()
            .filter(|node| request.may_use(cluster, **node))
            .map(|node| {
                let ahead = (node.index() + count - self.last % count) % count;
                (self.worst(request.app, cluster, *node).0, ahead, *node)
            })
            .collect();
        used.sort_unstable_by_key(|(_, ahead, _)| *ahead);
        let mut examined = 0;
        let next = used
            .iter()
            .filter(|(over, ..)| *over <= 0)
            .inspect(|_| examined += 1)
            .find(|(.., node)| self.bearable(request.app, cluster, *node))
            .map(|(.., node)| *node);
        let within = next.or_else(|| self.open_another(request, cluster));
        let least = used.iter().min().map(|(.., node)| *node);
        let Some(node) = within.or(least) else {
            return Decision::no_room(request, cluster);
        };
        let others = used.iter().map(|(.., other)| *other);
        let others = others.filter(|other| *other != node);
        let mut choice = Choice::on(node, request).with_runners_up(others);
        choice.examined = used.len() as u32 + examined;
        choice.score = f64::from(cluster.summary(node).residents);
        if within.is_none() {
            choice.notes.push(OVER);
        }
        self.last = node.index();
        Decision::Place(choice)
    }

    fn why(&self, request: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        let node = choice.node();
        let (_, lane) = self.worst(request.app, cluster, node);
        let why = if cluster.summary(node).residents == 0 {
            "no node in use takes it within its limits; an empty one is opened".into()
        } else if self.fits(request.app, cluster, node) {
            format!(
                "the next node in use within every limit; interference there {:.1} %",
                node_interference(request.app, cluster, node) * 100.0
            )
        } else {
            OVER.into()
        };
        Deciding {
            resource: lane.map(|lane| resource_id(lane).into()),
            why,
        }
    }

    fn runner_up(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        let (over, lane) = self.worst(request.app, cluster, node);
        match lane {
            Some(lane) if over > 0 => format!(
                "{:.1} points beyond the limit on {}",
                to_points(over),
                resource_id(lane)
            ),
            _ => format!(
                "interference {:.1} %",
                node_interference(request.app, cluster, node) * 100.0
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Node;
    use crate::predict::Curve;
    use crate::predict::GRID;
    use crate::predict::LANES;
    use crate::predict::Responses;
    use crate::predict::lane;
    use std::sync::Arc;

    fn cluster(nodes: usize) -> Cluster {
        Cluster::new((0..nodes).map(|n| Node {
            name: format!("n{n}"),
            cpus: 8,
            memory_bytes: 0,
            platform: None,
            shares_cpus: false,
        }))
        .unwrap()
    }

    /// Loses `slope` of ln performance per point on memory-bandwidth.
    fn app(tolerated: f64, caused: f64, slope: f32) -> Arc<App> {
        let memory = lane("memory-bandwidth").unwrap();
        let ln = std::array::from_fn(|step| -slope * 4.0 * step as f32);
        let curve = Curve::new(memory, ln, [0.0; GRID]);
        let mut causes = [None; LANES];
        causes[memory] = Some((caused as f32, 0.0));
        let responses = Responses::new(vec![curve], LaneSet::EMPTY, &causes);
        let mut app = App::bare("app", responses);
        app.set_scores(memory, Some(tolerated), Some(caused));
        Arc::new(app)
    }

    fn place(policy: &mut Bloc, cluster: &mut Cluster, app: &Arc<App>) -> (usize, bool) {
        match policy.choose(&PlacementRequest::of(app), cluster) {
            Decision::Place(choice) => {
                cluster.admit(choice.node(), app.clone()).unwrap();
                (choice.node().index(), choice.notes.is_empty())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn packs_below_the_least_limit_then_opens() {
        let (mut policy, mut cluster) = (Bloc::default(), cluster(3));
        let easy = app(70.0, 20.0, 0.0);
        // 20 + 20 + 20 < 68, with a fourth it is 80.
        for _ in 0..3 {
            assert_eq!(place(&mut policy, &mut cluster, &easy), (0, true));
        }
        assert_eq!(place(&mut policy, &mut cluster, &easy), (1, true));
        // 30 tolerated, 20 + 9 ≥ 28: a third node; 20 + 7 would have been fine.
        let strict = app(30.0, 9.0, 0.0);
        assert_eq!(place(&mut policy, &mut cluster, &strict), (2, true));
        // Nothing empty is left: where it oversteps least (20 + 9 + 7 on n2).
        let last = app(10.0, 8.0, 0.0);
        assert_eq!(place(&mut policy, &mut cluster, &last), (2, false));
    }

    #[test]
    fn interference_is_summed_over_pairs_and_capped() {
        let (mut policy, mut cluster) = (Bloc::default(), cluster(3));
        // Two of them lose 1 − e^(−0.05) = 4.9 % each: one pair 4.9 %, three
        // pairs 14.6 %.
        let hurt = app(100.0, 5.0, 0.01);
        let pair = pair_interference(&hurt, &hurt, false).unwrap();
        assert!((pair - 0.048771).abs() < 1e-5);
        assert_eq!(place(&mut policy, &mut cluster, &hurt), (0, true));
        assert_eq!(place(&mut policy, &mut cluster, &hurt), (0, true));
        assert_eq!(place(&mut policy, &mut cluster, &hurt), (1, true));
        let unknown = Arc::new(App::bare("unknown", Responses::default()));
        assert_eq!(pair_interference(&unknown, &unknown, false), None);
        assert_eq!(pair_interference(&unknown, &hurt, false), None);
    }
}
