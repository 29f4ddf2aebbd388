//! The numbers that `show`, `predict`, `schedule` and `simulate` print, held
//! against those recorded in `tests/golden`. Words may change; a number that
//! changes needs a reason, and `JOSTLE_RECORD=1 cargo test --test commands golden` to
//! record the new one.

use crate::common::program::Ended;
use crate::common::program::command;
use crate::common::root;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Scenarios that an unoptimized build takes long for.
const LARGE: &[&str] = &[
    "agents",
    "paragon-large-high",
    "paragon-large-low",
    "paragon-large-oversubscribed",
    "quasar-200",
    "tarcil-400",
];

/// What `jostle` prints for `arguments`, which must succeed or, as `schedule`
/// does when an application found no place, end with the code of a gate.
fn printed(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = Ended::of(command(arguments), Duration::from_secs(600)).parts();
    assert!(
        matches!(code, Some(0 | 1)),
        "jostle {arguments:?}: {stderr}"
    );
    stdout
}

fn document(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).unwrap()
}

/// Names below `directory` that end in `ending`, without it, sorted.
fn stems(directory: &str, ending: &str) -> Vec<String> {
    let mut stems: Vec<String> = fs::read_dir(root().join(directory))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(ending).map(String::from))
        .collect();
    stems.sort();
    stems
}

fn recorded_profiles() -> Vec<String> {
    let mut stems = stems("profiles", ".json");
    stems.retain(|stem| !stem.ends_with(".schema") && stem != "pairs");
    assert!(stems.len() >= 25, "{stems:?}");
    stems
}

/// The numbers of a text, line by line; lines without one are left out. A
/// digit that belongs to a word (`l1d`, `p99`) is no number.
fn numbers(text: &str) -> String {
    let mut result = String::new();
    for line in text.lines() {
        let found: Vec<&str> = line
            .split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | ',' | '-')))
            .map(|word| word.trim_matches(['.', ',', '-']))
            .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
            .collect();
        if !found.is_empty() {
            writeln!(result, "{}", found.join(" ")).unwrap();
        }
    }
    result
}

/// Resources that the recorded profiles cannot know, because they were added
/// since: that they are unknown is told, and is no number.
const ADDED: [&str; 1] = ["branch"];

/// Every number, truth value and name of a JSON value, one line for each
/// object, under its path. A name is a string without a space: other strings
/// are prose.
fn leaves(path: &str, value: &Value, result: &mut String) {
    let simple = |value: &Value| match value {
        Value::String(text) if text.contains(' ') => None,
        Value::Null => None,
        Value::Array(_) | Value::Object(_) => None,
        leaf => Some(leaf.to_string()),
    };
    match value {
        Value::Object(map) => {
            let own: Vec<String> = map
                .iter()
                .filter_map(|(key, value)| simple(value).map(|leaf| format!("{key}={leaf}")))
                .collect();
            if !own.is_empty() {
                writeln!(result, "{path} {}", own.join(" ")).unwrap();
            }
            for (key, value) in map {
                leaves(&format!("{path}.{key}"), value, result);
            }
        }
        Value::Array(items) => {
            let own: Vec<String> = items.iter().filter_map(simple).collect();
            if !own.is_empty() {
                writeln!(result, "{path} {}", own.join(" ")).unwrap();
            }
            let known = |item: &&Value| !ADDED.iter().any(|added| item["resource"] == *added);
            for (at, item) in items.iter().filter(known).enumerate() {
                leaves(&format!("{path}[{at}]"), item, result);
            }
        }
        _ => {}
    }
}

/// Compares with what is recorded under `name`, or records it when
/// `JOSTLE_RECORD` is set.
fn check(name: &str, now: &str) {
    let path: PathBuf = root().join("tests/golden").join(format!("{name}.txt"));
    if std::env::var_os("JOSTLE_RECORD").is_some() {
        fs::write(&path, now).unwrap();
    }
    let then = fs::read_to_string(&path).unwrap();
    for (line, (then, now)) in then.lines().zip(now.lines()).enumerate() {
        assert_eq!(then, now, "{}:{}", path.display(), line + 1);
    }
    assert_eq!(then.lines().count(), now.lines().count(), "{name}");
}

#[test]
fn show_prints_the_recorded_numbers() {
    let mut text = String::new();
    for name in recorded_profiles() {
        let path = format!("profiles/{name}.json");
        let shown = printed(&["show", &path, "--width", "120"]);
        write!(text, "# {name}\n{}", numbers(&shown)).unwrap();
        // Loading and printing again loses nothing.
        let saved: Value = serde_json::from_slice(&fs::read(root().join(&path)).unwrap()).unwrap();
        let mut then = String::new();
        leaves("", &saved, &mut then);
        let mut now = String::new();
        leaves("", &document(&["show", &path, "--json"]), &mut now);
        let mut then: Vec<&str> = then.lines().collect();
        let mut now: Vec<&str> = now.lines().collect();
        then.sort_unstable();
        now.sort_unstable();
        assert_eq!(then, now, "{name}");
    }
    check("show", &text);
}

#[test]
fn predict_prints_the_recorded_numbers() {
    let names = recorded_profiles();
    let mut text = String::new();
    for (at, name) in names.iter().enumerate() {
        let neighbour = &names[(at + 7) % names.len()];
        let files = [name, neighbour].map(|name| format!("profiles/{name}.json"));
        for flags in [&["--json"][..], &["--json", "--shares-cpus"]] {
            let arguments: Vec<&str> = ["predict", &files[0], &files[1]]
                .into_iter()
                .chain(flags.iter().copied())
                .collect();
            leaves(name, &document(&arguments), &mut text);
        }
    }
    check("predict", &text);
}

#[test]
fn schedule_prints_the_recorded_numbers() {
    let help = printed(&["schedule", "--help"]);
    let policies: Vec<&str> = help
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- ")?.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    assert!(policies.len() >= 15, "{policies:?}");
    let mut text = String::new();
    for policy in policies {
        let found = document(&[
            "schedule",
            "--nodes",
            "scripts/nodes.toml",
            "--apps",
            "profiles",
            "--policy",
            policy,
            "--json",
        ]);
        leaves(policy, &found, &mut text);
    }
    check("schedule", &text);
}

fn simulate(name: &str) {
    let path = format!("scripts/scenarios/{name}.toml");
    let mut found = document(&["simulate", &path, "--json"]);
    let object = found.as_object_mut().unwrap();
    // Real time, and what one seed repeats of the mean.
    object.remove("timing");
    if let Some(Value::Array(policies)) = object.get_mut("policies") {
        for policy in policies {
            let policy = policy.as_object_mut().unwrap();
            policy.remove("performance_cdf");
            policy.remove("per_seed");
        }
    }
    let mut text = String::new();
    leaves("", &found, &mut text);
    check(&format!("simulate-{name}"), &text);
}

#[test]
fn simulate_prints_the_recorded_numbers() {
    let names = stems("scripts/scenarios", ".toml");
    for name in names.iter().filter(|name| !LARGE.contains(&name.as_str())) {
        simulate(name);
    }
}

#[test]
#[ignore = "full tier: large clusters take minutes without optimization"]
fn simulate_prints_the_recorded_numbers_of_large_clusters() {
    LARGE.iter().for_each(|name| simulate(name));
}
