//! From flags to CPUs, resources and limits.

use super::network;
use super::network::NetworkArgs;
use crate::report;
use jostle_host::inject::pattern;
use jostle_host::inject::plan::Limits;
use jostle_host::inject::plan::SCRATCH_BYTES;
use jostle_host::inject::plan::default_reserve;
use jostle_host::inject::slice::PERIODS;
use jostle_host::inject::stall::DEFAULT_LIMIT;
use jostle_host::inject::stall::StallGuard;
use jostle_host::inject::worker::Slices;
use jostle_host::machine::Machine;
use jostle_host::machine::block_device_of;
use jostle_host::machine::calibration::Calibration;
use jostle_host::machine::format_bytes;
use jostle_host::machine::saved;
use jostle_host::machine::saved::Saved;
use jostle_kernels::Access;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::experiment::session::Request;
use jostle_measure::workload::TargetSpec;
use jostle_profile::cpulist::format_list;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Intensity;
use jostle_profile::resource::Resource;
use jostle_schedule::parse_memory;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// What the sources may take.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Available memory that is never touched, like 2GiB
    /// [default: 5 % of the memory, at least 512MiB]
    #[arg(long, value_parser = parse_memory, value_name = "SIZE")]
    pub memory_reserve: Option<u64>,
    /// Directory on the disk to press on, for an unlinked scratch file
    /// [default: here, else /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Size of that file [default: 256MiB]
    #[arg(long, value_parser = parse_memory, value_name = "SIZE")]
    pub scratch_size: Option<u64>,
    /// What storage-bandwidth asks of the disk: sequential, random, mail, or a
    /// TOML file with a Markov chain of I/Os (see scripts/patterns/mail.toml)
    #[arg(long, default_value = "sequential", value_name = "PATTERN")]
    pub storage_pattern: String,
    /// How the bandwidth sources access memory: load, store,
    /// non-temporal-store or copy
    #[arg(long, value_parser = parse_access, default_value = "load", value_name = "HOW")]
    pub access: Access,
    /// Back off when every task of the machine waits for memory more than this
    /// share of the time
    #[arg(long, default_value_t = DEFAULT_LIMIT, value_name = "PERCENT")]
    pub max_stall: f64,
    #[command(flatten)]
    pub network: NetworkArgs,
}

/// As without any of the flags.
impl Default for LimitArgs {
    fn default() -> Self {
        LimitArgs {
            memory_reserve: None,
            scratch: None,
            scratch_size: None,
            storage_pattern: "sequential".into(),
            access: Access::default(),
            max_stall: DEFAULT_LIMIT,
            network: NetworkArgs::default(),
        }
    }
}

fn parse_access(text: &str) -> std::result::Result<Access, String> {
    serde_json::from_value(serde_json::Value::from(text))
        .map_err(|_| "give load, store, non-temporal-store or copy".to_string())
}

