//! Where workers run: the closest CPUs that share the resource with the target.

use crate::machine::Machine;
use jostle_profile::Placement;
use jostle_profile::PlacementMode;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Resource;
use thiserror::Error;

/// Why a resource cannot be stressed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Nothing here shares the resource with the target.
    #[error("not shared: {0}")]
    NotShared(String),
    /// Something that the source needs is missing.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

impl Refusal {
    /// The reason in words.
    pub fn reason(&self) -> &str {
        match self {
            Refusal::NotShared(reason) | Refusal::Unavailable(reason) => reason,
        }
    }
}

/// CPUs for the workers of `resource` beside a target on `target_cpus`, taken
/// from `allowed`.
///
/// Core-private resources go to an SMT sibling if there is a free one, else
/// they take turns on the target's own CPUs. LLC and memory go to other cores
/// of the group or node; devices to any other CPU; and where the allowed set
/// holds no other CPU, everything takes turns with the target.
///
/// # Errors
/// When no allowed CPU shares the resource.
pub fn place(
    machine: &Machine,
    resource: Resource,
    target_cpus: &[usize],
    allowed: &[usize],
) -> Result<Placement, Refusal> {
    let own: Vec<usize> = intersect(target_cpus, allowed);
    let free: Vec<usize> = without(allowed, target_cpus);
    let same_cpu = || match own.is_empty() {
        false => Ok(placement(PlacementMode::SameCpu, own.clone())),
        true => Err(Refusal::NotShared(format!(
            "the workers may use CPUs {}, and none of them shares its {} with the target's CPUs {}",
            jostle_profile::cpulist::format_list(allowed),
            resource.row().domain.as_str(),
            jostle_profile::cpulist::format_list(target_cpus)
        ))),
    };
    // The free CPUs that share a domain with any of the target's, ascending.
    let shared = |domain| {
        let groups: Vec<usize> = target_cpus
            .iter()
            .flat_map(|&cpu| machine.sharing(domain, cpu))
            .collect();
        intersect(&free, &groups)
    };
    let siblings = shared(Domain::PhysicalCore);
    let beside = |mode, group: Vec<usize>| {
        // A sibling would also press on the core: other cores come first.
        let mut cpus = without(&group, &siblings);
        if cpus.is_empty() {
            cpus = group;
        }
        cpus.truncate(resource.row().most_workers);
        match cpus.is_empty() {
            false => Ok(placement(mode, cpus)),
            true => same_cpu(),
        }
    };
    match resource.row().domain {
        Domain::LogicalCpu => same_cpu(),
        Domain::PhysicalCore => match siblings.is_empty() {
            false => Ok(placement(PlacementMode::SmtSibling, siblings)),
            true => same_cpu(),
        },
        Domain::L2Group => {
            let others = without(&shared(Domain::L2Group), &siblings);
            if !siblings.is_empty() {
                Ok(placement(PlacementMode::SmtSibling, siblings))
            } else if !others.is_empty() {
                Ok(placement(PlacementMode::SharedL2, others))
            } else {
                same_cpu()
            }
        }
        Domain::LlcGroup => beside(PlacementMode::SharedLlc, shared(Domain::LlcGroup)),
        Domain::NumaNode => beside(PlacementMode::SameNuma, shared(Domain::NumaNode)),
        Domain::Machine => {
            // Messages pass between the sources' own CPUs: it takes two of them.
            let near = shared(Domain::LlcGroup);
            let (mode, cpus) = match near.len() >= 2 {
                true => (PlacementMode::SharedLlc, near),
                false => (PlacementMode::SameNuma, free.clone()),
            };
            match cpus.len() >= 2 {
                true => Ok(placement(mode, cpus)),
                false => Err(Refusal::NotShared(format!(
                    "it takes two CPUs beside the target's to pass messages between, and there \
                     {}",
                    match cpus.len() {
                        0 => "is none".to_string(),
                        _ => format!("is only CPU {}", cpus[0]),
                    }
                ))),
            }
        }
        Domain::BlockDevice | Domain::NetworkDevice => {
            let found = beside(PlacementMode::Device, free.clone())?;
            Ok(placement(PlacementMode::Device, found.cpus[..1].to_vec()))
        }
    }
}

