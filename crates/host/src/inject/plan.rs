//! From a resource to a plan for its workers, within limits the user can see.

use crate::inject::group::WorkerPlan;
use crate::inject::placement::Refusal;
use crate::inject::placement::place;
use crate::inject::worker::Slices;
use crate::inject::worker::WorkerConfig;
use crate::machine::Cache;
use crate::machine::CacheKind;
use crate::machine::Machine;
use crate::machine::block_device_of;
use jostle_kernels::Access;
use jostle_kernels::Environment;
use jostle_kernels::Waiting;
use jostle_kernels::network::NO_PEER;
use jostle_kernels::network::Traffic;
use jostle_kernels::storage::pattern::Pattern;
use jostle_profile::Placement;
use jostle_profile::PlacementMode;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Intensity;
use jostle_profile::resource::Resource;
use jostle_profile::resource::SwitchCost;
use serde_json::Value;
use std::path::PathBuf;

impl WorkerPlan {
    /// Whether the peak of this source differs from the calibrated one, which was measured
    /// without time-sharing.
    pub fn has_another_peak(&self) -> bool {
        self.spec.differs_time_shared && self.config.environment.time_shared
    }

    /// What a peak depends on beside the machine and the number of workers: the
    /// environment without what changes by the hour or says where.
    pub fn settings(&self) -> Value {
        let environment = &self.config.environment;
        let mut settings = serde_json::to_value(environment).expect("plain data");
        let Some(keys) = settings.as_object_mut() else {
            return Value::Null;
        };
        for key in [
            "memory_headroom_bytes",
            "memory_reserve_bytes",
            "workers",
            "cpus",
            "time_shared",
            "scratch_directory",
        ] {
            keys.remove(key);
        }
        // What another source is told says nothing of this one.
        if !plays_storage_pattern(self.spec.resource) {
            keys.remove("storage_pattern");
        }
        if environment.network.is_none() {
            keys.remove("network");
        }
        match &environment.scratch_directory {
            // One disk is as fast in every directory.
            Some(directory) => {
                let device = block_device_of(directory).map(|device| device.name);
                keys.insert("scratch_device".to_string(), device.to_string().into());
            }
            None => {
                keys.remove("scratch_bytes");
            }
        }
        settings
    }
}

/// Whether the I/O of the source of `resource` follows a pattern.
fn plays_storage_pattern(resource: Resource) -> bool {
    let row = resource.row();
    (row.domain, row.intensity) == (Domain::BlockDevice, Intensity::Rate)
}

/// What workers may take.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// CPUs the workers may run on.
    pub cpus: Vec<usize>,
    /// Memory that may be taken, the reserve already taken off, bytes.
    pub memory_bytes: u64,
    /// Most of it that `memory-capacity` fills; all of it when absent.
    pub most_filled_bytes: Option<u64>,
    /// Available memory that is left alone whatever happens, bytes.
    pub memory_reserve_bytes: u64,
    /// Directory on a block device for the scratch file, or why there is none.
    pub scratch: Result<PathBuf, String>,
    /// Size of the scratch file, bytes.
    pub scratch_bytes: u64,
    /// What the I/O of `storage-bandwidth` looks like.
    pub storage_pattern: Pattern,
    /// Size of the last-level cache as calibrated, which the sources of that cache cover
    /// at 100 %; as the machine tells when absent.
    pub llc_bytes: Option<u64>,
    /// How the bandwidth sources access memory.
    pub access: Access,
    /// Percent of the time that every task may wait for memory before the
    /// sources back off.
    pub max_stall_percent: f64,
    /// Whom the network source may send to, and how; `None` when nobody was
    /// named.
    pub network: Option<Traffic>,
}

/// Least memory left alone unless told otherwise.
pub const LEAST_RESERVE: u64 = 512 << 20;

/// The reserve unless told otherwise: 5 % of the memory, at least 512 MiB.
pub fn default_reserve(total_bytes: u64) -> u64 {
    (total_bytes / 20).max(LEAST_RESERVE)
}

/// Size of the scratch file unless told otherwise.
pub const SCRATCH_BYTES: u64 = 256 << 20;

/// Plans the workers of `resource` beside a target on `target_cpus`; `slices`
/// is what same-CPU workers are given.
///
/// # Errors
/// Why this resource cannot be stressed here.
pub fn plan(
    machine: &Machine,
    resource: Resource,
    target_cpus: &[usize],
    limits: &Limits,
    slices: Slices,
) -> Result<WorkerPlan, Refusal> {
    let placement = place(machine, resource, target_cpus, &limits.cpus)?;
    let mut plan = plan_at(machine, resource, placement, limits)?;
    // Sources that sleep between operations leave the CPU alone wherever they
    // run; only those that would spin on the target's CPU take turns.
    let takes_turns = plan.placement.mode == PlacementMode::SameCpu
        && (plan.spec.waiting == Waiting::Spin || plan.spec.intensity() == Intensity::Share);
    plan.config.slices = takes_turns.then(|| slices.of_resource(resource));
    plan.config.environment.time_shared = takes_turns;
    Ok(plan)
}

/// Plans the workers of `resource` with nobody to keep clear of: on `cpus`, or
/// where they would run beside a target on the quietest CPU; what needs more
/// CPUs than that leaves gets all. Only `cpu-time` takes turns.
pub fn plan_alone(
    machine: &Machine,
    resource: Resource,
    cpus: Option<&[usize]>,
    limits: &Limits,
    slices: Slices,
) -> Result<WorkerPlan, Refusal> {
    let on = |cpus: &[usize]| Placement {
        mode: PlacementMode::SameCpu,
        cpus: cpus.to_vec(),
    };
    let beside: Vec<usize> = machine.quietest_cpu().into_iter().collect();
    let placement = match (cpus, resource.row().domain) {
        (Some(cpus), _) => on(cpus),
        (None, Domain::Machine) => on(&limits.cpus),
        (None, _) => place(machine, resource, &beside, &limits.cpus)?,
    };
    let mut plan = plan_at(machine, resource, placement, limits)?;
    let share = resource.row().intensity == Intensity::Share;
    plan.config.slices = share.then(|| slices.of_resource(resource));
    Ok(plan)
}

