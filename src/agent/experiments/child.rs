//! The process that measures: this same program, in a process group of its own, ended
//! with the agent.

use jostle_host::sys::process::ChildSetup;
use jostle_host::sys::process::executable;
use jostle_host::sys::process::prepare;
use jostle_host::sys::process::signal_group;
use jostle_host::sys::process::signal_process;
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

/// Longest line that is shown.
const LONGEST_LINE: usize = 300;

/// What to start.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub arguments: Vec<OsString>,
    /// Where it works.
    pub directory: PathBuf,
}

/// Starts experiments; tests have another one.
pub(super) trait Launcher: Send {
    /// # Errors
    /// What the system answered.
    fn launch(&mut self, launch: &Launch) -> io::Result<Box<dyn Running>>;
}

/// An experiment that was started.
pub(super) trait Running: Send {
    /// The last line it told.
    fn progress(&self) -> String;

    /// Its exit code, once it has ended; negative for a signal.
    fn poll(&mut self) -> Option<i32>;

    /// Asks it to end.
    fn end(&mut self);

    fn kill(&mut self);
}

/// This program itself.
pub(super) struct Executable;

impl Launcher for Executable {
    fn launch(&mut self, launch: &Launch) -> io::Result<Box<dyn Running>> {
        let mut command = Command::new(executable()?);
        command
            .args(&launch.arguments)
            .current_dir(&launch.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        prepare(&mut command, ChildSetup::default());
        let mut child = command.spawn()?;
        let last: Arc<Mutex<String>> = Arc::default();
        if let Some(lines) = child.stderr.take() {
            let shown = last.clone();
            let thread = std::thread::Builder::new().name("experiment".into());
            thread.spawn(move || {
                for line in BufReader::new(lines).split(b'\n').map_while(Result::ok) {
                    let line = plain(&String::from_utf8_lossy(&line));
                    if !line.is_empty() {
                        *shown.lock().unwrap_or_else(PoisonError::into_inner) = line;
                    }
                }
            })?;
        }
        Ok(Box::new(Process { child, last }))
    }
}

/// The last of what a line showed, without what only a terminal understands.
fn plain(line: &str) -> String {
    let shown = line.rsplit('\r').find(|part| !part.trim().is_empty());
    let shown = shown.unwrap_or("").chars().filter(|c| !c.is_control());
    shown.take(LONGEST_LINE).collect::<String>().trim().into()
}

struct Process {
    child: Child,
    last: Arc<Mutex<String>>,
}

impl Running for Process {
    fn progress(&self) -> String {
        let last = self.last.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn poll(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => {
                let signal = status.signal().map(|signal| -signal);
                Some(status.code().or(signal).unwrap_or(-1))
            }
            Err(_) => Some(-1),
        }
    }

    fn end(&mut self) {
        // Once it is reaped its number may be somebody else's.
        if self.poll().is_none() {
            let _ = signal_process(self.child.id() as i32, Signal::SIGTERM);
        }
    }

    fn kill(&mut self) {
        if self.poll().is_none() {
            let _ = signal_group(self.child.id() as i32, Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.poll().is_none() {
            self.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_as_it_stood_last() {
        assert_eq!(plain("first\rsecond \u{1b}[K\r"), "second [K");
        assert_eq!(plain("\r\n"), "");
        assert_eq!(plain(&"x".repeat(1000)).len(), LONGEST_LINE);
    }
}
