//! Commands around a measurement: set up, warm up, tear down.

use super::State;
use super::Target;
use super::guard::Guard;
use super::output;
use super::output::Tail;
use super::tree;
use crate::console::warning;
use crate::error::Error;
use crate::error::Result;
use jostle_host::sys::own;
use jostle_host::sys::pidfd::PidFd;
use jostle_host::sys::process;
use nix::sys::signal::Signal;
use std::io::Read;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;

/// How long a hook may take unless told otherwise.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(120);
/// In the environment of a hook, where the target is known.
const TARGET_PID: &str = "JOSTLE_TARGET_PID";
/// Longest sleep between two looks at a hook, the target and the interrupt flag.
const NAP: Duration = Duration::from_millis(20);

/// What to do after the target started and before its performance is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmUp {
    Wait(Duration),
    /// A shell command.
    Run(String),
}

/// Shell commands around a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hooks {
    /// Before the target starts.
    pub setup: Option<String>,
    pub warm_up: Option<WarmUp>,
    /// At the end, whatever happened.
    pub teardown: Option<String>,
    /// How long each command may take.
    pub limit: Duration,
    /// Passes what they print on to our standard error.
    pub show_output: bool,
}

impl Default for Hooks {
    fn default() -> Hooks {
        Hooks {
            setup: None,
            warm_up: None,
            teardown: None,
            limit: DEFAULT_LIMIT,
            show_output: false,
        }
    }
}

impl Hooks {
    /// What is done when, a line each; empty without hooks.
    pub fn describe(&self) -> String {
        let line = |when: &str, script: &String| format!("{when}: {script}\n");
        let setup = self.setup.as_ref().map(|script| line("set up", script));
        let warm_up = self.warm_up.as_ref().map(|warm_up| match warm_up {
            WarmUp::Wait(time) => format!("warm up: wait {} s\n", time.as_secs_f64()),
            WarmUp::Run(script) => line("warm up", script),
        });
        let teardown = self.teardown.as_ref();
        let teardown = teardown.map(|script| line("tear down", script));
        [setup, warm_up, teardown].into_iter().flatten().collect()
    }

    fn any(&self) -> bool {
        self.setup.is_some() || self.warm_up.is_some() || self.teardown.is_some()
    }

    /// Sets up. Whatever happens from now on, even to us, the tear-down runs
    /// when the value is dropped or we are killed. `target` is its process where
    /// that is known already.
    ///
    /// # Errors
    /// An environment error when the set-up fails, with its last words; an
    /// interrupted error.
    pub fn begin(&self, target: Option<i32>, interrupt: &Arc<AtomicBool>) -> Result<ActiveHooks> {
        let mut around = ActiveHooks {
            hooks: self.clone(),
            interrupt: interrupt.clone(),
            target,
            guard: None,
            took: Duration::ZERO,
        };
        if !self.any() {
            return Ok(around);
        }
        around.guard = Some(Guard::of_hooks(self.teardown.as_deref(), self.limit)?);
        if let Some(script) = &self.setup {
            around.run("--setup", script, None)?;
        }
        Ok(around)
    }
}

/// Hooks that were begun. Dropping it tears down.
pub struct ActiveHooks {
    hooks: Hooks,
    interrupt: Arc<AtomicBool>,
    target: Option<i32>,
    guard: Option<Guard>,
    /// Time spent in hooks so far, which is not the measurement's.
    took: Duration,
}

impl ActiveHooks {
    /// Time spent in hooks so far.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Warms up the target, which must live on or have ended well.
    ///
    /// # Errors
    /// As [`Hooks::begin`], and when the target failed meanwhile.
    pub fn warm_up(&mut self, target: &mut Target) -> Result<()> {
        self.target = Some(target.pid());
        self.tell_guard(0);
        match self.hooks.warm_up.clone() {
            None => Ok(()),
            Some(WarmUp::Wait(time)) => {
                let began = Instant::now();
                while began.elapsed() < time {
                    std::thread::sleep(NAP.min(time.saturating_sub(began.elapsed())));
                    self.check(Some(target))?;
                }
                self.took += began.elapsed();
                Ok(())
            }
            Some(WarmUp::Run(script)) => self.run("--warmup", &script, Some(target)),
        }
    }

    fn check(&self, target: Option<&mut Target>) -> Result<()> {
        if self.interrupt.load(Relaxed) {
            return Err(Error::Interrupted(" before anything was measured".into()));
        }
        match target {
            Some(target) => match target.state() {
                State::Exited(exit) if !exit.success() || !target.is_ours() => {
                    Err(target.gone(exit))
                }
                _ => Ok(()),
            },
            None => Ok(()),
        }
    }

    fn tell_guard(&self, group: i32) {
        if let Some(guard) = &self.guard {
            guard.tear_down(group, self.target.unwrap_or(0));
        }
    }

    fn run(&mut self, flag: &str, script: &str, mut target: Option<&mut Target>) -> Result<()> {
        let began = Instant::now();
        let check = || self.check(target.as_deref_mut());
        let outcome = self.run_hook(script, |group| self.tell_guard(group), check);
        self.tell_guard(0);
        self.took += began.elapsed();
        match outcome? {
            None => Ok(()),
            Some(problem) => Err(Error::environment(format!("{flag} '{script}' {problem}"))),
        }
    }

    /// Runs `script` to its end, with `started` told its group; what went wrong
    /// with it, if anything did.
    ///
    /// # Errors
    /// That of `check`, asked now and then.
    fn run_hook(
        &self,
        script: &str,
        started: impl FnOnce(i32),
        check: impl FnMut() -> Result<()>,
    ) -> Result<Option<String>> {
        self.tell_guard(0);
        let mut hook = match Hook::start(script, self.target, self.hooks.show_output) {
            Ok(hook) => hook,
            Err(error) => return Ok(Some(format!("cannot be started: {error}"))),
        };
        started(hook.group());
        hook.go();
        Ok(match hook.watch(self.hooks.limit, check)? {
            Ended::Status(status) if status.success() => None,
            ended => Some(format!("{ended}{}", hook.last_words())),
        })
    }
}

