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
use super::hooks;
use super::hooks::DEFAULT_LIMIT;
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
use nix::sys::signal::Signal;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// In the environment of a guard of hooks: the command, and how long it may
/// take, in milliseconds.
const TEAR_DOWN: &str = "JOSTLE_TEARDOWN";
const TEAR_DOWN_LIMIT: &str = "JOSTLE_TEARDOWN_LIMIT_MS";

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

/// What the guard of the hooks does when it is needed.
pub(super) struct TearDown<'a> {
    pub(super) command: Option<&'a str>,
    pub(super) limit: Duration,
}

impl Guard {
    pub(super) fn start(marker: &str) -> Result<Guard> {
        Self::spawn(marker, None)
    }

    /// A guard for hooks.
    pub(super) fn of_hooks(tear_down: &TearDown<'_>) -> Result<Guard> {
        Self::spawn("none", Some(tear_down))
    }

    fn spawn(marker: &str, tear_down: Option<&TearDown<'_>>) -> Result<Guard> {
        let failed =
            |error: std::io::Error| Error::environment(format!("cannot start the guard: {error}"));
        let page: SharedPage<GuardPage> = SharedPage::create(GuardPage::NAME).map_err(failed)?;
        let mut command = Command::new(executable()?);
        if let Some(tear_down) = tear_down {
            if let Some(script) = tear_down.command {
                command.env(TEAR_DOWN, script);
            }
            command.env(TEAR_DOWN_LIMIT, tear_down.limit.as_millis().to_string());
        }
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

/// The guard's side: waits for the profiler's end, then does its duty.
/// `page` is the number of an inherited descriptor, standard input the pipe.
///
/// # Errors
/// A request error when it was not started by the profiler.
pub fn watch(page: i32, marker: &str) -> Result<()> {
    let foreign = || Error::request("guard: started by jostle itself, not by hand");
    if page < 3 || fd_name(page).is_none_or(|name| !name.starts_with("/memfd:jostle-guard")) {
        return Err(foreign());
    }
    let page: SharedPage<GuardPage> =
        SharedPage::from_fd(inherited(page)?).map_err(|_| foreign())?;
    let mut byte = [0];
    let mut pipe = std::io::stdin();
    loop {
        match pipe.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let count = page.count.load(SeqCst) as usize;
    let entries = || {
        let used = page.processes.iter().take(count);
        used.map(|[first, second]| (first.load(SeqCst) as i32, second.load(SeqCst)))
    };
    match page.duty.load(SeqCst) {
        GuardPage::END_GROUPS => end(entries().map(|(group, _)| group), marker),
        GuardPage::CONTINUE => {
            if let Some(freezer) = frozen(&page) {
                let _ = freezer.thaw();
            }
            for (pid, start) in entries() {
                go_on(pid, start);
            }
        }
        GuardPage::TEAR_DOWN => tear_down(
            page.group.load(SeqCst) as i32,
            page.awaited.load(SeqCst) as i32,
        ),
        _ => {}
    }
    Ok(())
}

/// The freezer that holds the target.
fn frozen(page: &GuardPage) -> Option<Freezer> {
    let kind = match page.freezer.load(SeqCst) {
        1 => FreezerKind::V1,
        2 => FreezerKind::V2,
        _ => return None,
    };
    let used = page
        .directory
        .iter()
        .take(page.length.load(SeqCst) as usize);
    let path: Vec<u8> = used.map(|byte| byte.load(SeqCst)).collect();
    Some(Freezer {
        directory: PathBuf::from(std::ffi::OsString::from_vec(path)),
        kind,
    })
}

/// Longest wait for the target's own guard to end it before the tear-down.
const TARGET_ENDS: Duration = Duration::from_secs(10);

fn tear_down(group: i32, awaited: i32) {
    if group > 1 {
        let _ = process::signal_group(group, Signal::SIGKILL);
    }
    if awaited > 0
        && let Ok(target) = PidFd::open(awaited)
    {
        target.wait(TARGET_ENDS);
    }
    let Ok(script) = std::env::var(TEAR_DOWN) else {
        return;
    };
    let limit = std::env::var(TEAR_DOWN_LIMIT).ok();
    let limit = limit
        .and_then(|text| text.parse().ok())
        .map_or(DEFAULT_LIMIT, Duration::from_millis);
    // Nobody is left to be told how it went.
    let _ = hooks::run_alone(&script, (awaited > 0).then_some(awaited), limit);
}

fn fd_name(fd: i32) -> Option<String> {
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// A second, close-on-exec descriptor of inherited `fd`.
fn inherited(fd: i32) -> Result<OwnedFd> {
    std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{fd}"))
        .map(OwnedFd::from)
        .map_err(|error| Error::environment(format!("guard: {error}")))
}

/// SIGCONT to `pid` if it is still the process that started at `start`.
pub(super) fn go_on(pid: i32, start: u64) {
    let Ok(process) = PidFd::open(pid) else {
        return;
    };
    // Compared after opening: the handle cannot change its mind any more.
    if tree::stat(pid).is_some_and(|stat| stat.start == start) {
        let _ = process.signal(Some(Signal::SIGCONT));
    }
}

fn end(groups: impl Iterator<Item = i32>, marker: &str) {
    for group in groups.filter(|&group| group > 1) {
        let _ = process::signal_group(group, Signal::SIGKILL);
    }
    // Again and again: one may fork while we look.
    for _ in 0..100 {
        let left: Vec<i32> = tree::processes()
            .into_iter()
            .filter(|&pid| tree::marker_of(pid).is_some_and(|found| found == marker))
            .collect();
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = process::signal_process(pid, Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
