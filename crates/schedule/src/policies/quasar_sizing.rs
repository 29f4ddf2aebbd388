//! As little as reaches the target, from the best servers down.

use crate::app::App;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::compare::below_zero;
use crate::explanation::Deciding;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::Part;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use crate::predict::Company;
use crate::predict::performance;
use crate::scaling::Scaling;
use crate::search::ranking::Ranking;

/// Sizing by speed-up curves (Quasar; dissertation, chapter 4). Servers are
/// ranked by quality: speed of the application on the platform over its best,
/// times the performance it is expected to keep beside the residents; those
/// whose residents would break their QoS come after all others. From the best
/// server down, each is given the CPUs that are of use (scale-up), then, if the
/// application may spread, the next server is added (scale-out), until the
/// predicted speed reaches the target; then what is not needed is given back.
///
/// The predicted speed of servers with speeds `v₁ … v_k` is
/// `by_nodes(k)·mean(v)`, and `v = quality·by_cpus(CPUs)`.
///
/// Without a target, or for an application of which no speed-ups are known,
/// the demand goes as asked to the best server. When what is free does not
/// reach the target, everything of use is taken, with a note.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuasarSizing;

const SHORT_OF_TARGET: &str = "all that is free does not reach the target";

/// Speed on `node` of each unit of speed on the best platform, undisturbed.
fn quality(app: &App, cluster: &Cluster, node: NodeId) -> f64 {
    let summary = cluster.summary(node);
    let speed = app.relative_speed(summary.platform);
    let company = Company::of(cluster.residents(node).map(|(_, resident)| {
        let app = &resident.app;
        (app.responses.as_ref(), app.counted(summary.shares_cpus))
    }));
    let counted = app.counted(summary.shares_cpus);
    let pressure = company.before(&app.responses, counted);
    speed * performance(&app.responses, &pressure, counted).performance()
}

/// Whether every resident is expected to bear it, and the quality.
fn key(app: &App, cluster: &Cluster, node: NodeId) -> [f64; 2] {
    let (d1, _) = below_zero(app, cluster.summary(node));
    [
        f64::from(u8::from(d1.is_empty())),
        quality(app, cluster, node),
    ]
}

/// A server to be sized: speed of one CPU, and CPUs free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    pub quality: f64,
    pub free_cpus: u32,
}

/// CPUs on each of the first servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizing {
    pub cpus: Vec<u32>,
    /// Predicted, as a multiple of one undisturbed CPU of the best platform.
    pub speed: f64,
}

/// Predicted speed of `servers` with so many `cpus` each.
fn speed(servers: &[Server], cpus: &[u32], scaling: &Scaling) -> f64 {
    let speeds = servers.iter().zip(cpus);
    let sum: f64 = speeds
        .map(|(server, cpus)| server.quality * scaling.by_cpus(f64::from(*cpus)))
        .sum();
    match cpus.len() {
        0 => 0.0,
        nodes => scaling.by_nodes(nodes as f64) * sum / nodes as f64,
    }
}

