//! A target that we start, and end.

use super::Exit;
use super::SIGNAL_LIMIT;
use super::State;
use super::guard::Guard;
use super::output;
use super::output::OutputSink;
use super::output::Tail;
use super::poll;
use super::tree;
use crate::error::Error;
use crate::error::Result;
use crate::sys::clock::monotonic_ns;
use crate::sys::pidfd::PidFd;
use crate::sys::process;
use nix::sys::signal::Signal;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

/// How long a target may take to end after SIGTERM before SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

pub(super) struct Started {
    argv: Vec<String>,
    name: String,
    show_output: bool,
    cpus: Option<Vec<usize>>,
    stdout: Option<Arc<dyn OutputSink>>,
    stderr: Tail,
    marker: String,
    run: Run,
    exit: Option<Exit>,
    guard: Guard,
}

/// One run of the command.
struct Run {
    child: Child,
    pidfd: PidFd,
    began: Instant,
    /// Set by a thread that waits for nothing else, so that the time is right
    /// whenever somebody asks.
    ended: Arc<OnceLock<Instant>>,
    /// Reads standard error until its end.
    last_words: Option<JoinHandle<()>>,
}

impl Started {
    pub(super) fn start(
        argv: Vec<String>,
        name: Option<String>,
        show_output: bool,
        cpus: Option<&[usize]>,
        stdout: Option<Arc<dyn OutputSink>>,
    ) -> Result<Started> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let Some(program) = argv.first().filter(|program| !program.is_empty()) else {
            return Err(Error::request(
                "no command: give the program to profile after --, for example `-- sleep 60`",
            ));
        };
        let name = name.unwrap_or_else(|| {
            let file = std::path::Path::new(program).file_name();
            file.map_or(program.clone(), |name| name.to_string_lossy().into_owned())
        });
        process::adopt_orphans().map_err(|error| {
            Error::environment(format!("cannot adopt the target's orphans: {error}"))
        })?;
        let marker = format!(
            "{}-{}-{}",
            std::process::id(),
            monotonic_ns(),
            COUNT.fetch_add(1, Relaxed)
        );
        let guard = Guard::start(&marker)?;
        let cpus = cpus.map(<[usize]>::to_vec);
        let stderr = Tail::default();
        // A group of 0 still ends whatever carries the marker.
        guard.end_group(0);
        let launch = Launch {
            argv: &argv,
            show_output,
            cpus: &cpus,
            stdout: &stdout,
            stderr: &stderr,
            marker: &marker,
        };
        let run = launch.spawn()?;
        guard.end_group(run.child.id() as i32);
        Ok(Started {
            argv,
            name,
            show_output,
            cpus,
            stdout,
            stderr,
            marker,
            run,
            exit: None,
            guard,
        })
    }

    pub(super) fn pid(&self) -> i32 {
        self.run.child.id() as i32
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn command(&self) -> &[String] {
        &self.argv
    }

    pub(super) fn ran_for(&self) -> Option<Duration> {
        let ended = self.run.ended.get()?;
        Some(ended.duration_since(self.run.began))
    }

    pub(super) fn stderr_tail(&self) -> String {
        if let (Some(_), Some(reader)) = (self.exit, &self.run.last_words) {
            // It ended just now; what it said last may still be in the pipe.
            poll(Duration::from_millis(200), || reader.is_finished());
        }
        self.stderr.text()
    }

    pub(super) fn state(&mut self) -> State {
        for orphan in tree::ended_orphans(self.pid()) {
            process::reap(orphan);
        }
        if let Some(exit) = self.reap_leader() {
            return State::Exited(exit);
        }
        match tree::stat(self.pid()) {
            Some(stat) if stat.stopped() => State::Stopped,
            _ => State::Running,
        }
    }

    pub(super) fn wait(&mut self, limit: Duration) -> Option<Exit> {
        if self.exit.is_none() && self.run.pidfd.wait(limit) {
            // The handle reports the end a moment before it can be reaped
            // only if a tracer holds the zombie; do not hang on that.
            poll(SIGNAL_LIMIT, || self.reap_leader().is_some());
        }
        self.exit
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        if let Some(exit) = self.reap_leader() {
            let (name, exit) = (&self.name, exit);
            return Err(Error::environment(format!("the target {name} {exit}")));
        }
        self.signal(Signal::SIGSTOP);
        let pid = self.pid();
        let stands = |pid| tree::stat(pid).is_none_or(|stat| stat.stopped() || stat.ended());
        let mut all = tree::members(pid, &self.marker);
        all.push(pid);
        if !poll(SIGNAL_LIMIT, || all.iter().copied().all(stands)) {
            self.cont()?;
            return Err(Error::environment(format!(
                "the target {} does not stop on SIGSTOP (blocked in the kernel?)",
                self.name
            )));
        }
        Ok(())
    }

    pub(super) fn cont(&mut self) -> Result<()> {
        self.signal(Signal::SIGCONT);
        Ok(())
    }

    pub(super) fn restart(&mut self) -> Result<()> {
        self.end();
        self.stderr.clear();
        let launch = Launch {
            argv: &self.argv,
            show_output: self.show_output,
            cpus: &self.cpus,
            stdout: &self.stdout,
            stderr: &self.stderr,
            marker: &self.marker,
        };
        let run = launch.spawn()?;
        self.guard.end_group(run.child.id() as i32);
        self.run = run;
        self.exit = None;
        Ok(())
    }

    fn reap_leader(&mut self) -> Option<Exit> {
        if self.exit.is_none()
            && let Ok(Some(status)) = self.run.child.try_wait()
        {
            self.exit = Some(Exit {
                code: status.code(),
                signal: status.signal(),
            });
        }
        self.exit
    }

    /// Signals the group and every member that left it.
    fn signal(&mut self, signal: Signal) {
        let leader = self.pid();
        // Once the leader is reaped its number may name a stranger's group;
        // its orphans are then our children and found one by one.
        let whole = self.reap_leader().is_none();
        if whole {
            let _ = process::signal_group(leader, signal);
        }
        for pid in tree::members(leader, &self.marker) {
            let in_group = tree::stat(pid).is_some_and(|stat| stat.group == leader);
            if !(whole && in_group) {
                let _ = process::signal_process(pid, signal);
            }
        }
    }

    /// True when leader and members are gone; reaps what ended.
    fn all_gone(&mut self) -> bool {
        let leader_gone = self.reap_leader().is_some();
        let mut left = 0;
        for pid in tree::members(self.pid(), &self.marker) {
            match tree::stat(pid) {
                Some(stat) if !stat.ended() => left += 1,
                Some(stat) if stat.parent == std::process::id() as i32 => {
                    process::reap(pid);
                }
                _ => {}
            }
        }
        leader_gone && left == 0
    }

    /// Ends everything: SIGTERM, the grace period, SIGKILL.
    fn end(&mut self) {
        if self.all_gone() {
            return;
        }
        // The order matters: a stopped process takes SIGTERM when continued.
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
        if poll(GRACE, || self.all_gone()) {
            return;
        }
        poll(GRACE, || {
            self.signal(Signal::SIGKILL);
            self.all_gone()
        });
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.end();
        self.guard.relax();
    }
}

