//! `jostle run`: one source of interference alone.

use super::duration::parse_duration;
use super::interrupt;
use super::network;
use super::output;
use super::select;
use crate::console;
use crate::console::note;
use crate::console::warning;
use crate::error::Error;
use crate::error::Result;
use crate::inject::Snapshot;
use crate::inject::WorkerError;
use crate::inject::WorkerGroup;
use crate::inject::peak::find_peak;
use crate::inject::plan::plan_alone;
use crate::inject::slice::PERIODS;
use crate::inject::stall::StallGuard;
use crate::inject::worker::Slices;
use crate::machine::Machine;
use crate::machine::format_bytes;
use crate::report::pressure;
use crate::sys::control_page::Order;
use jostle_kernels::Access;
use jostle_profile::Placement;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Resource;
use serde::Serialize;
use std::cell::RefCell;
use std::io::IsTerminal;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

/// With nothing else to do, every peak is watched at least this long.
const LEAST_PEAK: Duration = Duration::from_millis(250);

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
    /// Of `full_scale_pressure`.
    #[serde(skip_serializing_if = "Option::is_none")]
    achieved_percent: Option<f64>,
    /// The pressure that 100 % stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    full_scale_pressure: Option<f64>,
    operation: &'static str,
    operations_per_second: f64,
    /// What one operation counts for: bytes moved, or 1.
    units_per_operation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    shortfall: Option<String>,
    /// Whether intensity refers to the calibrated peak, or to one measured at
    /// the start; absent for sources that are not held at a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_calibrated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    doubt: Option<String>,
    /// What carried the operations, and why, where machines differ in that.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<String>,
    #[serde(flatten)]
    device: Option<Device>,
    duration_seconds: f64,
}

/// Points by which a source may stay below what was asked before that is said.
const SHORT: f64 = 2.0;

impl Outcome {
    fn text(&self, resource: Resource, full: Option<f64>) -> String {
        let mut text = line(
            resource,
            self.requested_percent,
            self.achieved_pressure,
            full,
        ) + "\n";
        if let Some(device) = &self.device {
            let (requests, device_name) = match resource.row().domain {
                Domain::NetworkDevice => ("messages", "network"),
                _ => ("requests", "device"),
            };
            text += &format!(
                "{:.0} {requests}/s, {}/s\n",
                device.requests_per_second,
                format_bytes(device.transferred_bytes_per_second as u64)
            );
            if device.behind_percent >= 1.0 {
                text += &format!(
                    "the {device_name} did not keep up: {:.0} % of what was due was given up\n",
                    device.behind_percent
                );
            }
        }
        if let Some(engine) = &self.engine {
            text += &format!("by {engine}\n");
        }
        text
    }
}

/// What passed between a source and its device.
#[derive(Clone, Copy, Serialize)]
struct Device {
    requests_per_second: f64,
    transferred_bytes_per_second: f64,
    /// Share of the time whose requests were given up, because the device fell
    /// further behind than could be made up for.
    behind_percent: f64,
}

impl Device {
    /// Between two snapshots; `None` for sources without a device. Requests of the
    /// network source are messages.
    fn between(group: &WorkerGroup, from: &Snapshot, to: &Snapshot) -> Option<Device> {
        let requests = to.traffic.requests - from.traffic.requests;
        let wall_ns = (to.at_ns - from.at_ns).max(1) as f64;
        let bytes = (to.operations - from.operations) * group.plan.spec.units_per_operation;
        (to.traffic.requests > 0).then(|| Device {
            requests_per_second: requests as f64 / wall_ns * 1e9,
            transferred_bytes_per_second: bytes as f64 / wall_ns * 1e9,
            behind_percent: (to.traffic.behind_ns - from.traffic.behind_ns) as f64 / wall_ns
                * 100.0,
        })
    }
}

