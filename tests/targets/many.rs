//! Targets of many processes, and of several instances.

use crate::common::PATIENCE;
use crate::common::eventually;
use crate::common::marker;
use crate::common::message;
use crate::common::python;
use crate::common::sh;
use crate::support::carrying;
use crate::support::setup;
use crate::support::start;
use jostle_measure::metric;
use jostle_measure::metric::MetricOptions;
use jostle_measure::workload::CommandSpec;
use jostle_measure::workload::Scope;
use jostle_measure::workload::State;
use jostle_measure::workload::Target;
use jostle_measure::workload::TargetSpec;
use jostle_measure::workload::tree;
use std::num::NonZeroUsize;
use std::process::Child;
use std::process::Command;

/// Forks 500 children that stay, then short-lived ones for ever.
const FORKS: &str = "
import os, time, sys
for i in range(500):
    if os.fork() == 0:
        if i % 5 == 0: os.setsid()
        time.sleep(1000); os._exit(0)
while True:
    pids = []
    for i in range(20):
        pid = os.fork()
        if pid == 0: os._exit(0)
        pids.append(pid)
    for pid in pids: os.waitpid(pid, 0)
";

fn stopped(pid: i32) -> bool {
    tree::stat(pid).is_some_and(|stat| stat.stopped())
}

fn lives(pid: i32) -> bool {
    tree::stat(pid).is_some_and(|stat| !stat.ended())
}

/// A process group that is not ours, all of it gone when dropped.
struct Group(Child);

