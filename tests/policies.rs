//! Policies by hand-computed cases, and what must hold of any cluster.

use jostle::profile;
use jostle::profile::Placement;
use jostle::profile::PlacementMode;
use jostle::profile::Profile;
use jostle::profile::ResourceEntry;
use jostle::profile::Score;
use jostle::profile::Status;
use jostle::schedule::App;
use jostle::schedule::Cluster;
use jostle::schedule::ClusterError;
use jostle::schedule::Headroom;
use jostle::schedule::IbenchL1;
use jostle::schedule::LeastLoaded;
use jostle::schedule::Node;
use jostle::schedule::Policy;
use jostle::schedule::Side;
use jostle::schedule::compare;
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::LazyLock;

static TEMPLATE: LazyLock<Profile> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    profile::load(&root.join("tests/fixtures/profiles/web.json")).unwrap()
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

fn cluster(nodes: &[(&str, &[&App])]) -> Cluster {
    let mut cluster = Cluster::new(nodes.iter().map(|(name, _)| node(name, 8))).unwrap();
    for (name, residents) in nodes {
        for resident in *residents {
            cluster.admit(name, Arc::new((*resident).clone())).unwrap();
        }
    }
    cluster
}

#[test]
fn aggregates_are_the_sum_of_c_and_the_least_t() {
    let a = app("a", &[("llc-capacity", 70.0, 20.0)]);
    let b = app("b", &[("llc-capacity", 40.0, 35.0)]);
    let new = app("new", &[("llc-capacity", 60.0, 30.0)]);
    let cluster = cluster(&[("n", &[&a, &b])]);
    let comparison = &compare(&new, &cluster.nodes()[0])[0];
    assert_eq!(comparison.node_tolerates, Some(40.0));
    assert_eq!(comparison.node_causes, Some(55.0));
    assert_eq!((comparison.d1, comparison.d2), (Some(10.0), Some(5.0)));
}

#[test]
fn an_empty_node_tolerates_all_and_causes_nothing() {
    let new = app("new", &[("llc-capacity", 60.0, 30.0)]);
    let comparison = &compare(&new, &cluster(&[("n", &[])]).nodes()[0])[0];
    assert_eq!((comparison.d1, comparison.d2), (Some(70.0), Some(60.0)));
}

#[test]
fn ibench_l1_takes_an_overrun_for_a_close_fit_and_headroom_does_not() {
    // n1: D1 = 40 − 50 = −10, D2 = 50 − 55 = −5: distance 15, an overrun.
    // n2: D1 = 80 − 50 = +30, D2 = 50 − 20 = +30: distance 60, headroom.
    let heavy = app("heavy", &[("memory-bandwidth", 40.0, 55.0)]);
    let light = app("light", &[("memory-bandwidth", 80.0, 20.0)]);
    let new = app("new", &[("memory-bandwidth", 50.0, 50.0)]);
    let cluster = cluster(&[("n1", &[&heavy]), ("n2", &[&light])]);
    assert_eq!(IbenchL1.place(&new, &cluster).unwrap().node, "n1");
    let decision = Headroom::default().place(&new, &cluster).unwrap();
    assert_eq!(decision.node, "n2");
    assert_eq!(
        decision.deciding.resource.as_deref(),
        Some("memory-bandwidth")
    );
    assert!(decision.relaxed.is_empty());
    assert_eq!(decision.runners_up[0].node, "n1");
}

#[test]
fn headroom_takes_the_tightest_of_those_that_hurt_nobody() {
    // |D1 + D2|: empty 90 + 80 = 170; used (60 − 10) + (80 − 40) = 90.
    let used = app("used", &[("llc-capacity", 60.0, 40.0)]);
    let new = app("new", &[("llc-capacity", 80.0, 10.0)]);
    let cluster = cluster(&[("empty", &[]), ("used", &[&used])]);
    let decision = Headroom::default().place(&new, &cluster).unwrap();
    assert_eq!(decision.node, "used");
    assert!(
        decision
            .deciding
            .why
            .contains("90.0 points, 170.0 on empty")
    );
}

#[test]
fn headroom_gives_up_the_latest_condition_only() {
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
    let decision = Headroom::default().place(&new, &cluster).unwrap();
    assert_eq!(decision.node, "n2");
    assert_eq!(decision.relaxed.len(), 1);
    assert_eq!(decision.relaxed[0].side, Side::D2);
    assert_eq!(decision.relaxed[0].resource, "memory-bandwidth");
    assert_eq!(decision.relaxed[0].shortfall, 10.0);

    let strict = Headroom {
        relax: false,
        ..Headroom::default()
    };
    let refusal = strict.place(&new, &cluster).unwrap_err();
    assert_eq!(refusal.nodes.len(), 2);
    assert!(refusal.to_string().contains("(D1 −20)"), "{refusal}");
}

#[test]
fn headroom_goes_back_several_levels_and_takes_back_what_was_not_needed() {
    // Both nodes miss D1 llc, the first and most important condition: all are
    // given up in turn, then all but that one are enforced again. n1 misses by
    // 30, n2 by 10, though ‖D1 + D2‖₁ alone would take n1.
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
    let decision = Headroom::default().place(&new, &cluster).unwrap();
    assert_eq!(decision.node, "n2");
    assert_eq!(decision.relaxed.len(), 1);
    assert_eq!(decision.relaxed[0].side, Side::D1);
    assert_eq!(decision.relaxed[0].resource, "llc-capacity");
    assert_eq!(decision.relaxed[0].shortfall, 10.0);
    assert!(decision.deciding.why.contains("misses by the least"));
}

