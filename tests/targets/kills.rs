//! Whatever ends a profiler, its guard or both, at any moment: nothing stays stopped,
//! frozen, running or written down.
//!
//! `JOSTLE_KILLS=N` is how often each end is tried with each target; 4 unless told.

use crate::cgroups::Own;
use crate::cgroups::uses_freezer;
use crate::common::eventually;
use crate::common::skip::have;
use crate::common::within;
use crate::helper;
use crate::support::Stranger;
use crate::support::carrying;
use crate::support::setup;
use jostle_measure::workload::CommandSpec;
use jostle_measure::workload::Outcome;
use jostle_measure::workload::Released;
use jostle_measure::workload::Target;
use jostle_measure::workload::TargetSpec;
use jostle_measure::workload::cgroup::CgroupSpec;
use jostle_measure::workload::cgroup::Hierarchies;
use jostle_measure::workload::cgroup::processes;
use jostle_measure::workload::tree;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::time::Duration;

const MARK: &str = "JOSTLE_KILLED_TARGET";

fn kills() -> usize {
    let told = std::env::var("JOSTLE_KILLS").ok();
    told.map_or(4, |text| text.parse().expect("JOSTLE_KILLS is a number"))
}

/// Holds its target and lets it go on, again and again.
#[test]
#[ignore = "run by tests that kill it"]
fn helper_holds_again_and_again() {
    setup();
    let Ok(argument) = std::env::var("JOSTLE_TEST_ARGUMENT") else {
        return;
    };
    let (kind, value) = argument.split_once(':').expect("kind:value");
    let spec = match kind {
        "process" => TargetSpec::Pid(value.parse().unwrap()),
        "cgroup" => TargetSpec::Cgroup(CgroupSpec {
            directory: value.into(),
            name: "own".into(),
            asked: "--cgroup own".into(),
        }),
        _ => TargetSpec::Command(CommandSpec {
            environment: vec![(MARK.into(), value.into())],
            ..CommandSpec::new(["sh", "-c", "setsid sleep 1000 & while :; do :; done"])
        }),
    };
    let mut target = Target::start(&spec, None, None).unwrap();
    loop {
        target.stop().unwrap();
        std::thread::sleep(Duration::from_millis(3));
        target.cont().unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What the helper holds.
enum Held {
    Process(Stranger),
    Cgroup(Own),
    /// The value of [`MARK`] in its processes.
    Command(String),
}

impl Held {
    fn argument(&self) -> String {
        match self {
            Held::Process(stranger) => format!("process:{}", stranger.pid()),
            Held::Cgroup(own) => format!("cgroup:{}", own.directory.display()),
            Held::Command(mark) => format!("command:{mark}"),
        }
    }

    /// Those of its processes that live.
    fn processes(&self) -> Vec<i32> {
        match self {
            Held::Process(stranger) => vec![stranger.pid()],
            Held::Cgroup(own) => processes(&own.directory).unwrap(),
            Held::Command(mark) => carrying(&format!("{MARK}={mark}")),
        }
    }

    fn stopped(&self) -> bool {
        let stopped = |pid: &i32| tree::stat(*pid).is_some_and(|stat| stat.stopped());
        let frozen = match self {
            Held::Cgroup(own) => uses_freezer(&own.directory),
            _ => false,
        };
        frozen || self.processes().iter().any(stopped)
    }

    /// As it was before the helper came, or gone where the helper had started it.
    fn free(&self) -> bool {
        match self {
            Held::Command(_) => self.processes().is_empty(),
            _ => !self.stopped() && !self.processes().is_empty(),
        }
    }
}

/// The helper at work, and its guard.
struct Profiler {
    child: Child,
    guard: i32,
}

impl Profiler {
    fn of(held: &Held) -> Profiler {
        let child = helper("kills::helper_holds_again_and_again", &held.argument());
        let pid = child.id() as i32;
        let mut profiler = Profiler { child, guard: 0 };
        eventually("it holds", || held.stopped());
        eventually("its guard is there", || {
            profiler.guard = guard_of(pid).unwrap_or(0);
            profiler.guard != 0
        });
        profiler
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The files in which its guards' pages lay.
    fn written_down(&self) -> Vec<PathBuf> {
        let prefix = format!("held-{}-", self.pid());
        let entries = std::fs::read_dir(directory()).into_iter().flatten();
        let ours = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&prefix)
        };
        entries
            .flatten()
            .map(|entry| entry.path())
            .filter(ours)
            .collect()
    }
}

/// A stopped one would outlive a test that fails.
impl Drop for Profiler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where jostle writes down what this user holds.
fn directory() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match nix::unistd::geteuid().is_root() {
        true => "/run/jostle/held".into(),
        false => runtime.expect("a runtime directory").join("jostle/held"),
    }
}

