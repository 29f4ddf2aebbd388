//! What the tests of targets share.

use jostle::workload;
use jostle::workload::CommandSpec;
use jostle::workload::Target;
use jostle::workload::TargetSpec;
use jostle::workload::tree;
use std::process::Child;
use std::process::Command;
use std::time::Duration;
use std::time::Instant;

/// Long enough for the slowest machine; nothing is expected to take it.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn setup() {
    workload::set_executable(env!("CARGO_BIN_EXE_jostle"));
}

pub fn sh(script: &str) -> TargetSpec {
    TargetSpec::Command(CommandSpec::new(["sh", "-c", script]))
}

pub fn python(script: &str) -> TargetSpec {
    TargetSpec::Command(CommandSpec::new(["python3", "-u", "-c", script]))
}

pub fn start(spec: &TargetSpec) -> Target {
    setup();
    Target::start(spec, None, None).expect("the target starts")
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Living processes with `marker` in their environment.
pub fn carrying(marker: &str) -> Vec<i32> {
    let ended = |pid: i32| tree::stat(pid).is_none_or(|stat| stat.ended());
    tree::processes()
        .into_iter()
        .filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|&byte| byte == 0)
                .any(|entry| entry == marker.as_bytes())
        })
        .filter(|&pid| !ended(pid))
        .collect()
}

pub fn marker(test: &str) -> String {
    format!("JOSTLE_TEST_MARK={test}-{}", std::process::id())
}

pub fn message<T>(result: jostle::error::Result<T>, code: u8) -> String {
    match result {
        Ok(_) => panic!("this should have failed"),
        Err(error) => {
            assert_eq!(error.exit_code(), code, "{error}");
            error.to_string()
        }
    }
}

/// A process that is not ours to end.
pub struct Stranger(pub Child);

impl Stranger {
    pub fn new() -> Stranger {
        let child = Command::new("sleep").arg("1000").spawn();
        let stranger = Stranger(child.expect("sleep starts"));
        eventually("exec is through", || {
            let line = std::fs::read(format!("/proc/{}/cmdline", stranger.pid()));
            line.is_ok_and(|line| line.starts_with(b"sleep"))
        });
        stranger
    }

    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    pub fn stopped(&self) -> bool {
        tree::stat(self.pid()).is_some_and(|stat| stat.stopped())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
