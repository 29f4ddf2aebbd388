//! Each source by itself, as a table.

use crate::report::style::Style;
use crate::report::style::table;
use crate::report::text;
use jostle_host::machine::format_bytes;
use jostle_measure::validate::Linearity;
use jostle_measure::validate::Source;
use jostle_measure::validate::Status;
use jostle_measure::validate::Strength;
use jostle_measure::validate::Validation;
use jostle_profile::cpulist::format_list;
use jostle_profile::reading::Reading;

pub fn sources(validation: &Validation, style: Style) -> String {
    let titles = [
        "source",
        "beside a target",
        "R²",
        "worst point",
        "repeats",
        "100 % is",
        "reached",
    ];
    let rows = validation.sources.iter().flat_map(|source| {
        let displaced = source.displaced.as_ref().and_then(Reading::value);
        [Some(row(source)), displaced.map(displaced_row)]
    });
    table(style, titles, rows.flatten(), &[0])
}

fn row(source: &Source) -> [String; 7] {
    let place = match (&source.placement, source.status) {
        (Some(placement), _) => format!(
            "{} ({})",
            text::mode(placement.mode),
            format_list(&placement.cpus)
        ),
        (None, Status::NotShared) => "not shared".to_string(),
        (None, _) => "unavailable".to_string(),
    };
    let none = || "–".to_string();
    let [fit, worst, repeats] = match &source.linearity {
        Reading::Value(linearity) => linear_cells(linearity),
        Reading::Unavailable { .. } => [none(), none(), none()],
    };
    let (full, reached) = match &source.strength {
        Reading::Value(strength) => (full_scale(strength), format!("{:.1} %", strength.percent)),
        Reading::Unavailable { .. } => (none(), none()),
    };
    let name = source.resource.clone();
    [name, place, fit, worst, repeats, full, reached]
}

fn displaced_row(displaced: &Linearity) -> [String; 7] {
    let [fit, worst, repeats] = linear_cells(displaced);
    let reached = match displaced.levels.last() {
        Some(level) => format!("{:.1} %", level.median_percent),
        None => "–".to_string(),
    };
    let (name, place, full) = (String::new(), "displaced".to_string(), String::new());
    [name, place, fit, worst, repeats, full, reached]
}

fn linear_cells(linearity: &Linearity) -> [String; 3] {
    [
        format!("{:.4}", linearity.r_squared),
        format!(
            "{:.1} at {:.0} %",
            linearity.worst_deviation_points, linearity.worst_at_percent
        ),
        format!("±{:.1}", linearity.repeat_spread_points / 2.0),
    ]
}

fn full_scale(strength: &Strength) -> String {
    let value = strength.full_scale;
    match strength.unit.as_str() {
        "bytes" => format_bytes(value as u64),
        "bytes_per_second" => format!("{}/s", format_bytes(value as u64)),
        "percent_of_cpu" => format!("{value:.0} % of the CPU"),
        "entries" => format!("{value:.0} entries"),
        _ => format!("{:.3} G/s", value / 1e9),
    }
}

/// Why there is no number, and what is known of bad ones.
pub fn remarks(validation: &Validation, style: Style) -> String {
    let mut lines = Vec::new();
    for source in &validation.sources {
        let linearity = source.linearity.reason();
        // One reason for both is said once.
        let both = linearity.is_some() && linearity == source.reason.as_deref();
        let displaced = source.displaced.as_ref().and_then(Reading::reason);
        let line = source.linearity.value();
        let remarks = [
            (
                if both { "" } else { "beside a target: " },
                source.reason.as_deref(),
            ),
            ("", linearity.filter(|_| !both)),
            ("displaced: ", displaced),
            ("", line.and_then(|line| line.remark.as_deref())),
        ];
        for (about, words) in remarks {
            lines.extend(words.map(|words| format!("{}: {about}{words}", source.resource)));
        }
    }
    text::titled("", &lines, style.prose())
}
