//! `jostle machine --calibrate` and what uses it, as a user runs them.

use super::FINGERPRINT;
use super::fixture;
use crate::common::JOSTLE;
use crate::common::alone;
use jostle_profile::resource::Resource;
use nix::fcntl::Flock;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;
use tempfile::TempDir;

/// A place for state of its own, and the machine to itself.
struct Place {
    directory: TempDir,
    _alone: Flock<File>,
}

impl Place {
    fn new() -> Self {
        Place {
            directory: tempfile::tempdir().unwrap(),
            _alone: alone(),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(JOSTLE);
        command
            .args(arguments)
            .env("XDG_STATE_HOME", self.directory.path().join("state"))
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// stdout as JSON of a run that went well.
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Puts a machine file for this machine where it is looked for.
    fn keep(&self, content: impl FnOnce(&str) -> String) -> PathBuf {
        let machine = self.json(&["machine", "--json"]);
        let fingerprint = machine["fingerprint"].as_str().unwrap();
        let directory = self.directory.path().join("state/jostle");
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(format!("machine-{fingerprint}.json"));
        fs::write(&path, content(fingerprint)).unwrap();
        path
    }

    fn state(&self) -> Vec<PathBuf> {
        match fs::read_dir(self.directory.path().join("state/jostle")) {
            Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
            Err(_) => Vec::new(),
        }
    }
}

fn said(output: &Output, code: i32, words: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "no '{word}' in: {stderr}");
    }
}

#[test]
#[ignore = "full tier: takes long"]
fn calibrating_measures_every_resource_or_says_why_not_and_is_used() {
    let place = Place::new();
    let before = place.json(&["machine", "--json"]);
    let reason = before["calibration"]["unavailable"].as_str().unwrap();
    assert!(reason.contains("jostle machine --calibrate"), "{reason}");

    let machine = place.json(&["machine", "--calibrate", "--budget", "16s", "--json"]);
    let calibration = &machine["calibration"];
    assert_eq!(calibration["format"], "jostle-machine-file/1");
    assert_eq!(calibration["fingerprint"], machine["fingerprint"]);
    for resource in Resource::ALL {
        let entry = &calibration["resources"][resource.id()];
        for key in ["alone", "together", "settle_seconds", "reporter"] {
            let reading = &entry[key];
            let reason = reading["unavailable"].as_str();
            assert!(
                !reading.is_null() && reason.is_none_or(|reason| reason.len() > 10),
                "{}.{key}: {reading}",
                resource.id()
            );
        }
    }
    assert!(!calibration["sizes"].as_array().unwrap().is_empty());
    assert_eq!(place.state().len(), 1, "one file, no litter");

    let again = place.json(&["machine", "--json"]);
    assert_eq!(&again["calibration"], calibration, "what was kept is shown");
    let text = place.run(&["machine"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains(calibration["recorded_at"].as_str().unwrap()),
        "{text}"
    );

    // The first source that is held at a rate; the last ones may have had no time.
    let held_at_a_rate = |resource: &&Resource| {
        let alone = &calibration["resources"][resource.id()]["alone"];
        alone["peak"]["operations_per_second"].is_f64()
    };
    let rated = Resource::ALL.iter().find(held_at_a_rate).unwrap().id();
    let run = [
        "run",
        rated,
        "--intensity",
        "50",
        "--for",
        "100ms",
        "--json",
    ];
    assert_eq!(place.json(&run)["peak_calibrated"], true);
    let fresh = place.json(&[&run[..], &["--no-machine-file"]].concat());
    assert_eq!(fresh["peak_calibrated"], false);
    let profile = place.json(&[
        "profile",
        "--demo",
        "quiet",
        "--budget",
        "4s",
        "--halves",
        "tolerated",
        "--json",
        "--resources",
        rated,
    ]);
    let from = profile["conditions"]["peaks_from"].as_str().unwrap();
    assert!(from.starts_with("machine file of"), "{from}");

    // A peak nobody reaches: what is missing is said, with by how much.
    let mut doctored = calibration.clone();
    let alone = &mut doctored["resources"][rated]["alone"]["peak"];
    let peak = alone["operations_per_second"].as_f64().unwrap();
    alone["operations_per_second"] = (peak * 10.0).into();
    place.keep(|_| doctored.to_string());
    let short = place.json(&run);
    let doubt = short["doubt"].as_str().unwrap();
    assert!(doubt.contains("% less at full strength"), "{doubt}");
}

#[test]
fn a_stale_machine_file_is_told_once_and_stands_in_the_profile() {
    let place = Place::new();
    let profile = |words: &[&str]| {
        let output = place.run(&[
            "profile",
            "--demo",
            "quiet",
            "--budget",
            "4s",
            "--halves",
            "tolerated",
            "--json",
            "--resources",
            "l2-bandwidth",
        ]);
        said(&output, 0, words);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        for word in words {
            assert_eq!(stderr.matches(word).count(), 1, "{stderr}");
        }
        let profile: Value = serde_json::from_slice(&output.stdout).unwrap();
        let peaks = profile["conditions"]["peaks_from"].as_str().unwrap();
        assert_eq!(peaks, "measured at the start");
        let warnings = profile["conditions"]["warnings"].as_array().unwrap();
        let about = |one: &&Value| one["code"].as_str().unwrap().starts_with("machine-file");
        let found: Vec<Value> = warnings.iter().filter(about).cloned().collect();
        assert_eq!(found.len(), 1, "{warnings:?}");
        found[0].clone()
    };
    // One source was calibrated with another kind of access.
    place.keep(|fingerprint| {
        let text = fixture().replace(FINGERPRINT, fingerprint);
        let mut file: Value = serde_json::from_str(&text).unwrap();
        file["resources"]["l2-bandwidth"]["settings"]["access"] = "copy".into();
        file.to_string()
    });
    let told = profile(&["with other settings: l2-bandwidth (access"]);
    assert_eq!(told["code"], "machine-file-part-ignored");
    assert_eq!(told["sources"][0]["resource"], "l2-bandwidth");
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("jostle machine --calibrate"), "{message}");
    let run = ["run", "l2-bandwidth", "--intensity", "50", "--for", "100ms"];
    said(&place.run(&run), 0, &["with other settings: l2-bandwidth"]);

    place.keep(|_| fixture().replace("machine-file/1", "machine-file/2"));
    let told = profile(&["this file is not used"]);
    assert_eq!(told["code"], "machine-file-ignored");
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("newer jostle"), "{message}");
}

