//! Keeps a target alive while breakpoints of the CPU are counted in it; see
//! [`jostle_host::sys::tracer`] for what would end it.
//!
//! A separate process traces the threads: if a parent traced its own child, any thread of the
//! parent that waits for the child to exit would receive the child's stops.

use super::tree;
use jostle_host::sys::own::OwnChild;
use jostle_host::sys::process::executable;
use nix::errno::Errno;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::process::ChildStdin;
use std::process::ChildStdout;
use std::process::Command;
use std::process::Stdio;

/// Traces threads until it is dropped.
pub struct Shield {
    /// `None` only while it is being dropped.
    asked: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    discarded: u64,
    own: Option<OwnChild>,
    process: Child,
}

impl Shield {
    /// # Errors
    /// When the process cannot be started.
    pub fn start() -> io::Result<Shield> {
        let mut command = Command::new(executable()?);
        command
            .arg("shield")
            .env_remove(tree::MARKER)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = command.spawn()?;
        let own = OwnChild::new(process.id() as i32);
        let (Some(asked), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        Ok(Shield {
            asked: Some(asked),
            answers: BufReader::new(answers),
            discarded: 0,
            own: Some(own),
            process,
        })
    }

    /// Protects `threads` from now on; those that have ended are ignored.
    ///
    /// # Errors
    /// `EPERM` for a thread that may not be traced, or is traced by somebody else.
    pub fn cover(&mut self, threads: impl IntoIterator<Item = i32>) -> io::Result<()> {
        // Also for threads that are covered already: a tracer that has ended is noticed.
        let threads = threads.into_iter().map(|thread| thread.to_string());
        self.ask(&threads.collect::<Vec<_>>().join(" "))
    }

    /// How many signals were discarded that would have killed a thread.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn discarded(&mut self) -> io::Result<u64> {
        self.ask("")?;
        Ok(self.discarded)
    }

    fn ask(&mut self, threads: &str) -> io::Result<()> {
        let ended = || io::Error::other("the process that traces the target has ended");
        let asked = self.asked.as_mut().ok_or_else(ended)?;
        writeln!(asked, "{threads}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let mut words = answer.split_whitespace();
        let (word, number) = (words.next(), words.next().and_then(|it| it.parse().ok()));
        match (word, number) {
            (Some("ok"), Some(discarded)) => {
                self.discarded = discarded;
                Ok(())
            }
            (Some("refused"), Some(error)) => Err(Errno::from_raw(error as i32).into()),
            _ => Err(ended()),
        }
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        // At its end the kernel releases what it traced.
        self.asked = None;
        self.own = None;
        let _ = self.process.wait();
    }
}
