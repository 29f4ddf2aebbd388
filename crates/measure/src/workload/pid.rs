//! A target that was already running, and is left as it was found.

use super::Exit;
use super::State;
use super::cgroup::Freezer;
use super::cgroup::Hierarchies;
use super::guard::Guard;
use super::hold::Hold;
use super::hold_error::HoldError;
use super::tree;
use crate::error::Error;
use crate::error::Result;
use jostle_host::sys::guard_page::GuardPage;
use jostle_host::sys::pidfd::PidFd;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

pub(super) struct Attached {
    pub(super) pid: i32,
    pidfd: PidFd,
    family: Family,
    pub(super) hold: Hold,
}

/// A process and all that descends from it.
struct Family {
    pid: i32,
    /// Every process of it that was ever seen, by start time: one that loses
    /// its parent stays known.
    known: HashMap<i32, u64>,
    /// Those of them that have lost their parent, as of the last look.
    lost: Vec<i32>,
}

impl Attached {
    /// Whether `pid` can be a target.
    pub(super) fn check(pid: i32) -> Result<()> {
        Self::open(pid).map(|_| ())
    }

    /// A handle to a process that can be a target.
    fn open(pid: i32) -> Result<PidFd> {
        let refused = |reason: &str| Error::request(format!("--pid {pid}: {reason}"));
        let none = || no_process(pid);
        if pid <= 0 {
            return Err(refused(
                "not a process id; give a positive number, as `pgrep NAME` prints",
            ));
        }
        // Opened first: what is read afterwards is about this process, as long
        // as the handle says at the end that it still lives.
        let pidfd = PidFd::open(pid).map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => none(),
            Some(libc::EINVAL | libc::ENOENT) => {
                refused("this is a thread, not a process; give its process's id")
            }
            _ => Error::environment(format!("--pid {pid}: cannot open the process: {error}")),
        })?;
        let stat = tree::stat(pid).ok_or_else(none)?;
        if stat.ended() {
            return Err(none());
        }
        if pid == 1 || pid == 2 || stat.is_kernel_thread() {
            let what = if pid == 1 { "init" } else { "a kernel thread" };
            return Err(refused(&format!(
                "this is {what}, which must not be stopped; give an ordinary process"
            )));
        }
        if tree::self_and_ancestors().contains(&pid) {
            return Err(refused(
                "this is jostle itself or a process it was started from; stopping it would stop \
                 jostle",
            ));
        }
        let owner = std::fs::metadata(format!("/proc/{pid}")).map_err(|_| none())?;
        let (owner, us) = (owner.uid(), nix::unistd::geteuid());
        let allowed = us.is_root() || owner == us.as_raw();
        match pidfd.signal(None) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Err(none()),
            Ok(()) if allowed => {}
            _ => {
                return Err(refused(&format!(
                    "it belongs to user {owner}, not to us (user {us}); run jostle as that user or \
                     as root"
                )));
            }
        }
        Ok(pidfd)
    }

    pub(super) fn attach(pid: i32, cpus: Option<&[usize]>) -> Result<Attached> {
        let pidfd = Self::open(pid)?;
        if let Some(wanted) = cpus {
            let has = own_cpus(pid);
            if has.is_empty() {
                return Err(no_process(pid));
            }
            if has.iter().any(|cpu| !wanted.contains(cpu)) {
                let wanted = jostle_profile::cpulist::format_list(wanted);
                return Err(Error::request(format!(
                    "--pid {pid}: it may run on CPUs {}, outside of {wanted}; jostle does not change a process it did not start, so pin it first: taskset -acp {wanted} {pid}",
                    jostle_profile::cpulist::format_list(&has)
                )));
            }
        }
        let mut attached = Attached {
            pid,
            pidfd,
            family: Family {
                pid,
                known: HashMap::new(),
                lost: Vec::new(),
            },
            hold: Hold::new(Guard::start("")?),
        };
        let members = attached.family.members();
        let freezer = own_freezer(pid, &members);
        if let Some(by) = freezer.as_ref().and_then(Freezer::frozen_by) {
            return Err(Error::request(format!(
                "--pid {pid}: it is frozen; {by}, or `jostle release` if a killed jostle did"
            )));
        }
        if freezer.is_none() && members.len() > GuardPage::CAPACITY {
            let too_many = HoldError::TooMany(members.len());
            return Err(Error::environment(format!("--pid {pid}: it {too_many}")));
        }
        Ok(attached)
    }

    pub(super) fn state(&self) -> State {
        if self.pidfd.wait(Duration::ZERO) {
            return State::Exited(Exit::default());
        }
        match tree::stat(self.pid) {
            _ if self.hold.holds() => State::Stopped,
            Some(stat) if stat.stopped() => State::Stopped,
            _ => State::Running,
        }
    }

    pub(super) fn wait(&self, limit: Duration) -> Option<Exit> {
        self.pidfd.wait(limit).then(Exit::default)
    }

    /// The process, and those of it that had lost their parent when it was
    /// stopped last.
    pub(super) fn roots(&self) -> Vec<i32> {
        let mut roots = vec![self.pid];
        roots.extend(&self.family.lost);
        roots
    }

    pub(super) fn stop(&mut self) -> Result<(), HoldError> {
        if self.hold.holds() {
            return Ok(());
        }
        let ended = || HoldError::Exited(Exit::default());
        if self.pidfd.wait(Duration::ZERO) {
            return Err(ended());
        }
        let members = self.family.members();
        match own_freezer(self.pid, &members) {
            Some(freezer) => self.hold.freeze(freezer)?,
            None => self.hold.stop(|| self.family.members())?,
        }
        if self.pidfd.wait(Duration::ZERO) {
            self.hold.release()?;
            return Err(ended());
        }
        Ok(())
    }
}

fn no_process(pid: i32) -> Error {
    Error::request(format!("--pid {pid}: there is no such process"))
}

impl Family {
    /// The process and all that descends from it, or descended from it when it
    /// was looked at before; ascending.
    fn members(&mut self) -> Vec<i32> {
        let mut parents: HashMap<i32, i32> = HashMap::new();
        self.known.retain(|&pid, start| {
            let stat = tree::stat(pid).filter(|stat| stat.start == *start);
            parents.extend(stat.map(|stat| (pid, stat.parent)));
            stat.is_some()
        });
        let without = |pid: &&i32| !self.known.contains_key(&parents[*pid]);
        let lost = self.known.keys().filter(without);
        self.lost = lost.copied().filter(|&pid| pid != self.pid).collect();
        self.lost.sort_unstable();
        let mut roots = self.lost.clone();
        roots.push(self.pid);
        let mut found = tree::descendants_of(&roots);
        found.extend(roots);
        found.sort_unstable();
        found.dedup();
        found.retain(|&pid| tree::stat(pid).is_some_and(|stat| !stat.ended()));
        for &pid in &found {
            if !self.known.contains_key(&pid)
                && let Some(stat) = tree::stat(pid)
            {
                self.known.insert(pid, stat.start);
            }
        }
        found
    }
}

/// CPUs that any thread of `pid` or of what descends from it may run on.
pub(super) fn own_cpus(pid: i32) -> Vec<usize> {
    tree::affinities(tree::with_descendants(&[pid]))
}

/// The freezer of a cgroup that holds `members`, `pid` among them, and nothing
/// else.
fn own_freezer(pid: i32, members: &[i32]) -> Option<Freezer> {
    let hierarchies = Hierarchies::here().ok()?;
    Freezer::around(&hierarchies, pid, members)
}
