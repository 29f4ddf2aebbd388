//! What was learned from windows, and how well it holds, as a person reads it.

use super::style::Style;
use super::style::table;
use super::text;
use jostle_profile::reading::Reading;
use jostle_schedule::admission::Cause;
use jostle_schedule::admission::PairReport;
use jostle_schedule::admission::Score;
use jostle_schedule::admission::TrainingReport;
use jostle_schedule::admission::Used;

/// Every pair of node and workload with its models on the later third, what they are
/// compared with, and the causes.
pub fn page(report: &TrainingReport, style: Style) -> String {
    let pairs = report.pairs.len();
    let from = report.later_third_from.as_ref();
    let from = from.map_or_else(String::new, |time| format!(" (from {time})"));
    let mut page = text::wrap(
        "",
        &format!(
            "{} windows of {pairs} {}; learned from the first two thirds, judged on the later \
             third{from}",
            report.windows,
            if pairs == 1 { "pair" } else { "pairs" },
        ),
        style.prose(),
    );
    page.push('\n');
    let titles = [
        "node",
        "workload",
        "model",
        "accuracy",
        "slow found",
        "false alarms",
        "used",
    ];
    let rows = report.pairs.iter().flat_map(rows);
    page += &table(style, titles, rows.chain(sum(report)), &[3, 4, 5]);
    let causes: Vec<String> = report.pairs.iter().map(causes).collect();
    page += "\nwhat speaks for slow (features behind 75 % of the score, by class):\n";
    page += &text::list("  – ", &causes, style.prose());
    let notes = notes(report);
    if !notes.is_empty() {
        page += "\nnotes:\n";
        page += &text::list("  – ", &notes, style.prose());
    }
    page
}

/// The later third in words, and the models on it.
fn rows(pair: &PairReport) -> Vec<Vec<String>> {
    let workload = match pair.workload.as_str() {
        "" => "any".to_string(),
        name => text::clean(name),
    };
    let named = [text::clean(&pair.node), workload];
    let empty = || [String::new(), String::new()];
    let row = |names: [String; 2], model: &str, cells: [String; 3], used: bool| {
        let used = if used { "yes" } else { "" };
        let mut row = Vec::from(names);
        row.push(model.into());
        row.extend(cells);
        row.push(used.into());
        row
    };
    let constant = match pair.always_not_slow.value() {
        Some(accuracy) => [percent(*accuracy), "0 %".into(), "0 %".into()],
        None => [TOO_LITTLE, "", ""].map(String::from),
    };
    let separate = cells(&pair.separate);
    let shared = cells(&pair.shared);
    vec![
        row(named, "separate", separate, pair.used == Used::Separate),
        row(empty(), "shared", shared, pair.used == Used::Shared),
        row(empty(), "always \"not slow\"", constant, false),
    ]
}

const TOO_LITTLE: &str = "too little data";

/// The shared model over all pairs.
fn sum(report: &TrainingReport) -> Vec<Vec<String>> {
    if report.pairs.len() < 2 {
        return Vec::new();
    }
    let mut row = vec!["all".to_string(), "all".into(), "shared".into()];
    row.extend(cells(&report.shared));
    row.push(String::new());
    vec![row]
}

fn cells(score: &Reading<Score>) -> [String; 3] {
    match score {
        Reading::Value(score) => [
            percent(score.accuracy),
            rate(&score.true_positive_rate),
            rate(&score.false_positive_rate),
        ],
        Reading::Unavailable { unavailable } if unavailable.starts_with(TOO_LITTLE) => {
            [TOO_LITTLE, "", ""].map(String::from)
        }
        Reading::Unavailable { .. } => ["none", "", ""].map(String::from),
    }
}

fn rate(rate: &Reading<f64>) -> String {
    rate.value()
        .map_or_else(|| TOO_LITTLE.into(), |rate| percent(*rate))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn name(pair: &PairReport) -> String {
    let node = text::clean(&pair.node);
    match pair.workload.as_str() {
        "" => node,
        workload => format!("{} on {node}", text::clean(workload)),
    }
}

fn causes(pair: &PairReport) -> String {
    let (tested, slow) = (pair.tested_on, pair.tested_slow);
    let name = format!(
        "{} ({} + {tested} windows, {} + {slow} slow)",
        name(pair),
        pair.trained_on,
        pair.trained_slow
    );
    let one = |cause: &Cause| {
        let counters: Vec<&str> = cause
            .counters
            .iter()
            .map(|it| it.counter.as_str())
            .collect();
        format!(
            "{} {} ({})",
            cause.class,
            percent(cause.share),
            counters.join(", ")
        )
    };
    match (&pair.why, pair.causes.value()) {
        (Some(why), _) => format!("{name}: no model is used: {why}"),
        (None, Some(causes)) if !causes.is_empty() => {
            let causes: Vec<String> = causes.iter().map(one).collect();
            format!("{name}: {}", causes.join(", "))
        }
        _ => format!("{name}: no feature speaks for it"),
    }
}

/// What was left out.
fn notes(report: &TrainingReport) -> Vec<String> {
    let mut notes = report.notes.clone();
    if report.unlabelled > 0 {
        notes.push(format!(
            "{} windows left out: whether the workload was slow is not known",
            report.unlabelled
        ));
    }
    let missing = report.features.iter().filter(|it| it.available < 1.0);
    let missing = missing.map(|it| match it.available {
        0.0 => format!("{} (never)", it.name),
        share => format!("{} ({})", it.name, percent(share)),
    });
    let missing: Vec<String> = missing.collect();
    if !missing.is_empty() {
        notes.push(format!(
            "not available in every window, where the mean stands in: {}",
            missing.join(", ")
        ));
    }
    notes
}
