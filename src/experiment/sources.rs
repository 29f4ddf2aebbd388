//! The sources of a measurement: started, ready, and what their windows need.

use super::executor::Subject;
use super::plan::Plan;
use crate::error::Error;
use crate::error::Result;
use crate::inject::WorkerGroup;
use crate::inject::WorkerPlan;
use crate::inject::peak::find_peak;
use crate::inject::placement::Refusal;
use crate::machine::calibration::Calibration;
use crate::sys::control_page::Order;
use crate::warning::Warning;
use jostle_profile::PhysicalBound;
use jostle_profile::Placement;
use jostle_profile::PlacementMode;
use jostle_profile::resource::Resource;
use jostle_profile::resource::SwitchCost;
use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

/// Longest a worker may take to make itself ready: it writes its buffers and
/// its scratch file.
const READY: Duration = Duration::from_secs(60);
/// Taken once to learn how fast memory can be had.
const FILL_SAMPLE_BYTES: f64 = (1u64 << 30) as f64;
/// Filling that takes longer than this is tried a second time, warm, if the
/// first takes at most this share of the budget: the other resources want
/// theirs.
const SLOW_FILL: Duration = Duration::from_secs(1);
const FIRST_FILL_SHARE: f64 = 0.1;

/// What is known of one source.
#[derive(Clone, Debug)]
pub struct SourceFacts {
    /// Where its workers run.
    pub placement: Placement,
    /// The pressure that 100 % stands for.
    pub full_scale: Option<f64>,
    /// Of one held at a rate: whether its peak is the calibrated one.
    pub calibrated: Option<bool>,
    pub warning: Option<Warning>,
    pub bound: Option<PhysicalBound>,
}