/// Least number of CPUs, up to `most`, for which `enough` holds; `most` when it
/// holds for none. It must hold for all above the first for which it does.
fn least_cpus(most: u32, enough: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (1, most.max(1));
    while low < high {
        let middle = low + (high - low) / 2;
        match enough(middle) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    low
}

/// Sizes an application for `target` on `servers`, given in falling order of
/// quality and each with a CPU free; on the first alone unless it may `spread`.
/// A speed below the target says that it is not reached.
pub fn size(servers: &[Server], scaling: &Scaling, target: f64, spread: bool) -> Sizing {
    // Rounding must not cost a further server.
    let target = target * (1.0 - 1e-9);
    let most = if spread { servers.len() } else { 1 };
    let mut cpus: Vec<u32> = Vec::new();
    let mut reached = 0.0;
    for server in servers.iter().take(most) {
        // Scale-up: as many CPUs as still make it faster.
        let full = scaling.by_cpus(f64::from(server.free_cpus));
        cpus.push(least_cpus(server.free_cpus, |n| {
            scaling.by_cpus(f64::from(n)) >= full
        }));
        let with = speed(servers, &cpus, scaling);
        if with <= reached {
            cpus.pop();
            break;
        }
        reached = with;
        if reached >= target {
            break;
        }
    }
    if reached >= target {
        // Give back, from the worst server up.
        for at in (0..cpus.len()).rev() {
            cpus[at] = least_cpus(cpus[at], |n| {
                let mut fewer = cpus.clone();
                fewer[at] = n;
                speed(servers, &fewer, scaling) >= target
            });
        }
    }
    Sizing {
        speed: speed(servers, &cpus, scaling),
        cpus,
    }
}

impl QuasarSizing {
    fn sized(
        &self,
        request: &PlacementRequest,
        cluster: &Cluster,
        scaling: &Scaling,
        target: f64,
    ) -> Decision {
        let mut ranked: Vec<([f64; 2], NodeId)> = Vec::new();
        request.candidates_for_sizing(cluster, request.spread, |node| {
            ranked.push((key(request.app, cluster, node), node));
        });
        ranked.sort_by(|([within_a, quality_a], a), ([within_b, quality_b], b)| {
            let by_key = within_b.total_cmp(within_a);
            by_key.then(quality_b.total_cmp(quality_a)).then(a.cmp(b))
        });
        let servers: Vec<Server> = ranked
            .iter()
            .map(|([_, quality], node)| Server {
                quality: *quality,
                free_cpus: cluster.summary(*node).free_cpus,
            })
            .collect();
        // On one server: the best on which the target is reached, else the one
        // that comes closest.
        let mut first = 0;
        let mut sizing = size(&servers, scaling, target, request.spread);
        if !request.spread {
            for (at, server) in servers.iter().enumerate().skip(1) {
                if sizing.speed >= target * (1.0 - 1e-9) {
                    break;
                }
                let other = size(&[*server], scaling, target, false);
                if other.speed > sizing.speed {
                    (first, sizing) = (at, other);
                }
            }
        }
        if sizing.cpus.is_empty() {
            return Decision::no_room(&request.with_cpus(1), cluster);
        }
        let chosen = &ranked[first..first + sizing.cpus.len()];
        let others = ranked.iter().filter(|other| !chosen.contains(other));
        let parts = chosen.iter().zip(&sizing.cpus);
        let mut choice = Choice {
            parts: parts
                .map(|((_, node), cpus)| Part {
                    node: *node,
                    cpus: *cpus,
                })
                .collect(),
            examined: ranked.len() as u32,
            score: sizing.speed,
            ..Choice::default().with_runners_up(others.map(|(_, node)| *node))
        };
        if sizing.speed < target * (1.0 - 1e-9) {
            choice.notes.push(SHORT_OF_TARGET);
        }
        Decision::Place(choice)
    }
}

impl Policy for QuasarSizing {
    fn name(&self) -> &'static str {
        "quasar-sizing"
    }

    fn sizes(&self) -> bool {
        true
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        if let (Some(target), Some(scaling)) = (request.target, request.app.scaling()) {
            return self.sized(request, cluster, scaling, target);
        }
        let mut ranking = Ranking::default();
        request.candidates(cluster, |node| {
            ranking.offer(node, key(request.app, cluster, node));
        });
        let mut answer = ranking.answer(request, cluster);
        if let Decision::Place(choice) = &mut answer {
            choice.score = quality(request.app, cluster, choice.node());
        }
        answer
    }

    fn why(&self, request: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        let best = quality(request.app, cluster, choice.node());
        let sized = request.target.is_some() && request.app.scaling().is_some();
        let why = match (request.target, request.app.scaling()) {
            (Some(target), Some(_)) => format!(
                "{} CPUs on {} of the best servers are predicted to reach {:.2} of {target:.2}",
                choice.parts.iter().map(|part| part.cpus).sum::<u32>(),
                choice.parts.len(),
                choice.score
            ),
            _ => format!("best quality: {best:.3} of the best platform without interference"),
        };
        Deciding {
            resource: sized.then(|| "cpus".into()),
            why,
        }
    }

    fn runner_up(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        let [margin, quality] = key(request.app, cluster, node);
        match margin > 0.0 {
            true => format!("quality {quality:.3}"),
            false => format!("quality {quality:.3}, and residents that would not tolerate it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Node;
    use std::sync::Arc;

    fn servers(count: usize, free_cpus: u32) -> Vec<Server> {
        vec![
            Server {
                quality: 1.0,
                free_cpus
            };
            count
        ]
    }

    #[test]
    fn five_servers_of_20_000_for_100_000_queries() {
        // 20 CPUs do 20,000 queries a second, and servers add up.
        let scaling = Scaling::amdahl(0.0, 20, 20);
        let sizing = size(&servers(12, 20), &scaling, 100.0, true);
        assert_eq!(sizing.cpus, [20; 5]);
        assert!((sizing.speed - 100.0).abs() < 1e-9);
        let sizing = size(&servers(12, 20), &scaling, 90.5, true);
        assert_eq!(sizing.cpus, [20, 20, 20, 20, 11]);
    }

    #[test]
    fn useless_cpus_are_not_taken() {
        // No faster beyond 4 CPUs.
        let scaling = Scaling::new(vec![(2.0, 2.0), (4.0, 3.0)], vec![(3.0, 3.0)]);
        let sizing = size(&servers(3, 16), &scaling, 9.0, true);
        assert_eq!(sizing.cpus, [4, 4, 4]);
        let short = size(&servers(2, 16), &scaling, 9.0, true);
        assert_eq!((short.cpus, short.speed), (vec![4, 4], 6.0));
        let alone = size(&servers(3, 16), &scaling, 2.4, false);
        assert_eq!(alone.cpus, [3]);
        assert_eq!(size(&[], &scaling, 1.0, true).cpus, Vec::<u32>::new());
    }

    #[test]
    fn a_server_that_would_slow_the_whole_is_left_out() {
        // Two nodes give 1.2 of one; the second is ten times slower.
        let scaling = Scaling::new(vec![(4.0, 4.0)], vec![(2.0, 1.2)]);
        let unequal = [
            Server {
                quality: 1.0,
                free_cpus: 4,
            },
            Server {
                quality: 0.1,
                free_cpus: 4,
            },
        ];
        let sizing = size(&unequal, &scaling, 10.0, true);
        assert_eq!((sizing.cpus, sizing.speed), (vec![4], 4.0));
    }

    fn cluster() -> Cluster {
        let node = |n: usize, platform: &str, cpus| Node {
            name: format!("n{n}"),
            cpus,
            memory_bytes: 0,
            platform: Some(platform.into()),
            shares_cpus: false,
        };
        Cluster::new([
            node(0, "slow", 8),
            node(1, "fast", 4),
            node(2, "fast", 4),
            node(3, "slow", 16),
        ])
        .unwrap()
    }

    fn app() -> App {
        App::bare("app", Default::default())
            .with_platform_speed(vec![Some(0.5), Some(1.0)])
            .with_scaling(Scaling::amdahl(0.0, 16, 4))
    }

    #[test]
    fn scale_up_on_the_best_then_out() {
        let cluster = cluster();
        let app = Arc::new(app());
        let mut request = PlacementRequest::of(&app);
        request.spread = true;
        request.target = Some(7.0);
        let Decision::Place(choice) = QuasarSizing.choose(&request, &cluster) else {
            panic!("there is room");
        };
        let parts: Vec<(usize, u32)> = choice
            .parts
            .iter()
            .map(|part| (part.node.index(), part.cpus))
            .collect();
        assert_eq!(parts, [(1, 4), (2, 3)]);
        // On one server: 7 takes 14 CPUs of the slow one.
        request.spread = false;
        let Decision::Place(choice) = QuasarSizing.choose(&request, &cluster) else {
            panic!("there is room");
        };
        assert_eq!((choice.node().index(), choice.parts[0].cpus), (3, 14));
        assert!(choice.notes.is_empty());
        request.target = Some(9.0);
        let Decision::Place(choice) = QuasarSizing.choose(&request, &cluster) else {
            panic!("there is room");
        };
        assert_eq!((choice.node().index(), choice.parts[0].cpus), (3, 16));
        assert_eq!(choice.notes, [SHORT_OF_TARGET]);
    }

    #[test]
    fn without_a_target_the_demand_goes_to_the_best() {
        let cluster = cluster();
        let app = Arc::new(app().with_demand(6, 0));
        let Decision::Place(choice) = QuasarSizing.choose(&PlacementRequest::of(&app), &cluster)
        else {
            panic!("there is room");
        };
        assert_eq!((choice.node().index(), choice.parts[0].cpus), (0, 6));
    }
}