/// One start of the command.
struct Launch<'a> {
    argv: &'a [String],
    show_output: bool,
    cpus: &'a Option<Vec<usize>>,
    stdout: &'a Option<Arc<dyn OutputSink>>,
    stderr: &'a Tail,
    marker: &'a str,
}

/// The threads and handles of a process just started.
struct Connected {
    pidfd: PidFd,
    ended: Arc<OnceLock<Instant>>,
    last_words: Option<JoinHandle<()>>,
}

impl Launch<'_> {
    fn spawn(&self) -> Result<Run> {
        let program = &self.argv[0];
        let refused = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => not_found(program),
            std::io::ErrorKind::PermissionDenied => Error::request(format!(
                "command '{program}' is not executable; check its permissions (chmod +x)"
            )),
            std::io::ErrorKind::InvalidInput => Error::request(format!(
                "command '{}' cannot be started: an argument holds a NUL byte",
                output::printable(program.as_bytes())
            )),
            _ => Error::environment(format!("cannot start '{program}': {error}")),
        };
        let mut command = Command::new(program);
        command
            .args(&self.argv[1..])
            .env(tree::MARKER, self.marker)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        command.stdout(match (self.stdout, self.show_output) {
            (Some(_), _) => Stdio::piped(),
            (None, true) => {
                let copy = std::io::stderr().as_fd().try_clone_to_owned();
                copy.map_or(Stdio::null(), Stdio::from)
            }
            (None, false) => Stdio::null(),
        });
        let setup = process::ChildSetup {
            cpus: self.cpus.clone(),
            ..Default::default()
        };
        process::prepare(&mut command, setup);
        let began = Instant::now();
        let mut child = command.spawn().map_err(refused)?;
        match self.connect(&mut child) {
            Ok(connected) => Ok(Run {
                child,
                pidfd: connected.pidfd,
                began,
                ended: connected.ended,
                last_words: connected.last_words,
            }),
            Err(error) => {
                let _ = process::signal_group(child.id() as i32, Signal::SIGKILL);
                let _ = child.wait();
                Err(refused(error))
            }
        }
    }

    fn connect(&self, child: &mut Child) -> std::io::Result<Connected> {
        let watched = PidFd::open(child.id() as i32)?;
        let ended = Arc::new(OnceLock::new());
        let clock = ended.clone();
        std::thread::Builder::new()
            .name("target-end".into())
            .spawn(move || {
                while !watched.wait(Duration::from_secs(3600)) {}
                let _ = clock.set(Instant::now());
            })?;
        let stderr = child.stderr.take();
        let last_words = stderr
            .map(|stream| output::drain(stream, Arc::new(self.stderr.clone()), self.show_output))
            .transpose()?;
        if let (Some(stream), Some(sink)) = (child.stdout.take(), self.stdout) {
            output::drain(stream, sink.clone(), self.show_output)?;
        }
        Ok(Connected {
            pidfd: PidFd::open(child.id() as i32)?,
            ended,
            last_words,
        })
    }
}

/// Whether the program of `argv` exists.
pub(super) fn check(argv: &[String]) -> Result<()> {
    let Some(program) = argv.first() else {
        return Ok(());
    };
    let exists = match program.contains('/') {
        true => Path::new(program).exists(),
        false => std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path).any(|directory| directory.join(program).exists())
        }),
    };
    match exists {
        true => Ok(()),
        false => Err(not_found(program)),
    }
}

fn not_found(program: &str) -> Error {
    Error::request(format!(
        "command '{program}' not found; give a program in PATH or a path to one after --"
    ))
}
