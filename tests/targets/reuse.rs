//! The number of a process that ended is given to another one: nobody stops that, lets
//! it go on or ends it.

use crate::common::eventually;
use crate::common::sh;
use crate::common::skip::have;
use crate::helper;
use crate::support::Stranger;
use crate::support::setup;
use crate::support::start;
use jostle_measure::workload::Target;
use jostle_measure::workload::TargetSpec;
use jostle_measure::workload::tree;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Where the kernel is told after which number it goes on (with
/// `CONFIG_CHECKPOINT_RESTORE`, for root).
const LAST: &str = "/proc/sys/kernel/ns_last_pid";
/// Others take numbers too.
const TRIES: usize = 500;

/// A process in a group of its own with the number `pid`, which is free; `None`, said,
/// where the kernel cannot be told.
fn with_number(pid: i32) -> Option<Stranger> {
    for _ in 0..TRIES {
        have("ns-last-pid", std::fs::write(LAST, (pid - 1).to_string()))?;
        let mut command = Command::new("sleep");
        let child = command.arg("1000").process_group(0).spawn();
        let stranger = Stranger(child.expect("sleep starts"));
        if stranger.pid() == pid {
            return Some(stranger);
        }
    }
    panic!("number {pid} was never free in {TRIES} tries");
}

fn can_choose() -> bool {
    let now = std::fs::read_to_string(LAST);
    let now = have("ns-last-pid", now.and_then(|now| std::fs::write(LAST, now)));
    now.is_some()
}

fn lives(stranger: &Stranger) -> bool {
    tree::stat(stranger.pid()).is_some_and(|stat| !stat.ended())
}

#[test]
fn who_gets_the_number_of_an_ended_process_is_not_the_target() {
    if !can_choose() {
        return;
    }
    setup();
    let first = Stranger::new();
    let pid = first.pid();
    let mut target = Target::start(&TargetSpec::Pid(pid), None, None).unwrap();
    target.stop().unwrap();
    eventually("it is stopped", || first.stopped());
    drop(first);
    let Some(other) = with_number(pid) else {
        return;
    };
    // Whether these succeed does not matter, but whom they reach.
    for _ in 0..3 {
        let _ = target.cont();
        let _ = target.stop();
        assert!(!other.stopped(), "the other one was stopped");
    }
    kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    eventually("somebody stops it", || other.stopped());
    let _ = target.cont();
    drop(target);
    assert!(
        other.stopped(),
        "it went on though somebody else stopped it"
    );
    assert!(lives(&other));
}

#[test]
fn the_guard_of_a_killed_profiler_leaves_it_alone_too() {
    if !can_choose() {
        return;
    }
    let first = Stranger::new();
    let pid = first.pid();
    let mut profiler = helper("helper_stops_a_process", &pid.to_string());
    eventually("it is stopped", || first.stopped());
    // Until the helper has seen that too: it gives up where the target ends before.
    std::thread::sleep(Duration::from_millis(300));
    drop(first);
    let other = with_number(pid);
    assert!(
        profiler.try_wait().unwrap().is_none(),
        "it holds its target"
    );
    if let Some(other) = &other {
        kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
        eventually("somebody stops it", || other.stopped());
    }
    profiler.kill().unwrap();
    profiler.wait().unwrap();
    if let Some(other) = other {
        // The guard acts within milliseconds.
        std::thread::sleep(Duration::from_millis(300));
        assert!(other.stopped() && lives(&other));
    }
}

#[test]
fn who_gets_the_number_of_an_ended_command_is_not_ended_with_it() {
    if !can_choose() {
        return;
    }
    let mut target = start(&sh("exit 0"));
    let pid = target.pid();
    assert!(target.wait(crate::common::PATIENCE).is_some());
    let Some(other) = with_number(pid) else {
        return;
    };
    let _ = target.stop();
    assert!(!other.stopped());
    drop(target);
    std::thread::sleep(Duration::from_millis(100));
    assert!(lives(&other) && !other.stopped());
}
