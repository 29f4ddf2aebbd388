//! `jostle place-local`: the division that is chosen, and what is done with it.

mod common;

use crate::common::JOSTLE;
use crate::common::alone;
use crate::common::once_of_three;
use crate::common::program::Ended;
use crate::common::program::command;
use crate::common::program::jostle;
use jostle_profile as profile;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

const HEAVY: &str = "tests/fixtures/profiles/analytics.json";
const WEB: &str = "tests/fixtures/profiles/web.json";

fn place(args: &[&str]) -> (Option<i32>, String, String) {
    jostle(&[&["place-local"], args].concat()).parts()
}

/// CPUs that the tests may use.
fn allowed() -> Vec<u64> {
    let (_, text, _) = jostle(&["machine", "--json"]).parts();
    let machine: Value = serde_json::from_str(&text).unwrap();
    let cpus = machine["allowed_cpus"].as_array().unwrap();
    cpus.iter().map(|cpu| cpu.as_u64().unwrap()).collect()
}

/// A profile on one CPU.
fn narrow(directory: &Path, from: &str, name: &str) -> String {
    let mut profile: Value = serde_json::from_str(&fs::read_to_string(from).unwrap()).unwrap();
    profile["conditions"]["target_cpus"] = serde_json::json!([0]);
    let path = directory.join(format!("{name}.json"));
    fs::write(&path, profile.to_string()).unwrap();
    profile::load(&path).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn a_division_is_printed_and_nothing_is_started() {
    let directory = tempfile::tempdir().unwrap();
    let files = [(HEAVY, "a"), (WEB, "b"), (WEB, "c")];
    let files = files.map(|(from, name)| narrow(directory.path(), from, name));
    let marker = directory.path().join("started");
    let commands: Vec<String> = files
        .iter()
        .map(|file| format!("{file}=touch {}", marker.display()))
        .collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let (code, stdout, stderr) = place(&commands);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("3 programs on"), "{stdout}");
    assert!(stdout.contains("shares with"), "{stdout}");
    assert!(!marker.exists());
    let (code, stdout, _) = place(
        &[
            &commands[..],
            &["--json", "--cpus", &allowed()[0].to_string()],
        ]
        .concat(),
    );
    assert_eq!(code, Some(0));
    let plan: Value = serde_json::from_str(&stdout).unwrap();
    // One CPU leaves no choice.
    assert_eq!((&plan["compared"], &plan["cpus"]), (&1.into(), &1.into()));
    assert_eq!(
        plan["programs"][0]["shares_with"],
        serde_json::json!(["b", "c"])
    );
    assert_eq!(
        plan["expected_geometric_mean"],
        plan["worst_geometric_mean"]
    );
}

