//! From a resource to a plan for its workers, within limits the user can see.

use crate::inject::group::WorkerPlan;
use crate::inject::placement::place;
use crate::inject::worker::Slices;
use crate::inject::worker::WorkerConfig;
use crate::machine::Machine;
use crate::profile::PlacementMode;
use crate::resource::Resource;
use jostle_kernels::Waiting;
use std::path::PathBuf;

/// What workers may take.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// CPUs the workers may run on.
    pub cpus: Vec<usize>,
    /// Memory that may be taken, the reserve already taken off, bytes.
    pub memory_bytes: u64,
    /// Available memory that is left alone whatever happens, bytes.
    pub memory_reserve_bytes: u64,
    /// Directory on a block device for the scratch file, or why there is none.
    pub scratch: Result<PathBuf, String>,
    /// Size of the scratch file, bytes.
    pub scratch_bytes: u64,
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
/// In words: why this resource cannot be pressed on here.
pub fn plan(
    machine: &Machine,
    resource: &Resource,
    target_cpus: &[usize],
    limits: &Limits,
    slices: Slices,
) -> Result<WorkerPlan, String> {
    let spec = jostle_kernels::find(resource.id)
        .ok_or_else(|| "this version has no source for it".to_string())?;
    let placement = place(machine, resource, target_cpus, &limits.cpus)?;
    let first = *placement.cpus.first().ok_or("no CPU to run on")?;
    let size = |cache: Option<&crate::machine::Cache>| cache.map_or(0, |cache| cache.size_bytes);
    // Sources that sleep between operations leave the CPU alone wherever they
    // run; only those that would spin on the target's CPU take turns.
    let takes_turns = placement.mode == PlacementMode::SameCpu
        && (spec.waiting == Waiting::Spin || resource.id == "cpu-time");
    let scratch_directory = match resource.id {
        "storage-bandwidth" => Some(limits.scratch.clone()?),
        _ => None,
    };
    let config = WorkerConfig {
        resource: resource.id.to_string(),
        slices: takes_turns.then_some(slices),
        l1d_bytes: size(machine.l1d(first)),
        l2_bytes: size(machine.l2(first)),
        llc_bytes: size(machine.llc(first)),
        memory_headroom_bytes: limits.memory_bytes,
        memory_reserve_bytes: limits.memory_reserve_bytes,
        scratch_directory,
        scratch_bytes: limits.scratch_bytes,
        workers: placement.cpus.len() as u64,
    };
    Ok(WorkerPlan {
        spec,
        placement,
        config,
    })
}
