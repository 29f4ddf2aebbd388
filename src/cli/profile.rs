//! `jostle profile`: the main job.

use super::duration::parse_duration;
use super::interrupt;
use super::output;
use super::progress::Bar;
use super::select;
use crate::error::Error;
use crate::error::Result;
use crate::experiment::run::Halves;
use crate::experiment::run::Settings;
use crate::experiment::session;
use crate::experiment::session::Request;
use crate::inject::plan::SCRATCH_BYTES;
use crate::machine::Machine;
use crate::metric::MetricOptions;
use crate::metric::StdoutKind;
use crate::profile::Direction;
use crate::report;
use crate::report::Style;
use crate::target::TargetSpec;
use crate::target::demo;
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("target").required(true))]
pub struct Args {
    /// The command to start and profile
    #[arg(last = true, group = "target", value_name = "CMD")]
    command: Vec<String>,
    /// Attach to a running process; it is left as it was found
    #[arg(long, group = "target")]
    pid: Option<i32>,
    /// Profile a built-in demo; `jostle demo --list` shows them
    #[arg(long, group = "target", value_name = "NAME")]
    demo: Option<String>,

    /// How performance is read: progress, runs, ips or stdout:REGEX
    /// [default: the best available]
    #[arg(long)]
    metric: Option<String>,
    /// Which way a printed number is better
    #[arg(long, value_enum, default_value = "higher")]
    direction: DirectionArg,
    /// Whether a printed number is a value or a running total
    #[arg(long, value_enum, default_value = "value")]
    kind: KindArg,
    /// Longest one run of a finite command may take
    #[arg(long, value_parser = parse_duration, default_value = "600s", value_name = "TIME")]
    run_timeout: Duration,
    /// Performance that counts as kept, percent of undisturbed
    #[arg(long, default_value_t = 95.0, value_name = "PERCENT")]
    qos: f64,

    /// Resources to measure, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    resources: Vec<String>,
    /// Which halves to measure
    #[arg(long, value_enum, default_value = "both")]
    halves: HalvesArg,
    /// About 20 s, with wider intervals
    #[arg(long)]
    quick: bool,
    /// Time for everything [default: 90s; 20s with --quick]
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    budget: Option<Duration>,
    /// Decides the order of the windows and the resampling
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// CPUs the target is given, like 0-2,5 [default: the allowed one
    /// that devices interrupt least]
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// CPUs the sources may use [default: all allowed]
    #[arg(long, value_name = "LIST")]
    worker_cpus: Option<String>,
    /// Slice period of sources that share a CPU with the target
    /// [default: calibrated]
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    slice: Option<Duration>,
    /// Share of the CPU such sources take, percent
    #[arg(long, default_value_t = 20.0, value_name = "PERCENT")]
    share: f64,
    #[command(flatten)]
    limits: select::LimitArgs,
    /// Measure peaks, settle times and slices at the start, even where this
    /// machine was calibrated
    #[arg(long)]
    no_machine_file: bool,

