use super::*;
use crate::cluster::Node;
use crate::cluster::ResidentId;
use crate::cluster::node_set::NodeSet;
use crate::policy::Waiting;
use crate::predict::lane;
use proptest::prelude::*;
use std::sync::Arc;

fn node(n: usize, cpus: u32, platform: &str) -> Node {
    Node {
        name: format!("n{n}"),
        cpus,
        memory_bytes: 64 << 30,
        platform: Some(platform.into()),
        shares_cpus: false,
    }
}

fn nodes(count: usize, cpus: u32) -> Cluster {
    Cluster::new((0..count).map(|n| node(n, cpus, "a"))).unwrap()
}

/// An application that causes and tolerates the same points on some lanes.
fn app(caused: &[(usize, f64)], tolerated: f64, cpus: u32) -> Arc<App> {
    let mut app = App::bare("app", Default::default());
    for (lane, points) in caused {
        app.set_scores(*lane, Some(tolerated), Some(*points));
    }
    Arc::new(app.with_demand(cpus, 0))
}

fn random_app(rng: &mut ChaCha8Rng, cpus: u32) -> Arc<App> {
    let mut caused = Vec::new();
    for lane in 1..LANES {
        if rng.random_bool(0.5) {
            caused.push((lane, rng.random::<f64>() * 60.0));
        }
    }
    app(&caused, 20.0 + 80.0 * rng.random::<f64>(), cpus)
}

fn quiet() -> TarcilOptions {
    TarcilOptions {
        check_directions: false,
        admission: false,
        ..TarcilOptions::default()
    }
}

fn placed(answer: Decision) -> Choice {
    match answer {
        Decision::Place(choice) => choice,
        other => panic!("not placed: {other:?}"),
    }
}

#[test]
fn unit_quality_by_hand() {
    let mut cluster = nodes(1, 5);
    let id = cluster.id("n0").unwrap();
    assert_eq!(unit_quality(&cluster, id), 1.0);
    let (llc, net) = (
        lane("llc-capacity").unwrap(),
        lane("network-bandwidth").unwrap(),
    );
    // Two units cause 60 on llc and 20 on net each, one causes 40 on net.
    cluster
        .admit(id, app(&[(llc, 60.0), (net, 20.0)], 100.0, 2))
        .unwrap();
    cluster.admit(id, app(&[(net, 40.0)], 100.0, 1)).unwrap();
    // Over M − 1 = 4 others: llc 120/4 = 30, net 80/4 = 20.
    assert!((unit_quality(&cluster, id) - (1.0 - 0.302)).abs() < 1e-9);
    let job = app(&[(net, 31.0), (llc, 84.0)], 100.0, 1);
    assert!((target(&job, false) - 0.8431).abs() < 1e-9);
}

#[test]
fn takes_the_closest_match_that_is_safe() {
    // Contention on node n: 10·n + 5 points.
    let llc = lane("llc-capacity").unwrap();
    let mut cluster = nodes(9, 2);
    for (n, id) in cluster.ids().enumerate() {
        let neighbour = app(&[(llc, 10.0 * n as f64 + 5.0)], 100.0, 1);
        cluster.admit(id, neighbour).unwrap();
    }
    let options = TarcilOptions {
        least_samples: 200,
        most_samples: 200,
        ..quiet()
    };
    // T = 0.43: of the nodes with U = 0.95, 0.85 … 0.15 the closest that is not
    // below is n5 with 0.45.
    let job = app(&[(llc, 43.0)], 100.0, 1);
    let mut policy = Tarcil::with_options(1, options);
    let choice = placed(policy.choose(&PlacementRequest::of(&job), &cluster));
    assert_eq!(cluster.name(choice.node()), "n5");
    // T = 0.99: nothing is adequate; the corrected match takes the least
    // contended, the printed one the most.
    let job = app(&[(llc, 100.0)], 100.0, 1);
    let choice = placed(policy.choose(&PlacementRequest::of(&job), &cluster));
    assert_eq!(cluster.name(choice.node()), "n0");
    let mut literal = Tarcil::with_options(
        1,
        TarcilOptions {
            matching: Matching::Literal,
            ..options
        },
    );
    let choice = placed(literal.choose(&PlacementRequest::of(&job), &cluster));
    assert_eq!(cluster.name(choice.node()), "n8");
}

