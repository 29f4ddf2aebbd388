//! What the end-to-end tests share. Each uses a part of it.
#![allow(dead_code)]

pub mod program;
pub mod skip;

use jostle_measure::metric::MetricOptions;
use jostle_measure::workload::CommandSpec;
use jostle_measure::workload::TargetSpec;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use std::time::Instant;

pub const JOSTLE: &str = env!("CARGO_BIN_EXE_jostle");

/// Long enough for the slowest machine; nothing is expected to take it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// While it is held no other test measures or loads the machine: a lock between
/// processes too, for runners that start one per test.
pub fn alone() -> Flock<File> {
    locked(FlockArg::LockExclusive)
}

/// While it is held no test is [`alone`]; others that judge no speed may run beside it.
pub fn beside_others() -> Flock<File> {
    locked(FlockArg::LockShared)
}

fn locked(how: FlockArg) -> Flock<File> {
    let lock = |name: &str, how: FlockArg| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let file = File::create(path).expect("the folder for tests takes a file");
        Flock::lock(file, how).expect("the lock can be had")
    };
    // Who waits to be alone lets no other in.
    let _turn = lock("next-at-a-time.lock", FlockArg::LockExclusive);
    lock("one-at-a-time.lock", how)
}

#[track_caller]
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    within(PATIENCE, what, holds);
}

#[track_caller]
pub fn within(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Other work on the machine may spoil a measurement: one of three must hold.
#[track_caller]
pub fn once_of_three(what: &str, mut measure: impl FnMut() -> Result<(), String>) {
    let mut reasons = Vec::new();
    for _ in 0..3 {
        match measure() {
            Ok(()) => return,
            Err(reason) => reasons.push(reason),
        }
    }
    panic!("{what}: {}", reasons.join("; "));
}

pub fn near(value: f64, low: f64, high: f64) -> Result<(), String> {
    match (low..=high).contains(&value) {
        true => Ok(()),
        false => Err(format!("{value} is not within {low} to {high}")),
    }
}

/// The message of an error that earns `code`.
#[track_caller]
pub fn message<T>(result: jostle_measure::error::Result<T>, code: u8) -> String {
    match result {
        Ok(_) => panic!("this should have failed"),
        Err(error) => {
            assert_eq!(error.exit_code(), code, "{error}");
            error.to_string()
        }
    }
}

pub fn sh(script: &str) -> TargetSpec {
    TargetSpec::Command(CommandSpec::new(["sh", "-c", script]))
}

pub fn python(script: &str) -> TargetSpec {
    TargetSpec::Command(CommandSpec::new(["python3", "-u", "-c", script]))
}

/// An entry of an environment by which the processes of one test are found.
pub fn marker(test: &str) -> String {
    format!("JOSTLE_TEST_MARK={test}-{}", std::process::id())
}

/// Gives up early: for targets that never do what the metric waits for.
pub fn impatient() -> MetricOptions {
    MetricOptions {
        print_timeout: Duration::from_millis(700),
        trial: Duration::from_millis(700),
        ..Default::default()
    }
}

/// Compiles C; `None`, said, when there is no compiler.
pub fn compiled(directory: &Path, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let (file, out) = (directory.join(format!("{name}.c")), directory.join(name));
    std::fs::write(&file, source).expect("the directory is ours");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-pthread"])
        .args(flags)
        .arg("-o")
        .arg(&out)
        .arg(&file);
    let status = skip::have("gcc", gcc.status())?;
    assert!(status.success(), "{source} does not compile");
    Some(out)
}

/// Whether there is Python; said where not.
pub fn has_python() -> bool {
    let found = Command::new("python3").arg("-V").output();
    skip::have("python3", found).is_some()
}

/// Whether this is root, who can be anybody; said where not.
pub fn is_root() -> bool {
    let other = (!nix::unistd::geteuid().is_root()).then_some("it becomes another user");
    !skip::lacks("root", other)
}
