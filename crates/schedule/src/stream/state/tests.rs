mod admission;

use super::*;
use crate::admission::Gate;
use crate::explanation::Deciding;
use crate::policies::POLICIES;
use crate::policies::PolicyOptions;
use crate::policies::by_load::ByLoad;
use crate::policies::policy_kind;
use crate::policy::Decision;
use crate::predict::Responses;
use proptest::prelude::*;

const PROFILE: &str = include_str!("../../../../../tests/fixtures/profiles/web.json");

fn node(name: &str, cpus: u32) -> Node {
    Node {
        name: name.into(),
        cpus,
        memory_bytes: 8 << 30,
        platform: None,
        shares_cpus: false,
    }
}

fn app(name: &str, cpus: u32) -> Arc<App> {
    Arc::new(App::bare(name, Responses::default()).with_demand(cpus, 1 << 30))
}

fn stream_with(policy: Box<dyn Policy>, nodes: &[(&str, u32)]) -> Stream {
    let cluster = Cluster::new(nodes.iter().map(|(name, cpus)| node(name, *cpus))).unwrap();
    Stream::new(cluster, policy, false).with_apps([app("web", 2), app("big", 4)])
}

fn stream(nodes: &[(&str, u32)]) -> Stream {
    stream_with(Box::new(ByLoad::LEAST_LOADED), nodes)
}

/// The answers as JSON, and the bookkeeping checked.
fn answers(stream: &mut Stream, line: &str) -> Vec<Value> {
    let lines = stream.handle(line);
    check(stream).unwrap();
    lines
        .iter()
        .map(|line| {
            assert!(!line.contains('\n'));
            serde_json::from_str(line).unwrap()
        })
        .collect()
}

fn one(stream: &mut Stream, line: &str) -> Value {
    let mut answers = answers(stream, line);
    assert_eq!(answers.len(), 1, "{line}: {answers:?}");
    answers.remove(0)
}

fn arrive(id: &str, app: &str) -> String {
    json!({"event": "arrive", "id": id, "app": app}).to_string()
}

/// Every job runs whole or waits whole, nobody runs twice, nobody else runs,
/// the sums are those of the residents, and no node gives more than it has.
fn check(stream: &Stream) -> Result<(), String> {
    let mut running = 0;
    for (id, job) in &stream.jobs {
        let waits = stream
            .waiting
            .get(&job.number)
            .is_some_and(|waiter| waiter.id == *id);
        if waits != job.parts.is_empty() {
            return Err(format!("{id}: waits {waits}, parts {:?}", job.parts));
        }
        for part in &job.parts {
            let resident = stream.cluster.resident(*part);
            let resident = resident.ok_or_else(|| format!("{id}: a part is gone"))?;
            if !stream.cluster.summary(resident.node).up {
                return Err(format!("{id}: runs on a node that is down"));
            }
            if !Arc::ptr_eq(&resident.app, &job.app) || stream.by_resident.get(part) != Some(id) {
                return Err(format!("{id}: runs as another"));
            }
        }
        running += job.parts.len();
    }
    if running != stream.cluster.running() || running != stream.by_resident.len() {
        return Err(format!("{running} of {}", stream.cluster.running()));
    }
    let waiting = stream.jobs.values().filter(|job| job.parts.is_empty());
    if waiting.count() != stream.waiting.len() {
        return Err("somebody waits who is not there".into());
    }
    for node in stream.cluster.ids() {
        let summary = stream.cluster.summary(node);
        if *summary != stream.cluster.recomputed(node) {
            return Err(format!("sums of {}", stream.cluster.name(node)));
        }
        if stream.cluster.cpus_used(node) > u64::from(summary.cpus) {
            return Err(format!("{} is overfull", stream.cluster.name(node)));
        }
    }
    Ok(())
}

