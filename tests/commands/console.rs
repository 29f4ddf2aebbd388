//! Standard error that cannot be written: nothing panics, and the exit code and
//! the results stay.

use crate::common::JOSTLE;
use crate::common::PATIENCE;
use crate::common::program::Ended;
use crate::common::program::command;
use crate::common::root;
use std::process::Command;

/// `jostle` with `arguments`, its standard error redirected as a shell does.
fn redirected(arguments: &[&str], to: &str) -> Ended {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("exec \"$0\" \"$@\" 2>{to}"), JOSTLE])
        .args(arguments)
        .current_dir(root())
        .env("XDG_STATE_HOME", "/nonexistent");
    Ended::of(command, PATIENCE)
}

#[test]
fn a_closed_or_full_standard_error_changes_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = directory.path().join("nodes.toml");
    // A node that runs more than it has: a warning.
    let text =
        "[[node]]\nname = \"n1\"\ncpus = 1\nmemory = \"1GiB\"\nruns = [\"web\", \"analytics\"]\n";
    std::fs::write(&nodes, text).unwrap();
    let (nodes, apps) = (nodes.to_str().unwrap(), "tests/fixtures/profiles");
    let requests: [(&[&str], i32); 4] = [
        (&["show", "/nonexistent/profile.json"], 2),
        (&["run", "l1d", "--intensity", "1", "--cpus", "4000"], 2),
        (&["schedule", "--nodes", nodes, "--apps", apps, "--json"], 1),
        (&["frobnicate"], 2),
    ];
    for (arguments, code) in requests {
        let plain = Ended::of(command(arguments), PATIENCE);
        assert_eq!(plain.status.code(), Some(code), "{}", plain.stderr);
        assert!(!plain.stderr.is_empty(), "{arguments:?} says something");
        for to in ["&-", "/dev/full"] {
            let ended = redirected(arguments, to);
            assert_eq!(ended.status.code(), Some(code), "{arguments:?} 2>{to}");
            assert_eq!(ended.stdout, plain.stdout, "{arguments:?} 2>{to}");
        }
    }
}

#[test]
fn names_from_elsewhere_do_not_steer_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let name = "web\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}\u{9b}31m";
    let from = root().join("tests/fixtures/profiles/web.json");
    let profile = std::fs::read_to_string(from).unwrap();
    let mut profile: serde_json::Value = serde_json::from_str(&profile).unwrap();
    profile["workload"]["name"] = name.into();
    let path = directory.path().join("evil.json");
    std::fs::write(&path, profile.to_string()).unwrap();
    let path = path.to_str().unwrap();
    let long = "a".repeat(100_000);
    let requests: [&[&str]; 6] = [
        &["show", path],
        &["show", path, "--json"],
        &["explain", path],
        &["predict", path, path],
        &["show", name],
        &["show", &long],
    ];
    for request in requests {
        let ended = Ended::of(command(request), PATIENCE);
        for text in [&ended.stdout, &ended.stderr] {
            let steering = text
                .chars()
                .find(|&character| jostle_measure::console::steers(character));
            assert_eq!(steering, None, "{request:?}: {text}");
            assert!(text.lines().all(|line| line.len() < 10_000));
        }
    }
}
