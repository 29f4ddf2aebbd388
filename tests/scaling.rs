//! Performance by CPUs and copies: found where it is planted, measured on a real
//! target, and what runs already left as it was found.

mod common;

use crate::common::PATIENCE;
use crate::common::program::Ended;
use crate::common::program::command;
use crate::common::program::jostle;
use crate::common::skip;
use jostle_host::machine::Machine;
use jostle_host::sys::cpus::affinity;
use jostle_host::sys::cpus::set_affinity;
use jostle_measure::pairs::BenchError;
use jostle_measure::pairs::Did;
use jostle_measure::scaling::Bench;
use jostle_measure::scaling::Settings;
use jostle_measure::scaling::measure;
use jostle_measure::workload::tree;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::SpeedupStatus;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::sys::signal::killpg;
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

/// Two processes that write all the time, on as many CPUs as they may use.
const WRITERS: &str = "yes > /dev/null & yes > /dev/null & wait";

/// A bench whose speed at each size is known, with drift and noise.
struct Planted {
    now: f64,
    speeds: Vec<f64>,
    /// Block at which the target ends.
    ends_at: usize,
    played: usize,
}

impl Bench for Planted {
    fn now(&self) -> f64 {
        self.now
    }

    fn play(&mut self, size: usize) -> Result<Did, BenchError> {
        if self.played == self.ends_at {
            return Err(BenchError::Ended {
                member: 0,
                reason: "gone".into(),
            });
        }
        self.played += 1;
        self.now += 0.15;
        let drift = 1.0 + 0.3 * (self.now / 7.0).sin();
        let noise = 1.0 + 0.04 * (self.played as f64 * 12.9898).sin();
        Ok(Did {
            work: 1000.0 * self.speeds[size] * drift * noise,
            seconds: 0.1,
            place: None,
            restarted: false,
        })
    }
}

fn planted(speeds: &[f64], ends_at: usize) -> Planted {
    Planted {
        now: 0.0,
        speeds: speeds.to_vec(),
        ends_at,
        played: 0,
    }
}

fn settings(seconds: u64) -> Settings {
    Settings {
        budget: Duration::from_secs(seconds),
        seed: 1,
        half_width: 0.01,
    }
}

#[test]
fn planted_speedups_are_found_through_drift() {
    let mut bench = planted(&[1.0, 1.9, 2.4], usize::MAX);
    let measured = measure(&mut bench, &[1, 2, 4], &settings(60));
    for (speedup, truth) in measured.speedups.iter().zip([1.0, 1.9, 2.4]) {
        let speedup = speedup.value().expect("every size was measured");
        assert!((speedup.value - truth).abs() < 0.02 * truth, "{speedup:?}");
        assert_eq!(speedup.status, SpeedupStatus::Measured);
        let [low, high] = speedup.ci95;
        assert!(low <= speedup.value && speedup.value <= high);
    }
    assert!(measured.seconds < 60.0, "{} s", measured.seconds);
    assert_eq!(measured.warnings, []);
}

#[test]
fn a_target_that_ends_says_so_at_every_size() {
    let mut bench = planted(&[1.0, 2.0], 3);
    let measured = measure(&mut bench, &[1, 2], &settings(60));
    for speedup in &measured.speedups {
        let reason = speedup.reason().expect("too few blocks");
        assert!(reason.contains("gone"), "{reason}");
    }
    assert_eq!(measured.warnings.len(), 1);
}

/// A profile of this machine in `directory`.
fn profile_here(directory: &Path) -> PathBuf {
    let sample = common::root().join("tests/fixtures/profiles/web.json");
    let mut profile = profile::load(&sample).unwrap();
    profile.machine = Machine::detect().facts();
    profile.unknown.insert("later".into(), 7.into());
    let path = directory.join("web.json");
    profile::save(&profile, &path).unwrap();
    path
}

fn two_cpus() -> bool {
    let count = Machine::detect().allowed_cpus.len();
    let reason = (count < 2).then(|| format!("two CPUs, and there are {count}"));
    !skip::lacks("cpus", reason)
}

fn speedup(profile: &Profile, size: u32) -> Result<f64, String> {
    let curve = profile.scaling.as_ref().unwrap().cpus.as_ref().unwrap();
    let point = curve.points.iter().find(|point| point.size == size);
    match point.unwrap().speedup.value() {
        Some(speedup) => Ok(speedup.ci95[0]),
        None => Err(point.unwrap().speedup.reason().unwrap().into()),
    }
}

