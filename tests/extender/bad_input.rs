//! What a scheduler, an agent or anybody else may send, and what the API server may do.

use crate::api_server::ApiServer;
use crate::api_server::node;
use crate::api_server::pod;
use crate::common::eventually;
use crate::live::Extender;
use serde_json::Value;
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use std::time::Instant;

const NODES: [&str; 3] = ["n1", "n2", "n3"];

fn plane() -> (ApiServer, Extender) {
    let api = ApiServer::start(NODES.map(|name| node(name, 8, "a")).into());
    let extender = Extender::start(&api.url());
    (api, extender)
}

fn asks(pod: Value, names: &[&str]) -> Value {
    json!({"Pod": pod, "Nodes": null, "NodeNames": names})
}

fn scores(answer: &Value) -> Vec<u64> {
    let list = answer.as_array().expect("a list");
    list.iter()
        .map(|it| it["Score"].as_u64().unwrap())
        .collect()
}

#[test]
fn unknown_nodes_null_lists_and_foreign_annotations_are_answered() {
    let (_api, extender) = plane();
    let redis = pod("p", "redis-closed", None);
    let answer = extender
        .post("/prioritize", &asks(redis.clone(), &["n1", "elsewhere"]))
        .json();
    assert_eq!(scores(&answer), [10, 5]);
    let answer = extender
        .post("/filter", &asks(redis.clone(), &["elsewhere"]))
        .json();
    assert_eq!(answer["NodeNames"], json!(["elsewhere"]));
    for annotation in [
        json!(null),
        json!(7),
        json!({"a": []}),
        json!("none such"),
        json!(""),
    ] {
        let mut strange = redis.clone();
        strange["metadata"]["annotations"]["jostle.dev/profile"] = annotation;
        let answer = extender
            .post("/prioritize", &asks(strange.clone(), &NODES))
            .json();
        assert_eq!(scores(&answer), [0, 0, 0]);
        let answer = extender.post("/filter", &asks(strange, &NODES)).json();
        assert_eq!(answer["NodeNames"], json!(NODES));
    }
    for body in [
        json!({"Pod": null, "Nodes": null, "NodeNames": null}),
        json!({"Pod": {"metadata": {"annotations": null}, "spec": {"containers": null}}, "NodeNames": []}),
        json!({"Pod": redis, "Nodes": {"items": null}}),
        json!({}),
    ] {
        assert_eq!(extender.post("/prioritize", &body).json(), json!([]));
        let answer = extender.post("/filter", &body).json();
        assert_eq!(answer["Error"], "");
        assert_eq!(answer["FailedNodes"], json!({}));
    }
    let decisions = extender.get("/v1/decisions").json().to_string();
    assert!(decisions.contains("no profile is called"), "{decisions}");
}

#[test]
fn five_thousand_nodes_are_answered_both_ways() {
    let names: Vec<String> = (0..5000).map(|at| format!("node-{at:04}")).collect();
    let objects = names.iter().map(|name| node(name, 8, "a"));
    let objects: Vec<Value> = objects.collect();
    let api = ApiServer::start(objects.clone());
    let extender = Extender::start(&api.url());
    let redis = pod("p", "redis-closed", None);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let by_name = extender
        .post("/prioritize", &asks(redis.clone(), &names))
        .json();
    let whole = json!({"Pod": redis, "Nodes": {"items": objects}, "NodeNames": null});
    let by_node = extender.post("/prioritize", &whole).json();
    assert_eq!(by_name, by_node);
    assert_eq!(scores(&by_name).iter().filter(|it| **it == 10).count(), 1);
    // Whole nodes come back as they were sent.
    let passed = extender.post("/filter", &whole).json();
    assert_eq!(passed["Nodes"]["items"], json!(objects));
}

#[test]
fn what_is_no_request_is_refused_and_harms_nobody() {
    let (_api, extender) = plane();
    for body in [
        "",
        "{",
        "null",
        "[]",
        "\u{0}",
        "{\"Pod\":7}",
        "{\"NodeNames\":[1]}",
    ] {
        let reply = extender.ask("POST", "/filter", body);
        assert_eq!(reply.status, 400, "{body}: {}", reply.body);
    }
    let deep = "[".repeat(100_000);
    assert_eq!(extender.ask("POST", "/prioritize", &deep).status, 400);
    let nameless = json!({"Pod": pod("p", "gcc", None), "Nodes": {"items": [{"metadata": {}}]}});
    assert_eq!(extender.post("/filter", &nameless).status, 400);
    assert_eq!(extender.get("/filter").status, 405);
    assert_eq!(extender.get("/elsewhere").status, 404);
    assert_eq!(extender.get("/v1/decisions?after=x").status, 400);
    // Not read to its end: more than --most-body-mib.
    let large = "POST /filter HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n{";
    let reply = extender.send(large.as_bytes());
    assert_eq!(reply.status, 413, "{}", reply.body);
    // By DNS rebinding.
    let foreign = "GET /v1/nodes HTTP/1.1\r\nhost: example.org\r\nconnection: close\r\n\r\n";
    assert_eq!(extender.send(foreign.as_bytes()).status, 421);
    assert_eq!(extender.get("/healthz").status, 200);
}

