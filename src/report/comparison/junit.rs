//! A comparison as JUnit writes test results, which every CI system reads.

use super::words;
use crate::report::text;
use jostle_compare::Change;
use jostle_compare::Comparison;
use jostle_compare::Outcome;
use jostle_compare::Quantity;
use jostle_compare::gate::Judgement;
use jostle_profile::reading::Reading;
use std::fmt::Write;

/// What one test came to.
enum Ended {
    Passed,
    Failed(String),
    Skipped(String),
}

/// One test for each condition, or for each number of each resource where there
/// is none. What cannot be told is skipped, and with `strict` a failure.
pub fn comparison_junit(comparison: &Comparison, strict: bool) -> String {
    let tests = match comparison.gate.judged.is_empty() {
        true => of_resources(comparison),
        false => of_conditions(comparison),
    };
    let tests: Vec<(String, Ended)> = tests
        .into_iter()
        .map(|(name, ended)| match ended {
            Ended::Skipped(why) if strict => (name, Ended::Failed(why)),
            ended => (name, ended),
        })
        .collect();
    let count = |wanted: fn(&Ended) -> bool| tests.iter().filter(|(_, it)| wanted(it)).count();
    let failed = count(|it| matches!(it, Ended::Failed(_)));
    let skipped = count(|it| matches!(it, Ended::Skipped(_)));
    let mut page = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        page,
        "<testsuite name=\"jostle compare\" tests=\"{}\" failures=\"{failed}\" errors=\"0\" \
         skipped=\"{skipped}\" timestamp=\"{}\">",
        tests.len(),
        escaped(&comparison.new.recorded_at)
    );
    let class = escaped(&comparison.new.name);
    for (name, ended) in &tests {
        let name = escaped(name);
        let _ = match ended {
            Ended::Passed => writeln!(page, "  <testcase classname=\"{class}\" name=\"{name}\"/>"),
            Ended::Failed(why) => writeln!(
                page,
                "  <testcase classname=\"{class}\" name=\"{name}\"><failure message=\"{}\"/></testcase>",
                escaped(why)
            ),
            Ended::Skipped(why) => writeln!(
                page,
                "  <testcase classname=\"{class}\" name=\"{name}\"><skipped message=\"{}\"/></testcase>",
                escaped(why)
            ),
        };
    }
    let _ = writeln!(
        page,
        "  <system-out>{}</system-out>\n</testsuite>",
        escaped(&words::conclusion(comparison))
    );
    page
}

fn of_conditions(comparison: &Comparison) -> Vec<(String, Ended)> {
    let tests = comparison.gate.judged.iter().map(|it| {
        let name = format!("{} on {}", it.condition, it.resource);
        let ended = match it.outcome {
            Judgement::Passed => Ended::Passed,
            Judgement::Failed => Ended::Failed(words::judged(it)),
            Judgement::CannotTell => Ended::Skipped(words::judged(it)),
        };
        (name, ended)
    });
    tests.collect()
}

fn of_resources(comparison: &Comparison) -> Vec<(String, Ended)> {
    let mut tests = Vec::new();
    for resource in &comparison.resources {
        for quantity in [Quantity::Loss, Quantity::Tolerated, Quantity::Caused] {
            let ended = ended(resource.get(quantity));
            tests.push((format!("{}.{quantity}", resource.resource), ended));
        }
    }
    for it in &comparison.not_compared {
        tests.push((it.resource.clone(), Ended::Skipped(it.reason.clone())));
    }
    tests
}

fn ended(reading: &Reading<Change>) -> Ended {
    let told = || format!("{}: {}", words::both(reading), words::difference(reading));
    match reading.value() {
        None => Ended::Skipped(reading.reason().unwrap_or("not compared").to_string()),
        Some(change) => match change.outcome {
            Outcome::Worse => Ended::Failed(told()),
            Outcome::Open => Ended::Skipped(format!("cannot tell: {}", told())),
            _ => Ended::Passed,
        },
    }
}

/// XML knows no control characters, not even escaped ones.
pub(super) fn escaped(it: &str) -> String {
    let mut out = String::new();
    for c in text::clean(it).chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '"' => out += "&quot;",
            '\u{fffe}' | '\u{ffff}' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
