//! Targets and metrics, against programs that misbehave in every way known.

mod cgroups;
#[path = "../common/mod.rs"]
mod common;
mod hooks;
mod kills;
mod many;
mod metrics;
mod reuse;
mod shield;
mod support;
mod trees;

use crate::common::PATIENCE;
use crate::common::eventually;
use crate::common::is_root;
use crate::common::marker;
use crate::common::message;
use crate::common::sh;
use crate::common::skip::have;
use crate::support::Stranger;
use crate::support::carrying;
use crate::support::setup;
use crate::support::start;
use jostle_measure::metric;
use jostle_measure::metric::MetricOptions;
use jostle_measure::workload::CommandSpec;
use jostle_measure::workload::State;
use jostle_measure::workload::Target;
use jostle_measure::workload::TargetSpec;
use jostle_measure::workload::tree;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

#[test]
fn a_command_that_is_not_there_is_named() {
    setup();
    let spec = |argv: &[&str]| TargetSpec::Command(CommandSpec::new(argv.iter().copied()));
    let text = message(Target::start(&spec(&["no-such-thing-1"]), None, None), 2);
    assert!(text.contains("'no-such-thing-1' not found"), "{text}");
    let text = message(Target::start(&spec(&["/etc/passwd"]), None, None), 2);
    assert!(text.contains("not executable"), "{text}");
    message(Target::start(&spec(&[]), None, None), 2);
    message(Target::start(&spec(&[""]), None, None), 2);
    message(Target::start(&spec(&["true", "a\0b"]), None, None), 2);
}

#[test]
fn an_early_end_shows_status_and_last_words() {
    setup();
    let spec = sh(r"printf 'broken \033 pipe\n' >&2; exit 7");
    let text = message(
        metric::start(&spec, None, &MetricOptions::default(), None),
        3,
    );
    assert!(text.contains("exited with status 7"), "{text}");
    assert!(text.contains("broken \\u{1b} pipe"), "{text}");
    let mut target = start(&sh("kill -9 $$"));
    eventually(
        "the end is seen",
        || matches!(target.state(), State::Exited(exit) if exit.signal == Some(9)),
    );
    let text = message(target.check_alive(), 3);
    assert!(text.contains("SIGKILL"), "{text}");
}

#[test]
fn descendants_end_too_even_daemons() {
    let mark = marker("forks");
    let target = start(&sh(&format!(
        "export {mark}; for i in 1 2 3 4 5; do sleep 1000 & done; \
         setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) ; \
         exec sh -c 'sleep 1000; true'"
    )));
    eventually("all children run", || carrying(&mark).len() >= 10);
    target.finish();
    assert_eq!(carrying(&mark), [] as [i32; 0]);
}

#[test]
fn daemons_that_ended_do_not_pile_up() {
    let script = "for i in 1 2 3 4 5 6 7 8; do (setsid true &); done; exec sleep 1000";
    let mut target = start(&sh(script));
    eventually("all were started, and reaped", || {
        target.check_alive().unwrap();
        let comm = std::fs::read_to_string(format!("/proc/{}/comm", target.pid()));
        comm.is_ok_and(|comm| comm == "sleep\n") && tree::ended_orphans(&[target.pid()]).is_empty()
    });
}

#[test]
fn sigterm_may_be_ignored() {
    let mark = marker("stubborn");
    let mut target = start(&sh(&format!(
        "trap '' TERM; export {mark}; sh -c 'while :; do sleep 1000; done'"
    )));
    eventually("it runs", || !carrying(&mark).is_empty());
    target.stop().unwrap();
    drop(target);
    assert_eq!(carrying(&mark), [] as [i32; 0]);
}

