//! What the tests of the whole program share.

use crate::common::JOSTLE;
use crate::common::PATIENCE;
use crate::common::alone;
use crate::common::beside_others;
use crate::common::program::Ended;
use crate::common::within;
use jostle_measure::workload::tree;
use nix::fcntl::Flock;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::process::Stdio;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use tempfile::TempDir;

/// What a short measurement is asked for, beside its target.
pub const SHORT: &[&str] = &[
    "--budget",
    "4s",
    "--resources",
    "l1d,cpu-time",
    "--halves",
    "tolerated",
    "--slice",
    "1ms",
];

/// Prints a growing number for ever.
pub const PRINTER: &str = "while :; do i=$((i+1)); echo n=$i; sleep 0.01; done";

/// A place of its own for a test. Processes and files that are left are found.
pub struct Place {
    pub directory: TempDir,
    marker: String,
    _lock: Flock<File>,
}

impl Place {
    /// While it is held, no other test presses on the machine.
    pub fn alone() -> Place {
        Place::with(alone())
    }

    /// For what does not depend on the speed of the machine.
    pub fn beside_others() -> Place {
        Place::with(beside_others())
    }

    fn with(lock: Flock<File>) -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Relaxed);
        Place {
            directory: tempfile::tempdir().unwrap(),
            marker: format!("JOSTLE_HYGIENE_MARK={}-{count}", std::process::id()),
            _lock: lock,
        }
    }

    /// `jostle` with `arguments`, here, marked.
    pub fn process(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(JOSTLE);
        let (key, value) = self.marker.split_once('=').expect("made so");
        command
            .args(arguments)
            .env(key, value)
            // Nobody's machine file is to be found.
            .env("XDG_STATE_HOME", self.directory.path())
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs to the end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.run_process(self.process(arguments))
    }

    pub fn run_process(&self, process: std::process::Command) -> Ended {
        Ended::of(process, PATIENCE)
    }

    /// `jostle profile` with `arguments`, then the target of [`SHORT`] ones.
    pub fn profile(&self, arguments: &[&str], target: &[&str]) -> Ended {
        self.run(&[&["profile"], SHORT, arguments, target].concat())
    }

    /// Runs and expects refusal with `code`, words of `texts` on stderr,
    /// nothing on stdout, and nothing left.
    pub fn refused(&self, arguments: &[&str], code: i32, texts: &[&str]) {
        let ended = self.run(arguments);
        ended.says(code, texts);
        assert_eq!(ended.stdout, "", "{arguments:?}");
        self.left(&[]);
    }

    /// Starts and goes on.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let child = self
            .process(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Running(child.expect("jostle starts"))
    }

    /// Living processes that were started from here: pid and command line.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let living = |pid: i32| tree::stat(pid).is_some_and(|stat| !stat.ended());
        tree::processes()
            .into_iter()
            .filter(|pid| {
                let environment = std::fs::read(format!("/proc/{pid}/environ"));
                environment
                    .unwrap_or_default()
                    .split(|&byte| byte == 0)
                    .any(|entry| entry == self.marker.as_bytes())
            })
            .filter(|&pid| living(pid))
            .map(|pid| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                (pid, String::from_utf8_lossy(&line).replace('\0', " "))
            })
            .collect()
    }

    /// The first process with each of `words` in its command line, once there.
    pub fn process_with(&self, words: &[&str]) -> i32 {
        let mut found = None;
        within(PATIENCE, &format!("a process {words:?}"), || {
            found = self
                .processes()
                .into_iter()
                .find(|(_, line)| words.iter().all(|word| line.contains(word)))
                .map(|(pid, _)| pid);
            found.is_some()
        });
        found.expect("waited for")
    }

    /// Asserts that no process and only `files` are left here.
    pub fn left(&self, files: &[&str]) {
        assert_eq!(self.processes(), []);
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        assert_eq!(names, files);
    }

    pub fn profile_file(&self, name: &str) -> Value {
        let path = self.directory.path().join(name);
        jostle_profile::load(&path).expect("it loads");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }
}

/// A run of the program that ends with the test.
pub struct Running(pub Child);

impl Running {
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    pub fn alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Exit code, or the negative signal.
    pub fn end(&mut self) -> i32 {
        within(PATIENCE, "jostle ends", || !self.alive());
        let status = self.0.wait().unwrap();
        status
            .code()
            .unwrap_or_else(|| -status.signal().unwrap_or(0))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The entry of `resource` in `profile`.
pub fn entry<'a>(profile: &'a Value, resource: &str) -> &'a Value {
    let entry = &profile["resources"][resource];
    assert!(entry.is_object(), "no {resource} in {profile}");
    entry
}

pub fn status(entry: &Value) -> &str {
    entry["status"].as_str().expect("every entry has one")
}

pub fn reason(entry: &Value) -> &str {
    entry["reason"].as_str().unwrap_or_default()
}
