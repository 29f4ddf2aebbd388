//! The sources of a measurement: started, ready, and what their windows need.

use super::bounds;
use super::executor::Sequence;
use super::executor::Subject;
use super::plan::Plan;
use super::settings::Settings;
use crate::error::Error;
use crate::error::Result;
use crate::warning::Warning;
use jostle_host::inject::WorkerError;
use jostle_host::inject::WorkerGroup;
use jostle_host::inject::WorkerPlan;
use jostle_host::inject::group::spawn_together;
use jostle_host::inject::peak::look_at_peak;
use jostle_host::inject::peak::take_peak;
use jostle_host::inject::placement::Refusal;
use jostle_host::machine::calibration::Calibration;
use jostle_host::sys::control_page::Order;
use jostle_profile::PhysicalBound;
use jostle_profile::Placement;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Intensity;
use jostle_profile::resource::Resource;
use jostle_profile::resource::SwitchCost;
use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

/// Longest a worker may take to make itself ready: it writes its buffers and
/// its scratch file.
const READY: Duration = Duration::from_secs(60);
/// Taken once to learn how fast memory can be had, after a part of it that may say that there
/// is no time for it anyway.
const FILL_SAMPLE_BYTES: f64 = (128u64 << 20) as f64;
const FILL_PART: f64 = 0.25;
/// Filling that takes longer than this is tried a second time, warm, if the
/// first takes at most this share of the budget: the other resources want
/// theirs.
const SLOW_FILL: Duration = Duration::from_secs(1);
const FIRST_FILL_SHARE: f64 = 0.1;
/// Times as long as a little of it says after which filling is given up, and the least
/// share of it that a time can be told from.
const LONGER_THAN_SAID: f64 = 2.0;
const LEAST_TAKEN: f64 = 0.01;
/// Longest wait for a little of it, and until it is given back.
const SAMPLE_PATIENCE: Duration = Duration::from_secs(20);

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

/// From one reading of the target to the next beside a source on a CPU of its
/// own.
const READING: Duration = Duration::from_micros(500);
/// A walk from line to line needs so long to have 20 MiB of the last-level cache again
/// that a stream took, at 100 ns a line: with 40 ms between switches it took 20 ns a line at
/// the end and 154 ns beside the stream, with 8 ms between them never less than 100 ns.
const RECOVERY: Duration = Duration::from_millis(40);
/// What settles later is measured in long blocks of its own.
const LONGEST_CARRY_OVER: Duration = Duration::from_millis(20);

/// Workers that are ready, and what is known of each resource.
pub(super) struct Sources {
    pub(super) subjects: Vec<Subject>,
    /// `groups[i]` is the source of `subjects[i]`.
    pub(super) groups: Vec<WorkerGroup>,
    pub(super) facts: BTreeMap<&'static str, SourceFacts>,
    pub(super) unavailable: Vec<(&'static str, Refusal)>,
}

impl Sources {
    fn add(&mut self, resource: Resource, started: std::result::Result<Started, String>) {
        match started {
            Ok((subject, group, facts)) => {
                self.subjects.push(subject);
                self.groups.push(group);
                self.facts.insert(resource.id(), facts);
            }
            Err(reason) => {
                let reason = Refusal::Unavailable(reason);
                self.unavailable.push((resource.id(), reason));
            }
        }
    }

