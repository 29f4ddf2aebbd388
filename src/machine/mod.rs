//! What this machine is: CPUs, caches, memory, limits, and whether it counts.

mod topology;

use crate::reading::Reading;
use serde::Serialize;

/// Everything read about the machine, each part from the kernel or the CPU.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub model: String,
    pub vendor: String,
    /// `x86_64`, `aarch64`.
    pub architecture: String,
    /// Online logical CPUs, ascending by id.
    pub cpus: Vec<LogicalCpu>,
    /// Logical CPUs this process may run on (affinity mask ∩ cpuset), ascending.
    pub allowed_cpus: Vec<usize>,
    pub caches: Vec<Cache>,
    pub numa_nodes: Vec<NumaNode>,
    pub memory: Memory,
    pub cgroup: Cgroup,
    /// Name of the hypervisor, or none on bare metal.
    pub hypervisor: Option<String>,
    pub kernel: String,
    pub perf_event_paranoid: Reading<i64>,
    /// Name of the CPU's PMU, or why there is none.
    pub pmu: Reading<String>,
    /// `always`, `madvise` or `never`.
    pub transparent_huge_pages: Reading<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogicalCpu {
    pub id: usize,
    pub package: usize,
    pub core: usize,
    pub node: usize,
    /// Logical CPUs of the same physical core, this one included, ascending.
    pub core_siblings: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    Data,
    Instruction,
    Unified,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cache {
    pub level: u8,
    pub kind: CacheKind,
    pub size_bytes: u64,
    pub ways: Reading<u32>,
    pub line_bytes: u32,
    /// Logical CPUs that share this instance, ascending.
    pub shared_cpus: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NumaNode {
    pub id: usize,
    pub cpus: Vec<usize>,
    pub memory_total_bytes: Reading<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    pub total_bytes: u64,
    /// The kernel's MemAvailable.
    pub available_bytes: u64,
    pub swap_total_bytes: u64,
}

/// Limits of the cgroup this process lives in, the tightest on the way to the
/// root.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cgroup {
    /// `v1`, `v2`, `hybrid` or why unknown.
    pub version: Reading<String>,
    pub path: Reading<String>,
    /// Unavailable("no limit") is a value worth telling from "could not read".
    pub memory_limit_bytes: Reading<u64>,
    pub memory_used_bytes: Reading<u64>,
    /// CPUs' worth of time the quota grants.
    pub cpu_quota: Reading<f64>,
}
#[cfg(test)]
pub mod fake;
impl Machine {
    pub fn l1d(&self, cpu: usize) -> Option<&Cache> {
        self.caches
            .iter()
            .find(|c| c.level == 1 && c.shared_cpus.contains(&cpu))
    }
    pub fn l2(&self, cpu: usize) -> Option<&Cache> {
        self.caches
            .iter()
            .find(|c| c.level == 2 && c.shared_cpus.contains(&cpu))
    }
    pub fn llc(&self, cpu: usize) -> Option<&Cache> {
        self.caches
            .iter()
            .find(|c| c.level == 3 && c.shared_cpus.contains(&cpu))
    }
    pub fn core_siblings(&self, cpu: usize) -> &[usize] {
        self.cpus
            .iter()
            .find(|c| c.id == cpu)
            .map(|c| &c.core_siblings[..])
            .unwrap_or(&[])
    }
    pub fn l2_group(&self, cpu: usize) -> Vec<usize> {
        self.caches
            .iter()
            .find(|c| c.level == 2 && c.shared_cpus.contains(&cpu))
            .map(|c| c.shared_cpus.clone())
            .unwrap_or_default()
    }
    pub fn llc_group(&self, cpu: usize) -> Vec<usize> {
        self.caches
            .iter()
            .find(|c| c.level == 3 && c.shared_cpus.contains(&cpu))
            .map(|c| c.shared_cpus.clone())
            .unwrap_or_default()
    }
    pub fn node_of(&self, _cpu: usize) -> usize {
        0
    }
    pub fn node_cpus(&self, node: usize) -> &[usize] {
        &self.numa_nodes[node].cpus
    }
}
