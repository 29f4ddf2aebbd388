//! What each path answers.

use crate::live::Live;
use serde_json::json;

#[test]
fn the_node_is_served_as_it_was_published() {
    let live = Live::start();
    let reply = live.get("/v1/node");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.body, live.board.node().unwrap().json());
    let head = live.send("HEAD /v1/node HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(
        head.header("content-length"),
        reply.header("content-length")
    );
}

#[test]
fn before_the_first_refresh_there_is_nothing_to_serve() {
    let live = Live::idle(|_, _| {});
    assert_eq!(live.get("/healthz").ok()["status"], "alive");
    for path in [
        "/readyz",
        "/v1/node",
        "/v1/workloads",
        "/v1/culprits",
        "/v1/predict",
    ] {
        let error = live.get(path).error(503);
        assert!(
            error.contains("has not read the node yet"),
            "{path}: {error}"
        );
    }
    assert_eq!(live.get("/v1/events").ok(), json!({"events": []}));
    live.board.publish(crate::made::node(1, 1));
    assert_eq!(live.get("/readyz").ok()["status"], "ready");
}

#[test]
fn who_has_not_refreshed_for_three_intervals_is_not_ready() {
    let live = Live::idle(|_, _| {});
    let mut state = crate::made::node(0, 1);
    state.interval_seconds = 0.9;
    live.board.publish(state);
    assert_eq!(live.get("/readyz").status, 200);
    std::thread::sleep(std::time::Duration::from_millis(2800));
    let error = live.get("/readyz").error(503);
    assert!(error.contains("3 s old, one is due every 0.9 s"), "{error}");
    assert_eq!(live.get("/healthz").status, 200);
}

#[test]
fn a_workload_comes_with_its_trend() {
    let live = Live::start();
    let list = live.get("/v1/workloads").ok();
    let names: Vec<_> = list["workloads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(
        names,
        [
            "gzip",
            "nightly-build",
            "redis.service",
            "shop/checkout-7f9c"
        ]
    );
    let one = live.get("/v1/workloads/redis.service").ok();
    assert_eq!(one["workload"]["kind"], "unit");
    let trend = &one["trend"];
    for key in [
        "unix_seconds",
        "cpu_percent",
        "psi_cpu_some_percent",
        "relative_performance",
    ] {
        assert_eq!(trend[key].as_array().unwrap().len(), 5, "{key}");
    }
    assert!(trend["cpu_percent"][0].as_f64().unwrap() > 70.0);
    // A name with a slash is one segment when it is encoded.
    let pod = live.get("/v1/workloads/shop%2Fcheckout-7f9c").ok();
    assert_eq!(pod["workload"]["name"], "shop/checkout-7f9c");
    assert!(pod["trend"]["relative_performance"][0].is_null());
    let error = live.get("/v1/workloads/nobody").error(404);
    assert_eq!(
        error,
        "no workload is called \"nobody\"; /v1/workloads lists all"
    );
}

#[test]
fn a_trend_keeps_the_last_refreshes_only() {
    let live = Live::idle(|_, _| {});
    for refresh in 0..400 {
        live.board.publish(crate::made::node(2, refresh));
    }
    let trend = &live.get("/v1/workloads/gzip").ok()["trend"];
    assert_eq!(trend["cpu_percent"].as_array().unwrap().len(), 360);
    // Who vanished is forgotten.
    live.board.publish(crate::made::node(1, 400));
    assert!(live.board.trend("gzip").is_none());
    assert_eq!(live.get("/v1/workloads/gzip").status, 404);
}

