//! What this machine is: CPUs, caches, memory, limits, and whether it counts.

pub mod allocation;
pub mod calibration;
#[cfg(target_arch = "x86_64")]
mod cpuid;
mod describe;
pub mod described;
pub mod differences;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod gauge;
mod identity;
pub mod last_cache;
mod limits;
mod pmu;
pub mod private;
pub mod quieter;
pub mod saved;
mod storage;
#[cfg(test)]
mod tests;
mod topology;
pub mod transfer;

pub use describe::format_bytes;
pub use storage::BlockDevice;
pub use storage::block_device_of;

use crate::os;
use crate::os::ParseError;
use crate::os::here;
use crate::os::text;
use crate::sys;
use jostle_profile::CacheFacts;
use jostle_profile::MachineFacts;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Domain;
use serde::Serialize;
use std::io;
use std::path::Path;

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
    /// Entries of the second-level data TLB for base pages, as the CPU tells.
    pub tlb_entries: Reading<u64>,
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
    /// What the kernel did not tell, and what was taken in its place.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogicalCpu {
    pub id: usize,
    /// 0 when the kernel does not tell.
    pub package: usize,
    /// Unique within its package; the CPU's own id when the kernel does not tell.
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
    /// 0 only when the kernel does not tell, which the machine's notes then say.
    pub total_bytes: u64,
    /// The kernel's MemAvailable; MemFree, which is less, where that is missing.
    pub available_bytes: u64,
    pub swap_total_bytes: u64,
}

/// Limits of the cgroup this process lives in, the tightest on the way to the
/// root.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cgroup {
    /// `v1`, `v2`, `hybrid` or why unknown.
    pub version: Reading<String>,
    /// The memory controller's cgroup as seen from its mount.
    pub path: Reading<String>,
    /// Unavailable("no limit") is a value worth telling from "could not read".
    pub memory_limit_bytes: Reading<u64>,
    /// Charged to the cgroup with that limit, or to the own one when there is
    /// none; without file pages that are not in recent use, which the kernel
    /// takes back before it refuses memory.
    pub memory_used_bytes: Reading<u64>,
    /// Least of limit − used over all levels: a wide limit that is nearly full
    /// may bind before a narrow one that is not.
    pub memory_headroom_bytes: Reading<u64>,
    /// Directory of the cgroup that leaves the least headroom.
    pub memory_bound_by: Option<String>,
    /// CPUs' worth of time the quota grants.
    pub cpu_quota: Reading<f64>,
}

impl CacheKind {
    /// Whether data is held, and not instructions alone.
    pub fn holds_data(self) -> bool {
        self != CacheKind::Instruction
    }
}

impl Cache {
    /// `L1d`, `L1i`, `L2`, `L3`.
    pub fn name(&self) -> String {
        let suffix = match self.kind {
            CacheKind::Data => "d",
            CacheKind::Instruction => "i",
            CacheKind::Unified => "",
        };
        format!("L{}{suffix}", self.level)
    }
}

impl Cgroup {
    /// Bytes the limits leave, or none when nothing limits.
    fn checked_headroom_bytes(&self) -> Result<Option<u64>, String> {
        match (&self.memory_headroom_bytes, &self.memory_limit_bytes) {
            (Reading::Value(bytes), _) => Ok(Some(*bytes)),
            (Reading::Unavailable { unavailable }, Reading::Value(_)) => Err(unavailable.clone()),
            (Reading::Unavailable { .. }, Reading::Unavailable { .. }) => Ok(None),
        }
    }
}

impl Machine {
    /// Reads this machine. Never fails: what cannot be read is unavailable with
    /// its reason, or stands in the notes.
    pub fn detect() -> Machine {
        let root = here();
        // The system call knows the mask even where procfs is cut down; the
        // file knows it on machines with more CPUs than the call's mask holds.
        let allowed = match sys::cpus::affinity(0) {
            Ok(cpus) if !cpus.is_empty() => Ok(cpus),
            _ => identity::allowed_cpus(root),
        };
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
        let mut machine = Machine::read(root, allowed, |paranoid| {
            sys::perf::count_own_instructions(paranoid).map(|_| ())
        });
        #[cfg(target_arch = "x86_64")]
        {
            machine.hypervisor = cpuid::hypervisor().or(machine.hypervisor);
            cpuid::fill_ways(&mut machine.caches);
            machine.tlb_entries = cpuid::tlb_entries().into();
            if machine.model == identity::UNKNOWN {
                machine.model = cpuid::model().unwrap_or(machine.model);
            }
        }
        machine
    }

