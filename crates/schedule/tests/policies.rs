//! Policies by hand-computed cases, and what must hold of any cluster.

use jostle_profile as profile;
use jostle_profile::Placement;
use jostle_profile::PlacementMode;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::Status;
use jostle_schedule::App;
use jostle_schedule::ByLoad;
use jostle_schedule::Cluster;
use jostle_schedule::ClusterError;
use jostle_schedule::Decision;
use jostle_schedule::Direction;
use jostle_schedule::Explanation;
use jostle_schedule::Greedy;
use jostle_schedule::IbenchL1;
use jostle_schedule::NoPlacement;
use jostle_schedule::Node;
use jostle_schedule::NodeId;
use jostle_schedule::POLICIES;
use jostle_schedule::Paragon;
use jostle_schedule::PlacementRequest;
use jostle_schedule::PlatformOnly;
use jostle_schedule::Policy;
use jostle_schedule::PolicyOptions;
use jostle_schedule::Random;
use jostle_schedule::RoundRobin;
use jostle_schedule::Waiting;
use jostle_schedule::compare;
use std::path::Path;
use std::sync::Arc;
use std::sync::LazyLock;

static TEMPLATE: LazyLock<Profile> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    profile::load(&root.join("../../tests/fixtures/profiles/web.json")).unwrap()
});

fn score(score: f64) -> Score {
    Score {
        score,
        ci95: [score, score],
    }
}

/// (resource, tolerated, caused); a negative score stands for a missing one.
fn app_in(mode: PlacementMode, name: &str, terms: &[(&str, f64, f64)]) -> App {
    let mut profile = TEMPLATE.clone();
    profile.workload.name = name.into();
    profile.resources.clear();
    for (id, tolerated, caused) in terms {
        let mut entry = ResourceEntry::without_numbers(Status::Unresolved, "too noisy");
        entry.tolerated = (*tolerated >= 0.0).then(|| score(*tolerated));
        entry.caused = (*caused >= 0.0).then(|| score(*caused));
        entry.placement = Some(Placement {
            mode,
            cpus: vec![1],
        });
        profile.resources.insert(id.to_string(), entry);
    }
    App::new(&profile)
}

fn app(name: &str, terms: &[(&str, f64, f64)]) -> App {
    app_in(PlacementMode::SharedLlc, name, terms)
}

fn node(name: &str, cpus: u32) -> Node {
    Node {
        name: name.into(),
        cpus,
        memory_bytes: 8 << 30,
        platform: None,
        shares_cpus: false,
    }
}

fn nth(cluster: &Cluster, index: usize) -> NodeId {
    cluster.ids().nth(index).unwrap()
}

fn cluster(nodes: &[(&str, &[&App])]) -> Cluster {
    let mut cluster = Cluster::new(nodes.iter().map(|(name, _)| node(name, 8))).unwrap();
    for (name, residents) in nodes {
        for resident in *residents {
            let node = cluster.id(name).unwrap();
            cluster.admit(node, Arc::new((*resident).clone())).unwrap();
        }
    }
    cluster
}

/// One decision in words, for the application's usual demand.
fn place(
    mut policy: impl Policy,
    app: &App,
    cluster: &Cluster,
) -> Result<Explanation, NoPlacement> {
    let app = Arc::new(app.clone());
    let (choice, decision) = policy.place(&PlacementRequest::of(&app), cluster)?;
    assert_eq!(cluster.name(choice.node()), decision.node);
    Ok(decision)
}

fn mended() -> Paragon {
    Paragon::new(Greedy {
        mended: true,
        ..Greedy::default()
    })
}

#[test]
fn aggregates_are_the_sum_of_c_and_the_least_t() {
    let a = app("a", &[("llc-capacity", 70.0, 20.0)]);
    let b = app("b", &[("llc-capacity", 40.0, 35.0)]);
    let new = app("new", &[("llc-capacity", 60.0, 30.0)]);
    let cluster = cluster(&[("n", &[&a, &b])]);
    let comparison = &compare(&new, &cluster, nth(&cluster, 0))[0];
    assert_eq!(comparison.node_tolerates, Some(40.0));
    assert_eq!(comparison.node_causes, Some(55.0));
    assert_eq!((comparison.d1, comparison.d2), (Some(10.0), Some(5.0)));
}

