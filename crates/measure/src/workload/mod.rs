//! What is profiled: a command we start, a process or a cgroup we attach to, a
//! built-in demo. Whatever happens to us, a target we started ends with its whole
//! group, and one we attached to is left exactly as it was found.

pub mod activity;
mod bystander;
pub mod cgroup;
mod command;
mod confine;
pub mod demo;
mod guard;
mod hold;
mod hold_error;
pub mod hooks;
mod inside;
mod output;
mod pid;
mod progress;
mod published;
pub mod redact;
mod scope;
mod shield;
pub mod tree;

pub use bystander::Bystander;
pub use command::BeforeProgram;
pub use guard::Outcome;
pub use guard::Released;
pub use guard::executable;
pub use guard::release;
pub use guard::release_all;
pub use guard::watch;
pub use jostle_host::sys::process::set_executable;
pub use output::OutputSink;
pub(crate) use output::printable;
pub use progress::Progress;
pub use published::Published;
pub use scope::Finder;
pub use scope::Scope;
pub use shield::Shield;

use crate::error::Error;
use crate::error::Result;
use cgroup::CgroupSpec;
use command::Started;
use confine::Confinement;
use hold_error::HoldError;
use inside::Inside;
use jostle_host::sys::cpus;
use pid::Attached;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A command to start as the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    pub argv: Vec<String>,
    /// Where it runs; `None`: here.
    pub directory: Option<PathBuf>,
    /// Added to our environment; the last of several values counts.
    pub environment: Vec<(String, String)>,
    /// How many of it are started, stopped and ended together.
    pub instances: NonZeroUsize,
    /// Passes what it prints on to our standard error.
    pub show_output: bool,
}

impl Default for CommandSpec {
    fn default() -> CommandSpec {
        CommandSpec {
            argv: Vec::new(),
            directory: None,
            environment: Vec::new(),
            instances: NonZeroUsize::MIN,
            show_output: false,
        }
    }
}

impl CommandSpec {
    pub fn new<T: Into<String>>(argv: impl IntoIterator<Item = T>) -> CommandSpec {
        CommandSpec {
            argv: argv.into_iter().map(Into::into).collect(),
            ..CommandSpec::default()
        }
    }
}

/// What to profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetSpec {
    /// A command to start.
    Command(CommandSpec),
    /// A running process.
    Pid(i32),
    /// Everything inside a cgroup.
    Cgroup(CgroupSpec),
    /// `jostle demo NAME OPTIONS…`.
    Demo { name: String, options: Vec<String> },
}

impl TargetSpec {
    /// Whether there is such a target, as far as can be told without starting
    /// it, so that a wrong request costs no preparations.
    ///
    /// # Errors
    /// A request error naming the command or the process.
    pub fn check(&self) -> Result<()> {
        match self {
            TargetSpec::Command(command) => command::check(command),
            TargetSpec::Pid(pid) => Attached::check(*pid),
            TargetSpec::Cgroup(spec) => inside::check(spec),
            TargetSpec::Demo { name, .. } => demo::find(name).map(|_| ()),
        }
    }

    /// Whether it runs already, so that it is left as it was found.
    pub fn is_attached(&self) -> bool {
        matches!(self, TargetSpec::Pid(_) | TargetSpec::Cgroup(_))
    }

    /// What would be attached to and how it would be stopped, for a cgroup.
    pub fn describe(&self) -> Option<String> {
        match self {
            TargetSpec::Cgroup(spec) => Some(inside::describe(spec)),
            TargetSpec::Command(command) if command.instances.get() > 1 => {
                Some(format!("{} instances of the command", command.instances))
            }
            _ => None,
        }
    }

    /// The process it is about, where that is known before it is started.
    pub fn pid(&self) -> Option<i32> {
        match self {
            TargetSpec::Pid(pid) => Some(*pid),
            TargetSpec::Cgroup(spec) => cgroup::processes(&spec.directory).ok()?.first().copied(),
            TargetSpec::Command(_) | TargetSpec::Demo { .. } => None,
        }
    }

    /// What belongs to it; `None` for one that is yet to be started.
    pub fn scope(&self) -> Option<Scope> {
        match self {
            TargetSpec::Pid(pid) => Some(Scope::Processes(vec![*pid])),
            TargetSpec::Cgroup(spec) => Some(Scope::Cgroup(spec.directory.clone())),
            TargetSpec::Command(_) | TargetSpec::Demo { .. } => None,
        }
    }

