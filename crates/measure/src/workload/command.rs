//! A target that we start, and end.

use super::CommandSpec;
use super::Exit;
use super::SIGNAL_LIMIT;
use super::State;
use super::guard::Guard;
use super::hold_error::HoldError;
use super::output;
use super::output::OutputSink;
use super::output::Tail;
use super::output::WholeLines;
use super::poll;
use super::tree;
use crate::error::Error;
use crate::error::Result;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::pidfd::PidFd;
use jostle_host::sys::process;
use jostle_host::sys::published;
use nix::sys::signal::Signal;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
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
/// Added to the time for stopping, per process.
const PER_PROCESS: Duration = Duration::from_micros(500);
/// How long one of several instances is waited for at a time.
const TURN: Duration = Duration::from_millis(2);

/// What is done to each process that is started, before its program begins.
pub type BeforeProgram = Arc<dyn Fn(i32) + Send + Sync>;

pub(super) struct Started {
    spec: CommandSpec,
    before_program: Option<BeforeProgram>,
    cpus: Option<Vec<usize>>,
    stdout: Option<Arc<dyn OutputSink>>,
    stderr: Tail,
    marker: String,
    /// Where it may publish its progress, and the path of that; `None` where its
    /// environment names a file already, or none can be had.
    published: Option<(OwnedFd, String)>,
    /// One per instance.
    runs: Vec<Run>,
    /// How often all of it was started again after it had ended by itself.
    ended_runs: u64,
    guard: Guard,
}

/// One run of one instance of the command.
struct Run {
    child: Child,
    pidfd: PidFd,
    began: Instant,
    /// Set by a thread that waits for nothing else, so that the time is right
    /// whenever somebody asks.
    ended: Arc<OnceLock<Instant>>,
    /// Reads standard error until its end.
    last_words: Option<JoinHandle<()>>,
    exit: Option<Exit>,
}

/// Handle, end and reader of standard error of a [`Run`].
type Connected = (PidFd, Arc<OnceLock<Instant>>, Option<JoinHandle<()>>);

impl Run {
    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn reap(&mut self, instance: Option<(usize, usize)>) -> Option<Exit> {
        if self.exit.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.exit = Some(Exit {
                code: status.code(),
                signal: status.signal(),
                instance,
            });
            // The clock's thread is about to be told, too.
            poll(SIGNAL_LIMIT, || self.ended.get().is_some());
        }
        self.exit
    }
}