#[test]
fn an_empty_node_tolerates_all_and_causes_nothing() {
    let new = app("new", &[("llc-capacity", 60.0, 30.0)]);
    let cluster = cluster(&[("n", &[])]);
    let comparison = &compare(&new, &cluster, nth(&cluster, 0))[0];
    assert_eq!((comparison.d1, comparison.d2), (Some(70.0), Some(60.0)));
}

#[test]
fn ibench_l1_takes_an_overrun_for_a_close_fit_and_paragon_does_not() {
    // n1: D1 = 40 − 50 = −10, D2 = 50 − 55 = −5: distance 15, an overrun.
    // n2: D1 = 80 − 50 = +30, D2 = 50 − 20 = +30: distance 60, headroom.
    let heavy = app("heavy", &[("memory-bandwidth", 40.0, 55.0)]);
    let light = app("light", &[("memory-bandwidth", 80.0, 20.0)]);
    let new = app("new", &[("memory-bandwidth", 50.0, 50.0)]);
    let cluster = cluster(&[("n1", &[&heavy]), ("n2", &[&light])]);
    assert_eq!(place(IbenchL1, &new, &cluster).unwrap().node, "n1");
    let decision = place(Paragon::default(), &new, &cluster).unwrap();
    assert_eq!(decision.node, "n2");
    assert_eq!(
        decision.deciding.resource.as_deref(),
        Some("memory-bandwidth")
    );
    assert!(decision.relaxed.is_empty());
    assert_eq!(decision.runners_up[0].node, "n1");
}

#[test]
fn of_empty_nodes_that_are_alike_the_first_is_taken() {
    let new = app("new", &[("llc-capacity", 50.0, 60.0)]);
    let decision = place(
        Paragon::default(),
        &new,
        &cluster(&[("n1", &[]), ("n2", &[])]),
    )
    .unwrap();
    assert_eq!(decision.node, "n1");
    assert!(
        decision.deciding.why.contains("alike"),
        "{:?}",
        decision.deciding
    );
    let decision = place(Paragon::default(), &new, &cluster(&[("n1", &[])])).unwrap();
    assert!(decision.deciding.why.contains("the only node"));
}

#[test]
fn paragon_takes_the_tightest_of_those_that_hurt_nobody() {
    // |D1 + D2|: empty 90 + 80 = 170; used (60 − 10) + (80 − 40) = 90.
    let used = app("used", &[("llc-capacity", 60.0, 40.0)]);
    let new = app("new", &[("llc-capacity", 80.0, 10.0)]);
    let cluster = cluster(&[("empty", &[]), ("used", &[&used])]);
    let decision = place(Paragon::default(), &new, &cluster).unwrap();
    assert_eq!(decision.node, "used");
    assert!(
        decision
            .deciding
            .why
            .contains("90.0 points, 170.0 on empty")
    );
}

#[test]
fn paragon_gives_up_the_latest_condition_only() {
    // Order: D1 llc (c 60), D1 memory-bandwidth (c 10); D2 llc (t 30), D2 memory-bandwidth (t 70).
    // n1 misses D1 llc by 20 (40 − 60); n2 misses D2 memory-bandwidth by 10 (70 − 80).
    // Given up first: D2 memory-bandwidth, the latest. That suffices for n2.
    let on_n1 = app(
        "a",
        &[
            ("llc-capacity", 40.0, 10.0),
            ("memory-bandwidth", 90.0, 5.0),
        ],
    );
    let on_n2 = app(
        "b",
        &[
            ("llc-capacity", 90.0, 10.0),
            ("memory-bandwidth", 90.0, 80.0),
        ],
    );
    let new = app(
        "new",
        &[
            ("llc-capacity", 30.0, 60.0),
            ("memory-bandwidth", 70.0, 10.0),
        ],
    );
    let cluster = cluster(&[("n1", &[&on_n1]), ("n2", &[&on_n2])]);
    let decision = place(Paragon::default(), &new, &cluster).unwrap();
    assert_eq!(decision.node, "n2");
    assert_eq!(decision.relaxed.len(), 1);
    assert_eq!(decision.relaxed[0].direction, Direction::D2);
    assert_eq!(decision.relaxed[0].resource, "memory-bandwidth");
    assert_eq!(decision.relaxed[0].shortfall, 10.0);

    let strict = Paragon::new(Greedy {
        strict: true,
        ..Greedy::default()
    });
    let refusal = place(strict, &new, &cluster).unwrap_err();
    assert_eq!(refusal.nodes.len(), 2);
    assert!(!refusal.never);
    assert!(refusal.to_string().contains("(D1 −20)"), "{refusal}");
}

