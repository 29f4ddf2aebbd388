//! Many profiles, one line each.

use super::style::Style;
use super::text;
use jostle_profile::summary::Summary;
use std::collections::BTreeSet;

/// Longest name and metric that are shown whole.
const LONGEST_NAME: usize = 28;
const LONGEST_METRIC: usize = 22;
/// Characters of a fingerprint that tell machines of one fleet apart.
const FINGERPRINT: usize = 8;

/// The list and what it holds in a sentence.
pub fn fleet_page(profiles: &[&Summary], style: Style) -> String {
    if profiles.is_empty() {
        return "No profile found.\n".into();
    }
    let titles = [
        "name",
        "machine",
        "metric",
        "recorded",
        "decided",
        "most sensitive to",
    ];
    let mut lines = vec![titles.map(str::to_string)];
    lines.extend(profiles.iter().map(|it| line(it, style)));
    let mut page = style.columns(&lines, 2, []);
    let machines: BTreeSet<&str> = profiles.iter().map(|it| it.machine.as_str()).collect();
    let of = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let sum = format!(
        "{} of {}. Decided: sensitive or not, or tolerates known within 10 points.",
        of(profiles.len(), "profile"),
        of(machines.len(), "machine")
    );
    page.push('\n');
    page += &text::wrap("", &sum, style.prose());
    page
}

fn line(it: &Summary, style: Style) -> [String; 6] {
    // A narrow terminal has room for the start of a name.
    let (name, metric) = match style.width < 100 {
        true => (LONGEST_NAME - 10, LONGEST_METRIC - 8),
        false => (LONGEST_NAME, LONGEST_METRIC),
    };
    let shown = it.most_sensitive.as_ref().map(|shown| {
        let loss = shown.loss_percent;
        let loss = loss.map_or(String::new(), |loss| format!(" ({loss:.0} %)"));
        format!("{}{loss}", text::clean(&shown.resource))
    });
    let partial = if it.partial { ", cut short" } else { "" };
    [
        shortened(&it.name, name),
        it.machine.chars().take(FINGERPRINT).collect(),
        shortened(&it.metric, metric),
        it.recorded_at.chars().take(10).collect(),
        format!("{}/{}{partial}", it.decided, it.entries),
        shown.unwrap_or("–".into()),
    ]
    .map(|cell| text::clean(&cell))
}

fn shortened(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_string(),
    }
}