#[test]
fn an_interrupted_calibration_leaves_the_old_file() {
    let place = Place::new();
    let path = place.keep(|fingerprint| fixture().replace(FINGERPRINT, fingerprint));
    let old = fs::read(&path).unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let mut child = place
            .command(&["machine", "--calibrate", "--budget", "30s"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        // The first worker shows that it is under way.
        while workers_of(child.id()).is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "ended by itself");
            assert!(Instant::now() < patience, "no worker was started");
            std::thread::sleep(Duration::from_millis(20));
        }
        let workers = workers_of(child.id());
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        if signal != Signal::SIGKILL {
            said(&output, 130, &["interrupted", "as it was"]);
            assert!(output.stdout.is_empty());
        }
        assert_eq!(fs::read(&path).unwrap(), old, "{signal}");
        assert_eq!(
            place.state(),
            std::slice::from_ref(&path),
            "{signal}: no litter"
        );
        while workers
            .iter()
            .any(|pid| Path::new(&format!("/proc/{pid}")).exists())
        {
            assert!(Instant::now() < patience, "{signal}: workers are left");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Processes whose parent is `pid`.
fn workers_of(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

#[test]
fn a_bad_machine_file_stops_nobody() {
    let place = Place::new();
    let path = place.keep(|_| fixture()[..1000].to_string());
    let name = path.file_name().unwrap().to_str().unwrap();
    let fix = "jostle machine --calibrate";
    let output = place.run(&["machine"]);
    said(&output, 0, &["warning", name, "cut short", fix]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Fingerprint") && text.contains(fix), "{text}");
    let run = ["run", "cpu-time", "--intensity", "10", "--for", "50ms"];
    said(&place.run(&run), 0, &["warning", name, fix]);
    place.keep(|_| fixture());
    said(&place.run(&["machine"]), 0, &["another machine", name, fix]);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let place = Place::new();
    said(
        &place.run(&["machine", "--budget", "9s"]),
        2,
        &["--calibrate"],
    );
    said(&place.run(&["machine", "--dry-run"]), 2, &["--calibrate"]);
    let scratch = place.run(&["machine", "--scratch", "."]);
    said(&scratch, 2, &["--scratch", "--calibrate"]);
    let hurried = place.run(&["machine", "--calibrate", "--budget", "1s"]);
    said(&hurried, 2, &["--budget"]);

    let homeless = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env_remove("XDG_STATE_HOME").env_remove("HOME");
        command.output().unwrap()
    };
    said(
        &homeless(&["machine", "--calibrate"]),
        3,
        &["XDG_STATE_HOME"],
    );
    said(&homeless(&["machine"]), 0, &[]);
    fs::write(place.directory.path().join("state"), "a file").unwrap();
    let nowhere = place.run(&["machine", "--calibrate"]);
    said(&nowhere, 3, &["XDG_STATE_HOME", "state"]);
}

#[test]
fn a_dry_run_tells_the_plan_and_keeps_nothing() {
    let place = Place::new();
    let output = place.run(&["machine", "--calibrate", "--dry-run"]);
    said(&output, 0, &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for resource in Resource::ALL {
        assert!(text.contains(resource.id()), "{}: {text}", resource.id());
    }
    assert!(text.contains("always left"), "{text}");
    assert_eq!(place.state(), [] as [PathBuf; 0]);
}