    /// Logical CPUs that its threads may run on, as narrow as their cpusets are;
    /// `None` for one that is yet to be started.
    ///
    /// # Errors
    /// A request error when it is not there.
    pub fn own_cpus(&self) -> Result<Option<Vec<usize>>> {
        let (cpus, asked) = match self {
            TargetSpec::Pid(pid) => (pid::own_cpus(*pid), format!("--pid {pid}")),
            TargetSpec::Cgroup(spec) => (inside::own_cpus(spec), spec.asked.clone()),
            TargetSpec::Command(_) | TargetSpec::Demo { .. } => return Ok(None),
        };
        if cpus.is_empty() {
            // It tells better why.
            self.check()?;
            return Err(Error::request(format!("{asked}: cannot read its CPUs")));
        }
        Ok(Some(cpus))
    }
}

/// What a target is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    Stopped,
    Exited(Exit),
}

/// How a target ended; neither is known of a process that we attached to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Which of how many instances failed, from 1; `None` when there is one.
    pub instance: Option<(usize, usize)>,
}

impl Exit {
    /// True unless it is known to have failed.
    pub fn success(&self) -> bool {
        self.signal.is_none() && self.code.unwrap_or(0) == 0
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((number, count)) = self.instance {
            write!(f, "(instance {number} of {count}) ")?;
        }
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with status {code}"),
            (None, Some(number)) => match nix::sys::signal::Signal::try_from(number) {
                Ok(signal) => write!(f, "was killed by {signal}"),
                Err(_) => write!(f, "was killed by signal {number}"),
            },
            (None, None) => write!(f, "ended"),
        }
    }
}

/// The target. Dropping it ends what we started and lets go on what we
/// stopped.
pub struct Target {
    name: String,
    command: Vec<String>,
    /// Given back before the rest ends.
    confinement: Option<Confinement>,
    kind: Kind,
}

enum Kind {
    Started(Started),
    Attached(Attached),
    Inside(Inside),
}

/// Longest wait for a stop or continue signal to take effect.
const SIGNAL_LIMIT: Duration = Duration::from_secs(1);

impl Target {
    /// Starts or attaches to the target. `cpus` pins a started one; an attached
    /// one must already keep to them. `stdout` receives what a started target
    /// prints; without it nothing of that is read.
    ///
    /// # Errors
    /// A request error for a command that does not exist or a process that
    /// cannot be a target, an environment error when the system refuses.
    pub fn start(
        spec: &TargetSpec,
        cpus: Option<&[usize]>,
        stdout: Option<Arc<dyn OutputSink>>,
    ) -> Result<Target> {
        let (name, command, kind) = match spec {
            TargetSpec::Command(command) => {
                let started = Started::start(command.clone(), cpus, stdout)?;
                let program = Path::new(&command.argv[0]);
                let name = program.file_name().unwrap_or(program.as_os_str());
                let name = name.to_string_lossy().into_owned();
                (name, command.argv.clone(), Kind::Started(started))
            }
            TargetSpec::Demo { name, options } => {
                let demo = demo::find(name)?;
                let mut argv = vec![
                    guard::executable()?.to_string_lossy().into_owned(),
                    "demo".into(),
                    demo.name.into(),
                ];
                argv.extend(options.iter().cloned());
                let started = Started::start(CommandSpec::new(argv.clone()), cpus, stdout)?;
                (format!("demo {}", demo.name), argv, Kind::Started(started))
            }
            TargetSpec::Pid(pid) => {
                let attached = Attached::attach(*pid, cpus)?;
                let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
                let name = printable(&name).trim().to_string();
                (name, tree::command_line(*pid), Kind::Attached(attached))
            }
            TargetSpec::Cgroup(spec) => {
                let inside = Inside::attach(spec)?;
                let command = tree::command_line(inside.pid);
                (spec.name.clone(), command, Kind::Inside(inside))
            }
        };
        Ok(Target {
            name,
            command: redact::command(command),
            confinement: None,
            kind,
        })
    }

    /// Process id of the target, of its (first) leader, or of the first process
    /// of a cgroup. Changes with [`Target::restart`].
    pub fn pid(&self) -> i32 {
        match &self.kind {
            Kind::Started(started) => started.pid(),
            Kind::Attached(attached) => attached.pid,
            Kind::Inside(inside) => inside.pid,
        }
    }

    /// What belongs to it now. Changes with [`Target::restart`].
    pub fn scope(&self) -> Scope {
        match &self.kind {
            Kind::Started(started) => Scope::Processes(started.leaders()),
            Kind::Attached(attached) => Scope::Processes(attached.roots()),
            Kind::Inside(inside) => Scope::Cgroup(inside.spec.directory.clone()),
        }
    }

    /// Finds its processes from another thread, however often it is started
    /// again.
    pub fn finder(&self) -> Finder {
        match &self.kind {
            Kind::Started(started) => Finder::Marked(started.marker().to_string()),
            Kind::Attached(_) | Kind::Inside(_) => Finder::Scope(self.scope()),
        }
    }