impl LimitArgs {
    /// The first of these flags that was given.
    pub fn given(&self) -> Option<&'static str> {
        [
            ("--memory-reserve", self.memory_reserve.is_some()),
            ("--scratch", self.scratch.is_some()),
            ("--scratch-size", self.scratch_size.is_some()),
            ("--access", self.access != Access::default()),
        ]
        .iter()
        .find_map(|(flag, given)| given.then_some(*flag))
    }

    /// `cpus` is what was given for the CPUs of the workers, and by which flag.
    ///
    /// # Errors
    /// A request error naming the flag.
    pub fn resolve(&self, machine: &Machine, cpus: Option<(&str, &str)>) -> Result<Limits> {
        let (headroom, bound) = machine.memory_headroom_bytes();
        let limit = machine.cgroup.memory_limit_bytes.value().copied();
        let total = limit.map_or(machine.memory.total_bytes, |limit| {
            limit.min(machine.memory.total_bytes)
        });
        let reserve = self
            .memory_reserve
            .unwrap_or_else(|| default_reserve(total));
        if self.memory_reserve.is_some() && reserve >= headroom {
            return Err(Error::request(format!(
                "--memory-reserve: leaving {} alone leaves nothing to take of {} ({bound}); give less",
                format_bytes(reserve),
                format_bytes(headroom)
            )));
        }
        let cpus = match cpus {
            Some((flag, list)) => allowed(flag, list, machine)?,
            None => machine.allowed_cpus.clone(),
        };
        let scratch_bytes = self.scratch_size.unwrap_or(SCRATCH_BYTES);
        let storage_pattern = pattern::load(&self.storage_pattern)
            .map_err(|error| Error::request(format!("--storage-pattern: {error}")))?;
        Ok(Limits {
            cpus,
            memory_bytes: headroom.saturating_sub(reserve),
            most_filled_bytes: None,
            memory_reserve_bytes: reserve,
            scratch: self.directory(scratch_bytes),
            scratch_bytes,
            storage_pattern,
            llc_bytes: None,
            access: self.access,
            max_stall_percent: percent("--max-stall", self.max_stall, 0.0, 100.0)?,
            network: self.network.resolve()?,
        })
    }

    fn directory(&self, bytes: u64) -> std::result::Result<PathBuf, String> {
        let candidates: Vec<&Path> = match &self.scratch {
            Some(directory) => vec![directory],
            None => vec![Path::new("."), Path::new("/var/tmp")],
        };
        let mut reasons = Vec::new();
        for directory in candidates {
            match block_device_of(directory) {
                Reading::Value(_) if !writable(directory) => {
                    reasons.push(format!("{} cannot be written to", directory.display()));
                }
                Reading::Value(device) => match device.has_room(scratch_files(), bytes) {
                    Ok(()) => {
                        return directory
                            .canonicalize()
                            .map_err(|error| format!("{}: {error}", directory.display()));
                    }
                    Err(reason) => reasons.push(reason),
                },
                Reading::Unavailable { unavailable } => reasons.push(unavailable),
            }
        }
        Err(format!(
            "no place for a scratch file ({}); name one with --scratch",
            reasons.join("; ")
        ))
    }
}

/// Scratch files that are there at the same time at most: one of each source that
/// has one, and that of a demo or of a second copy of a source.
fn scratch_files() -> u64 {
    let of_disk = |resource: &&Resource| resource.row().domain == Domain::BlockDevice;
    Resource::ALL.iter().filter(of_disk).count() as u64 + 1
}

fn writable(directory: &Path) -> bool {
    use nix::unistd::AccessFlags;
    nix::unistd::access(directory, AccessFlags::W_OK | AccessFlags::X_OK).is_ok()
}

/// Parses a CPU list that must lie within the allowed set.
pub(super) fn allowed(flag: &str, list: &str, machine: &Machine) -> Result<Vec<usize>> {
    let chosen = jostle_profile::cpulist::parse_list(list)
        .map_err(|error| Error::request(format!("{flag}: {error}")))?;
    if chosen.is_empty() {
        return Err(Error::request(format!(
            "{flag}: the list is empty; give for example 0"
        )));
    }
    let outside = without(&chosen, &machine.allowed_cpus);
    match outside.is_empty() {
        true => Ok(chosen),
        false => Err(Error::request(format!(
            "{flag}: CPU {} is outside the allowed set {}",
            format_list(&outside),
            format_list(&machine.allowed_cpus)
        ))),
    }
}

/// Those of `cpus` that are not among `others`.
fn without(cpus: &[usize], others: &[usize]) -> Vec<usize> {
    let cpus = cpus.iter().copied();
    cpus.filter(|cpu| !others.contains(cpu)).collect()
}

/// The resources called `names`; all when there are none.
///
/// # Errors
/// A request error naming the unknown one and the known ones.
pub fn resources(names: &[String]) -> Result<Vec<Resource>> {
    if names.is_empty() {
        return Ok(Resource::ALL.to_vec());
    }
    let mut found: Vec<Resource> = Vec::new();
    for name in names {
        let resource = resource(name, "--resources")?;
        if !found.contains(&resource) {
            found.push(resource);
        }
    }
    Ok(found)
}

/// The resource called `name`.
///
/// # Errors
/// As [`resources`].
pub fn resource(name: &str, flag: &str) -> Result<Resource> {
    let parsed = name.trim().parse();
    parsed.map_err(|error| Error::request(format!("{flag}: {error}")))
}

/// A percentage within bounds.
///
/// # Errors
/// A request error naming the flag.
pub fn percent(flag: &str, value: f64, low: f64, high: f64) -> Result<f64> {
    match (low..=high).contains(&value) {
        true => Ok(value),
        false => Err(Error::request(format!(
            "{flag}: give a number from {low} to {high}"
        ))),
    }
}

