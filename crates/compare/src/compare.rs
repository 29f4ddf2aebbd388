//! Two profiles, resource by resource.

use crate::CompareError;
use crate::change::Change;
use crate::change::LEVEL;
use crate::change::Outcome;
use crate::change::Quantity;
use crate::change::ResourceChange;
use crate::conditions;
use crate::conditions::Notice;
use crate::counters;
use crate::gate::Gate;
use crate::gate::GateResult;
use crate::known;
use crate::known::Subject;
use crate::verdict::Verdict;
use crate::verdict::verdict;
use jostle_profile::Estimate;
use jostle_profile::Profile;
use jostle_profile::reading::Reading;
use jostle_statistics::Difference;
use jostle_statistics::Known;
use jostle_statistics::holm;
use serde::Serialize;
use std::collections::BTreeSet;

/// Percentage points of loss that count as a difference unless told otherwise.
pub const MARGIN: f64 = 5.0;
const FORMAT: &str = "jostle-comparison/1";

/// What is asked of a comparison.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Differences of up to so many points are none.
    pub margin: f64,
    /// Compare although the profiles were measured differently.
    pub anyway: bool,
    pub gate: Gate,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            margin: MARGIN,
            anyway: false,
            gate: Gate::default(),
        }
    }
}

/// Where one of the profiles comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    pub name: String,
    pub recorded_at: String,
    pub duration_seconds: f64,
    pub machine: String,
    pub model: String,
    pub metric: String,
    pub unit: String,
    /// Runs behind it.
    pub runs: usize,
    /// Performance without interference, for information: the two were not
    /// measured in turns, and drift is not told from change.
    pub baseline: Option<Estimate>,
}

/// What changed from one profile to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub format: &'static str,
    pub old: Side,
    pub new: Side,
    pub verdict: Verdict,
    pub gate: GateResult,
    pub notices: Vec<Notice>,
    pub margin_points: f64,
    /// Tests that were corrected for.
    pub tests: usize,
    /// Those that could be compared, in the order of what matters.
    pub resources: Vec<ResourceChange>,
    /// The others, with the reason.
    pub not_compared: Vec<NotCompared>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotCompared {
    pub resource: String,
    pub reason: String,
}

/// What changed from `old` to `new`.
///
/// # Errors
/// When they were measured too differently, or no resource is in both.
pub fn compare(
    old: &Profile,
    new: &Profile,
    settings: &Settings,
) -> Result<Comparison, CompareError> {
    let notices = conditions::notices(old, new);
    let refusing = notices.iter().filter(|notice| notice.refuses);
    let refusing: Vec<String> = refusing.map(|notice| notice.message.clone()).collect();
    if !refusing.is_empty() && !settings.anyway {
        return Err(CompareError::Unlike(refusing));
    }
    let subjects = (Subject::new(old), Subject::new(new));
    let ids: BTreeSet<&String> = old.resources.keys().chain(new.resources.keys()).collect();
    let mut resources = Vec::new();
    let mut not_compared = Vec::new();
    for id in ids {
        let found = resource(&subjects, id);
        if found.is_compared() {
            resources.push(found);
            continue;
        }
        let reason = found.loss.reason().unwrap_or("not measured").to_string();
        not_compared.push(NotCompared {
            resource: id.clone(),
            reason,
        });
    }
    if resources.is_empty() {
        return Err(CompareError::NothingInCommon {
            old: old.workload.name.clone(),
            new: new.workload.name.clone(),
            of_old: measured(old),
            of_new: measured(new),
        });
    }
    let tests = judge(&mut resources, settings.margin);
    for change in &mut resources {
        if matches!(change.outcome(), Outcome::Worse | Outcome::Better) {
            let entries = (
                old.resources.get(&change.resource),
                new.resources.get(&change.resource),
            );
            if let (Some(old), Some(new)) = entries {
                change.counters = counters::explaining(old, new);
            }
        }
    }
    resources.sort_by(|a, b| rank(a).cmp(&rank(b)).then(size(b).total_cmp(&size(a))));
    let same = same_measurement(old, new);
    let gate = settings
        .gate
        .judge(&resources, |condition| condition.absolute(&subjects.1));
    Ok(Comparison {
        format: FORMAT,
        old: side(old),
        new: side(new),
        verdict: verdict(&resources, same, settings.margin, (old, new)),
        gate,
        notices,
        margin_points: settings.margin,
        tests,
        resources,
        not_compared,
    })
}

