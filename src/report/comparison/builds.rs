//! Two builds held against each other: on a screen, for a pull request, and for the
//! test report of a CI system.

use super::junit;
use super::markdown;
use crate::report::Style;
use crate::report::text;
use jostle_compare::builds::Builds;
use jostle_compare::builds::Change;
use jostle_compare::builds::Word;
use jostle_compare::builds::digits;
use jostle_compare::gate::Judged;
use jostle_compare::gate::Judgement;
use jostle_profile::cpulist::format_list;
use std::fmt::Write;

/// The answer, and what it rests on.
pub fn builds_page(builds: &Builds, style: Style) -> String {
    let mut page = text::wrap("", &builds.verdict.sentence, style.prose());
    page.push('\n');
    let rows = [
        ("OLD", Some(side(builds, &builds.old, |speed| speed.old))),
        ("NEW", Some(side(builds, &builds.new, |speed| speed.new))),
        ("speed", Some(counted(builds))),
        ("basis", Some(basis(builds))),
    ];
    page += &text::facts("", 7, rows, style.prose());
    let conditions: Vec<String> = builds.gate.iter().map(|it| judged(it, builds)).collect();
    page += &text::titled("Conditions", &conditions, style.prose());
    page += &text::titled("Warnings", &warnings(builds), style.prose());
    page
}

/// For a comment on a pull request.
pub fn builds_markdown(builds: &Builds) -> String {
    let title = match builds.verdict.word {
        Word::Slower => "slower",
        Word::Faster => "faster",
        Word::Same => "same",
        Word::CannotTell => "cannot tell",
    };
    let mut page = format!(
        "### Speed: {title}\n\n{}\n\n",
        markdown::escaped(&builds.verdict.sentence)
    );
    let sides = [
        ("OLD", side(builds, &builds.old, |speed| speed.old)),
        ("NEW", side(builds, &builds.new, |speed| speed.new)),
        ("speed", counted(builds)),
        ("basis", basis(builds)),
    ];
    // Writing to a string cannot fail.
    for (name, words) in sides {
        let _ = writeln!(page, "- {name}: {}", markdown::escaped(&words));
    }
    for it in &builds.gate {
        let _ = writeln!(
            page,
            "- condition {}",
            markdown::escaped(&judged(it, builds))
        );
    }
    for warning in warnings(builds) {
        let _ = writeln!(page, "- warning: {}", markdown::escaped(&warning));
    }
    page
}

/// One test for each condition, or one for the speed where there is none. What cannot
/// be told is skipped, and with `strict` a failure.
pub fn builds_junit(builds: &Builds, strict: bool) -> String {
    let sentence = &builds.verdict.sentence;
    let tests: Vec<(String, Judgement, String)> = match builds.gate.is_empty() {
        true => {
            let outcome = match builds.verdict.word {
                Word::Slower => Judgement::Failed,
                Word::CannotTell => Judgement::CannotTell,
                Word::Faster | Word::Same => Judgement::Passed,
            };
            vec![("speed".into(), outcome, sentence.clone())]
        }
        false => {
            let judged = builds.gate.iter().map(|it| {
                let outcome = it.outcome;
                (it.condition.clone(), outcome, judged(it, builds))
            });
            judged.collect()
        }
    };
    let tests: Vec<(String, Judgement, String)> = tests
        .into_iter()
        .map(|(name, outcome, why)| match outcome {
            Judgement::CannotTell if strict => (name, Judgement::Failed, why),
            outcome => (name, outcome, why),
        })
        .collect();
    let count = |wanted: Judgement| tests.iter().filter(|it| it.1 == wanted).count();
    let mut page = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        page,
        "<testsuite name=\"jostle compare --run\" tests=\"{}\" failures=\"{}\" errors=\"0\" \
         skipped=\"{}\" timestamp=\"{}\" time=\"{:.1}\">",
        tests.len(),
        count(Judgement::Failed),
        count(Judgement::CannotTell),
        junit::escaped(&builds.recorded_at),
        builds.seconds
    );
    let class = junit::escaped(&builds.new.join(" "));
    for (name, outcome, why) in &tests {
        let (name, why) = (junit::escaped(name), junit::escaped(why));
        let inside = match outcome {
            Judgement::Passed => String::new(),
            Judgement::Failed => format!("<failure message=\"{why}\"/>"),
            Judgement::CannotTell => format!("<skipped message=\"{why}\"/>"),
        };
        let _ = writeln!(
            page,
            "  <testcase classname=\"{class}\" name=\"{name}\">{inside}</testcase>"
        );
    }
    let _ = writeln!(
        page,
        "  <system-out>{}</system-out>\n</testsuite>",
        junit::escaped(sentence)
    );
    page
}

/// `1,234,000 operations per second, ./app --bench`.
fn side(builds: &Builds, command: &[String], rate: fn(&Change) -> f64) -> String {
    let command = command.join(" ");
    match builds.speed.value() {
        Some(speed) => format!("{}: {command}", pace(builds, rate(speed))),
        None => command,
    }
}

/// A run by its time, everything else by its rate.
fn pace(builds: &Builds, rate: f64) -> String {
    match builds.metric.old == "runs" {
        true => format!("{} a run", text::duration(1.0 / rate)),
        false => format!("{} {}", text::number(rate), builds.metric.unit),
    }
}

fn counted(builds: &Builds) -> String {
    let metric = &builds.metric;
    match (metric.old == "runs", metric.old == metric.new) {
        (true, _) => format!(
            "time from the beginning of a run to its end; {}",
            metric.about
        ),
        (false, true) => format!("{}; {}", metric.old, metric.about),
        (false, false) => format!("{} and {}; {}", metric.old, metric.new, metric.about),
    }
}

fn basis(builds: &Builds) -> String {
    let turn = text::duration(builds.turn_seconds);
    let level = builds.speed.value().map_or(String::new(), |speed| {
        format!(", {:.0} % interval", 100.0 * speed.level)
    });
    format!(
        "{} starts of each in {}, in turns of {turn} on CPU {}{level}",
        builds.starts.len(),
        text::duration(builds.seconds),
        format_list(&builds.cpus)
    )
}

fn judged(it: &Judged, builds: &Builds) -> String {
    let outcome = match it.outcome {
        Judgement::Failed => "failed",
        Judgement::Passed => "passed",
        Judgement::CannotTell => "cannot tell",
    };
    match builds.speed.value() {
        Some(speed) => {
            let [low, high] = speed.interval.map(digits);
            let (low, high) = (low.replace('-', "−"), high.replace('-', "−"));
            format!(
                "{}: {outcome}, the change is {low} to {high} %",
                it.condition
            )
        }
        None => format!("{}: {outcome}", it.condition),
    }
}

fn warnings(builds: &Builds) -> Vec<String> {
    let warnings = builds.warnings.iter();
    warnings.map(|warning| warning.message.clone()).collect()
}
