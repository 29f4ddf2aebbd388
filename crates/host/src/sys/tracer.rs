//! Keeps programs alive while breakpoints of the CPU are counted in them.
//!
//! A breakpoint raises a debug exception, and the register DR6 holds its cause. Some virtual
//! machines occasionally deliver the exception with an empty DR6. The kernel then assumes an
//! `int1` instruction and sends SIGTRAP, which kills the program. This happened in 4 of about
//! 150 searches for the progress of sqlite3 (2-vCPU KVM guest); a core file showed `si_code`
//! TRAP_BRKPT at an instruction with a breakpoint. A tracer (ptrace) decides about each
//! signal before it is delivered and can discard it; the program then executes the same
//! instruction again. Without signals, tracing costs nothing.

use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::sys::ptrace;
use nix::sys::signal::SaFlags;
use nix::sys::signal::SigAction;
use nix::sys::signal::SigHandler;
use nix::sys::signal::SigSet;
use nix::sys::signal::Signal;
use nix::sys::signal::sigaction;
use nix::sys::signalfd::SfdFlags;
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::io::BufRead;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Once;

/// `si_code` of SIGTRAP after a debug exception without a known cause (TRAP_BRKPT) and after
/// a breakpoint that is not open (TRAP_HWBKPT). Single steps and `int3` have other codes.
const UNEXPLAINED: [i32; 2] = [1, 4];

/// Traces threads until `wanted` ends, and discards the signals that breakpoints cause.
///
/// Each line of `wanted` holds numbers of threads; `answers` gets `ok` and the number of
/// signals discarded so far, or `refused`, the number of the error and the thread that could
/// not be traced. When this process ends, the kernel releases them all.
///
/// # Errors
/// When `wanted` or `answers` fails.
pub fn trace(mut wanted: impl BufRead + AsFd, mut answers: impl Write) -> io::Result<()> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let told = SignalFd::with_flags(&mask, flags)?;
    let mut tracer = Tracer::default();
    loop {
        let mut fds = [
            PollFd::new(wanted.as_fd(), PollFlags::POLLIN),
            PollFd::new(told.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let asked = fds[0].revents().is_some_and(|events| !events.is_empty());
        while let Ok(Some(_)) = told.read_signal() {}
        tracer.attend();
        if asked {
            let mut line = String::new();
            if wanted.read_line(&mut line)? == 0 {
                return Ok(());
            }
            match tracer.cover(&line) {
                Ok(()) => writeln!(answers, "ok {}", tracer.discarded)?,
                Err((error, thread)) => writeln!(answers, "refused {} {thread}", error as i32)?,
            }
            answers.flush()?;
        }
    }
}

/// Lets this process survive breakpoints in its own code, by a signal handler that does
/// nothing. Programs that it starts have the default action again.
pub fn survive_own() {
    extern "C" fn nothing(_: libc::c_int) {}
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let handler = SigHandler::Handler(nothing);
        let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
        // SAFETY: the handler touches nothing. Nobody else here handles this signal.
        let _ = unsafe { sigaction(Signal::SIGTRAP, &action) };
    });
}

#[derive(Default)]
struct Tracer {
    traced: HashSet<i32>,
    discarded: u64,
}

impl Tracer {
    /// Traces the threads in `line` that are not traced yet and still exist.
    fn cover(&mut self, line: &str) -> Result<(), (Errno, i32)> {
        let threads = line.split_whitespace().flat_map(str::parse);
        for thread in threads {
            if self.traced.contains(&thread) {
                continue;
            }
            match ptrace::seize(Pid::from_raw(thread), ptrace::Options::empty()) {
                Ok(()) => {
                    self.traced.insert(thread);
                }
                Err(Errno::ESRCH) => {}
                // What the kernel says of a thread that has ended and was not waited for.
                Err(Errno::EPERM) if has_ended(thread) => {}
                Err(error) => return Err((error, thread)),
            }
        }
        Ok(())
    }

    /// Resumes every thread that has stopped.
    fn attend(&mut self) {
        loop {
            let mut status = 0;
            let flags = libc::__WALL | libc::WNOHANG;
            // SAFETY: writes to one integer of ours. nix knows no names for the signals from
            // 32 on, and would not say which thread one has stopped.
            let thread = unsafe { libc::waitpid(-1, &raw mut status, flags) };
            match Errno::result(thread) {
                Ok(0) => break,
                Err(Errno::EINTR) => {}
                Err(_) => break,
                Ok(thread) if libc::WIFSTOPPED(status) => {
                    // Fails if the thread has been killed, which is reported next.
                    let _ = self.resume(thread, status);
                }
                Ok(thread) => {
                    self.traced.remove(&thread);
                }
            }
        }
    }

    fn resume(&mut self, thread: i32, status: i32) -> nix::Result<()> {
        let signal = libc::WSTOPSIG(status);
        // The bits above the signal are 0 if it is about to be delivered.
        let is_delivery = status >> 16 == 0;
        let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        if is_delivery {
            let caused = signal == libc::SIGTRAP
                && ptrace::getsiginfo(Pid::from_raw(thread))
                    .is_ok_and(|info| UNEXPLAINED.contains(&info.si_code));
            self.discarded += u64::from(caused);
            request(libc::PTRACE_CONT, thread, if caused { 0 } else { signal })
        } else if stops.contains(&signal) {
            // A group stop: the process stays stopped until SIGCONT.
            request(libc::PTRACE_LISTEN, thread, 0)
        } else {
            request(libc::PTRACE_CONT, thread, 0)
        }
    }
}

/// Whether `thread` is gone, or about to be: a zombie.
fn has_ended(thread: i32) -> bool {
    let Ok(stat) = fs::read(format!("/proc/{thread}/stat")) else {
        return true;
    };
    // Its name, in parentheses, may hold anything. A space follows.
    let name = stat.iter().rposition(|byte| *byte == b')');
    let state = name.and_then(|name| stat.get(name + 2));
    matches!(state, Some(b'Z' | b'X' | b'x'))
}

/// Makes a request about a traced thread that takes a number at most.
fn request(what: impl Into<i64>, thread: i32, number: i32) -> nix::Result<()> {
    // libc::ptrace() takes another type with each C library.
    let (what, number) = (what.into() as libc::c_long, number as libc::c_long);
    // SAFETY: these requests take numbers only; nothing of ours is read or written.
    let answer = unsafe { libc::syscall(libc::SYS_ptrace, what, thread, 0, number) };
    Errno::result(answer)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_thread_that_has_ended_is_left_out() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        // Until it is a zombie, which is ours to wait for.
        while !has_ended(pid) {
            std::thread::yield_now();
        }
        let mut tracer = Tracer::default();
        assert_eq!(tracer.cover(&pid.to_string()), Ok(()));
        assert!(tracer.traced.is_empty());
        assert!(child.wait().unwrap().success());
        assert!(!has_ended(std::process::id() as i32));
    }
}