    fn read(
        root: &Path,
        allowed: Result<Vec<usize>, os::Error>,
        probe_pmu: impl FnOnce(&str) -> Result<(), String>,
    ) -> Machine {
        let topology = topology::read(root);
        let mut notes = topology.notes;
        let identity = identity::read(root);
        let memory = memory(root, &mut notes);
        let paranoid = reading(text::number(root, "proc/sys/kernel/perf_event_paranoid"));
        let pmu = pmu::read(root, || probe_pmu(&paranoid.to_string()));
        let online: Vec<usize> = topology.cpus.iter().map(|cpu| cpu.id).collect();
        let allowed_cpus = allowed
            .map(|cpus| {
                cpus.into_iter()
                    .filter(|cpu| online.contains(cpu))
                    .collect()
            })
            .unwrap_or_else(|problem| {
                notes.push(format!("all CPUs are taken as allowed: {problem}"));
                online.clone()
            });
        Machine {
            model: identity.model,
            vendor: identity.vendor,
            architecture: std::env::consts::ARCH.to_string(),
            cpus: topology.cpus,
            allowed_cpus,
            caches: topology.caches,
            tlb_entries: Reading::unavailable("only the CPU itself tells, by CPUID on x86-64"),
            numa_nodes: topology.nodes,
            memory,
            cgroup: limits::read(root),
            hypervisor: identity.hypervisor,
            kernel: identity.kernel,
            perf_event_paranoid: paranoid,
            pmu,
            transparent_huge_pages: reading(os::sysfs::choice(
                root,
                "sys/kernel/mm/transparent_hugepage/enabled",
            )),
            notes,
        }
    }

    /// Whether any physical core runs more than one logical CPU.
    pub fn smt(&self) -> bool {
        self.cpus.iter().any(|cpu| cpu.core_siblings.len() > 1)
    }

    /// Logical CPUs of the physical core of `cpu`, itself included, ascending;
    /// empty for a CPU that is not online.
    pub fn core_siblings(&self, cpu: usize) -> &[usize] {
        self.cpu(cpu).map_or(&[], |cpu| &cpu.core_siblings)
    }

    /// Logical CPU `id`, when it is online.
    pub fn cpu(&self, id: usize) -> Option<&LogicalCpu> {
        self.cpus.iter().find(|cpu| cpu.id == id)
    }

    /// Bytes of the largest cache of data up to the second level that only the core of
    /// `cpu` has.
    pub fn private_cache_bytes(&self, cpu: usize) -> Option<u64> {
        let siblings = self.core_siblings(cpu);
        let caches = self.caches.iter().filter(|cache| {
            cache.kind.holds_data()
                && cache.shared_cpus.contains(&cpu)
                && cache.shared_cpus.len() <= siblings.len().max(1)
                && cache.level <= 2
        });
        caches.map(|cache| cache.size_bytes).max()
    }

    /// The cache of `cpu` at `level` that serves `kind`: its own, or a unified
    /// one.
    pub fn cache(&self, cpu: usize, level: u8, kind: CacheKind) -> Option<&Cache> {
        self.caches.iter().find(|cache| {
            cache.level == level
                && (cache.kind == kind || cache.kind == CacheKind::Unified)
                && cache.shared_cpus.contains(&cpu)
        })
    }

    /// The first-level data cache of `cpu`.
    pub fn l1d(&self, cpu: usize) -> Option<&Cache> {
        self.cache(cpu, 1, CacheKind::Data)
    }