#[test]
fn the_directions_tell_apart_what_sorting_made_alike() {
    let (llc, net) = (
        lane("llc-capacity").unwrap(),
        lane("network-bandwidth").unwrap(),
    );
    let mut cluster = nodes(2, 2);
    let ids: Vec<NodeId> = cluster.ids().collect();
    cluster
        .admit(ids[0], app(&[(llc, 50.0)], 100.0, 1))
        .unwrap();
    cluster
        .admit(ids[1], app(&[(net, 50.0)], 100.0, 1))
        .unwrap();
    // Bears nothing on llc, anything on net.
    let mut job = App::bare("job", Default::default());
    job.set_scores(llc, Some(10.0), Some(50.0));
    job.set_scores(net, Some(100.0), Some(0.0));
    let job = Arc::new(job);
    let options = TarcilOptions {
        admission: false,
        least_samples: 100,
        most_samples: 100,
        ..TarcilOptions::default()
    };
    let checked =
        placed(Tarcil::with_options(1, options).choose(&PlacementRequest::of(&job), &cluster));
    assert_eq!(checked.node(), ids[1]);
    let options = TarcilOptions {
        check_directions: false,
        ..options
    };
    let blind =
        placed(Tarcil::with_options(1, options).choose(&PlacementRequest::of(&job), &cluster));
    assert_eq!(blind.node(), ids[0], "equal for it; the first is taken");
}

#[test]
fn faster_platforms_are_preferred_and_unknown_ones_are_neither() {
    let cluster =
        Cluster::new([node(0, 2, "slow"), node(1, 2, "fast"), node(2, 2, "new")]).unwrap();
    let job =
        App::bare("job", Default::default()).with_platform_speed(vec![Some(0.5), Some(1.0), None]);
    let job = Arc::new(job);
    let options = TarcilOptions {
        least_samples: 100,
        most_samples: 100,
        ..quiet()
    };
    let choice =
        placed(Tarcil::with_options(1, options).choose(&PlacementRequest::of(&job), &cluster));
    assert_eq!(cluster.name(choice.node()), "n1");
    let runners: Vec<&str> = choice
        .runners_up
        .iter()
        .flatten()
        .map(|node| cluster.name(*node))
        .collect();
    assert_eq!(runners, ["n2", "n0"]);
}

#[test]
fn samples_grow_as_units_become_scarce() {
    let policy = Tarcil::new(1);
    assert_eq!(policy.samples(1000.0, 1000.0), 8);
    // q = 0.01^(1/8) = 0.5623; half free: ⌈ln 0.01 / ln(1 − 0.2188)⌉ = 19.
    assert_eq!(policy.samples(500.0, 1000.0), 19);
    assert_eq!(policy.samples(10.0, 1000.0), 32);
    assert_eq!(policy.samples(0.0, 1000.0), 32);
}

/// Largest distance between the distribution of `ranks` and x^exponent.
fn distance(ranks: &mut [f64], exponent: f64) -> f64 {
    ranks.sort_by(f64::total_cmp);
    let n = ranks.len() as f64;
    ranks
        .iter()
        .enumerate()
        .map(|(at, rank)| {
            let law = rank.powf(exponent);
            (law - at as f64 / n)
                .abs()
                .max(((at + 1) as f64 / n - law).abs())
        })
        .fold(0.0, f64::max)
}

#[test]
fn rank_of_the_best_of_r_follows_x_to_the_r() {
    // Nodes with one free unit each and contention of their own.
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut cluster = nodes(5000, 2);
    for id in cluster.ids() {
        cluster.admit(id, random_app(&mut rng, 1)).unwrap();
    }
    let job = random_app(&mut rng, 1);
    let wanted = target(&job, false);
    let of = |id| quality(wanted, unit_quality(&cluster, id), Matching::Corrected);
    let mut order: Vec<NodeId> = cluster.ids().collect();
    order.sort_by(|a, b| of(*a).total_cmp(&of(*b)));
    let mut rank = vec![0.0; order.len()];
    for (at, id) in order.iter().enumerate() {
        // Where in its cell of the ranking is settled by a coin, as for ties.
        rank[id.index()] = (at as f64 + rng.random::<f64>()) / order.len() as f64;
    }
    const RUNS: usize = 4000;
    // 1 % critical value of Kolmogorov and Smirnov.
    let critical = 1.628 / (RUNS as f64).sqrt();
    for r in [8usize, 16, 32, 64] {
        let options = TarcilOptions {
            least_samples: r,
            most_samples: r,
            ..quiet()
        };
        let mut policy = Tarcil::with_options(r as u64, options);
        let mut ranks: Vec<f64> = (0..RUNS)
            .map(|_| {
                rank[placed(policy.choose(&PlacementRequest::of(&job), &cluster))
                    .node()
                    .index()]
            })
            .collect();
        let law = distance(&mut ranks, r as f64);
        assert!(law < critical, "R = {r}: {law:.4} ≥ {critical:.4}");
        let other = distance(&mut ranks, 1.3 * r as f64);
        assert!(
            other > critical,
            "R = {r} cannot be told from {}",
            1.3 * r as f64
        );
    }
}

