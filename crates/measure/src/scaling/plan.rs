//! Which sizes can be measured, and on which CPUs.

use crate::error::Result;
use crate::workload::TargetSpec;
use jostle_host::machine::Machine;
use jostle_profile::cpulist::format_list;

/// Sizes that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Ascending, from 1; empty where this curve is not wanted.
    pub cpus: Vec<u32>,
    pub instances: Vec<u32>,
}

impl Sizes {
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty() && self.instances.is_empty()
    }
}

/// CPUs in the order in which sizes take them, and why there are no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub cpus: Vec<usize>,
    /// As in "this machine has 2 CPUs".
    pub limit: String,
}

impl Plan {
    /// For a target of `spec`: what runs already keeps to the CPUs that it has; a
    /// command may have those `asked` for, or all that are allowed and that no load is
    /// sent `from`.
    ///
    /// # Errors
    /// When a running target is gone.
    pub fn new(
        machine: &Machine,
        spec: &TargetSpec,
        asked: Option<&[usize]>,
        from: &[usize],
    ) -> Result<Plan> {
        let allowed = &machine.allowed_cpus;
        let count = |cpus: &[usize]| match cpus.len() {
            1 => "1 CPU".to_string(),
            count => format!("{count} CPUs"),
        };
        let (mut cpus, limit) = match (spec.own_cpus()?, asked) {
            (Some(mut own), _) => {
                own.retain(|cpu| allowed.contains(cpu));
                let limit = match own.len() == machine.cpus.len() {
                    true => format!("this machine has {}", count(&own)),
                    false => format!("it may run on {} ({})", count(&own), format_list(&own)),
                };
                (own, limit)
            }
            (None, Some(asked)) => (asked.to_vec(), format!("--cpus names {}", count(asked))),
            (None, None) if allowed.len() == machine.cpus.len() => (
                allowed.clone(),
                format!("this machine has {}", count(allowed)),
            ),
            (None, None) => (
                allowed.clone(),
                format!("jostle may use {} of this machine", count(allowed)),
            ),
        };
        let mut limit = limit;
        if cpus.iter().any(|cpu| from.contains(cpu)) && cpus.iter().any(|cpu| !from.contains(cpu)) {
            cpus.retain(|cpu| !from.contains(cpu));
            limit += &format!(", and the load is sent from CPU {}", format_list(from));
        }
        Ok(Plan {
            cpus: in_order(machine, cpus),
            limit,
        })
    }

    /// The CPUs of a size.
    ///
    /// # Errors
    /// Why there are not as many.
    pub fn of(&self, size: u32) -> Result<&[usize], String> {
        self.cpus
            .get(..size as usize)
            .ok_or_else(|| self.limit.clone())
    }

    /// What would be done at each of `sizes`, a line each.
    pub fn describe(&self, what: &str, sizes: &[u32]) -> String {
        let mut text = String::new();
        for size in sizes {
            let where_to = match self.of(*size) {
                Ok(cpus) => {
                    let mut cpus = cpus.to_vec();
                    cpus.sort_unstable();
                    format!("on CPUs {}", format_list(&cpus))
                }
                Err(reason) => format!("unavailable: {reason}"),
            };
            text += &format!("scale {what}={size}: {where_to}\n");
        }
        text
    }
}

/// First the one that devices interrupt least, then those near it, each on a core of
/// its own as long as there is one.
fn in_order(machine: &Machine, mut free: Vec<usize>) -> Vec<usize> {
    let mut taken: Vec<usize> = Vec::new();
    let quiet = machine.quietest_cpu();
    while !free.is_empty() {
        let far = |cpu: usize| {
            let shares_core = machine
                .core_siblings(cpu)
                .iter()
                .any(|sibling| taken.contains(sibling));
            let near = taken
                .first()
                .is_none_or(|first| machine.llc_group(*first).contains(&cpu));
            (shares_core, !near, Some(cpu) != quiet, cpu)
        };
        let best = (0..free.len()).min_by_key(|at| far(free[*at])).unwrap_or(0);
        taken.push(free.remove(best));
    }
    taken
}