    /// Where to write the profile [default: NAME.profile.json here]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Name of the workload in the profile [default: the target's]
    #[arg(long)]
    name: Option<String>,
    /// Label to keep in the profile, KEY=VALUE; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// Print the profile as JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Pass on what the target prints, to standard error
    #[arg(long)]
    show_output: bool,
    /// Show what would be injected where, and stop
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DirectionArg {
    Higher,
    Lower,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KindArg {
    Value,
    Rate,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HalvesArg {
    Both,
    Tolerated,
    Caused,
}

pub fn run(args: Args) -> Result<()> {
    let machine = Machine::detect();
    let interrupt = interrupt::flag()?;
    let request = request(&args, &machine, interrupt.clone())?;
    if args.dry_run {
        return output::text(&select::dry_run(&machine, &request));
    }
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| file_stem(&request.spec));
    let out = output::Destination::check(args.out.clone(), &name)?;
    select::stay_away(&machine, &request.target_cpus);

    let budget = request.settings.budget;
    let mut bar = Bar::new(budget);
    let note = bar.notes();
    let profile = session::profile(&machine, request, &mut bar, &mut |text| note.say(text))?;
    bar.finish();

    let path = out.write(&profile)?;
    match args.json {
        true => output::json(&profile)?,
        false => output::text(&report::profile_table(&profile, Style::for_stdout()))?,
    }
    eprintln!("wrote {}", path.display());
    match interrupt::raised(&interrupt) {
        true => Err(Error::Interrupted(format!(
            "; what was learned until then is in {}, marked partial",
            path.display()
        ))),
        false if profile.partial => Err(Error::environment(format!(
            "the measurement was cut short: {}",
            profile.conditions.doubts.last().map_or("", |doubt| doubt)
        ))),
        false => Ok(()),
    }
}

fn request(
    args: &Args,
    machine: &Machine,
    interrupt: std::sync::Arc<std::sync::atomic::AtomicBool>,
) -> Result<Request> {
    let worker_cpus = args.worker_cpus.as_deref();
    let limits = args
        .limits
        .resolve(machine, worker_cpus.map(|list| ("--worker-cpus", list)))?;
    let spec = match (&args.demo, args.pid) {
        (Some(name), _) => TargetSpec::Demo {
            name: demo::find(name)?.name.to_string(),
            options: demo_options(name, &limits)?,
        },
        (None, Some(pid)) => TargetSpec::Pid(pid),
        (None, None) => TargetSpec::Command {
            argv: args.command.clone(),
            show_output: args.show_output,
        },
    };
    let target_cpus = select::target_cpus(machine, &spec, args.cpus.as_deref())?;
    let preset = match args.quick {
        true => Settings::quick(),
        false => Settings::default(),
    };
    let settings = Settings {
        budget: args.budget.unwrap_or(preset.budget),
        seed: args.seed,
        qos: select::percent("--qos", args.qos, 1.0, 99.9)? / 100.0,
        halves: match args.halves {
            HalvesArg::Both => Halves::Both,
            HalvesArg::Tolerated => Halves::Tolerated,
            HalvesArg::Caused => Halves::Caused,
        },
        ..preset
    };
    if settings.budget < Duration::from_secs(2) {
        return Err(Error::request(
            "--budget: less than 2 s is not enough to measure anything; 20s is what --quick takes",
        ));
    }
    if let Some(slice) = args.slice
        && !(Duration::from_micros(50)..=Duration::from_secs(1)).contains(&slice)
    {
        return Err(Error::request("--slice: give a period between 50us and 1s"));
    }
    Ok(Request {
        spec,
        name: args.name.clone(),
        labels: labels(&args.labels)?,
        resources: select::resources(&args.resources)?,
        target_cpus,
        limits,
        slice_period: args.slice,
        share: select::percent("--share", args.share, 1.0, 90.0)? / 100.0,
        metric: args.metric.clone(),
        metric_options: MetricOptions {
            direction: match args.direction {
                DirectionArg::Higher => Direction::Higher,
                DirectionArg::Lower => Direction::Lower,
            },
            kind: match args.kind {
                KindArg::Value => StdoutKind::Value,
                KindArg::Rate => StdoutKind::Rate,
            },
            run_timeout: args.run_timeout,
            interrupt,
            ..MetricOptions::default()
        },
        calibration: select::calibration(machine, args.no_machine_file),
        settings,
    })
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

fn labels(given: &[String]) -> Result<BTreeMap<String, String>> {
    given
        .iter()
        .map(|label| match label.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_string(), value.to_string())),
            _ => Err(Error::request(format!(
                "--label {label}: give KEY=VALUE, for example input=small"
            ))),
        })
        .collect()
}

/// A file name for the profile of `spec`.
fn file_stem(spec: &TargetSpec) -> String {
    match spec {
        TargetSpec::Demo { name, .. } => format!("demo-{name}"),
        TargetSpec::Pid(pid) => format!("pid-{pid}"),
        TargetSpec::Command { argv, .. } => argv
            .first()
            .and_then(|program| std::path::Path::new(program).file_name())
            .map_or_else(
                || "target".into(),
                |name| name.to_string_lossy().into_owned(),
            ),
    }
}

impl select::LimitArgs {
    /// Bytes of the scratch file.
    pub fn scratch_bytes(&self) -> u64 {
        self.scratch_size.unwrap_or(SCRATCH_BYTES)
    }
}