#[test]
fn a_job_of_many_units_stays_together_or_spreads() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut cluster = nodes(40, 4);
    for id in cluster.ids().skip(1) {
        cluster.admit(id, random_app(&mut rng, 2)).unwrap();
    }
    let job = app(&[(5, 30.0)], 100.0, 4);
    // Only n0 has four free.
    let mut policy = Tarcil::with_options(2, quiet());
    for _ in 0..50 {
        let choice = placed(policy.choose(&PlacementRequest::of(&job), &cluster));
        assert_eq!(choice.parts.len(), 1);
        assert_eq!(cluster.name(choice.node()), "n0");
    }
    let mut request = PlacementRequest::of(&job);
    request.spread = true;
    request.demand.cpus = 20;
    let choice = placed(policy.choose(&request, &cluster));
    assert_eq!(choice.parts.iter().map(|part| part.cpus).sum::<u32>(), 20);
    for part in &choice.parts {
        assert!(part.cpus <= cluster.summary(part.node).free_cpus);
    }
    request.demand.cpus = 83;
    assert!(!matches!(
        policy.choose(&request, &cluster),
        Decision::Place(_)
    ));
}

#[test]
fn a_small_cluster_never_refuses_what_fits() {
    let mut cluster = nodes(200, 4);
    for id in cluster.ids().take(199) {
        cluster.admit(id, app(&[(5, 30.0)], 50.0, 1)).unwrap();
    }
    let job = app(&[], 100.0, 4);
    for seed in 0..50 {
        let choice = placed(
            Tarcil::with_options(seed, quiet()).choose(&PlacementRequest::of(&job), &cluster),
        );
        assert_eq!(cluster.name(choice.node()), "n199");
    }
    let only: NodeSet = cluster.ids().skip(7).take(1).collect();
    let one = app(&[], 100.0, 1);
    let mut request = PlacementRequest::of(&one);
    request.allowed = Some(&only);
    let choice = placed(Tarcil::with_options(1, quiet()).choose(&request, &cluster));
    assert_eq!(choice.node().index(), 7);
}

#[test]
fn queues_at_the_best_two_when_nothing_has_room() {
    let mut cluster = nodes(10, 2);
    for id in cluster.ids() {
        cluster.admit(id, app(&[(5, 30.0)], 50.0, 2)).unwrap();
    }
    let job = app(&[(5, 30.0)], 50.0, 1);
    let mut policy = Tarcil::with_options(1, quiet());
    let mut lengths = [0; 3];
    for _ in 0..50 {
        match policy.choose(&PlacementRequest::of(&job), &cluster) {
            Decision::QueueAt(nodes) => lengths[nodes.len()] += 1,
            other => panic!("{other:?}"),
        }
    }
    // Two draws of ten nodes are the same once in ten times.
    assert!(lengths[0] == 0 && lengths[2] > 25, "{lengths:?}");
    // With admission and no history it waits for room instead.
    assert_eq!(
        Tarcil::new(1).choose(&PlacementRequest::of(&job), &cluster),
        Decision::Wait(Waiting::NoRoom, None)
    );
    let large = app(&[], 100.0, 3);
    assert_eq!(
        policy.choose(&PlacementRequest::of(&large), &cluster),
        Decision::Wait(Waiting::Never, None)
    );
    for id in cluster.ids() {
        cluster.take_down(id);
    }
    assert_eq!(
        policy.choose(&PlacementRequest::of(&job), &cluster),
        Decision::Wait(Waiting::NoRoom, None)
    );
}

