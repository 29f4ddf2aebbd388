//! A target that was already running, and is left as it was found.

use super::Exit;
use super::SIGNAL_LIMIT;
use super::State;
use super::guard::Guard;
use super::guard::go_on;
use super::poll;
use super::tree;
use crate::error::Error;
use crate::error::Result;
use crate::sys::cpus;
use crate::sys::pages::GuardPage;
use crate::sys::pidfd::PidFd;
use nix::sys::signal::Signal;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// `PF_KTHREAD` of `/proc/PID/stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;

const ENDED: Exit = Exit {
    code: None,
    signal: None,
};

pub(super) struct Attached {
    pid: i32,
    name: String,
    command: Vec<String>,
    pidfd: PidFd,
    /// Processes that we stopped (pid, start time): those to let go on.
    stopped: Vec<(i32, u64)>,
    guard: Guard,
}

impl Attached {
    /// Whether `pid` can be a target.
    pub(super) fn check(pid: i32) -> Result<()> {
        Self::open(pid).map(|_| ())
    }

    /// A handle to a process that can be a target.
    fn open(pid: i32) -> Result<PidFd> {
        let none = || Error::request(format!("--pid {pid}: there is no such process"));
        if pid <= 0 {
            return Err(Error::request(format!(
                "--pid {pid}: not a process id; give a positive number, as `pgrep NAME` prints"
            )));
        }
        // Opened first: what is read afterwards is about this process, as long
        // as the handle says at the end that it still lives.
        let pidfd = PidFd::open(pid).map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => none(),
            Some(libc::EINVAL) | Some(libc::ENOENT) => Error::request(format!(
                "--pid {pid}: this is a thread, not a process; give its process's id"
            )),
            _ => Error::environment(format!("--pid {pid}: cannot open the process: {error}")),
        })?;
        let stat = tree::stat(pid).ok_or_else(none)?;
        if stat.ended() {
            return Err(none());
        }
        if pid == 1 || pid == 2 || stat.flags & KERNEL_THREAD != 0 {
            let what = if pid == 1 { "init" } else { "a kernel thread" };
            return Err(Error::request(format!(
                "--pid {pid}: this is {what}, which must not be stopped; give an ordinary process"
            )));
        }
        if is_us_or_above(pid) {
            return Err(Error::request(format!(
                "--pid {pid}: this is jostle itself or a process it was started from; stopping it would stop jostle"
            )));
        }
        let owner = std::fs::metadata(format!("/proc/{pid}")).map_err(|_| none())?;
        let (owner, us) = (owner.uid(), nix::unistd::geteuid());
        let allowed = us.is_root() || owner == us.as_raw();
        match pidfd.signal(None) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Err(none()),
            Ok(()) if allowed => {}
            _ => {
                return Err(Error::request(format!(
                    "--pid {pid}: it belongs to user {owner}, not to us (user {us}); run jostle as that user or as root"
                )));
            }
        }
        Ok(pidfd)
    }

    pub(super) fn attach(pid: i32, cpus: Option<&[usize]>) -> Result<Attached> {
        let none = || Error::request(format!("--pid {pid}: there is no such process"));
        let pidfd = Self::open(pid)?;
        if let Some(wanted) = cpus {
            let has = cpus::affinity(pid).map_err(|_| none())?;
            if has.iter().any(|cpu| !wanted.contains(cpu)) {
                let wanted = cpus::format_list(wanted);
                return Err(Error::request(format!(
                    "--pid {pid}: it may run on CPUs {}, outside of {wanted}; jostle does not change a process it did not start, so pin it first: taskset -acp {wanted} {pid}",
                    cpus::format_list(&has)
                )));
            }
        }
        let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = line
            .split(|&byte| byte == 0)
            .filter(|word| !word.is_empty())
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        Ok(Attached {
            pid,
            name: super::output::printable(&name).trim().to_string(),
            command,
            pidfd,
            stopped: Vec::new(),
            guard: Guard::start("none")?,
        })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn command(&self) -> Vec<String> {
        self.command.clone()
    }

    pub(super) fn state(&self) -> State {
        if self.pidfd.wait(Duration::ZERO) {
            return State::Exited(ENDED);
        }
        match tree::stat(self.pid) {
            Some(stat) if stat.stopped() => State::Stopped,
            _ => State::Running,
        }
    }

    pub(super) fn wait(&self, limit: Duration) -> Option<Exit> {
        self.pidfd.wait(limit).then_some(ENDED)
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        if !self.stopped.is_empty() {
            return Ok(());
        }
        let ended = || Error::environment(format!("the target {} ended", self.name));
        let stat = tree::stat(self.pid).ok_or_else(ended)?;
        let mut group = vec![self.pid];
        if stat.group == self.pid {
            let children = tree::descendants(self.pid);
            group.extend(
                children
                    .into_iter()
                    .filter(|&child| tree::stat(child).is_some_and(|stat| stat.group == self.pid)),
            );
        }
        let mut stopping = Vec::new();
        for &pid in &group {
            match tree::stat(pid) {
                // Stopped by somebody else: not ours to let go on.
                Some(stat) if stat.stopped() || stat.ended() => {}
                Some(stat) => stopping.push((pid, stat.start)),
                None => {}
            }
        }
        if stopping.len() > GuardPage::CAPACITY {
            return Err(Error::environment(format!(
                "the target {} has {} processes; at most {} can be stopped safely",
                self.name,
                stopping.len(),
                GuardPage::CAPACITY
            )));
        }
        // Told before the deed: from here on somebody undoes it in any case.
        self.guard.let_go_on(&stopping);
        self.stopped = stopping;
        for &(pid, start) in &self.stopped {
            if pid == self.pid {
                let _ = self.pidfd.signal(Some(Signal::SIGSTOP));
            } else if let Ok(process) = PidFd::open(pid)
                && tree::stat(pid).is_some_and(|stat| stat.start == start)
            {
                let _ = process.signal(Some(Signal::SIGSTOP));
            }
        }
        let stands = |&(pid, _): &(i32, u64)| {
            tree::stat(pid).is_none_or(|stat| stat.stopped() || stat.ended())
        };
        if !poll(SIGNAL_LIMIT, || self.stopped.iter().all(stands)) {
            self.cont()?;
            return Err(Error::environment(format!(
                "the target {} does not stop on SIGSTOP (blocked in the kernel?)",
                self.name
            )));
        }
        if self.pidfd.wait(Duration::ZERO) {
            self.cont()?;
            return Err(Error::environment(format!(
                "the target {} ended",
                self.name
            )));
        }
        Ok(())
    }

    pub(super) fn cont(&mut self) -> Result<()> {
        for (pid, start) in self.stopped.drain(..) {
            go_on(pid, start);
        }
        self.guard.relax();
        Ok(())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.cont();
    }
}

fn is_us_or_above(pid: i32) -> bool {
    let mut process = std::process::id() as i32;
    while process > 0 {
        if process == pid {
            return true;
        }
        process = tree::stat(process).map_or(0, |stat| stat.parent);
    }
    false
}
