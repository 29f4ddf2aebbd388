//! One source on the real machine: where it runs, what is asked of it in which
//! order, and what of it makes no sense here.

use super::Request;
use super::peaks;
use super::press::Press;
use super::press::Slot;
use super::press::Stop;
use super::press::Watch;
use super::reading;
use super::reporter;
use super::reporter::Meeting;
use super::reporter::Probe;
use jostle_host::inject::WorkerGroup;
use jostle_host::inject::WorkerPlan;
use jostle_host::inject::placement::Refusal;
use jostle_host::inject::plan::Limits;
use jostle_host::inject::plan::plan;
use jostle_host::inject::plan::plan_alone;
use jostle_host::inject::slice::PERIODS;
use jostle_host::inject::worker::Slices;
use jostle_host::machine::Machine;
use jostle_host::machine::calibration::Alone;
use jostle_host::machine::calibration::Peak;
use jostle_host::machine::calibration::Reporter;
use jostle_host::machine::calibration::Source;
use jostle_host::machine::format_bytes;
use jostle_host::machine::transfer::APART_NS;
use jostle_host::machine::transfer::Transfer;
use jostle_profile::PlacementMode;
use jostle_profile::Unknown;
use jostle_profile::cpulist::format_list;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Intensity;
use jostle_profile::resource::Resource;
use jostle_profile::resource::SwitchCost;
use std::time::Duration;

/// Most memory that `memory-capacity` takes here: all of it would take as long
/// as everything else together.
const MEMORY_BYTES: u64 = 1 << 30;
/// Longest a worker may take to make itself ready.
const READY: Duration = Duration::from_secs(30);
/// Shares of the time a source has left when each begins; starting workers
/// takes its part in between.
const PEAK_SHARE: f64 = 0.25;
const SETTLE_SHARE: f64 = 0.35;
const REPORTER_SHARE: f64 = 0.7;
const TOGETHER_SHARE: f64 = 0.5;

/// Where a source runs alone, beside a target on `cpu`, and its second copy in
/// the target's place.
struct Plans {
    alone: Result<WorkerPlan, Refusal>,
    beside: Result<WorkerPlan, Refusal>,
    second: Result<WorkerPlan, Refusal>,
    together: Result<WorkerPlan, Refusal>,
}

fn plans(
    machine: &Machine,
    resource: Resource,
    cpu: usize,
    limits: &Limits,
    period: Duration,
) -> Plans {
    // Two copies run at a time.
    let mut limits = limits.clone();
    limits.memory_bytes /= 2;
    if resource.row().switch_cost == SwitchCost::FillsMemory {
        limits.memory_bytes = limits.memory_bytes.min(MEMORY_BYTES);
    }
    let slices = Slices::usual(period);
    let on = |cpus: Option<&[usize]>| plan_alone(machine, resource, cpus, &limits, slices);
    let not_shared = |who: &str| Err(Refusal::NotShared(format!("{who} has its own")));
    let sharing = sharing(machine, resource, cpu, &limits.cpus);
    Plans {
        alone: on(None),
        beside: plan(machine, resource, &[cpu], &limits, slices),
        second: on(Some(&[cpu])),
        together: match resource.row().domain {
            Domain::BlockDevice | Domain::NetworkDevice => Err(Refusal::Unavailable(
                "one worker is meant to reach what the device delivers".to_string(),
            )),
            Domain::LogicalCpu => not_shared("every logical CPU"),
            _ if sharing.len() > 1 => on(Some(&sharing)),
            domain => not_shared(&format!(
                "every {} of this machine",
                match domain {
                    Domain::L2Group | Domain::PhysicalCore => "CPU",
                    domain => domain.as_str(),
                }
            )),
        },
    }
}

/// The allowed CPUs that share `resource` with `cpu`, itself included.
fn sharing(machine: &Machine, resource: Resource, cpu: usize, allowed: &[usize]) -> Vec<usize> {
    let group = match resource.row().domain {
        Domain::Machine => allowed.to_vec(),
        domain => machine.sharing(domain, cpu),
    };
    let cpus = allowed.iter().copied();
    cpus.filter(|cpu| group.contains(cpu)).collect()
}

