//! `jostle run` with several sources at once, and by a schedule.

mod common;

use crate::common::JOSTLE;
use crate::common::alone;
use crate::common::near;
use crate::common::once_of_three;
use crate::common::root;
use crate::common::skip::have;
use crate::common::skip::skip;
use jostle_host::machine::Machine;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;
use tempfile::TempDir;

fn jostle(arguments: &[&str]) -> Command {
    let mut command = Command::new(JOSTLE);
    command.arg("run").args(arguments).stdin(Stdio::null());
    command
}

fn ran(arguments: &[&str]) -> Output {
    jostle(arguments).output().expect("jostle starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Its JSON.
fn played(arguments: &[&str]) -> Value {
    let output = ran(&[arguments, &["--json", "--no-machine-file"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[track_caller]
fn refused(arguments: &[&str], words: &[&str]) {
    let output = ran(arguments);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    for word in words {
        assert!(text.contains(word), "no '{word}' in: {text}");
    }
}

/// Two CPUs to run on.
fn two_cpus() -> Option<(usize, usize)> {
    let cpus = Machine::detect().allowed_cpus;
    let two = match cpus[..] {
        [one, two, ..] => Ok((one, two)),
        _ => Err("one CPU is allowed".to_string()),
    };
    have("cpus", two)
}

fn number(value: &Value, key: &str) -> f64 {
    let found = value[key].as_f64();
    found.unwrap_or_else(|| panic!("{key} in {value}"))
}

#[test]
fn each_of_several_sources_reaches_its_own_intensity() {
    let Some((one, two)) = two_cpus() else {
        return;
    };
    let _alone = alone();
    let time = format!("cpu-time@{one}=30");
    let cache = format!("l2-capacity@{two}");
    let asked = [&time, cache.as_str(), "--intensity", "50", "--for", "1s"];
    once_of_three("both", || {
        let outcome = played(&asked);
        let sources = outcome["sources"].as_array().unwrap();
        assert_eq!(sources[0]["resource"], "cpu-time");
        assert_eq!(sources[1]["placement"]["cpus"][0], two);
        // Others may want this CPU too.
        near(number(&sources[0], "achieved_percent"), 10.0, 34.0)?;
        near(number(&sources[1], "achieved_percent"), 48.0, 52.0)
    });
}

#[test]
fn wrong_requests_name_the_fix() {
    refused(&["l1d"], &["--intensity", "l1d=50"]);
    refused(&["l1d=50", "l1d=20"], &["l1d is named twice"]);
    refused(&["l1d=lots"], &["l1d=lots", "percent"]);
    refused(&["l1d=150"], &["l1d=150", "0 to 100"]);
    refused(&["l1d@9999=50"], &["l1d@9999=50", "9999"]);
    refused(&["l1=50"], &["l1"]);
    refused(&[], &["RESOURCE"]);
    refused(
        &["l1d", "--schedule", "x.toml"],
        &["--schedule", "cannot be used with"],
    );
    refused(
        &["--schedule", "/no/such.toml"],
        &["--schedule: /no/such.toml", "no such file"],
    );
}

/// A schedule in a file, gone with the directory.
fn written(text: &str) -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("plan.toml");
    std::fs::write(&file, text).unwrap();
    (place, file)
}

#[test]
fn a_bad_schedule_names_file_and_line() {
    let (_place, file) = written("[[step]]\nsource = \"l1d\"\nseconds = 1\nintensity = 101\n");
    refused(
        &["--schedule", file.to_str().unwrap()],
        &[
            "--schedule",
            "plan.toml, line 4",
            "intensity = 101",
            "0 to 100",
        ],
    );
}

#[test]
fn a_dry_run_shows_what_presses_when_and_starts_nothing() {
    let file = root().join("scripts/schedules/shop.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    // Whatever CPUs there are.
    let anywhere = text.replace("cpus = \"0\"", "").replace("cpus = \"1\"", "");
    let anywhere = anywhere.replace("[[source]]\nname = \"memory-bandwidth\"\n", "");
    let anywhere = anywhere.replace("[[source]]\nname = \"l2-capacity\"\n", "");
    let (_place, file) = written(&anywhere);
    let asked = ["--schedule", file.to_str().unwrap(), "--dry-run"];
    let output = ran(&[&asked[..], &["--scratch", env!("CARGO_TARGET_TMPDIR")]].concat());
    if output.status.code() == Some(3) {
        skip("direct-io", said(&output));
        return;
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "8.00 s in 4 steps");
    for (line, words) in [
        (1, ["0.00-2.00", "memory-bandwidth", "5 to 60 %"]),
        (2, ["1.00-4.00", "l2-capacity", "50 %"]),
        (
            3,
            [
                "2.00-5.00",
                "memory-bandwidth",
                "30 %, 90 % for 0.25 of 1 s",
            ],
        ),
        (4, ["6.00-8.00", "storage-bandwidth", "40 %"]),
    ] {
        for word in words {
            assert!(lines[line].contains(word), "no '{word}' in: {text}");
        }
    }
}

#[test]
fn what_arrives_in_each_step_is_what_was_asked_for() {
    let Some((one, two)) = two_cpus() else {
        return;
    };
    let step = |source: &str, seconds: f64, more: &str| {
        format!("[[step]]\nsource = \"{source}\"\nseconds = {seconds}\n{more}\n")
    };
    // What is held does not depend on what else the machine does; CPU time does.
    let text = [
        format!("[[source]]\nname = \"l1d\"\ncpus = \"{one}\"\n"),
        format!("[[source]]\nname = \"cpu-time\"\ncpus = \"{two}\"\n"),
        step("l1d", 1.0, "intensity = 60"),
        step("l1d", 1.0, "intensity = [0, 80]"),
        step(
            "l1d",
            1.0,
            "intensity = 0\nburst = { intensity = 80, every_seconds = 0.5, seconds = 0.25 }",
        ),
        step("cpu-time", 1.5, "intensity = 25"),
    ];
    let (_place, file) = written(&text.concat());
    let _alone = alone();
    once_of_three("steps", || {
        let outcome = played(&["--schedule", file.to_str().unwrap()]);
        let steps = outcome["steps"].as_array().unwrap();
        assert_eq!(steps.len(), 4, "{outcome}");
        near(number(&outcome, "duration_seconds"), 3.0, 3.3)?;
        let of = |resource: &str| -> Vec<&Value> {
            let of = |step: &&Value| step["resource"] == resource;
            steps.iter().filter(of).collect()
        };
        for (step, mean) in of("l1d").iter().zip([60.0, 40.0, 40.0]) {
            near(number(step, "requested_percent"), mean - 3.0, mean + 3.0)?;
            near(number(step, "achieved_percent"), mean - 7.0, mean + 7.0)?;
        }
        let time = of("cpu-time");
        near(number(time[0], "to_seconds"), 1.5, 1.7)?;
        near(number(time[0], "achieved_percent"), 8.0, 29.0)
    });
}

#[test]
fn an_interrupted_schedule_shows_what_was_played_and_leaves_nothing() {
    let (_place, file) = written(
        "[[step]]\nsource = \"cpu-time\"\nseconds = 0.2\nintensity = 10\n\
         [[step]]\nsource = \"cpu-time\"\nseconds = 600\nintensity = 20\n",
    );
    let _alone = alone();
    let child = jostle(&["--schedule", file.to_str().unwrap(), "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let pid = child.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    let workers = std::fs::read_to_string(children).unwrap_or_default();
    let workers: Vec<i32> = workers.split_whitespace().flat_map(str::parse).collect();
    let began = Instant::now();
    kill(Pid::from_raw(pid as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    let played: Value = serde_json::from_slice(&output.stdout).unwrap();
    let steps = played["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2, "{played}");
    assert!(number(&steps[1], "to_seconds") < 10.0);
    assert!(!workers.is_empty());
    for worker in workers {
        assert!(kill(Pid::from_raw(worker), None).is_err(), "{worker}");
    }
}
