//! Measured pairs as a person reads them.

use super::style::Style;
use super::style::table;
use super::text;
use jostle_profile::cpulist::format_list;
use jostle_profile::pairs::Group;
use jostle_profile::pairs::GroupPlacement;
use jostle_profile::pairs::Member;
use jostle_profile::pairs::Pairs;
use jostle_profile::pairs::PerformanceStatus;
use jostle_profile::reading::Reading;

/// A table for each group.
pub fn pairs_table(pairs: &Pairs, style: Style) -> String {
    let groups = pairs.groups.iter().map(|group| page(group, style));
    groups.collect::<Vec<String>>().join("\n")
}

fn page(group: &Group, style: Style) -> String {
    let how = match group.placement {
        GroupPlacement::SameCpu => "on the same CPU",
        GroupPlacement::SameLlc => "on CPUs of their own, under one cache",
        GroupPlacement::OwnCpus => "on CPUs of their own",
    };
    let mut page = format!("{how}, {:.1} s\n\n", group.seconds);
    let titles = [
        "program",
        "CPU",
        "keeps",
        "95 % interval",
        "blocks",
        "metric",
    ];
    let rows = group.members.iter().map(row);
    page += &table(style, titles, rows, &[0, 1, 2, 3, 4]);
    let warnings = group.warnings.iter();
    let warnings: Vec<String> = warnings.map(|it| text::clean(&it.message)).collect();
    if !warnings.is_empty() {
        page += &format!("\n{}", text::list("  – ", &warnings, style.prose()));
    }
    page
}

fn row(member: &Member) -> [String; 6] {
    let metric = match &member.metric {
        Reading::Value(metric) => text::clean(&short(&metric.name)),
        Reading::Unavailable { .. } => "none".into(),
    };
    let [keeps, interval, blocks] = match &member.performance {
        Reading::Value(found) => {
            let [low, high] = found.ci95.map(|end| end * 100.0);
            let doubt = match found.status {
                PerformanceStatus::Measured => "",
                PerformanceStatus::Unresolved => " ?",
            };
            [
                format!("{:.1} %{doubt}", found.value * 100.0),
                format!("{low:.1} to {high:.1}"),
                found.blocks.to_string(),
            ]
        }
        Reading::Unavailable { unavailable } => {
            ["unknown".into(), text::clean(unavailable), "–".into()]
        }
    };
    let cpus = format_list(&member.cpus);
    [
        text::clean(&member.app),
        cpus,
        keeps,
        interval,
        blocks,
        metric,
    ]
}

/// A metric without the directories of its files.
fn short(name: &str) -> String {
    let parts = name.split(',').map(|part| match part.rsplit_once('/') {
        Some((before, file)) => {
            let kind = before.find('/').map_or(before, |slash| &before[..slash]);
            format!("{kind}{file}")
        }
        None => part.to_string(),
    });
    parts.collect::<Vec<String>>().join(",")
}
