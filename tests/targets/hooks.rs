//! Set-up, warm-up and tear-down, with the real program.

use crate::common::PATIENCE;
use crate::common::eventually;
use crate::common::sh;
use crate::support::setup;
use jostle_measure::workload::Target;
use jostle_measure::workload::hooks::Hooks;
use jostle_measure::workload::hooks::WarmUp;
use jostle_measure::workload::tree;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::time::Instant;
use tempfile::TempDir;

const JOSTLE: &str = env!("CARGO_BIN_EXE_jostle");

/// `jostle profile` of a short measurement, in `place`.
fn profile(place: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(JOSTLE);
    command
        .args([
            "profile",
            "--resources",
            "cpu-time",
            "--measure",
            "tolerated",
        ])
        .args(["--budget", "3s", "--slice", "1ms", "--out", "p.json"])
        .args(arguments)
        .env("XDG_STATE_HOME", place.path())
        .current_dir(place.path())
        .stdin(Stdio::null());
    command
}

struct Said {
    code: Option<i32>,
    stderr: String,
}

fn run(place: &TempDir, arguments: &[&str]) -> Said {
    let output = profile(place, arguments).output().unwrap();
    Said {
        code: output.status.code(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn lines(place: &TempDir, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(place.path().join(file)).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

#[test]
fn hooks_run_in_order_and_know_the_target() {
    let place = tempfile::tempdir().unwrap();
    let comm = "comm=$(cat /proc/$JOSTLE_TARGET_PID/comm 2>/dev/null)";
    let said = run(
        &place,
        &[
            "--setup",
            "echo setup $JOSTLE_TARGET_PID >> log",
            "--warmup",
            &format!("{comm}; echo warmup $comm >> log"),
            "--teardown",
            &format!("{comm}; echo teardown $comm >> log"),
            "--demo",
            "l1d",
        ],
    );
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    // The target is gone when the tear-down runs.
    assert_eq!(lines(&place, "log"), ["setup", "warmup jostle", "teardown"]);
    assert!(place.path().join("p.json").exists());
}

#[test]
fn a_set_up_that_fails_says_so_and_is_torn_down() {
    let place = tempfile::tempdir().unwrap();
    let down = ["--teardown", "echo down >> log; exit 3"];
    let target = ["--", "sh", "-c", "echo started >> log; sleep 100"];
    let hook = ["--setup", "echo no disk >&2; exit 7"];
    let said = run(&place, &[&hook[..], &down, &target].concat());
    assert_eq!(said.code, Some(3), "{}", said.stderr);
    for part in [
        "--setup",
        "status 7",
        "no disk",
        "warning: --teardown",
        "status 3",
    ] {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
    assert_eq!(lines(&place, "log"), ["down"]);

    let hook = ["--setup", "sleep 100", "--hook-timeout", "200ms"];
    let said = run(&place, &[&hook[..], &down, &target].concat());
    assert_eq!(said.code, Some(3), "{}", said.stderr);
    assert!(said.stderr.contains("--hook-timeout"), "{}", said.stderr);
    assert_eq!(lines(&place, "log"), ["down", "down"]);
}

#[test]
fn the_tear_down_runs_when_the_target_fails() {
    let place = tempfile::tempdir().unwrap();
    let said = run(
        &place,
        &["--teardown", "echo down >> log", "--", "sh", "-c", "exit 4"],
    );
    assert_eq!(said.code, Some(3), "{}", said.stderr);
    assert!(said.stderr.contains("status 4"), "{}", said.stderr);
    assert_eq!(lines(&place, "log"), ["down"]);
}

#[test]
fn a_dry_run_shows_hooks_and_runs_none() {
    let place = tempfile::tempdir().unwrap();
    let hooks = [
        "--setup",
        "touch a",
        "--warmup",
        "3s",
        "--teardown",
        "touch b",
    ];
    let output = profile(
        &place,
        &[&hooks[..], &["--dry-run", "--demo", "l1d"]].concat(),
    )
    .output()
    .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["set up: touch a", "warm up: wait 3 s", "tear down: touch b"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

/// Starts a run whose set-up goes on for ever, and waits until it does.
fn in_set_up(place: &TempDir) -> (Child, i32) {
    let child = profile(
        place,
        &[
            "--setup",
            "sleep 1000 & echo $! > pid; wait",
            "--teardown",
            "echo down >> log",
            "--demo",
            "l1d",
        ],
    )
    .stderr(Stdio::null())
    .spawn()
    .unwrap();
    eventually("the set-up runs", || lines(place, "pid").len() == 1);
    (child, lines(place, "pid")[0].parse().unwrap())
}

fn gone(pid: i32) -> bool {
    tree::stat(pid).is_none_or(|stat| stat.ended())
}

#[test]
fn ctrl_c_ends_the_set_up_with_its_group_and_tears_down() {
    let place = tempfile::tempdir().unwrap();
    let (mut child, inner) = in_set_up(&place);
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    eventually("its child is gone", || gone(inner));
    assert_eq!(lines(&place, "log"), ["down"]);
}

#[test]
fn a_killed_profiler_is_torn_down_by_its_guard() {
    let place = tempfile::tempdir().unwrap();
    let (mut child, inner) = in_set_up(&place);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("its child is gone", || gone(inner));
    eventually("it is torn down", || lines(&place, "log") == ["down"]);
}

#[test]
fn a_killed_profiler_ends_its_target_before_the_tear_down() {
    let place = tempfile::tempdir().unwrap();
    let mut child = profile(
        &place,
        &[
            "--warmup",
            "echo $JOSTLE_TARGET_PID > pid; sleep 1000",
            "--teardown",
            // Ended, whether reaped or not.
            "grep 'State:.[RSDTt]' /proc/$JOSTLE_TARGET_PID/status >> log; echo down >> log",
            "--demo",
            "l1d",
        ],
    )
    .stderr(Stdio::null())
    .spawn()
    .unwrap();
    eventually("it warms up", || lines(&place, "pid").len() == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("it is torn down", || lines(&place, "log") == ["down"]);
    assert!(gone(lines(&place, "pid")[0].parse().unwrap()));
}

#[test]
fn a_warm_up_that_waits_sees_the_target_fail() {
    setup();
    let hooks = Hooks {
        warm_up: Some(WarmUp::Wait(PATIENCE)),
        ..Hooks::default()
    };
    let interrupt = Arc::new(AtomicBool::new(false));
    let mut around = hooks.begin(None, &interrupt).unwrap();
    let mut target = Target::start(&sh("exit 9"), None, None).unwrap();
    let text = crate::common::message(around.warm_up(&mut target), 3);
    assert!(text.contains("status 9"), "{text}");

    let hooks = Hooks {
        warm_up: Some(WarmUp::Wait(Duration::from_millis(50))),
        ..Hooks::default()
    };
    let mut around = hooks.begin(None, &interrupt).unwrap();
    let mut target = Target::start(&sh("exec sleep 1000"), None, None).unwrap();
    let began = Instant::now();
    around.warm_up(&mut target).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert!(around.took() >= Duration::from_millis(50));
}

#[test]
fn a_daemon_of_a_hook_is_not_the_targets() {
    is_not_the_targets("setsid");
}

#[test]
fn nor_is_one_that_lost_its_environment_as_with_su() {
    is_not_the_targets("setsid env -i PATH=\"$PATH\"");
}

/// A daemon that a warm-up starts with `detached` in front.
fn is_not_the_targets(detached: &str) {
    setup();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("pid");
    // The hook ends only when the daemon has left its session.
    let script = format!(
        "{detached} sh -c 'echo $$ > {0}; exec sleep 1000' & until [ -s {0} ]; do sleep 0.01; done",
        file.display()
    );
    let hooks = Hooks {
        warm_up: Some(WarmUp::Run(script)),
        ..Hooks::default()
    };
    let interrupt = Arc::new(AtomicBool::new(false));
    let mut around = hooks.begin(None, &interrupt).unwrap();
    let mut target = Target::start(&sh("exec sleep 1000"), None, None).unwrap();
    around.warm_up(&mut target).unwrap();
    let daemon = read_pid(&file);
    target.stop().unwrap();
    assert!(tree::stat(daemon).is_some_and(|stat| !stat.stopped()));
    drop(target);
    assert!(!gone(daemon));
    let pid = nix::unistd::Pid::from_raw(daemon);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
}

fn read_pid(file: &Path) -> i32 {
    std::fs::read_to_string(file)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}
