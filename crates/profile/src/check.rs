//! What a profile must keep to, beyond having the right keys and types.

use super::CurvePoint;
use super::Estimate;
use super::Interaction;
use super::Profile;
use super::Readings;
use super::ScalingCurve;
use super::SchedulerFacts;
use super::Score;
use super::Switch;
use super::Usage;
use crate::reading::Reading;
use thiserror::Error;

/// What a profile must not hold, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("key `{key}`: {problem}")]
pub struct CheckError {
    pub key: String,
    pub problem: String,
}

type Checked = Result<(), CheckError>;

/// Numbers must be finite and on their scales, intervals ordered.
///
/// # Errors
///
/// The path of the first offending key, what it holds and what it may hold.
pub fn check(profile: &Profile) -> Checked {
    if profile.workload.name.trim().is_empty() {
        return refuse("workload.name", "is empty; a profile needs a workload name");
    }
    if let Some(baseline) = &profile.metric.baseline {
        estimate("metric.baseline", baseline)?;
    }
    let threshold = profile.qos.threshold;
    if !(threshold > 0.0 && threshold <= 1.0) {
        return refuse(
            "qos.threshold",
            format!("is {threshold}; it is a fraction of the baseline, above 0 and at most 1"),
        );
    }
    let conditions = &profile.conditions;
    let levels = [
        ("duration_seconds", Some(conditions.duration_seconds)),
        ("budget_seconds", Some(conditions.budget_seconds)),
        ("noise_percent", conditions.noise_percent),
        (
            "smallest_detectable_percent",
            conditions.smallest_detectable_percent,
        ),
        ("slice_period_seconds", conditions.slice_period_seconds),
        ("slice_share_percent", conditions.slice_share_percent),
        ("profiler_cpu_percent", conditions.profiler_cpu_percent),
        ("steal_percent", conditions.steal_percent.value().copied()),
    ];
    for (key, level) in levels {
        if let Some(level) = level {
            not_negative(&format!("conditions.{key}"), level)?;
        }
    }
    for (id, entry) in &profile.resources {
        let key = |rest: &str| format!("resources.{id}.{rest}");
        for (name, score) in [("tolerated", &entry.tolerated), ("caused", &entry.caused)] {
            if let Some(score) = score {
                check_score(&key(name), score)?;
            }
        }
        if let Some(equivalent) = entry.equivalent_intensity {
            percent(&key("equivalent_intensity"), equivalent)?;
        }
        for (name, curve) in [("curve", &entry.curve), ("probe_curve", &entry.probe_curve)] {
            for (index, point) in curve.iter().enumerate() {
                check_point(&key(&format!("{name}[{index}]")), point)?;
            }
        }
        if let Some(Reading::Value(switch)) = &entry.switch {
            check_switch(&key("switch"), switch)?;
        }
        if let Some(bound) = &entry.physical_bound {
            finite(&key("physical_bound.loss_percent"), bound.loss_percent)?;
        }
        for (name, counter) in &entry.counters {
            if let Reading::Value(pair) = counter {
                finite(&key(&format!("counters.{name}.control")), pair.control)?;
                finite(&key(&format!("counters.{name}.treat")), pair.treat)?;
                for (what, change) in [("ratio", &pair.ratio), ("difference", &pair.difference)] {
                    if let Some(change) = change {
                        estimate(&key(&format!("counters.{name}.{what}")), change)?;
                    }
                }
            }
        }
        for (index, phase) in entry.phases.iter().enumerate() {
            let key = key(&format!("phases[{index}]"));
            not_negative(&format!("{key}.level"), phase.level)?;
            finite(&format!("{key}.performance"), phase.performance)?;
            interval(&format!("{key}.ci95"), phase.ci95)?;
        }
    }
    for (index, phase) in conditions.phases.iter().enumerate() {
        let key = format!("conditions.phases[{index}]");
        not_negative(&format!("{key}.level"), phase.level)?;
        interval(&key, [phase.from_seconds, phase.to_seconds])?;
    }
    if let Some(scheduler) = &conditions.scheduler {
        check_scheduler(scheduler)?;
    }
    for (index, pair) in profile.together.iter().enumerate() {
        if let Reading::Value(effect) = &pair.effect {
            check_interaction(&format!("together[{index}].effect"), effect)?;
        }
    }
    if let Some(usage) = &profile.usage {
        check_usage(usage)?;
    }
    if let Some(scaling) = &profile.scaling {
        for (name, curve) in [("cpus", &scaling.cpus), ("instances", &scaling.instances)] {
            if let Some(curve) = curve {
                check_scaling(&format!("scaling.{name}"), curve)?;
            }
        }
    }
    profile.readings.as_ref().map_or(Ok(()), check_readings)
}

fn check_scaling(key: &str, curve: &ScalingCurve) -> Checked {
    not_negative(&format!("{key}.seconds"), curve.seconds)?;
    let mut before = 0;
    for (index, point) in curve.points.iter().enumerate() {
        let key = format!("{key}.points[{index}]");
        if point.size <= before {
            return refuse(
                &format!("{key}.size"),
                format!(
                    "is {} after {before}; sizes start at 1 and rise",
                    point.size
                ),
            );
        }
        before = point.size;
        if let Reading::Value(speedup) = &point.speedup {
            not_negative(&format!("{key}.speedup.value"), speedup.value)?;
            interval(&format!("{key}.speedup.ci95"), speedup.ci95)?;
            if let Some(alone) = &speedup.alone {
                estimate(&format!("{key}.speedup.alone"), alone)?;
            }
        }
    }
    Ok(())
}

