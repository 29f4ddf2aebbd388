//! Taking up a measurement that was cut short.

use super::executor::Subject;
use super::place::CpuChoice;
use super::plan::Request;
use crate::error::Error;
use crate::error::Result;
use crate::warning::Warning;
use jostle_host::machine::Machine;
use jostle_profile::Profile;
use jostle_profile::Readings;
use jostle_profile::Status;
use jostle_profile::cpulist::format_list;
use jostle_profile::resource::Resource;
use std::time::Duration;

/// Least time a continued measurement is given.
const LEAST: Duration = Duration::from_secs(10);

/// Makes `request` go on where `past` stopped: with its resources, seed,
/// threshold, slices and share. `budget` is what was asked for explicitly; else
/// what the first run left.
///
/// # Errors
/// A request error naming what differs, or that nothing is left to do.
pub fn adopt(
    request: &mut Request,
    past: Profile,
    machine: &Machine,
    budget: Option<Duration>,
) -> Result<()> {
    let Some(readings) = &past.readings else {
        return Err(Error::request(match past.partial {
            true => "--resume: the file holds no readings to go on from; measure anew".to_string(),
            false => "--resume: the measurement in this file is complete; leave --resume out to \
                      measure anew, with --budget for a longer one"
                .to_string(),
        }));
    };
    let differs = |what: &str, then: &str, now: &str| {
        Err(Error::request(format!(
            "--resume: the first part was measured {what} {then}, this one would be {now}; the \
             parts would not be comparable"
        )))
    };
    let here = machine.facts().fingerprint;
    if past.machine.fingerprint != here {
        return differs(
            "on the machine",
            &past.machine.fingerprint,
            &format!("on {here}"),
        );
    }
    let then = &past.conditions.target_cpus;
    if may_have(request, machine, then)? {
        request.target_cpus.clone_from(then);
        request.cpu_choice = CpuChoice::resumed();
    }
    if past.conditions.target_cpus != request.target_cpus {
        let then = format_list(&past.conditions.target_cpus);
        let now = format_list(&request.target_cpus);
        return differs(
            "with the target on CPUs",
            &then,
            &format!("on {now} (--cpus)"),
        );
    }
    let elapsed = readings.elapsed_seconds;
    let settings = &mut request.settings;
    settings.seed = past.conditions.seed;
    settings.quick = past.conditions.quick;
    settings.qos = past.qos.threshold;
    settings.budget = budget.unwrap_or_else(|| {
        let left = past.conditions.budget_seconds - past.conditions.duration_seconds;
        Duration::try_from_secs_f64(left)
            .unwrap_or_default()
            .max(LEAST)
    });
    if let Some(share) = past.conditions.slice_share_percent {
        request.share = share / 100.0;
    }
    request.slice_period = past
        .conditions
        .slice_period_seconds
        .and_then(|period| Duration::try_from_secs_f64(period).ok())
        .or(request.slice_period);
    request.resources = past
        .resources
        .keys()
        .chain(readings.pairs.iter().map(|pair| &pair.resource))
        .filter_map(|id| id.parse::<Resource>().ok())
        .fold(Vec::new(), |mut all, found| {
            if !all.contains(&found) {
                all.push(found);
            }
            all
        });
    if request.name.is_none() {
        request.name = Some(past.workload.name.clone());
    }
    for (key, value) in &past.workload.labels {
        request.labels.entry(key.clone()).or_insert(value.clone());
    }
    if elapsed < 0.0 || request.resources.is_empty() {
        return Err(Error::request(
            "--resume: the file names no resource that this jostle knows; measure anew",
        ));
    }
    request.past = Some(past);
    Ok(())
}

/// Whether the target can be on the CPUs it was on `then`: nobody asked for
/// others, and it and we may run there. A load generator was placed beside those
/// that were chosen now.
fn may_have(request: &Request, machine: &Machine, then: &[usize]) -> Result<bool> {
    if request.cpu_choice.asked || request.load.is_some() || then.is_empty() {
        return Ok(false);
    }
    let own = request.spec.own_cpus()?;
    let within = |cpus: &[usize]| then.iter().all(|cpu| cpus.contains(cpu));
    Ok(within(&machine.allowed_cpus) && own.is_none_or(|own| within(&own)))
}

/// Whether target and metric are those of the first part.
///
/// # Errors
/// A request error naming both.
pub(super) fn check_same(past: Option<&Profile>, now: &Profile) -> Result<()> {
    let Some(past) = past else {
        return Ok(());
    };
    let (command, metric) = (&now.workload.command, &now.metric);
    if past.workload.command != *command {
        return Err(Error::request(format!(
            "--resume: the first part was measured on '{}', this one would be on '{}'; give the \
             same target again",
            past.workload.command.join(" "),
            command.join(" ")
        )));
    }
    let then = &past.metric;
    if then.name != metric.name || then.unit != metric.unit {
        return Err(Error::request(format!(
            "--resume: the first part was measured by {} ({}), this one would be by {} ({}); give \
             --metric '{}'",
            then.name, then.unit, metric.name, metric.unit, then.name
        )));
    }
    Ok(())
}

/// What the first part knew and the second did not measure again.
pub(super) fn join(profile: &mut Profile, past: Option<&Profile>) {
    let Some(past) = past else {
        return;
    };
    let conditions = &mut profile.conditions;
    let before = &past.conditions;
    let parts = Warning::MeasuredInParts {
        begun: before.recorded_at.clone(),
        first_seconds: before.duration_seconds,
        resumed: conditions.recorded_at.clone(),
    };
    conditions.doubts.insert(0, parts.to_string());
    conditions.warnings.insert(0, parts.facts());
    conditions.recorded_at = before.recorded_at.clone();
    conditions.duration_seconds += before.duration_seconds;
    conditions.budget_seconds = conditions.budget_seconds.max(before.budget_seconds);
    conditions.windows_kept += before.windows_kept;
    conditions.windows_dropped += before.windows_dropped;
    for (id, old) in &past.resources {
        let Some(entry) = profile.resources.get_mut(id) else {
            profile.resources.insert(id.clone(), old.clone());
            continue;
        };
        if entry.counters.is_empty() && entry.counters_steady.is_empty() {
            entry.counters = old.counters.clone();
            entry.counters_steady = old.counters_steady.clone();
        }
        if entry.sharing_cost.is_none() {
            entry.sharing_cost = old.sharing_cost;
        }
        if entry.phases.is_empty() {
            entry.phases = old.phases.clone();
        }
        if entry.status == Status::Unavailable && !old.curve.is_empty() {
            // It could be stressed then and cannot be now.
            let reason = entry.reason.clone().unwrap_or_default();
            *entry = old.clone();
            entry.warn(Warning::NotResumed { reason }.facts());
        }
    }
}

/// Readings of resources that are not measured this time are of no use.
pub(super) fn relevant(past: Option<&Profile>, subjects: &[Subject]) -> Readings {
    let Some(readings) = past.and_then(|past| past.readings.clone()) else {
        return Readings::default();
    };
    let known = |id: &str| subjects.iter().any(|subject| subject.resource == id);
    Readings {
        pairs: readings
            .pairs
            .into_iter()
            .filter(|pair| known(&pair.resource))
            .collect(),
        ..readings
    }
}
