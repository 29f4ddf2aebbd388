//! What is profiled or counted, from flags.

use super::select;
use jostle_host::inject::plan::Limits;
use jostle_host::machine::Machine;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::experiment::demos;
use jostle_measure::experiment::place;
use jostle_measure::experiment::place::CpuChoice;
use jostle_measure::experiment::place::TargetCpus;
use jostle_measure::workload::CommandSpec;
use jostle_measure::workload::TargetSpec;
use jostle_measure::workload::cgroup;
use jostle_measure::workload::cgroup::CgroupSpec;
use jostle_measure::workload::cgroup::Hierarchies;
use jostle_measure::workload::demo;
use jostle_profile::cpulist::format_list;
use std::num::NonZeroUsize;
use std::path::Path;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("target").required(true))]
#[command(next_help_heading = "Target")]
pub struct TargetArgs {
    /// The command to start
    #[arg(last = true, group = "target", value_name = "CMD")]
    command: Vec<String>,
    /// Attach to a running process, with all that descends from it; it is left
    /// as it was found
    #[arg(long, group = "target")]
    pid: Option<i32>,
    /// Attach to everything in a cgroup (v1 or v2): a path as in
    /// /proc/PID/cgroup, or a directory
    #[arg(long, group = "target", value_name = "PATH")]
    cgroup: Option<String>,
    /// Attach to a container of Docker, containerd, CRI-O or Podman: its id,
    /// the beginning of one, or its name
    #[arg(long, group = "target", value_name = "ID|NAME")]
    container: Option<String>,
    /// Attach to a systemd unit, service or scope
    #[arg(long, group = "target", value_name = "NAME")]
    unit: Option<String>,
    /// A built-in demo; `jostle demo --list` shows them
    #[arg(long, group = "target", value_name = "NAME")]
    demo: Option<String>,
    /// Percent of its resource that the demo uses, instead of all it gets
    #[arg(long, value_name = "PERCENT", requires = "demo")]
    demo_share: Option<f64>,

    /// CPUs the target is given, like 0-2,5 [default, by a short trial run: a
    /// command that keeps one thread busy gets the CPU that devices interrupt
    /// least; one that keeps several busy gets as many, and leaves one free
    /// where two remain]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Directory the command runs in [default: here]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Variable added to the command's environment, KEY=VALUE; may be repeated
    #[arg(long = "env", value_name = "KEY=VALUE")]
    environment: Vec<String>,
    /// Copies of the command to start, stop and end together
    #[arg(long, value_name = "N")]
    instances: Option<usize>,
    /// Pass on what the target and the hooks print, to standard error
    #[arg(long)]
    pub show_output: bool,
}

/// More copies than this are a slip of the finger.
const MOST_INSTANCES: usize = 1024;

impl TargetArgs {
    /// What to start or attach to. `limits` tell a demo how large to be.
    ///
    /// # Errors
    /// A request error naming the flag; an environment error where there are no
    /// cgroups.
    pub fn spec(&self, limits: &Limits) -> Result<TargetSpec> {
        if let (Some(flag), true) = (self.for_commands(), self.command.is_empty()) {
            return Err(Error::request(format!(
                "{flag}: only for a command given after --, which jostle starts itself"
            )));
        }
        if let Some(name) = &self.demo {
            // The demo itself is kept to its CPUs and would take them for another
            // machine.
            let share = self.demo_share.map(|percent| {
                let demo = demo::find(name)?;
                demo.share(percent, super::demo::calibrated_peak)
            });
            return demos::target(name, limits, share.transpose()?);
        }
        if let Some(pid) = self.pid {
            return Ok(TargetSpec::Pid(pid));
        }
        match self.cgroup()? {
            Some(spec) => Ok(TargetSpec::Cgroup(spec)),
            None => Ok(TargetSpec::Command(self.command_spec()?)),
        }
    }

