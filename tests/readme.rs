//! The commands of the README and of the first pages behind it: what prints the same
//! everywhere must print what they show; what measures must at least be a request that is
//! understood.

mod common;

use crate::common::program::Ended;
use crate::common::program::command;
use crate::common::program::jostle;
use crate::common::root;
use std::time::Duration;

/// One `$ command` of a console block and the lines shown below it.
struct Example {
    command: String,
    shown: String,
}

const PAGES: [&str; 3] = ["README.md", "docs/profiling.md", "docs/predicting.md"];

fn examples() -> Vec<Example> {
    PAGES.iter().flat_map(|page| examples_of(page)).collect()
}

fn examples_of(page: &str) -> Vec<Example> {
    let page = std::fs::read_to_string(root().join(page)).unwrap();
    let mut examples: Vec<Example> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match (inside, line) {
            (_, "```console") => inside = true,
            (true, "```") => inside = false,
            (true, line) => match line.strip_prefix("$ ") {
                Some(command) => examples.push(Example {
                    command: command.to_string(),
                    shown: String::new(),
                }),
                None => {
                    let shown = &mut examples.last_mut().expect("a command comes first").shown;
                    shown.push_str(line);
                    shown.push('\n');
                }
            },
            _ => {}
        }
    }
    examples
}

/// Splits as a shell would, as far as the README needs it.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn examples_print_what_the_readme_shows() {
    let mut compared = 0;
    for example in examples() {
        let words = words(&example.command);
        let Some(arguments) = words.strip_prefix(&["jostle".to_string()]) else {
            continue;
        };
        if !matches!(arguments[0].as_str(), "show" | "predict" | "schedule") {
            continue;
        }
        let printed = jostle(arguments).stdout;
        let shown = example.shown.trim_end();
        assert_eq!(printed.trim_end(), shown, "$ {}", example.command);
        compared += 1;
    }
    assert!(
        compared >= 3,
        "they show a profile, a prediction and a placement"
    );
}

/// A table of policies ends in real times, which are never the same twice.
fn without_real_times(page: &str) -> Vec<String> {
    let table = page.split("\n\n").take(2);
    let lines = table.flat_map(str::lines);
    let kept = lines.map(|line| match line.rsplit_once("  ") {
        Some((before, _)) => before.trim_end().to_string(),
        None => line.to_string(),
    });
    kept.collect()
}

#[test]
fn simulations_print_what_the_readme_shows_but_for_real_times() {
    let mut compared = 0;
    for example in examples() {
        let words = words(&example.command);
        if !matches!(&words[..2], [a, b] if a == "jostle" && b == "simulate") {
            continue;
        }
        let printed = Ended::of(command(&words[1..]), Duration::from_secs(600)).stdout;
        let (printed, shown) = (
            without_real_times(&printed),
            without_real_times(&example.shown),
        );
        assert!(shown.len() > 3, "{shown:?}");
        assert_eq!(printed, shown, "$ {}", example.command);
        compared += 1;
    }
    assert!(compared >= 1, "they show a simulation");
}

#[test]
fn measuring_examples_are_understood() {
    let mut tried = 0;
    for example in examples() {
        let words = words(&example.command);
        let arguments = match words[0].as_str() {
            "jostle" => words[1..].to_vec(),
            // `cargo run --release -- …`
            "cargo" if words[1] == "run" => {
                let dashes = words.iter().position(|word| word == "--").unwrap();
                words[dashes + 1..].to_vec()
            }
            _ => continue,
        };
        if !matches!(arguments[0].as_str(), "profile" | "run") {
            continue;
        }
        let mut arguments = arguments;
        if !arguments.contains(&"--dry-run".to_string()) {
            arguments.insert(1, "--dry-run".to_string());
        }
        jostle(&arguments).says(0, &[]);
        tried += 1;
    }
    assert!(tried >= 2, "they show the main job and a real program");
}

#[test]
fn the_two_set_up_commands_are_those_of_the_checks() {
    let cargo = examples_of("README.md").into_iter();
    let cargo = cargo.map(|example| example.command);
    let cargo: Vec<String> = cargo.filter(|line| line.starts_with("cargo ")).collect();
    let tests = "cargo test --workspace";
    assert_eq!(cargo, ["cargo run --release -- profile --demo kv", tests]);
    // The checks run the same, then the tests that it leaves out.
    let checks = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    let run: Vec<&str> = checks
        .lines()
        .filter_map(|line| line.strip_prefix("tests "))
        .collect();
    assert_eq!(
        run[..2],
        [
            format!("{tests} --locked --no-fail-fast"),
            format!("{tests} --locked --no-fail-fast -- --ignored")
        ]
    );
}
