use super::*;
use crate::serve::extender::live::Live;
use crate::serve::extender::live::NodeDocument;
use crate::serve::extender::profiles::Files;
use crate::serve::extender::profiles::Profiles;
use crate::serve::extender::world::Site;
use serde_json::json;
use std::time::Duration;

const NODES: [&str; 3] = ["n1", "n2", "n3"];

fn world() -> World {
    let redis = include_bytes!("../../../profiles/redis-closed.json").to_vec();
    let stream = include_bytes!("../../../profiles/numpy-stream.json").to_vec();
    let xz = include_bytes!("../../../profiles/xz.json").to_vec();
    let files = Files::from([
        ("xz.json".to_string(), xz),
        ("redis.json".to_string(), redis),
        ("stream.json".to_string(), stream),
    ]);
    let mut world = World::default();
    world.set_profiles(Arc::new(Profiles::of(&files)));
    world.replace_nodes(NODES.map(site).into());
    world
}

fn site(name: &str) -> Site {
    Site {
        name: name.into(),
        cpus: 8,
        shares_cpus: false,
    }
}

fn pod(name: &str, profile: serde_json::Value, node: Option<&str>) -> Pod {
    let annotations = json!({ANNOTATION: profile});
    let metadata = json!({"name": name, "namespace": "d", "uid": name, "annotations": annotations});
    let pod = json!({"metadata": metadata, "spec": {"nodeName": node}});
    serde_json::from_value(pod).expect("a pod")
}

fn bound(world: &mut World, name: &str, profile: &str, node: &str) {
    world.set_pod(&pod(name, json!(profile), Some(node)));
}

#[test]
fn the_best_alone_gets_ten_and_unknown_nodes_are_neutral() {
    let mut world = world();
    bound(&mut world, "a", "stream", "n1");
    // It loses a third beside a stream.
    let newcomer = pod("b", json!("xz"), None);
    let names = ["n1", "n2", "n3", "elsewhere"];
    let scored = world.prioritize(&newcomer, &names, Instant::now());
    assert_eq!(scored.decision.node.as_deref(), Some("n2"));
    assert_eq!((scored.scores[1], scored.scores[3]), (BEST, NEUTRAL));
    assert_eq!(scored.decision.unknown_nodes, 1);
    assert!(scored.scores[0] <= scored.scores[2] && scored.scores[2] < BEST);
    assert!(!scored.decision.why.is_empty());
}

#[test]
fn a_pod_on_its_way_counts_until_it_is_asked_about_again() {
    let mut world = world();
    let now = Instant::now();
    let first = pod("a", json!("stream"), None);
    world.prioritize(&first, &NODES, now);
    assert_eq!(world.counts(now).residents, 1);
    world.prioritize(&first, &NODES, now);
    assert_eq!(world.counts(now).residents, 1);
    // It was bound elsewhere.
    bound(&mut world, "a", "stream", "n3");
    assert_eq!(world.residents(world.node("n3").expect("a node")).len(), 1);
    world.prioritize(&pod("b", json!("redis"), None), &NODES, now);
    world.tick(now + Duration::from_secs(11));
    assert_eq!(world.counts(now).residents, 1);
}

#[test]
fn pods_without_a_usable_profile_are_all_alike_and_never_refused() {
    let mut world = world();
    let strange = [
        json!(null),
        json!(""),
        json!(7),
        json!({"a": 1}),
        json!("nobody"),
    ];
    for profile in strange {
        let newcomer = pod("a", profile, None);
        let now = Instant::now();
        let filtered = world.filter(&newcomer, &NODES, true, now);
        assert!(filtered.refused.iter().all(Option::is_none));
        let scored = world.prioritize(&newcomer, &NODES, now);
        assert_eq!(scored.scores, [0, 0, 0]);
        assert_eq!(world.counts(now).residents, 0);
    }
    let scored = world.prioritize(&pod("a", json!("redis"), None), &[], Instant::now());
    assert!(scored.scores.is_empty());
}

#[test]
fn a_node_that_misses_its_qos_is_refused_while_its_agent_is_fresh() {
    let mut world = world();
    let document = json!({
        "format": "jostle-node/1", "name": "n2", "recorded_at": "2026-01-01T00:00:00Z",
        "interval_seconds": 10.0,
        "workloads": [{"name": "shop", "kind": "pod", "performance":
            {"relative": 0.8, "qos_threshold": 0.95, "meets_qos": false}}],
    });
    let document = NodeDocument::parse(document.to_string().as_bytes()).expect("a state");
    let now = Instant::now();
    world.set_live("n2", Live::of(document, now));
    let newcomer = pod("a", json!("stream"), None);
    let filtered = world.filter(&newcomer, &NODES, false, now);
    let reason = filtered.refused[1].as_deref().expect("refused");
    assert!(reason.contains("shop misses its QoS now"), "{reason}");
    assert!(filtered.refused[0].is_none() && filtered.refused[2].is_none());
    // With no other node left it passes, unless that is forbidden.
    assert!(world.filter(&newcomer, &["n2"], false, now).refused[0].is_none());
    assert!(world.filter(&newcomer, &["n2"], true, now).refused[0].is_some());
    let later = now + Duration::from_secs(31);
    assert!(world.filter(&newcomer, &NODES, true, later).refused[1].is_none());
}

#[test]
fn expectations_alone_refuse_nodes_only_where_strict() {
    let mut world = world();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        bound(&mut world, name, "stream", "n1");
    }
    let newcomer = pod("z", json!("stream"), None);
    let now = Instant::now();
    let filtered = world.filter(&newcomer, &NODES, false, now);
    assert!(filtered.refused.iter().all(Option::is_none));
    let filtered = world.filter(&newcomer, &NODES, true, now);
    let reason = filtered.refused[0].as_deref().expect("refused");
    assert!(reason.contains("% of its performance"), "{reason}");
    assert!(filtered.refused[1].is_none() && filtered.refused[2].is_none());
}

#[test]
fn nodes_and_pods_come_and_go_in_any_order() {
    let mut world = world();
    let now = Instant::now();
    bound(&mut world, "a", "redis", "n9");
    assert_eq!(world.counts(now).residents, 0);
    world.set_node(site("n9"));
    assert_eq!(world.counts(now).residents, 1);
    world.remove_node("n9");
    assert_eq!(world.counts(now).residents, 0);
    world.set_node(Site {
        cpus: 16,
        ..site("n9")
    });
    assert_eq!(world.counts(now).residents, 1);
    world.set_profiles(Arc::new(Profiles::default()));
    assert_eq!(world.counts(now).residents, 0);
    world.replace_pods(&[]);
    assert_eq!(world.counts(now).pods, 0);
}
