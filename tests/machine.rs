//! `jostle machine` tells what the kernel tells, quickly.

use assert_cmd::Command;
use serde_json::Value;
use std::process::Output;
use std::time::Duration;
use std::time::Instant;

const JOSTLE: &str = env!("CARGO_BIN_EXE_jostle");

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// No machine file is there: tests do not look into anybody's home.
const NO_STATE: (&str, &str) = ("XDG_STATE_HOME", "/nonexistent");

fn machine() -> Value {
    let mut command = Command::new(JOSTLE);
    command.env(NO_STATE.0, NO_STATE.1);
    json(&command.args(["machine", "--json"]).output().unwrap())
}

/// CPUs by `nproc`, which counts those this process may use.
fn nproc() -> usize {
    let output = std::process::Command::new("nproc")
        .env_remove("OMP_NUM_THREADS")
        .output()
        .unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

#[test]
fn text_names_the_parts() {
    let mut command = Command::new(JOSTLE);
    command.env(NO_STATE.0, NO_STATE.1);
    let output = command.arg("machine").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for label in [
        "CPU ",
        "CPUs",
        "SMT",
        "Caches",
        "NUMA",
        "Memory",
        "Cgroup",
        "Headroom",
        "Kernel",
        "Hypervisor",
        "PMU",
        "Huge pages",
        "Fingerprint",
        "Calibrated",
    ] {
        assert!(
            text.lines().any(|line| line.starts_with(label)),
            "no line '{label}' in:\n{text}"
        );
    }
    assert!(output.stderr.is_empty());
}

#[test]
fn json_agrees_with_the_kernel() {
    let machine = machine();
    assert_eq!(machine["format"], "jostle-machine/1");
    assert_eq!(machine["allowed_cpus"].as_array().unwrap().len(), nproc());
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(machine["kernel"], release.trim());
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = machine["memory"]["total_bytes"].as_u64().unwrap();
    let line = meminfo.lines().next().unwrap();
    assert!(line.contains(&format!(" {} kB", total / 1024)), "{line}");
    let headroom = machine["memory_headroom_bytes"].as_u64().unwrap();
    assert!(0 < headroom && headroom < total);
}

#[test]
fn a_value_is_a_value_or_gives_its_reason() {
    let machine = machine();
    for key in ["pmu", "perf_event_paranoid", "transparent_huge_pages"] {
        let reading = &machine[key];
        let reason = reading["unavailable"].as_str();
        assert!(
            reading.is_string() || reading.is_number() || reason.is_some_and(|text| text.len() > 3),
            "{key}: {reading}"
        );
    }
}

#[test]
fn affinity_is_respected() {
    let whole = machine();
    let allowed = whole["allowed_cpus"].as_array().unwrap();
    if allowed.len() < 2 {
        return;
    }
    let one = allowed[0].as_u64().unwrap();
    let mut command = std::process::Command::new("taskset");
    command.args(["-c", &one.to_string(), JOSTLE, "machine", "--json"]);
    command.env(NO_STATE.0, NO_STATE.1);
    let restricted = json(&command.output().unwrap());
    assert_eq!(restricted["allowed_cpus"], serde_json::json!([one]));
    assert_eq!(restricted["cpus"], whole["cpus"]);
    assert_ne!(restricted["fingerprint"], whole["fingerprint"]);
}

#[test]
fn it_takes_less_than_50_ms() {
    // The best of several: other work on the machine may only slow a run down.
    let best = (0..10)
        .map(|_| {
            let start = Instant::now();
            machine();
            start.elapsed()
        })
        .min()
        .unwrap();
    assert!(best < Duration::from_millis(50), "{best:?}");
}
