//! From what was measured to a profile.

use super::outcome::Measured;
use super::run::Settings;
use crate::inject::placement::Refusal;
use crate::profile::Conditions;
use crate::profile::FORMAT;
use crate::profile::MachineFacts;
use crate::profile::MetricFacts;
use crate::profile::PhysicalBound;
use crate::profile::Placement;
use crate::profile::PlacementMode;
use crate::profile::Profile;
use crate::profile::Qos;
use crate::profile::ResourceEntry;
use crate::profile::Status;
use crate::profile::Workload;
use crate::reading::Reading;
use crate::sys::clock::rfc3339;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// What the measurement itself does not know.
#[derive(Clone, Debug)]
pub struct Circumstances {
    pub workload: Workload,
    pub machine: MachineFacts,
    pub metric: MetricFacts,
    pub target_cpus: Vec<usize>,
    pub slice_period_seconds: Option<f64>,
    pub slice_share_percent: Option<f64>,
    /// Per resource id where its workers ran.
    pub placements: BTreeMap<&'static str, Placement>,
    pub bounds: BTreeMap<&'static str, PhysicalBound>,
    /// Resources that could not be measured, and why.
    pub unavailable: Vec<(&'static str, Refusal)>,
    pub doubts: Vec<String>,
    pub profiler_cpu_percent: Option<f64>,
    pub started: SystemTime,
    /// From the start of the preparations on.
    pub duration_seconds: f64,
    /// As asked for, preparations included.
    pub budget_seconds: f64,
}

/// Puts a profile together.
pub fn profile(measured: &Measured, settings: &Settings, around: Circumstances) -> Profile {
    let mut resources: BTreeMap<String, ResourceEntry> = around
        .unavailable
        .iter()
        .map(|(resource, reason)| {
            let status = match reason {
                Refusal::NotShared(_) => Status::NotShared,
                Refusal::Unavailable(_) => Status::Unavailable,
            };
            let entry = ResourceEntry::without_numbers(status, reason.reason().to_string());
            (resource.to_string(), entry)
        })
        .collect();
    for outcome in &measured.subjects {
        let mut entry = outcome.entry();
        entry.placement = around.placements.get(outcome.resource).cloned();
        entry.physical_bound = around.bounds.get(outcome.resource).cloned();
        if let Some(doubt) = sharing_doubt(outcome.sharing_cost, entry.placement.as_ref()) {
            entry.doubts.push(doubt);
        }
        resources.insert(outcome.resource.to_string(), entry);
    }
    let mut metric = around.metric;
    metric.baseline = measured.baseline;
    let mut doubts = around.doubts;
    doubts.extend(measured.doubts.iter().cloned());
    doubts.extend(
        measured
            .partial
            .iter()
            .map(|reason| format!("cut short: {reason}")),
    );
    Profile {
        format: FORMAT.to_string(),
        partial: measured.partial.is_some(),
        workload: around.workload,
        machine: around.machine,
        metric,
        qos: Qos {
            threshold: settings.qos,
        },
        conditions: Conditions {
            recorded_at: rfc3339(around.started),
            duration_seconds: around.duration_seconds,
            tool_version: env!("CARGO_PKG_VERSION").to_string(),
            seed: settings.seed,
            budget_seconds: around.budget_seconds,
            quick: settings.quick,
            noise_percent: measured.noise_percent,
            steal_percent: match measured.steal_percent {
                Some(percent) => Reading::Value(percent),
                None => Reading::unavailable("no window was measured"),
            },
            windows_dropped: measured.windows_dropped,
            windows_kept: measured.windows_kept,
            smallest_detectable_percent: measured.smallest_detectable_percent,
            slice_period_seconds: around.slice_period_seconds,
            slice_share_percent: around.slice_share_percent,
            target_cpus: around.target_cpus,
            profiler_cpu_percent: around.profiler_cpu_percent,
            doubts,
            unknown: Default::default(),
        },
        resources,
        unknown: Default::default(),
    }
}

/// On a CPU of its own the placebo should cost the target nothing; where it
/// does, something beside the resource is shared.
fn sharing_doubt(
    cost: Option<crate::profile::Estimate>,
    placement: Option<&Placement>,
) -> Option<String> {
    let (cost, placement) = (cost?, placement?);
    let apart = matches!(
        placement.mode,
        PlacementMode::SharedLlc | PlacementMode::SameNuma | PlacementMode::Device
    );
    (apart && cost.ci95[1] < 0.95).then(|| {
        format!(
            "the placebo alone slowed the target to {:.0} % although it ran on another CPU: \
             the CPUs share more than this resource",
            cost.value * 100.0
        )
    })
}
