//! `jostle run`: sources of interference alone, one or several at once, at fixed
//! intensities or by a schedule.

mod outcome;
mod play;
mod sources;

use super::duration::parse_duration;
use super::interrupt;
use super::network;
use super::output;
use super::select;
use jostle_host::inject::WorkerPlan;
use jostle_host::inject::peak::remove_stale;
use jostle_host::inject::plan::Limits;
use jostle_host::inject::plan::plan_alone;
use jostle_host::inject::schedule;
use jostle_host::inject::schedule::Schedule;
use jostle_host::inject::slice::PERIODS;
use jostle_host::inject::worker::Slices;
use jostle_host::machine::Machine;
use jostle_host::machine::calibration::Calibration;
use jostle_kernels::Access;
use jostle_kernels::Waiting;
use jostle_measure::console::note;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::warning::Warning;
use jostle_profile::cpulist::format_list;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Resource;
use outcome::Outcome;
use serde::Serialize;
use sources::Sources;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Resources to press on at the same time; `jostle list` shows them. Each may
    /// have CPUs and an intensity of its own, like l2-capacity@0=50
    #[arg(
        value_name = "RESOURCE[@CPUS][=PERCENT]",
        required_unless_present = "schedule"
    )]
    sources: Vec<String>,
    /// Percent of what this machine was measured to deliver, for sources that are
    /// given without
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true)]
    intensity: Option<f64>,
    /// How long
    #[arg(long = "for", value_parser = parse_duration, default_value = "10s", value_name = "TIME")]
    length: Duration,
    /// Press by a timetable of steps, ramps and bursts: a TOML file (see
    /// scripts/schedules/shop.toml)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sources", "intensity", "length"])]
    schedule: Option<String>,
    /// CPUs to run on [default: where it would run beside a target]
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    #[command(flatten)]
    limits: select::LimitArgs,
    /// Measure the peak at the start, even where this machine was calibrated
    #[arg(long)]
    no_machine_file: bool,
    /// Print one JSON document at the end
    #[arg(long)]
    json: bool,
    /// Show what would be injected where, and when, and stop
    #[arg(long)]
    dry_run: bool,
}

/// A source as it was asked for.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    resource: Resource,
    /// The flag or file that names CPUs, and the list.
    cpus: Option<(String, String)>,
}

/// Several sources at once.
#[derive(Serialize)]
struct Together {
    sources: Vec<Outcome>,
    duration_seconds: f64,
}

pub fn run(args: Args) -> Result<()> {
    let machine = Machine::detect();
    let schedule = args.schedule.as_ref().map(|file| {
        let loaded = schedule::load(file);
        loaded.map_err(|error| Error::request(format!("--schedule: {error}")))
    });
    let schedule = schedule.transpose()?;
    let (wanted, intensities) = match &schedule {
        Some(schedule) => (of_schedule(schedule, &args), Vec::new()),
        None => of_arguments(&args)?.into_iter().unzip(),
    };
    check_access(&wanted, args.limits.access)?;
    let cpus = args.cpus.as_deref().map(|list| ("--cpus", list));
    let mut limits = args.limits.resolve(&machine, cpus)?;
    let (mut calibration, _) = select::calibration(&machine, args.no_machine_file);
    limits.llc_bytes = calibration.as_ref().and_then(Calibration::llc_bytes);
    let chosen = args.cpus.as_ref().map(|_| limits.cpus.clone());
    let plans = plans(&machine, &wanted, chosen, &limits, calibration.as_ref())?;
    if args.dry_run {
        return dry_run(&args, schedule.as_ref(), &intensities, &plans, &limits);
    }
    warn_of_shared_cpus(&plans);
    let settings = plans
        .iter()
        .map(|it| (it.spec.resource.id(), it.settings()));
    if let Some(stale) = remove_stale(calibration.as_mut(), settings).map(Warning::from) {
        warning!("{stale}");
    }
    let flag = interrupt::flag()?;
    let stall = limits.max_stall_percent;
    let mut sources = Sources::start(plans, calibration.as_ref(), stall, &flag)?;
    match schedule {
        Some(schedule) => {
            let played = play::play(&mut sources, &schedule)?;
            match args.json {
                true => output::json(&played)?,
                false => output::text(&played.text())?,
            }
            for step in &played.steps {
                if let Some(shortfall) = &step.shortfall {
                    let (name, from) = (step.resource, step.from_seconds);
                    warning!("{name} from {from:.2} s: {shortfall}");
                }
            }
        }
        None => {
            let outcomes = sources.hold(&intensities, args.length, !args.json)?;
            show(outcomes, &wanted, args.json)?;
        }
    }
    match interrupt::raised(&flag) {
        true if wanted.len() > 1 => Err(Error::Interrupted("; the sources are gone".into())),
        true => Err(Error::Interrupted("; the source is gone".into())),
        false => Ok(()),
    }
}

