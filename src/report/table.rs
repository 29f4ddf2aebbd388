//! Everything that a profile says.

use super::entries::Verdict;
use super::entries::by_sensitivity;
use super::entries::causes_without_a_score;
use super::mechanism;
use super::scaling;
use super::style::Style;
use super::style::table;
use super::switches;
use super::text;
use super::together;
use super::used;
use comfy_table::Attribute;
use comfy_table::Cell;
use comfy_table::Color;
use jostle_profile::Direction;
use jostle_profile::LoadFacts;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::Status;
use jostle_profile::curve::telling;
use jostle_profile::reading::Reading;

/// Below this, intervals go on a second line of their row.
const ONE_LINE_WIDTH: u16 = 120;
/// The whole profile: header, one row per resource ordered by sensitivity,
/// doubts, bounds, and what it does not prove.
pub fn profile_details(profile: &Profile, style: Style) -> String {
    let mut page = header(profile, style);
    page.push('\n');
    page.push_str(&rows(profile, style));
    page.push_str(&legend(profile, style));
    page.push_str(&notes(profile, style));
    page.push_str(&text::wrap(
        "",
        "What this does not prove: the scores hold for this machine type, this input and load level, \
         and the placement shown in each row; another of any of these needs another profile.",
        style.prose(),
    ));
    page
}

fn header(profile: &Profile, style: Style) -> String {
    text::facts("", 10, facts(profile), style.prose())
}