    /// Gives equal numbers to the sequences whose blocks have the same shape on the
    /// same CPUs, however long their sources need themselves.
    fn number_sequences(&mut self) {
        let mut known: Vec<(Sequence, &[usize])> = Vec::new();
        for (subject, group) in self.subjects.iter_mut().zip(&self.groups) {
            let Some(sequence) = &mut subject.sequence else {
                continue;
            };
            let shape = Sequence {
                least_skip: 0,
                ..*sequence
            };
            let shape = (shape, &group.plan.placement.cpus[..]);
            let found = known.iter().position(|other| *other == shape);
            let number = found.unwrap_or(known.len());
            if found.is_none() {
                known.push(shape);
            }
            sequence.number = number;
        }
    }

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

/// Sources of which some are still making themselves ready.
pub(super) struct Starting<'a> {
    plan: &'a Plan<'a>,
    sources: Sources,
    /// They press from other CPUs.
    apart: Vec<Spawned>,
    /// They start when the others hold their buffers.
    last: Vec<(Resource, WorkerPlan)>,
}

type Spawned = (
    Resource,
    WorkerPlan,
    std::result::Result<WorkerGroup, String>,
);

/// Starts the workers of every resource that was planned, and waits for those that
/// find out something while they make themselves ready that a target would disturb:
/// about the caches of its core, or about a device.
///
/// # Errors
/// Interrupted.
pub(super) fn begin_sources<'a>(plan: &'a Plan<'a>) -> Result<Starting<'a>> {
    let mut sources = Sources {
        subjects: Vec::new(),
        groups: Vec::new(),
        facts: BTreeMap::new(),
        unavailable: plan.workers.unavailable.clone(),
    };
    let (last, ready): (Vec<_>, Vec<_>) = plan
        .workers
        .ready
        .clone()
        .into_iter()
        .partition(|(resource, _)| resource.row().switch_cost == SwitchCost::FillsMemory);
    plan.request.check_interrupt()?;
    let together = ready.iter().enumerate().map(|(index, (resource, plan))| {
        // What takes no turns in sequences, and what wants something else of
        // the scheduler or the disk, has a process of its own.
        let row = resource.row();
        let alone = !plays(*resource, plan)
            || row.intensity == Intensity::Share
            || row.domain == Domain::BlockDevice;
        (if alone { 1 + index } else { 0 }, plan.clone())
    });
    // What writes large buffers does so while the peaks of the others are found.
    let groups = spawn_together(together.collect());
    let spawned = ready.into_iter().zip(groups);
    let spawned = spawned.map(|((resource, workers), group)| {
        let group = group.map_err(String::from);
        (resource, workers, group)
    });
    let (apart, first): (Vec<Spawned>, Vec<Spawned>) =
        spawned.partition(|(resource, ..)| only_fills_buffers(*resource));
    for (resource, workers, group) in first {
        plan.request.check_interrupt()?;
        let started = group.and_then(|group| start_source(resource, &workers, group, plan));
        sources.add(resource, started);
    }
    Ok(Starting {
        plan,
        sources,
        apart,
        last,
    })
}

/// Whether all that the source of `resource` does to make itself ready is to write
/// its buffers, on another CPU than the target's where there is one.
fn only_fills_buffers(resource: Resource) -> bool {
    matches!(
        resource.row().domain,
        Domain::LlcGroup | Domain::NumaNode | Domain::Machine
    )
}

impl Starting<'_> {
    /// Waits until those that are still making themselves ready have done so, or
    /// failed.
    pub(super) fn wait(&mut self) {
        for (_, _, group) in &mut self.apart {
            if let Ok(group) = group {
                // Its failure is told when it is looked at.
                let _ = group.wait_ready(READY);
            }
        }
    }