/// Measures one source within about `length`, and what of `patience` it waits for CPUs that
/// were moved apart.
pub(super) fn measure(
    request: &Request,
    resource: Resource,
    cpu: usize,
    period: Duration,
    length: Duration,
    patience: &mut Duration,
    watch: &dyn Watch,
) -> Result<Source, Stop> {
    let plans = plans(request.machine, resource, cpu, &request.limits, period);
    let (end, had) = (watch.now() + length, *patience);
    // What was waited takes no time from what follows.
    let slot = |share: f64, patience: Duration| Slot {
        timing: resource.row().timing,
        length: (end + had - patience)
            .saturating_sub(watch.now())
            .mul_f64(share),
        watch,
    };
    let without_numbers = |reason: &str| Source::without_numbers(resource, reason);
    let plan = match plans.alone {
        Ok(plan) => plan,
        Err(refusal) => return Ok(without_numbers(&refusal.to_string())),
    };
    let mut entry = without_numbers("not measured");
    entry.settings = plan.settings();
    if resource.row().switch_cost == SwitchCost::FillsMemory {
        entry.notes.push(format!(
            "measured with {} of the {} that may be taken: taking all takes too long here",
            format_bytes(plan.config.environment.memory_headroom_bytes),
            format_bytes(request.limits.memory_bytes)
        ));
    }
    // The first group goes on to be one of the two of the reporter.
    let mut group = match reading(spawn(plan, watch))? {
        Reading::Value(group) => group,
        Reading::Unavailable { unavailable } => {
            return Ok(Source {
                settings: entry.settings,
                notes: entry.notes,
                ..without_numbers(&unavailable)
            });
        }
    };
    entry.alone = reading(alone(&mut group, slot(PEAK_SHARE, *patience)))?;
    let alone_peak = entry
        .alone
        .value()
        .and_then(|alone| alone.peak.operations_per_second);
    let (beside, second) = (plans.beside, plans.second);
    match reading(pair(resource, group, beside, second, alone_peak, watch))? {
        Reading::Value(mut pair) => {
            let machine = request.machine;
            let may_part = match machine.hypervisor {
                Some(_) => machine.sharing(Domain::LlcGroup, cpu),
                None => Vec::new(),
            };
            let transfer = pair.transfer(&may_part);
            let meeting = Meeting {
                probe: pair.probe_is(),
                shares: &|| Some(transfer.as_ref()?.look()? <= APART_NS),
            };
            let settle = slot(SETTLE_SHARE, *patience);
            entry.settle_seconds = reading(pair.settle(&meeting, period, settle, patience))?;
            let curve = slot(REPORTER_SHARE, *patience);
            entry.reporter = reading(pair.curve(&meeting, curve, patience))?;
        }
        Reading::Unavailable { unavailable } => {
            entry.settle_seconds = Reading::unavailable(unavailable.clone());
            entry.reporter = Reading::unavailable(unavailable);
        }
    }
    entry.together = match plans.together {
        Ok(plan) => reading(together(plan, slot(TOGETHER_SHARE, *patience)))?,
        Err(refusal) => Reading::unavailable(refusal.to_string()),
    };
    Ok(entry)
}

fn spawn(plan: WorkerPlan, watch: &dyn Watch) -> Result<WorkerGroup, Stop> {
    watch.check()?;
    Ok(WorkerGroup::spawn(plan, READY)?)
}

fn alone(group: &mut WorkerGroup, slot: Slot) -> Result<Alone, Stop> {
    let operations_per_second = peaks::peak(group, slot)?;
    Ok(Alone {
        peak: peak_of(group, operations_per_second)?,
        unknown: Unknown::new(),
    })
}

fn together(plan: WorkerPlan, slot: Slot) -> Result<Peak, Stop> {
    if plan.spec.intensity() != Intensity::Rate {
        return Err(Stop::Failed(
            "what is held does not grow with the CPUs that hold it".to_string(),
        ));
    }
    if plan.spec.spans_cpus {
        return Err(Stop::Failed(
            "its one worker spans all CPUs: see what it reached alone".to_string(),
        ));
    }
    let mut group = spawn(plan, slot.watch)?;
    let reached = peaks::peak(&mut group, slot)?;
    peak_of(&group, reached)
}

fn peak_of(group: &WorkerGroup, operations_per_second: Option<f64>) -> Result<Peak, Stop> {
    let pressure = Press::full_scale(group)
        .ok_or_else(|| Stop::Failed("its worker reported no pressure at 100 %".to_string()))?;
    Ok(Peak {
        placement: group.plan.placement.clone(),
        workers: group.workers(),
        pressure,
        operations_per_second,
    })
}

/// A source as it runs beside a target, and its second copy in the target's
/// place.
struct Pair {
    probe: WorkerGroup,
    second: WorkerGroup,
}