#[test]
fn a_job_is_placed_waits_and_is_placed_when_room_appears() {
    let mut stream = stream(&[("n1", 4)]);
    let first = one(&mut stream, &arrive("a", "big"));
    assert_eq!(
        (&first["answer"], &first["node"]),
        (&json!("placed"), &json!("n1"))
    );
    assert_eq!(first["decision"]["policy"], "least-loaded");
    assert!(first["decision"].get("comparisons").is_none());
    let second = one(&mut stream, &arrive("b", "web"));
    assert_eq!(second["answer"], "waiting");
    assert_eq!(
        second["why"],
        "no node has the room now: n1: 0 of 4 CPUs free, 2 needed"
    );
    one(&mut stream, &arrive("c", "web"));
    let left = answers(&mut stream, r#"{"event":"depart","id":"a"}"#);
    assert_eq!(left[0], json!({"answer": "departed", "id": "a"}));
    assert_eq!((&left[1]["id"], &left[2]["id"]), (&json!("b"), &json!("c")));
    assert_eq!(left[2]["answer"], "placed");
    assert_eq!(left.len(), 3);
}

#[test]
fn what_fits_nowhere_says_so_and_waits_for_a_larger_node() {
    let mut stream = stream(&[("n1", 2)]);
    let answer = one(&mut stream, &arrive("a", "big"));
    let why = answer["why"].as_str().unwrap();
    assert!(
        why.starts_with("no node could take it, even up and empty"),
        "{why}"
    );
    let up = r#"{"event":"node-up","name":"n2","cpus":8,"memory":"8GiB","platform":"P"}"#;
    let came = answers(&mut stream, up);
    assert_eq!(came[0], json!({"answer": "node-up", "name": "n2"}));
    assert_eq!(came[1]["node"], "n2");
}

#[test]
fn a_node_lost_sends_its_applications_elsewhere_and_comes_back_as_it_was() {
    let mut stream = stream(&[("n1", 4), ("n2", 4)]);
    for id in ["a", "b", "c"] {
        one(&mut stream, &arrive(id, "web"));
    }
    // Least loaded: a on n1, b on n2, c on n1.
    let lost = answers(&mut stream, r#"{"event":"node-down","name":"n1"}"#);
    assert_eq!(
        lost[0],
        json!({"answer": "node-down", "displaced": 2, "name": "n1"})
    );
    assert_eq!(
        (&lost[1]["id"], &lost[1]["node"]),
        (&json!("a"), &json!("n2"))
    );
    assert_eq!(
        (&lost[2]["id"], &lost[2]["answer"]),
        (&json!("c"), &json!("waiting"))
    );
    assert_eq!(lost[2]["from"], "n1");
    let error = one(&mut stream, r#"{"event":"node-down","name":"n1"}"#);
    assert_eq!(error["message"], "key `name`: node `n1` is down already");
    let other = one(&mut stream, r#"{"event":"node-up","name":"n1","cpus":9}"#);
    assert!(other["message"].as_str().unwrap().contains("key `cpus`"));
    let back = answers(&mut stream, r#"{"event":"node-up","name":"n1"}"#);
    assert_eq!(
        (&back[1]["id"], &back[1]["node"]),
        (&json!("c"), &json!("n1"))
    );
}

#[test]
fn a_profile_may_come_with_the_event_and_change_later() {
    let mut stream = stream(&[("n1", 4)]);
    let mut event: Value = serde_json::from_str(&arrive("a", "mine")).unwrap();
    event["profile"] = serde_json::from_str(PROFILE).unwrap();
    event["cpus"] = json!(3);
    event["memory"] = json!("2GiB");
    let placed = one(&mut stream, &event.to_string());
    assert_eq!(placed["answer"], "placed", "{placed}");
    assert_eq!(
        placed["decision"]["parts"],
        json!([{"node": "n1", "cpus": 3}])
    );
    let state = one(&mut stream, r#"{"event":"state"}"#);
    let resident = &state["nodes"][0]["residents"][0];
    let expected = json!({"id": "a", "app": "mine", "cpus": 3, "memory_bytes": 2u64 << 30});
    assert_eq!(*resident, expected);
    let node = stream.cluster.id("n1").unwrap();
    let before = stream.cluster.summary(node).clone();
    let changed = one(
        &mut stream,
        r#"{"event":"profile-changed","id":"a","app":"web"}"#,
    );
    assert_eq!(changed, json!({"answer": "profile-changed", "id": "a"}));
    let after = stream.cluster.summary(node);
    assert_ne!(before.caused, after.caused, "the sums follow");
    assert_eq!(before.free_cpus, after.free_cpus, "the demand stays");
}

#[test]
fn what_ran_before_can_leave() {
    let mut cluster = Cluster::new([node("n1", 4)]).unwrap();
    let n1 = cluster.id("n1").unwrap();
    for _ in 0..2 {
        cluster.admit(n1, app("web", 2)).unwrap();
    }
    let mut stream = Stream::new(cluster, Box::new(ByLoad::LEAST_LOADED), true);
    assert_eq!(
        one(&mut stream, r#"{"event":"depart","id":"n1/web/2"}"#)["answer"],
        "departed"
    );
    let state = one(&mut stream, r#"{"event":"state"}"#);
    assert_eq!(state["nodes"][0]["cpus_free"], 2);
}

#[test]
fn explained_decisions_are_whole() {
    let mut stream = Stream::new(
        Cluster::new([node("n1", 4)]).unwrap(),
        Box::new(ByLoad::LEAST_LOADED),
        true,
    )
    .with_apps([app("web", 2)]);
    let placed = one(&mut stream, &arrive("a", "web"));
    assert!(placed["decision"]["comparisons"].is_array());
}

#[test]
fn bad_lines_earn_one_error_each_and_change_nothing() {
    let mut stream = stream(&[("n1", 4)]);
    one(&mut stream, &arrive("a", "web"));
    let state = stream.state();
    let newer = PROFILE
        .replace("jostle-profile/1", "jostle-profile/2")
        .replace('\n', " ");
    let off = PROFILE
        .replacen("\"score\": ", "\"score\": 7", 1)
        .replace('\n', " ");
    let cases = [
        ("garbage", "not a JSON object"),
        ("[\"state\"]", "not a JSON object"),
        ("{", "EOF while parsing an object at column 1"),
        ("{\"event\":\"state\"} {}", "trailing characters"),
        ("{}", "missing field `event`"),
        ("{\"event\":7}", "key `event`: invalid type"),
        (
            "{\"event\":\"leave\"}",
            "no event is called `leave`; there are arrive, depart",
        ),
        (
            "{\"event\":\"state\",\"id\":\"a\"}",
            "key `id`: `state` has none",
        ),
        ("{\"event\":\"state\",\"color\":1}", "unknown field `color`"),
        ("{\"event\":\"state\",\"at\":-1}", "key `at`: is -1"),
        (
            "{\"event\":\"depart\"}",
            "key `id` is missing; `depart` needs it",
        ),
        (
            "{\"event\":\"depart\",\"id\":\"zz\"}",
            "no job is called `zz`",
        ),
        (&arrive("a", "web"), "`a` is here already"),
        (
            &arrive("b", "nginx"),
            "no profile of `nginx`; send it as `profile`",
        ),
        (
            "{\"event\":\"arrive\",\"id\":\"b\"}",
            "needs `app` or `profile`",
        ),
        (
            "{\"event\":\"arrive\",\"id\":\" \",\"app\":\"web\"}",
            "key `id`: is empty",
        ),
        (
            "{\"event\":\"arrive\",\"id\":\"b\",\"app\":\"web\",\"cpus\":0}",
            "key `cpus`: is 0",
        ),
        (
            "{\"event\":\"arrive\",\"id\":\"b\",\"app\":\"web\",\"cpus\":-3}",
            "key `cpus`: is -3",
        ),
        (
            "{\"event\":\"arrive\",\"id\":\"b\",\"app\":\"web\",\"cpus\":1.5}",
            "key `cpus`: invalid",
        ),
        (
            "{\"event\":\"arrive\",\"id\":\"b\",\"app\":\"web\",\"memory\":\"8\"}",
            "no unit",
        ),
        (
            "{\"event\":\"arrive\",\"id\":\"b\",\"app\":\"web\",\"target\":0}",
            "key `target`",
        ),
        (
            "{\"event\":\"arrive\",\"id\":\"b\",\"id\":\"c\",\"app\":\"web\"}",
            "duplicate field",
        ),
        (
            &format!("{{\"event\":\"arrive\",\"id\":\"b\",\"profile\":{newer}}}"),
            "key `profile.format`: format \"jostle-profile/2\" needs a newer jostle",
        ),
        (
            &format!("{{\"event\":\"arrive\",\"id\":\"b\",\"profile\":{off}}}"),
            "key `profile.resources.cpu-time.tolerated.score`: is 730; the scale is 0 to 100",
        ),
        (
            "{\"event\":\"arrive\",\"id\":\"b\",\"profile\":{\"format\":1}}",
            "key `profile`: not a jostle profile: `format` is 1",
        ),
        (
            "{\"event\":\"arrive\",\"id\":\"b\",\"profile\":{\"format\":\"jostle-profile/1\",\"workload\":5}}",
            "key `profile.workload`: invalid type: integer `5`, expected struct Workload",
        ),
        (
            "{\"event\":\"node-reading\",\"name\":\"n1\",\"state\":{\"format\":\"jostle-node/2\"}}",
            "key `state.format`: format \"jostle-node/2\" needs a newer jostle",
        ),
        (
            "{\"event\":\"node-up\",\"name\":\"n1\"}",
            "`n1` is up already",
        ),
        (
            "{\"event\":\"node-up\",\"name\":\"n2\",\"cpus\":4}",
            "key `memory` is missing",
        ),
        (
            "{\"event\":\"node-up\",\"name\":\"n2\",\"cpus\":4000000000,\"memory\":\"1GiB\"}",
            "at most 16384",
        ),
        (
            "{\"event\":\"node-down\",\"name\":\"n7\"}",
            "no node is called `n7`; known: `n1`",
        ),
        (
            "{\"event\":\"profile-changed\",\"id\":\"zz\",\"app\":\"web\"}",
            "no job is called `zz`",
        ),
        (
            "{\"event\":\"move-cost\",\"seconds\":-1}",
            "key `seconds`: is -1",
        ),
    ];
    for (index, (line, says)) in cases.iter().enumerate() {
        let answer = one(&mut stream, line);
        assert_eq!(answer["answer"], "error", "{line}");
        assert_eq!(answer["line"], index as u64 + 2, "{line}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(says), "{line}: {message}");
    }
    assert_eq!(stream.state(), state);
    assert!(stream.handle("  ").is_empty());
}

#[test]
fn time_does_not_run_back() {
    let mut stream = stream(&[("n1", 4)]);
    one(&mut stream, r#"{"event":"state","at":10}"#);
    let error = one(&mut stream, r#"{"event":"state","at":9}"#);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("does not run back")
    );
    assert_eq!(
        one(&mut stream, r#"{"event":"depart","id":"z","at":20}"#)["answer"],
        "error"
    );
    assert_eq!(
        one(&mut stream, r#"{"event":"state","at":11}"#)["answer"],
        "state"
    );
}

/// Queues at two nodes when they are full, and moves to n2 whatever changes.
struct Restless;

impl Policy for Restless {
    fn name(&self) -> &'static str {
        "restless"
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        match cluster.ids().find(|node| request.may_use(cluster, *node)) {
            Some(node) => Decision::place(node, request),
            None => Decision::QueueAt(cluster.ids().skip(1).take(2).collect()),
        }
    }

    fn why(&self, _: &PlacementRequest, _: &Cluster, _: &Choice) -> Deciding {
        Deciding::because("first")
    }

    fn runner_up(&self, _: &PlacementRequest, _: &Cluster, _: NodeId) -> String {
        "not first".into()
    }

    fn reconsider(
        &mut self,
        resident: ResidentId,
        cluster: &Cluster,
        seconds_left: f64,
        costs: &MigrationCosts,
    ) -> Option<Choice> {
        let app = &cluster.resident(resident)?.app;
        let worth = seconds_left > costs.p95().unwrap_or(0.0);
        worth.then(|| Choice::on(NodeId(1), &PlacementRequest::of(app)))
    }
}

#[test]
fn a_queued_job_is_bound_to_the_first_of_its_queues_with_room() {
    let mut stream = stream_with(Box::new(Restless), &[("n1", 2), ("n2", 2), ("n3", 2)]);
    for id in ["a", "b", "c"] {
        one(&mut stream, &arrive(id, "web"));
    }
    let waits = one(&mut stream, &arrive("d", "web"));
    assert_eq!(
        waits["why"],
        "the first of `n2`, `n3` to have room takes it"
    );
    // n1 is not one of its queues.
    one(&mut stream, r#"{"event":"depart","id":"a"}"#);
    let left = answers(&mut stream, r#"{"event":"depart","id":"c"}"#);
    assert_eq!(
        (&left[1]["id"], &left[1]["node"]),
        (&json!("d"), &json!("n3"))
    );
}

#[test]
fn a_job_whose_queues_are_all_down_is_asked_about_anew() {
    let mut stream = stream_with(Box::new(Restless), &[("n1", 2), ("n2", 2), ("n3", 2)]);
    for id in ["a", "b", "c", "d"] {
        one(&mut stream, &arrive(id, "web"));
    }
    one(&mut stream, r#"{"event":"depart","id":"a"}"#);
    answers(&mut stream, r#"{"event":"node-down","name":"n2"}"#);
    answers(&mut stream, r#"{"event":"node-down","name":"n3"}"#);
    // b took n1; c and d wait. Both leave it to whoever comes first.
    let left = answers(&mut stream, r#"{"event":"depart","id":"b"}"#);
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(left[1]["node"], "n1");
}

#[test]
fn a_policy_may_move_what_changes_unless_moving_has_cost_too_much() {
    let mut stream = stream_with(Box::new(Restless), &[("n1", 2), ("n2", 2)]);
    one(&mut stream, &arrive("a", "web"));
    let costs = r#"{"event":"move-cost","seconds":60}"#;
    assert_eq!(one(&mut stream, costs)["answer"], "noted");
    let changed = r#"{"event":"profile-changed","id":"a","app":"web","seconds_left":50}"#;
    assert_eq!(answers(&mut stream, changed).len(), 1);
    let changed = changed.replace("50", "70");
    let moved = answers(&mut stream, &changed);
    assert_eq!(moved[1]["answer"], "moved");
    assert_eq!(
        (&moved[1]["from"], &moved[1]["node"]),
        (&json!("n1"), &json!("n2"))
    );
    assert_eq!(
        answers(&mut stream, &changed).len(),
        1,
        "it is there already"
    );
}

#[test]
fn lines_of_any_kind_are_read_and_the_stream_goes_on() {
    let mut input = Vec::new();
    input.extend_from_slice(b"\xff\xfe\n");
    input.extend(std::iter::repeat_n(b'x', super::super::LONGEST_LINE + 1));
    input.extend_from_slice(b"\n\r\n");
    input.extend_from_slice(arrive("a", "web").as_bytes());
    input.extend_from_slice(b"\r\n{\"event\":\"state\"}");
    let mut output = Vec::new();
    let mut stream = stream(&[("n1", 4)]);
    stream.run(&input[..], &mut output).unwrap();
    let output = String::from_utf8(output).unwrap();
    let answers: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<&str> = answers
        .iter()
        .map(|a| a["answer"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["error", "error", "placed", "state"]);
    assert!(
        answers[0]["message"]
            .as_str()
            .unwrap()
            .contains("not UTF-8")
    );
    assert!(
        answers[1]["message"]
            .as_str()
            .unwrap()
            .contains("longer than")
    );
    assert_eq!(answers[1]["line"], 2);
}

/// A line that is mostly sensible: few names, so that they meet.
fn any_line() -> impl Strategy<Value = String> {
    let id = || (0..12u32).prop_map(|id| format!("j{id}"));
    let node = || (0..5u32).prop_map(|node| format!("n{node}"));
    let app = || prop::sample::select(vec!["web", "big", "gone"]);
    prop_oneof![
        6 => (id(), app(), prop::option::of(1..6u32), any::<bool>()).prop_map(
            |(id, app, cpus, spread)| {
                json!({"event": "arrive", "id": id, "app": app, "cpus": cpus, "spread": spread})
                    .to_string()
            }
        ),
        1 => id().prop_map(|id| {
            let profile: Value = serde_json::from_str(PROFILE).unwrap();
            json!({"event": "arrive", "id": id, "profile": profile}).to_string()
        }),
        4 => id().prop_map(|id| json!({"event": "depart", "id": id}).to_string()),
        2 => (node(), 1..9u32).prop_map(|(name, cpus)| {
            json!({"event": "node-up", "name": name, "cpus": cpus, "memory": "6GiB"}).to_string()
        }),
        2 => node().prop_map(|name| json!({"event": "node-up", "name": name}).to_string()),
        2 => node().prop_map(|name| json!({"event": "node-down", "name": name}).to_string()),
        2 => (id(), app(), -1.0..100.0f64).prop_map(|(id, app, left)| {
            json!({"event": "profile-changed", "id": id, "app": app, "seconds_left": left})
                .to_string()
        }),
        1 => (-5.0..50.0f64).prop_map(|at| json!({"event": "state", "at": at}).to_string()),
        1 => ".*",
        1 => (0..arrive("j1", "web").len()).prop_map(|end| arrive("j1", "web")[..end].into()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn no_stream_breaks_the_books(
        lines in proptest::collection::vec(any_line(), 1..60),
        policy in 0..POLICIES.len() + 1,
        seed in any::<u64>(),
    ) {
        let options = PolicyOptions { seed, ..PolicyOptions::default() };
        let make = || -> Box<dyn Policy> {
            match POLICIES.get(policy) {
                Some(kind) => (policy_kind(kind.name).unwrap().make)(&options),
                None => Box::new(Restless),
            }
        };
        let nodes = [("n0", 4), ("n1", 6)];
        let (mut stream, mut again) = (stream_with(make(), &nodes), stream_with(make(), &nodes));
        for line in &lines {
            let answers = stream.handle(line);
            prop_assert!(check(&stream).is_ok(), "{:?} after {line}", check(&stream));
            prop_assert!(line.trim().is_empty() || !answers.is_empty(), "{line}");
            for answer in &answers {
                let answer: Value = serde_json::from_str(answer).unwrap();
                prop_assert!(answer["answer"].is_string());
            }
            prop_assert_eq!(again.handle(line), answers, "the same again");
        }
    }
}

/// With its length known, a job may wait for a better place, no longer than it
/// could gain by that, and takes what there is in the end.
#[test]
fn a_job_of_known_length_may_wait_for_a_better_place() {
    use crate::predict::Curve;
    use crate::predict::GRID_STEP;
    use crate::predict::LANES;
    use crate::predict::LaneSet;
    use crate::predict::Responses;
    use crate::predict::lane;
    let llc = lane("llc-capacity").unwrap();
    let app = |name: &str, loss: f32, caused: f32| {
        let ln = std::array::from_fn(|step| -loss * step as f32 * GRID_STEP);
        let mut causes = [None; LANES];
        causes[llc] = Some((caused, 0.0));
        let curve = Curve::new(llc, ln, [1e-6; crate::predict::GRID]);
        let responses = Responses::new(vec![curve], LaneSet::EMPTY, &causes);
        let mut app = App::bare(name, responses);
        app.set_scores(llc, Some(50.0), Some(f64::from(caused)));
        Arc::new(app)
    };
    let policy = Box::new(crate::policies::jostle::Jostle::new(1, false));
    let mut stream = Stream::new(Cluster::default(), policy, false)
        .with_apps([app("rough", 0.0, 50.0), app("delicate", 0.01, 0.0)]);
    let mut say = |line: &str| stream.handle(line).join("\n");
    say(r#"{"event":"node-up","name":"n1","cpus":8,"memory":"8GiB"}"#);
    let placed = say(r#"{"event":"arrive","id":"r","app":"rough"}"#);
    assert!(placed.contains("placed"), "{placed}");
    // 1/e^−0.5 − 1/0.88 = 0.512 of its 1,000 s can be gained.
    let held = say(r#"{"event":"arrive","id":"d","app":"delicate","seconds":1000,"at":10}"#);
    assert!(held.contains("waiting"), "{held}");
    let held = say(r#"{"event":"move-cost","seconds":1,"at":500}"#);
    assert!(!held.contains("placed"), "{held}");
    let placed = say(r#"{"event":"move-cost","seconds":1,"at":523}"#);
    assert!(placed.contains(r#""id":"d","node":"n1""#), "{placed}");
}

#[test]
fn what_would_grow_without_end_is_refused() {
    let mut stream = stream(&[("n", 4)]);
    let refused = |stream: &mut Stream, line: String| {
        let answer = answers(stream, &line).remove(0);
        assert_eq!(answer["answer"], "error", "{answer}");
        answer["message"].as_str().unwrap().to_string()
    };
    let long = "x".repeat(1025);
    for line in [
        format!(r#"{{"event":"arrive","id":"{long}","app":"web"}}"#),
        format!(r#"{{"event":"arrive","id":"a","app":"{long}"}}"#),
        format!(r#"{{"event":"node-up","name":"{long}","cpus":1,"memory":"1GiB"}}"#),
        format!(r#"{{"event":"node-up","name":"m","cpus":1,"memory":"1GiB","platform":"{long}"}}"#),
    ] {
        assert!(refused(&mut stream, line).contains("1025 bytes; at most 1024"));
    }
    for (key, line) in [
        ("at", r#"{"event":"state","at":1e13}"#),
        ("seconds", r#"{"event":"move-cost","seconds":1e300}"#),
        (
            "target",
            r#"{"event":"arrive","id":"a","app":"web","target":1e300}"#,
        ),
    ] {
        let message = refused(&mut stream, line.into());
        assert!(message.contains(&format!("key `{key}`")), "{message}");
    }
    let cost = |seconds| format!(r#"{{"event":"move-cost","seconds":{seconds}}}"#);
    for seconds in 0..1500 {
        stream.handle(&cost(seconds));
    }
    assert_eq!(stream.costs.seconds.len(), 1000);
    assert_eq!(stream.costs.seconds.first(), Some(&500.0));
    let up = |number| {
        let cpus = crate::error::MOST_CPUS;
        format!(r#"{{"event":"node-up","name":"m{number}","cpus":{cpus},"memory":"1GiB"}}"#)
    };
    for number in 1..1024 {
        assert_eq!(answers(&mut stream, &up(number))[0]["answer"], "node-up");
    }
    let message = refused(&mut stream, up(1024));
    assert!(message.contains("more than 16777216 CPUs"), "{message}");
}
