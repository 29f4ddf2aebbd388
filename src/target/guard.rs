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
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

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
}

impl Guard {
    pub(super) fn start(marker: &str) -> Result<Guard> {
        let failed =
            |error: std::io::Error| Error::environment(format!("cannot start the guard: {error}"));
        let page: SharedPage<GuardPage> = SharedPage::create(GuardPage::NAME).map_err(failed)?;
        let process = Command::new(executable()?)
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
        Ok(Guard { page, process })
    }

    /// From now on our death means the death of group `group`.
    pub(super) fn end_group(&self, group: i32) {
        self.page.group.store(group as u64, SeqCst);
        self.page.duty.store(GuardPage::END_GROUP, SeqCst);
    }

    /// From now on our death lets these processes (pid, start time) go on.
    /// At most [`GuardPage::CAPACITY`].
    pub(super) fn let_go_on(&self, stopped: &[(i32, u64)]) {
        self.page.duty.store(GuardPage::NOTHING, SeqCst);
        for (slot, &(pid, start)) in self.page.stopped.iter().zip(stopped) {
            slot[0].store(pid as u64, SeqCst);
            slot[1].store(start, SeqCst);
        }
        let count = stopped.len().min(GuardPage::CAPACITY);
        self.page.count.store(count as u64, SeqCst);
        self.page.duty.store(GuardPage::CONTINUE, SeqCst);
    }

    /// From now on there is nothing to do.
    pub(super) fn relax(&self) {
        self.page.duty.store(GuardPage::NOTHING, SeqCst);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.relax();
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
    match page.duty.load(SeqCst) {
        GuardPage::END_GROUP => end(page.group.load(SeqCst) as i32, marker),
        GuardPage::CONTINUE => {
            let count = page.count.load(SeqCst) as usize;
            for [pid, start] in page.stopped.iter().take(count) {
                go_on(pid.load(SeqCst) as i32, start.load(SeqCst));
            }
        }
        _ => {}
    }
    Ok(())
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

fn end(group: i32, marker: &str) {
    if group > 1 {
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