#[test]
fn two_writers_are_faster_on_two_cpus_and_the_rest_of_the_profile_is_kept() {
    if !two_cpus() {
        return;
    }
    let _alone = common::alone();
    let directory = tempfile::tempdir().unwrap();
    let path = profile_here(directory.path());
    let before = profile::load(&path).unwrap();
    let args = [
        "profile",
        "--scale",
        "cpus=2,4096",
        "--scale-into",
        path.to_str().unwrap(),
        "--scale-budget",
        "6s",
        "--metric",
        "progress:io:write",
        "--",
        "sh",
        "-c",
        WRITERS,
    ];
    let ended = jostle(&args);
    ended.says(0, &["wrote"]);
    let profile = profile::load(&path).unwrap();
    // Twice on an idle machine; others may use the second CPU as much as the first.
    let low = speedup(&profile, 2).unwrap();
    if low < 1.2 {
        let had = cpus_had();
        assert!(had < 1.7, "{had:.2} CPUs were free: {}", ended.stdout);
        skip::skip("cpus", format!("two free CPUs, and {had:.2} were left"));
    }
    let reason = speedup(&profile, 4096).unwrap_err();
    assert!(reason.contains("CPU"), "{reason}");
    assert!(
        ended
            .stdout
            .contains("by CPUs (progress:io:write): 1: 1; 2: ")
    );
    assert_eq!(profile.resources, before.resources);
    assert_eq!(profile.unknown, before.unknown);
    let shown = jostle(&["show", path.to_str().unwrap()]).stdout;
    assert!(
        shown.contains("by CPUs (progress:io:write): 1: 1; 2: "),
        "{shown}"
    );
}

/// CPUs that two writers get now, of two.
fn cpus_had() -> f64 {
    let mut sh = Command::new("sh");
    sh.args(["-c", WRITERS]).process_group(0);
    let target = Running(sh.spawn().unwrap());
    let pid = target.0.id() as i32;
    let writers = wait_for(|| Some(tree::descendants(pid)).filter(|found| found.len() == 2));
    let used = || -> u64 {
        let stats = writers.iter().map(|pid| tree::stat(*pid).unwrap());
        stats.map(|stat| stat.used).sum()
    };
    let (before, began) = (used(), Instant::now());
    std::thread::sleep(Duration::from_secs(2));
    // A hundred ticks to a second, as on all Linux systems in use.
    (used() - before) as f64 / 100.0 / began.elapsed().as_secs_f64()
}

/// A process group that ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.0.id() as i32), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

fn wait_for<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_runs_already_has_its_cpus_again_after_ctrl_c_and_sigterm() {
    if !two_cpus() {
        return;
    }
    let _alone = common::alone();
    let allowed = Machine::detect().allowed_cpus;
    let mut sh = Command::new("sh");
    sh.args(["-c", WRITERS])
        .stdin(Stdio::null())
        .process_group(0);
    let target = Running(sh.spawn().unwrap());
    let pid = target.0.id() as i32;
    let writers = wait_for(|| Some(tree::descendants(pid)).filter(|found| found.len() == 2));
    // One that somebody had pinned.
    set_affinity(writers[0], &allowed[1..2]).unwrap();
    let cpus = || [pid, writers[0], writers[1]].map(|pid| affinity(pid).unwrap());
    let before = cpus();
    let directory = tempfile::tempdir().unwrap();
    let path = profile_here(directory.path());
    let kept = std::fs::read(&path).unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut jostle = command(&[
            "profile",
            "--scale",
            "cpus=2",
            "--scale-into",
            path.to_str().unwrap(),
            "--scale-budget",
            "10m",
            "--metric",
            "progress:io:write",
            "--pid",
            &pid.to_string(),
        ]);
        let mut running = jostle
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for(|| (affinity(writers[1]).unwrap().len() == 1).then_some(()));
        std::thread::sleep(Duration::from_millis(300));
        kill(Pid::from_raw(running.id() as i32), signal).unwrap();
        let code = wait_for(|| running.try_wait().unwrap()).code();
        assert_eq!(code, Some(130));
        assert_eq!(cpus(), before, "after {signal}");
        for pid in writers.iter().chain([&pid]) {
            assert!(!tree::stat(*pid).unwrap().stopped());
        }
        assert_eq!(
            std::fs::read(&path).unwrap(),
            kept,
            "the profile is as it was"
        );
    }
}

#[test]
fn slips_are_refused_with_the_fix() {
    let pid = std::process::id().to_string();
    let directory = tempfile::tempdir().unwrap();
    let mut other = profile::load(&profile_here(directory.path())).unwrap();
    other.machine.fingerprint = "another".into();
    let path = directory.path().join("other.json");
    profile::save(&other, &path).unwrap();
    let path = path.to_str().unwrap();
    let cases: [(&[&str], &str); 5] = [
        (
            &["--scale", "instances=2", "--pid", &pid],
            "--scale instances: only a command can run several times",
        ),
        (
            &["--scale", "cpus=2", "--instances", "2", "--", "true"],
            "leave --instances out",
        ),
        (
            &["--scale", "cpus=2", "--scale-into", path, "--demo", "fp"],
            "is of machine another",
        ),
        (&["--scale", "cpus=5000", "--demo", "fp"], "1 to 4096"),
        (&["--scale-budget", "3s", "--demo", "fp"], "--scale"),
    ];
    for (args, expected) in cases {
        let ended = jostle(&[&["profile"], args].concat());
        ended.says(2, &[expected]);
    }
}

#[test]
fn a_curve_that_was_never_measured_is_not_made_up() {
    // One copy more than there are CPUs.
    let all = Machine::detect().allowed_cpus.len();
    let more = format!("instances={}", all + 1);
    let ended: Ended = jostle(&["profile", "--scale", &more, "--dry-run", "--", "true"]);
    ended.says(0, &[]);
    let line = format!("scale {more}: unavailable: ");
    assert!(ended.stdout.contains(&line), "{}", ended.stdout);
}
