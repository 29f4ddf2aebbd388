//! A handle on a process that a reused pid cannot redirect.

use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::sys::signal::Signal;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::time::Duration;
use std::time::Instant;

/// An open process. Stays bound to it after it ended.
#[derive(Debug)]
pub struct PidFd {
    fd: OwnedFd,
}

impl PidFd {
    /// # Errors
    /// `ESRCH` when there is no such process, `EINVAL` for a thread or a
    /// nonsensical pid, `ENOSYS` before Linux 5.3.
    pub fn open(pid: i32) -> io::Result<PidFd> {
        // SAFETY: pidfd_open takes two integers and touches no memory of ours.
        let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
        // SAFETY: the kernel just gave us this descriptor, nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        Ok(PidFd { fd })
    }

    /// Sends `signal` (none: only asks whether one could) to this process.
    ///
    /// # Errors
    /// `ESRCH` when it ended, `EPERM` when it is not ours.
    pub fn signal(&self, signal: Option<Signal>) -> io::Result<()> {
        let number = signal.map_or(0, |signal| signal as i32);
        // SAFETY: a null siginfo is allowed and means what kill() sends.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.fd.as_raw_fd(),
                number,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        Errno::result(answer)?;
        Ok(())
    }

    /// Waits until the process ends, at most `limit`; true when it ended.
    pub fn wait(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let milliseconds = rest.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32;
            let timeout = PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX);
            let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, timeout) {
                Ok(0) if Instant::now() >= deadline => return false,
                Ok(0) | Err(Errno::EINTR) => continue,
                Ok(_) => return true,
                // Out of memory: slow down, the answer is still to come.
                Err(_) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(_) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_a_process_end() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let fd = PidFd::open(child.id() as i32).unwrap();
        assert!(!fd.wait(Duration::ZERO));
        fd.signal(Some(Signal::SIGKILL)).unwrap();
        assert!(fd.wait(Duration::from_secs(60)));
        child.wait().unwrap();
        assert_eq!(
            fd.signal(None).unwrap_err().raw_os_error(),
            Some(libc::ESRCH)
        );
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(PidFd::open(-1).is_err());
        assert!(PidFd::open(0).is_err());
    }
}