    /// The second-level cache of `cpu`.
    pub fn l2(&self, cpu: usize) -> Option<&Cache> {
        self.cache(cpu, 2, CacheKind::Data)
    }

    /// The last cache before memory: the unified one of the highest level that
    /// serves `cpu`. On a machine without L3 that is the L2.
    pub fn llc(&self, cpu: usize) -> Option<&Cache> {
        self.caches
            .iter()
            .filter(|cache| cache.kind == CacheKind::Unified && cache.shared_cpus.contains(&cpu))
            .max_by_key(|cache| cache.level)
    }

    /// Logical CPUs that share the L2 of `cpu`, itself included, ascending;
    /// empty when the L2 is not known.
    pub fn l2_group(&self, cpu: usize) -> Vec<usize> {
        self.l2(cpu).map_or(Vec::new(), |l2| l2.shared_cpus.clone())
    }

    /// The same of the last-level cache.
    pub fn llc_group(&self, cpu: usize) -> Vec<usize> {
        self.llc(cpu)
            .map_or(Vec::new(), |llc| llc.shared_cpus.clone())
    }

    /// Logical CPUs that share an instance of `domain` with `cpu`, itself
    /// included; `cpu` alone for domains that are no groups of CPUs.
    pub fn sharing(&self, domain: Domain, cpu: usize) -> Vec<usize> {
        match domain {
            Domain::PhysicalCore => self.core_siblings(cpu).to_vec(),
            Domain::L2Group => self.l2_group(cpu),
            Domain::LlcGroup => self.llc_group(cpu),
            Domain::NumaNode => self
                .node_of(cpu)
                .map_or(Vec::new(), |node| self.node_cpus(node).to_vec()),
            _ => vec![cpu],
        }
    }

    /// NUMA node of `cpu`, when it is online.
    pub fn node_of(&self, cpu: usize) -> Option<usize> {
        self.cpu(cpu).map(|cpu| cpu.node)
    }

    /// Logical CPUs of NUMA node `node`, ascending; empty for a node of memory
    /// alone, or none of that number.
    pub fn node_cpus(&self, node: usize) -> &[usize] {
        self.numa_nodes
            .iter()
            .find(|other| other.id == node)
            .map_or(&[], |node| &node.cpus)
    }

    /// The allowed CPU that devices have interrupted least; of equals, the one
    /// with the highest number. `None` when no CPU is allowed.
    pub fn quietest_cpu(&self) -> Option<usize> {
        let counts = os::stat::interrupts(here());
        let of = |cpu: usize| {
            let found = counts.iter().find(|(id, _)| *id == cpu);
            found.map_or(0, |(_, count)| *count)
        };
        let allowed = self.allowed_cpus.iter().copied();
        allowed.min_by_key(|&cpu| (of(cpu), std::cmp::Reverse(cpu)))
    }

    /// Whether two CPUs share the last-level cache, as the machine tells.
    pub fn shares_last_cache(&self, one: usize, other: usize) -> bool {
        let of_one = self.caches.iter();
        let of_one = of_one.filter(|cache| cache.shared_cpus.contains(&one));
        let last = of_one.max_by_key(|cache| cache.level);
        one != other && last.is_some_and(|cache| cache.shared_cpus.contains(&other))
    }

    /// Another CPU that may be used and shares the last-level cache of `cpu`, as the
    /// machine tells.
    pub fn shares_last_cache_with(&self, cpu: usize) -> Option<usize> {
        let mut allowed = self.allowed_cpus.iter().copied();
        allowed.find(|other| self.shares_last_cache(cpu, *other))
    }

    /// Bytes that may be taken before any reserve, and in words what bounds
    /// them: the machine's available memory, or a cgroup's limit. None may be
    /// taken under a limit whose use cannot be read.
    pub fn memory_headroom_bytes(&self) -> (u64, String) {
        let available = self.memory.available_bytes;
        let cgroup = &self.cgroup;
        match cgroup.checked_headroom_bytes() {
            Ok(Some(headroom)) if headroom < available => {
                let by = cgroup.memory_bound_by.as_deref();
                let by = by.unwrap_or("this process");
                (headroom, format!("memory limit of cgroup {by}"))
            }
            Ok(_) => (available, "memory available on the machine".to_string()),
            Err(reason) => (
                0,
                format!("cgroup's memory limit, of which the use is not known: {reason}"),
            ),
        }
    }