impl Started {
    pub(super) fn start(
        spec: CommandSpec,
        cpus: Option<&[usize]>,
        stdout: Option<Arc<dyn OutputSink>>,
    ) -> Result<Started> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        if spec.argv.first().is_none_or(String::is_empty) {
            return Err(Error::request(
                "no command: give the program to profile after --, for example `-- sleep 60`",
            ));
        }
        check(&spec)?;
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
        // Without a group it still ends whatever carries the marker.
        guard.end_groups(&[]);
        let named = |(key, _): &(String, String)| key == published::VARIABLE;
        let published = match std::env::var_os(published::VARIABLE) {
            None if !spec.environment.iter().any(named) => page(),
            _ => None,
        };
        let mut started = Started {
            spec,
            before_program: None,
            cpus: cpus.map(<[usize]>::to_vec),
            stdout,
            stderr: Tail::default(),
            marker,
            published,
            runs: Vec::new(),
            ended_runs: 0,
            guard,
        };
        started.launch()?;
        Ok(started)
    }

    /// Starts every instance; those started before one that fails end when the
    /// value is dropped.
    fn launch(&mut self) -> Result<()> {
        for _ in 0..self.spec.instances.get() {
            self.runs.push(self.spawn()?);
            self.guard.end_groups(&self.leaders());
        }
        Ok(())
    }

    fn spawn(&self) -> Result<Run> {
        let program = &self.spec.argv[0];
        let show = self.spec.show_output;
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
            .args(&self.spec.argv[1..])
            .envs(self.spec.environment.iter().cloned())
            .env(tree::MARKER, &self.marker)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        if let Some((_, path)) = &self.published {
            command.env(published::VARIABLE, path);
        }
        if let Some(directory) = &self.spec.directory {
            command.current_dir(directory);
        }
        command.stdout(match (&self.stdout, show) {
            (Some(_), _) => Stdio::piped(),
            (None, true) => {
                let copy = std::io::stderr().as_fd().try_clone_to_owned();
                copy.map_or(Stdio::null(), Stdio::from)
            }
            (None, false) => Stdio::null(),
        });
        let before = self.before_program.as_ref();
        let gate = before.and_then(|before| Some((process::Gate::new().ok()?, before)));
        let setup = process::ChildSetup {
            cpus: self.cpus.clone(),
            gate: gate.as_ref().map(|(gate, _)| gate),
            ..Default::default()
        };
        process::prepare(&mut command, setup);
        let began = Instant::now();
        let spawned = match &gate {
            Some((gate, before)) => gate.attended(|pid| before(pid), || command.spawn()),
            None => command.spawn(),
        };
        let mut child = spawned.map_err(refused)?;
        match self.connect(&mut child) {
            Ok((pidfd, ended, last_words)) => Ok(Run {
                child,
                pidfd,
                began,
                ended,
                last_words,
                exit: None,
            }),
            Err(error) => {
                let _ = process::signal_group(child.id() as i32, Signal::SIGKILL);
                let _ = child.wait();
                Err(refused(error))
            }
        }
    }

    /// The threads and handles of a process just started.
    fn connect(&self, child: &mut Child) -> std::io::Result<Connected> {
        let show = self.spec.show_output;
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
            .map(|stream| output::drain(stream, Arc::new(self.stderr.clone()), show))
            .transpose()?;
        if let (Some(stream), Some(sink)) = (child.stdout.take(), &self.stdout) {
            let sink = match self.spec.instances.get() {
                1 => sink.clone(),
                // So that lines of several instances do not mix.
                _ => Arc::new(WholeLines::new(sink.clone())),
            };
            output::drain(stream, sink, show)?;
        }
        Ok((PidFd::open(child.id() as i32)?, ended, last_words))
    }

    /// In the environment of all that belongs to it.
    pub(super) fn marker(&self) -> &str {
        &self.marker
    }

    pub(super) fn pid(&self) -> i32 {
        // None only while the very first is being started.
        self.runs.first().map_or(0, Run::pid)
    }

    /// Leader of each instance.
    pub(super) fn leaders(&self) -> Vec<i32> {
        self.runs.iter().map(Run::pid).collect()
    }

    /// Leaders and all that belongs to them.
    pub(super) fn processes(&self) -> Vec<i32> {
        let mut found = tree::members(&self.leaders(), &self.marker);
        found.extend(self.leaders());
        found
    }

    /// CPUs that runs begin on; `None` for all that we may use.
    pub(super) fn begins_on(&self) -> Option<&[usize]> {
        self.cpus.as_deref()
    }

    /// Where every further run begins.
    pub(super) fn begin_on(&mut self, cpus: &[usize]) {
        self.cpus = Some(cpus.to_vec());
    }

    /// Until the last one ended.
    pub(super) fn ran_for(&self) -> Option<Duration> {
        let began = self.runs.iter().map(|run| run.began).min()?;
        let mut last = began;
        for run in &self.runs {
            last = last.max(*run.ended.get()?);
        }
        Some(last.duration_since(began))
    }

    /// Since the last one ended.
    pub(super) fn ended_for(&self) -> Option<Duration> {
        let ended = self.runs.iter().map(|run| run.ended.get());
        let ended: Option<Vec<&Instant>> = ended.collect();
        Some(ended?.into_iter().max()?.elapsed())
    }

    pub(super) fn stderr_tail(&self) -> String {
        for run in &self.runs {
            if let (Some(_), Some(reader)) = (run.exit, &run.last_words) {
                // It ended just now; what it said last may still be in the pipe.
                poll(Duration::from_millis(200), || reader.is_finished());
            }
        }
        self.stderr.text()
    }

    pub(super) fn state(&mut self) -> State {
        for orphan in tree::ended_orphans(&self.leaders()) {
            process::reap(orphan);
        }
        if let Some(exit) = self.reap_leaders() {
            return State::Exited(exit);
        }
        let stopped = |run: &Run| {
            let pid = run.pid();
            tree::stat(pid).is_some_and(|stat| !stat.ended()) && tree::stands(pid)
        };
        let mut living = self.runs.iter().filter(|run| run.exit.is_none());
        match living.all(stopped) {
            true => State::Stopped,
            false => State::Running,
        }
    }

    /// Which instance has ended while others go on.
    pub(super) fn partly_ended(&mut self) -> Option<Exit> {
        self.reap_leaders();
        let mut ended = self.runs.iter().filter_map(|run| run.exit);
        ended.next()
    }

    pub(super) fn wait(&mut self, limit: Duration) -> Option<Exit> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(exit) = self.reap_leaders() {
                return Some(exit);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let several = self.runs.len() > 1;
            let waited = self.runs.iter().position(|run| run.exit.is_none())?;
            // With several, a failure of another one is to be seen soon too.
            let nap = if several { left.min(TURN) } else { left };
            if self.runs[waited].pidfd.wait(nap) {
                // The handle reports the end a moment before it can be reaped
                // only if a tracer holds the zombie; do not hang on that.
                let reaped = poll(SIGNAL_LIMIT, || {
                    self.reap_leaders();
                    self.runs[waited].exit.is_some()
                });
                if !reaped {
                    return None;
                }
            } else if left.is_zero() {
                return None;
            }
        }
    }

    pub(super) fn stop(&mut self) -> Result<(), HoldError> {
        if let Some(exit) = self.reap_leaders() {
            return Err(HoldError::Exited(exit));
        }
        if self.guard.killed() {
            self.guard.watches().map_err(HoldError::NoGuard)?;
            self.guard.end_groups(&self.leaders());
        }
        let began = Instant::now();
        // Again while a look finds one that runs: it may have been forked by
        // one that was not stopped yet.
        loop {
            let mut all = self.signal(Signal::SIGSTOP);
            all.extend(self.leaders());
            let limit = SIGNAL_LIMIT + PER_PROCESS * all.len() as u32;
            let known = all.len();
            if poll(limit, || {
                all.retain(|&pid| !tree::stands(pid));
                all.is_empty()
            }) {
                let mut again = tree::members(&self.leaders(), &self.marker);
                again.retain(|&pid| !tree::stands(pid));
                if again.is_empty() {
                    return Ok(());
                }
            } else if began.elapsed() > limit {
                self.cont();
                return Err(HoldError::NotStopped);
            }
            if began.elapsed() > limit * 4 {
                self.cont();
                return Err(HoldError::ForksTooFast(known));
            }
        }
    }

    pub(super) fn cont(&mut self) {
        self.signal(Signal::SIGCONT);
    }

    pub(super) fn ended_runs(&self) -> u64 {
        self.ended_runs
    }

    /// Further runs are of another command.
    pub(super) fn run_next(&mut self, spec: CommandSpec) {
        self.spec = spec;
    }

    /// Does `what` to each process of further runs before its program begins; nothing
    /// without.
    pub(super) fn before_program(&mut self, what: Option<BeforeProgram>) {
        self.before_program = what;
    }

    /// Further runs publish on another page, where they may publish at all.
    pub(super) fn renew_page(&mut self) {
        if self.published.is_some() {
            self.published = page();
        }
    }

    /// Calls `between` after the last run has ended.
    pub(super) fn restart(&mut self, between: impl FnOnce()) -> Result<()> {
        self.ended_runs += u64::from(self.reap_leaders().is_some());
        self.end();
        between();
        self.stderr.clear();
        self.runs.clear();
        self.launch()
    }

    /// How it ended: as the first that failed, or, when all have ended, well.
    fn reap_leaders(&mut self) -> Option<Exit> {
        let count = self.runs.len();
        let mut all = count > 0;
        let mut failed = None;
        let mut last = None;
        for (index, run) in self.runs.iter_mut().enumerate() {
            let instance = (count > 1).then_some((index + 1, count));
            match run.reap(instance) {
                Some(exit) if !exit.success() => failed = failed.or(Some(exit)),
                Some(exit) => last = Some(exit),
                None => all = false,
            }
        }
        failed.or(last.filter(|_| all).map(|exit| Exit {
            instance: None,
            ..exit
        }))
    }

    /// Signals the groups and every member that left them; all members but the
    /// leaders.
    fn signal(&mut self, signal: Signal) -> Vec<i32> {
        self.reap_leaders();
        // Once a leader is reaped its number may name a stranger's group; its
        // orphans are then our children and found one by one.
        let whole: Vec<i32> = self
            .runs
            .iter()
            .filter(|run| run.exit.is_none())
            .map(Run::pid)
            .collect();
        for &leader in &whole {
            let _ = process::signal_group(leader, signal);
        }
        let members = tree::members(&self.leaders(), &self.marker);
        for &pid in &members {
            let in_group = tree::stat(pid).is_some_and(|stat| whole.contains(&stat.group));
            if !in_group {
                tree::signal_below(pid, signal);
            }
        }
        members
    }

    /// True when leaders and members are gone; reaps what ended.
    fn all_gone(&mut self) -> bool {
        self.reap_leaders();
        let leaders_gone = self.runs.iter().all(|run| run.exit.is_some());
        let mut left = 0;
        for pid in tree::members(&self.leaders(), &self.marker) {
            match tree::stat(pid) {
                Some(stat) if !stat.ended() => left += 1,
                Some(stat) if stat.parent == std::process::id() as i32 => {
                    process::reap(pid);
                }
                _ => {}
            }
        }
        leaders_gone && left == 0
    }

    /// Ends everything: SIGTERM, the grace period, SIGKILL. True when all is
    /// gone.
    fn end(&mut self) -> bool {
        if self.all_gone() {
            return true;
        }
        // The order matters: a stopped process takes SIGTERM when continued.
        let count = self.signal(Signal::SIGTERM).len() as u32;
        self.signal(Signal::SIGCONT);
        let grace = GRACE + PER_PROCESS * count;
        poll(grace, || self.all_gone())
            || poll(grace, || {
                self.signal(Signal::SIGKILL);
                self.all_gone()
            })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        match self.end() {
            true => self.guard.relax(),
            // It goes on where we gave up.
            false => self.guard.abandon(),
        }
    }
}

/// A page to publish on, and its path.
fn page() -> Option<(OwnedFd, String)> {
    let page = published::create().ok()?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), page.as_raw_fd());
    Some((page, path))
}

/// Whether there is such a program, and a directory to run it in.
pub(super) fn check(spec: &CommandSpec) -> Result<()> {
    if let Some(directory) = &spec.directory
        && !directory.is_dir()
    {
        return Err(Error::request(format!(
            "--cwd {}: there is no such directory",
            directory.display()
        )));
    }
    let Some(program) = spec.argv.first() else {
        return Ok(());
    };
    // What is written relative to a directory is so for the command.
    let here = |path: &Path| match &spec.directory {
        Some(directory) => directory.join(path).exists(),
        None => path.exists(),
    };
    let given = spec.environment.iter().rev().find(|(key, _)| key == "PATH");
    let path = match given {
        Some((_, path)) => Some(path.into()),
        None => std::env::var_os("PATH"),
    };
    let exists = match program.contains('/') {
        true => here(Path::new(program)),
        false => path.is_some_and(|path| {
            std::env::split_paths(&path).any(|directory| here(&directory.join(program)))
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