pub fn run(args: Args) -> Result<()> {
    let machine = Machine::detect();
    let resource = select::resource(&args.resource, "SOI")?;
    check_access(resource, args.limits.access)?;
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
    let slices = Slices::of(period, share);
    let chosen = args.cpus.as_ref().map(|_| limits.cpus.as_slice());
    let plan = plan_alone(&machine, resource, chosen, &limits, slices)
        .map_err(|refusal| Error::environment(format!("{}: {refusal}", resource.id())))?;
    if args.dry_run {
        let network = match resource.row().domain {
            Domain::NetworkDevice => network::describe(limits.network.as_ref()) + "\n",
            _ => String::new(),
        };
        return output::text(&format!(
            "{} at {intensity} % for {:.1} s on CPUs {}: {}\n{network}",
            resource.id(),
            args.length.as_secs_f64(),
            jostle_profile::cpulist::format_list(&plan.placement.cpus),
            resource.row().summary
        ));
    }
    let flag = interrupt::flag()?;
    let mut group =
        WorkerGroup::spawn(plan, Duration::from_secs(60)).map_err(Error::environment)?;
    let watched = resource.row().timing.peak.max(LEAST_PEAK);
    let peak = find_peak(&mut group, calibration.as_ref(), watched).map_err(Error::environment)?;
    if let Some(doubt) = &peak.warning {
        warning!("{resource}: {doubt}");
    }
    let full = group.full_scale();
    let guard = RefCell::new(StallGuard::new(args.limits.max_stall));
    let stalled = || guard.borrow_mut().look();
    let command = group.set(Order::Treat(intensity));
    let backed_off = RefCell::new(None);
    let stop = || {
        let reason = stalled();
        let stop = reason.is_some() || interrupt::raised(&flag);
        backed_off.replace(reason);
        stop
    };
    let applied = group.wait_applied(command, Duration::from_secs(300), &stop);
    if let Err(error) = applied {
        return Err(match (backed_off.take(), error) {
            (Some(stalled), _) => Error::environment(stalled),
            (None, WorkerError::Stopped) => {
                Error::Interrupted(" before the intensity was reached".into())
            }
            (None, error) => Error::environment(error.to_string()),
        });
    }
    let began = Instant::now();
    let first = group.snapshot();
    let mut last: Snapshot = first;
    let live = std::io::stderr().is_terminal() && !args.json;
    while began.elapsed() < args.length && !interrupt::raised(&flag) {
        sleep((args.length.saturating_sub(began.elapsed())).min(Duration::from_millis(200)));
        group.check_exits().map_err(Error::environment)?;
        if let Some(reason) = stalled() {
            return Err(Error::environment(reason));
        }
        if live {
            let now = group.snapshot();
            console::write(format_args!(
                "\r{}   ",
                line(resource, intensity, group.pressure(&last, &now), full)
            ));
            last = now;
        }
    }
    if live {
        note!("");
    }
    let end = group.snapshot();
    let achieved = group.pressure(&first, &end);
    let achieved_percent = full.map(|full| achieved / full * 100.0);
    let device = Device::between(&group, &first, &end);
    let traffic = &group.plan.config.environment.network;
    let by_chance = traffic.as_ref().is_some_and(|it| it.pattern.is_timed())
        && device.is_some_and(|device| device.behind_percent < 1.0);
    let shortfall = achieved_percent.and_then(|achieved| shortfall(intensity, achieved, by_chance));
    let seconds = (end.at_ns - first.at_ns).max(1) as f64 / 1e9;
    let outcome = Outcome {
        resource: resource.id(),
        placement: group.plan.placement.clone(),
        requested_percent: intensity,
        achieved_pressure: achieved,
        pressure_unit: resource.row().pressure_unit,
        achieved_percent,
        full_scale_pressure: full,
        operation: group.plan.spec.operation,
        operations_per_second: (end.operations - first.operations) as f64 / seconds,
        units_per_operation: group.plan.spec.units_per_operation,
        shortfall: shortfall.clone(),
        peak_calibrated: peak.calibrated,
        doubt: peak.warning.map(|warning| warning.to_string()),
        engine: group.engine(),
        device,
        duration_seconds: began.elapsed().as_secs_f64(),
    };
    match args.json {
        true => output::json(&outcome)?,
        false => output::text(&outcome.text(resource, full))?,
    }
    if let Some(shortfall) = shortfall {
        note!("warning: {shortfall}");
    }
    match interrupt::raised(&flag) {
        true => Err(Error::Interrupted("; the source is gone".into())),
        false => Ok(()),
    }
}

/// Only sources that move bytes can choose how, and what is in a cache is not
/// reached by instructions that pass it by.
fn check_access(resource: Resource, access: Access) -> Result<()> {
    let refuse = |why: &str| Err(Error::request(format!("--access: {why}")));
    match jostle_kernels::source(resource).accesses {
        _ if access == Access::Load => Ok(()),
        known if known.contains(&access) => Ok(()),
        [] => refuse(&format!(
            "{resource} has no accesses to choose; leave it out, or press on a bandwidth"
        )),
        _ => refuse(
            "non-temporal stores pass the caches by; give load or store, or press on \
             memory-bandwidth",
        ),
    }
}

/// What to say of a source that stays below what was asked.
fn shortfall(requested: f64, achieved: f64, by_chance: bool) -> Option<String> {
    let missing = requested - achieved;
    let why = match by_chance {
        true => {
            "nothing was given up; the pattern draws its messages by chance, and a longer run \
                 comes closer to its mean rate"
        }
        false => "something else took them, or the machine gave more when the peak was measured",
    };
    (missing > SHORT)
        .then(|| format!("{missing:.1} points short of the {requested} % asked for: {why}"))
}

fn line(resource: Resource, intensity: f64, achieved: f64, full: Option<f64>) -> String {
    let pressure = pressure(resource.row().pressure_unit, achieved);
    let percent = match full {
        Some(full) => format!(" ({:.1} %)", achieved / full * 100.0),
        None => String::new(),
    };
    format!(
        "{}: requested {intensity} %, achieved {pressure}{percent}",
        resource.id()
    )
}