fn show(outcomes: Vec<Outcome>, wanted: &[Wanted], json: bool) -> Result<()> {
    let shortfalls: Vec<String> = outcomes
        .iter()
        .filter_map(|outcome| {
            let shortfall = outcome.shortfall.as_ref()?;
            Some(match wanted.len() {
                1 => shortfall.clone(),
                _ => format!("{}: {shortfall}", outcome.resource),
            })
        })
        .collect();
    match (json, outcomes.as_slice()) {
        (true, [only]) => output::json(only)?,
        (true, _) => output::json(&Together {
            duration_seconds: outcomes.first().map_or(0.0, |first| first.duration_seconds),
            sources: outcomes,
        })?,
        (false, _) => {
            let each = outcomes.iter().zip(wanted);
            let text = each.map(|(outcome, wanted)| outcome.text(wanted.resource));
            output::text(&text.collect::<String>())?;
        }
    }
    for shortfall in shortfalls {
        note!("warning: {shortfall}");
    }
    Ok(())
}

/// The sources of the command line, with their intensities.
fn of_arguments(args: &Args) -> Result<Vec<(Wanted, f64)>> {
    let mut all: Vec<(Wanted, f64)> = Vec::new();
    for text in &args.sources {
        let (name, own) = match text.split_once('=') {
            Some((name, percent)) => (name, Some(percent)),
            None => (text.as_str(), None),
        };
        let (name, cpus) = match name.split_once('@') {
            Some((name, cpus)) => (name, Some((format!("RESOURCE {text}"), cpus.to_string()))),
            None => (name, None),
        };
        let resource = select::resource(name, "RESOURCE")?;
        let intensity = match own {
            Some(percent) => {
                let flag = format!("RESOURCE {text}");
                let number = percent.parse().map_err(|_| {
                    let example = format!("{name}=50");
                    Error::request(format!("{flag}: give a number of percent, like {example}"))
                })?;
                select::percent(&flag, number, 0.0, 100.0)?
            }
            None => {
                let given = args.intensity.ok_or_else(|| {
                    Error::request(format!(
                        "--intensity: give it in percent, or name the source as {name}=50"
                    ))
                })?;
                select::percent("--intensity", given, 0.0, 100.0)?
            }
        };
        if all.iter().any(|(other, _)| other.resource == resource) {
            return Err(Error::request(format!(
                "RESOURCE {text}: {resource} is named twice; name it once"
            )));
        }
        all.push((Wanted { resource, cpus }, intensity));
    }
    Ok(all)
}

fn of_schedule(schedule: &Schedule, args: &Args) -> Vec<Wanted> {
    let file = args.schedule.as_deref().unwrap_or_default();
    let wanted = schedule.tracks.iter().map(|track| Wanted {
        resource: track.resource,
        cpus: track.cpus.as_ref().map(|list| {
            let flag = format!("--schedule: {file}: cpus of {}", track.resource);
            (flag, list.clone())
        }),
    });
    wanted.collect()
}