#[test]
fn profiles_are_listed_and_served() {
    let live = Live::start();
    let list = live.get("/v1/profiles").ok();
    let names: Vec<_> = list["profiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["gzip", "redis", "sqlite"]);
    assert!(
        list["profiles"][0]["tolerated"]["llc-capacity"].is_number(),
        "{list}"
    );
    assert_eq!(list["broken"][0]["file"], "broken.json");
    let whole = live.get("/v1/profiles/redis").ok();
    assert_eq!(whole["format"], "jostle-profile/1");
}

#[test]
fn a_newcomer_costs_the_residents_something() {
    let live = Live::start();
    let now = live.get("/v1/predict").ok();
    assert!(now.get("newcomer").is_none());
    assert_eq!(now["residents"].as_array().unwrap().len(), 3);
    assert!(now["residents"][0].get("performance_without").is_none());
    assert_eq!(now["left_out"][0]["workload"], "nightly-build");
    let joined = live.get("/v1/predict?profile=gzip&shares_cpus=true").ok();
    assert_eq!(joined["newcomer"]["name"], "gzip");
    for resident in joined["residents"].as_array().unwrap() {
        let with = resident["performance"]["value"].as_f64().unwrap();
        let without = resident["performance_without"]["value"].as_f64().unwrap();
        assert!(with > 0.0 && with < without && without <= 1.0, "{resident}");
    }
    let error = live.get("/v1/predict?profile=nobody").error(404);
    assert!(error.contains("/v1/profiles lists all"), "{error}");
    assert_eq!(live.get("/v1/predict?shares_cpus=yes").status, 400);
}

#[test]
fn a_scheduler_learns_whether_a_program_fits() {
    let live = Live::start();
    let stored = live.get("/v1/place?profile=redis&shares_cpus=true").ok();
    assert_eq!(stored["fits"], false, "{stored}");
    let reasons = stored["reasons"].as_array().unwrap();
    assert!(
        reasons[0]
            .as_str()
            .unwrap()
            .contains("% of its performance and must keep"),
        "{stored}"
    );
    assert!(stored["headroom"]["llc-capacity"].is_number());
    assert!(stored["headroom"]["network-bandwidth"]["unavailable"].is_string());
    assert!(stored["cpus"]["needed"].as_f64().unwrap() > 0.5);
    assert!(stored["memory_bytes"]["free"].as_f64().unwrap() > 1e9);
    // The same document from the outside is the same question.
    let document = live.get("/v1/profiles/redis").body;
    let posted = live
        .post("/v1/place?shares_cpus=true", "application/json", &document)
        .ok();
    assert_eq!(posted["fits"], stored["fits"]);
    let short = |answer: &serde_json::Value| answer["short"].clone();
    assert_eq!(short(&posted), short(&stored));
    // An empty node takes it.
    let mut state = crate::made::node(0, 9);
    state.resources.clear();
    live.board.publish(state);
    let empty = live.get("/v1/place?profile=redis").ok();
    assert_eq!(empty["fits"], true, "{empty}");
    assert_eq!(empty["newcomer"]["performance"]["value"], 1.0);
    // But not without memory.
    let mut full = crate::made::node(0, 10);
    full.load.memory_available_bytes = jostle_profile::reading::Reading::Value(1 << 20);
    live.board.publish(full);
    let full = live.get("/v1/place?profile=redis").ok();
    assert_eq!(full["fits"], false, "{full}");
    assert!(
        full["reasons"][0]
            .as_str()
            .unwrap()
            .contains("MiB of memory, 1.0 are free"),
        "{full}"
    );
}

#[test]
fn culprits_are_listed_by_workload() {
    let live = Live::start();
    let list = live.get("/v1/culprits").ok();
    assert_eq!(list["workloads"][2]["workload"], "redis.service");
    assert_eq!(
        list["workloads"][2]["culprits"]["suspects"][0]["name"],
        "nightly-build"
    );
    assert!(list["workloads"][0]["culprits"]["unavailable"].is_string());
}

#[test]
fn events_are_listed_after_a_number() {
    let live = Live::start();
    let all = live.get("/v1/events").ok();
    assert_eq!(all["events"].as_array().unwrap().len(), 2);
    assert_eq!(all["events"][1]["kind"], "qos-missed");
    let after = live.get("/v1/events?after=1").ok();
    assert_eq!(after["events"].as_array().unwrap().len(), 1);
    assert_eq!(live.get("/v1/events?after=2").ok()["events"], json!([]));
    // A number of an agent before this one.
    assert_eq!(live.get("/v1/events?after=99").ok(), all);
    assert_eq!(live.get("/v1/events?after=two").status, 400);
}