fn state(name: &str, interval: f64, age: f64, workloads: Value) -> String {
    json!({
        "format": "jostle-node-report/1", "name": name, "recorded_at": "1970-01-01T00:00:00Z",
        "interval_seconds": interval, "age_seconds": age, "workloads": workloads,
    })
    .to_string()
}

#[test]
fn states_of_other_nodes_other_formats_and_other_sizes_are_refused() {
    let (_api, extender) = plane();
    let fine = state("n1", 10.0, 0.0, json!([]));
    let put = |path: &str, body: &str| extender.ask("PUT", path, body).status;
    assert_eq!(put("/v1/nodes/n1", &fine), 200);
    assert_eq!(put("/v1/nodes/n2", &fine), 400);
    assert_eq!(put("/v1/nodes/n9", &fine.replace("n1", "n9")), 404);
    assert_eq!(
        put("/v1/nodes/n1", &fine.replace("report/1", "report/2")),
        400
    );
    assert_eq!(put("/v1/nodes/n1", "{}"), 400);
    let large = state(
        "n1",
        10.0,
        0.0,
        json!([{"name": "x".repeat(5 << 20), "kind": "unit"}]),
    );
    assert_eq!(put("/v1/nodes/n1", &large), 413);
    assert_eq!(put("/v1/nodes/..%2f..", &fine), 400);
}

/// Ages are counted from the receipt by a clock that is never set: the node's own clock,
/// here in 1970, decides nothing.
#[test]
fn stale_states_say_their_age_and_decide_nothing() {
    let (_api, extender) = plane();
    let missed = json!([{"name": "shop", "kind": "pod", "performance":
        {"relative": 0.5, "qos_threshold": 0.95, "meets_qos": false}}]);
    let stream = asks(pod("p", "numpy-stream", None), &NODES);
    let put = |age: f64| {
        extender.ask(
            "PUT",
            "/v1/nodes/n1",
            &state("n1", 10.0, age, missed.clone()),
        )
    };
    put(1.0).json();
    let answer = extender.post("/filter", &stream).json();
    assert_eq!(answer["NodeNames"], json!(["n2", "n3"]));
    let reason = answer["FailedNodes"]["n1"].as_str().unwrap().to_string();
    assert!(
        reason.contains("shop misses its QoS now") && reason.contains("agent"),
        "{reason}"
    );
    put(600.0).json();
    let agent = extender.node("n1")["agent"].clone();
    assert_eq!(agent["stale"], true);
    assert!(agent["age_seconds"].as_f64().unwrap() >= 600.0, "{agent}");
    let answer = extender.post("/filter", &stream).json();
    assert_eq!(answer["NodeNames"], json!(NODES));
}

#[test]
fn it_goes_on_while_the_api_server_is_restarted() {
    let (mut api, extender) = plane();
    api.put("ADDED", pod("a", "gcc", Some("n1")));
    eventually("the pod is known", || {
        extender.node("n1")["residents"] == json!(["gcc"])
    });
    api.stop();
    let answer = extender
        .post("/prioritize", &asks(pod("b", "gcc", None), &NODES))
        .json();
    assert_eq!(scores(&answer).len(), 3);
    // Missed by the watch, to be found by a list.
    api.put("DELETED", pod("a", "gcc", Some("n1")));
    api.put("ADDED", pod("c", "zstd-9", Some("n3")));
    api.put("ADDED", node("n4", 8, "a"));
    api.listen();
    eventually("the cluster as it is now is known", || {
        extender.node("n1")["residents"] == json!([])
            && extender.node("n3")["residents"] == json!(["zstd-9"])
            && extender.node("n4")["name"] == "n4"
    });
    assert!(
        extender.log().contains("cannot be watched"),
        "{}",
        extender.log()
    );
}

#[test]
fn a_client_that_sends_half_a_request_keeps_nobody_waiting() {
    let (_api, extender) = plane();
    let head = "POST /filter HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{";
    let mut slow = TcpStream::connect(extender.address).unwrap();
    slow.write_all(head.as_bytes()).unwrap();
    let begin = Instant::now();
    let request = asks(pod("p", "gcc", None), &NODES);
    extender.post("/filter", &request).json();
    assert!(begin.elapsed() < Duration::from_secs(10));
}
