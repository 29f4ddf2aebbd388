use super::*;
use crate::cluster::Node;
use crate::cluster::ResidentId;
use crate::predict::LANES;
use crate::predict::Responses;
use proptest::prelude::*;
use std::sync::Arc;

/// An application with `caused` and `tolerated` points on every resource.
fn app(name: &str, caused: f64, tolerated: f64, cpus: u32) -> Arc<App> {
    let mut app = App::bare(name, Responses::default());
    for lane in 0..LANES {
        app.set_scores(lane, Some(tolerated), Some(caused));
    }
    Arc::new(app.with_demand(cpus, 0))
}

/// With classes between 0 and what is possible.
fn absolute(queues: usize) -> Arq {
    Arq::new(ArqOptions {
        queues,
        relative: false,
        ..ArqOptions::default()
    })
}

fn cluster(nodes: usize, cpus: u32) -> Cluster {
    Cluster::new((0..nodes).map(|n| Node {
        name: format!("n{n}"),
        cpus,
        memory_bytes: 0,
        platform: None,
        shares_cpus: false,
    }))
    .unwrap()
}

fn waiter(job: u64, app: &Arc<App>, ideal: f64) -> Waiter {
    Waiter {
        job,
        app: app.clone(),
        demand: app.demand(),
        ideal_seconds: Some(ideal),
        overhead_seconds: 0.0,
        priority: 0,
    }
}

fn node(cluster: &Cluster, name: &str) -> NodeId {
    cluster.id(name).unwrap()
}

#[test]
fn classes_are_tenths_of_mean_caused() {
    let arq = absolute(10);
    for (caused, class) in [(0.0, 0), (9.9, 0), (10.0, 1), (55.0, 5), (100.0, 9)] {
        assert_eq!(arq.class(&app("a", caused, 50.0, 1)), class, "{caused}");
    }
    // Of one that is unknown, the worst is feared.
    assert_eq!(arq.class(&App::bare("new", Responses::default())), 9);
    assert_eq!(absolute(2).class(&app("a", 55.0, 50.0, 1)), 1);
}

#[test]
fn relative_classes_lie_between_what_was_seen() {
    let mut cluster = cluster(3, 4);
    let mut arq = Arq::default();
    // The most demanding so far is of the highest class; half of that is in
    // the middle.
    arq.arrive(waiter(1, &app("a", 24.0, 50.0, 1), 100.0), 0.0);
    assert_eq!(arq.class(&app("b", 24.0, 50.0, 1)), 9);
    assert_eq!(arq.class(&app("c", 12.0, 50.0, 1)), 5);
    // Servers at 60, 85 and 100 points: the lowest, (85 − 60)/40 and the highest.
    for (name, tolerated) in [("n0", 60.0), ("n1", 85.0)] {
        let node = node(&cluster, name);
        cluster.admit(node, app("r", 5.0, tolerated, 1)).unwrap();
    }
    arq.pools.follow(&cluster);
    let pools: Vec<usize> = cluster.ids().map(|node| arq.pools.pool_of(node)).collect();
    assert_eq!(pools, [0, 6, 9]);
}

#[test]
fn each_takes_a_server_of_its_class_and_pools_follow_the_residents() {
    let mut cluster = cluster(2, 4);
    let (n0, n1) = (node(&cluster, "n0"), node(&cluster, "n1"));
    // n0 tolerates 35: class 3. n1 is empty: class 9.
    let resident = cluster.admit(n0, app("r", 5.0, 35.0, 1)).unwrap();
    let mut arq = absolute(10);
    let modest = app("modest", 33.0, 50.0, 1);
    arq.arrive(waiter(1, &modest, 100.0), 0.0);
    let first = arq.next(0.0, &cluster).unwrap();
    assert_eq!(first.allowed.unwrap().iter().collect::<Vec<_>>(), [n0]);
    // With the resident gone both are of the best class.
    cluster.remove(resident);
    arq.refused(1, 0.0);
    let second = arq.next(0.0, &cluster).unwrap();
    let both: Vec<NodeId> = second.allowed.unwrap().iter().collect();
    assert_eq!(both, [n0, n1]);
}

#[test]
fn goes_up_only_past_empty_queues() {
    let mut cluster = cluster(2, 1);
    let (n0, n1) = (node(&cluster, "n0"), node(&cluster, "n1"));
    cluster.admit(n0, app("r", 5.0, 35.0, 1)).unwrap();
    let mut arq = absolute(10);
    // Class 3 with its only server full; class 9 waits for n1, which is taken.
    let taken = cluster.admit(n1, app("s", 5.0, 95.0, 1)).unwrap();
    arq.arrive(waiter(1, &app("modest", 33.0, 50.0, 1), 1000.0), 0.0);
    arq.arrive(waiter(2, &app("fussy", 95.0, 50.0, 1), 1000.0), 0.0);
    assert!(arq.next(0.0, &cluster).is_none());
    cluster.remove(taken);
    let next = arq.next(1.0, &cluster).unwrap();
    assert_eq!(next.job, 2, "who needs the good server gets it");
    arq.refused(2, 1.0);
    assert!(
        arq.next(1.0, &cluster).is_none(),
        "and while it waits nobody from below takes it"
    );
    arq.ended(2, &[], 1.0, &cluster);
    assert_eq!(arq.next(1.0, &cluster).unwrap().job, 1);
}