#[test]
fn paragon_goes_back_several_levels_and_mended_takes_back_what_was_not_needed() {
    // Both nodes miss D1 llc, the first and most important condition: all four
    // are given up in turn.
    // ‖D1 + D2‖₁: n1 |30 − 60 + 50 − 20| + |90 − 10 + 70 − 5| = 0 + 145;
    // n2 |50 − 60 + 50 − 20| + 145 = 20 + 145. Paragon takes n1, which misses
    // by 30; n2 misses by 10.
    let on_n1 = app(
        "a",
        &[
            ("llc-capacity", 30.0, 20.0),
            ("memory-bandwidth", 90.0, 5.0),
        ],
    );
    let on_n2 = app(
        "b",
        &[
            ("llc-capacity", 50.0, 20.0),
            ("memory-bandwidth", 90.0, 5.0),
        ],
    );
    let new = app(
        "new",
        &[
            ("llc-capacity", 50.0, 60.0),
            ("memory-bandwidth", 70.0, 10.0),
        ],
    );
    let cluster = cluster(&[("n1", &[&on_n1]), ("n2", &[&on_n2])]);
    for (policy, node, shortfall) in [(Paragon::default(), "n1", 30.0), (mended(), "n2", 10.0)] {
        let decision = place(policy, &new, &cluster).unwrap();
        assert_eq!(decision.node, node);
        assert_eq!(decision.relaxed.len(), 1);
        assert_eq!(decision.relaxed[0].direction, Direction::D1);
        assert_eq!(decision.relaxed[0].resource, "llc-capacity");
        assert_eq!(decision.relaxed[0].shortfall, shortfall);
        assert!(decision.deciding.why.contains("no node has headroom"));
    }
}

#[test]
fn mended_enforces_again_what_one_node_meets() {
    // Important first: D1 llc, D1 memory-bandwidth; D2 memory-bandwidth, D2 llc.
    // Both nodes miss D1 llc by 10, so that all is given up. n1 also misses D2
    // llc (50 − 60), n2 does not; n1 is the tighter fit.
    let on_n1 = app(
        "a",
        &[
            ("llc-capacity", 50.0, 60.0),
            ("memory-bandwidth", 90.0, 5.0),
        ],
    );
    let on_n2 = app(
        "b",
        &[
            ("llc-capacity", 50.0, 20.0),
            ("memory-bandwidth", 95.0, 5.0),
        ],
    );
    let new = app(
        "new",
        &[
            ("llc-capacity", 50.0, 60.0),
            ("memory-bandwidth", 40.0, 10.0),
        ],
    );
    let cluster = cluster(&[("n1", &[&on_n1]), ("n2", &[&on_n2])]);
    let literal = place(Paragon::default(), &new, &cluster).unwrap();
    assert_eq!((literal.node.as_str(), literal.relaxed.len()), ("n1", 2));
    let mended = place(mended(), &new, &cluster).unwrap();
    assert_eq!((mended.node.as_str(), mended.relaxed.len()), ("n2", 1));
}

