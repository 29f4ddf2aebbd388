//! What the tests of targets share.

use crate::common::eventually;
use jostle_measure::workload;
use jostle_measure::workload::Target;
use jostle_measure::workload::TargetSpec;
use jostle_measure::workload::tree;
use std::process::Child;
use std::process::Command;

pub fn setup() {
    workload::set_executable(env!("CARGO_BIN_EXE_jostle"));
}

pub fn start(spec: &TargetSpec) -> Target {
    setup();
    Target::start(spec, None, None).expect("the target starts")
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
