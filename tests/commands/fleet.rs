//! `scripts/record` with a stand-in for jostle: what it records, skips, keeps and
//! names; and the checks of `scripts/fleet` on made profiles.

use crate::common::root;
use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a small profile where `--out` says, with the labels it is given. It fails
/// for the demo named `broken` as long as there is a file of that name beside it.
const STAND_IN: &str = r#"#!/usr/bin/env python3
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
def given(flag):
    return [b for a, b in zip(words, words[1:]) if a == flag]
with open(here / "calls", "a") as calls:
    print(words[0], *given("--name"), *given("--budget"), file=calls)
if words[0] == "demo":
    print("quiet       nothing\nbroken      fails")
elif words[0] == "--version":
    print("jostle 9.9.9")
elif "--watch" in words:
    print(json.dumps({"gauges": []}))
elif words[0] == "machine":
    directory = pathlib.Path(os.environ["XDG_STATE_HOME"]) / "jostle"
    directory.mkdir(parents=True)
    (directory / "machine-0.json").write_text("{}")
elif given("--demo") == ["broken"] and (here / "broken").exists():
    sys.exit("jostle: the demo is broken")
else:
    labels = dict(label.split("=", 1) for label in given("--label"))
    entry = {"status": "measured", "sensitive": False, "counters": {"ipc": {"control": 1}}}
    profile = {
        "workload": {"name": given("--name")[0], "labels": labels},
        "qos": {"threshold": 0.95},
        "conditions": {"budget_seconds": 30.0},
        "resources": {"int": entry},
    }
    pathlib.Path(given("--out")[0]).write_text(json.dumps(profile, indent=1))
"#;

struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let jostle = directory.path().join("jostle");
        fs::write(&jostle, STAND_IN).unwrap();
        fs::set_permissions(&jostle, fs::Permissions::from_mode(0o755)).unwrap();
        Bench { directory }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// `scripts/record` into `out`: exit code, stdout and stderr.
    fn record(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = Command::new("bash")
            .arg(root().join("scripts/record"))
            .arg("--out")
            .arg(self.path("out"))
            .args(arguments)
            .env("JOSTLE", self.path("jostle"))
            .env("RECORD_TMP", self.directory.path())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    /// Measurements that were made since the last look, as `NAME BUDGET`.
    fn measured(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).unwrap();
        fs::remove_file(self.path("calls")).unwrap();
        let calls = calls
            .lines()
            .filter_map(|line| line.strip_prefix("profile "));
        calls.map(String::from).collect()
    }

    fn profile(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path("out").join(name)).unwrap()).unwrap()
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn agreement_and_tables_of_made_profiles_are_known() {
    Command::new("python3")
        .args(["scripts/fleet", "--self-test"])
        .current_dir(root())
        .assert()
        .success();
}

#[test]
#[ignore = "full tier: takes long"]
fn rounds_lie_apart_and_repetitions_are_slim() {
    let bench = Bench::new();
    let (code, stdout, stderr) = bench.record(&["--only", "demos"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("6 to record, 0 recorded already; about 4 minutes"),
        "{stderr}"
    );
    let expected = ["demo-quiet 30s", "demo-broken 30s"].repeat(3);
    assert_eq!(bench.measured(), expected);
    assert!(
        stdout.contains("2 programs, 2 of them recorded more than once"),
        "{stdout}"
    );
    let first = bench.profile("demo-quiet.json");
    assert_eq!(first["workload"]["labels"]["version"], "9.9.9");
    assert_eq!(first["workload"]["labels"]["kind"], "demo");
    assert!(first["resources"]["int"]["counters"].is_object());
    let again = bench.profile("repeats/3/demo-quiet.json");
    assert_eq!(again["resources"]["int"]["sensitive"], false);
    assert!(again["resources"]["int"].get("counters").is_none());
    // Nothing but the results is left: no input, no half file.
    assert_eq!(names(bench.directory.path()), ["jostle", "out"]);
    assert_eq!(names(&bench.path("out/repeats")), ["2", "3"]);
}

#[test]
#[ignore = "full tier: takes long"]
fn a_failure_is_named_and_only_it_is_tried_again() {
    let bench = Bench::new();
    fs::write(bench.path("broken"), "").unwrap();
    let (code, _, stderr) = bench.record(&["--only", "demos", "--times", "2"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("jostle: the demo is broken"), "{stderr}");
    assert!(stderr.contains("failed: demo-broken, round 2"), "{stderr}");
    assert_eq!(bench.measured().len(), 4);
    assert!(!bench.path("out/demo-broken.json").exists());
    fs::remove_file(bench.path("broken")).unwrap();
    let (code, _, stderr) = bench.record(&["--only", "demos", "--times", "2"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("2 to record, 2 recorded already"),
        "{stderr}"
    );
    assert_eq!(bench.measured(), ["demo-broken 30s"; 2]);
    // Another binary has recorded nothing yet, and --again means all.
    let (_, _, stderr) = bench.record(&["--only", "quiet", "--again", "--times", "1", "--dry-run"]);
    assert!(stderr.contains("1 to record"), "{stderr}");
    let changed = format!("{STAND_IN}\n# changed\n");
    fs::write(bench.path("jostle"), changed).unwrap();
    let (_, stdout, stderr) = bench.record(&["--only", "demos", "--times", "2", "--dry-run"]);
    assert!(stderr.contains("4 to record"), "{stderr}");
    assert!(
        stdout.starts_with("1 demo-quiet\n1 demo-broken\n2 demo-quiet"),
        "{stdout}"
    );
}

#[test]
fn applications_and_loads_of_services_are_listed() {
    let bench = Bench::new();
    let (code, stdout, stderr) = bench.record(&["--list"]);
    assert_eq!(code, 0, "{stderr}");
    for name in ["zstd-19 ", "redis-30 ", "redis-closed ", "demo-quiet "] {
        assert!(
            stdout.lines().any(|line| line.starts_with(name)),
            "{name}: {stdout}"
        );
    }
    let (_, stdout, _) = bench.record(&["--only", "redis,xz", "--times", "1", "--dry-run"]);
    assert_eq!(
        stdout,
        "1 redis-30\n1 redis-60\n1 redis-90\n1 redis-closed\n1 xz\n"
    );
}

#[test]
fn wrong_requests_name_the_flag() {
    let bench = Bench::new();
    for (arguments, named) in [
        (["--only", "no-such"], "--only no-such: unknown"),
        (["--times", "0"], "--times 0: give a number from 1 to 99"),
        (["--budget", "soon"], "--budget"),
        (["--sometimes", "x"], "--sometimes: unknown"),
    ] {
        let (code, _, stderr) = bench.record(&arguments);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(named), "{stderr}");
    }
}
