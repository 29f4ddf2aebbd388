//! `jostle blame`, the command: a hog on the victim's CPU is named, nobody is paused
//! unasked, and everybody is left as found.

mod common;

use crate::common::alone;
use crate::common::once_of_three;
use crate::common::program::Ended;
use crate::common::program::command;
use crate::common::program::jostle;
use crate::common::root;
use crate::common::within;
use jostle_host::sys::cpus;
use jostle_measure::workload::tree;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

/// A process that ends with the test.
struct Hog(Child);

impl Hog {
    fn start(script: &str, cpu: Option<usize>) -> Hog {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        if let Some(cpu) = cpu {
            cpus::set_affinity(child.id() as i32, &[cpu]).unwrap();
        }
        Hog(child)
    }

    fn busy(cpu: Option<usize>) -> Hog {
        Hog::start("while :; do :; done", cpu)
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    fn is_stopped(&self) -> bool {
        tree::stat(self.pid()).unwrap().stopped()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn first_cpu() -> usize {
    cpus::affinity(0).unwrap()[0]
}

fn of(hog: &Hog) -> String {
    format!("pid:{}", hog.pid())
}

fn keeps_to_the_schema(document: &Value) {
    let schema = fs::read_to_string(root().join("profiles/jostle-blame-1.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let problems: Vec<String> = validator
        .iter_errors(document)
        .map(|e| e.to_string())
        .collect();
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn a_hog_on_the_same_cpu_is_named_with_about_half() {
    let _alone = alone();
    let cpu = first_cpu();
    let hog = Hog::busy(Some(cpu));
    let sleeper = Hog::start("sleep 1000", None);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("blame.json");
    let told = [
        "blame".to_string(),
        "--demo=quiet".into(),
        format!("--cpus={cpu}"),
        format!("--candidate={}", of(&hog)),
        format!("--candidate={}", of(&sleeper)),
        "--max-pause=10".into(),
        "--budget=4s".into(),
        "--look=1s".into(),
        format!("--out={}", out.display()),
    ];
    once_of_three("the hog takes half", || {
        let ended = Ended::of(command(&told), Duration::from_secs(120));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let document = fs::read_to_string(&out).unwrap();
        let document: Value = serde_json::from_str(&document).unwrap();
        keeps_to_the_schema(&document);
        jostle_profile::blame::load(&out).unwrap();
        let first = &document["candidates"][0];
        let ends = &first["effect"]["slowed_percent"]["ci95"];
        let [low, high] = [0, 1].map(|end| ends[end].as_f64().unwrap_or(f64::NAN));
        let named = first["target"]["pid"] == hog.pid() && first["verdict"] == "slows";
        let others = document["candidates"][1]["verdict"] == "not-shown";
        let sentence = ended.stdout.lines().next().unwrap_or_default().to_string();
        let told = sentence.starts_with("demo quiet is slowed by");
        match named && others && told && low < 70.0 && high > 30.0 {
            true => Ok(()),
            false => Err(format!("{low} to {high}: {}", ended.stdout)),
        }
    });
    assert!(!hog.is_stopped() && !sleeper.is_stopped());
}

#[test]
fn nobody_is_paused_unless_named() {
    let _alone = alone();
    let cpu = first_cpu();
    let hog = Hog::busy(Some(cpu));
    let told = [
        "blame".to_string(),
        "--demo=quiet".into(),
        format!("--cpus={cpu}"),
        "--look=2s".into(),
        "--json".into(),
    ];
    let document = jostle(&told).json();
    keeps_to_the_schema(&document);
    let reason = document["experiment"]["unavailable"].as_str().unwrap();
    assert!(reason.contains("only observed"), "{reason}");
    let candidates = document["candidates"].as_array().unwrap();
    let found = candidates
        .iter()
        .find(|it| it["target"]["pid"] == hog.pid());
    let found = found.unwrap_or_else(|| panic!("{candidates:?}"));
    assert_eq!(found["verdict"], "not-tried");
    let shares = &found["observed"]["shares"][0];
    assert_eq!(shares["what"], "cpu", "{found}");
    // Pausing leaves a trace in what the kernel counts: none here.
    let status = fs::read_to_string(format!("/proc/{}/status", hog.pid())).unwrap();
    assert!(status.contains("State:\tR"), "{status}");
}

#[test]
#[ignore = "full tier: takes long"]
fn candidates_go_on_after_an_interruption_and_after_a_sudden_death() {
    let _alone = alone();
    let cpu = first_cpu();
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        for wait in [0, 7, 13] {
            let hog = Hog::busy(Some(cpu));
            let told = [
                "blame".to_string(),
                "--demo=quiet".into(),
                format!("--cpus={cpu}"),
                format!("--candidate={}", of(&hog)),
                "--pause=100ms".into(),
                "--max-pause=50".into(),
                "--look=1s".into(),
            ];
            let mut run = command(&told);
            run.stdout(Stdio::null()).stderr(Stdio::null());
            let mut run = run.spawn().unwrap();
            within(Duration::from_secs(60), "the hog is paused", || {
                hog.is_stopped()
            });
            std::thread::sleep(Duration::from_millis(wait));
            kill(Pid::from_raw(run.id() as i32), signal).unwrap();
            let status = run.wait().unwrap();
            if signal == Signal::SIGINT {
                assert_eq!(status.code(), Some(130));
            }
            within(Duration::from_secs(10), "the hog goes on", || {
                !hog.is_stopped()
            });
        }
    }
}

#[test]
fn what_was_stopped_before_stays_so_and_is_no_candidate() {
    let hog = Hog::busy(None);
    hog.signal(Signal::SIGSTOP);
    within(Duration::from_secs(10), "it stands", || hog.is_stopped());
    let candidate = format!("--candidate={}", of(&hog));
    let ended = jostle(&["blame", "--dry-run", &candidate, "--demo=quiet"]);
    ended.says(2, &["it is never paused: it was stopped before"]);
    assert!(hog.is_stopped());
}

#[test]
fn wrong_requests_are_refused_by_name() {
    let cases: &[(&[&str], &str)] = &[
        (&[], "--pid"),
        (&["--candidate=pid:x"], "pid:1234"),
        (&["--candidate=hog"], "give pid:PID, cgroup:PATH"),
        (
            &["--candidate=auto", "--candidate=pid:7"],
            "leave the others out",
        ),
        (
            &["--candidate=pid:1"],
            "--candidate pid:1: it is never paused",
        ),
        (&["--candidate=pid:4194300"], "no such process"),
        (&["--candidate=cgroup:/"], "--candidate cgroup:/"),
        (&["--max-pause=80"], "--max-pause"),
        (&["--pause=1s"], "--pause"),
        (&["--budget=1ms"], "--budget"),
        (&["--least=-1"], "--least"),
        (&["--metric=nonsense", "--candidate=auto"], "nonsense"),
    ];
    for (arguments, words) in cases {
        let mut told = vec!["blame"];
        if !arguments.is_empty() {
            told.push("--demo=quiet");
        }
        told.extend(*arguments);
        let (code, _, stderr) = jostle(&told).parts();
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
    }
    let us = format!("--candidate=pid:{}", std::process::id());
    jostle(&["blame", "--dry-run", "--demo=quiet", &us]).says(2, &["never paused"]);
}

#[test]
fn a_dry_run_says_who_would_be_paused_and_who_not() {
    let hog = Hog::start("sleep 1000", None);
    let candidate = format!("--candidate={}", of(&hog));
    let ended = jostle(&["blame", "--dry-run", "--demo=quiet", &candidate]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let line = format!("({})", of(&hog));
    assert!(
        ended.stdout.contains("5ms at a time, 1 % of its time"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains(&line), "{}", ended.stdout);
    let protect = format!("--protect={}", of(&hog));
    let ended = jostle(&["blame", "--dry-run", "--demo=quiet", &candidate, &protect]);
    ended.says(2, &["--protect names it"]);
}

#[test]
fn the_examples_of_the_help_are_understood() {
    let help = jostle(&["blame", "--help"]).stdout;
    let examples: Vec<&str> = help
        .lines()
        .filter_map(|line| line.trim().strip_prefix("jostle "))
        .filter(|line| line.starts_with("blame "))
        .collect();
    assert_eq!(examples.len(), 3, "{help}");
    let victim = Hog::start("sleep 1000", None);
    let other = Hog::start("sleep 1000", None);
    for example in examples {
        let text = example.replace("4711", &victim.pid().to_string());
        let text = text.replace("4712", &other.pid().to_string());
        // A cgroup of this name is rarely there.
        let text = text.replace(" --candidate cgroup:/batch", "");
        let text = text.replace("blame ", "blame --dry-run ");
        let words: Vec<&str> = text.split(' ').collect();
        assert_eq!(jostle(&words).status.code(), Some(0), "{text}");
    }
}

#[test]
fn the_committed_schema_is_the_printed_one() {
    let printed = jostle(&["schema", "blame"]).stdout;
    let committed = fs::read_to_string(root().join("profiles/jostle-blame-1.schema.json")).unwrap();
    assert_eq!(printed, committed);
}