fn guard_of(pid: i32) -> Option<i32> {
    let is_guard = |pid: &i32| {
        tree::command_line(*pid)
            .get(1)
            .is_some_and(|word| word == "guard")
    };
    tree::descendants(pid).into_iter().find(is_guard)
}

fn signal(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

/// Spread over some turns of the helper, which do not take the same time twice.
fn moment(round: usize) -> Duration {
    Duration::from_micros(round as u64 * 7_919 % 20_000)
}

/// `JOSTLE_KILLS` times, for a process, a cgroup and a command: `end` at another
/// moment, and then nothing may be left within `limit`.
fn at_random_moments(name: &str, limit: Duration, end: impl Fn(&mut Profiler, &Held)) {
    for round in 0..kills() {
        for mut held in targets(&format!("{name}-{round}")) {
            if let Held::Cgroup(own) = &mut held {
                own.run(&["sh", "-c", "while :; do sleep 0.01; done"]);
            }
            let mut profiler = Profiler::of(&held);
            std::thread::sleep(moment(round));
            end(&mut profiler, &held);
            let what = format!("{name}, {}: it is free", held.argument());
            within(limit, &what, || held.free());
            let what = format!("{name}, {}: nothing is written down", held.argument());
            within(limit, &what, || profiler.written_down().is_empty());
            let what = format!("{name}: no guard is left");
            within(limit, &what, || {
                tree::stat(profiler.guard).is_none_or(|stat| stat.ended())
            });
        }
    }
}

fn targets(name: &str) -> Vec<Held> {
    let mut targets = vec![
        Held::Process(Stranger::new()),
        Held::Command(format!("{name}-{}", std::process::id())),
    ];
    let hierarchies = Hierarchies::here().expect("the kernel tells its mounts");
    let freezer = hierarchies.iter().find(|h| h.has("freezer") || h.unified());
    let own = freezer.ok_or("no hierarchy has a freezer".to_string());
    let own = own.and_then(|hierarchy| Own::new(hierarchy, &format!("kills-{name}")));
    targets.extend(have("cgroup2", own).map(Held::Cgroup));
    targets
}

const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_killed_profiler() {
    at_random_moments("killed", SOON, |profiler, _| profiler.kill());
}

#[test]
fn a_guard_that_was_told_to_end_and_a_killed_profiler() {
    at_random_moments("told", SOON, |profiler, _| {
        for told in [
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGINT,
            Signal::SIGTSTP,
            Signal::SIGUSR1,
        ] {
            signal(profiler.guard, told);
        }
        profiler.kill();
    });
}

#[test]
fn a_killed_guard_is_replaced() {
    at_random_moments("replaced", SOON, |profiler, held| {
        let killed = profiler.guard;
        signal(killed, Signal::SIGKILL);
        eventually("there is another guard", || {
            let found = guard_of(profiler.pid());
            profiler.guard = found.unwrap_or(0);
            found.is_some_and(|found| found != killed)
        });
        eventually("it holds again", || held.stopped());
        profiler.kill();
    });
}

#[test]
fn guard_and_profiler_killed_together() {
    at_random_moments("both", SOON, |profiler, _| {
        // Neither may see the other go.
        signal(profiler.pid(), Signal::SIGSTOP);
        signal(profiler.guard, Signal::SIGKILL);
        profiler.kill();
        let released = Command::new(crate::common::JOSTLE).arg("release").output();
        let released = released.unwrap();
        assert!(released.status.success(), "{released:?}");
    });
}

#[test]
fn a_stopped_profiler_holds_nothing_for_long() {
    let limit = Duration::from_secs(6);
    at_random_moments("stopped", SOON, |profiler, held| {
        signal(profiler.pid(), Signal::SIGSTOP);
        within(limit, "what it held goes on", || !held_by_the_stopped(held));
        signal(profiler.pid(), Signal::SIGCONT);
        eventually("it holds again", || held.stopped());
        profiler.kill();
    });
}

/// While neither it nor its guard can do anything. It goes on later.
#[test]
fn what_a_stopped_profiler_holds_another_may_free() {
    for mut held in targets("freed") {
        match &mut held {
            // It would be stopped with its profiler.
            Held::Command(_) => continue,
            Held::Cgroup(own) => {
                own.run(&["sh", "-c", "while :; do sleep 0.01; done"]);
            }
            Held::Process(_) => {}
        }
        let mut profiler = Profiler::of(&held);
        let stop = |pid| {
            signal(pid, Signal::SIGSTOP);
            let stopped = || tree::stat(pid).is_some_and(|stat| stat.stopped());
            within(SOON, "it stops", stopped);
        };
        stop(profiler.guard);
        eventually("it is stopped while it holds", || {
            stop(profiler.pid());
            let holds = held.stopped();
            if !holds {
                signal(profiler.pid(), Signal::SIGCONT);
            }
            holds
        });
        within(SOON, "what it held goes on", || {
            let released = Command::new(crate::common::JOSTLE).arg("release").output();
            let released = released.unwrap();
            assert!(released.status.success(), "{released:?}");
            !held.stopped()
        });
        signal(profiler.pid(), Signal::SIGCONT);
        signal(profiler.guard, Signal::SIGCONT);
        for _ in 0..3 {
            eventually("it holds again", || held.stopped());
            eventually("it lets go again", || !held.stopped());
        }
        assert!(profiler.child.try_wait().unwrap().is_none(), "it has ended");
        profiler.kill();
        within(SOON, "nothing is held", || held.free());
    }
}

/// What it has started itself may wait with it.
fn held_by_the_stopped(held: &Held) -> bool {
    !matches!(held, Held::Command(_)) && held.stopped()
}

#[test]
fn a_whole_cgroup_killed() {
    let hierarchies = Hierarchies::here().expect("the kernel tells its mounts");
    let unified = hierarchies.iter().find(|hierarchy| hierarchy.unified());
    let can_kill = |own: &Own| own.directory.join("cgroup.kill").exists();
    let own = unified.ok_or("v2 is not mounted".to_string());
    let own = own.and_then(|hierarchy| Own::new(hierarchy, "killed-whole"));
    let own = own.and_then(|own| match can_kill(&own) {
        true => Ok(own),
        false => Err("there is no cgroup.kill".to_string()),
    });
    let Some(around) = have("cgroup2", own) else {
        return;
    };
    let stranger = Held::Process(Stranger::new());
    for _ in 0..kills() {
        // The helper is moved before its guard starts, which then leaves by itself.
        let enter = format!("echo $$ > {}/cgroup.procs", around.directory.display());
        let program = std::env::current_exe().unwrap();
        let run = format!(
            "{enter} && exec {} --exact kills::helper_holds_again_and_again --ignored",
            program.display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &run])
            .env("JOSTLE_TEST_ARGUMENT", stranger.argument())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        eventually("it holds", || stranger.stopped());
        std::fs::write(around.directory.join("cgroup.kill"), "1").unwrap();
        child.wait().unwrap();
        within(SOON, "what it held goes on", || stranger.free());
    }
}

/// While others take and give up their targets, no page is found half written or
/// counts as a failure because it has just gone.
#[test]
fn pages_that_come_and_go_are_no_failure() {
    setup();
    let targets = std::thread::spawn(|| {
        for _ in 0..100 {
            let command = TargetSpec::Command(CommandSpec::new(["true"]));
            drop(Target::start(&command, None, None).unwrap());
        }
    });
    while !targets.is_finished() {
        let released = jostle_measure::workload::release(true).unwrap();
        assert!(!released.iter().any(Released::failed), "{released:?}");
    }
    targets.join().unwrap();
}

#[test]
fn nothing_held_is_nothing_released() {
    setup();
    let released = jostle_measure::workload::release(true).unwrap();
    // Other tests of this process may hold a target meanwhile.
    let of_us = |one: &&Released| one.profiler == Some(std::process::id() as i32);
    let mut of_us = released.iter().filter(of_us);
    assert!(
        of_us.all(|one| matches!(one.outcome, Outcome::Runs)),
        "{released:?}"
    );
}