impl Group {
    fn new(argv: &[&str], mark: &str) -> Group {
        use std::os::unix::process::CommandExt;
        let (key, value) = mark.split_once('=').unwrap();
        let child = Command::new(argv[0])
            .args(&argv[1..])
            .env(key, value)
            // This process adopts its orphans, for the targets that other tests
            // start meanwhile: they must not take them for theirs.
            .env(tree::MARKER, "none")
            .process_group(0)
            .spawn()
            .unwrap();
        Group(child)
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn kill(pids: &[i32]) {
    for &pid in pids {
        let pid = nix::unistd::Pid::from_raw(pid);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
    }
}

#[test]
fn an_attached_process_is_stopped_with_all_that_it_forks() {
    setup();
    let mark = marker("attached-forks");
    let group = Group::new(&["python3", "-c", FORKS], &mark);
    eventually("all were forked", || carrying(&mark).len() > 500);
    let mut target = Target::start(&TargetSpec::Pid(group.pid()), None, None).unwrap();
    for _ in 0..3 {
        target.stop().unwrap();
        assert_eq!(target.state(), State::Stopped);
        let all = carrying(&mark);
        assert!(all.len() > 500);
        assert!(all.iter().all(|&pid| stopped(pid)), "everything stands");
        target.cont().unwrap();
        assert!(!carrying(&mark).iter().any(|&pid| stopped(pid)));
    }
    drop(target);
    assert!(lives(group.pid()));
    drop(group);
    kill(&carrying(&mark));
}

#[test]
fn a_command_is_stopped_and_ended_with_all_that_it_forks() {
    let mark = marker("command-forks");
    let (key, value) = mark.split_once('=').unwrap();
    let TargetSpec::Command(mut spec) = python(FORKS) else {
        unreachable!("a command");
    };
    spec.environment.push((key.into(), value.into()));
    let mut target = start(&TargetSpec::Command(spec));
    eventually("all were forked", || carrying(&mark).len() > 500);
    for _ in 0..2 {
        target.stop().unwrap();
        assert!(carrying(&mark).iter().all(|&pid| stopped(pid)));
        target.cont().unwrap();
    }
    drop(target);
    assert_eq!(carrying(&mark), [] as [i32; 0]);
}

#[test]
fn a_child_that_lost_its_parent_stays_the_targets() {
    setup();
    let mark = marker("lost");
    let middle = "setsid sh -c 'sleep 1000; true' & sleep 1000; true";
    let script = format!("sh -c \"{middle}\" & sleep 1000; true");
    let group = Group::new(&["sh", "-c", &script], &mark);
    eventually("all run", || carrying(&mark).len() == 6);
    let mut target = Target::start(&TargetSpec::Pid(group.pid()), None, None).unwrap();
    assert_eq!(target.scope(), Scope::Processes(vec![group.pid()]));
    let children = tree::descendants(group.pid());
    let runs_middle = |&&pid: &&i32| {
        tree::command_line(pid)
            .get(2)
            .is_some_and(|script| script.starts_with("setsid"))
    };
    let &middle = children.iter().find(runs_middle).unwrap();
    kill(&[middle]);
    eventually("it is gone", || !lives(middle));
    // Its two children were given to somebody else.
    target.stop().unwrap();
    assert!(matches!(target.scope(), Scope::Processes(roots) if roots.len() == 3));
    let all = carrying(&mark);
    assert_eq!(all.len(), 5);
    // A shell may have been stopped while it waited in vfork.
    assert!(all.iter().all(|&pid| tree::stands(pid)));
    drop(target);
    assert!(!all.iter().any(|&pid| stopped(pid)));
    drop(group);
    kill(&all);
}

#[test]
fn threads_may_come_and_go() {
    setup();
    let script = "
import threading, time
while True:
    all = [threading.Thread(target=time.sleep, args=(0.002,)) for i in range(8)]
    for t in all: t.start()
    for t in all: t.join()
";
    let mark = marker("threads");
    let group = Group::new(&["python3", "-c", script], &mark);
    let mut target = Target::start(&TargetSpec::Pid(group.pid()), None, None).unwrap();
    let allowed = jostle_host::sys::cpus::affinity(0).unwrap();
    for _ in 0..20 {
        assert_eq!(target.cpus().unwrap(), allowed);
        target.stop().unwrap();
        assert!(stopped(group.pid()));
        target.cont().unwrap();
    }
}

fn instances(count: usize, script: &str) -> TargetSpec {
    let TargetSpec::Command(spec) = sh(script) else {
        unreachable!("a command");
    };
    TargetSpec::Command(CommandSpec {
        instances: NonZeroUsize::new(count).unwrap(),
        ..spec
    })
}

#[test]
fn instances_start_stop_and_end_together() {
    let mark = marker("instances");
    let mut target = start(&instances(
        3,
        &format!("export {mark}; sleep 1000 & sleep 1000"),
    ));
    eventually("all run", || carrying(&mark).len() == 6);
    let Scope::Processes(leaders) = target.scope() else {
        panic!("a command has processes");
    };
    assert_eq!(leaders.len(), 3);
    assert_eq!(target.pid(), leaders[0]);
    target.stop().unwrap();
    assert_eq!(target.state(), State::Stopped);
    assert!(leaders.iter().all(|&pid| stopped(pid)));
    assert!(carrying(&mark).iter().all(|&pid| stopped(pid)));
    target.cont().unwrap();
    assert_eq!(target.state(), State::Running);
    drop(target);
    assert_eq!(carrying(&mark), [] as [i32; 0]);
}

#[test]
fn the_instance_that_fails_is_named() {
    let place = tempfile::tempdir().unwrap();
    let taken = place.path().join("taken");
    // Whoever comes first stays, the other one fails.
    let script = format!("mkdir {} && exec sleep 1000; exit 5", taken.display());
    let mut target = start(&instances(2, &script));
    eventually("one fails", || matches!(target.state(), State::Exited(_)));
    let text = message(target.check_alive(), 3);
    assert!(text.contains("of 2) exited with status 5"), "{text}");
    assert!(text.contains("mkdir"), "its last words: {text}");

    // One that ends well while the other goes on is not the end, but told.
    let script = format!("rmdir {} && exit 0; exec sleep 1000", taken.display());
    let mut target = start(&instances(2, &script));
    eventually("one has ended", || target.check_alive().is_err());
    assert_eq!(target.state(), State::Running);
    assert!(target.wait(std::time::Duration::from_millis(20)).is_none());
}

#[test]
fn a_run_of_instances_ends_with_the_last() {
    let place = tempfile::tempdir().unwrap();
    let taken = place.path().join("taken");
    let script = format!("mkdir {} 2>/dev/null || exec sleep 0.3", taken.display());
    let mut target = start(&instances(2, &script));
    assert!(target.wait(PATIENCE).is_some_and(|exit| exit.success()));
    assert!(target.ran_for().unwrap().as_secs_f64() >= 0.3);
    let (mut target, mut metric) = metric::start(
        &instances(2, "sleep 0.05"),
        Some("runs"),
        &MetricOptions::default(),
        None,
    )
    .unwrap();
    let totals = MetricOptions {
        kind: metric::StdoutKind::Rate,
        ..MetricOptions::default()
    };
    let printing = instances(2, "echo 1");
    let text = message(
        metric::start(&printing, Some("stdout:(.)"), &totals, None),
        2,
    );
    assert!(text.contains("--instances"), "{text}");
    metric.begin(&mut target).unwrap();
    let rate = metric.end(&mut target).unwrap();
    assert!(rate > 0.0 && rate <= 20.0, "{rate}");
}

#[test]
fn a_command_runs_where_and_with_what_it_is_told() {
    let place = tempfile::tempdir().unwrap();
    let TargetSpec::Command(spec) = sh("pwd > out; echo $COLOUR >> out; ./tool >> out") else {
        unreachable!("a command");
    };
    std::fs::write(place.path().join("tool"), "#!/bin/sh\necho tool\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path().join("tool"), mode).unwrap();
    let with = |spec: &CommandSpec| CommandSpec {
        directory: Some(place.path().to_path_buf()),
        environment: vec![
            ("COLOUR".into(), "red".into()),
            ("COLOUR".into(), "blue=2".into()),
        ],
        ..spec.clone()
    };
    let mut target = start(&TargetSpec::Command(with(&spec)));
    assert!(target.wait(PATIENCE).unwrap().success());
    let text = std::fs::read_to_string(place.path().join("out")).unwrap();
    let here = place.path().canonicalize().unwrap();
    assert_eq!(text, format!("{}\nblue=2\ntool\n", here.display()));

    // What is relative is so to that directory.
    let tool = TargetSpec::Command(with(&CommandSpec::new(["./tool"])));
    tool.check().unwrap();
    assert!(start(&tool).wait(PATIENCE).unwrap().success());
    let mut spec = with(&CommandSpec::new(["./tool"]));
    spec.directory = Some(place.path().join("nowhere"));
    let text = message(TargetSpec::Command(spec.clone()).check(), 2);
    assert!(text.contains("--cwd"), "{text}");
    message(Target::start(&TargetSpec::Command(spec), None, None), 2);
}
