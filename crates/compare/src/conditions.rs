//! Whether two profiles were measured alike.

use jostle_profile::LoadFacts;
use jostle_profile::MetricFacts;
use jostle_profile::PlacementMode;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use serde::Serialize;

/// Settings that are read from a clock or a kernel differ by this much at most
/// where they are the same.
const LIKE: f64 = 0.05;
/// Turns that the scheduler gives are measured, and vary.
const LIKE_TURNS: f64 = 0.3;

/// How the profiles differ in what was measured, and not in what came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Kebab case; stays the same between versions.
    pub code: &'static str,
    pub message: String,
    /// Whether the comparison would say nothing about the program.
    pub refuses: bool,
}

/// All that differs, what refuses first.
pub fn notices(old: &Profile, new: &Profile) -> Vec<Notice> {
    let mut found = Vec::new();
    let mut say = |refuses: bool, code: &'static str, message: String| {
        found.push(Notice {
            code,
            message,
            refuses,
        });
    };
    let [a, b] = [&old.workload, &new.workload];
    if a.name != b.name {
        let message = format!("the names differ: {} and {}", a.name, b.name);
        say(false, "name", message);
    }
    let [a, b] = [&old.machine, &new.machine];
    if a.model != b.model || a.cpus != b.cpus || a.caches != b.caches || a.smt != b.smt {
        let of = |it: &jostle_profile::MachineFacts| format!("{} with {} CPUs", it.model, it.cpus);
        let message = format!("the machines differ: {} and {}", of(a), of(b));
        say(true, "machine", message);
    } else if a.fingerprint != b.fingerprint {
        let message = format!(
            "the machines are alike, and not the same: fingerprint {} (kernel {}) and {} (kernel {})",
            a.fingerprint, a.kernel, b.fingerprint, b.kernel
        );
        say(false, "machine-alike", message);
    }
    let [a, b] = [&old.metric, &new.metric];
    if kind(a) != kind(b) {
        let message = format!(
            "the metrics differ: {} in {} and {} in {}",
            a.name, a.unit, b.name, b.unit
        );
        say(true, "metric", message);
    } else if a.name != b.name {
        let message = format!(
            "the metrics are of one kind, and not the same: {} and {}",
            a.name, b.name
        );
        say(false, "metric-alike", message);
    }
    if let Some(difference) = load_difference(a.load.as_ref(), b.load.as_ref()) {
        say(true, "load", format!("the load differs: {difference}"));
    }
    let [a, b] = [&old.conditions, &new.conditions];
    if !slices_alike(old, new) {
        let message = "sources that time-share the CPU ran in other slices; resources measured so \
                       are not compared";
        say(false, "slice", message.into());
    }
    let turn = |it: &Profile| {
        let turn = it
            .conditions
            .scheduler
            .as_ref()?
            .turn_seconds
            .value()?
            .value;
        Some(turn * 1e3)
    };
    if let (Some(a), Some(b)) = (turn(old), turn(new))
        && !alike(a, b, LIKE_TURNS)
    {
        let message = format!(
            "the scheduler gave turns of {a:.1} ms and {b:.1} ms: losses on a shared CPU depend on them"
        );
        say(false, "turns", message);
    }
    if a.target_cpus.len() != b.target_cpus.len() {
        let message = format!(
            "the program had {} CPUs in the old profile and {} in the new one",
            a.target_cpus.len(),
            b.target_cpus.len()
        );
        say(false, "cpus", message);
    }
    if old.qos.threshold != new.qos.threshold {
        let message = format!(
            "tolerated is not compared: the QoS thresholds are {} and {}",
            old.qos.threshold, new.qos.threshold
        );
        say(false, "qos", message);
    }
    if a.tool_version != b.tool_version {
        let message = format!(
            "measured by jostle {} and {}",
            a.tool_version, b.tool_version
        );
        say(false, "tool", message);
    }
    for (which, profile) in [("old", old), ("new", new)] {
        if profile.partial {
            let message = format!("the {which} profile was cut short");
            say(false, "partial", message);
        }
    }
    found.sort_by_key(|notice| !notice.refuses);
    found
}

