//! Programs survive what breakpoints of the CPU do to them in some virtual machines.

use crate::common::eventually;
use crate::common::skip::have;
use crate::common::skip::skip;
use crate::support::setup;
use jostle_measure::workload::Shield;
use jostle_measure::workload::tree;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::process::ChildStdin;
use std::process::ChildStdout;
use std::process::Command;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::Duration;
use std::time::Instant;

/// How long twenty exceptions may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Executes `int1`, which to the kernel is a breakpoint of no known cause, and counts the
/// signals that are meant for it, one of them without a name.
const TRAPPED: &str = "
import ctypes, mmap, signal, sys
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes([0xf1, 0xc3]))
trap = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
heard = []
for number in signal.SIGUSR1, signal.SIGRTMIN + 3:
    signal.signal(number, lambda number, _: heard.append(number))
print('ready', flush=True)
sys.stdin.readline()
for _ in range(20):
    trap()
for number in signal.SIGUSR1, signal.SIGRTMIN + 3:
    signal.raise_signal(number)
print('heard', len(heard), flush=True)
sys.stdin.readline()
";

fn trapped() -> Option<(Child, ChildStdin, BufReader<ChildStdout>)> {
    let started = Command::new("python3")
        .args(["-c", TRAPPED])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = have("python3", started)?;
    let (told, said) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut said = BufReader::new(said);
    assert_eq!(line(&mut said), "ready");
    Some((child, told, said))
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim().to_string()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_breakpoint_of_no_known_cause_ends_only_what_is_not_covered() {
    setup();
    let Some((mut bare, mut told, _said)) = trapped() else {
        return;
    };
    writeln!(told).unwrap();
    assert_eq!(bare.wait().unwrap().signal(), Some(Signal::SIGTRAP as i32));

    let (mut covered, mut told, mut said) = trapped().unwrap();
    let pid = covered.id() as i32;
    let mut shield = Shield::start().unwrap();
    shield.cover([pid]).unwrap();
    writeln!(told).unwrap();
    let (heard, hears) = channel();
    let reader = std::thread::spawn(move || {
        let _ = heard.send(line(&mut said));
    });
    let deadline = Instant::now() + PATIENCE;
    let heard = loop {
        let heard = hears.recv_timeout(Duration::from_millis(20));
        // More than it executes: nothing is to be waited for.
        let again = shield.discarded().unwrap() > 20;
        if heard.is_ok() || again || Instant::now() > deadline {
            break heard;
        }
    };
    if heard.is_err() {
        // The program must not be there for ever.
        covered.kill().unwrap();
        covered.wait().unwrap();
        reader.join().unwrap();
        assert!(shield.discarded().unwrap() > 20, "it waits for something");
        skip(
            "int1",
            "this virtual machine executes it again after its exception",
        );
        return;
    }
    assert_eq!(heard.as_deref(), Ok("heard 2"));
    assert_eq!(shield.discarded().unwrap(), 20);

    // It is stopped and continued as ever.
    let stopped = || tree::stat(pid).unwrap().stopped();
    kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    eventually("it stops", stopped);
    std::thread::sleep(Duration::from_millis(20));
    assert!(stopped());
    kill(Pid::from_raw(pid), Signal::SIGCONT).unwrap();
    eventually("it goes on", || !stopped());
    kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    eventually("it stops again", stopped);

    // It stays stopped when it is let go, and ends as it would have. The kernel wakes it for a
    // moment, in which it stops by itself.
    drop(shield);
    eventually("it is stopped", stopped);
    std::thread::sleep(Duration::from_millis(20));
    assert!(stopped());
    kill(Pid::from_raw(pid), Signal::SIGCONT).unwrap();
    writeln!(told).unwrap();
    assert!(covered.wait().unwrap().success());
}

#[test]
fn what_somebody_else_traces_is_refused_and_what_has_ended_is_left_out() {
    setup();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id() as i32;
    let mut first = Shield::start().unwrap();
    first.cover([pid]).unwrap();
    let mut second = Shield::start().unwrap();
    let refused = second.cover([pid]).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(nix::libc::EPERM));
    drop(first);
    second.cover([pid]).unwrap();
    // Its parent learns of its end at once.
    child.kill().unwrap();
    child.wait().unwrap();
    second.cover([pid, i32::MAX]).unwrap();
    assert_eq!(second.discarded().unwrap(), 0);
}
