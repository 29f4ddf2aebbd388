//! What arrived, for people and programs.

use crate::report::pressure;
use jostle_host::inject::Snapshot;
use jostle_host::inject::WorkerGroup;
use jostle_host::machine::format_bytes;
use jostle_profile::Placement;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Resource;
use serde::Serialize;

/// Points by which a source may stay below what was asked before that is said.
const SHORT: f64 = 2.0;
/// Share of the time given up, percent, from which on that is said.
const BEHIND: f64 = 1.0;

/// One source over one stretch of time.
#[derive(Serialize)]
pub struct Outcome {
    pub resource: &'static str,
    pub placement: Placement,
    pub requested_percent: f64,
    /// In `pressure_unit`, over the whole time.
    pub achieved_pressure: f64,
    pub pressure_unit: &'static str,
    /// Of `full_scale_pressure`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub achieved_percent: Option<f64>,
    /// The pressure that 100 % stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_scale_pressure: Option<f64>,
    pub operation: &'static str,
    pub operations_per_second: f64,
    /// What one operation counts for: bytes moved, or 1.
    pub units_per_operation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<String>,
    /// Whether intensity refers to the calibrated peak, or to one measured at
    /// the start; absent for sources that are not held at a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_calibrated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// What carried the operations, and why, where machines differ in that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    #[serde(flatten)]
    pub device: Option<Device>,
    pub duration_seconds: f64,
}

/// What passed between a source and its device.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Device {
    pub requests_per_second: f64,
    pub transferred_bytes_per_second: f64,
    /// Share of the time whose requests were given up, because the device fell
    /// further behind than could be made up for.
    pub behind_percent: f64,
}

impl Device {
    /// Between two snapshots; `None` for sources without a device. Requests of the
    /// network source are messages.
    pub fn between(group: &WorkerGroup, from: &Snapshot, to: &Snapshot) -> Option<Device> {
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

impl Outcome {
    pub fn text(&self, resource: Resource) -> String {
        let mut text = line(
            resource,
            self.requested_percent,
            self.achieved_pressure,
            self.full_scale_pressure,
        ) + "\n";
        if let Some(device) = &self.device {
            text += &format!(
                "{:.0} {}/s, {}/s\n",
                device.requests_per_second,
                match resource.row().domain {
                    Domain::NetworkDevice => "messages",
                    _ => "requests",
                },
                format_bytes(device.transferred_bytes_per_second as u64)
            );
        }
        if let Some(behind) = behind(resource, self.device) {
            text += &format!("{behind}\n");
        }
        if let Some(engine) = &self.engine {
            text += &format!("by {engine}\n");
        }
        text
    }
}

/// What to say of a device that did not keep up.
pub fn behind(resource: Resource, device: Option<Device>) -> Option<String> {
    let percent = device?.behind_percent;
    let who = match resource.row().domain {
        Domain::NetworkDevice => "network",
        _ => "device",
    };
    (percent >= BEHIND)
        .then(|| format!("the {who} did not keep up: {percent:.0} % of what was due was given up"))
}

/// What to say of a source that stays below what was asked.
pub fn shortfall(
    group: &WorkerGroup,
    requested: f64,
    achieved: f64,
    device: Option<Device>,
) -> Option<String> {
    let missing = requested - achieved;
    let traffic = &group.plan.config.environment.network;
    let by_chance = traffic.as_ref().is_some_and(|it| it.pattern.is_timed())
        && device.is_some_and(|device| device.behind_percent < BEHIND);
    let why = match by_chance {
        true => {
            "nothing was given up; the pattern draws its messages by chance, and a longer run \
             comes closer to its mean rate"
        }
        false => "something else took them, or the machine gave more when the peak was measured",
    };
    let requested = (requested * 10.0).round() / 10.0;
    (missing > SHORT)
        .then(|| format!("{missing:.1} points short of the {requested} % asked for: {why}"))
}

pub fn line(resource: Resource, intensity: f64, achieved: f64, full: Option<f64>) -> String {
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
