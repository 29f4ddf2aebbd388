//! What was inferred, and how far off such entries are, as a person reads it.

use super::style::Style;
use super::style::table;
use super::text;
use jostle_profile::Profile;
use jostle_schedule::classify::Filled;
use jostle_schedule::classify::Kind;
use jostle_schedule::classify::Method;
use jostle_schedule::classify::evaluate::Accuracy;
use jostle_schedule::classify::evaluate::Reveal;
use jostle_statistics::ByNumber;
use std::collections::BTreeMap;

/// What a profile gained, resource by resource.
pub fn filled(profile: &Profile, filled: &Filled, style: Style) -> String {
    let mut page = format!(
        "{}: inferred by {} from {} profiles and {} measured numbers\n\n",
        text::clean(&profile.workload.name),
        filled.method,
        filled.applications,
        filled.measured
    );
    let mut rows: BTreeMap<(bool, &str), [String; 4]> = BTreeMap::new();
    for one in &filled.inferred {
        let column = &one.column;
        let at = Kind::ALL.iter().position(|kind| *kind == column.kind);
        let row = rows.entry((column.kind == Kind::Use, &column.resource));
        let row = row.or_insert_with(|| std::array::from_fn(|_| "–".to_string()));
        let [low, high] = one.ci95;
        row[at.unwrap_or(0)] = format!("{:.0} ({low:.0} to {high:.0})", one.value);
    }
    if rows.is_empty() {
        return page + "nothing to infer: everything that other profiles know was measured\n";
    }
    let titles = [
        "resource",
        "tolerated",
        "loss at 100, %",
        "caused",
        "use, %",
    ];
    let rows = rows.into_iter().map(|((_, resource), cells)| {
        let name = text::clean(resource);
        std::iter::once(name).chain(cells).collect::<Vec<String>>()
    });
    page += &table(style, titles, rows, &[0, 1, 2, 3, 4]);
    if !filled.left_out.is_empty() {
        let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for one in &filled.left_out {
            let of = reasons.entry(&one.why).or_default();
            of.push(one.column.to_string());
        }
        let lines: Vec<String> = reasons
            .into_iter()
            .map(|(why, columns)| format!("{}: {why}", columns.join(", ")))
            .collect();
        page += "\nnot inferred:\n";
        page += &text::list("  – ", &lines, style.prose());
    }
    page
}

/// The accuracy of one method.
pub struct Scored<'a> {
    pub measured: Reveal,
    pub method: Method,
    pub accuracy: &'a Accuracy,
}

/// The accuracy of every method, by what was measured.
pub fn accuracies<'a>(rows: impl Iterator<Item = Scored<'a>>, style: Style) -> String {
    let titles = [
        "measured", "method", "mean", "p50", "p90", "worst", "<5", "<10", "<20", "rank", "in 95 %",
        "width",
    ];
    let cells = rows.map(|row| {
        let measured = match row.measured {
            Reveal::Random(count) => format!("{count} at random"),
            Reveal::Telling(count) => format!("{count} most telling"),
            Reveal::AllButOne => "all but one".to_string(),
        };
        let of = row.accuracy;
        let rank = of.rank_correlation;
        vec![
            measured,
            row.method.to_string(),
            format!("{:.1}", of.mean),
            format!("{:.1}", of.p50),
            format!("{:.1}", of.p90),
            format!("{:.0}", of.worst),
            format!("{:.0} %", of.under_5_percent),
            format!("{:.0} %", of.under_10_percent),
            format!("{:.0} %", of.under_20_percent),
            rank.map_or("–".into(), |rank| format!("{rank:.2}")),
            format!("{:.0} %", of.coverage_percent),
            format!("{:.0}", of.width),
        ]
    });
    table(style, titles, cells, &[0, 1])
}

/// Errors of single columns, worst first.
pub fn columns<'a>(of: impl Iterator<Item = (String, &'a Accuracy)>, style: Style) -> String {
    let mut of: Vec<(String, &Accuracy)> = of.collect();
    of.sort_by_number(|it| -it.1.mean);
    let cells = of.into_iter().map(|(column, of)| {
        vec![
            column,
            of.entries.to_string(),
            format!("{:.1}", of.mean),
            format!("{:.1}", of.p50),
            format!("{:.1}", of.p90),
            format!("{:.0} %", of.coverage_percent),
        ]
    });
    let titles = ["column", "entries", "mean", "p50", "p90", "in 95 %"];
    table(style, titles, cells, &[0])
}
