//! How performance grows with CPUs and copies, in words.

use super::style::Style;
use super::text;
use jostle_profile::Profile;
use jostle_profile::ScalingCurve;
use jostle_profile::ScalingPoint;
use jostle_profile::SpeedupStatus;
use jostle_profile::reading::Reading;

/// A line for each curve, and one for each of its warnings.
pub(super) fn lines(profile: &Profile) -> Vec<String> {
    let Some(scaling) = &profile.scaling else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for (what, curve) in [("CPUs", &scaling.cpus), ("copies", &scaling.instances)] {
        if let Some(curve) = curve {
            lines.push(line(what, curve));
            let warnings = curve.warnings.iter();
            lines.extend(warnings.map(|it| format!("by {what}: {}", text::clean(&it.message))));
        }
    }
    lines
}

/// The page of a measurement of these curves alone.
pub fn scaling_page(profile: &Profile, style: Style) -> String {
    let name = text::clean(&profile.workload.name);
    let lines = lines(profile);
    let lines = lines.iter().map(|line| text::wrap("", line, style.prose()));
    format!("{name}\n{}", lines.collect::<String>())
}

fn line(what: &str, curve: &ScalingCurve) -> String {
    let points: Vec<String> = curve.points.iter().map(point).collect();
    let read = match &curve.metric {
        Reading::Value(metric) => format!(" ({})", short(&text::clean(metric))),
        Reading::Unavailable { unavailable } => {
            return format!("by {what}: not measured: {}", text::clean(unavailable));
        }
    };
    format!("by {what}{read}: {}", points.join("; "))
}

/// Without the functions that are counted.
fn short(metric: &str) -> String {
    match metric.strip_prefix("progress:uprobe:") {
        Some(_) => "progress:uprobe".into(),
        None => metric.into(),
    }
}

fn point(point: &ScalingPoint) -> String {
    let size = point.size;
    match &point.speedup {
        Reading::Unavailable { unavailable } => {
            format!("{size}: unavailable: {}", text::clean(unavailable))
        }
        Reading::Value(_) if size == 1 => "1: 1".into(),
        Reading::Value(speedup) => {
            let [low, high] = speedup.ci95;
            let open = match speedup.status {
                SpeedupStatus::Measured => "",
                SpeedupStatus::Unresolved => ", unresolved",
            };
            format!("{size}: {:.2} ({low:.2} to {high:.2}{open})", speedup.value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_profile::Speedup;

    #[test]
    fn sizes_stand_on_one_line() {
        let at = |size, speedup| ScalingPoint {
            size,
            speedup,
            unknown: Default::default(),
        };
        let speedup = |value: f64, status| {
            Reading::Value(Speedup {
                value,
                ci95: [value - 0.05, value + 0.05],
                status,
                blocks: 40,
                alone: None,
                unknown: Default::default(),
            })
        };
        let curve = ScalingCurve {
            recorded_at: String::new(),
            seconds: 1.0,
            metric: Reading::Value("runs".into()),
            cpus: vec![0, 1],
            points: vec![
                at(1, speedup(1.0, SpeedupStatus::Measured)),
                at(2, speedup(1.9, SpeedupStatus::Unresolved)),
                at(4, Reading::unavailable("this machine has 2 CPUs")),
            ],
            warnings: Vec::new(),
            unknown: Default::default(),
        };
        assert_eq!(
            line("CPUs", &curve),
            "by CPUs (runs): 1: 1; 2: 1.90 (1.85 to 1.95, unresolved); \
             4: unavailable: this machine has 2 CPUs"
        );
    }
}
