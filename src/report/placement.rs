//! Placements as a person reads them.

use super::style::Style;
use super::style::table;
use super::text;
use jostle_schedule::Cluster;
use jostle_schedule::Comparison;
use jostle_schedule::Direction;
use jostle_schedule::ExpectedPerformance;
use jostle_schedule::Explanation;
use jostle_schedule::NoPlacement;

/// A resident that loses less of its performance is not named.
const LEAST_HURT: f64 = 0.005;

/// Every placement in a line, what could not be placed, and what the nodes hold
/// afterwards. With `explain`, all that is known of each: what it was weighed against, and
/// D1 and D2 of every resource.
pub fn page(
    policy: &str,
    placed: &[Explanation],
    not_placed: &[NoPlacement],
    cluster: &Cluster,
    explain: bool,
    style: Style,
) -> String {
    let mut page = format!("policy {policy}\n\n");
    if explain {
        for explanation in placed {
            page += &one(explanation, style);
            page.push('\n');
        }
    } else if !placed.is_empty() {
        page += &lines(placed, style);
        page.push('\n');
    }
    for refusal in not_placed {
        page.push_str(&format!("{} → not placed\n", text::clean(&refusal.app)));
        for reason in &refusal.nodes {
            let line = format!("{}: {}", reason.node, reason.why);
            page += &text::wrap("  ", &line, style.prose());
        }
        page.push('\n');
    }
    page.push_str(&nodes(cluster, style));
    if !placed.is_empty() {
        let legend = match explain {
            true => {
                "D1 = tolerated by the residents − caused by the newcomer; D2 = tolerated by the \
                 newcomer − caused by the residents; below zero somebody is expected to break its \
                 QoS."
            }
            false => {
                "keeps: expected performance, of that without neighbours (95 % interval; ~ not all \
                 of it is known). --explain tells the other nodes and every resource."
            }
        };
        page.push('\n');
        page += &text::wrap("", legend, style.prose());
    }
    page
}

/// A line for each placement.
fn lines(placed: &[Explanation], style: Style) -> String {
    let titles = ["program → node", "keeps", "affects most", "because"];
    let rows = placed.iter().map(|explanation| {
        let expected = explanation.expected.as_ref();
        let keeps = expected.map_or("–".into(), |expected| {
            let gaps = explanation.comparisons.iter();
            let mark = match gaps.clone().any(|c| !c.not_known.is_empty()) {
                true => "~",
                false => "",
            };
            let [low, high] = expected.ci95.map(|end| end * 100.0);
            let kept = expected.performance * 100.0;
            format!("{mark}{kept:.0} % ({low:.0}–{high:.0})")
        });
        let hurt = expected.and_then(|expected| expected.most_hurt.as_ref());
        let hurt = hurt.filter(|hurt| hurt.before - hurt.after >= LEAST_HURT);
        let hurt = hurt.map_or("–".into(), |hurt| {
            let [before, after] = [hurt.before, hurt.after].map(|kept| kept * 100.0);
            format!("{}: {before:.0} to {after:.0} %", text::clean(&hurt.app))
        });
        let mut because = vec![decided_by(explanation)];
        let harms = harms(&explanation.comparisons);
        if !harms.is_empty() {
            because.push(format!("expect harm {}", harms.join(", ")));
        }
        because.extend(explanation.notes.iter().cloned());
        let places = match explanation.parts.len() {
            0 | 1 => explanation.node.clone(),
            _ => {
                let parts = explanation.parts.iter();
                let parts = parts.map(|part| format!("{} × {}", part.cpus, part.node));
                parts.collect::<Vec<_>>().join(" + ")
            }
        };
        [
            format!(
                "{} → {}",
                text::clean(&explanation.app),
                text::clean(&places)
            ),
            keeps,
            hurt,
            because.join("; "),
        ]
    });
    table(style, titles, rows, &[0, 1, 2])
}

fn decided_by(explanation: &Explanation) -> String {
    let why = &explanation.deciding.why;
    match &explanation.deciding.resource {
        Some(resource) => format!("{resource}: {why}"),
        None => why.clone(),
    }
}

