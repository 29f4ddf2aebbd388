//! What keeps a target safe from our own sudden death.
//!
//! SIGKILL gives the profiler no chance to clean up. So a second process, the
//! guard, holds the read end of a pipe whose write end only the profiler has:
//! when it reads the end of file, the profiler is gone, and the guard does what
//! the shared page says: end the target's group, or let go on what was stopped.
//! After a clean exit the page says there is nothing to do.
//!
//! Beyond its reach: a descendant that left the group *and* wiped its
//! environment before the profiler was killed, and a profiler that is itself
//! only stopped (Ctrl-Z).

use super::cgroup::Freezer;
use super::cgroup::FreezerKind;
use super::tree;
use crate::error::Error;
use crate::error::Result;
use crate::sys::pages::GuardPage;
use crate::sys::pidfd::PidFd;
use crate::sys::process;
use crate::sys::shared::SharedPage;
use nix::fcntl::FcntlArg;
use nix::fcntl::FdFlag;
use nix::fcntl::fcntl;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// In the environment of a guard of hooks: the command, and how long it may
/// take, in milliseconds.
pub(super) const TEAR_DOWN: &str = "JOSTLE_TEARDOWN";
pub(super) const TEAR_DOWN_LIMIT: &str = "JOSTLE_TEARDOWN_LIMIT_MS";

/// The binary that guards and demos run: ours, unless told otherwise.
///
/// # Errors
/// An environment error when the kernel does not tell.
pub fn executable() -> Result<PathBuf> {
    process::executable()
        .map_err(|error| Error::environment(format!("cannot find jostle itself: {error}")))
}

/// The profiler's side.
pub(super) struct Guard {
    page: SharedPage<GuardPage>,
    process: Child,
    /// Leaves the duty in force when dropped.
    abandoned: bool,
}

impl Guard {
    pub(super) fn start(marker: &str) -> Result<Guard> {
        Self::spawn(marker, Command::new(executable()?))
    }

    /// Its process, which does nothing until it has to.
    pub(super) fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    /// A guard for hooks, which runs `command` when it is needed.
    pub(super) fn of_hooks(command: Option<&str>, limit: Duration) -> Result<Guard> {
        let mut guard = Command::new(executable()?);
        guard.envs(command.map(|script| (TEAR_DOWN, script)));
        guard.env(TEAR_DOWN_LIMIT, limit.as_millis().to_string());
        Self::spawn("none", guard)
    }

    fn spawn(marker: &str, mut command: Command) -> Result<Guard> {
        let failed =
            |error: std::io::Error| Error::environment(format!("cannot start the guard: {error}"));
        let page: SharedPage<GuardPage> = SharedPage::create(GuardPage::NAME).map_err(failed)?;
        let process = command
            .arg("guard")
            .arg("--page")
            .arg(page.as_fd().as_raw_fd().to_string())
            .arg("--marker")
            .arg(marker)
            .env_remove(tree::MARKER)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        // The guard has it; the target must not.
        let _ = fcntl(&page, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
        Ok(Guard {
            page,
            process,
            abandoned: false,
        })
    }

    /// From now on our death means the death of these groups, and of whatever
    /// carries the marker.
    pub(super) fn end_groups(&self, groups: &[i32]) {
        self.page.count.store(0, SeqCst);
        for (index, &group) in groups.iter().enumerate() {
            self.store(index, group as u64, 0);
        }
        self.page.duty.store(GuardPage::END_GROUPS, SeqCst);
    }

    /// From now on our death lets what is told afterwards go on.
    pub(super) fn hold(&self) {
        self.page.count.store(0, SeqCst);
        self.page.freezer.store(0, SeqCst);
        self.page.duty.store(GuardPage::CONTINUE, SeqCst);
    }

    /// Tells that process `pid` is about to be stopped as number `index`; false
    /// when there is no room for it.
    pub(super) fn will_stop(&self, index: usize, (pid, start): (i32, u64)) -> bool {
        self.store(index, pid as u64, start)
    }

    /// Tells that a cgroup is about to be frozen; false when its path is too
    /// long.
    pub(super) fn will_freeze(&self, freezer: &Freezer) -> bool {
        let path = freezer.directory.as_os_str().as_bytes();
        if path.len() > GuardPage::LONGEST_PATH {
            return false;
        }
        for (slot, &byte) in self.page.directory.iter().zip(path) {
            slot.store(byte, SeqCst);
        }
        self.page.length.store(path.len() as u64, SeqCst);
        let kind = match freezer.kind {
            FreezerKind::V1 => 1,
            FreezerKind::V2 => 2,
        };
        self.page.freezer.store(kind, SeqCst);
        true
    }

    /// From now on our death tears down what the hooks set up. `group` is the
    /// process group of the hook that runs, `awaited` the target; 0 for none.
    pub(super) fn tear_down(&self, group: i32, awaited: i32) {
        self.page.group.store(group.max(0) as u64, SeqCst);
        self.page.awaited.store(awaited.max(0) as u64, SeqCst);
        self.page.duty.store(GuardPage::TEAR_DOWN, SeqCst);
    }

    /// From now on there is nothing to do.
    pub(super) fn relax(&self) {
        self.page.duty.store(GuardPage::NOTHING, SeqCst);
    }

    /// Its duty stays in force: it does it when this value is dropped.
    pub(super) fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Fills an entry before it counts.
    fn store(&self, index: usize, first: u64, second: u64) -> bool {
        let Some(slot) = self.page.processes.get(index) else {
            return false;
        };
        slot[0].store(first, SeqCst);
        slot[1].store(second, SeqCst);
        self.page.count.store(index as u64 + 1, SeqCst);
        true
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.abandoned {
            self.relax();
        }
        drop(self.process.stdin.take());
        let ended = PidFd::open(self.process.id() as i32)
            .is_ok_and(|process| process.wait(Duration::from_secs(2)));
        if !ended {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}