/// What was profiled, where and how: names and values, those without one left out by
/// whoever prints them.
pub(super) fn facts(profile: &Profile) -> [(&'static str, Option<String>); 16] {
    let (workload, conditions) = (&profile.workload, &profile.conditions);
    let labels: Vec<String> = workload
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let cpus = match conditions.target_cpus.as_slice() {
        [] => String::new(),
        cpus => {
            let because = conditions.target_cpus_because.as_ref();
            let because = because.map_or(String::new(), |because| format!(" ({because})"));
            format!(", target on CPU {}{because}", text::cpu_list(cpus))
        }
    };
    let measured = format!(
        "{}, in {} of the {} allowed, by jostle {}, seed {}{cpus}",
        conditions.recorded_at,
        text::duration(conditions.duration_seconds),
        text::duration(conditions.budget_seconds),
        conditions.tool_version,
        conditions.seed
    );
    let qos = format!(
        "kept while performance is at least {} % of the baseline",
        text::number(profile.qos.threshold * 100.0)
    );
    let quick = "measured with --quick: the intervals are wider than they need be";
    let partial = "cut short: only what was learned until then is here";
    let joined = |parts: &[String], between| (!parts.is_empty()).then(|| parts.join(between));
    [
        ("workload", Some(workload.name.clone())),
        ("command", joined(&workload.command, " ")),
        ("labels", joined(&labels, ", ")),
        ("machine", Some(machine(profile))),
        ("metric", Some(metric(profile))),
        ("load", profile.metric.load.as_ref().map(sent)),
        ("window", profile.metric.window_rule.clone()),
        (
            "reading",
            profile.metric.resolution.map(|it| it.explain().into()),
        ),
        ("cost", profile.metric.cost.clone()),
        ("QoS", Some(qos)),
        ("measured", Some(measured)),
        ("noise", Some(noise(profile))),
        ("peaks", conditions.peaks_from.clone()),
        ("quick", conditions.quick.then(|| quick.into())),
        ("partial", profile.partial.then(|| partial.into())),
        ("limits", limits(profile)),
    ]
}

/// What the sources were allowed.
fn limits(profile: &Profile) -> Option<String> {
    let conditions = &profile.conditions;
    let ceiling = conditions.max_intensity_percent;
    let ceiling = ceiling.map(|most| format!("no source above {} %", text::number(most)));
    let floor = conditions.floor.as_ref().map(|floor| {
        let limit = match &floor.limit {
            Reading::Value(limit) => {
                format!(" ({} {})", text::number(*limit), profile.metric.unit)
            }
            Reading::Unavailable { unavailable } => format!(" (not watched: {unavailable})"),
        };
        let end = match floor.reached {
            Some(_) => ", which was reached",
            None => ", which was not reached",
        };
        format!("floor {}{limit}{end}", floor.asked)
    });
    let parts: Vec<String> = ceiling.into_iter().chain(floor).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn machine(profile: &Profile) -> String {
    let machine = &profile.machine;
    let mut parts = vec![
        machine.model.clone(),
        format!(
            "{} CPUs{}",
            machine.cpus,
            if machine.smt { " with SMT" } else { "" }
        ),
    ];
    for cache in &machine.caches {
        parts.push(format!("{} {}", cache.name, text::bytes(cache.size_bytes)));
    }
    parts.push(text::bytes(machine.memory_bytes));
    parts.push(format!("kernel {}", machine.kernel));
    if let Some(hypervisor) = &machine.virtualized {
        parts.push(format!("virtualized ({hypervisor})"));
    }
    parts.join(", ")
}

fn metric(profile: &Profile) -> String {
    let metric = &profile.metric;
    let level = match &metric.baseline {
        Some(baseline) => format!(
            "{} {} (95 % interval {}–{}) without interference",
            text::number(baseline.value),
            metric.unit,
            text::number(baseline.ci95[0]),
            text::number(baseline.ci95[1])
        ),
        None => format!("in {}, baseline unknown", metric.unit),
    };
    let better = match metric.direction {
        Direction::Higher => "higher is better",
        Direction::Lower => "lower is better",
    };
    format!(
        "{}: {level}, {better}; {}",
        metric.name, metric.chosen_because
    )
}

/// What was sent to the target.
fn sent(load: &LoadFacts) -> String {
    let mut parts = vec![match load.rate_per_second {
        Some(rate) => format!("{} requests per second to {}", text::number(rate), load.url),
        None => format!("as many requests as were answered to {}", load.url),
    }];
    if let (Some(share), Some(capacity)) = (load.share_percent, load.capacity_per_second) {
        let slo = load.slo.as_deref().unwrap_or("its latency target");
        parts.push(format!(
            "{} % of the {} that met {slo}",
            text::number(share),
            text::number(capacity)
        ));
    }
    parts.push(format!("{} connections", load.connections));
    if load.pipeline > 1 {
        parts.push(format!("{} under way on each", load.pipeline));
    }
    if let Some(late) = load.timing_error_p99_us {
        parts.push(format!("sent at most {} µs late (p99)", text::number(late)));
    }
    parts.push(format!(
        "the generator took {} % of CPU {}",
        text::number(load.generator_cpu_percent),
        text::cpu_list(&load.generator_cpus)
    ));
    parts.join(", ")
}

fn noise(profile: &Profile) -> String {
    let conditions = &profile.conditions;
    let mut parts = Vec::new();
    parts.push(match conditions.noise_percent {
        Some(noise) => format!(
            "{} % between windows without interference",
            text::number(noise)
        ),
        None => "not known".into(),
    });
    parts.push(match &conditions.steal_percent {
        Reading::Value(steal) => format!("steal {} %", text::number(*steal)),
        Reading::Unavailable { unavailable } => format!("steal unavailable ({unavailable})"),
    });
    if let Some(smallest) = conditions.smallest_detectable_percent {
        parts.push(format!(
            "smallest detectable loss {} %",
            text::number(smallest)
        ));
    }
    parts.push(format!(
        "{} windows kept, {} dropped",
        conditions.windows_kept, conditions.windows_dropped
    ));
    if let Some(own) = conditions.profiler_cpu_percent {
        parts.push(format!(
            "the profiler itself took {} % of one CPU",
            text::number(own)
        ));
    }
    parts.join("; ")
}

fn rows(profile: &Profile, style: Style) -> String {
    if profile.resources.is_empty() {
        return "This profile holds no resource.\n".into();
    }
    let one_line = style.width >= ONE_LINE_WIDTH;
    let fitting = |wide: &'static str, narrow: &'static str| match one_line {
        true => wide,
        false => narrow,
    };
    let titles = [
        "resource",
        fitting("placement (CPUs)", "placement"),
        "tolerated",
        "caused",
        fitting("loss at 100 %", "loss at\n100 %"),
        "verdict",
    ];
    let ceiling = profile.conditions.max_intensity_percent;
    // Below a ceiling a score may be all that is known of a larger or smaller one.
    let rows = by_sensitivity(profile).into_iter().map(|(id, entry)| {
        let open = |score: Score| score.ci95[1] >= 100.0 && ceiling == Some(score.score);
        let at_least = if entry.tolerated.is_some_and(open) {
            "≥"
        } else {
            ""
        };
        let open = |score: Score| {
            score.ci95[0] <= 0.0 && ceiling.is_some_and(|most| score.score >= 100.0 - most)
        };
        let at_most = if entry.caused.is_some_and(open) {
            "≤"
        } else {
            ""
        };
        let placement = entry.placement.as_ref().map(|placement| {
            let mode = text::mode(placement.mode);
            let cpus = text::cpu_list(&placement.cpus);
            match (cpus.is_empty(), one_line) {
                (true, _) => mode.to_string(),
                (false, true) => format!("{mode} ({cpus})"),
                (false, false) => format!("{mode}\nCPU {cpus}"),
            }
        });
        let verdict = match one_line {
            true => Cell::new(verdict(entry, profile)),
            false => Cell::new(verdict(entry, profile).replace(' ', "\n")),
        };
        let verdict = match (style.colour, entry.sensitive) {
            (true, Some(true)) => verdict.fg(Color::Yellow),
            (true, Some(false)) => verdict.fg(Color::Green),
            (true, None) => verdict.add_attribute(Attribute::Dim),
            (false, _) => verdict,
        };
        [
            Cell::new(text::clean(id)),
            Cell::new(placement.unwrap_or("–".into())),
            Cell::new(score_cell(
                entry.tolerated,
                "–",
                at_least,
                |score| 100.0 - score,
                one_line,
            )),
            Cell::new(score_cell(
                entry.caused,
                causes_without_a_score(entry).unwrap_or("–"),
                at_most,
                |score| score,
                one_line,
            )),
            Cell::new(loss(entry, profile.qos.threshold, one_line)),
            verdict,
        ]
    });
    table(style, titles, rows, &[0, 5])
}

fn score_cell(
    score: Option<Score>,
    unknown: &str,
    sign: &str,
    length: impl Fn(f64) -> f64,
    one_line: bool,
) -> String {
    let Some(Score { score, ci95 }) = score else {
        return unknown.into();
    };
    let bar = text::bar(length(score));
    if one_line {
        let score = format!("{sign}{score:.0}");
        format!("{bar} {score:>3} ({:.0}–{:.0})", ci95[0], ci95[1])
    } else {
        format!("{bar}\n{sign}{score:.0} ({:.0}–{:.0})", ci95[0], ci95[1])
    }
}

/// Loss as [`telling`] chooses its point, percent of the baseline. Where the interval holds
/// zero, no loss was seen: then only the upper end, 1 − ci95\[0\], is worth printing.
fn loss(entry: &ResourceEntry, threshold: f64, one_line: bool) -> String {
    let Some(point) = telling(&entry.curve, entry.sensitive) else {
        return "–".into();
    };
    let percent = |performance: f64| (1.0 - performance) * 100.0;
    let most = percent(point.ci95[0]).max(0.0);
    let least = percent(point.ci95[1]);
    let mut cell = if entry.sensitive != Some(true) && least <= 0.0 {
        // Calling a wide interval "none" would hide that a violation is possible.
        let small = most <= (1.0 - threshold) * 100.0;
        match (small, one_line) {
            (true, true) => format!("none, at most {most:.1} %"),
            (true, false) => format!("none,\n≤ {most:.1} %"),
            (false, true) => format!("unclear, up to {most:.1} %"),
            (false, false) => format!("unclear,\n≤ {most:.1} %"),
        }
    } else {
        let loss = percent(point.performance);
        if one_line {
            format!("{loss:.1} % ({least:.1}–{most:.1})")
        } else {
            format!("{loss:.1} %\n{least:.1}–{most:.1}")
        }
    };
    let break_at = if one_line { " " } else { "\n" };
    if point.intensity < 99.5 {
        cell.push_str(&format!("{break_at}at {:.0} %", point.intensity));
    }
    cell.replace('-', "−")
}

fn verdict(entry: &ResourceEntry, profile: &Profile) -> &'static str {
    let ceiling = profile.conditions.max_intensity_percent;
    match (entry.status, entry.sensitive) {
        (Status::Measured, None)
            if entry.tolerated.map(|it| it.score) >= ceiling.or(Some(200.0)) =>
        {
            "none up to the limit"
        }
        (Status::Measured, Some(true)) => "sensitive",
        (Status::Unresolved, Some(true)) => "sensitive, from where unresolved",
        (Status::Unresolved, Some(false)) => "not sensitive, caused unresolved",
        (Status::Measured, Some(false)) => "not sensitive",
        (Status::Measured, None) if entry.tolerated.is_some() => {
            Verdict::of(entry, profile).words()
        }
        (Status::Inferred, Some(true)) => "sensitive (inferred)",
        (Status::Inferred, Some(false)) => "not sensitive (inferred)",
        (status, _) => text::status(status),
    }
}

fn legend(profile: &Profile, style: Style) -> String {
    if profile.resources.is_empty() {
        return "\n".into();
    }
    let threshold = text::number(profile.qos.threshold * 100.0);
    let legend = format!(
        "tolerated: highest intensity, 0–100, at which the workload keeps {threshold} % of its baseline; \
         its bar shows 100 − tolerated, so long = sensitive. caused: how much the workload disturbs \
         the source of interference, 0–100; long = disturbs. In parentheses: 95 % intervals."
    );
    format!("\n{}\n", text::wrap("", &legend, style.prose()))
}

/// Doubts, reasons and bounds in words, each under the name of what it is about.
pub(super) fn notes(profile: &Profile, style: Style) -> String {
    let section = |section: &Section| {
        let lines = text::list("  - ", &section.lines, style.prose());
        format!("{}\n{lines}\n", section.title)
    };
    sections(profile).iter().map(section).collect()
}

/// Sentences about one thing.
pub(super) struct Section {
    pub title: &'static str,
    pub lines: Vec<String>,
}

/// The title of what a reader must know before believing the numbers.
pub(super) const DOUBTS: &str = "Warnings";

/// All of them that have something to say.
pub(super) fn sections(profile: &Profile) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut section = |title, lines: Vec<String>| {
        if !lines.is_empty() {
            sections.push(Section { title, lines });
        }
    };
    section(
        "Used without interference (95 % intervals)",
        used::lines(profile),
    );
    section(
        "Sharing a CPU with the source in the scheduler's own turns (95 % intervals)",
        switches::lines(profile, None),
    );
    section(
        "Two sources at once (95 % intervals)",
        together::lines(profile),
    );
    section(
        "Speed with more CPUs or copies, as a multiple of one (95 % intervals)",
        scaling::lines(profile),
    );
    let ordered = by_sensitivity(profile);
    let mut doubts = profile.conditions.doubts.clone();
    for (id, entry) in &ordered {
        doubts.extend(entry.doubts.iter().map(|doubt| format!("{id}: {doubt}")));
    }
    section(DOUBTS, doubts);
    let reasons = ordered.iter().filter_map(|(id, entry)| {
        let reason = entry.reason.as_ref()?;
        Some(format!("{id}: {}: {reason}", text::status(entry.status)))
    });
    section(
        "Why there is no number, or what limits it",
        reasons.collect(),
    );
    let mut bounds = Vec::new();
    for (id, entry) in &ordered {
        let of_source = entry.caused_bound.as_ref();
        let both = [
            ("", entry.physical_bound.as_ref()),
            (" of the source", of_source),
        ];
        for (whose, bound) in both {
            if let Some(bound) = bound {
                let most = text::number(bound.loss_percent);
                bounds.push(format!(
                    "{id}: a loss{whose} of at most {most} %: {}",
                    bound.basis
                ));
            }
        }
    }
    section(
        "Physical bounds, computed from timings and use and not from windows",
        bounds,
    );
    section(
        "What moved while the source pressed, treat against control (95 % intervals)",
        mechanism::lines(profile, &ordered),
    );
    section(
        "Counters that could not be read",
        mechanism::missing(profile),
    );
    sections
}