/// All that is known of one placement.
fn one(explanation: &Explanation, style: Style) -> String {
    let comparisons = &explanation.comparisons;
    let joined = |parts: Vec<String>, between| (!parts.is_empty()).then(|| parts.join(between));
    let gaps = comparisons.iter().any(|c| !c.not_known.is_empty());
    let expected = explanation.expected.as_ref();
    let parts = explanation.parts.iter().map(|part| match part.cpus {
        1 => format!("1 CPU on {}", part.node),
        cpus => format!("{cpus} CPUs on {}", part.node),
    });
    let relaxed = explanation.relaxed.iter();
    let relaxed =
        relaxed.map(|relaxed| format!("{} ≥ 0 on {}", relaxed.direction, relaxed.resource));
    let harms = harms(comparisons);
    let tightest = tightest(comparisons).filter(|_| harms.is_empty());
    let not_counted = comparisons.iter().filter(|c| c.not_counted.is_some());
    let not_counted = not_counted.map(|c| c.resource.clone()).collect();
    let unknown = comparisons.iter().filter(|c| !c.not_known.is_empty());
    let unknown = unknown.map(|comparison| {
        // "name: why"; the reasons are long, and for --explain.
        let notes = comparison.not_known.iter();
        let whose: Vec<&str> = notes
            .map(|note| note.split(": ").next().unwrap_or(note))
            .collect();
        format!("{} for {}", comparison.resource, whose.join(" and "))
    });
    let mut facts = vec![
        ("decided by", Some(decided_by(explanation))),
        (
            "size",
            explanation.size.as_ref().map(|size| size.why.clone()),
        ),
        ("expects", expected.map(|expected| expects(expected, gaps))),
        ("in parts", joined(parts.collect(), ", ")),
        ("expect harm", joined(harms, "; ")),
        ("relaxed", joined(relaxed.collect(), ", ")),
        ("tightest", tightest),
        (
            "not counted",
            joined(not_counted, ", ")
                .map(|those| format!("{those} (applications have CPUs of their own here)")),
        ),
        ("not known", joined(unknown.collect(), ", ")),
    ];
    let notes = explanation.notes.iter();
    facts.extend(notes.map(|note| ("note", Some(note.clone()))));
    for (index, other) in explanation.runners_up.iter().enumerate() {
        let name = if index == 0 { "next best" } else { "" };
        facts.push((name, Some(format!("{}: {}", other.node, other.why))));
    }
    let mut page = format!(
        "{} → {}\n",
        text::clean(&explanation.app),
        text::clean(&explanation.node)
    );
    page += &text::facts("  ", 12, facts, style.prose());
    if !comparisons.is_empty() {
        page += &comparison_table(comparisons, style);
    }
    for comparison in comparisons {
        for note in comparison.not_counted.iter().chain(&comparison.not_known) {
            let line = format!("{}: {note}", comparison.resource);
            page += &text::wrap("  – ", &line, style.prose());
        }
    }
    page
}

/// With `gaps`, something is not known and the interval cannot hold it.
fn expects(expected: &ExpectedPerformance, gaps: bool) -> String {
    let [low, high] = expected.ci95.map(|end| end * 100.0);
    let own = format!(
        "{:.0} % of its baseline performance (95 % interval {low:.0} to {high:.0}{})",
        expected.performance * 100.0,
        if gaps {
            "; some inputs are unknown"
        } else {
            ""
        }
    );
    match &expected.most_hurt {
        Some(hurt) => format!(
            "{own}; {} is hurt the most, from {:.0} to {:.0} %",
            hurt.app,
            hurt.before * 100.0,
            hurt.after * 100.0
        ),
        None => own,
    }
}

/// Every direction below zero, in words.
fn harms(comparisons: &[Comparison]) -> Vec<String> {
    let mut harms = Vec::new();
    for comparison in comparisons {
        for (side, d, who) in [
            (Direction::D1, comparison.d1, "residents"),
            (Direction::D2, comparison.d2, "the newcomer"),
        ] {
            if let Some(d) = d.filter(|d| *d < 0.0) {
                harms.push(format!(
                    "to {who} on {} ({side} {})",
                    comparison.resource,
                    signed(d)
                ));
            }
        }
    }
    harms
}