#[test]
fn out_of_steps_still_places_and_says_so() {
    let new = app("new", &[("llc-capacity", 50.0, 60.0)]);
    let policy = Headroom {
        max_steps: 1,
        ..Headroom::default()
    };
    let decision = policy
        .place(&new, &cluster(&[("n1", &[]), ("n2", &[])]))
        .unwrap();
    assert!(decision.notes[0].contains("stopped after 1 conditions"));
}

#[test]
fn least_loaded_looks_at_cpus_then_memory() {
    let mut cluster = Cluster::new([node("a", 4), node("b", 8), node("c", 8)]).unwrap();
    let resident = |cpus, memory| Arc::new(app("r", &[]).with_demand(cpus, memory));
    cluster.admit("a", resident(2, 0)).unwrap(); // half free
    cluster.admit("b", resident(2, 4 << 30)).unwrap(); // three quarters, half the memory
    cluster.admit("c", resident(2, 1 << 30)).unwrap(); // three quarters, more memory
    let decision = LeastLoaded.place(&app("new", &[]), &cluster).unwrap();
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
    let comparisons = compare(&new, &cluster.nodes()[0]);
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
        cluster.admit("n", Arc::new(turns.clone())).unwrap();
        compare(&turns, &cluster.nodes()[0])
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
    let id = cluster.admit("a", Arc::new(app("x", &[]))).unwrap();
    assert!(matches!(
        cluster.admit("a", Arc::new(app("y", &[]))),
        Err(ClusterError::NoRoom { .. })
    ));
    assert!(cluster.remove("b", id).is_none());
    assert!(cluster.remove("a", id).is_some());
    assert!(cluster.remove("a", id).is_none());
    assert!(
        LeastLoaded
            .place(&app("x", &[]), &Cluster::default())
            .is_err()
    );
}

const IDS: [&str; 5] = [
    "cpu-time",
    "l1d",
    "llc-capacity",
    "memory-bandwidth",
    "elsewhere",
];

fn any_app() -> impl Strategy<Value = App> {
    let one = prop_oneof![Just(-1.0), 0.0..=100.0f64];
    let mode = prop_oneof![Just(PlacementMode::SameCpu), Just(PlacementMode::SharedLlc)];
    let terms = vec((0..IDS.len(), one.clone(), one), 0..5);
    (mode, terms, 1u32..4, 0u64..4).prop_map(|(mode, terms, cpus, gib)| {
        let terms: Vec<(&str, f64, f64)> = terms
            .into_iter()
            .map(|(id, t, c)| (IDS[id], t, c))
            .collect();
        app_in(mode, "any", &terms).with_demand(cpus, gib << 30)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn capacity_holds_and_aggregates_equal_recomputed(
        steps in vec((any_app(), 0usize..4, any::<prop::sample::Index>()), 1..40),
        shares in any::<bool>(),
        max_steps in prop_oneof![Just(3u64), Just(1_000_000u64)],
    ) {
        let nodes = [("a", 2), ("b", 4), ("c", 6)].map(|(name, cpus)| Node {
            shares_cpus: shares,
            ..node(name, cpus)
        });
        let mut cluster = Cluster::new(nodes).unwrap();
        let mut running = Vec::new();
        let headroom = Headroom { max_steps, ..Headroom::default() };
        let policies: [&dyn Policy; 3] = [&LeastLoaded, &IbenchL1, &headroom];
        for (app, action, which) in steps {
            if action < 3 {
                match policies[action].place(&app, &cluster) {
                    Ok(decision) => {
                        let relaxed = &decision.relaxed;
                        prop_assert!(relaxed.iter().all(|relaxed| relaxed.shortfall > 0.0));
                        let admitted = cluster.admit(&decision.node, Arc::new(app));
                        running.push((decision.node, admitted.unwrap()));
                    }
                    Err(_) => prop_assert!(cluster.nodes().iter().all(|n| n.lacks(&app).is_some())),
                }
            } else if !running.is_empty() {
                let (node, id) = running.swap_remove(which.index(running.len()));
                prop_assert!(cluster.remove(&node, id).is_some());
            }
            for state in cluster.nodes() {
                prop_assert!(state.cpus_used() <= u64::from(state.node().cpus));
                prop_assert!(state.memory_used() <= u128::from(state.node().memory_bytes));
                prop_assert_eq!(state.aggregates(), &state.recomputed_aggregates());
            }
        }
    }

    /// Without anything given up, nobody is expected to be hurt.
    #[test]
    fn headroom_hurts_nobody_unless_it_says_so(residents in vec(any_app(), 0..5), new in any_app()) {
        let mut cluster = Cluster::new([node("a", 8), node("b", 8)]).unwrap();
        for (index, resident) in residents.into_iter().enumerate() {
            let _ = cluster.admit(["a", "b"][index % 2], Arc::new(resident));
        }
        if let Ok(decision) = Headroom::default().place(&new, &cluster) {
            let below = decision
                .comparisons
                .iter()
                .flat_map(|comparison| [comparison.d1, comparison.d2])
                .flatten()
                .filter(|d| *d < 0.0)
                .count();
            prop_assert_eq!(below, decision.relaxed.len());
        }
    }
}
