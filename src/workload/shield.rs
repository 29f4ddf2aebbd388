//! Keeps a target alive while breakpoints of the CPU are counted in it; see
//! [`crate::sys::tracer`] for what would end it.
//!
//! A process of its own traces the threads: the stops of a child that its own parent traces
//! are reported to whoever waits for the child's end.

use super::tree;
use crate::sys::own::OwnChild;
use crate::sys::process::executable;
use nix::errno::Errno;
use std::collections::HashSet;
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
    covered: HashSet<i32>,
    dropped: u64,
    _own: OwnChild,
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
            covered: HashSet::new(),
            dropped: 0,
            _own: own,
            process,
        })
    }

    /// From now on `threads` survive what breakpoints do; those that have ended are left
    /// out.
    ///
    /// # Errors
    /// `EPERM` for a thread that may not be traced, or is traced by somebody else.
    pub fn cover(&mut self, threads: impl IntoIterator<Item = i32>) -> io::Result<()> {
        let threads: HashSet<i32> = threads.into_iter().collect();
        let new = threads.difference(&self.covered).map(i32::to_string);
        let new: Vec<String> = new.collect();
        if !new.is_empty() {
            self.ask(&new.join(" "))?;
        }
        // A number may have been given to another thread when it is seen again.
        self.covered = threads;
        Ok(())
    }

    /// How many signals were dropped that would have ended a thread.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn dropped(&mut self) -> io::Result<u64> {
        self.ask("")?;
        Ok(self.dropped)
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
            (Some("ok"), Some(dropped)) => {
                self.dropped = dropped;
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
        let _ = self.process.wait();
    }
}
