//! A validation as a person reads it.

use super::style::Style;
use super::style::table;
use super::text;
use crate::machine::format_bytes;
use crate::validate::Effect;
use crate::validate::Linearity;
use crate::validate::Selectivity;
use crate::validate::Size;
use crate::validate::Source;
use crate::validate::Status;
use crate::validate::Strength;
use crate::validate::Validation;
use crate::validate::Victim;
use jostle_profile::cpulist::format_list;
use jostle_profile::reading::Reading;
use std::collections::BTreeSet;

/// The whole report: sources, the matrix, what stands out, what misses a bar.
pub fn page(validation: &Validation, style: Style) -> String {
    let mut page = head(validation, style);
    page += "\nEach source by itself\n\n";
    page += &sources(validation, style);
    page += &remarks(validation, style);
    page +=
        "\nWhat each source (row) costs each other (column), percent of its performance lost\n\n";
    page += &matrix(validation, style);
    page += &missing(validation, style);
    page += &standing_out(validation, style);
    page += &victims(validation, style);
    page += &verdict(validation, style);
    page
}

fn head(validation: &Validation, style: Style) -> String {
    let machine = &validation.machine;
    let virtualized = match &machine.virtualized {
        Some(by) => format!(", virtualized ({by})"),
        None => String::new(),
    };
    let machine = format!(
        "{}, {} CPUs, kernel {}{virtualized}",
        machine.model, machine.cpus, machine.kernel
    );
    let quick = match validation.quick {
        true => "; --quick: few levels, short windows",
        false => "",
    };
    let measured = format!(
        "{}, in {:.1} s, by jostle {}, seed {}{quick}",
        validation.recorded_at,
        validation.duration_seconds,
        validation.tool_version,
        validation.seed
    );
    let victims = format!(
        "on CPU {}; sources that share it take {:.0} % in turns every {:.2} ms",
        validation.target_cpu,
        validation.slice_share_percent,
        validation.slice_period_seconds * 1e3
    );
    let facts = [
        ("machine", Some(machine)),
        ("measured", Some(measured)),
        ("victims", Some(victims)),
    ];
    text::facts("", 10, facts, style.prose())
}

fn sources(validation: &Validation, style: Style) -> String {
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
fn remarks(validation: &Validation, style: Style) -> String {
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
    list("", &lines, style)
}

fn list(title: &str, lines: &[String], style: Style) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let end = if title.is_empty() { "" } else { "\n" };
    let lines = text::list("  - ", lines, style.prose());
    format!("\n{title}{end}{lines}")
}

/// The victims, and for each source its effect on every one of them.
pub(super) type Grid<'a> = (Vec<&'a str>, Vec<(&'a str, Vec<Option<&'a Effect>>)>);