#[test]
fn a_group_stops_and_goes_on() {
    let mark = marker("stops");
    let mut target = start(&sh(&format!(
        "export {mark}; setsid sleep 1000 & sleep 1000 & exec sleep 1000"
    )));
    eventually("all run", || carrying(&mark).len() >= 2);
    let stopped = |pid: &i32| tree::stat(*pid).is_some_and(|stat| stat.stopped());
    target.stop().unwrap();
    assert_eq!(target.state(), State::Stopped);
    eventually("everything stands", || carrying(&mark).iter().all(stopped));
    target.cont().unwrap();
    eventually("everything goes on", || {
        !carrying(&mark).iter().any(stopped)
    });
    assert_eq!(target.state(), State::Running);
}

#[test]
fn a_panic_leaves_no_process() {
    let mark = marker("panics");
    let result = std::panic::catch_unwind(|| {
        let mut target = start(&sh(&format!("export {mark}; sh -c 'sleep 1000; true'")));
        eventually("it runs", || !carrying(&mark).is_empty());
        target.stop().unwrap();
        panic!("on purpose");
    });
    assert!(result.is_err());
    assert_eq!(carrying(&mark), [] as [i32; 0]);
}

#[test]
fn processes_that_cannot_be_targets_are_refused() {
    setup();
    let attach = |pid: i32| Target::start(&TargetSpec::Pid(pid), None, None);
    for (pid, word) in [
        (-5, "not a process id"),
        (0, "not a process id"),
        (1, "init"),
        (i32::MAX, "no such process"),
        (std::process::id() as i32, "jostle itself"),
        (std::os::unix::process::parent_id() as i32, ""),
    ] {
        let text = message(attach(pid), 2);
        assert!(text.contains(word) && text.contains("--pid"), "{text}");
    }
    if tree::stat(2).is_some_and(|stat| stat.flags & 0x0020_0000 != 0) {
        let text = message(attach(2), 2);
        assert!(text.contains("kernel thread"), "{text}");
    }
}

#[test]
fn an_attached_process_is_left_as_found() {
    setup();
    let stranger = Stranger::new();
    let spec = TargetSpec::Pid(stranger.pid());
    let mut target = Target::start(&spec, None, None).unwrap();
    assert_eq!(target.name(), "sleep");
    assert_eq!(target.command(), ["sleep", "1000"]);
    target.stop().unwrap();
    assert!(stranger.stopped());
    target.cont().unwrap();
    assert!(!stranger.stopped());
    message(target.restart(), 2);
    target.stop().unwrap();
    drop(target);
    assert!(!stranger.stopped());
    assert!(tree::stat(stranger.pid()).is_some_and(|stat| !stat.ended()));

    let pid = nix::unistd::Pid::from_raw(stranger.pid());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    eventually("it stands", || stranger.stopped());
    let mut target = Target::start(&spec, None, None).unwrap();
    target.stop().unwrap();
    target.cont().unwrap();
    drop(target);
    assert!(stranger.stopped(), "it was stopped before we came");
}

#[test]
fn the_end_of_an_attached_process_is_seen() {
    setup();
    let stranger = Stranger::new();
    let mut target = Target::start(&TargetSpec::Pid(stranger.pid()), None, None).unwrap();
    drop(stranger);
    let text = message(target.check_alive(), 3);
    assert!(text.contains("sleep ended"), "{text}");
    message(target.stop(), 3);
}

#[test]
fn targets_keep_to_their_cpus() {
    setup();
    let allowed = jostle_host::sys::cpus::affinity(0).unwrap();
    let first = &allowed[..1];
    let target = Target::start(&sh("exec sleep 1000"), Some(first), None).unwrap();
    assert_eq!(target.cpus().unwrap(), first);
    let spec = TargetSpec::Pid(target.pid());
    drop(Target::start(&spec, Some(first), None).unwrap());
    let text = message(Target::start(&spec, Some(&[]), None), 2);
    assert!(text.contains("taskset"), "{text}");
}