    /// The first given flag that only a command obeys.
    fn for_commands(&self) -> Option<&'static str> {
        [
            ("--cwd", self.cwd.is_some()),
            ("--env", !self.environment.is_empty()),
            ("--instances", self.instances.is_some()),
        ]
        .iter()
        .find_map(|(flag, given)| given.then_some(*flag))
    }

    fn cgroup(&self) -> Result<Option<CgroupSpec>> {
        let (flag, given) = match (&self.cgroup, &self.container, &self.unit) {
            (Some(path), _, _) => ("--cgroup", path),
            (_, Some(container), _) => ("--container", container),
            (_, _, Some(unit)) => ("--unit", unit),
            (None, None, None) => return Ok(None),
        };
        let hierarchies = Hierarchies::here()
            .map_err(|reason| Error::environment(format!("{flag} {given}: {reason}")))?;
        match flag {
            "--cgroup" => cgroup::resolve(&hierarchies, given),
            "--container" => {
                let home = std::env::var_os("HOME").map(PathBuf::from);
                cgroup::container::resolve(&hierarchies, Path::new("/"), home.as_deref(), given)
            }
            _ => cgroup::unit::resolve(&hierarchies, given),
        }
        .map(Some)
    }

    fn command_spec(&self) -> Result<CommandSpec> {
        let count = self.instances.unwrap_or(1);
        let instances = NonZeroUsize::new(count)
            .filter(|instances| instances.get() <= MOST_INSTANCES)
            .ok_or_else(|| {
                Error::request(format!(
                    "--instances {count}: give a number from 1 to {MOST_INSTANCES}"
                ))
            })?;
        let environment = self.environment.iter();
        let environment =
            environment.map(|entry| select::key_value("--env", entry, "OMP_NUM_THREADS=1"));
        Ok(CommandSpec {
            directory: self.cwd.clone(),
            environment: environment.collect::<Result<_>>()?,
            instances,
            show_output: self.show_output,
            ..CommandSpec::new(self.command.iter().cloned())
        })
    }

    /// Whether there is a target at all.
    pub fn given(&self) -> bool {
        let named = [&self.cgroup, &self.container, &self.unit, &self.demo];
        let named = named.iter().any(|name| name.is_some());
        named || self.pid.is_some() || !self.command.is_empty()
    }

    /// CPUs of the target: as asked; for what runs already, those that its
    /// busiest threads run on and that are allowed to us; for a command, what a
    /// trial run will tell; else the allowed one that devices interrupt least.
    /// With `loaded` the load has a CPU, too.
    ///
    /// # Errors
    /// A request error naming the flag or the process.
    pub fn cpus(&self, machine: &Machine, spec: &TargetSpec, loaded: bool) -> Result<TargetCpus> {
        let given = self.cpus.as_deref();
        let given = given
            .map(|list| select::allowed("--cpus", list, machine))
            .transpose()?;
        if let Some(own) = spec.own_cpus()? {
            let what = match spec {
                TargetSpec::Pid(pid) => format!("process {pid}"),
                TargetSpec::Cgroup(cgroup) => format!("what is in {}", cgroup.directory.display()),
                TargetSpec::Command(_) | TargetSpec::Demo { .. } => String::new(),
            };
            let shown = format_list(&own);
            if given.as_ref().is_some_and(|given| *given != own) {
                return Err(Error::request(format!(
                    "--cpus: {what} runs on CPUs {shown} and is left as it is; leave --cpus out, \
                     or move it yourself with taskset -pc"
                )));
            }
            let mut within = own;
            within.retain(|cpu| machine.allowed_cpus.contains(cpu));
            return match (within.is_empty(), spec.scope()) {
                (false, _) if given.is_some() => Ok(asked(within)),
                (false, Some(scope)) => Ok(place::watched(machine, spec, &scope, within)),
                _ => Err(Error::environment(format!(
                    "{what} runs on CPUs {shown}, outside of {} that jostle may use",
                    format_list(&machine.allowed_cpus)
                ))),
            };
        }
        match (given, spec) {
            (Some(cpus), _) => Ok(asked(cpus)),
            (None, TargetSpec::Command(_)) => place::before_trial(machine, loaded),
            (None, TargetSpec::Demo { name, .. }) => demos::cpus(machine, demo::find(name)?.cpus),
            (None, _) => place::quiet_cpu(machine, "nothing is known of its threads"),
        }
    }
}

fn asked(cpus: Vec<usize>) -> TargetCpus {
    let choice = CpuChoice::asked("--cpus");
    TargetCpus { cpus, choice }
}

/// A file name for the profile of `spec`.
pub fn file_stem(spec: &TargetSpec) -> String {
    match spec {
        TargetSpec::Demo { name, .. } => format!("demo-{name}"),
        TargetSpec::Pid(pid) => format!("pid-{pid}"),
        TargetSpec::Cgroup(spec) => spec.name.clone(),
        TargetSpec::Command(command) => command
            .argv
            .first()
            .and_then(|program| Path::new(program).file_name())
            .map_or("target".into(), |name| name.to_string_lossy().into()),
    }
}
