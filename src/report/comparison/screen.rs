//! A comparison on one screen.

use super::words;
use crate::report::Style;
use crate::report::style::Colour;
use crate::report::style::columns_wide;
use crate::report::text;
use jostle_compare::Comparison;
use jostle_compare::Outcome;
use jostle_compare::ResourceChange;
use jostle_compare::gate::Judgement;

/// Conditions that are shown before the rest is a number.
const MOST_CONDITIONS: usize = 8;

/// The answer first, then a row for each resource; 40 lines of 80 columns hold
/// it.
pub fn comparison_page(comparison: &Comparison, style: Style) -> String {
    let mut page = text::wrap("", &words::conclusion(comparison), style.prose());
    page.push('\n');
    let sides = [
        ("old", Some(words::side(&comparison.old))),
        ("new", Some(words::side(&comparison.new))),
    ];
    page += &text::facts("", 5, sides, style.prose());
    page.push('\n');
    page += &rows(comparison, style);
    if let Some(names) = words::not_compared(comparison) {
        page += &text::wrap("", &names, style.prose());
    }
    page += &text::titled("Conditions", &conditions(comparison), style.prose());
    let notices: Vec<String> = comparison
        .notices
        .iter()
        .map(|it| it.message.clone())
        .collect();
    page += &text::titled("Warnings", &notices, style.prose());
    page
}

fn rows(comparison: &Comparison, style: Style) -> String {
    let with_use = layout(comparison);
    // A narrow terminal has no room for what is used.
    let plain: Vec<[String; 6]> = with_use
        .iter()
        .map(|[name, loss, change, tolerated, caused, _, verdict]| {
            [name, loss, change, tolerated, caused, verdict].map(String::clone)
        })
        .collect();
    let width = usize::from(style.width);
    let colours = comparison.resources.iter().map(|it| colour(it.outcome()));
    let colours = std::iter::once(None).chain(colours);
    match (
        columns_wide(&with_use, 2) <= width,
        columns_wide(&plain, 2) <= width,
    ) {
        (true, _) => style.columns(&with_use, 2, colours),
        (false, true) => style.columns(&plain, 2, colours),
        (false, false) => style.columns(&plain, 1, colours),
    }
}

fn layout(comparison: &Comparison) -> Vec<[String; 7]> {
    let titles = [
        "resource",
        "loss, %",
        "change, points",
        "tolerates",
        "causes",
        "uses, %",
        "verdict",
    ];
    let mut lines = vec![titles.map(str::to_string)];
    lines.extend(comparison.resources.iter().map(line));
    lines
}

fn line(it: &ResourceChange) -> [String; 7] {
    let at = it.loss.value().and_then(|loss| loss.at_intensity);
    let at = at.filter(|level| *level < 99.5);
    let at = at.map_or(String::new(), |level| format!(" at {level:.0}"));
    [
        words::name_of(it),
        words::both_whole(&it.loss) + &at,
        words::difference(&it.loss),
        words::both_whole(&it.tolerated),
        words::both_whole(&it.caused),
        words::both(&it.used),
        words::outcome(it.outcome()).into(),
    ]
}

fn colour(outcome: Outcome) -> Option<Colour> {
    match outcome {
        Outcome::Worse => Some(Colour::Yellow),
        Outcome::Better | Outcome::Same => Some(Colour::Green),
        Outcome::Open => Some(Colour::Dim),
        Outcome::More | Outcome::Less => None,
    }
}

/// What failed first; conditions on every resource make many lines.
fn conditions(comparison: &Comparison) -> Vec<String> {
    let judged = &comparison.gate.judged;
    let mut lines = Vec::new();
    for wanted in [Judgement::Failed, Judgement::CannotTell, Judgement::Passed] {
        let of_it = judged.iter().filter(|it| it.outcome == wanted);
        lines.extend(of_it.map(words::judged));
    }
    let more = lines.len().saturating_sub(MOST_CONDITIONS);
    if more > 0 {
        lines.truncate(MOST_CONDITIONS);
        lines.push(format!("{more} more, in the JSON"));
    }
    lines
}