#[test]
fn out_of_steps_still_places_and_says_so() {
    // One condition of D1 and one of D2 per node; the steps suffice for one
    // node. n1 is looked at first, n2 would fit better.
    let loose = app("loose", &[("llc-capacity", 100.0, 5.0)]);
    let tight = app("tight", &[("llc-capacity", 70.0, 30.0)]);
    let new = app("new", &[("llc-capacity", 50.0, 60.0)]);
    let cluster = cluster(&[("n1", &[&loose]), ("n2", &[&tight])]);
    let stopped = Paragon::new(Greedy {
        max_steps: 3,
        ..Greedy::default()
    });
    let decision = place(stopped, &new, &cluster).unwrap();
    assert_eq!(decision.node, "n1");
    assert!(decision.notes[0].contains("stopped at the limit"));
    let decision = place(Paragon::default(), &new, &cluster).unwrap();
    assert_eq!(decision.node, "n2");
    assert!(decision.notes.is_empty(), "{:?}", decision.notes);
}

/// Nodes of platform types `x` (0), `y` (1), `z` (2).
fn typed_cluster(nodes: &[(&str, &str)]) -> Cluster {
    Cluster::new(nodes.iter().map(|(name, platform)| Node {
        platform: Some(platform.to_string()),
        ..node(name, 8)
    }))
    .unwrap()
}

#[test]
fn paragon_prefers_the_platform_only_among_those_that_hurt_nobody() {
    // slow is the tighter fit, fast the better platform, best the best platform
    // of all, but its resident bears nothing.
    let mut cluster = typed_cluster(&[("slow", "x"), ("fast", "y"), ("best", "z")]);
    for (node, tolerated) in [("slow", 60.0), ("fast", 90.0), ("best", 10.0)] {
        let resident = app("r", &[("llc-capacity", tolerated, 10.0)]);
        let node = cluster.id(node).unwrap();
        cluster.admit(node, Arc::new(resident)).unwrap();
    }
    let new = app("new", &[("llc-capacity", 50.0, 40.0)]);
    let new = new.with_platform_speed(vec![Some(0.5), Some(0.8), Some(1.0)]);
    let decision = place(Paragon::default(), &new, &cluster).unwrap();
    assert_eq!(decision.node, "fast");
    assert_eq!(decision.deciding.resource.as_deref(), Some("platform"));
    assert!(
        decision.deciding.why.contains("1.60 times"),
        "{:?}",
        decision.deciding
    );
    assert_eq!(decision.runners_up[0].node, "slow");
    let blind = place(
        Paragon::without_platforms(Greedy::default()),
        &new,
        &cluster,
    )
    .unwrap();
    assert_eq!(blind.node, "slow");
    let careless = place(PlatformOnly, &new, &cluster).unwrap();
    assert_eq!(careless.node, "best");
    assert_eq!(careless.deciding.resource.as_deref(), Some("platform"));

    // Where its speed on `x` is not known, `slow` stands beside `fast`.
    let new = new.with_platform_speed(vec![None, Some(0.8), Some(1.0)]);
    let decision = place(Paragon::default(), &new, &cluster).unwrap();
    assert_eq!(decision.node, "slow");
    assert!(decision.notes[0].contains("neither preferred nor excluded"));
}

#[test]
fn platform_only_takes_the_least_loaded_of_the_best_platform() {
    let mut cluster = typed_cluster(&[("a", "x"), ("b", "y"), ("c", "y"), ("d", "x")]);
    let resident = |cpus| Arc::new(app("r", &[]).with_demand(cpus, 0));
    cluster.admit(nth(&cluster, 1), resident(5)).unwrap();
    cluster.admit(nth(&cluster, 2), resident(4)).unwrap();
    let new = app("new", &[]).with_platform_speed(vec![Some(0.5), Some(1.0)]);
    let decision = place(PlatformOnly, &new, &cluster).unwrap();
    assert_eq!(decision.node, "c");
    assert_eq!(decision.deciding.resource.as_deref(), Some("cpus"));
    // Without room there, the other platform.
    let large = new.with_demand(5, 0);
    assert_eq!(place(PlatformOnly, &large, &cluster).unwrap().node, "a");
}

