//! `/metrics` is what Prometheus reads.

use crate::live::Live;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;

/// By name: type and samples, of the text format.
struct Scrape {
    types: BTreeMap<String, String>,
    samples: Vec<(String, String, f64)>,
}

fn scrape(live: &Live) -> Scrape {
    let reply = live.get("/metrics");
    assert_eq!(reply.status, 200);
    let media = reply.header("content-type").unwrap();
    assert!(
        media.starts_with("application/openmetrics-text; version=1.0.0"),
        "{media}"
    );
    let text = String::from_utf8(reply.body).unwrap();
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut found = Scrape {
        types: BTreeMap::new(),
        samples: Vec::new(),
    };
    let mut helped = BTreeSet::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(help.len() > 10, "{line}");
            assert!(helped.insert(name.to_string()), "{name} is there twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(helped.contains(name), "{line}");
            found.types.insert(name.into(), kind.into());
        } else if !line.starts_with("# UNIT ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
            let labels = labels.strip_suffix('}').unwrap_or(labels).to_string();
            found.samples.push((name.into(), labels, value));
        }
    }
    found
}

impl Scrape {
    fn value(&self, name: &str, labels: &str) -> Option<f64> {
        let mut found = self
            .samples
            .iter()
            .filter(|it| it.0 == name && it.1 == labels);
        found.next().map(|it| it.2)
    }

    fn names(&self) -> BTreeSet<&str> {
        let suffixes = ["_total", "_bucket", "_sum", "_count"];
        let types = self.types.keys().map(String::as_str);
        let samples = self.samples.iter().map(|it| it.0.as_str());
        let names: BTreeSet<&str> = samples.chain(types).collect();
        for name in &names {
            let family = suffixes.iter().find_map(|it| name.strip_suffix(it));
            let typed = self.types.contains_key(*name);
            assert!(
                typed || self.types.contains_key(family.unwrap_or(name)),
                "{name} has no type"
            );
        }
        names
    }
}

#[test]
fn numbers_are_in_base_units() {
    let live = Live::start();
    live.get("/v1/profiles/nobody");
    live.get("/made/up/by/a/client");
    let now = scrape(&live);
    let value = |name: &str, labels: &str| {
        let found = now.value(name, labels);
        found.unwrap_or_else(|| panic!("no {name}{{{labels}}}"))
    };
    assert_eq!(value("jostle_node_cpus", ""), 16.0);
    assert_eq!(value("jostle_agent_cpus_used", ""), 0.0021);
    assert_eq!(value("jostle_node_memory_bytes", ""), 68_719_476_736.0);
    assert_eq!(value("jostle_node_refreshes_total", ""), 5.0);
    assert_eq!(
        value("jostle_node_pressure_stalled_ratio", "resource=\"cpu\""),
        0.031
    );
    let llc = "resource=\"llc-capacity\"";
    assert_eq!(value("jostle_node_resource_caused_ratio", llc), 0.74);
    let redis = "workload=\"redis.service\"";
    assert_eq!(value("jostle_workload_meets_qos", redis), 1.0);
    let slowed = "workload=\"redis.service\",by=\"nightly-build\"";
    assert!((value("jostle_workload_slowed_ratio", slowed) - 0.074).abs() < 1e-12);
    assert_eq!(value("jostle_events_total", "kind=\"qos-missed\""), 1.0);
    let at = value("jostle_workload_profile_recorded_timestamp_seconds", redis);
    assert_eq!(at, 1_795_415_400.0);
    // Paths as in the table, never as they were sent.
    let requests = "jostle_http_requests_total";
    let route = "route=\"/v1/profiles/{name}\",method=\"GET\",code=\"404\"";
    assert_eq!(value(requests, route), 1.0);
    let other = "route=\"other\",method=\"other\",code=\"404\"";
    assert_eq!(value(requests, other), 1.0);
}

#[test]
fn what_is_unavailable_is_left_out() {
    let live = Live::start();
    let now = scrape(&live);
    let absent = "resource=\"network-bandwidth\"";
    assert_eq!(
        now.value("jostle_node_resource_headroom_ratio", absent),
        None
    );
    let none = "workload=\"nightly-build\"";
    assert_eq!(
        now.value("jostle_workload_relative_performance_ratio", none),
        None
    );
    assert_eq!(now.value("jostle_workload_profiled", none), Some(0.0));
    // Before the first refresh there is still the server.
    let early = Live::idle(|_, _| {});
    let names = scrape(&early);
    let names = names.names();
    assert!(names.contains("jostle_http_connections") && !names.contains("jostle_node_cpus"));
}

#[test]
fn names_keep_to_the_conventions() {
    let live = Live::start();
    let now = scrape(&live);
    now.names();
    for (name, kind) in &now.types {
        assert!(name.starts_with("jostle_"), "{name}");
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(name.chars().all(plain), "{name}");
        assert!(
            !name.contains("percent") && !name.ends_with("_total"),
            "{name}"
        );
        assert!(
            ["gauge", "counter", "histogram"].contains(&kind.as_str()),
            "{name} {kind}"
        );
    }
    assert!(now.types.len() >= 40, "{}", now.types.len());
}

#[test]
fn a_name_cannot_break_out_of_its_label() {
    let live = Live::start();
    let mut state = crate::made::node(1, 6);
    state.workloads[0].name = "a\"} 1\njostle_made_up 2\\".into();
    live.board.publish(state);
    let now = scrape(&live);
    assert!(!now.names().contains("jostle_made_up"));
}

#[test]
fn every_name_of_the_grafana_dashboard_is_exported() {
    let live = Live::start();
    live.get("/healthz");
    let now = scrape(&live);
    let exported = now.names();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/grafana/jostle-node.json");
    let text = std::fs::read_to_string(path).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut expressions = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            expressions.push(target["expr"].as_str().unwrap().to_string());
        }
    }
    assert!(expressions.len() >= 10, "{expressions:?}");
    let mut used = BTreeSet::new();
    for expression in &expressions {
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        used.extend(
            expression
                .split(word)
                .filter(|it| it.starts_with("jostle_")),
        );
    }
    let unknown: Vec<_> = used.difference(&exported).collect();
    assert!(unknown.is_empty(), "not exported: {unknown:?}");
}
