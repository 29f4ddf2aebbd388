//! What keeps a target safe from our own sudden death.
//!
//! SIGKILL gives the profiler no chance to clean up. So a second process, the
//! guard, holds the read end of a pipe whose write end only the profiler has:
//! when it reads the end of file, the profiler is gone, and the guard does what
//! the shared page says: end the target's group, or resume what was stopped.
//! After a clean exit the page says there is nothing to do.
//!
//! A profiler that is stopped (Ctrl-Z, a debugger) or hangs says nothing for
//! [`process::SILENCE`]: then the guard releases an attached target. The page
//! lies in a file, so that `jostle release` can do all that when the guard was
//! killed together with the profiler.
//!
//! Beyond its reach: a descendant that left the group *and* wiped its
//! environment before the profiler was killed.

mod process;
mod pulse;
mod record;
mod refuge;
mod release;
mod undo;

pub use process::watch;
pub use pulse::release_all;
pub use release::Outcome;
pub use release::Released;
pub use release::release;

use super::cgroup::Freezer;
use super::cgroup::FreezerKind;
use super::poll;
use super::tree;
use crate::error::Error;
use crate::error::Result;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::guard_page::GuardPage;
use jostle_host::sys::pidfd::PidFd;
use jostle_host::sys::process::executable as our_executable;
use jostle_host::sys::process::has_ended;
use jostle_host::sys::shared::SharedPage;
use nix::fcntl::FcntlArg;
use nix::fcntl::FdFlag;
use nix::fcntl::fcntl;
use nix::sys::signal::SigSet;
use nix::sys::signal::SigmaskHow;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Child;
use std::process::ChildStdin;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// In the environment of a guard of hooks: the command, and how long it may
/// take, in milliseconds.
pub(super) const TEAR_DOWN: &str = "JOSTLE_TEARDOWN";
pub(super) const TEAR_DOWN_LIMIT: &str = "JOSTLE_TEARDOWN_LIMIT_MS";

/// Longest wait for a guard to watch.
const READY: Duration = Duration::from_secs(5);
/// Longest wait for the end of a release; who is killed in the middle never ends it.
const LETS_GO: Duration = Duration::from_secs(1);

/// The binary that guards and demos run: ours, unless told otherwise.
///
/// # Errors
/// An environment error when the kernel does not tell.
pub fn executable() -> Result<PathBuf> {
    our_executable()
        .map_err(|error| Error::environment(format!("cannot find jostle itself: {error}")))
}

/// The profiler's side.
pub(super) struct Guard {
    line: Arc<Line>,
    process: Child,
    /// Leaves the duty in force when dropped.
    abandoned: bool,
}

/// What connects the profiler with one guard.
struct Line {
    page: SharedPage<GuardPage>,
    /// The page's file; `None` where it lies in memory only.
    file: Option<PathBuf>,
    /// Its end is the profiler's end.
    pipe: Mutex<Option<ChildStdin>>,
}

impl Line {
    fn new(marker: &str) -> std::io::Result<Line> {
        let us = record::identity(std::process::id() as i32);
        let fill = |page: &GuardPage| {
            set(&page.profiler, us);
            page.marker.set(marker.as_bytes());
            page.boot.set(record::boot().as_bytes());
            page.magic.store(GuardPage::MAGIC, SeqCst);
        };
        let (page, file) = match record::create(fill) {
            Ok((page, file)) => (page, Some(file)),
            // A read-only system: the guard alone has to do.
            Err(_) => {
                let page = SharedPage::create("jostle-guard")?;
                fill(&page);
                (page, None)
            }
        };
        Ok(Line {
            page,
            file,
            pipe: Mutex::new(None),
        })
    }

    fn holds(&self) -> bool {
        self.page.duty.load(SeqCst) == GuardPage::CONTINUE
    }

    /// Asks the guard to release the target; how often it had done so before.
    fn ask(&self) -> u64 {
        let before = self.page.let_go.load(SeqCst);
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipe) = pipe.as_mut() {
            let _ = pipe.write_all(b"!");
        }
        before
    }
}

/// Starts a process that takes no signal but SIGKILL, from its first instruction on:
/// a child inherits the mask.
fn spawn_deaf(command: &mut Command) -> std::io::Result<Child> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let spawned = command.spawn();
    before.thread_set_mask()?;
    spawned
}

fn set(words: &[std::sync::atomic::AtomicU64; 2], (pid, start): (u64, u64)) {
    words[1].store(start, SeqCst);
    words[0].store(pid, SeqCst);
}