/// Plans the workers of `resource` at `placement`, without turns.
fn plan_at(
    machine: &Machine,
    resource: Resource,
    placement: Placement,
    limits: &Limits,
) -> Result<WorkerPlan, Refusal> {
    let unavailable = |reason: &str| Refusal::Unavailable(reason.to_string());
    let spec = jostle_kernels::source(resource);
    let Some(&first) = placement.cpus.first() else {
        return Err(unavailable("no CPU to run on"));
    };
    if resource.row().domain == Domain::Machine && placement.cpus.len() < 2 {
        let problem = format!("it takes 2 CPUs, and only CPU {first} may be used");
        return Err(Refusal::Unavailable(problem));
    }
    let size = |cache: Option<&Cache>| cache.map_or(0, |cache| cache.size_bytes);
    let scratch_directory = match resource.row().domain {
        Domain::BlockDevice => Some(limits.scratch.clone().map_err(Refusal::Unavailable)?),
        _ => None,
    };
    let network = match resource.row().domain {
        Domain::NetworkDevice => Some(limits.network.clone().ok_or_else(|| unavailable(NO_PEER))?),
        _ => None,
    };
    let environment = Environment {
        l1d_bytes: size(machine.l1d(first)),
        l1i_bytes: size(machine.cache(first, 1, CacheKind::Instruction)),
        l2_bytes: size(machine.l2(first)),
        llc_bytes: match (resource.row().domain, limits.llc_bytes) {
            (Domain::LlcGroup, Some(measured)) => measured,
            _ => size(machine.llc(first)),
        },
        tlb_entries: machine.tlb_entries.value().map_or(0, |entries| *entries),
        memory_headroom_bytes: match (resource.row().switch_cost, limits.most_filled_bytes) {
            (SwitchCost::FillsMemory, Some(most)) => limits.memory_bytes.min(most),
            _ => limits.memory_bytes,
        },
        memory_reserve_bytes: limits.memory_reserve_bytes,
        access: limits.access,
        scratch_directory,
        scratch_bytes: limits.scratch_bytes,
        network,
        storage_pattern: match plays_storage_pattern(resource) {
            true => limits.storage_pattern.clone(),
            false => Pattern::default(),
        },
        workers: match spec.spans_cpus {
            true => 1,
            false => sharers(machine, resource.row().domain, &placement.cpus),
        },
        cpus: placement.cpus.clone(),
        ..Environment::default()
    };
    Ok(WorkerPlan {
        spec,
        placement,
        config: WorkerConfig {
            resource,
            slices: None,
            gives_way: false,
            environment,
        },
    })
}

/// How many workers on `cpus` share one instance of the resource, at most: each
/// core has caches of its own, however many cores are stressed.
fn sharers(machine: &Machine, domain: Domain, cpus: &[usize]) -> u64 {
    let group = |cpu: usize| match domain {
        Domain::PhysicalCore | Domain::L2Group | Domain::LlcGroup => machine.sharing(domain, cpu),
        _ => cpus.to_vec(),
    };
    let together = |cpu: &usize| {
        let group = group(*cpu);
        cpus.iter().filter(|other| group.contains(other)).count() as u64
    };
    cpus.iter().map(together).max().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fake;

    #[test]
    fn only_time_shared_a_stream_has_another_peak_and_its_calibration_still_holds() {
        let machine = fake::cores(2, 1);
        let limits = Limits {
            cpus: vec![0, 1],
            memory_bytes: 1 << 30,
            most_filled_bytes: None,
            memory_reserve_bytes: 0,
            scratch: Err("none".into()),
            scratch_bytes: 0,
            storage_pattern: Pattern::default(),
            llc_bytes: None,
            access: Access::default(),
            max_stall_percent: 20.0,
            network: None,
        };
        let slices = Slices::usual(std::time::Duration::from_millis(1));
        let plan = |resource| plan(&machine, resource, &[0], &limits, slices).unwrap();
        let turns = plan(Resource::L2Bandwidth);
        assert!(turns.has_another_peak());
        assert!(!plan(Resource::L2Capacity).has_another_peak());
        let on = Some(&[0][..]);
        let alone = plan_alone(&machine, Resource::L2Bandwidth, on, &limits, slices).unwrap();
        assert!(!alone.has_another_peak());
        assert_eq!(alone.settings(), turns.settings());
    }

    #[test]
    fn workers_share_what_their_domain_shares() {
        let machine = fake::cores(4, 2);
        let all: Vec<usize> = (0..8).collect();
        let siblings = machine.core_siblings(0).to_vec();
        assert_eq!(siblings.len(), 2);
        let others = without_siblings(&machine, &all);
        assert_eq!(sharers(&machine, Domain::PhysicalCore, &siblings), 2);
        assert_eq!(sharers(&machine, Domain::PhysicalCore, &others), 1);
        assert_eq!(sharers(&machine, Domain::NumaNode, &others), 4);
        assert_eq!(sharers(&machine, Domain::PhysicalCore, &[]), 1);
    }

    fn without_siblings(machine: &Machine, cpus: &[usize]) -> Vec<usize> {
        let first = |cpu: &usize| machine.core_siblings(*cpu).first() == Some(cpu);
        cpus.iter().copied().filter(first).collect()
    }
}
