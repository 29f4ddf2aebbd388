//! What a list of many profiles shows of each, read without the rest.

use crate::CurvePoint;
use crate::FORMAT;
use crate::curve::ends_at_the_line;
use crate::curve::telling;
use crate::document::DocumentError;
use crate::file::parse;
use serde::Deserialize;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Nearly everything is slower on a shared CPU, so that this resource is named
/// only when no other costs anything.
const CPU_TIME: &str = "cpu-time";
/// A score is decided when its interval is at most this wide, points.
const DECIDED_WIDTH: f64 = 20.0;

/// One profile in one line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub name: String,
    /// Fingerprint of the machine.
    pub machine: String,
    pub model: String,
    pub metric: String,
    /// RFC 3339, UTC.
    pub recorded_at: String,
    pub duration_seconds: f64,
    pub seed: u64,
    /// Cut short.
    pub partial: bool,
    /// Entries of `entries` for which it is known whether the program is
    /// sensitive, or how much it tolerates within 10 points.
    pub decided: usize,
    /// Entries that this machine can measure.
    pub entries: usize,
    /// Resources on which a loss beyond the QoS threshold was shown.
    pub sensitive: Vec<String>,
    /// Resource with the largest loss that was shown, other than CPU time unless
    /// that is the only one; absent where no loss was shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_sensitive: Option<ShownLoss>,
}

/// A loss beyond the QoS threshold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownLoss {
    pub resource: String,
    /// At the highest intensity measured; absent where there is no curve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_percent: Option<f64>,
}

impl Summary {
    /// Whether both are of one measurement: the same program on the same machine
    /// at the same moment, with the same seed.
    pub fn same_measurement(&self) -> (&str, &str, &str, u64, u64) {
        (
            &self.name,
            &self.machine,
            &self.recorded_at,
            self.duration_seconds.to_bits(),
            self.seed,
        )
    }
}

/// What a file of a directory of profiles turned out to be.
#[derive(Debug)]
pub enum Document {
    Profile(Box<Summary>),
    /// Another document of Jostle, such as pairs: its format.
    Other(String),
    /// No profile that this version reads: of another format, or broken.
    Refused(DocumentError),
}

/// Judges the bytes of a file. Keys that a summary does not need are skipped
/// unchecked; [`crate::load`] checks all.
pub fn read(bytes: &[u8]) -> Document {
    if let Ok(lean) = serde_json::from_slice::<LeanProfile>(bytes)
        && is_ours(&lean.format)
    {
        return Document::Profile(Box::new(lean.summary()));
    }
    match other_format(bytes) {
        Some(format) => Document::Other(format),
        None => match parse(bytes) {
            Err(error) => Document::Refused(error),
            Ok(_) => Document::Refused(DocumentError::Json(
                "a key that a list needs has the wrong type".into(),
            )),
        },
    }
}

fn is_ours(format: &str) -> bool {
    let rest = format.strip_prefix(FORMAT);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The format of a document that Jostle writes beside profiles.
fn other_format(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct FormatOnly<'a> {
        #[serde(borrow)]
        format: Cow<'a, str>,
    }
    let only: FormatOnly = serde_json::from_slice(bytes).ok()?;
    let name = only.format.split_once('/')?.0;
    let ours = name.starts_with("jostle-") && name != "jostle-profile";
    ours.then(|| only.format.into_owned())
}

#[derive(Deserialize)]
struct LeanProfile<'a> {
    #[serde(borrow)]
    format: Cow<'a, str>,
    #[serde(default)]
    partial: bool,
    workload: LeanWorkload,
    machine: LeanMachine,
    metric: LeanMetric,
    qos: LeanQos,
    conditions: LeanConditions,
    #[serde(borrow)]
    resources: BTreeMap<Cow<'a, str>, LeanEntry<'a>>,
}

#[derive(Deserialize)]
struct LeanWorkload {
    name: String,
}

#[derive(Deserialize)]
struct LeanMachine {
    fingerprint: String,
    model: String,
}

#[derive(Deserialize)]
struct LeanMetric {
    name: String,
}

#[derive(Deserialize)]
struct LeanQos {
    threshold: f64,
}

#[derive(Deserialize)]
struct LeanConditions {
    recorded_at: String,
    duration_seconds: f64,
    seed: u64,
}

#[derive(Deserialize)]
struct LeanEntry<'a> {
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(default)]
    sensitive: Option<bool>,
    #[serde(default)]
    tolerated: Option<LeanScore>,
    #[serde(default)]
    curve: Vec<CurvePoint>,
}

#[derive(Deserialize)]
struct LeanScore {
    ci95: [f64; 2],
}