/// Turns as sources take them unless something else is asked for.
pub fn default_slices() -> Slices {
    Slices::usual(PERIODS[0])
}

/// The parts of KEY=VALUE.
///
/// # Errors
/// A request error naming the flag, with `example`.
pub fn key_value(flag: &str, text: &str, example: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_string(), value.to_string())),
        _ => Err(Error::request(format!(
            "{flag} {text}: give KEY=VALUE, for example {example}"
        ))),
    }
}

/// What was calibrated on this machine, unless it is not wanted. A file that
/// cannot be used is named on standard error, with the fix; the reason comes back.
pub fn calibration(machine: &Machine, unwanted: bool) -> (Option<Calibration>, Option<String>) {
    if unwanted {
        return (None, None);
    }
    match saved::load(machine) {
        Saved::Found(calibration) => (Some(*calibration), None),
        Saved::Nothing(_) => (None, None),
        Saved::Ignored(reason) => {
            warning!("{reason}");
            (None, Some(reason))
        }
    }
}

/// What would be injected where.
pub fn dry_run(machine: &Machine, request: &Request) -> String {
    let period = request.slice_period.unwrap_or(PERIODS[0]);
    let plans = request.plans(machine, period);
    let limits = &request.limits;
    let mut text = format!(
        "target on CPUs {} ({})\n",
        format_list(&request.target_cpus),
        request.cpu_choice.because
    );
    if let Some(advice) = &request.cpu_choice.advice {
        text += &format!("{advice}\n");
    }
    if let Some(description) = request.spec.describe() {
        text += &format!("{description}\n");
    }
    text += &request.hooks.describe();
    if let Some(plan) = &request.load {
        text += &format!("{}\n", plan.describe());
    }
    text += &dry_run_limits(limits, request.settings.budget);
    for (resource, plan) in &plans.ready {
        let turns = match (resource.row().intensity, plan.config.slices) {
            (Intensity::Share, _) => {
                ", up to 100 % of the CPU, in competition with the target".to_string()
            }
            (_, None) => String::new(),
            (_, Some(_)) => {
                let share = request.share * 100.0;
                let period = match request.slice_period {
                    Some(period) => format!("every {} µs", period.as_micros()),
                    None => "of a calibrated period".to_string(),
                };
                format!(", {share:.0} % of the CPU in turns {period}")
            }
        };
        text += &format!(
            "{:<18} {} on CPUs {}{turns}: {}\n",
            resource.id(),
            report::mode(plan.placement.mode),
            format_list(&plan.placement.cpus),
            resource.row().summary
        );
    }
    for (resource, reason) in &plans.unavailable {
        text += &format!("{resource:<18} {reason}\n");
    }
    if request.metric_options.may_press
        && request.load.is_none()
        && matches!(request.spec, TargetSpec::Command(_))
        && matches!(request.metric.as_deref(), None | Some("progress:auto"))
    {
        text += "where a function to count is chosen, the target's CPUs are kept busy for some tenths of a second in all, to tell a clock from work\n";
    }
    if request.any_resources {
        text +=
            "what cannot matter in turns on one CPU, as the CPU shows first, is not pressed on\n";
    }
    text
}

/// What may be taken at most.
pub fn dry_run_limits(limits: &Limits, budget: Duration) -> String {
    let mut text = format!(
        "budget {:.0} s\nmemory: at most {} taken, {} always left\n",
        budget.as_secs_f64(),
        format_bytes(limits.memory_bytes),
        format_bytes(limits.memory_reserve_bytes),
    );
    text += &match &limits.scratch {
        Ok(directory) => format!(
            "disk: an unlinked file of {} in {}, pattern {}\n",
            format_bytes(limits.scratch_bytes),
            directory.display(),
            limits.storage_pattern.name
        ),
        Err(reason) => format!("disk: {reason}\n"),
    };
    text += &network::describe(limits.network.as_ref());
    text.push('\n');
    text += &match StallGuard::new(limits.max_stall_percent).blind() {
        None => format!(
            "back off when every task waits for memory over {:.0} % of half a second\n",
            limits.max_stall_percent
        ),
        Some(reason) => format!("no backing off when memory stalls: {reason}\n"),
    };
    text
}
