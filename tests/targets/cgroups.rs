//! Real cgroups, where this machine lets one make them.

use crate::common::eventually;
use crate::common::is_root;
use crate::common::message;
use crate::common::skip::have;
use crate::helper;
use crate::support::Stranger;
use crate::support::setup;
use jostle_measure::metric;
use jostle_measure::metric::MetricOptions;
use jostle_measure::workload::Progress;
use jostle_measure::workload::Scope;
use jostle_measure::workload::State;
use jostle_measure::workload::Target;
use jostle_measure::workload::TargetSpec;
use jostle_measure::workload::cgroup;
use jostle_measure::workload::cgroup::CgroupSpec;
use jostle_measure::workload::cgroup::Hierarchies;
use jostle_measure::workload::cgroup::Hierarchy;
use jostle_measure::workload::tree;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

/// A cgroup of our own; it and what it holds are gone when dropped.
pub struct Own {
    pub directory: PathBuf,
    children: Vec<Child>,
}

impl Own {
    pub fn new(hierarchy: &Hierarchy, name: &str) -> Result<Own, String> {
        let name = format!("jostle-test-{name}-{}", std::process::id());
        let directory = hierarchy.directory.join(name);
        std::fs::create_dir(&directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        Ok(Own {
            directory,
            children: Vec::new(),
        })
    }

    /// Starts `argv` inside, before it can fork anything.
    pub fn run(&mut self, argv: &[&str]) -> i32 {
        let enter = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        let child = Command::new("sh")
            .args(["-c", enter])
            .arg(&self.directory)
            .args(argv)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        self.children.push(child);
        let inside = || cgroup::processes(&self.directory).unwrap_or_default();
        eventually("it is inside", || inside().contains(&pid));
        pid
    }

    fn take(&self, pid: i32) {
        std::fs::write(self.directory.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    fn spec(&self) -> TargetSpec {
        TargetSpec::Cgroup(CgroupSpec {
            directory: self.directory.clone(),
            name: "own".into(),
            asked: "--cgroup own".into(),
        })
    }

    fn attach(&self) -> Target {
        setup();
        Target::start(&self.spec(), None, None).expect("it can be attached to")
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        for (file, word) in [("cgroup.freeze", "0"), ("freezer.state", "THAWED")] {
            let file = self.directory.join(file);
            if file.exists() {
                let _ = std::fs::write(file, word);
            }
        }
        let inside = cgroup::processes(&self.directory).unwrap_or_default();
        for pid in inside {
            let pid = nix::unistd::Pid::from_raw(pid);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        eventually("the cgroup is removed", || {
            let inner = std::fs::read_dir(&self.directory)
                .into_iter()
                .flatten()
                .flatten();
            for entry in inner.filter(|entry| entry.path().is_dir()) {
                let _ = std::fs::remove_dir(entry.path());
            }
            std::fs::remove_dir(&self.directory).is_ok() || !self.directory.exists()
        });
    }
}

/// Runs `test` in a cgroup of each kind that can be made here: `v2`, `v1` with
/// a freezer, `v1` without.
fn in_each_kind(name: &str, test: impl Fn(&str, Own)) {
    let hierarchies = Hierarchies::here().expect("the kernel tells its mounts");
    let freezer = |hierarchy: &&Hierarchy| hierarchy.controllers.iter().any(|c| c == "freezer");
    let kinds: [(&str, Option<&Hierarchy>); 3] = [
        (
            "v2",
            hierarchies.iter().find(|hierarchy| hierarchy.unified()),
        ),
        ("v1 freezer", hierarchies.iter().find(freezer)),
        (
            "v1 without a freezer",
            hierarchies
                .iter()
                .find(|hierarchy| !hierarchy.unified() && hierarchy.controllers == ["pids"]),
        ),
    ];
    for (kind, hierarchy) in kinds {
        let own = match hierarchy {
            None => Err("not mounted".to_string()),
            Some(hierarchy) => Own::new(hierarchy, name),
        };
        let need = if kind == "v2" { "cgroup2" } else { "cgroup1" };
        let own = own.map_err(|reason| format!("{kind}: {reason}"));
        if let Some(own) = have(need, own) {
            test(kind, own);
        }
    }
}

/// CPU time of `pid` in ticks.
fn ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

const SPIN: &[&str] = &["sh", "-c", "while :; do :; done"];

fn stands(pid: i32) -> bool {
    // The tick in which it was stopped may be accounted late.
    std::thread::sleep(std::time::Duration::from_millis(30));
    let before = ticks(pid);
    std::thread::sleep(std::time::Duration::from_millis(150));
    ticks(pid) == before
}

fn runs(pid: i32) {
    let before = ticks(pid);
    eventually("it runs", || ticks(pid) > before + 1);
}

pub fn uses_freezer(directory: &Path) -> bool {
    let read = |name| std::fs::read_to_string(directory.join(name)).unwrap_or_default();
    read("cgroup.freeze").trim() == "1" || read("freezer.state").trim() == "FROZEN"
}

#[test]
fn everything_in_a_cgroup_stops_and_goes_on() {
    in_each_kind("stops", |kind, mut own| {
        let spinner = own.run(SPIN);
        let forks = own.run(&["sh", "-c", "while :; do sleep 0.01; done"]);
        let mut target = own.attach();
        assert_eq!(target.name(), "own");
        assert_eq!(target.unstoppable(), None);
        assert_eq!(target.scope(), Scope::Cgroup(own.directory.clone()));
        assert_eq!(target.pid(), spinner.min(forks));
        assert_eq!(
            target.cpus().unwrap(),
            jostle_host::sys::cpus::affinity(0).unwrap()
        );
        for _ in 0..3 {
            target.stop().unwrap();
            assert_eq!(target.state(), State::Stopped, "{kind}");
            assert!(stands(spinner), "{kind}");
            let by_signal = tree::stat(spinner).is_some_and(|stat| stat.stopped());
            let frozen = uses_freezer(&own.directory);
            let expected = kind != "v1 without a freezer";
            assert_eq!((frozen, by_signal), (expected, !expected), "{kind}");
            target.cont().unwrap();
            assert_eq!(target.state(), State::Running, "{kind}");
            runs(spinner);
        }
        target.stop().unwrap();
        drop(target);
        assert!(!uses_freezer(&own.directory), "{kind}");
        runs(spinner);
        assert!(tree::stat(forks).is_some_and(|stat| !stat.ended()));
    });
}

#[test]
#[ignore = "run by a test that kills it"]
fn helper_holds_a_cgroup() {
    setup();
    let Ok(argument) = std::env::var("JOSTLE_TEST_ARGUMENT") else {
        return;
    };
    let spec = TargetSpec::Cgroup(CgroupSpec {
        directory: argument.into(),
        name: "own".into(),
        asked: "--cgroup own".into(),
    });
    let mut target = Target::start(&spec, None, None).unwrap();
    target.stop().unwrap();
    std::thread::sleep(crate::common::PATIENCE);
}

#[test]
fn a_killed_profiler_leaves_no_cgroup_stopped() {
    in_each_kind("killed", |kind, mut own| {
        let spinner = own.run(SPIN);
        let directory = own.directory.to_string_lossy().into_owned();
        let held = || {
            uses_freezer(&own.directory) || tree::stat(spinner).is_some_and(|stat| stat.stopped())
        };
        let mut profiler = helper("cgroups::helper_holds_a_cgroup", &directory);
        eventually("it is held", held);
        assert!(stands(spinner), "{kind}");
        profiler.kill().unwrap();
        profiler.wait().unwrap();
        eventually("it is let go", || !held());
        runs(spinner);
    });
}

#[test]
fn a_frozen_cgroup_is_refused_and_stays_frozen() {
    in_each_kind("frozen", |kind, mut own| {
        let (file, word, thawed) = match kind {
            "v2" => ("cgroup.freeze", "1", "0"),
            "v1 freezer" => ("freezer.state", "FROZEN", "THAWED"),
            _ => return,
        };
        own.run(SPIN);
        let freezer = own.directory.join(file);
        std::fs::write(&freezer, word).unwrap();
        eventually("it is frozen", || uses_freezer(&own.directory));
        setup();
        let text = message(Target::start(&own.spec(), None, None), 2);
        assert!(text.contains("thaw") && text.contains(file), "{text}");
        assert!(uses_freezer(&own.directory));
        // Frozen by its parent: that is where it must be thawed.
        std::fs::write(&freezer, thawed).unwrap();
        let inner = own.directory.join("inner");
        std::fs::create_dir(&inner).unwrap();
        let pid = own.children[0].id();
        std::fs::write(inner.join("cgroup.procs"), pid.to_string()).unwrap();
        std::fs::write(&freezer, word).unwrap();
        let spec = TargetSpec::Cgroup(CgroupSpec {
            directory: inner,
            name: "inner".into(),
            asked: "--cgroup inner".into(),
        });
        eventually("the inner one is frozen too", || spec.check().is_err());
        let text = message(spec.check(), 2);
        let expected = format!("> {}", freezer.display());
        assert!(text.contains(&expected), "{text}");
    });
}

#[test]
fn a_cgroup_that_empties_or_vanishes_is_told() {
    in_each_kind("ends", |kind, mut own| {
        setup();
        let text = message(Target::start(&own.spec(), None, None), 2);
        assert!(text.contains("holds no process"), "{text}");
        own.run(&["sleep", "1000"]);
        let mut target = own.attach();
        assert_eq!(target.state(), State::Running, "{kind}");
        assert!(target.wait(std::time::Duration::from_millis(30)).is_none());
        let mut child = own.children.pop().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        eventually("it is empty", || target.check_alive().is_err());
        let text = message(target.check_alive(), 3);
        assert!(text.contains("holds no process any more"), "{text}");
        message(target.stop(), 3);
        eventually("it is removed", || {
            std::fs::remove_dir(&own.directory).is_ok() || !own.directory.exists()
        });
        let text = message(target.check_alive(), 3);
        assert!(text.contains("vanished"), "{text}");
        message(target.restart(), 2);
    });
}

#[test]
fn a_cgroup_of_ours_is_refused() {
    in_each_kind("ours", |kind, own| {
        // Its own process, put in before it asks, and moved back by its end.
        let mut helper = helper(
            "cgroups::helper_is_inside",
            &own.directory.to_string_lossy(),
        );
        let status = helper.wait().unwrap();
        assert!(status.success(), "{kind}");
    });
}

#[test]
#[ignore = "run by a test that makes the cgroup"]
fn helper_is_inside() {
    let Ok(argument) = std::env::var("JOSTLE_TEST_ARGUMENT") else {
        return;
    };
    setup();
    let directory = PathBuf::from(argument);
    std::fs::write(
        directory.join("cgroup.procs"),
        std::process::id().to_string(),
    )
    .unwrap();
    let spec = TargetSpec::Cgroup(CgroupSpec {
        directory,
        name: "own".into(),
        asked: "--cgroup own".into(),
    });
    let text = message(Target::start(&spec, None, None), 2);
    assert!(text.contains("jostle itself"), "{text}");
}

#[test]
fn progress_is_read_from_anything_in_a_cgroup() {
    in_each_kind("progress", |kind, mut own| {
        let jostle = env!("CARGO_BIN_EXE_jostle");
        // Two publishers, one of them not the leader of its tree.
        own.run(&[jostle, "demo", "l1d"]);
        own.run(&[
            "sh",
            "-c",
            &format!("sleep 1000 & '{jostle}' demo l1d; true"),
        ]);
        let find = |scope: &Scope| Progress::find_in(scope).ok().flatten();
        let target = own.attach();
        let one = |pid| find(&Scope::Processes(vec![pid]));
        let pids: Vec<i32> = own.children.iter().map(|child| child.id() as i32).collect();
        eventually("both publish", || {
            pids.iter().all(|&pid| one(pid).is_some())
        });
        let all = find(&target.scope()).unwrap();
        let parts = pids
            .iter()
            .map(|&pid| one(pid).unwrap().read().0)
            .sum::<u64>();
        assert!(all.read().0 >= parts, "{kind}: sums up");
        drop(target);
        let options = MetricOptions::default();
        let (mut target, mut metric) = metric::start(&own.spec(), None, &options, None).unwrap();
        metric.begin(&mut target).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(metric.end(&mut target).unwrap() > 0.0, "{kind}");
        message(metric::start(&own.spec(), Some("runs"), &options, None), 2);
        message(
            metric::start(&own.spec(), Some("stdout:(.)"), &options, None),
            2,
        );
    });
}

#[test]
fn a_process_alone_in_its_cgroup_is_frozen_not_stopped() {
    in_each_kind("alone", |kind, own| {
        setup();
        let stranger = Stranger::new();
        own.take(stranger.pid());
        let mut target = Target::start(&TargetSpec::Pid(stranger.pid()), None, None).unwrap();
        target.stop().unwrap();
        let freezes = kind != "v1 without a freezer";
        assert_eq!(uses_freezer(&own.directory), freezes, "{kind}");
        assert_eq!(stranger.stopped(), !freezes, "{kind}");
        target.cont().unwrap();
        // With company that is not the target's, only signals are left.
        let other = Stranger::new();
        own.take(other.pid());
        target.stop().unwrap();
        assert!(!uses_freezer(&own.directory), "{kind}");
        assert!(stranger.stopped() && !other.stopped(), "{kind}");
        drop(target);
        assert!(!stranger.stopped());
    });
}

#[test]
#[ignore = "run by a test as another user"]
fn helper_may_not_stop() {
    let Ok(argument) = std::env::var("JOSTLE_TEST_ARGUMENT") else {
        return;
    };
    setup();
    let spec = TargetSpec::Cgroup(CgroupSpec {
        directory: argument.into(),
        name: "own".into(),
        asked: "--cgroup own".into(),
    });
    let mut target = Target::start(&spec, None, None).unwrap();
    let reason = target.unstoppable().expect("not ours");
    for part in ["no freezer", "no signals", "belongs to somebody else"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    assert_eq!(target.state(), State::Running);
    message(target.stop(), 3);
    assert_eq!(target.state(), State::Running);
}

#[test]
fn a_cgroup_of_another_user_is_read_but_not_stopped() {
    use std::os::unix::process::CommandExt;
    if !is_root() {
        return;
    }
    in_each_kind("foreign", |kind, mut own| {
        let spinner = own.run(SPIN);
        let helper = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "cgroups::helper_may_not_stop", "--ignored"])
            .env("JOSTLE_TEST_ARGUMENT", &own.directory)
            .current_dir("/")
            .uid(65534)
            .output();
        if let Some(output) = have("root", helper) {
            assert!(output.status.success(), "{kind}: {output:?}");
        }
        runs(spinner);
    });
}
