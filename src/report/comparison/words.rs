//! Cells and sentences that all forms of a comparison share.

use crate::report::text;
use jostle_compare::Change;
use jostle_compare::Comparison;
use jostle_compare::Outcome;
use jostle_compare::ResourceChange;
use jostle_compare::Side;
use jostle_compare::gate::Judged;
use jostle_compare::gate::Judgement;
use jostle_profile::reading::Reading;

pub fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Worse => "worse",
        Outcome::Better => "better",
        Outcome::More => "more",
        Outcome::Less => "less",
        Outcome::Same => "same",
        Outcome::Open => "open",
    }
}

/// `12 → 31`.
pub fn both(reading: &Reading<Change>) -> String {
    let number =
        |value: f64| text::short(if value.abs() < 0.05 { 0.0 } else { value }).replace('-', "−");
    match reading.value() {
        Some(it) => format!("{} → {}", number(it.old), number(it.new)),
        None => "–".into(),
    }
}

/// The same of scores, which are whole.
pub fn both_whole(reading: &Reading<Change>) -> String {
    let number = |value: f64| format!("{:.0}", no_minus_zero(value)).replace('-', "−");
    match reading.value() {
        Some(it) => format!("{} → {}", number(it.old), number(it.new)),
        None => "–".into(),
    }
}

/// `+19 (+8 to +30)`.
pub fn difference(reading: &Reading<Change>) -> String {
    let number = |value: f64| match no_minus_zero(value) {
        0.0 => "0".into(),
        value => format!("{value:+.0}").replace('-', "−"),
    };
    match reading.value() {
        Some(it) => {
            let [low, high] = it.ci95.map(number);
            format!("{} ({low} to {high})", number(it.difference))
        }
        None => "–".into(),
    }
}

/// What rounds to nothing has no sign.
fn no_minus_zero(value: f64) -> f64 {
    if value.abs() < 0.5 { 0.0 } else { value }
}

/// The conclusion, in sentences.
pub fn conclusion(comparison: &Comparison) -> String {
    let word = comparison.verdict.word.words();
    let mut first: Vec<char> = word.chars().collect();
    if let Some(letter) = first.first_mut() {
        letter.make_ascii_uppercase();
    }
    let word: String = first.into_iter().collect();
    format!("{word}. {}", comparison.verdict.sentences.join(" "))
}

/// One of the profiles in a line.
pub fn side(side: &Side) -> String {
    let runs = match side.runs {
        1 => text::duration(side.duration_seconds),
        runs => format!(
            "{runs} runs, {} in all",
            text::duration(side.duration_seconds)
        ),
    };
    let day = side.recorded_at.get(..10).unwrap_or(&side.recorded_at);
    let level = match &side.baseline {
        Some(it) => format!(
            "{} {} without interference",
            text::number(it.value),
            side.unit
        ),
        None => format!("level without interference unknown, in {}", side.unit),
    };
    text::clean(&format!("{}, {level}, {runs} on {day}", side.name))
}

/// What was held against one condition.
pub fn judged(it: &Judged) -> String {
    let outcome = match it.outcome {
        Judgement::Failed => "failed",
        Judgement::Passed => "passed",
        Judgement::CannotTell => "cannot tell",
    };
    let on = match it.condition.starts_with('*') {
        true => format!(" on {}", text::clean(&it.resource)),
        false => String::new(),
    };
    let why = match (it.value, it.ci95, &it.reason) {
        (Some(value), Some([low, high]), _) => {
            format!("{value:.1} (95 % interval {low:.1} to {high:.1})").replace('-', "−")
        }
        (_, _, Some(reason)) => text::clean(reason),
        _ => String::new(),
    };
    format!("{outcome}: {}{on}: {why}", it.condition)
}

/// What a row's reader wants to know of a resource that is not compared.
pub fn not_compared(comparison: &Comparison) -> Option<String> {
    let names = comparison.not_compared.iter();
    let names: Vec<String> = names.map(|it| text::clean(&it.resource)).collect();
    (!names.is_empty()).then(|| format!("Not compared: {}.", names.join(", ")))
}

/// Resources and their words, for tables.
pub fn name_of(resource: &ResourceChange) -> String {
    text::clean(&resource.resource)
}