impl Drop for ActiveHooks {
    fn drop(&mut self) {
        if let Some(script) = &self.hooks.teardown {
            // Not given up on Ctrl-C: it is what cleans up after one. Nor does the
            // guard end it.
            let problem = match self.run_hook(script, |_| {}, || Ok(())) {
                Ok(problem) => problem,
                Err(error) => Some(error.to_string()),
            };
            if let Some(problem) = problem {
                warning!("--teardown '{script}' {problem}");
            }
        }
        if let Some(guard) = &self.guard {
            guard.relax();
        }
    }
}

/// Runs `script` to its end, for a guard.
pub(super) fn run_alone(script: &str, target: Option<i32>, limit: Duration) -> std::io::Result<()> {
    let mut hook = Hook::start(script, target, false)?;
    hook.go();
    let _ = hook.watch(limit, || Ok(()));
    Ok(())
}

/// How a hook ended.
enum Ended {
    Status(ExitStatus),
    /// Killed after this long.
    Late(Duration),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Status(status) => match (status.code(), status.signal()) {
                (Some(code), _) => write!(f, "failed with status {code}"),
                (None, Some(signal)) => write!(f, "was killed by signal {signal}"),
                (None, None) => write!(f, "failed"),
            },
            Ended::Late(limit) => write!(
                f,
                "was still running after {} s and was killed; raise --hook-timeout, or let it put \
                 what stays into the background",
                limit.as_secs_f64()
            ),
        }
    }
}

/// Runs a hook. Waits for a line on standard input, a socket, and ends where whoever
/// started it died instead, before a guard knew of it. Then runs `$1` as it would run
/// alone, says so, waits for an answer and ends as `$1` did. Meanwhile all that the hook
/// leaves behind hangs below it, also what lost its parent, its session and its
/// environment, as `su - postgres -c 'pg_ctl start'` does.
const AROUND: &str = r#"read -r _ || exit; /bin/sh -c "$1" </dev/null; status=$?; echo >&0; read -r _; exit $status"#;

/// A hook that runs, in a process group of its own.
struct Hook {
    child: Child,
    pidfd: PidFd,
    /// The other end of its standard input.
    line: UnixStream,
    stderr: Tail,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Hook {
    /// Starts the shell, which waits for [`Hook::go`].
    fn start(script: &str, target: Option<i32>, show: bool) -> std::io::Result<Hook> {
        let (line, theirs) = UnixStream::pair()?;
        line.set_nonblocking(true)?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", AROUND, "hook", script])
            .env(tree::MARKER, format!("hook-{}", std::process::id()))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(match show {
                true => {
                    Stdio::from(std::os::fd::AsFd::as_fd(&std::io::stderr()).try_clone_to_owned()?)
                }
                false => Stdio::null(),
            })
            .stderr(Stdio::piped());
        if let Some(target) = target {
            command.env(TARGET_PID, target.to_string());
        }
        let setup = process::ChildSetup {
            adopts: true,
            ..process::ChildSetup::default()
        };
        process::prepare(&mut command, setup);
        let mut child = command.spawn()?;
        let stderr = Tail::default();
        let stream = child.stderr.take();
        let reader = stream.map(|stream| output::drain(stream, Arc::new(stderr.clone()), show));
        let pidfd = PidFd::open(child.id() as i32);
        match (reader.transpose(), pidfd) {
            (Ok(reader), Ok(pidfd)) => Ok(Hook {
                child,
                pidfd,
                line,
                stderr,
                reader,
            }),
            (Err(error), _) | (_, Err(error)) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    fn group(&self) -> i32 {
        self.child.id() as i32
    }

    /// Lets the shell go on, which waits twice: until whoever would end its group knows
    /// it, and until what it leaves behind is noted.
    fn go(&mut self) {
        // It may have been killed meanwhile.
        let _ = self.line.write_all(b"\n");
    }

    /// Waits for its end; kills its group when `check` fails or the time is up.
    fn watch(&mut self, limit: Duration, mut check: impl FnMut() -> Result<()>) -> Result<Ended> {
        let began = Instant::now();
        let ended = loop {
            self.let_it_end();
            if self.pidfd.wait(NAP) {
                break None;
            }
            if let Err(error) = check() {
                break Some(Err(error));
            }
            if began.elapsed() >= limit {
                break Some(Ok(Ended::Late(limit)));
            }
        };
        if ended.is_some() {
            let _ = process::signal_group(self.group(), Signal::SIGKILL);
        }
        let status = self.child.wait();
        match ended {
            Some(ended) => ended,
            None => status.map(Ended::Status).map_err(|error| {
                Error::environment(format!("the end of a hook cannot be read: {error}"))
            }),
        }
    }

    /// Where the script has ended: what it left running is noted as nobody's target,
    /// whoever adopts it.
    fn let_it_end(&mut self) {
        if !matches!(self.line.read(&mut [0; 8]), Ok(1..)) {
            return;
        }
        for pid in tree::descendants(self.group()) {
            if let Some(stat) = tree::stat(pid) {
                own::leave(pid, stat.start);
            }
        }
        self.go();
    }

    fn last_words(&self) -> String {
        if let Some(reader) = &self.reader {
            // It ended just now; what it said last may still be in the pipe.
            super::poll(Duration::from_millis(200), || reader.is_finished());
        }
        output::last_words(&self.stderr.text())
    }
}