    /// Why it may not be stopped and continued, if it may not.
    pub fn unstoppable(&self) -> Option<String> {
        match &self.kind {
            // One we may not signal is refused; what we started is ours.
            Kind::Started(_) | Kind::Attached(_) => None,
            Kind::Inside(inside) => inside.unstoppable.clone(),
        }
    }

    /// A short name: the command's file name, the process's own, `demo NAME`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The command line, without what looks like a secret.
    pub fn command(&self) -> Vec<String> {
        self.command.clone()
    }

    /// Whether we started it (and end it).
    pub fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Started(_))
    }

    /// Logical CPUs it may run on, ascending: of one that was started those of
    /// its leader, else those of all its threads.
    ///
    /// # Errors
    /// An environment error when it is gone.
    pub fn cpus(&self) -> Result<Vec<usize>> {
        let own = match &self.kind {
            Kind::Started(_) => Vec::new(),
            Kind::Attached(attached) => pid::own_cpus(attached.pid),
            Kind::Inside(inside) => inside::own_cpus(&inside.spec),
        };
        if !own.is_empty() {
            return Ok(own);
        }
        cpus::affinity(self.pid()).map_err(|error| {
            Error::environment(format!(
                "cannot read the CPUs of {} (process {}): {error}",
                self.name(),
                self.pid()
            ))
        })
    }

    /// Lets its threads run on `cpus` only, those that it starts later too, until the
    /// next call. What was not started by us gets back what it had when the target is
    /// dropped; what we started begins every further run on `cpus`.
    ///
    /// # Errors
    /// An environment error when it is gone or the system refuses.
    pub fn confine(&mut self, cpus: &[usize]) -> Result<()> {
        let refused = |name: &str, error: std::io::Error| {
            let list = jostle_profile::cpulist::format_list(cpus);
            Error::environment(format!("cannot keep {name} to CPUs {list}: {error}"))
        };
        let scope = self.scope();
        if self.confinement.is_none() {
            let usual = match &self.kind {
                // It may have ended, to be started again.
                Kind::Started(started) if started.begins_on().is_some() => {
                    Ok(started.begins_on().unwrap_or_default().to_vec())
                }
                _ => cpus::affinity(self.pid()),
            };
            let usual = usual.map_err(|error| refused(&self.name, error))?;
            self.confinement = Some(Confinement::new(scope.clone(), usual));
        }
        if let Kind::Started(started) = &mut self.kind {
            started.begin_on(cpus);
        }
        if let Some(confinement) = &mut self.confinement {
            confinement.follow(scope.clone());
            let applied = match &self.kind {
                Kind::Started(started) => confinement.apply(|| started.processes(), cpus),
                Kind::Attached(_) | Kind::Inside(_) => {
                    confinement.apply(|| scope.processes(), cpus)
                }
            };
            applied.map_err(|error| refused(&self.name, error))?;
        }
        Ok(())
    }

    /// What it is doing now.
    pub fn state(&mut self) -> State {
        match &mut self.kind {
            Kind::Started(started) => started.state(),
            Kind::Attached(attached) => attached.state(),
            Kind::Inside(inside) => inside.state(),
        }
    }

    /// Holds it and its group until [`Target::cont`]; returns once it stands.
    ///
    /// # Errors
    /// An environment error when it ended or does not stop; it then runs on.
    pub fn stop(&mut self) -> Result<()> {
        let held = match &mut self.kind {
            Kind::Started(started) => started.stop(),
            Kind::Attached(attached) => attached.stop(),
            Kind::Inside(inside) => inside.stop(),
        };
        held.map_err(|reason| match (&self.kind, reason) {
            (Kind::Inside(inside), HoldError::Exited(_)) => Error::environment(inside.end()),
            (_, reason) => Error::environment(format!("the target {} {reason}", self.name)),
        })
    }

    /// Lets everything go on that [`Target::stop`] held.
    pub fn cont(&mut self) -> Result<()> {
        let hold = match &mut self.kind {
            Kind::Started(started) => {
                started.cont();
                return Ok(());
            }
            Kind::Attached(attached) => &mut attached.hold,
            Kind::Inside(inside) => &mut inside.hold,
        };
        let released = hold.release();
        released.map_err(|reason| Error::environment(format!("the target {}: {reason}", self.name)))
    }

    /// Ends the command if it still runs, and starts it anew.
    ///
    /// # Errors
    /// A request error for a process that we only attached to.
    pub fn restart(&mut self) -> Result<()> {
        self.restart_after(|| {})
    }

    /// As [`Target::restart`]; `between` is called when the last run has ended and the next
    /// has not begun: what is counted until then is not of that.
    ///
    /// # Errors
    /// Those of [`Target::restart`].
    pub fn restart_after(&mut self, between: impl FnOnce()) -> Result<()> {
        match &mut self.kind {
            Kind::Started(started) => started.restart(between),
            Kind::Attached(_) | Kind::Inside(_) => Err(Error::request(
                "what was not started by jostle (--pid, --cgroup, --container, --unit) cannot be started again; give the command after -- instead",
            )),
        }
    }

    /// What is started again is another command, one that was checked.
    pub fn run_next(&mut self, command: CommandSpec) {
        if let Kind::Started(started) = &mut self.kind {
            self.command = redact::command(command.argv.clone());
            started.run_next(command);
        }
    }

    /// Does `what` to each process that is started again, before its program begins, from
    /// another thread; nothing with `None`, and for what we only attached to.
    pub fn before_program(&mut self, what: Option<BeforeProgram>) {
        if let Kind::Started(started) = &mut self.kind {
            started.before_program(what);
        }
    }

    /// What is started again publishes its progress on another page of memory: where a
    /// page lies may decide how fast it can be written.
    pub fn renew_page(&mut self) {
        if let Kind::Started(started) = &mut self.kind {
            started.renew_page();
        }
    }

    /// Starts a command that has ended again, so that it keeps running.
    ///
    /// # Errors
    /// An environment error when it failed, naming status and last words.
    pub fn keep_running(&mut self) -> Result<()> {
        match self.state() {
            State::Exited(exit) if exit.success() && self.is_ours() => self.restart(),
            State::Exited(exit) => Err(self.gone(exit)),
            _ => Ok(()),
        }
    }

    /// Waits for its end, at most `limit`.
    pub fn wait(&mut self, limit: Duration) -> Option<Exit> {
        match &mut self.kind {
            Kind::Started(started) => started.wait(limit),
            Kind::Attached(attached) => attached.wait(limit),
            Kind::Inside(inside) => inside.wait(limit),
        }
    }

    /// How long the last run of a command took that has ended, from just before
    /// it was started; `None` while it runs and for attached processes.
    pub fn ran_for(&self) -> Option<Duration> {
        match &self.kind {
            Kind::Started(started) => started.ran_for(),
            Kind::Attached(_) | Kind::Inside(_) => None,
        }
    }

    /// How many runs of a command that was started again had ended by themselves.
    pub fn ended_runs(&self) -> u64 {
        match &self.kind {
            Kind::Started(started) => started.ended_runs(),
            Kind::Attached(_) | Kind::Inside(_) => 0,
        }
    }

    /// How long ago the last run of a command ended; `None` while it runs and for
    /// attached processes.
    pub fn ended_for(&self) -> Option<Duration> {
        match &self.kind {
            Kind::Started(started) => started.ended_for(),
            Kind::Attached(_) | Kind::Inside(_) => None,
        }
    }

    /// The last few KiB it wrote to standard error, made printable.
    pub fn stderr_tail(&self) -> String {
        match &self.kind {
            Kind::Started(started) => started.stderr_tail(),
            Kind::Attached(_) | Kind::Inside(_) => String::new(),
        }
    }

    /// The error that tells of an end nobody expected.
    pub fn gone(&self, exit: Exit) -> Error {
        if let Kind::Inside(inside) = &self.kind {
            return Error::environment(inside.end());
        }
        let tail = output::last_words(&self.stderr_tail());
        let advice = match (&self.kind, exit.code) {
            // What fails usually says why; some programs answer by their status.
            (Kind::Started(_), Some(code)) if code != 0 && tail.is_empty() => {
                let name = self.name();
                format!(
                    " and said nothing on standard error; if status {code} is no failure of \
                     {name}, run it as: sh -c '… || true'"
                )
            }
            _ => String::new(),
        };
        let name = self.name();
        Error::environment(format!("the target {name} {exit}{advice}{tail}"))
    }

    /// [`Target::gone`] when it, or one of its instances, has ended.
    pub fn check_alive(&mut self) -> Result<()> {
        if let State::Exited(exit) = self.state() {
            return Err(self.gone(exit));
        }
        if let Kind::Started(started) = &mut self.kind
            && let Some(exit) = started.partly_ended()
        {
            return Err(self.gone(exit));
        }
        Ok(())
    }

    /// Ends what we started, lets go on what we stopped. Dropping does the same.
    pub fn finish(self) {}
}

/// Polls `done`, at most `limit`; true when it held. At first every 50 µs, then every
/// quarter of the time that has passed, and every 2 ms: what takes long is not asked
/// often, and what is done is seen soon.
fn poll(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let began = std::time::Instant::now();
    loop {
        if done() {
            return true;
        }
        let passed = began.elapsed();
        if passed >= limit {
            return false;
        }
        let pause = passed / 4;
        let pause = pause.clamp(Duration::from_micros(50), Duration::from_millis(2));
        std::thread::sleep(pause);
    }
}
