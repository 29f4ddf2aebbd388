//! Starting processes that cannot outlive us, and acting on their groups.

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::prctl::set_timerslack;
use nix::sys::signal::SigSet;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::sys::signal::killpg;
use nix::unistd::Pid;
use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

static EXECUTABLE: OnceLock<PathBuf> = OnceLock::new();

/// Names the `jostle` binary that workers, guards and demos run, for a program
/// that uses this library without being it. Only the first call counts.
pub fn set_executable(path: impl Into<PathBuf>) {
    let _ = EXECUTABLE.set(path.into());
}

/// The binary that workers, guards and demos run: ours, unless told otherwise.
pub fn executable() -> io::Result<PathBuf> {
    EXECUTABLE
        .get()
        .cloned()
        .map_or_else(std::env::current_exe, Ok)
}

/// What a child process is given between fork and exec.
#[derive(Default)]
pub struct ChildSetup<'a> {
    /// CPUs to pin to; `None` inherits ours.
    pub cpus: Option<Vec<usize>>,
    /// `/proc/self/oom_score_adj`.
    pub oom_score_adj: Option<i32>,
    /// Whether what its descendants lose becomes its child, and not ours.
    pub adopts: bool,
    /// Descriptors the child keeps open, under the same numbers.
    pub keep: Vec<BorrowedFd<'a>>,
    /// What it passes before it becomes another program.
    pub gate: Option<&'a Gate>,
}

/// Holds a child process until something was done to it that has to be done before its
/// program begins.
pub struct Gate {
    /// Read and write ends of two pipes: the child writes its number into the first, and
    /// waits for a byte from the second. The child's copies close when its program begins.
    arrived: (OwnedFd, OwnedFd),
    opened: (OwnedFd, OwnedFd),
}

impl Gate {
    /// # Errors
    /// When no pipe can be had.
    pub fn new() -> io::Result<Gate> {
        let pipe = || nix::unistd::pipe2(OFlag::O_CLOEXEC);
        Ok(Gate {
            arrived: pipe()?,
            opened: pipe()?,
        })
    }

    /// Runs `spawn` and meanwhile gives the number of the child that stands at the gate to
    /// `attend`, before it is let through. Without a child `attend` is not called.
    pub fn attended<T>(&self, attend: impl FnOnce(i32) + Send, spawn: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            let attending = std::thread::Builder::new().name("gate".into());
            let attending = attending.spawn_scoped(scope, move || {
                let mut number = [0; 4];
                if nix::unistd::read(&self.arrived.0, &mut number) == Ok(number.len()) {
                    let pid = i32::from_ne_bytes(number);
                    if pid > 0 {
                        attend(pid);
                    }
                }
                // Lets the child through; without one, nobody reads it.
                let _ = nix::unistd::write(&self.opened.1, &[1]);
            });
            if attending.is_err() {
                let _ = nix::unistd::write(&self.opened.1, &[1]);
            }
            let result = spawn();
            // For when there was no child.
            let _ = nix::unistd::write(&self.arrived.1, &0_i32.to_ne_bytes());
            result
        })
    }
}