#[test]
#[ignore = "run by a test as another user"]
fn helper_is_refused() {
    let Ok(argument) = std::env::var("JOSTLE_TEST_ARGUMENT") else {
        return;
    };
    let spec = TargetSpec::Pid(argument.parse().unwrap());
    let text = message(Target::start(&spec, None, None), 2);
    assert!(text.contains("belongs to user"), "{text}");
}

#[test]
fn processes_of_other_users_are_refused() {
    use std::os::unix::process::CommandExt;
    if !is_root() {
        return;
    }
    let stranger = Stranger::new();
    let helper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper_is_refused", "--ignored"])
        .env("JOSTLE_TEST_ARGUMENT", stranger.pid().to_string())
        .current_dir("/")
        .uid(65534)
        .output();
    if let Some(output) = have("root", helper) {
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn output_is_shown_on_request_only() {
    // In a process of its own, whose standard error can be read.
    for (show, expected) in [("yes", true), ("no", false)] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper_shows_output", "--ignored", "--nocapture"])
            .env("JOSTLE_TEST_ARGUMENT", show)
            .output()
            .unwrap();
        assert!(output.status.success());
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stdout.contains("to-stdout"), "{stdout}");
        assert_eq!(stderr.contains("to-stdout"), expected, "{stderr}");
        assert_eq!(stderr.contains("to-stderr"), expected, "{stderr}");
    }
}

#[test]
#[ignore = "run by a test that reads its output"]
fn helper_shows_output() {
    setup();
    let Ok(argument) = std::env::var("JOSTLE_TEST_ARGUMENT") else {
        return;
    };
    let spec = TargetSpec::Command(CommandSpec {
        show_output: argument == "yes",
        ..CommandSpec::new(["sh", "-c", "echo to-stdout; echo to-stderr >&2"])
    });
    let mut target = Target::start(&spec, None, None).unwrap();
    assert!(target.wait(PATIENCE).is_some());
    assert!(target.stderr_tail().contains("to-stderr"));
}

/// Runs test `name` of this file, an ignored one, as a process of its own.
fn helper(name: &str, argument: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env("JOSTLE_TEST_ARGUMENT", argument)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "run by a test that kills it"]
fn helper_stops_a_process() {
    setup();
    let Ok(argument) = std::env::var("JOSTLE_TEST_ARGUMENT") else {
        return;
    };
    let spec = TargetSpec::Pid(argument.parse().unwrap());
    let mut target = Target::start(&spec, None, None).unwrap();
    target.stop().unwrap();
    std::thread::sleep(PATIENCE);
}

#[test]
#[ignore = "run by a test that kills it"]
fn helper_starts_a_group() {
    let Ok(mark) = std::env::var("JOSTLE_TEST_ARGUMENT") else {
        return;
    };
    let mut target = start(&sh(&format!(
        "export {mark}; setsid sleep 1000 & sleep 1000 & exec sleep 1000"
    )));
    eventually("all run", || carrying(&mark).len() >= 2);
    target.stop().unwrap();
    std::thread::sleep(PATIENCE);
}

#[test]
fn a_killed_profiler_leaves_no_process_stopped() {
    let stranger = Stranger::new();
    let mut profiler = helper("helper_stops_a_process", &stranger.pid().to_string());
    eventually("it is stopped", || stranger.stopped());
    profiler.kill().unwrap();
    profiler.wait().unwrap();
    eventually("it goes on", || !stranger.stopped());
    assert!(tree::stat(stranger.pid()).is_some_and(|stat| !stat.ended()));
}

#[test]
fn a_killed_profiler_takes_its_target_along() {
    let mark = marker("orphans");
    let mut profiler = helper("helper_starts_a_group", &mark);
    let stopped = |pid: &i32| tree::stat(*pid).is_some_and(|stat| stat.stopped());
    eventually("it runs and stands", || {
        let processes = carrying(&mark);
        processes.len() >= 2 && processes.iter().all(stopped)
    });
    profiler.kill().unwrap();
    profiler.wait().unwrap();
    eventually("all are gone", || carrying(&mark).is_empty());
}