/// The effects as a table, in the order in which names first occur.
pub(super) fn grid(validation: &Validation) -> Grid<'_> {
    let effects = &validation.effects;
    let named = |name: fn(&Effect) -> &str| {
        let mut names: Vec<&str> = Vec::new();
        for name in effects.iter().map(name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let victims = named(|effect| &effect.victim);
    let row = |source| {
        let found = |victim: &&str| {
            let mut all = effects.iter();
            all.find(|effect| effect.source == source && effect.victim == *victim)
        };
        (source, victims.iter().map(found).collect())
    };
    let rows = named(|effect| &effect.source).into_iter().map(row);
    let rows = rows.collect();
    (victims, rows)
}

fn matrix(validation: &Validation, style: Style) -> String {
    let (victims, rows) = grid(validation);
    let widest = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let numbers: String = (1..=victims.len()).map(|n| format!(" {n:>6}")).collect();
    let mut page = format!("{:widest$}{numbers}\n", "");
    for (source, effects) in rows {
        let cell = |effect: Option<&Effect>| format!(" {:>6}", effect.map_or("–".into(), cell));
        let cells: String = effects.into_iter().map(cell).collect();
        page += &format!("{source:widest$}{cells}\n");
    }
    let names = victims.iter().enumerate();
    let names: Vec<String> = names
        .map(|(index, name)| format!("{} {name}", index + 1))
        .collect();
    page.push('\n');
    page += &text::wrap("", &format!("columns: {}", names.join(", ")), style.prose());
    page += &text::wrap(
        "",
        &format!(
            "A bare number is surely below {0} %; with ! it is surely {0} % or more; with ? its 95 % \
             interval holds {0} %. [n] is a source against itself.",
            validation.bars.cross_talk_percent
        ),
        style.prose(),
    );
    page
}

fn cell(effect: &Effect) -> String {
    // A zero has no sign.
    let loss = effect.loss_percent.round() + 0.0;
    if !effect.is_cross_talk() {
        return format!("[{loss:.0}]");
    }
    let mark = match effect.size {
        Size::Small => "",
        Size::Large => "!",
        Size::Unresolved => "?",
    };
    format!("{loss:.0}{mark}")
}

fn standing_out(validation: &Validation, style: Style) -> String {
    let groups = validation.large_groups();
    let lines: Vec<String> = groups.iter().map(|group| group_text(group)).collect();
    let title = format!(
        "Effects on other resources of surely {} % or more, with the known mechanism",
        validation.bars.cross_talk_percent
    );
    list(&title, &lines, style)
}

/// Cells without a number, by victim and reason.
fn missing(validation: &Validation, style: Style) -> String {
    let groups = validation
        .missing
        .iter()
        .map(|cell| (&cell.victim, &cell.reason));
    let groups: BTreeSet<(&String, &String)> = groups.collect();
    let lines: Vec<String> = groups
        .into_iter()
        .map(|(victim, reason)| {
            let cells = validation.missing.iter();
            let sources: Vec<&str> = cells
                .filter(|cell| cell.victim == *victim && cell.reason == *reason)
                .map(|cell| cell.source.as_str())
                .collect();
            format!("{} on {victim}: {reason}", sources.join(", "))
        })
        .collect();
    list("Not measured", &lines, style)
}

/// What each victim points at, victims of one answer together.
fn victims(validation: &Validation, style: Style) -> String {
    let of = |wanted: Selectivity| -> Vec<&Victim> {
        let all = validation.victims.iter();
        all.filter(|victim| victim.selectivity == wanted).collect()
    };
    let answers = [
        (Selectivity::OwnFirst, "point at their own resource first"),
        (Selectivity::OtherFirst, "point at another resource first"),
        (
            Selectivity::NotShownHere,
            "surely lose less than the bar to their own source in this placement",
        ),
        (
            Selectivity::Unresolved,
            "lose an unresolved part to their own source",
        ),
        (
            Selectivity::NotMeasured,
            "were not measured under their own source",
        ),
    ];
    let lines: Vec<String> = answers
        .into_iter()
        .filter_map(|(answer, words)| {
            let victims = of(answer);
            let names: Vec<String> = victims
                .iter()
                .map(|victim| match answer {
                    Selectivity::OtherFirst => {
                        format!("{} ({})", victim.resource, victim.flagged.join(", "))
                    }
                    _ => victim.resource.clone(),
                })
                .collect();
            (!names.is_empty()).then(|| format!("{words}: {}", names.join(", ")))
        })
        .collect();
    list("Victims", &lines, style)
}

/// What one source costs several others by one mechanism.
pub(super) fn group_text(group: &[&Effect]) -> String {
    let victims: Vec<String> = group
        .iter()
        .map(|effect| {
            format!(
                "{} {:.1} % ({:.1} to {:.1}, {} blocks)",
                effect.victim, effect.loss_percent, effect.ci95[0], effect.ci95[1], effect.blocks
            )
        })
        .collect();
    format!(
        "{} costs {}: {}",
        group[0].source,
        victims.join(", "),
        group[0].explanation.as_deref().unwrap_or("UNEXPLAINED")
    )
}

fn verdict(validation: &Validation, style: Style) -> String {
    let cross: Vec<&Effect> = validation
        .effects
        .iter()
        .filter(|effect| effect.is_cross_talk())
        .collect();
    let count = |size| cross.iter().filter(|effect| effect.size == size).count();
    let mut page = String::from("\n");
    page += &text::wrap(
        "",
        &format!(
            "Of {} effects on other resources {} are surely below {} %, {} surely not, {} unresolved.",
            cross.len(),
            count(Size::Small),
            validation.bars.cross_talk_percent,
            count(Size::Large),
            count(Size::Unresolved)
        ),
        style.prose(),
    );
    let failures = validation.failures();
    page += &match failures.is_empty() {
        true => "Every bar holds.\n".to_string(),
        false => list("Bars missed", &failures, style),
    };
    page
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::machine::fake::cores;
    use crate::validate::Bars;
    use crate::validate::FORMAT;
    use crate::validate::Level;
    use crate::validate::Missing;

    /// One source that holds every bar, one that could not run, and effects of
    /// every size.
    pub fn example() -> Validation {
        let level = |percent: f64| Level {
            intensity_percent: percent,
            achieved_percent: vec![percent, percent + 1.0, percent - 1.0],
            median_percent: percent,
        };
        let source = |resource: &str| Source {
            resource: resource.to_string(),
            status: Status::Measured,
            reason: None,
            placement: None,
            linearity: Reading::Value(Linearity {
                measured_by: "operations".into(),
                levels: [0.0, 50.0, 100.0].map(level).to_vec(),
                r_squared: 0.999,
                slope: 1.0,
                worst_deviation_points: 0.5,
                worst_at_percent: 50.0,
                repeat_spread_points: 2.0,
                remark: None,
            }),
            displaced: None,
            strength: Reading::Value(Strength {
                achieved: 99e9,
                full_scale: 1e11,
                unit: "operations_per_second".into(),
                percent: 99.0,
                basis: "peak".into(),
            }),
        };
        let effect =
            |source: &str, victim: &str, loss: f64, size, explanation: Option<&str>| Effect {
                source: source.to_string(),
                victim: victim.to_string(),
                blocks: 8,
                reached_percent: 100.0,
                loss_percent: loss,
                ci95: [loss - 1.0, loss + 1.0],
                size,
                explanation: explanation.map(str::to_string),
            };
        Validation {
            format: FORMAT.to_string(),
            tool_version: "0".into(),
            recorded_at: "2026-01-01T00:00:00Z".into(),
            duration_seconds: 1.0,
            seed: 7,
            quick: false,
            machine: cores(2, 1).facts(),
            target_cpu: 1,
            slice_period_seconds: 0.0005,
            slice_share_percent: 20.0,
            sources: vec![
                source("int"),
                Source {
                    status: Status::NotShared,
                    reason: Some("it takes two <b>CPUs</b>".into()),
                    linearity: Reading::unavailable("no worker & no hope"),
                    strength: Reading::unavailable("no worker & no hope"),
                    ..source("interconnect")
                },
            ],
            effects: vec![
                effect("int", "int", 40.0, Size::Large, None),
                effect("int", "fp", 0.2, Size::Small, None),
                effect("fp", "int", -4.5, Size::Unresolved, None),
                effect(
                    "vector",
                    "int",
                    12.0,
                    Size::Large,
                    Some("lowers the frequency"),
                ),
            ],
            missing: vec![Missing {
                source: "memory-capacity".into(),
                victim: "int".into(),
                reason: "no time was left".into(),
            }],
            victims: vec![
                victim("int", Selectivity::OwnFirst, &["int"]),
                victim("fp", Selectivity::OtherFirst, &["vector", "fp"]),
            ],
            bars: Bars::default(),
        }
    }

    fn victim(resource: &str, selectivity: Selectivity, flagged: &[&str]) -> Victim {
        Victim {
            resource: resource.into(),
            selectivity,
            flagged: flagged.iter().map(|name| name.to_string()).collect(),
            reason: None,
        }
    }

    #[test]
    fn everything_found_is_shown_with_its_doubt() {
        let page = page(&example(), Style::plain());
        for text in [
            "[40]",
            " -5?",
            " 12!",
            "vector costs int 12.0 % (11.0 to 13.0, 8 blocks): lowers the frequency",
            "interconnect: no worker & no hope",
            "not shared",
            "Of 3 effects on other resources 1 are surely below 5 %, 1 surely not, 1 unresolved.",
            "memory-capacity on int: no time was left",
            "point at their own resource first: int",
            "point at another resource first: fp (vector, fp)",
        ] {
            assert!(page.contains(text), "no '{text}' in:\n{page}");
        }
        assert!(
            page.lines().all(|line| line.chars().count() <= 120),
            "{page}"
        );
    }

    #[test]
    fn what_was_not_measured_holds_no_bar() {
        let mut validation = example();
        validation.sources.pop();
        validation.missing.clear();
        validation.victims.pop();
        let held = |validation: &Validation| {
            let mut all = validation.clone();
            all.effects.retain(|effect| effect.size != Size::Unresolved);
            all
        };
        assert_eq!(held(&validation).failures(), Vec::<String>::new());
        let page = page(&held(&validation), Style::plain());
        assert!(page.contains("Every bar holds."), "{page}");
        assert!(validation.failures()[0].starts_with("1 of 3 effects"));
        let mut nothing = held(&validation);
        nothing.effects.clear();
        nothing.sources.push(nothing.sources[0].clone());
        assert_eq!(
            nothing.failures(),
            ["no effect of one source on another's victim was measured"]
        );
        let mut unseen = held(&validation);
        unseen.sources[0].displaced = Some(Reading::unavailable("others hold it"));
        assert_eq!(
            unseen.failures(),
            ["int (displaced): not measured: others hold it"]
        );
    }

    #[test]
    fn what_misses_a_bar_is_named() {
        let mut validation = example();
        validation.effects[3].explanation = None;
        if let Reading::Value(linearity) = &mut validation.sources[0].linearity {
            linearity.r_squared = 0.9;
            linearity.worst_deviation_points = 7.0;
        }
        if let Reading::Value(strength) = &mut validation.sources[0].strength {
            strength.percent = 80.0;
        }
        assert_eq!(
            validation.failures(),
            [
                "int: R² 0.9000, below 0.99",
                "int: 7.0 points off at 50 %, more than 5",
                "int: reaches 80.0 % of its full scale, less than 95 %",
                "interconnect: not measured: no worker & no hope",
                "2 of 4 effects on other resources are unresolved, more than 10 %; --budget gives them more time",
                "the fp demo points at vector, fp before its own resource",
                "vector on int: 12.0 % lost, unexplained",
            ]
        );
        let page = page(&validation, Style::plain());
        assert!(
            page.contains("Bars missed") && page.contains("UNEXPLAINED"),
            "{page}"
        );
    }
}