/// Makes `command` start in its own process group, die (SIGKILL) when the
/// thread that spawns it ends, and carry `setup`.
///
/// Spawn from a thread that lives as long as the child should: the kernel
/// ties the parent-death signal to the spawning *thread*.
pub fn prepare(command: &mut Command, setup: ChildSetup<'_>) {
    command.process_group(0);
    let keep: Vec<RawFd> = setup.keep.iter().map(|fd| fd.as_raw_fd()).collect();
    let mask = setup.cpus.map(|cpus| {
        let mut set = nix::sched::CpuSet::new();
        for cpu in cpus {
            let _ = set.set(cpu);
        }
        set
    });
    let gate = setup.gate.map(|gate| {
        let [arrived, opened] = [&gate.arrived.1, &gate.opened.0];
        (arrived.as_raw_fd(), opened.as_raw_fd())
    });
    let oom = setup.oom_score_adj.map(|score| format!("{score}\n"));
    let adopts = setup.adopts;
    let parent = nix::unistd::getpid();
    let hook = move || {
        // A guard blocks them all, which its child must not inherit.
        SigSet::empty().thread_set_mask()?;
        set_pdeathsig(Signal::SIGKILL)?;
        if nix::unistd::getppid() != parent {
            // The parent died before the flag was set.
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        if adopts {
            set_child_subreaper(true)?;
        }
        if let Some(mask) = &mask {
            nix::sched::sched_setaffinity(Pid::from_raw(0), mask)?;
        }
        if let Some(score) = &oom {
            // SAFETY: the path is a NUL-terminated literal.
            let fd = unsafe { libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY) };
            if fd >= 0 {
                // SAFETY: `fd` is open and the buffer is as long as said. A
                // refusal leaves the inherited score, which is safe.
                unsafe {
                    libc::write(fd, score.as_ptr().cast(), score.len());
                    libc::close(fd);
                }
            }
        }
        for &fd in &keep {
            // SAFETY: clears close-on-exec of a descriptor this process owns.
            Errno::result(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) })?;
        }
        if let Some((arrived, opened)) = gate {
            let number = std::process::id().to_ne_bytes();
            let mut word = [0_u8; 1];
            // SAFETY: both descriptors are open for as long as the gate is, which outlives
            // the spawning; the buffers are as long as said. Whatever fails, the program
            // begins.
            unsafe {
                libc::write(arrived, number.as_ptr().cast(), number.len());
                libc::read(opened, word.as_mut_ptr().cast(), word.len());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec the hook makes only async-signal-safe
    // system calls and allocates nothing.
    unsafe {
        command.pre_exec(hook);
    }
}

/// Sends `signal` to every process of group `pgid`. A group that is gone is
/// not an error.
pub fn signal_group(pgid: i32, signal: Signal) -> io::Result<()> {
    match killpg(Pid::from_raw(pgid), signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Sends `signal` to one process.
pub fn signal_process(pid: i32, signal: Signal) -> io::Result<()> {
    Ok(kill(Pid::from_raw(pid), signal)?)
}

/// Whether `pid`, a child of ours, has ended; it is still to be waited for then.
pub fn has_ended(pid: i32) -> bool {
    use nix::sys::wait::Id;
    use nix::sys::wait::WaitPidFlag;
    use nix::sys::wait::WaitStatus;
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let status = nix::sys::wait::waitid(Id::Pid(Pid::from_raw(pid)), flags);
    !matches!(status, Ok(WaitStatus::StillAlive))
}

/// How late timers of the calling thread may fire.
pub fn set_timer_slack(nanoseconds: u64) {
    let _ = set_timerslack(nanoseconds);
}

/// Takes over descriptor `fd`, which the parent process left open for us.
///
/// # Errors
/// When no such descriptor is open.
pub fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    if fd <= 2 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: F_GETFD only asks whether the number is open.
    Errno::result(unsafe { libc::fcntl(fd, libc::F_GETFD) })?;
    // SAFETY: the number is open, above the standard streams, and was handed
    // to this process by its parent for this single use.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes orphaned descendants ours instead of init's, so that a daemon a
/// target left behind can be found and ended. Holds for the whole process.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(true)?)
}

/// Reaps child `pid` if it has ended. True when it is no longer there.
pub fn reap(pid: i32) -> bool {
    use nix::sys::wait::WaitPidFlag;
    use nix::sys::wait::WaitStatus;
    use nix::sys::wait::waitpid;
    !matches!(
        waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG)),
        Ok(WaitStatus::StillAlive)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_attended_before_its_program_begins() {
        let gate = Gate::new().unwrap();
        let mut command = Command::new("true");
        let setup = ChildSetup {
            gate: Some(&gate),
            ..ChildSetup::default()
        };
        prepare(&mut command, setup);
        let mut seen = None;
        let attend = |pid: i32| {
            let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
            seen = Some((pid, program));
        };
        let mut child = gate.attended(attend, || command.spawn()).unwrap();
        assert!(child.wait().unwrap().success());
        // It was still what it was forked from.
        let own = std::env::current_exe().ok();
        assert_eq!(seen, Some((child.id() as i32, own)));
    }

    #[test]
    fn nobody_waits_at_a_gate_that_no_child_comes_to() {
        let gate = Gate::new().unwrap();
        let mut command = Command::new("/nonexistent/program");
        let setup = ChildSetup {
            gate: Some(&gate),
            ..ChildSetup::default()
        };
        prepare(&mut command, setup);
        let refused = gate.attended(|_| {}, || command.spawn());
        assert!(refused.is_err());
        let nothing = Gate::new().unwrap();
        let mut called = false;
        nothing.attended(|_| called = true, || ());
        assert!(!called);
    }
}
