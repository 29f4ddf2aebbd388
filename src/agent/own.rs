//! The agent itself: that it is alone, and what it costs.

use jostle_host::os::here;
use jostle_host::os::text;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::clock::process_cpu_ns;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile::node::AgentCost;
use jostle_profile::reading::Reading;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use std::fs;
use std::fs::File;
use std::path::Path;

/// Held by the one agent of a state directory.
pub(super) struct Lock {
    _file: Flock<File>,
}

impl Lock {
    /// # Errors
    /// An environment error when another agent holds it, or when the directory cannot
    /// be made.
    pub(super) fn take(directory: &Path) -> Result<Lock> {
        let path = directory.join("agent.lock");
        let failed = |error: &dyn std::fmt::Display| {
            Error::environment(format!(
                "agent.state_directory: {}: {error}",
                path.display()
            ))
        };
        fs::create_dir_all(directory).map_err(|error| failed(&error))?;
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(|error| failed(&error))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Lock { _file: file }),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Err(failed(
                &"another agent uses this directory; stop it, or give another state_directory",
            )),
            Err((_, error)) => Err(failed(&error)),
        }
    }
}

/// CPU time and memory of this process.
pub(super) struct Cost {
    began_ns: u64,
    before: Option<(u64, u64)>,
}

impl Cost {
    pub(super) fn new() -> Cost {
        Cost {
            began_ns: monotonic_ns(),
            before: None,
        }
    }

    /// Marks the begin of a refresh.
    pub(super) fn begin(&self) -> u64 {
        process_cpu_ns()
    }

    /// Before anything was measured.
    pub(super) fn unknown(&self) -> AgentCost {
        let reason = "it is read at the end of a refresh";
        AgentCost {
            uptime_seconds: (monotonic_ns() - self.began_ns) as f64 / 1e9,
            cpu_percent: Reading::unavailable(reason),
            resident_bytes: Reading::unavailable(reason),
            refresh_cpu_seconds: 0.0,
        }
    }

    /// What was used since the refresh before, and by this one since `began`.
    pub(super) fn end(&mut self, began: u64) -> AgentCost {
        let now = (monotonic_ns(), process_cpu_ns());
        let cpu_percent = match self.before.replace(now) {
            Some((at, cpu)) if now.0 > at => {
                Reading::Value(100.0 * (now.1 - cpu) as f64 / (now.0 - at) as f64)
            }
            _ => Reading::unavailable("it was read once so far"),
        };
        let kib = text::parse(here(), "proc/self/status", |text| {
            text::keyed(text, "VmRSS")
        });
        AgentCost {
            uptime_seconds: (now.0 - self.began_ns) as f64 / 1e9,
            cpu_percent,
            resident_bytes: kib
                .map(|kib| (kib * 1024.0) as u64)
                .map_err(|error| error.to_string())
                .into(),
            refresh_cpu_seconds: (now.1 - began) as f64 / 1e9,
        }
    }
}