fn check_interaction(key: &str, effect: &Interaction) -> Checked {
    let [one, other] = &effect.each;
    let fractions = [
        ("each[0]", one),
        ("each[1]", other),
        ("both", &effect.both),
        ("factor", &effect.factor),
    ];
    for (name, fraction) in fractions {
        let key = format!("{key}.{name}");
        estimate(&key, fraction)?;
        not_negative(&key, fraction.value)?;
    }
    for (index, arrived) in effect.arrived_percent.iter().enumerate() {
        if let Some(arrived) = arrived {
            not_negative(&format!("{key}.arrived_percent[{index}]"), *arrived)?;
        }
    }
    Ok(())
}

fn check_switch(key: &str, switch: &Switch) -> Checked {
    estimate(
        &format!("{key}.cost_microseconds"),
        &switch.cost_microseconds,
    )?;
    let expected = &switch.expected_loss_percent;
    estimate(&format!("{key}.expected_loss_percent"), expected)?;
    let mut last = 0.0;
    for (index, at) in switch.turns.iter().enumerate() {
        let key = format!("{key}.turns[{index}]");
        estimate(&format!("{key}.cost_microseconds"), &at.cost_microseconds)?;
        let turn = at.turn_seconds;
        finite(&format!("{key}.turn_seconds"), turn)?;
        if turn <= last {
            return refuse(
                &format!("{key}.turn_seconds"),
                format!("is {turn}; turns are longer than 0, shortest first"),
            );
        }
        last = turn;
    }
    Ok(())
}

fn check_scheduler(scheduler: &SchedulerFacts) -> Checked {
    let lengths = [
        ("turn_seconds", &scheduler.turn_seconds),
        ("base_slice_seconds", &scheduler.base_slice_seconds),
        ("tick_seconds", &scheduler.tick_seconds),
    ];
    for (name, length) in lengths {
        if let Reading::Value(length) = length {
            not_negative(&format!("conditions.scheduler.{name}"), length.value)?;
        }
    }
    match &scheduler.plain_switch_microseconds {
        Reading::Value(plain) => estimate("conditions.scheduler.plain_switch_microseconds", plain),
        Reading::Unavailable { .. } => Ok(()),
    }
}

fn check_usage(usage: &Usage) -> Checked {
    not_negative("usage.seconds", usage.seconds)?;
    for (name, quantity) in &usage.quantities {
        let Reading::Value(quantity) = quantity else {
            continue;
        };
        let key = format!("usage.quantities.{name}");
        not_negative(&format!("{key}.value"), quantity.value)?;
        interval(&format!("{key}.ci95"), quantity.ci95)?;
        if let Reading::Value(share) = &quantity.share {
            not_negative(&format!("{key}.share.percent"), share.percent)?;
            not_negative(&format!("{key}.share.peak"), share.peak)?;
            interval(&format!("{key}.share.ci95"), share.ci95)?;
        }
    }
    Ok(())
}

fn check_readings(readings: &Readings) -> Checked {
    not_negative("readings.elapsed_seconds", readings.elapsed_seconds)?;
    for (index, pair) in readings.pairs.iter().enumerate() {
        let key = format!("readings.pairs[{index}]");
        percent(&format!("{key}.intensity"), pair.intensity)?;
        finite(&format!("{key}.log_ratio"), pair.log_ratio)?;
        if !matches!(pair.half.as_str(), "tolerated" | "caused") {
            let problem = format!("is '{}'; it is tolerated or caused", pair.half);
            return refuse(&format!("{key}.half"), problem);
        }
    }
    Ok(())
}

fn check_score(key: &str, score: &Score) -> Checked {
    percent(&format!("{key}.score"), score.score)?;
    interval(&format!("{key}.ci95"), score.ci95)
}

fn check_point(key: &str, point: &CurvePoint) -> Checked {
    percent(&format!("{key}.intensity"), point.intensity)?;
    finite(&format!("{key}.performance"), point.performance)?;
    interval(&format!("{key}.ci95"), point.ci95)?;
    match point.pressure {
        Some(pressure) => finite(&format!("{key}.pressure"), pressure),
        None => Ok(()),
    }
}

pub(crate) fn estimate(key: &str, estimate: &Estimate) -> Checked {
    finite(&format!("{key}.value"), estimate.value)?;
    interval(&format!("{key}.ci95"), estimate.ci95)
}

pub(crate) fn refuse(key: &str, problem: impl Into<String>) -> Checked {
    Err(CheckError {
        key: key.into(),
        problem: problem.into(),
    })
}

pub(crate) fn finite(key: &str, value: f64) -> Checked {
    match value.is_finite() {
        true => Ok(()),
        false => refuse(
            key,
            format!("is {value}; only finite numbers have a place in the file"),
        ),
    }
}

pub(crate) fn not_negative(key: &str, value: f64) -> Checked {
    finite(key, value)?;
    match value >= 0.0 {
        true => Ok(()),
        false => refuse(key, format!("is {value}; it cannot be negative")),
    }
}

fn percent(key: &str, value: f64) -> Checked {
    match (0.0..=100.0).contains(&value) {
        true => Ok(()),
        false => refuse(key, format!("is {value}; the scale is 0 to 100")),
    }
}

pub(crate) fn interval(key: &str, [low, high]: [f64; 2]) -> Checked {
    finite(key, low)?;
    finite(key, high)?;
    match low <= high {
        true => Ok(()),
        false => refuse(
            key,
            format!("is [{low}, {high}]; write the lower end first"),
        ),
    }
}
