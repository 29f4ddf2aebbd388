//! What is sent of a node state: what decides about placement, and nothing else.

use jostle_profile::node::NodeState;
use jostle_profile::node::WorkloadKind;
use jostle_profile::node::WorkloadState;
use serde::Serialize;
use std::time::Duration;

/// The format of this document.
const FORMAT: &str = "jostle-node-report/1";

/// A state of a node, in short.
#[derive(Serialize)]
struct Report<'a> {
    format: &'static str,
    name: &'a str,
    recorded_at: &'a str,
    /// How long the state is already known, by the clock that is never set.
    age_seconds: f64,
    interval_seconds: f64,
    workloads: &'a [Entry<'a>],
}

/// A workload that misses its QoS, or runs outside of pods.
#[derive(PartialEq, Serialize)]
struct Entry<'a> {
    name: &'a str,
    kind: WorkloadKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    performance: Option<Missed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Named<'a>>,
}

#[derive(PartialEq, Serialize)]
struct Missed {
    #[serde(skip_serializing_if = "Option::is_none")]
    relative: Option<f64>,
    qos_threshold: f64,
    meets_qos: bool,
}

#[derive(PartialEq, Serialize)]
struct Named<'a> {
    name: &'a str,
}

/// The document for `state`, which is `age` old, where one comes every `interval`.
pub fn json(state: &NodeState, age: Duration, interval: Duration) -> Vec<u8> {
    let report = Report {
        format: FORMAT,
        name: &state.name,
        recorded_at: &state.recorded_at,
        age_seconds: age.as_secs_f64(),
        interval_seconds: interval.as_secs_f64(),
        workloads: &entries(state),
    };
    serde_json::to_vec(&report).expect("plain data")
}

/// Who misses its QoS and who runs outside of pods. A new state in which this differs
/// is sent at once.
pub fn gist(state: &NodeState) -> Vec<String> {
    let gist = |entry: Entry| match &entry.performance {
        Some(_) => format!("{} misses its QoS", entry.name),
        None => entry.name.to_string(),
    };
    entries(state).into_iter().map(gist).collect()
}

fn entries(state: &NodeState) -> Vec<Entry<'_>> {
    state.workloads.iter().filter_map(entry).collect()
}

fn entry(workload: &WorkloadState) -> Option<Entry<'_>> {
    let performance = workload.performance.value().and_then(|it| {
        let misses = it.meets_qos.value() == Some(&false);
        misses.then(|| Missed {
            relative: it.relative.value().copied(),
            qos_threshold: it.qos_threshold,
            meets_qos: false,
        })
    });
    let in_pod = matches!(workload.kind, WorkloadKind::Pod | WorkloadKind::Container);
    let profile = workload.profile.value().filter(|_| !in_pod);
    let profile = profile.map(|it| Named { name: &it.name });
    (performance.is_some() || profile.is_some()).then_some(Entry {
        name: &workload.name,
        kind: workload.kind,
        performance,
        profile,
    })
}