#[test]
fn goes_down_at_the_switch_point_and_anywhere_when_the_window_is_over() {
    let mut cluster = cluster(2, 1);
    let (n0, n1) = (node(&cluster, "n0"), node(&cluster, "n1"));
    // The pool of class 5 is n0, busy; n1 is of class 2 and not full.
    let wide = Node {
        name: "wide".into(),
        cpus: 2,
        memory_bytes: 0,
        platform: None,
        shares_cpus: false,
    };
    let wide = cluster.add_node(wide).unwrap();
    cluster.admit(n0, app("a", 5.0, 55.0, 1)).unwrap();
    cluster.admit(n1, app("b", 5.0, 95.0, 1)).unwrap();
    cluster.admit(wide, app("c", 5.0, 25.0, 1)).unwrap();

    let mut arq = absolute(10);
    let job = app("job", 55.0, 50.0, 1);
    // Without history nothing is promised: down at once.
    arq.arrive(waiter(1, &job, 1000.0), 0.0);
    let down = arq.next(0.0, &cluster).unwrap();
    assert_eq!(down.allowed.unwrap().iter().collect::<Vec<_>>(), [wide]);
    arq.ended(1, &[], 0.0, &cluster);

    // Servers of class 5 are busy 60 s: within a window of 50 s the one there
    // is freed with probability 5/6 > Q_2 / Q_5 = 2.5 / 5.5. It pays to wait
    // until what is left of the window, 60 × 0.4545…/(1 − …) s, is too short.
    for _ in 0..20 {
        arq.busy[5].observe(60.0);
    }
    arq.arrive(waiter(2, &job, 1000.0), 100.0);
    assert!(arq.next(100.0, &cluster).is_none());
    let at = arq.wake_at().unwrap();
    // (S − w − t)/(S − w) · t/60 = 2.5/5.5 with S = 1050 and t = 50 − w.
    let w = at - 100.0;
    let t = 50.0 - w;
    let promised = (1050.0 - w - t) / (1050.0 - w) * t / 60.0;
    assert!((promised - 2.5 / 5.5).abs() < 1e-4, "{at}: {promised}");
    assert!(arq.next(at - 1e-3, &cluster).is_none());
    let down = arq.next(at + 1e-3, &cluster).unwrap();
    assert_eq!(down.allowed.unwrap().iter().collect::<Vec<_>>(), [wide]);
    let late = arq.next(150.0, &cluster).unwrap();
    assert_eq!((late.job, late.allowed), (2, None));
}

#[test]
fn a_refused_job_is_not_offered_again_before_a_change() {
    let cluster = cluster(1, 4);
    let mut arq = absolute(10);
    let job = app("job", 95.0, 50.0, 1);
    arq.arrive(waiter(7, &job, 100.0), 0.0);
    assert_eq!(arq.next(0.0, &cluster).unwrap().job, 7);
    arq.refused(7, 0.0);
    assert!(arq.next(0.0, &cluster).is_none());
    assert_eq!(arq.wake_at(), Some(5.0));
    let overdue = arq.next(5.0, &cluster).unwrap();
    assert_eq!(overdue.allowed, None, "its window is over");
    arq.refused(7, 5.0);
    assert!(arq.next(5.0, &cluster).is_none());
    assert_eq!(arq.waiting(), 1);
}