/// What is to be started for each source; `chosen` are the CPUs for those without
/// their own.
fn plans(
    machine: &Machine,
    wanted: &[Wanted],
    chosen: Option<Vec<usize>>,
    limits: &Limits,
    calibration: Option<&Calibration>,
) -> Result<Vec<WorkerPlan>> {
    let share = Slices::DEFAULT_SHARE;
    let period = calibration
        .and_then(|known| known.slices(share))
        .map_or(PERIODS[0], |slices| {
            Duration::from_secs_f64(slices.period_seconds)
        });
    let slices = Slices::of(period, share);
    let plan = |wanted: &Wanted| {
        let own = match &wanted.cpus {
            Some((flag, list)) => Some(select::allowed(flag, list, machine)?),
            None => chosen.clone(),
        };
        let resource = wanted.resource;
        plan_alone(machine, resource, own.as_deref(), limits, slices)
            .map_err(|refusal| Error::environment(format!("{}: {refusal}", resource.id())))
    };
    wanted.iter().map(plan).collect()
}

/// Sources that keep a CPU busy get a part of one that they share.
fn warn_of_shared_cpus(plans: &[WorkerPlan]) {
    let busy = |plan: &&WorkerPlan| plan.spec.waiting == Waiting::Spin;
    let busy: Vec<&WorkerPlan> = plans.iter().filter(busy).collect();
    for (index, one) in busy.iter().enumerate() {
        for other in &busy[index + 1..] {
            let cpus = &other.placement.cpus;
            let own = one.placement.cpus.iter().copied();
            let both: Vec<usize> = own.filter(|cpu| cpus.contains(cpu)).collect();
            if !both.is_empty() {
                warning!(
                    "{} and {} share CPU {}: each gets a part of its time; name CPUs as in \
                     {}@0",
                    one.spec.resource,
                    other.spec.resource,
                    format_list(&both),
                    one.spec.resource
                );
            }
        }
    }
}

fn dry_run(
    args: &Args,
    schedule: Option<&Schedule>,
    intensities: &[f64],
    plans: &[WorkerPlan],
    limits: &Limits,
) -> Result<()> {
    let cpus = |plan: &WorkerPlan| format_list(&plan.placement.cpus);
    let mut text = String::new();
    match schedule {
        Some(schedule) => {
            let cpus: Vec<String> = plans.iter().map(cpus).collect();
            text += &play::describe(schedule, &cpus);
        }
        None => {
            for (plan, intensity) in plans.iter().zip(intensities) {
                text += &format!(
                    "{} at {intensity} % for {:.1} s on CPUs {}: {}\n",
                    plan.spec.resource.id(),
                    args.length.as_secs_f64(),
                    cpus(plan),
                    plan.spec.resource.row().summary
                );
            }
        }
    }
    let sends = |plan: &WorkerPlan| plan.spec.resource.row().domain == Domain::NetworkDevice;
    if plans.iter().any(sends) {
        text += &network::describe(limits.network.as_ref());
        text.push('\n');
    }
    warn_of_shared_cpus(plans);
    output::text(&text)
}

/// Only sources that move bytes can choose how, and what is in a cache is not
/// reached by instructions that pass it by.
fn check_access(wanted: &[Wanted], access: Access) -> Result<()> {
    if access == Access::Load {
        return Ok(());
    }
    let refuse = |why: &str| Err(Error::request(format!("--access: {why}")));
    let of = |wanted: &Wanted| jostle_kernels::source(wanted.resource).accesses;
    let mut able = wanted
        .iter()
        .filter(|wanted| !of(wanted).is_empty())
        .peekable();
    if able.peek().is_none() {
        return refuse(&format!(
            "{} has no accesses to choose; leave it out, or name a bandwidth source",
            wanted.first().map_or("this", |wanted| wanted.resource.id())
        ));
    }
    match able.all(|wanted| of(wanted).contains(&access)) {
        true => Ok(()),
        false => refuse(
            "non-temporal stores pass the caches by; give load or store, or press on \
             memory-bandwidth",
        ),
    }
}