/// Workers that are ready, and what is known of each resource.
pub(super) struct Sources {
    pub(super) subjects: Vec<Subject>,
    /// `groups[i]` is the source of `subjects[i]`.
    pub(super) groups: Vec<WorkerGroup>,
    pub(super) facts: BTreeMap<&'static str, SourceFacts>,
    pub(super) unavailable: Vec<(&'static str, Refusal)>,
}

impl Sources {
    /// Where the peaks that intensity refers to come from, in words; `None` when
    /// no source has one.
    pub(super) fn peaks_from(&self, calibration: Option<&Calibration>) -> Option<String> {
        let named = |from_file: bool| {
            let of = self.facts.iter();
            let of = of.filter(|(_, facts)| facts.calibrated == Some(from_file));
            let names: Vec<&str> = of.map(|(resource, _)| *resource).collect();
            names.join(", ")
        };
        let (file, start) = (named(true), named(false));
        let recorded_at = calibration.map_or("", |known| &known.recorded_at);
        match (file.is_empty(), start.is_empty()) {
            (true, true) => None,
            (true, false) => Some("measured at the start".to_string()),
            (false, true) => Some(format!("machine file of {recorded_at}")),
            (false, false) => Some(format!(
                "machine file of {recorded_at}: {file}; measured at the start: {start}"
            )),
        }
    }
}

/// Starts the workers of every resource that was planned.
///
/// # Errors
/// An environment error when not one could be started.
pub(super) fn start_sources(plan: &Plan) -> Result<Sources> {
    let mut sources = Sources {
        subjects: Vec::new(),
        groups: Vec::new(),
        facts: BTreeMap::new(),
        unavailable: plan.workers.unavailable.clone(),
    };
    for (resource, mut workers) in plan.workers.ready.clone() {
        plan.request.check_interrupt()?;
        if resource.row().switch_cost == SwitchCost::FillsMemory {
            // The other workers hold their buffers by now.
            let now = crate::machine::available_memory_bytes().unwrap_or(0);
            let environment = &mut workers.config.environment;
            let may = now.saturating_sub(environment.memory_reserve_bytes);
            environment.memory_headroom_bytes = environment.memory_headroom_bytes.min(may);
        }
        match start_source(resource, workers, plan) {
            Ok((subject, group, facts)) => {
                sources.subjects.push(subject);
                sources.groups.push(group);
                sources.facts.insert(resource.id(), facts);
            }
            Err(reason) => sources
                .unavailable
                .push((resource.id(), Refusal::Unavailable(reason))),
        }
    }
    if sources.subjects.is_empty() {
        let reasons: Vec<String> = sources
            .unavailable
            .iter()
            .map(|(resource, reason)| format!("{resource}: {reason}"))
            .collect();
        return Err(Error::environment(format!(
            "none of the requested resources can be stressed on this machine: {}",
            reasons.join("; ")
        )));
    }
    Ok(sources)
}

/// Starts the workers of one resource and learns what its windows need.
fn start_source(
    resource: Resource,
    workers: WorkerPlan,
    plan: &Plan,
) -> std::result::Result<(Subject, WorkerGroup, SourceFacts), String> {
    let bound = physical_bound(resource, &workers, plan);
    let timing = resource.row().timing;
    let calibration = plan.request.calibration.as_ref();
    let settle = calibration
        .and_then(|known| known.settle_seconds(resource.id()))
        .map_or(timing.settle, Duration::from_secs_f64);
    let mut group = WorkerGroup::spawn(workers, READY)?;
    let peak = find_peak(&mut group, calibration, timing.peak)?;
    let switch_cost = match resource.row().switch_cost {
        // Taking it costs time, giving it back next to none: half each way.
        SwitchCost::FillsMemory => fill_time(&mut group, plan.request.settings.budget)? / 2,
        SwitchCost::None => Duration::ZERO,
    };
    let subject = Subject {
        resource: resource.id(),
        // Whole slices are averaged over.
        settle: settle.max(plan.period() * 4),
        window: timing.window.max(plan.period() * 10),
        switch_cost,
        stoppable: true,
        probe_endpoints: resource.row().probe_endpoints,
    };
    let facts = SourceFacts {
        placement: group.plan.placement.clone(),
        full_scale: group.full_scale(),
        calibrated: peak.calibrated,
        warning: peak.warning,
        bound,
    };
    Ok((subject, group, facts))
}

/// How long taking all the memory will take, from taking a little. Memory that
/// a host has not backed yet comes many times slower than memory that was used
/// before; where that can be afforded, all of it is touched once here, so that
/// the switches to come measure the target and not the host.
fn fill_time(group: &mut WorkerGroup, budget: Duration) -> std::result::Result<Duration, String> {
    let all = group.plan.config.environment.memory_headroom_bytes as f64;
    let part = (FILL_SAMPLE_BYTES / all).min(1.0);
    let first = take(group, part, Duration::from_secs(20))?.div_f64(part);
    if first < SLOW_FILL || first > budget.mul_f64(FIRST_FILL_SHARE) {
        return Ok(first);
    }
    take(group, 1.0, budget)?;
    Ok(take(group, part, Duration::from_secs(20))?.div_f64(part))
}

/// Takes `part` (0–1) of the memory and gives it back; the time of taking it.
fn take(
    group: &mut WorkerGroup,
    part: f64,
    patience: Duration,
) -> std::result::Result<Duration, String> {
    let mut apply = |order| -> std::result::Result<Duration, String> {
        let from = Instant::now();
        let command = group.set(order);
        group.wait_applied(command, patience, &|| false)?;
        Ok(from.elapsed())
    };
    let took = apply(Order::Treat(part * 100.0))?;
    apply(Order::Park)?;
    Ok(took)
}

/// What a source that takes turns with the target can cost at most, where one
/// refill per turn is all it can cause.
fn physical_bound(resource: Resource, workers: &WorkerPlan, plan: &Plan) -> Option<PhysicalBound> {
    if resource != Resource::L1d || workers.placement.mode != PlacementMode::SameCpu {
        return None;
    }
    let cpu = *workers.placement.cpus.first()?;
    let (l1d, l2) = (plan.machine.l1d(cpu)?, plan.machine.l2(cpu)?);
    let refill = jostle_kernels::refill_ns(l1d.size_bytes, l2.size_bytes / 2).ok()?;
    let turn = plan.period().as_nanos() as f64 * (1.0 - plan.request.share);
    Some(PhysicalBound {
        loss_percent: refill / turn * 100.0,
        basis: format!(
            "a dependent walk over {} KiB took {:.1} µs longer right after eviction; the target \
             pays that at most once in each turn of {:.2} ms (what the source takes of the levels \
             below comes on top)",
            l1d.size_bytes >> 10,
            refill / 1e3,
            turn / 1e6
        ),
    })
}