#[test]
fn commands_run_on_the_cpus_that_they_were_given() {
    let directory = tempfile::tempdir().unwrap();
    let files = [(HEAVY, "a"), (WEB, "b")].map(|(from, name)| narrow(directory.path(), from, name));
    let told = ["a", "b"].map(|name| directory.path().join(format!("{name}.cpus")));
    let programs: Vec<String> = files
        .iter()
        .zip(&told)
        .map(|(file, told)| {
            format!(
                "{file}=grep Cpus_allowed_list /proc/self/status > {}",
                told.display()
            )
        })
        .collect();
    let programs: Vec<&str> = programs.iter().map(String::as_str).collect();
    let (code, stdout, stderr) = place(&[&programs[..], &["--apply", "--json"]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    let plan: Value = serde_json::from_str(&stdout).unwrap();
    for (index, told) in told.iter().enumerate() {
        let line = fs::read_to_string(told).unwrap();
        let list = line.split_whitespace().last().unwrap();
        let cpu = plan["programs"][index]["cpus"][0].as_u64().unwrap();
        assert_eq!(list, cpu.to_string());
    }
    let both = [0, 1].map(|index| plan["programs"][index]["cpus"].clone());
    let shared = !plan["programs"][0]["shares_with"]
        .as_array()
        .unwrap()
        .is_empty();
    assert_eq!(both[0] == both[1], shared);
}

#[test]
fn what_runs_already_is_moved_only_when_asked() {
    let directory = tempfile::tempdir().unwrap();
    let files = [(HEAVY, "a"), (WEB, "b")].map(|(from, name)| narrow(directory.path(), from, name));
    let mut sleepers = [0, 1].map(|_| {
        let mut sleep = std::process::Command::new("sleep");
        sleep.arg("60").spawn().unwrap()
    });
    let list = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed_list"));
        line.unwrap().split_whitespace().last().unwrap().to_string()
    };
    let before = list(sleepers[0].id());
    let programs: Vec<String> = files
        .iter()
        .zip(&sleepers)
        .map(|(file, sleep)| format!("{file}=pid:{}", sleep.id()))
        .collect();
    let programs: Vec<&str> = programs.iter().map(String::as_str).collect();
    let (code, _, _) = place(&programs);
    assert_eq!((code, list(sleepers[0].id())), (Some(0), before));
    let (code, _, stderr) = place(&[&programs[..], &["--verify"]].concat());
    assert_eq!(code, Some(2));
    assert!(stderr.contains("add --apply"), "{stderr}");
    let (code, stdout, stderr) = place(&[&programs[..], &["--apply", "--json"]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("moved to CPU"), "{stderr}");
    let plan: Value = serde_json::from_str(&stdout).unwrap();
    for (index, sleep) in sleepers.iter().enumerate() {
        let cpu = &plan["programs"][index]["cpus"][0];
        assert_eq!(list(sleep.id()), cpu.to_string());
    }
    for sleep in &mut sleepers {
        sleep.kill().unwrap();
        sleep.wait().unwrap();
    }
}

#[test]
fn what_is_expected_is_verified_by_measuring() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let [one, other] = [(HEAVY, "a"), (WEB, "b")].map(|(from, name)| {
        let file = narrow(directory.path(), from, name);
        format!("{file}={JOSTLE} demo cpu-time")
    });
    let cpu = allowed()[0].to_string();
    let told = [
        "place-local",
        &one,
        &other,
        "--cpus",
        &cpu,
        "--verify",
        "--budget=6s",
        "--json",
    ];
    once_of_three("each keeps half of its speed", || {
        let plan = Ended::of(command(&told), Duration::from_secs(60)).json();
        let programs = plan["programs"].as_array().unwrap();
        let halved = |program: &Value| {
            let ends = &program["measured"]["ci95"];
            let [low, high] = [0, 1].map(|end| ends[end].as_f64().unwrap_or(f64::NAN));
            assert!(program["expected"].is_f64(), "{program}");
            low < 0.6 && high > 0.4 && high - low < 0.2
        };
        match programs.len() == 2 && programs.iter().all(halved) {
            true => Ok(()),
            false => Err(plan.to_string()),
        }
    });
}

#[test]
fn bad_input_names_the_fix() {
    for (args, said) in [
        (&[WEB][..], "two or more"),
        (&[WEB, "nowhere.json"][..], "nowhere.json"),
        (&[WEB, HEAVY, "--cpus", "9999"][..], "--cpus"),
        (&[WEB, HEAVY, "--budget", "1ms"][..], "--budget"),
    ] {
        let (code, _, stderr) = place(args);
        assert_eq!(code, Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(said), "{args:?}: {stderr}");
    }
    // A command that fails is an error of its own.
    let directory = tempfile::tempdir().unwrap();
    let files = [(HEAVY, "a"), (WEB, "b")].map(|(from, name)| narrow(directory.path(), from, name));
    let (code, _, stderr) = place(&[
        &format!("{}=false", files[0]),
        &format!("{}=true", files[1]),
        "--apply",
    ]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("a: "), "{stderr}");
}