#[test]
fn shortest_first_and_priorities_within_a_class() {
    let cluster = cluster(1, 4);
    let job = app("job", 95.0, 50.0, 1);
    let order = |options: ArqOptions| {
        let mut arq = Arq::new(options);
        for (id, ideal, priority) in [(1, 900.0, 0), (2, 300.0, 1), (3, 600.0, 2)] {
            let waiter = Waiter {
                priority,
                ..waiter(id, &job, ideal)
            };
            arq.arrive(waiter, 0.0);
        }
        std::iter::from_fn(|| {
            let job = arq.next(0.0, &cluster)?.job;
            arq.started(job, &[], 0.0, &cluster);
            Some(job)
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(order(ArqOptions::default()), [1, 2, 3]);
    let sjf = ArqOptions {
        sjf: true,
        ..ArqOptions::default()
    };
    assert_eq!(order(sjf), [2, 3, 1]);
    let priorities = ArqOptions {
        priorities: true,
        ..ArqOptions::default()
    };
    assert_eq!(order(priorities), [3, 2, 1]);
}

/// Small jobs come for ever; the large one gets its node all the same.
#[test]
fn a_large_job_does_not_starve_behind_a_stream_of_small_ones() {
    let mut cluster = cluster(2, 4);
    let mut arq = absolute(10);
    let small = app("small", 20.0, 50.0, 1);
    let large = app("large", 20.0, 50.0, 4);
    arq.arrive(waiter(0, &large, 50.0), 0.0);
    let mut ends: Vec<(f64, u64, ResidentId)> = Vec::new();
    // The cluster is full before the large one is looked at.
    for (at, name) in ["n0", "n1"].into_iter().cycle().take(8).enumerate() {
        let id = cluster.admit(node(&cluster, name), small.clone()).unwrap();
        ends.push((10.0 + at as f64, u64::MAX, id));
    }
    for step in 1..500u64 {
        let now = step as f64;
        arq.arrive(waiter(step, &small, 12.0), now);
        while let Some(at) = ends.iter().position(|(end, _, _)| *end <= now) {
            let (_, job, id) = ends.swap_remove(at);
            let node = cluster.remove(id).unwrap().node;
            arq.ended(job, &[node], now, &cluster);
        }
        while let Some(admitted) = arq.next(now, &cluster) {
            let demand = if admitted.job == 0 { &large } else { &small };
            let place = cluster.ids().find(|node| {
                let allowed = admitted.allowed.as_ref();
                cluster.fits(*node, demand.demand())
                    && allowed.is_none_or(|allowed| allowed.contains(*node))
            });
            let Some(place) = place else {
                arq.refused(admitted.job, now);
                continue;
            };
            if admitted.job == 0 {
                return;
            }
            let id = cluster.admit(place, demand.clone()).unwrap();
            ends.push((now + 12.0, admitted.job, id));
            arq.started(admitted.job, &[place], now, &cluster);
        }
    }
    panic!("the large job was never placed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes, everybody who fits somewhere is placed in the end, once,
    /// and nobody waits beyond the window while there is room.
    #[test]
    fn everybody_is_admitted_in_the_end(
        jobs in prop::collection::vec(
            (0.0f64..50.0, 0.0f64..100.0, 0.0f64..100.0, 1u32..5, 1.0f64..200.0, 0u32..3), 1..60),
        queues in 1usize..12, sjf: bool, priorities: bool, relative: bool, refuse in 0u64..4,
    ) {
        let mut cluster = cluster(3, 4);
        let mut arq = Arq::new(ArqOptions { queues, sjf, priorities, relative, ..ArqOptions::default() });
        let mut arrivals: Vec<(f64, u64)> =
            jobs.iter().enumerate().map(|(id, job)| (job.0, id as u64)).collect();
        arrivals.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut ends: Vec<(f64, u64, ResidentId)> = Vec::new();
        let mut placed = vec![0; jobs.len()];
        let (mut now, mut steps) = (0.0f64, 0u64);
        while placed.contains(&0) {
            steps += 1;
            prop_assert!(steps < 10_000, "no progress at {now}");
            let next_end = ends.iter().map(|end| end.0).reduce(f64::min);
            let moments = [arrivals.last().map(|first| first.0), next_end, arq.wake_at()];
            let Some(next) = moments.into_iter().flatten().reduce(f64::min) else {
                prop_assert!(false, "nothing can happen any more, {} wait", arq.waiting());
                unreachable!();
            };
            prop_assert!(next >= now, "a wake in the past");
            now = next;
            while arrivals.last().is_some_and(|first| first.0 <= now) {
                let (_, id) = arrivals.pop().unwrap();
                let (_, caused, tolerated, cpus, ideal, priority) = jobs[id as usize];
                let app = app("job", caused, tolerated, cpus);
                arq.arrive(Waiter { priority, ..waiter(id, &app, ideal) }, now);
            }
            while let Some(at) = ends.iter().position(|end| end.0 <= now) {
                let (_, job, id) = ends.swap_remove(at);
                let node = cluster.remove(id).unwrap().node;
                arq.ended(job, &[node], now, &cluster);
            }
            let mut offers = 0u64;
            while let Some(admitted) = arq.next(now, &cluster) {
                offers += 1;
                prop_assert!(offers < 1_000, "offers do not end");
                let (_, caused, tolerated, cpus, ideal, _) = jobs[admitted.job as usize];
                let app = app("job", caused, tolerated, cpus);
                let place = cluster.ids().find(|node| {
                    cluster.fits(*node, app.demand())
                        && admitted.allowed.as_ref().is_none_or(|set| set.contains(*node))
                });
                // A policy may say no though there is room.
                let whim = refuse > 0 && (offers + steps).is_multiple_of(refuse + 1)
                    && !ends.is_empty();
                let Some(place) = place.filter(|_| !whim) else {
                    arq.refused(admitted.job, now);
                    continue;
                };
                let id = cluster.admit(place, app).unwrap();
                ends.push((now + ideal, admitted.job, id));
                placed[admitted.job as usize] += 1;
                arq.started(admitted.job, &[place], now, &cluster);
            }
        }
        prop_assert!(placed.iter().all(|times| *times == 1));
        prop_assert_eq!(arq.waiting(), 0);
    }
}
