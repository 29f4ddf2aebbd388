//! Keeps programs alive while breakpoints of the CPU are counted in them.
//!
//! A breakpoint raises a debug exception, and the register DR6 says which one it was. In
//! some virtual machines that register is sometimes found empty. The kernel then takes the
//! exception for an `int1` instruction of the program's own, and sends it SIGTRAP, which
//! ends it: 4 of about 200 searches for the progress of sqlite3 did (2-vCPU KVM guest), where it
//! was seen at an instruction with a breakpoint, `si_code` TRAP_BRKPT. A tracer is asked
//! before a signal is delivered and can drop it; the program then executes the same
//! instruction again. Tracing (ptrace) costs nothing until a signal comes.

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
use std::io;
use std::io::BufRead;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Once;

/// What the kernel writes into SIGTRAP for a debug exception: of no known cause, and of a
/// breakpoint that nobody has opened. What is single-stepped, and `int3`, have others.
const UNEXPLAINED: [i32; 2] = [1, 4];

/// Traces threads until `wanted` ends, and drops the signals that breakpoints cause.
///
/// Each line of `wanted` holds numbers of threads; `answers` gets `ok` and the number of
/// signals dropped so far, or `refused`, the number of the error and the thread that could
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
                Ok(()) => writeln!(answers, "ok {}", tracer.dropped)?,
                Err((error, thread)) => writeln!(answers, "refused {} {thread}", error as i32)?,
            }
            answers.flush()?;
        }
    }
}

/// Lets this process survive breakpoints in its own code: a signal with a handler that does
/// nothing ends nobody. Programs that it starts have the default again.
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
    dropped: u64,
}

impl Tracer {
    /// Traces the threads of `line` that are not yet. One that has ended is no error.
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
                Err(error) => return Err((error, thread)),
            }
        }
        Ok(())
    }

    /// Lets go on whatever has stopped.
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
                    // One that ends meanwhile cannot be told; its end is reported next.
                    let _ = self.let_go(thread, status);
                }
                Ok(thread) => {
                    self.traced.remove(&thread);
                }
            }
        }
    }

    fn let_go(&mut self, thread: i32, status: i32) -> nix::Result<()> {
        let signal = libc::WSTOPSIG(status);
        // Above the signal: 0 where one is about to be delivered.
        let is_delivery = status >> 16 == 0;
        let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        if is_delivery {
            let caused = signal == libc::SIGTRAP
                && ptrace::getsiginfo(Pid::from_raw(thread))
                    .is_ok_and(|info| UNEXPLAINED.contains(&info.si_code));
            self.dropped += u64::from(caused);
            request(libc::PTRACE_CONT, thread, if caused { 0 } else { signal })
        } else if stops.contains(&signal) {
            // The whole process has been stopped, and stays so until it is continued.
            request(libc::PTRACE_LISTEN, thread, 0)
        } else {
            request(libc::PTRACE_CONT, thread, 0)
        }
    }
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
