//! `jostle run`: one source of interference alone.

use super::duration::parse_duration;
use super::interrupt;
use super::output;
use super::select;
use crate::error::Error;
use crate::error::Result;
use crate::inject::Snapshot;
use crate::inject::WorkerGroup;
use crate::inject::peak::find_peak;
use crate::inject::plan::plan_alone;
use crate::inject::slice::PERIODS;
use crate::inject::worker::Slices;
use crate::machine::Machine;
use crate::profile::Placement;
use crate::report::pressure;
use crate::resource::Resource;
use crate::sys::control_page::Order;
use serde::Serialize;
use std::io::IsTerminal;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

/// How long full strength is watched at the start.
const PEAK: Duration = Duration::from_millis(250);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Resource to press on; `jostle list` shows them
    #[arg(value_name = "SOI")]
    resource: String,
    /// Percent of what this machine was measured to deliver
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true)]
    intensity: f64,
    /// How long
    #[arg(long = "for", value_parser = parse_duration, default_value = "10s", value_name = "TIME")]
    length: Duration,
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
    /// Show what would be injected where, and stop
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Outcome {
    resource: &'static str,
    placement: Placement,
    requested_percent: f64,
    /// In `pressure_unit`, over the whole run.
    achieved_pressure: f64,
    pressure_unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    achieved_percent: Option<f64>,
    /// Whether intensity refers to the calibrated peak, or to one measured at
    /// the start; absent for sources that are not held at a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_calibrated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    doubt: Option<String>,
    duration_seconds: f64,
}

pub fn run(args: Args) -> Result<()> {
    let machine = Machine::detect();
    let resource = select::resource(&args.resource, "SOI")?;
    let intensity = select::percent("--intensity", args.intensity, 0.0, 100.0)?;
    let cpus = args.cpus.as_deref().map(|list| ("--cpus", list));
    let limits = args.limits.resolve(&machine, cpus)?;
    let calibration = select::calibration(&machine, args.no_machine_file);
    let share = Slices::DEFAULT_SHARE;
    let period = calibration
        .as_ref()
        .and_then(|known| known.slices(share))
        .map_or(PERIODS[0], |slices| {
            Duration::from_secs_f64(slices.period_seconds)
        });
    let slices = Slices {
        period_ns: period.as_nanos() as u64,
        share,
    };
    let chosen = args.cpus.as_ref().map(|_| limits.cpus.as_slice());
    let plan = plan_alone(&machine, resource, chosen, &limits, slices)
        .map_err(|refusal| Error::environment(format!("{}: {refusal}", resource.id)))?;
    if args.dry_run {
        return output::text(&format!(
            "{} at {intensity} % for {:.1} s on CPUs {}: {}\n",
            resource.id,
            args.length.as_secs_f64(),
            crate::sys::cpus::format_list(&plan.placement.cpus),
            resource.summary
        ));
    }
    let flag = interrupt::flag()?;
    let mut group =
        WorkerGroup::spawn(plan, Duration::from_secs(60)).map_err(Error::environment)?;
    let peak = find_peak(&mut group, calibration.as_ref(), PEAK).map_err(Error::environment)?;
    if let Some(doubt) = &peak.doubt {
        eprintln!("jostle: warning: {}: {doubt}", resource.id);
    }
    let full = group.full_scale();
    let command = group.set(Order::Treat(intensity));
    group
        .wait_applied(command, Duration::from_secs(300), &|| {
            interrupt::raised(&flag)
        })
        .map_err(|reason| match reason.is_empty() {
            true => Error::Interrupted(" before the intensity was reached".into()),
            false => Error::environment(reason),
        })?;
    let began = Instant::now();
    let first = group.snapshot();
    let mut last: Snapshot = first;
    let live = std::io::stderr().is_terminal() && !args.json;
    while began.elapsed() < args.length && !interrupt::raised(&flag) {
        sleep((args.length.saturating_sub(began.elapsed())).min(Duration::from_millis(200)));
        group.check_exits().map_err(Error::environment)?;
        if live {
            let now = group.snapshot();
            eprint!(
                "\r{}   ",
                line(resource, intensity, group.pressure(&last, &now), full)
            );
            last = now;
        }
    }
    if live {
        eprintln!();
    }
    let end = group.snapshot();
    let achieved = group.pressure(&first, &end);
    let outcome = Outcome {
        resource: resource.id,
        placement: group.plan.placement.clone(),
        requested_percent: intensity,
        achieved_pressure: achieved,
        pressure_unit: resource.pressure_unit,
        achieved_percent: full.map(|full| achieved / full * 100.0),
        peak_calibrated: peak.calibrated,
        doubt: peak.doubt,
        duration_seconds: began.elapsed().as_secs_f64(),
    };
    match args.json {
        true => output::json(&outcome)?,
        false => output::text(&(line(resource, intensity, achieved, full) + "\n"))?,
    }
    match interrupt::raised(&flag) {
        true => Err(Error::Interrupted("; the source is gone".into())),
        false => Ok(()),
    }
}

fn line(resource: &Resource, intensity: f64, achieved: f64, full: Option<f64>) -> String {
    let pressure = pressure(resource.pressure_unit, achieved);
    let percent = match full {
        Some(full) => format!(" ({:.1} %)", achieved / full * 100.0),
        None => String::new(),
    };
    format!(
        "{}: requested {intensity} %, achieved {pressure}{percent}",
        resource.id
    )
}
