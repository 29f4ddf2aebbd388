//! `jostle run`: one source of interference alone.

use super::duration::parse_duration;
use super::interrupt;
use super::output;
use super::select;
use crate::error::Error;
use crate::error::Result;
use crate::inject::Snapshot;
use crate::inject::WorkerGroup;
use crate::inject::plan::plan_alone;
use crate::inject::slice::PERIODS;
use crate::inject::timing::Timing;
use crate::inject::worker::Slices;
use crate::machine::Machine;
use crate::machine::format_bytes;
use crate::profile::Placement;
use crate::resource::Resource;
use crate::sys::control_page::Order;
use serde::Serialize;
use std::io::IsTerminal;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

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
    /// What carried the operations, and why, where machines differ in that.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<String>,
    #[serde(flatten)]
    device: Option<Device>,
    duration_seconds: f64,
}

impl Outcome {
    fn text(&self, resource: &Resource, full: Option<f64>) -> String {
        let mut text = line(
            resource,
            self.requested_percent,
            self.achieved_pressure,
            full,
        ) + "\n";
        if let Some(device) = &self.device {
            text += &format!(
                "{:.0} requests/s, {}/s\n",
                device.requests_per_second,
                format_bytes(device.transferred_bytes_per_second as u64)
            );
            if device.behind_percent >= 1.0 {
                text += &format!(
                    "the device did not keep up: {:.0} % of what was due was given up\n",
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
    /// Between two snapshots; `None` for sources without a device.
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
    let intensity = select::percent("--intensity", args.intensity, 0.0, 100.0)?;
    let cpus = args.cpus.as_deref().map(|list| ("--cpus", list));
    let limits = args.limits.resolve(&machine, cpus)?;
    let slices = Slices {
        period_ns: PERIODS[0].as_nanos() as u64,
        share: Slices::DEFAULT_SHARE,
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
    group
        .calibrate_peak(Timing::of(resource.id).peak.max(Duration::from_millis(250)))
        .map_err(Error::environment)?;
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
        engine: group.engine(),
        device: Device::between(&group, &first, &end),
        duration_seconds: began.elapsed().as_secs_f64(),
    };
    match args.json {
        true => output::json(&outcome)?,
        false => output::text(&outcome.text(resource, full))?,
    }
    match interrupt::raised(&flag) {
        true => Err(Error::Interrupted("; the source is gone".into())),
        false => Ok(()),
    }
}

fn line(resource: &Resource, intensity: f64, achieved: f64, full: Option<f64>) -> String {
    let pressure = match resource.pressure_unit {
        "bytes" => format_bytes(achieved as u64),
        "bytes_per_second" => format!("{}/s", format_bytes(achieved as u64)),
        "operations_per_second" => format!("{achieved:.4e} operations/s"),
        "entries" => format!("{achieved:.0} entries"),
        _ => format!("{achieved:.1} % of the CPU"),
    };
    let percent = match full {
        Some(full) => format!(" ({:.1} %)", achieved / full * 100.0),
        None => String::new(),
    };
    format!(
        "{}: requested {intensity} %, achieved {pressure}{percent}",
        resource.id
    )
}