#[test]
fn bin_pack_takes_the_fullest_that_fits() {
    let mut cluster = Cluster::new(["a", "b", "c", "d"].map(|name| node(name, 8))).unwrap();
    let resident = |cpus, gib: u64| Arc::new(app("r", &[]).with_demand(cpus, gib << 30));
    cluster.admit(nth(&cluster, 0), resident(4, 1)).unwrap();
    cluster.admit(nth(&cluster, 1), resident(6, 1)).unwrap();
    cluster.admit(nth(&cluster, 2), resident(6, 2)).unwrap();
    let of = |cpus| {
        place(
            ByLoad::BIN_PACK,
            &app("new", &[]).with_demand(cpus, 0),
            &cluster,
        )
        .unwrap()
    };
    let decision = of(2);
    assert_eq!(decision.node, "c");
    assert_eq!(decision.deciding.resource.as_deref(), Some("memory"));
    assert_eq!(of(3).node, "a");
    assert_eq!(of(3).deciding.resource.as_deref(), Some("cpus"));
    assert_eq!(of(5).node, "d");
}

#[test]
fn round_robin_goes_on_where_it_stopped_and_skips_what_is_full() {
    let mut cluster = Cluster::new(["a", "b", "c"].map(|name| node(name, 4))).unwrap();
    cluster
        .admit(nth(&cluster, 1), Arc::new(app("r", &[]).with_demand(4, 0)))
        .unwrap();
    let new = Arc::new(app("new", &[]));
    let mut policy = RoundRobin::default();
    let nodes: Vec<String> = (0..5)
        .map(|_| {
            policy
                .place(&PlacementRequest::of(&new), &cluster)
                .unwrap()
                .1
                .node
        })
        .collect();
    assert_eq!(nodes, ["a", "c", "a", "c", "a"]);
}

#[test]
fn random_draws_every_node_with_room_as_often_as_the_others() {
    // Of 12 nodes of two kinds, some with residents: 3 are full, 9 have room.
    let nodes = (0..12).map(|index| node(&format!("n{index}"), 4 + index % 2 * 4));
    let mut cluster = Cluster::new(nodes).unwrap();
    for (index, cpus) in [(0, 4), (1, 8), (2, 4), (3, 1), (4, 2), (5, 7)] {
        let resident = Arc::new(app("r", &[]).with_demand(cpus, 0));
        cluster.admit(nth(&cluster, index), resident).unwrap();
    }
    let new = Arc::new(app("new", &[]));
    let mut policy = Random::new(7);
    let mut drawn = [0u32; 12];
    for _ in 0..9_000 {
        let Decision::Place(choice) = policy.choose(&PlacementRequest::of(&new), &cluster) else {
            panic!("there is room");
        };
        drawn[choice.node().index()] += 1;
    }
    assert_eq!(drawn[..3], [0, 0, 0]);
    // χ² with 8 degrees of freedom: above 26.1 with chance 0.001.
    let chi2: f64 = drawn[3..]
        .iter()
        .map(|count| (f64::from(*count) - 1000.0).powi(2) / 1000.0)
        .sum();
    assert!(chi2 < 26.1, "{chi2} {drawn:?}");
}

#[test]
fn what_fits_nowhere_is_refused_for_ever_and_what_waits_is_not() {
    let mut cluster = Cluster::new(["a", "b"].map(|name| node(name, 4))).unwrap();
    for index in 0..2 {
        let resident = Arc::new(app("r", &[]).with_demand(3, 0));
        cluster.admit(nth(&cluster, index), resident).unwrap();
    }
    for kind in POLICIES {
        let mut policy = (kind.make)(&PolicyOptions::default());
        let never = Arc::new(app("huge", &[]).with_demand(5, 0));
        let answer = policy.choose(&PlacementRequest::of(&never), &cluster);
        assert_eq!(
            answer,
            Decision::Wait(Waiting::Never, None),
            "{}",
            kind.name
        );
        let refusal = policy
            .place(&PlacementRequest::of(&never), &cluster)
            .unwrap_err();
        assert!(refusal.never, "{}", kind.name);
        let later = Arc::new(app("later", &[]).with_demand(2, 0));
        let refusal = policy
            .place(&PlacementRequest::of(&later), &cluster)
            .unwrap_err();
        assert!(!refusal.never, "{}", kind.name);
        assert!(refusal.to_string().contains("1 of 4 CPUs free, 2 needed"));
    }
}