fn tightest(comparisons: &[Comparison]) -> Option<String> {
    let least = |d: fn(&Comparison) -> Option<f64>| {
        comparisons
            .iter()
            .filter_map(|comparison| Some((d(comparison)?, comparison.resource.as_str())))
            .min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let parts: Vec<String> = [
        (Direction::D1, least(|comparison| comparison.d1)),
        (Direction::D2, least(|comparison| comparison.d2)),
    ]
    .into_iter()
    .filter_map(|(side, least)| {
        let (d, resource) = least?;
        Some(format!("{side} {} on {resource}", signed(d)))
    })
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn comparison_table(comparisons: &[Comparison], style: Style) -> String {
    let titles = [
        "resource",
        "residents tolerate",
        "app causes",
        "D1",
        "app tolerates",
        "residents cause",
        "D2",
    ];
    let say = |score: Option<f64>| score.map_or("–".into(), |score| format!("{score:.0}"));
    let difference = |d: Option<f64>| d.map_or("–".into(), signed);
    let rows = comparisons.iter().map(|comparison| {
        [
            text::clean(&comparison.resource),
            say(comparison.node_tolerates),
            say(comparison.app_causes),
            difference(comparison.d1),
            say(comparison.app_tolerates),
            say(comparison.node_causes),
            difference(comparison.d2),
        ]
    });
    let table = table(style, titles, rows, &[0]);
    table.lines().map(|line| format!("  {line}\n")).collect()
}

fn nodes(cluster: &Cluster, style: Style) -> String {
    let rows = cluster.ids().map(|id| {
        let node = cluster.node(id);
        let mut counts: Vec<(&str, usize)> = Vec::new();
        let mut residents: Vec<_> = cluster.residents(id).collect();
        residents.sort_by_key(|(id, _)| *id);
        for (_, resident) in residents {
            let app = resident.app.name();
            match counts.iter_mut().find(|(name, _)| *name == app) {
                Some((_, count)) => *count += 1,
                None => counts.push((app, 1)),
            }
        }
        let runs = counts.into_iter().map(|(name, count)| match count {
            1 => name.to_string(),
            count => format!("{count} × {name}"),
        });
        let runs = match runs.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "–".to_string(),
            runs => text::clean(&runs),
        };
        let used = u64::try_from(cluster.memory_used(id)).unwrap_or(u64::MAX);
        let (used, memory) = (text::bytes(used), text::bytes(node.memory_bytes));
        [
            text::clean(&node.name),
            format!("{} of {}", cluster.cpus_used(id), node.cpus),
            format!("{used} of {memory}"),
            runs,
        ]
    });
    table(style, ["node", "CPUs", "memory", "runs now"], rows, &[0])
}

fn signed(d: f64) -> String {
    if d < 0.0 {
        format!("−{:.0}", -d)
    } else {
        format!("+{d:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_schedule::Deciding;
    use jostle_schedule::MostAffected;
    use jostle_schedule::PartReason;
    use jostle_schedule::Relaxed;

    #[test]
    fn a_decision_with_an_expectation_and_parts_says_both() {
        let part = |node: &str, cpus| PartReason {
            node: node.into(),
            cpus,
        };
        let explanation = Explanation {
            app: "redis".into(),
            policy: "p",
            node: "n1".into(),
            parts: vec![part("n1", 4), part("n2", 1)],
            size: None,
            expected: Some(ExpectedPerformance {
                performance: 0.874,
                ci95: [0.801, 0.93],
                most_hurt: Some(MostAffected {
                    app: "web".into(),
                    before: 0.97,
                    after: 0.9,
                }),
            }),
            deciding: Deciding {
                resource: None,
                why: "best".into(),
            },
            comparisons: Vec::new(),
            relaxed: vec![Relaxed {
                resource: "llc-capacity".into(),
                direction: Direction::D2,
                shortfall: 3.0,
            }],
            runners_up: Vec::new(),
            notes: Vec::new(),
        };
        assert_eq!(
            one(&explanation, Style::plain()),
            "redis → n1\n  \
             decided by  best\n  \
             expects     87 % of its baseline performance (95 % interval 80 to 93); web is hurt the most, from\n              \
             97 to 90 %\n  \
             in parts    4 CPUs on n1, 1 CPU on n2\n  \
             relaxed     D2 ≥ 0 on llc-capacity\n"
        );
    }
}