#[test]
fn waits_for_better_while_that_is_likely_and_not_forever() {
    let llc = lane("llc-capacity").unwrap();
    let mut cluster = nodes(4, 2);
    let ids: Vec<NodeId> = cluster.ids().collect();
    let mut policy = Tarcil::new(1);
    // A quiet unit becomes free every 10 s, on n0 and n1 in turn.
    policy.changed(&cluster, ids[0], 0.0);
    let quiet = app(&[(llc, 0.0)], 100.0, 2);
    let mut now = 0.0;
    for turn in 0..40 {
        let id = ids[turn % 2];
        let resident = cluster.admit(id, quiet.clone()).unwrap();
        policy.changed(&cluster, id, now);
        now += 7.0 + 6.0 * (turn % 2) as f64;
        cluster.remove(resident);
        policy.changed(&cluster, id, now);
    }
    // Everything is taken but two units beside a noisy neighbour.
    for id in &ids[..3] {
        cluster.admit(*id, quiet.clone()).unwrap();
        policy.changed(&cluster, *id, now);
    }
    cluster
        .admit(ids[3], app(&[(llc, 95.0)], 100.0, 1))
        .unwrap();
    policy.changed(&cluster, ids[3], now);
    let job = app(&[(llc, 80.0)], 10.0, 1);
    let mut request = PlacementRequest::of(&job);
    request.now = now;
    let Decision::Wait(Waiting::ForBetter, Some(until)) = policy.choose(&request, &cluster) else {
        panic!("it is worth waiting");
    };
    assert!(until > now && until < now + 60.0, "{until}");
    request.now = until;
    placed(policy.choose(&request, &cluster));
    // One that tolerates anything is placed at once.
    let easy = app(&[(llc, 0.0)], 100.0, 1);
    let mut request = PlacementRequest::of(&easy);
    request.now = now;
    let mut lenient = Tarcil::with_options(
        1,
        TarcilOptions {
            margin: 1.0,
            ..TarcilOptions::default()
        },
    );
    placed(lenient.choose(&request, &cluster));
}

#[derive(Clone, Debug)]
enum Step {
    Start { node: usize, seed: u64, cpus: u32 },
    End(usize),
    Down(usize),
    Up(usize),
    Break(usize),
    Repair(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..12usize, any::<u64>(), 1..4u32)
            .prop_map(|(node, seed, cpus)| Step::Start { node, seed, cpus }),
        2 => (0..64usize).prop_map(Step::End),
        1 => (0..12usize).prop_map(Step::Down),
        1 => (0..12usize).prop_map(Step::Up),
        1 => (0..12usize).prop_map(Step::Break),
        1 => (0..12usize).prop_map(Step::Repair),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #[test]
    fn counts_equal_a_recount(steps in steps(), told in any::<bool>()) {
        let platforms = ["a", "b", "c"];
        let mut cluster =
            Cluster::new((0..12).map(|n| node(n, 4 + n as u32 % 3, platforms[n % 3]))).unwrap();
        let ids: Vec<NodeId> = cluster.ids().collect();
        let mut buckets = Buckets::new(9);
        buckets.sync(&cluster, 0.0);
        let mut running: Vec<ResidentId> = Vec::new();
        for (turn, step) in steps.into_iter().enumerate() {
            let now = turn as f64;
            let touched = match step {
                Step::Start { node, seed, cpus } => {
                    let mut rng = ChaCha8Rng::seed_from_u64(seed);
                    if let Ok(id) = cluster.admit(ids[node], random_app(&mut rng, cpus)) {
                        running.push(id);
                    }
                    ids[node]
                }
                Step::End(which) => {
                    let Some(which) = which.checked_rem(running.len()) else { continue };
                    match cluster.remove(running.swap_remove(which)) {
                        Some(resident) => resident.node,
                        None => continue,
                    }
                }
                Step::Down(node) => { cluster.take_down(ids[node]); ids[node] }
                Step::Up(node) => { cluster.bring_up(ids[node]); ids[node] }
                Step::Break(node) => { cluster.break_cpu(ids[node]); ids[node] }
                Step::Repair(node) => { cluster.repair_cpu(ids[node]); ids[node] }
            };
            if told {
                buckets.changed(&cluster, touched, now);
                let fresh = buckets.recounted(&cluster);
                prop_assert_eq!(buckets.counts(), &fresh[..]);
            }
        }
        // Untold, the sweep finds every change.
        for _ in 0..cluster.len() {
            buckets.sync(&cluster, 1000.0);
        }
        let fresh = buckets.recounted(&cluster);
        prop_assert_eq!(buckets.counts(), &fresh[..]);
        let units: u32 = cluster.summaries().iter().filter(|summary| summary.up).map(|summary| summary.cpus).sum();
        prop_assert_eq!(buckets.units(), u64::from(units));
    }
}