#[test]
fn least_loaded_looks_at_cpus_then_memory() {
    let mut cluster = Cluster::new([node("a", 4), node("b", 8), node("c", 8)]).unwrap();
    let resident = |cpus, memory| Arc::new(app("r", &[]).with_demand(cpus, memory));
    cluster.admit(nth(&cluster, 0), resident(2, 0)).unwrap(); // half free
    cluster
        .admit(nth(&cluster, 1), resident(2, 4 << 30))
        .unwrap(); // three quarters, half the memory
    cluster
        .admit(nth(&cluster, 2), resident(2, 1 << 30))
        .unwrap(); // three quarters, more memory
    let decision = place(ByLoad::LEAST_LOADED, &app("new", &[]), &cluster).unwrap();
    assert_eq!(decision.node, "c");
    assert_eq!(decision.deciding.resource.as_deref(), Some("memory"));
}

#[test]
fn a_missing_score_is_neither_0_nor_100() {
    let resident = app("r", &[("llc-capacity", -1.0, 30.0), ("l1d", 50.0, 5.0)]);
    let new = app(
        "new",
        &[
            ("llc-capacity", 40.0, 20.0),
            ("storage-bandwidth", 10.0, 90.0),
        ],
    );
    let cluster = cluster(&[("n", &[&resident])]);
    let comparisons = compare(&new, &cluster, nth(&cluster, 0));
    let of = |id: &str| comparisons.iter().find(|c| c.resource == id).unwrap();
    let llc = of("llc-capacity");
    assert_eq!((llc.d1, llc.d2), (None, Some(10.0)));
    assert_eq!(llc.not_known, ["r: unresolved: too noisy"]);
    assert_eq!((of("l1d").d1, of("l1d").d2), (None, None));
    assert_eq!(of("l1d").not_known, ["new: not in its profile"]);
    assert_eq!(of("storage-bandwidth").d1, None);
    assert_eq!(of("storage-bandwidth").not_known, ["r: not in its profile"]);
}

#[test]
fn scores_from_taking_turns_count_only_where_cpus_are_shared() {
    let terms = [
        ("cpu-time", 10.0, 50.0),
        ("l1d", 20.0, 60.0),
        ("llc-capacity", 30.0, 70.0),
    ];
    let turns = app_in(PlacementMode::SameCpu, "turns", &terms);
    let counted = |shares_cpus: bool| -> Vec<String> {
        let node = Node {
            shares_cpus,
            ..node("n", 8)
        };
        let mut cluster = Cluster::new([node]).unwrap();
        cluster
            .admit(nth(&cluster, 0), Arc::new(turns.clone()))
            .unwrap();
        compare(&turns, &cluster, nth(&cluster, 0))
            .into_iter()
            .filter(|comparison| comparison.not_counted.is_none() && comparison.d1.is_some())
            .map(|comparison| comparison.resource)
            .collect()
    };
    // The LLC is shared whichever CPU an application runs on.
    assert_eq!(counted(false), ["llc-capacity"]);
    assert_eq!(counted(true), ["cpu-time", "l1d", "llc-capacity"]);
}

#[test]
fn a_cluster_refuses_what_cannot_be() {
    let refusal = Cluster::new([node("a", 1), node("a", 2)]).unwrap_err();
    assert_eq!(refusal, ClusterError::DuplicateNode("a".into()));
    assert_eq!(
        Cluster::new([node("a", 0)]).unwrap_err(),
        ClusterError::NoCpu("a".into())
    );
    let mut cluster = Cluster::new([node("a", 1)]).unwrap();
    let id = cluster
        .admit(nth(&cluster, 0), Arc::new(app("x", &[])))
        .unwrap();
    assert!(matches!(
        cluster.admit(nth(&cluster, 0), Arc::new(app("y", &[]))),
        Err(ClusterError::NoRoom { .. })
    ));
    assert!(cluster.remove(id).is_some());
    assert!(cluster.remove(id).is_none());
    assert!(place(ByLoad::LEAST_LOADED, &app("x", &[]), &Cluster::default()).is_err());
}
