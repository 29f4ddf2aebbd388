//! A division of the CPUs of one machine as a person reads it.

use super::style::Style;
use super::style::table;
use super::text;
use jostle_profile::cpulist::format_list;
use jostle_profile::pairs::Performance;
use jostle_profile::reading::Reading;
use jostle_schedule::local::Search;
use serde::Serialize;

/// The best division, and what is expected of it.
#[derive(Clone, Debug, Serialize)]
pub struct LocalPlan {
    /// CPUs that were divided.
    pub cpus: usize,
    /// Divisions that were compared, and whether these were all.
    pub compared: usize,
    pub exhaustive: bool,
    /// Of the expected performances, and that of the worst division.
    pub expected_geometric_mean: f64,
    pub worst_geometric_mean: f64,
    /// Who shares CPUs in the worst division.
    pub worst: Vec<Vec<String>>,
    pub programs: Vec<LocalProgram>,
    /// Ways of each last-level cache that was divided; `Unavailable` says why none was.
    pub cache_ways: Reading<usize>,
    pub notes: Vec<String>,
}

/// One program in it. Performance is a fraction of that without neighbours.
#[derive(Clone, Debug, Serialize)]
pub struct LocalProgram {
    pub name: String,
    pub cpus: Vec<usize>,
    pub shares_with: Vec<String>,
    pub expected: f64,
    pub ci95: [f64; 2],
    /// What it gets of the caches of its CPUs; empty where that is not limited.
    pub shares: Vec<LocalShare>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Reading<Performance>>,
}

/// What is kept for a program, and for those on the same CPUs, of one last-level cache
/// and the memory behind it.
#[derive(Clone, Debug, Serialize)]
pub struct LocalShare {
    /// The kernel's id of the cache.
    pub cache: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<usize>,
    /// Their bits, hexadecimal, as resctrl writes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_percent: Option<u32>,
}

impl LocalPlan {
    /// Of what `found` says of programs called `names`, on their `cpus`; of `all` CPUs.
    pub fn of(names: &[&str], cpus: &[Vec<usize>], found: &Search, all: usize) -> LocalPlan {
        let named = |group: &Vec<usize>| -> Vec<String> {
            group
                .iter()
                .map(|index| names[*index].to_string())
                .collect()
        };
        let programs = names.iter().enumerate().map(|(index, name)| {
            let group = found
                .best
                .groups
                .iter()
                .find(|group| group.contains(&index));
            let mut mates = group.cloned().unwrap_or_default();
            mates.retain(|mate| *mate != index);
            let expected = &found.best.expected[index];
            LocalProgram {
                name: name.to_string(),
                cpus: cpus[index].clone(),
                shares_with: named(&mates),
                expected: expected.performance(),
                ci95: expected.ci95(),
                shares: Vec::new(),
                measured: None,
            }
        });
        LocalPlan {
            cpus: all,
            compared: found.compared,
            exhaustive: found.exhaustive,
            expected_geometric_mean: found.best.geometric_mean(),
            worst_geometric_mean: found.worst.geometric_mean(),
            worst: found.worst.groups.iter().map(named).collect(),
            programs: programs.collect(),
            cache_ways: Reading::unavailable("not asked for"),
            notes: Vec::new(),
        }
    }
}

/// `12 of 16 ways, 60 %`.
fn shares(shares: &[LocalShare], all: usize) -> String {
    let each: Vec<String> = shares
        .iter()
        .map(|share| {
            let ways = share.ways.map(|ways| format!("{ways} of {all} ways"));
            let bandwidth = share
                .bandwidth_percent
                .map(|percent| format!("{percent} %"));
            let both: Vec<String> = ways.into_iter().chain(bandwidth).collect();
            both.join(", ")
        })
        .collect();
    match each.is_empty() {
        true => "all".into(),
        false => each.join("; "),
    }
}

/// The division, a line per program.
pub fn local_page(plan: &LocalPlan, style: Style) -> String {
    let count = plan.programs.len();
    let mut page = format!(
        "{count} programs on {} CPU{}: expected {:.0} % (geometric mean)\n\n",
        plan.cpus,
        if plan.cpus == 1 { "" } else { "s" },
        plan.expected_geometric_mean * 100.0
    );
    let verified = plan
        .programs
        .iter()
        .any(|program| program.measured.is_some());
    let mut titles = vec!["CPU", "program", "expected", "95 % interval"];
    if verified {
        titles.extend(["measured", "95 % interval"]);
    }
    let ways = plan.cache_ways.value();
    if ways.is_some() {
        titles.push("cache, memory");
    }
    titles.push("shares with");
    let mut order: Vec<&LocalProgram> = plan.programs.iter().collect();
    order.sort_by(|a, b| a.cpus.cmp(&b.cpus));
    let rows = order.into_iter().map(|program| {
        let percent = |ends: [f64; 2]| {
            let [low, high] = ends.map(|end| end * 100.0);
            format!("{low:.0}–{high:.0}")
        };
        let mut row = vec![
            format_list(&program.cpus),
            text::clean(&program.name),
            format!("{:.0} %", program.expected * 100.0),
            percent(program.ci95),
        ];
        match &program.measured {
            Some(Reading::Value(found)) => {
                row.push(format!("{:.0} %", found.value * 100.0));
                row.push(percent(found.ci95));
            }
            Some(Reading::Unavailable { unavailable }) => {
                row.extend(["unknown".into(), text::clean(unavailable)]);
            }
            None if verified => row.extend(["–".into(), "–".into()]),
            None => {}
        }
        if let Some(all) = ways {
            row.push(shares(&program.shares, *all));
        }
        row.push(match program.shares_with.is_empty() {
            true => "–".into(),
            false => text::clean(&program.shares_with.join(", ")),
        });
        row
    });
    page += &table(style, titles, rows, &[0, 1, 2, 3]);
    let worst = plan.worst.iter().map(|group| group.join(" + "));
    let worst = worst.collect::<Vec<String>>().join(", ");
    let compared = match (plan.compared, plan.exhaustive) {
        (1, _) => "There is no other division.".to_string(),
        (many, true) => format!(
            "All {many} divisions were compared; the worst ({}) has {:.0} %.",
            text::clean(&worst),
            plan.worst_geometric_mean * 100.0
        ),
        (many, false) => format!("{many} divisions were compared, not all there are."),
    };
    page += &format!("\n{compared}\n");
    if let Some(reason) = plan.cache_ways.reason() {
        page += &text::wrap(
            "",
            &format!(
                "Caches and memory are not divided: {}.",
                text::clean(reason)
            ),
            style.prose(),
        );
    }
    if !plan.notes.is_empty() {
        page += &format!("\n{}", text::list("– ", &plan.notes, style.prose()));
    }
    page
}