/// What makes two metrics comparable: the way of reading, without the function
/// or the pattern, which another build may have elsewhere.
fn kind(metric: &MetricFacts) -> (String, &str, jostle_profile::Direction) {
    let mut parts = metric.name.split(':');
    let way: Vec<&str> = match parts.next() {
        Some("progress") => ["progress"].into_iter().chain(parts.next()).collect(),
        first => first.into_iter().collect(),
    };
    (way.join(":"), metric.unit.as_str(), metric.direction)
}

fn load_difference(old: Option<&LoadFacts>, new: Option<&LoadFacts>) -> Option<String> {
    let (old, new) = match (old, new) {
        (None, None) => return None,
        (Some(old), Some(new)) => (old, new),
        _ => return Some("only one was measured under a load".into()),
    };
    if old.url_kind != new.url_kind || old.arrivals != new.arrivals {
        return Some(format!(
            "{} ({:?}) and {} ({:?})",
            old.url_kind, old.arrivals, new.url_kind, new.arrivals
        ));
    }
    let scheme = |load: &LoadFacts| load.url.split("://").next().map(str::to_string);
    if scheme(old) != scheme(new) {
        return Some(format!("{} and {}", old.url, new.url));
    }
    if old.requests != new.requests {
        return Some("they asked for different requests".into());
    }
    if old.connection_per_request != new.connection_per_request {
        return Some("only one made a connection for each request".into());
    }
    if old.http2 != new.http2 {
        return Some("only one used HTTP/2".into());
    }
    let numbers = [
        (
            "requests per second",
            old.rate_per_second,
            new.rate_per_second,
        ),
        (
            "connections",
            Some(old.connections as f64),
            Some(new.connections as f64),
        ),
        (
            "requests in a pipeline",
            Some(old.pipeline as f64),
            Some(new.pipeline as f64),
        ),
        (
            "bytes a value",
            old.value_bytes.map(|it| it as f64),
            new.value_bytes.map(|it| it as f64),
        ),
        ("% reads", old.read_percent, new.read_percent),
    ];
    // A share of the capacity is meant to be the same share of another capacity.
    let by_share = match (old.share_percent, new.share_percent) {
        (Some(a), Some(b)) => alike(a, b, LIKE),
        _ => false,
    };
    let differ = numbers.into_iter().find(|(what, a, b)| match (a, b) {
        (Some(_), Some(_)) if by_share && *what == "requests per second" => false,
        (Some(a), Some(b)) => !alike(*a, *b, LIKE),
        (a, b) => a.is_some() != b.is_some(),
    });
    differ.map(|(what, a, b)| {
        let [a, b] = [a, b].map(|it| it.map_or("unknown".into(), |it: f64| format!("{it:.0}")));
        format!("{a} and {b} {what}")
    })
}

fn alike(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * a.abs().max(b.abs())
}

fn slices_alike(old: &Profile, new: &Profile) -> bool {
    let [a, b] = [&old.conditions, &new.conditions];
    let pairs = [
        (a.slice_period_seconds, b.slice_period_seconds),
        (a.slice_share_percent, b.slice_share_percent),
    ];
    pairs.into_iter().all(|pair| match pair {
        (Some(a), Some(b)) => alike(a, b, LIKE),
        _ => true,
    })
}

/// Why the entries of one resource are not comparable.
pub fn not_comparable(old: &Profile, new: &Profile, id: &str) -> Option<String> {
    let mode = |entry: &ResourceEntry| entry.placement.as_ref().map(|it| it.mode);
    let a = mode(old.resources.get(id)?)?;
    let b = mode(new.resources.get(id)?)?;
    if a != b {
        return Some(format!(
            "the placements differ: {} and {}",
            a.name(),
            b.name()
        ));
    }
    let shares_cpu = a == PlacementMode::SameCpu;
    (shares_cpu && !slices_alike(old, new)).then(|| "the slices of the source differ".into())
}