    /// Sixteen hex digits that change when CPU model, caches, kernel, allowed
    /// CPUs or hypervisor change, and else never, whatever Rust built this.
    pub fn fingerprint(&self) -> String {
        let mut facts = format!(
            "model={}\nkernel={}\nallowed={}\nhypervisor={}\n",
            self.model,
            self.kernel,
            jostle_profile::cpulist::format_list(&self.allowed_cpus),
            self.hypervisor.as_deref().unwrap_or("none"),
        );
        for cache in &self.caches {
            facts += &format!(
                "cache={} {} {} {} {}\n",
                cache.name(),
                cache.size_bytes,
                cache.ways.value().map_or(0, |ways| *ways),
                cache.line_bytes,
                jostle_profile::cpulist::format_list(&cache.shared_cpus),
            );
        }
        format!("{:016x}", fnv1a_64(facts.as_bytes()))
    }

    /// What a profile remembers of this machine. Equal caches are named once.
    pub fn facts(&self) -> MachineFacts {
        let mut caches: Vec<CacheFacts> = Vec::new();
        for cache in &self.caches {
            let facts = CacheFacts {
                name: cache.name(),
                size_bytes: cache.size_bytes,
                shared_by_cpus: cache.shared_cpus.len(),
            };
            if !caches.contains(&facts) {
                caches.push(facts);
            }
        }
        MachineFacts {
            fingerprint: self.fingerprint(),
            model: self.model.clone(),
            cpus: self.allowed_cpus.len(),
            caches,
            smt: self.smt(),
            virtualized: self.hypervisor.clone(),
            kernel: self.kernel.clone(),
            memory_bytes: self.memory.total_bytes,
            unknown: Default::default(),
        }
    }
}

/// Bytes that may be taken now: the machine's available memory or what the
/// tightest cgroup leaves, whichever is less. Cheap enough to ask every second.
///
/// # Errors
/// When `/proc/meminfo` cannot be read or lacks MemAvailable and MemFree, or a
/// cgroup has a limit whose use cannot be read.
pub fn available_memory_bytes() -> io::Result<u64> {
    available_memory_bytes_at(here())
}

fn available_memory_bytes_at(root: &Path) -> io::Result<u64> {
    let available = text::parse(root, MEMINFO, available).map_err(io::Error::other)?;
    let headroom = limits::read(root)
        .checked_headroom_bytes()
        .map_err(io::Error::other)?;
    Ok(headroom.map_or(available, |bytes| bytes.min(available)))
}

const MEMINFO: &str = "proc/meminfo";

fn available(meminfo: &str) -> Result<u64, ParseError> {
    text::meminfo_bytes(meminfo, "MemAvailable")
        .or_else(|_| text::meminfo_bytes(meminfo, "MemFree"))
        .map_err(|_| ParseError::NoKey("MemAvailable or MemFree".into()))
}

fn memory(root: &Path, notes: &mut Vec<String>) -> Memory {
    let mut bytes = |parse: &dyn Fn(&str) -> Result<u64, ParseError>| {
        text::parse(root, MEMINFO, parse).unwrap_or_else(|problem| {
            notes.push(format!("{problem}: taken as 0"));
            0
        })
    };
    Memory {
        total_bytes: bytes(&|text| text::meminfo_bytes(text, "MemTotal")),
        available_bytes: bytes(&available),
        swap_total_bytes: bytes(&|text| text::meminfo_bytes(text, "SwapTotal")),
    }
}

/// What was read, or the reason why not.
fn reading<T>(read: Result<T, os::Error>) -> Reading<T> {
    read.map_err(|error| error.to_string()).into()
}

/// The 64-bit FNV-1a hash (Fowler, Noll, Vo): fixed by its definition, unlike
/// the standard library's hasher, which may change with a Rust release.
fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
