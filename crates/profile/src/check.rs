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

/// Most points of a curve; a search measures a dozen.
const MOST_POINTS: usize = 1000;
/// Highest performance, a fraction of the baseline. A source makes nothing faster, but a
/// target whose phases were compared with one another may seem to be: 16 was recorded, and
/// counts of one against a million are the most that a window tells apart.
const MOST_PERFORMANCE: f64 = 1e6;
/// Largest distance of a number from 0: its square is finite.
const LARGEST: f64 = 1e100;
/// Scores are written with so many points of rounding.
const ROUNDING: f64 = 1e-6;

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
        if baseline.value <= 0.0 {
            return refuse(
                "metric.baseline.value",
                format!(
                    "is {}; performance is a fraction of it, so it is above 0",
                    baseline.value
                ),
            );
        }
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
            check_curve(&key(name), curve)?;
        }
        if let Some(Reading::Value(switch)) = &entry.switch {
            check_switch(&key("switch"), switch)?;
        }
        let bounds = [
            ("physical_bound", &entry.physical_bound),
            ("caused_bound", &entry.caused_bound),
        ];
        for (name, bound) in bounds {
            if let Some(bound) = bound {
                finite(&key(&format!("{name}.loss_percent")), bound.loss_percent)?;
            }
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
            performance(&format!("{key}.performance"), phase.performance)?;
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
    let [low, high] = score.ci95;
    interval(&format!("{key}.ci95"), [low, high])?;
    match (low - ROUNDING..=high + ROUNDING).contains(&score.score) {
        true => Ok(()),
        false => refuse(
            &format!("{key}.score"),
            format!(
                "is {}, outside of its interval [{low}, {high}]",
                score.score
            ),
        ),
    }
}

/// Intensities ascend. One may be there several times: where a source does not reach
/// what is asked for, several requests arrive as the same pressure.
fn check_curve(key: &str, curve: &[CurvePoint]) -> Checked {
    if curve.len() > MOST_POINTS {
        let problem = format!("has {} points; at most {MOST_POINTS}", curve.len());
        return refuse(key, problem);
    }
    let mut before = 0.0;
    for (index, point) in curve.iter().enumerate() {
        let key = format!("{key}[{index}]");
        check_point(&key, point)?;
        if point.intensity < before {
            let problem = format!("is {} after {before}; lowest first", point.intensity);
            return refuse(&format!("{key}.intensity"), problem);
        }
        before = point.intensity;
    }
    Ok(())
}

fn check_point(key: &str, point: &CurvePoint) -> Checked {
    percent(&format!("{key}.intensity"), point.intensity)?;
    performance(&format!("{key}.performance"), point.performance)?;
    interval(&format!("{key}.ci95"), point.ci95)?;
    match point.pressure {
        Some(pressure) => finite(&format!("{key}.pressure"), pressure),
        None => Ok(()),
    }
}

fn performance(key: &str, value: f64) -> Checked {
    match (0.0..=MOST_PERFORMANCE).contains(&value) {
        true => Ok(()),
        false => refuse(
            key,
            format!("is {value}; it is a fraction of the baseline, 0 to {MOST_PERFORMANCE}"),
        ),
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
    match value.abs() <= LARGEST {
        true => Ok(()),
        false => refuse(
            key,
            format!("is {value}; numbers must be finite, and at most {LARGEST:e} from 0"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document;
    use serde_json::Value;
    use serde_json::json;

    const SAMPLE: &str = include_str!("../../../profiles/demo-l2-bandwidth.json");

    /// What is said of the sample with `key` (a JSON pointer) set to `value`.
    fn said(key: &str, value: Value) -> Result<(), CheckError> {
        let mut sample: Value = serde_json::from_str(SAMPLE).unwrap();
        *sample.pointer_mut(key).expect("a key of the sample") = value;
        let text = sample.to_string();
        check(&document::parse(text.as_bytes(), crate::FORMAT, "profile").unwrap())
    }

    fn points(intensities: impl IntoIterator<Item = f64>) -> Value {
        let point = |intensity| json!({"intensity": intensity, "performance": 1.0, "ci95": [0.9, 1.1], "windows": 3});
        intensities.into_iter().map(point).collect()
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_key() {
        let entry = "/resources/l2-bandwidth";
        let curve = format!("{entry}/curve");
        let score = |score: f64, ci95: [f64; 2]| json!({"score": score, "ci95": ci95});
        for (key, value, says) in [
            ("/metric/baseline/value".into(), json!(0.0), "above 0"),
            ("/metric/baseline/value".into(), json!(-1.0), "above 0"),
            (
                format!("{entry}/tolerated"),
                score(50.0, [60.0, 70.0]),
                "outside of its interval",
            ),
            (
                format!("{entry}/tolerated"),
                score(101.0, [60.0, 110.0]),
                "0 to 100",
            ),
            (curve.clone(), points([20.0, 10.0]), "lowest first"),
            (
                curve.clone(),
                points((0..1001).map(|it| f64::from(it) / 1001.0)),
                "at most 1000",
            ),
            (
                format!("{curve}/0/performance"),
                json!(-0.1),
                "0 to 1000000",
            ),
            (format!("{curve}/0/performance"), json!(1e7), "0 to 1000000"),
            (format!("{curve}/0/ci95"), json!([0.9, 1e101]), "1e100"),
        ] {
            let error = said(&key, value).unwrap_err().to_string();
            assert!(error.contains(says), "{key}: {error}");
        }
        said(&curve, points([20.0, 40.0, 40.0])).unwrap();
        said(&format!("{curve}/0/performance"), json!(16.0)).unwrap();
    }
}