/// Whether both are one measurement: then nothing can have changed.
fn same_measurement(old: &Profile, new: &Profile) -> bool {
    let facts = |it: &Profile| {
        let conditions = &it.conditions;
        (
            it.machine.fingerprint.clone(),
            conditions.recorded_at.clone(),
            conditions.seed,
            conditions.duration_seconds.to_bits(),
        )
    };
    facts(old) == facts(new) && old.resources == new.resources
}

fn side(profile: &Profile) -> Side {
    Side {
        name: profile.workload.name.clone(),
        recorded_at: profile.conditions.recorded_at.clone(),
        duration_seconds: profile.conditions.duration_seconds,
        machine: profile.machine.fingerprint.clone(),
        model: profile.machine.model.clone(),
        metric: profile.metric.name.clone(),
        unit: profile.metric.unit.clone(),
        runs: profile
            .merged
            .as_ref()
            .map_or(1, |merged| merged.runs.len()),
        baseline: profile.metric.baseline,
    }
}

/// What a profile has numbers of.
fn measured(profile: &Profile) -> String {
    let entries = profile.resources.iter();
    let numbers = entries.filter(|(_, it)| !it.curve.is_empty() || it.tolerated.is_some());
    let ids: Vec<&str> = numbers.map(|(id, _)| id.as_str()).collect();
    match ids.is_empty() {
        true => "nothing".into(),
        false => ids.join(", "),
    }
}

fn resource((old, new): &(Subject, Subject), id: &str) -> ResourceChange {
    let differs = conditions::not_comparable(old.profile, new.profile, id);
    let change = |quantity: Quantity| -> Result<Change, String> {
        if let Some(reason) = &differs
            && quantity != Quantity::Use
        {
            return Err(reason.clone());
        }
        if quantity == Quantity::Loss {
            let (level, [a, b]) = known::losses(old, new, id)?;
            return Ok(untested(a, b, Some(level)));
        }
        let thresholds = (old.profile.qos.threshold, new.profile.qos.threshold);
        if quantity == Quantity::Tolerated && thresholds.0 != thresholds.1 {
            return Err("the QoS thresholds differ".into());
        }
        let a = known::number(old, id, quantity)?;
        Ok(untested(a, known::number(new, id, quantity)?, None))
    };
    ResourceChange {
        resource: id.to_string(),
        loss: change(Quantity::Loss).into(),
        tolerated: change(Quantity::Tolerated).into(),
        caused: change(Quantity::Caused).into(),
        used: change(Quantity::Use).into(),
        counters: Vec::new(),
    }
}

fn untested(old: Known, new: Known, at_intensity: Option<f64>) -> Change {
    let tested = Difference::between(old, new);
    Change {
        old: old.value,
        new: new.value,
        difference: tested.value,
        ci95: tested.ci95,
        p: tested.p(),
        p_corrected: 1.0,
        outcome: Outcome::Open,
        at_intensity,
        tested,
        between_runs: old.spread * old.spread + new.spread * new.spread,
    }
}

/// Corrects all tests together and says what is shown; returns how many there
/// are.
fn judge(resources: &mut [ResourceChange], margin: f64) -> usize {
    let mut changes: Vec<(Quantity, &mut Change)> = Vec::new();
    for resource in resources {
        for (quantity, reading) in [
            (Quantity::Loss, &mut resource.loss),
            (Quantity::Tolerated, &mut resource.tolerated),
            (Quantity::Caused, &mut resource.caused),
            (Quantity::Use, &mut resource.used),
        ] {
            if let Reading::Value(change) = reading {
                changes.push((quantity, change));
            }
        }
    }
    let family: Vec<f64> = changes.iter().map(|(_, change)| change.p).collect();
    for ((quantity, change), p) in changes.iter_mut().zip(holm(&family)) {
        change.p_corrected = p;
        let within = change.ci95[0] >= -margin && change.ci95[1] <= margin;
        change.outcome = match (p < LEVEL, within) {
            (true, _) => quantity.outcome(change.difference > 0.0),
            (false, true) => Outcome::Same,
            (false, false) => Outcome::Open,
        };
    }
    family.len()
}

/// Worse, better, open, the same.
fn rank(change: &ResourceChange) -> u8 {
    match change.outcome() {
        Outcome::Worse => 0,
        Outcome::Better => 1,
        Outcome::More | Outcome::Less | Outcome::Open => 2,
        Outcome::Same => 3,
    }
}

fn size(change: &ResourceChange) -> f64 {
    change
        .loss
        .value()
        .map_or(0.0, |loss| loss.difference.abs())
}
