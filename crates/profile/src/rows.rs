//! A profile as rows of a table: one per resource and direction.

use crate::CurvePoint;
use crate::Profile;
use crate::ResourceEntry;
use crate::Score;
use crate::Status;
use crate::curve::telling;
use serde::Serialize;

/// One direction of one resource of one profile. What is not known is empty, and
/// `reason` says why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub file: String,
    pub name: String,
    pub machine: String,
    pub model: String,
    pub metric: String,
    pub unit: String,
    pub recorded_at: String,
    pub duration_seconds: f64,
    pub resource: String,
    /// `tolerated` or `caused`.
    pub direction: &'static str,
    pub status: Status,
    pub placement: Option<&'static str>,
    pub score: Option<f64>,
    pub score_low: Option<f64>,
    pub score_high: Option<f64>,
    /// Whether a loss beyond the QoS threshold was shown or ruled out; of
    /// `tolerated` only.
    pub sensitive: Option<bool>,
    /// Highest intensity measured, and the loss there: of the program where it is
    /// `tolerated`, of the source where it is `caused`.
    pub intensity_percent: Option<f64>,
    pub loss_percent: Option<f64>,
    pub loss_low_percent: Option<f64>,
    pub loss_high_percent: Option<f64>,
    pub windows: Option<u64>,
    /// Why there is no score; empty where there is one.
    pub reason: Option<String>,
}

/// The rows of `profile`, read from `file`, in the order of its resources.
pub fn rows(file: &str, profile: &Profile) -> Vec<Row> {
    let entries = profile.resources.iter();
    let both = |(id, entry): (&String, &ResourceEntry)| {
        let tolerated = (entry.tolerated, entry.curve.as_slice(), entry.sensitive);
        let caused = (entry.caused, entry.probe_curve.as_slice(), None);
        [("tolerated", tolerated), ("caused", caused)]
            .map(|(direction, half)| row(file, profile, (id, entry), direction, half))
    };
    entries.flat_map(both).collect()
}

fn row(
    file: &str,
    profile: &Profile,
    (id, entry): (&String, &ResourceEntry),
    direction: &'static str,
    (score, curve, sensitive): (Option<Score>, &[CurvePoint], Option<bool>),
) -> Row {
    let point = telling(curve, sensitive);
    let loss = |performance: f64| 100.0 * (1.0 - performance);
    Row {
        file: file.to_string(),
        name: profile.workload.name.clone(),
        machine: profile.machine.fingerprint.clone(),
        model: profile.machine.model.clone(),
        metric: profile.metric.name.clone(),
        unit: profile.metric.unit.clone(),
        recorded_at: profile.conditions.recorded_at.clone(),
        duration_seconds: profile.conditions.duration_seconds,
        resource: id.clone(),
        direction,
        status: entry.status,
        placement: entry.placement.as_ref().map(|it| it.mode.name()),
        score: score.map(|it| it.score),
        score_low: score.map(|it| it.ci95[0]),
        score_high: score.map(|it| it.ci95[1]),
        sensitive,
        intensity_percent: point.map(|point| point.intensity),
        loss_percent: point.map(|point| loss(point.performance)),
        loss_low_percent: point.map(|point| loss(point.ci95[1])),
        loss_high_percent: point.map(|point| loss(point.ci95[0])),
        windows: point.map(|point| point.windows),
        reason: match score {
            Some(_) => None,
            None => Some(why_not(entry)),
        },
    }
}

fn why_not(entry: &ResourceEntry) -> String {
    let given = entry.reason.clone().filter(|reason| !reason.is_empty());
    given.unwrap_or_else(|| match entry.status {
        Status::NotShared => "not shared on this machine".into(),
        Status::Unavailable => "unavailable".into(),
        Status::Measured | Status::Inferred | Status::Unresolved => {
            "open: a longer measurement decides more".into()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_has_a_reason_and_no_number() {
        let text = r#"{"status":"unavailable","reason":"no second CPU"}"#;
        let entry: ResourceEntry = serde_json::from_str(text).unwrap();
        assert_eq!(why_not(&entry), "no second CPU");
        let open: ResourceEntry = serde_json::from_str(r#"{"status":"unresolved"}"#).unwrap();
        assert!(!why_not(&open).is_empty());
    }
}