impl Guard {
    /// A guard of a target whose processes carry `marker`, if they carry one.
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
        Self::spawn("", guard)
    }

    fn spawn(marker: &str, mut command: Command) -> Result<Guard> {
        let failed =
            |error: std::io::Error| Error::environment(format!("cannot start the guard: {error}"));
        let line = Line::new(marker).map_err(failed)?;
        command
            .arg("guard")
            .arg("--page")
            .arg(line.page.as_fd().as_raw_fd().to_string())
            .env_remove(tree::MARKER)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let spawned = spawn_deaf(&mut command);
        // The guard has it; the target must not.
        let _ = fcntl(&line.page, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
        let line = Arc::new(line);
        let mut process = match spawned {
            Ok(process) => process,
            Err(error) => {
                line.forget();
                return Err(failed(error));
            }
        };
        *line.pipe.lock().unwrap_or_else(PoisonError::into_inner) = process.stdin.take();
        let guard = Guard {
            line,
            process,
            abandoned: false,
        };
        pulse::renew(&guard.line).map_err(failed)?;
        Ok(guard)
    }

    pub(super) fn killed(&self) -> bool {
        has_ended(self.pid())
    }

    fn page(&self) -> &GuardPage {
        &self.line.page
    }

    /// Waits until it watches; starts another, which has no duty yet, where it was
    /// killed.
    ///
    /// # Errors
    /// Why nobody would resume the target if we died.
    pub(super) fn watches(&mut self) -> std::result::Result<(), String> {
        if self.killed() {
            let marker = String::from_utf8_lossy(&self.page().marker.get()).into_owned();
            *self = Self::start(&marker).map_err(|error| error.to_string())?;
        }
        let ready = || self.page().ready.load(SeqCst) == 1;
        match ready() || poll(READY, ready) {
            true => Ok(()),
            false => Err(format!("it does not start within {} s", READY.as_secs())),
        }
    }

    /// How often somebody released the target because we were silent or asked for it.
    /// Waits for the end of a release under way: it may be the reason for what the
    /// caller saw.
    pub(super) fn releases(&self) -> u64 {
        poll(LETS_GO, || self.page().releases().is_some());
        self.page().let_go.load(SeqCst)
    }

    /// From now on our death means the death of these groups, and of whatever
    /// carries the marker.
    pub(super) fn end_groups(&self, groups: &[i32]) {
        self.page().count.store(0, SeqCst);
        for (index, &group) in groups.iter().enumerate() {
            // By which it is told from a later one of the same number.
            let start = tree::stat(group).map_or(0, |stat| stat.start);
            self.store(index, group as u64, start);
        }
        self.page().duty.store(GuardPage::END_GROUPS, SeqCst);
    }

    /// From now on our death resumes what is registered afterwards.
    pub(super) fn hold(&self) {
        let page = self.page();
        page.count.store(0, SeqCst);
        page.freezer.store(0, SeqCst);
        page.renewed.store(monotonic_ns(), SeqCst);
        page.duty.store(GuardPage::CONTINUE, SeqCst);
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
        if !self.page().directory.set(path) {
            return false;
        }
        let kind = match freezer.kind {
            FreezerKind::V1 => 1,
            FreezerKind::V2 => 2,
        };
        self.page().freezer.store(kind, SeqCst);
        true
    }

    /// From now on our death tears down what the hooks set up. `group` is the
    /// process group of the hook that runs, `awaited` the target; 0 for none.
    pub(super) fn tear_down(&self, group: i32, awaited: i32) {
        self.page().group.store(group.max(0) as u64, SeqCst);
        self.page().awaited.store(awaited.max(0) as u64, SeqCst);
        self.page().duty.store(GuardPage::TEAR_DOWN, SeqCst);
    }

    /// From now on there is nothing to do.
    pub(super) fn relax(&self) {
        self.page().duty.store(GuardPage::NOTHING, SeqCst);
    }

    /// Its duty stays in force: it does it when this value is dropped.
    pub(super) fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Fills an entry before it counts.
    fn store(&self, index: usize, first: u64, second: u64) -> bool {
        let Some(slot) = self.page().processes.get(index) else {
            return false;
        };
        slot[0].store(first, SeqCst);
        slot[1].store(second, SeqCst);
        self.page().count.store(index as u64 + 1, SeqCst);
        true
    }
}

impl Line {
    fn forget(&self) {
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.abandoned {
            self.relax();
        }
        let mut pipe = self
            .line
            .pipe
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        drop(pipe.take());
        drop(pipe);
        let ended =
            PidFd::open(self.pid()).is_ok_and(|process| process.wait(Duration::from_secs(2)));
        if !ended {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
        if self.page().duty.load(SeqCst) == GuardPage::NOTHING {
            self.line.forget();
        }
    }
}