fn placement(mode: PlacementMode, cpus: Vec<usize>) -> Placement {
    Placement { mode, cpus }
}

fn intersect(a: &[usize], b: &[usize]) -> Vec<usize> {
    a.iter().copied().filter(|cpu| b.contains(cpu)).collect()
}

fn without(a: &[usize], b: &[usize]) -> Vec<usize> {
    a.iter().copied().filter(|cpu| !b.contains(cpu)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fake;

    fn placed(machine: &Machine, id: &str, target: &[usize], allowed: &[usize]) -> Placement {
        place(machine, id.parse().unwrap(), target, allowed).unwrap()
    }

    #[test]
    fn two_cores_without_smt() {
        let machine = fake::cores(2, 1);
        let all = [0, 1];
        for id in ["cpu-time", "l1d", "l2-capacity", "l2-bandwidth"] {
            let found = placed(&machine, id, &[1], &all);
            assert_eq!(found, placement(PlacementMode::SameCpu, vec![1]), "{id}");
        }
        let found = placed(&machine, "llc-capacity", &[1], &all);
        assert_eq!(found, placement(PlacementMode::SharedLlc, vec![0]));
        let found = placed(&machine, "memory-bandwidth", &[1], &all);
        assert_eq!(found, placement(PlacementMode::SameNuma, vec![0]));
        let found = placed(&machine, "storage-bandwidth", &[1], &all);
        assert_eq!(found, placement(PlacementMode::Device, vec![0]));
    }

    #[test]
    fn siblings_serve_the_core_and_other_cores_the_rest() {
        // Four cores, eight threads: CPU n and n + 4 share a core.
        let machine = fake::cores(4, 2);
        let all: Vec<usize> = (0..8).collect();
        for id in ["l1d", "l2-capacity", "l2-bandwidth"] {
            let found = placed(&machine, id, &[1], &all);
            assert_eq!(found, placement(PlacementMode::SmtSibling, vec![5]), "{id}");
        }
        let found = placed(&machine, "cpu-time", &[1], &all);
        assert_eq!(found, placement(PlacementMode::SameCpu, vec![1]));
        let found = placed(&machine, "llc-capacity", &[1], &all);
        assert_eq!(found, placement(PlacementMode::SharedLlc, vec![0, 2, 3, 4]));
        let found = placed(&machine, "memory-bandwidth", &[1], &all);
        assert_eq!(found.cpus, [0, 2, 3, 4, 6, 7]);
        let found = placed(&machine, "memory-capacity", &[1], &all);
        assert_eq!(found.cpus, [0]);
    }

    #[test]
    fn a_target_on_both_threads_is_met_by_turns() {
        let machine = fake::cores(4, 2);
        let all: Vec<usize> = (0..8).collect();
        let found = placed(&machine, "l1d", &[1, 5], &all);
        assert_eq!(found, placement(PlacementMode::SameCpu, vec![1, 5]));
    }

    #[test]
    fn the_allowed_set_is_kept() {
        let machine = fake::cores(4, 2);
        for id in ["l1d", "llc-capacity", "memory-bandwidth"] {
            let found = placed(&machine, id, &[1], &[1]);
            assert_eq!(found, placement(PlacementMode::SameCpu, vec![1]), "{id}");
        }
        let found = placed(&machine, "storage-bandwidth", &[1], &[1]);
        assert_eq!(found.cpus, [1]);
        let found = placed(&machine, "llc-capacity", &[1], &[1, 5]);
        assert_eq!(found.cpus, [5], "a sibling is better than nothing");
        let reason = place(&machine, Resource::CpuTime, &[1], &[2]).unwrap_err();
        assert!(reason.reason().contains("CPUs 2"), "{reason}");
    }
}