    /// Starts the rest, and learns what the windows of all of them need.
    ///
    /// # Errors
    /// An environment error when not one source could be started; interrupted.
    pub(super) fn finish(self) -> Result<Sources> {
        let (plan, mut sources) = (self.plan, self.sources);
        for (resource, workers, group) in self.apart {
            plan.request.check_interrupt()?;
            let started = group.and_then(|group| start_source(resource, &workers, group, plan));
            sources.add(resource, started);
        }
        for (resource, mut workers) in self.last {
            plan.request.check_interrupt()?;
            // The other workers hold their buffers by now.
            let now = jostle_host::machine::available_memory_bytes().unwrap_or(0);
            let environment = &mut workers.config.environment;
            let may = now.saturating_sub(environment.memory_reserve_bytes);
            environment.memory_headroom_bytes = environment.memory_headroom_bytes.min(may);
            let mut started = spawn_together(vec![(0, workers.clone())]);
            let started = started.pop().expect("one group for each plan");
            let started = started.map_err(String::from);
            sources.add(
                resource,
                started.and_then(|group| start_source(resource, &workers, group, plan)),
            );
        }
        sources.number_sequences();
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
}

type Started = (Subject, WorkerGroup, SourceFacts);

/// Learns what the windows of one resource need from its ready workers.
fn start_source(
    resource: Resource,
    workers: &WorkerPlan,
    mut group: WorkerGroup,
    plan: &Plan,
) -> std::result::Result<Started, String> {
    group.wait_ready(READY)?;
    let bound = bounds::bound_of(resource, workers, plan.turns());
    let timing = resource.row().timing;
    let calibration = plan.request.calibration.as_ref();
    let known = calibration.and_then(|known| known.settle_seconds(resource.id()));
    let own = known.map_or(timing.settle, Duration::from_secs_f64);
    let longest = plan.request.settings.longest_settle;
    let settle = own.max(recovery(resource, workers.config.slices.is_some()));
    let [own, settle] = [own, settle].map(|settle| settle.min(longest));
    let peak_time = match plan.request.settings.quick {
        true => timing.peak / 2,
        false => timing.peak,
    };
    let peak = match plan.request.spares_target() {
        true => take_peak(&mut group, calibration)?,
        false => look_at_peak(&mut group, calibration, peak_time)?,
    };
    let switch_cost = match resource.row().switch_cost {
        // Taking it costs time, giving it back next to none: half each way.
        SwitchCost::FillsMemory => fill_time(&mut group, &plan.request.settings)? / 2,
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
        probes: workers.spec.probes && workers.config.slices.is_none(),
        sequence: sequence(resource, workers, [own, settle]),
    };
    let facts = SourceFacts {
        placement: group.plan.placement.clone(),
        full_scale: group.full_scale(),
        calibrated: peak.calibrated,
        warning: peak.change.map(Warning::from),
        bound,
    };
    Ok((subject, group, facts))
}

/// How long at least a target needs for what the source of `resource` evicted:
/// calibration tells how fast the source is, and the target reads back what it lost at
/// a pace of its own.
fn recovery(resource: Resource, in_slices: bool) -> Duration {
    match resource.evicts_from_last_level() && !in_slices {
        true => RECOVERY,
        false => Duration::ZERO,
    }
}

/// Whether the source of `resource` can be switched within a sequence: it leaves
/// nothing behind that has to be filled or read first.
fn plays(resource: Resource, workers: &WorkerPlan) -> bool {
    let row = resource.row();
    let starts_at_once = match row.domain {
        Domain::NetworkDevice => false,
        _ => row.switch_cost == SwitchCost::None,
    };
    starts_at_once && !workers.spec.spans_cpus
}

/// The blocks of `resource`, whose source settles within `own`, and with the target within
/// `settle`; their sequence has no number yet.
fn sequence(
    resource: Resource,
    workers: &WorkerPlan,
    [own, settle]: [Duration; 2],
) -> Option<Sequence> {
    if !plays(resource, workers) {
        return None;
    }
    let slices = workers.config.slices;
    let period = slices.map_or(READING, |slices| Duration::from_nanos(slices.period_ns));
    let shape = |skip, read| {
        Some(Sequence {
            number: 0,
            period,
            skip,
            read,
            least_skip: skip.min(own.div_duration_f64(period).ceil() as u32),
            slices: slices.is_some(),
            takes_time: resource.row().intensity == Intensity::Share,
        })
    };
    if settle > LONGEST_CARRY_OVER {
        let skip = settle.div_duration_f64(period).ceil() as u32;
        let evicts = !recovery(resource, slices.is_some()).is_zero();
        return shape(skip, if evicts { skip / 2 } else { skip * 5 / 4 });
    }
    match slices {
        // The scheduler's own slices of milliseconds have to average out, and what the target
        // reads again and again has to be read at its new pace: scripts/block-length.
        Some(_) if resource.row().intensity == Intensity::Share => {
            let periods = |time: Duration| time.div_duration_f64(period).ceil() as u32;
            shape(
                periods(Duration::from_millis(12)),
                periods(Duration::from_millis(32)).max(2),
            )
        }
        Some(_) => shape(2, 6),
        // Requests on their way to the device end later than the block.
        None if resource.row().domain == Domain::BlockDevice => shape(8, 16),
        None => shape(Sequence::BESIDE[0], Sequence::BESIDE[1]),
    }
}

/// How long taking all the memory will take, from taking a little. Memory that
/// a host has not backed yet comes many times slower than memory that was used
/// before; where that can be afforded, all of it is touched once here, so that
/// the switches to come measure the target and not the host. Where that takes longer
/// than the little said, it is given up, and the time is that of what was taken.
fn fill_time(
    group: &mut WorkerGroup,
    settings: &Settings,
) -> std::result::Result<Duration, String> {
    let budget = settings.budget;
    let all = group.plan.config.environment.memory_headroom_bytes as f64;
    let part = (FILL_SAMPLE_BYTES / all).min(settings.max_intensity / 100.0);
    let little = part * FILL_PART;
    let first = take(group, little, SAMPLE_PATIENCE)?.div_f64(little);
    if first > budget {
        return Ok(first);
    }
    let first = take(group, part, SAMPLE_PATIENCE)?.div_f64(part);
    if first < SLOW_FILL || settings.is_limited() || first > budget.mul_f64(FIRST_FILL_SHARE) {
        return Ok(first);
    }
    let patience = first.mul_f64(LONGER_THAN_SAID);
    match take(group, 1.0, patience) {
        Ok(_) => Ok(take(group, part, SAMPLE_PATIENCE)?.div_f64(part)),
        Err(WorkerError::Late(_)) => {
            let taken = group.snapshot().held as f64 / all;
            let command = group.set(Order::Park);
            group.wait_applied(command, SAMPLE_PATIENCE, &|| false)?;
            Ok(patience.div_f64(taken.clamp(LEAST_TAKEN, 1.0)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Takes `part` (0–1) of the memory and gives it back; the time of taking it.
fn take(
    group: &mut WorkerGroup,
    part: f64,
    patience: Duration,
) -> std::result::Result<Duration, WorkerError> {
    let mut apply = |order| -> std::result::Result<Duration, WorkerError> {
        let from = Instant::now();
        let command = group.set(order);
        group.wait_applied(command, patience, &|| false)?;
        Ok(from.elapsed())
    };
    let took = apply(Order::Treat(part * 100.0))?;
    apply(Order::Park)?;
    Ok(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_evicts_from_the_last_level_cache_has_long_blocks() {
        let beside = |resource| recovery(resource, false);
        for evicts in [
            Resource::LlcCapacity,
            Resource::LlcBandwidth,
            Resource::MemoryBandwidth,
        ] {
            assert!(beside(evicts) > LONGEST_CARRY_OVER);
        }
        for other in [Resource::L2Capacity, Resource::StorageBandwidth] {
            assert_eq!(beside(other), Duration::ZERO);
        }
    }
}
