//! What an agent last said of its node.

use serde::Deserialize;
use std::time::Duration;
use std::time::Instant;

/// States older than this many intervals of their agent are stale.
const INTERVALS: f64 = 3.0;
/// Short intervals get this much.
const LEAST: Duration = Duration::from_secs(15);

/// What is read of `jostle-node-report/1`, or of `jostle-node/1`, which has more.
#[derive(Debug, Deserialize)]
pub struct NodeDocument {
    pub format: String,
    pub name: String,
    pub recorded_at: String,
    pub interval_seconds: f64,
    /// How old the state was when it was sent.
    #[serde(default)]
    pub age_seconds: f64,
    #[serde(default)]
    pub workloads: Vec<WorkloadPart>,
}

/// What is read of a workload.
#[derive(Debug, Deserialize)]
pub struct WorkloadPart {
    pub name: String,
    pub kind: String,
    #[serde(default)]
    pub performance: Option<PerformancePart>,
    #[serde(default)]
    pub profile: Option<ProfilePart>,
}

/// Without `meets_qos` it is unavailable.
#[derive(Debug, Deserialize)]
pub struct PerformancePart {
    #[serde(default)]
    pub meets_qos: Option<Part<bool>>,
    #[serde(default)]
    pub relative: Option<Part<f64>>,
    #[serde(default)]
    pub qos_threshold: Option<f64>,
}

/// A value, or the reason why there is none.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub enum Part<T> {
    Value(T),
    Unavailable {},
}

impl<T: Copy> Part<T> {
    fn value(self) -> Option<T> {
        match self {
            Part::Value(value) => Some(value),
            Part::Unavailable {} => None,
        }
    }
}

#[derive(Debug, Deserialize)]
pub struct ProfilePart {
    #[serde(default)]
    pub name: Option<String>,
}

impl NodeDocument {
    /// # Errors
    /// It is none, in words.
    pub fn parse(text: &[u8]) -> Result<NodeDocument, String> {
        let document: NodeDocument =
            serde_json::from_slice(text).map_err(|error| format!("no node state: {error}"))?;
        let format = &document.format;
        let known = |name: &str| {
            let version = format.strip_prefix(name);
            version.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if !known("jostle-node-report/1") && !known("jostle-node/1") {
            let shown: String = format.chars().take(40).collect();
            return Err(format!("format \"{shown}\" is not jostle-node-report/1"));
        }
        let interval = document.interval_seconds;
        if !(0.0..=86_400.0).contains(&interval) {
            return Err(format!("interval_seconds = {interval} is no interval"));
        }
        let age = document.age_seconds;
        if !(0.0..=86_400.0).contains(&age) {
            return Err(format!("age_seconds = {age} is no age"));
        }
        Ok(document)
    }
}

/// A workload that misses its QoS now, by its own metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Missed {
    pub workload: String,
    /// In words.
    pub text: String,
}

/// A node as its agent saw it.
#[derive(Clone, Debug)]
pub struct Live {
    /// When its agent saw it, by the clock of the extender.
    pub seen: Instant,
    /// By the clock of the node; shown, never compared.
    pub recorded_at: String,
    /// After this it is stale.
    pub fresh_for: Duration,
    pub missed: Vec<Missed>,
    /// Names of the profiles of what runs there outside of pods.
    pub outside: Vec<String>,
}

impl Live {
    pub fn of(document: NodeDocument, received: Instant) -> Live {
        let fresh = Duration::from_secs_f64(INTERVALS * document.interval_seconds);
        let age = Duration::from_secs_f64(document.age_seconds);
        let mut live = Live {
            // The clock may have begun later than that.
            seen: received.checked_sub(age).unwrap_or(received),
            recorded_at: document.recorded_at,
            fresh_for: fresh.max(LEAST),
            missed: Vec::new(),
            outside: Vec::new(),
        };
        for workload in document.workloads {
            if let Some(missed) = missed(&workload) {
                live.missed.push(missed);
            }
            let in_pod = matches!(workload.kind.as_str(), "pod" | "container");
            if !in_pod && let Some(name) = workload.profile.and_then(|it| it.name) {
                live.outside.push(name);
            }
        }
        live.outside.sort_unstable();
        live
    }

    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.seen)
    }

    pub fn is_fresh(&self, now: Instant) -> bool {
        self.age(now) <= self.fresh_for
    }
}

fn missed(workload: &WorkloadPart) -> Option<Missed> {
    let performance = workload.performance.as_ref()?;
    let meets = performance.meets_qos?.value()?;
    if meets {
        return None;
    }
    let name = &workload.name;
    let relative = performance.relative.and_then(Part::value);
    let text = match (relative, performance.qos_threshold) {
        (Some(relative), Some(threshold)) => format!(
            "{name} misses its QoS now: it runs at {:.0} % of its usual performance and must keep {:.0} %",
            100.0 * relative,
            100.0 * threshold
        ),
        _ => format!("{name} misses its QoS now"),
    };
    Some(Missed {
        workload: name.clone(),
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn live(workloads: serde_json::Value) -> Live {
        let document = json!({
            "format": "jostle-node/1", "name": "n1", "recorded_at": "2026-01-01T00:00:00Z",
            "interval_seconds": 10.0, "workloads": workloads, "more": [1, 2],
        });
        let text = document.to_string();
        let document = NodeDocument::parse(text.as_bytes()).expect("a node state");
        Live::of(document, Instant::now())
    }

    #[test]
    fn what_misses_its_qos_and_what_runs_outside_of_pods_is_kept() {
        let performance = |meets: serde_json::Value| json!({"relative": 0.8, "qos_threshold": 0.95, "meets_qos": meets});
        let live = live(json!([
            {"name": "a", "kind": "pod", "performance": performance(json!(false)), "profile": {"name": "a"}},
            {"name": "b", "kind": "unit", "performance": performance(json!(true)), "profile": {"name": "b"}},
            {"name": "c", "kind": "process", "performance": {"unavailable": "no metric"}, "profile": {"unavailable": "none"}},
            {"name": "d", "kind": "unit", "performance": performance(json!({"unavailable": "no baseline"}))},
        ]));
        let missed: Vec<&str> = live.missed.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(
            missed,
            ["a misses its QoS now: it runs at 80 % of its usual performance and must keep 95 %"]
        );
        assert_eq!(live.outside, ["b"]);
    }

    #[test]
    fn a_state_is_stale_after_three_intervals() {
        let live = live(json!([]));
        let after = |seconds| live.seen + Duration::from_secs(seconds);
        assert!(live.is_fresh(after(29)) && !live.is_fresh(after(31)));
        // A clock that seems to go backwards.
        assert!(live.is_fresh(live.seen));
    }

    #[test]
    fn other_documents_are_refused() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"format":"jostle-profile/1","name":"n","recorded_at":"","interval_seconds":1}"#,
            r#"{"format":"jostle-node/1","name":"n","recorded_at":"","interval_seconds":-1}"#,
            r#"{"format":"jostle-node-report/1","name":"n","recorded_at":"","interval_seconds":1,"age_seconds":1e99}"#,
            r#"{"format":"jostle-node/10","name":"n","recorded_at":"","interval_seconds":1}"#,
        ] {
            assert!(NodeDocument::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
