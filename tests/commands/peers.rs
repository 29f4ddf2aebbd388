//! `scripts/peers` without the peers: it reads what recorded runs of them
//! printed, and a whole run among stand-ins comes to the recorded ratio.

use crate::common::root;
use assert_cmd::Command;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// What `program` in the PATH really is, also behind a wrapper that looks for it.
fn really(program: &str, arguments: &[&str]) -> PathBuf {
    let output = Command::new(program).args(arguments).output().unwrap();
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// A PATH of its own in which only what is put there can be found, and in it a
/// jostle that prints a recorded outcome.
struct Bench {
    directory: tempfile::TempDir,
    python: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let bench = Bench {
            directory: tempfile::tempdir().unwrap(),
            python: really("python3", &["-c", "import sys; print(sys.executable)"]),
        };
        let taskset = really("sh", &["-c", "command -v taskset"]);
        symlink(taskset, bench.directory.path().join("taskset")).unwrap();
        bench.stand_in("jostle", "jostle-l2-bandwidth.txt");
        bench
    }

    /// A program that prints a recorded output, whatever it is asked.
    fn stand_in(&self, name: &str, recorded: &str) {
        let recorded = root().join("tests/fixtures/peers").join(recorded);
        let file = self.directory.path().join(name);
        let text = format!("#!/bin/sh\nexec /bin/cat '{}'\n", recorded.display());
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Two rounds for `l2-bandwidth`: what was printed, and the document.
    fn run(&self) -> (String, serde_json::Value) {
        let document = self.directory.path().join("peers.json");
        let output = Command::new(&self.python)
            .args(["scripts/peers", "--only", "l2-bandwidth", "--rounds", "2"])
            .arg("--jostle")
            .arg(self.directory.path().join("jostle"))
            .arg("--scratch")
            .arg(self.directory.path())
            .arg("--json")
            .arg(&document)
            .env("PATH", self.directory.path())
            .current_dir(root())
            .assert()
            .success();
        let printed = String::from_utf8(output.get_output().stdout.clone()).unwrap();
        let document = std::fs::read_to_string(document).unwrap();
        (printed, serde_json::from_str(&document).unwrap())
    }
}

#[test]
fn reads_what_the_tools_print() {
    Command::new("python3")
        .args(["scripts/peers", "--self-test"])
        .current_dir(root())
        .assert()
        .success();
}

#[test]
fn a_run_comes_to_the_recorded_ratio_and_leaves_nothing() {
    let bench = Bench::new();
    bench.stand_in("likwid-bench", "likwid-load.txt");
    let (printed, document) = bench.run();
    let pair = &document["pairs"][0];
    let ratio = pair["peers"][0]["ratio"]["median"].as_f64().unwrap();
    let recorded = 110_240_917_529.394_23 / 256_390.13e6;
    assert!((ratio - recorded).abs() < 1e-9, "{ratio} {recorded}");
    assert_eq!(pair["verdict"], "short by 0.52");
    assert!(printed.contains("short by 0.52"), "{printed}");
    // Asked for 10 %, the stand-in still says 99.1.
    assert!(printed.contains("over by 87.1"), "{printed}");
    let mut left: Vec<_> = std::fs::read_dir(bench.directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["jostle", "likwid-bench", "peers.json", "taskset"]);
}

#[test]
fn a_missing_tool_is_named_with_its_package() {
    let (printed, document) = Bench::new().run();
    let expected = "likwid load";
    assert!(printed.contains(expected), "{printed}");
    let peer = &document["pairs"][0]["peers"][0];
    assert_eq!(peer["unavailable"], "not installed: apt-get install likwid");
    assert_eq!(document["pairs"][0]["verdict"], "no peer");
}

#[test]
fn wrong_requests_name_the_flag() {
    for (arguments, named) in [
        (["--only", "l9"], "--only: there is no resource 'l9'"),
        (["--rounds", "0"], "--rounds: give 1 or more"),
        (["--jostle", "/nowhere"], "--jostle: there is no program"),
        (["--scratch", "/nowhere"], "--scratch: /nowhere is not"),
    ] {
        let output = Command::new("python3")
            .arg("scripts/peers")
            .args(arguments)
            .current_dir(root())
            .assert()
            .code(2);
        let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(said.contains(named), "{said}");
    }
}
