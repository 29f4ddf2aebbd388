//! What is profiled or counted, from flags.

use super::select;
use crate::error::Result;
use crate::inject::plan::Limits;
use crate::machine::Machine;
use crate::target::CommandSpec;
use crate::target::TargetSpec;
use crate::target::demo;

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("target").required(true))]
pub struct TargetArgs {
    /// The command to start
    #[arg(last = true, group = "target", value_name = "CMD")]
    command: Vec<String>,
    /// Attach to a running process; it is left as it was found
    #[arg(long, group = "target")]
    pid: Option<i32>,
    /// A built-in demo; `jostle demo --list` shows them
    #[arg(long, group = "target", value_name = "NAME")]
    demo: Option<String>,

    /// CPUs the target is given, like 0-2,5 [default: the allowed one
    /// that devices interrupt least]
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Pass on what the target prints, to standard error
    #[arg(long)]
    show_output: bool,
}

impl TargetArgs {
    /// What to start or attach to. `limits` tell a demo how large to be.
    ///
    /// # Errors
    /// A request error naming the flag.
    pub fn spec(&self, limits: &Limits) -> Result<TargetSpec> {
        Ok(match (&self.demo, self.pid) {
            (Some(name), _) => TargetSpec::Demo {
                name: demo::find(name)?.name.to_string(),
                options: demo_options(name, limits)?,
            },
            (None, Some(pid)) => TargetSpec::Pid(pid),
            (None, None) => TargetSpec::Command(CommandSpec {
                show_output: self.show_output,
                ..CommandSpec::new(self.command.iter().cloned())
            }),
        })
    }

    /// CPUs of the target; see [`select::target_cpus`].
    ///
    /// # Errors
    /// A request error naming the flag or the process.
    pub fn cpus(&self, machine: &Machine, spec: &TargetSpec) -> Result<Vec<usize>> {
        select::target_cpus(machine, spec, self.cpus.as_deref())
    }
}

/// What a demo must know of our limits to need its resource within them.
fn demo_options(name: &str, limits: &crate::inject::plan::Limits) -> Result<Vec<String>> {
    let mut options = Vec::new();
    match demo::find(name)?.name {
        // Its file must be larger than what the source always leaves free.
        "memory-capacity" => {
            options.push("--size".into());
            options.push((2 * (limits.memory_reserve_bytes >> 20)).to_string());
        }
        "storage-bandwidth" => {}
        _ => return Ok(options),
    }
    if let Ok(directory) = &limits.scratch {
        options.push("--scratch".into());
        options.push(directory.to_string_lossy().into_owned());
    }
    Ok(options)
}

/// A file name for the profile of `spec`.
pub fn file_stem(spec: &TargetSpec) -> String {
    match spec {
        TargetSpec::Demo { name, .. } => format!("demo-{name}"),
        TargetSpec::Pid(pid) => format!("pid-{pid}"),
        TargetSpec::Command(command) => command
            .argv
            .first()
            .and_then(|program| std::path::Path::new(program).file_name())
            .map_or_else(
                || "target".into(),
                |name| name.to_string_lossy().into_owned(),
            ),
    }
}