impl LeanProfile<'_> {
    fn summary(self) -> Summary {
        let measurable =
            |entry: &&LeanEntry| !matches!(&*entry.status, "not-shared" | "unavailable");
        let entries = self.resources.values().filter(measurable);
        let threshold = self.qos.threshold;
        let decided = entries.clone().filter(|entry| entry.decided(threshold));
        let (decided, entries) = (decided.count(), entries.count());
        let sensitive = self.resources.iter();
        let sensitive = sensitive.filter(|(_, entry)| entry.sensitive == Some(true));
        Summary {
            decided,
            entries,
            sensitive: sensitive.map(|(id, _)| id.to_string()).collect(),
            most_sensitive: self.most_sensitive(),
            name: self.workload.name,
            machine: self.machine.fingerprint,
            model: self.machine.model,
            metric: self.metric.name,
            recorded_at: self.conditions.recorded_at,
            duration_seconds: self.conditions.duration_seconds,
            seed: self.conditions.seed,
            partial: self.partial,
        }
    }

    fn most_sensitive(&self) -> Option<ShownLoss> {
        let shown = self.resources.iter();
        let shown = shown.filter(|(_, entry)| entry.sensitive == Some(true));
        let rank = |id: &str, entry: &LeanEntry| (id != CPU_TIME, entry.loss_percent());
        let (id, entry) = shown.max_by(|(a_id, a), (b_id, b)| {
            let ((a_other, a), (b_other, b)) = (rank(a_id, a), rank(b_id, b));
            let size = |loss: Option<f64>| loss.unwrap_or(f64::NEG_INFINITY);
            a_other.cmp(&b_other).then(size(a).total_cmp(&size(b)))
        })?;
        Some(ShownLoss {
            resource: id.to_string(),
            loss_percent: entry.loss_percent(),
        })
    }
}

impl LeanEntry<'_> {
    fn decided(&self, threshold: f64) -> bool {
        let width = |score: &LeanScore| score.ci95[1] - score.ci95[0];
        let narrow = |score| width(score) <= DECIDED_WIDTH;
        self.sensitive.is_some()
            || self.tolerated.as_ref().is_some_and(narrow)
            || ends_at_the_line(&self.curve, threshold)
    }

    fn loss_percent(&self) -> Option<f64> {
        let point = telling(&self.curve, self.sensitive)?;
        Some(100.0 * (1.0 - point.performance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(resources: &str) -> String {
        format!(
            r#"{{"format":"jostle-profile/1","workload":{{"name":"web"}},
            "machine":{{"fingerprint":"f1","model":"CPU A"}},"metric":{{"name":"stdout"}},
            "qos":{{"threshold":0.95}},
            "conditions":{{"recorded_at":"2026-01-02T03:04:05Z","duration_seconds":30,"seed":1}},
            "resources":{{{resources}}}}}"#
        )
    }

    #[test]
    fn the_largest_loss_other_than_cpu_time_is_named() {
        let curve = |performance: f64| {
            format!(
                r#""curve":[{{"intensity":100,"performance":{performance},
                "ci95":[{performance},{performance}],"windows":8}}]"#
            )
        };
        let text = profile(&format!(
            r#""cpu-time":{{"status":"measured","sensitive":true,{}}},
            "l1d":{{"status":"measured","sensitive":true,{}}},
            "tlb":{{"status":"measured","sensitive":false,{}}},
            "llc-capacity":{{"status":"unresolved","tolerated":{{"score":50,"ci95":[20,80]}}}},
            "branch":{{"status":"unresolved",{}}},
            "interconnect":{{"status":"not-shared"}}"#,
            curve(0.5),
            curve(0.8),
            curve(0.1),
            curve(0.951)
        ));
        let Document::Profile(summary) = read(text.as_bytes()) else {
            panic!("{text}");
        };
        let shown = summary.most_sensitive.unwrap();
        assert_eq!(shown.resource, "l1d");
        assert!((shown.loss_percent.unwrap() - 20.0).abs() < 1e-9);
        // `branch` ends at the line.
        assert_eq!((summary.decided, summary.entries), (4, 5));
    }

    #[test]
    fn other_documents_and_other_formats_are_told_apart() {
        let as_format = |format: &str| {
            let text = profile("").replace("jostle-profile/1", format);
            read(text.as_bytes())
        };
        assert!(matches!(
            as_format("jostle-profile/1.4"),
            Document::Profile(_)
        ));
        assert!(matches!(as_format("jostle-pairs/1"), Document::Other(_)));
        for format in ["jostle-profile/2", "jostle-profile/12", "criterion/1"] {
            let Document::Refused(error) = as_format(format) else {
                panic!("{format}");
            };
            assert!(error.to_string().contains(format), "{error}");
        }
        for text in ["", "{", "[]", "null", "{\"format\":3}"] {
            assert!(
                matches!(read(text.as_bytes()), Document::Refused(_)),
                "{text}"
            );
        }
    }
}