/// Makes the pair; `group`, which ran alone, serves as the one that would run
/// at the same place in the same way.
fn pair(
    resource: Resource,
    group: WorkerGroup,
    beside: Result<WorkerPlan, Refusal>,
    second: Result<WorkerPlan, Refusal>,
    peak: Option<f64>,
    watch: &dyn Watch,
) -> Result<Pair, Stop> {
    if resource.row().switch_cost == SwitchCost::FillsMemory {
        return Err(Stop::Failed(
            "two copies meet only when memory runs out, which calibration never lets happen"
                .to_string(),
        ));
    }
    let (beside, second) = (beside?, second?);
    let shortest = Slot {
        timing: resource.row().timing,
        length: Duration::ZERO,
        watch,
    };
    let same = |plan: &WorkerPlan| {
        plan.placement.cpus == group.plan.placement.cpus
            && plan.config.slices == group.plan.config.slices
    };
    let other = |plan: WorkerPlan| -> Result<WorkerGroup, Stop> {
        let mut other = spawn(plan, watch)?;
        match peak {
            Some(peak) if other.workers() == group.workers() && !other.plan.has_another_peak() => {
                other.set_peak(peak);
            }
            _ => drop(peaks::peak(&mut other, shortest)?),
        }
        Ok(other)
    };
    let (probe, second) = if same(&beside) {
        let second = other(second)?;
        (group, second)
    } else if same(&second) {
        (other(beside)?, group)
    } else {
        (other(beside)?, other(second)?)
    };
    Ok(Pair { probe, second })
}

impl Pair {
    fn probe_is(&self) -> Probe {
        match self.probe.plan.config.slices.is_some() {
            true => Probe::InTurns,
            false if self.probe.plan.spec.probes => Probe::Victim,
            false => Probe::Apart,
        }
    }

    /// What tells whether the two share a last-level cache, if they meet there on CPUs that
    /// `may_part`.
    fn transfer(&self, may_part: &[usize]) -> Option<Transfer> {
        let (probe, second) = (&self.probe.plan.placement, &self.second.plan.placement);
        let meets_there = matches!(
            probe.mode,
            PlacementMode::SharedLlc | PlacementMode::SameNuma
        );
        let (one, other) = probe.cpus.first().zip(second.cpus.first())?;
        let parts = meets_there && may_part.contains(one) && may_part.contains(other);
        parts.then(|| Transfer::between(*one, *other).ok())?
    }

    fn settle(
        &mut self,
        meeting: &Meeting,
        period: Duration,
        slot: Slot,
        patience: &mut Duration,
    ) -> Result<f64, Stop> {
        // Whole turns are averaged over.
        let shortest = match meeting.probe {
            Probe::InTurns => period * 2,
            _ => Duration::from_millis(1),
        };
        let (probe, second) = (&mut self.probe, &mut self.second);
        let settle = reporter::settle(probe, second, meeting, shortest, slot, patience)?;
        Ok(settle.as_secs_f64())
    }

    fn curve(
        &mut self,
        meeting: &Meeting,
        slot: Slot,
        patience: &mut Duration,
    ) -> Result<Reporter, Stop> {
        Ok(Reporter {
            curve: reporter::curve(&mut self.probe, &mut self.second, meeting, slot, patience)?,
            placement: self.probe.plan.placement.clone(),
            second_cpus: self.second.plan.placement.cpus.clone(),
        })
    }
}

/// What would be injected where, one line per source.
pub fn dry_run(request: &Request) -> String {
    let Some(cpu) = request.machine.quietest_cpu() else {
        return "nothing: no CPU is allowed to this process\n".to_string();
    };
    let mut text = format!(
        "budget {:.0} s; sizes and slices are measured on CPU {cpu}\n\
         memory: at most {} taken, {} always left\n",
        request.budget.as_secs_f64(),
        format_bytes(request.limits.memory_bytes),
        format_bytes(request.limits.memory_reserve_bytes),
    );
    text += &match &request.limits.scratch {
        Ok(directory) => format!(
            "disk: two unlinked files of {} in {}\n",
            format_bytes(request.limits.scratch_bytes),
            directory.display()
        ),
        Err(reason) => format!("disk: {reason}\n"),
    };
    for &resource in request.resources {
        let plans = plans(request.machine, resource, cpu, &request.limits, PERIODS[0]);
        let cpus = |plan: &WorkerPlan| format_list(&plan.placement.cpus);
        let line = match (&plans.alone, &plans.beside, &plans.second) {
            (Err(refusal), _, _) => refusal.to_string(),
            (Ok(alone), Ok(beside), Ok(second))
                if resource.row().switch_cost == SwitchCost::None =>
            {
                format!(
                    "alone on CPUs {}; on CPUs {} beside a second copy on CPUs {}",
                    cpus(alone),
                    cpus(beside),
                    cpus(second)
                )
            }
            (Ok(alone), _, _) => format!("alone on CPUs {}", cpus(alone)),
        };
        let together = match &plans.together {
            Ok(plan)
                if plan.spec.intensity() == Intensity::Rate
                    && !plan.spec.spans_cpus
                    && plans.alone.is_ok() =>
            {
                format!("; on CPUs {} at once", cpus(plan))
            }
            _ => String::new(),
        };
        text += &format!("{:<18} {line}{together}\n", resource.id());
    }
    text
}
