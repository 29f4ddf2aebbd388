//! The resources Jostle knows by name. Pure words: nothing here measures.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

/// Who shares a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Domain {
    LogicalCpu,
    PhysicalCore,
    L2Group,
    LlcGroup,
    NumaNode,
    Machine,
    BlockDevice,
    NetworkDevice,
}

impl Domain {
    pub fn as_str(self) -> &'static str {
        match self {
            Domain::LogicalCpu => "logical CPU",
            Domain::PhysicalCore => "physical core",
            Domain::L2Group => "L2 group",
            Domain::LlcGroup => "LLC group",
            Domain::NumaNode => "NUMA node",
            Domain::Machine => "machine",
            Domain::BlockDevice => "block device",
            Domain::NetworkDevice => "network device",
        }
    }
}

/// One shared part of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The name used on the command line and in profiles.
    pub id: &'static str,
    pub domain: Domain,
    /// The unit in which achieved pressure is reported.
    pub pressure_unit: &'static str,
    /// What the source of interference does at intensity x.
    pub summary: &'static str,
}

/// Every resource this version can press on, in the order they are measured.
pub const RESOURCES: &[Resource] = &[
    Resource {
        id: "cpu-time",
        domain: Domain::LogicalCpu,
        pressure_unit: "percent_of_cpu",
        summary: "takes x % of the CPU's time in slices",
    },
    Resource {
        id: "int",
        domain: Domain::PhysicalCore,
        pressure_unit: "operations_per_second",
        summary: "issues integer operations at x % of the measured peak",
    },
    Resource {
        id: "fp",
        domain: Domain::PhysicalCore,
        pressure_unit: "operations_per_second",
        summary: "issues scalar floating-point operations at x % of the measured peak",
    },
    Resource {
        id: "vector",
        domain: Domain::PhysicalCore,
        pressure_unit: "operations_per_second",
        summary: "issues the widest SIMD operations at x % of the measured peak",
    },
    Resource {
        id: "l1i",
        domain: Domain::PhysicalCore,
        pressure_unit: "bytes",
        summary: "jumps at random through code that covers x % of the L1 instruction cache",
    },
    Resource {
        id: "l1d",
        domain: Domain::PhysicalCore,
        pressure_unit: "bytes",
        summary: "touches x % of the L1 data cache at random",
    },
    Resource {
        id: "l2-capacity",
        domain: Domain::L2Group,
        pressure_unit: "bytes",
        summary: "holds x % of the L2 cache with random touches",
    },
    Resource {
        id: "l2-bandwidth",
        domain: Domain::L2Group,
        pressure_unit: "bytes_per_second",
        summary: "streams from L2 at x % of its measured bandwidth",
    },
    Resource {
        id: "tlb",
        domain: Domain::PhysicalCore,
        pressure_unit: "entries",
        summary: "touches one line in each of x % of the pages the second-level TLB reaches",
    },
    Resource {
        id: "prefetcher",
        domain: Domain::PhysicalCore,
        pressure_unit: "operations_per_second",
        summary: "runs short, ever-broken strided streams x % of the time",
    },
    Resource {
        id: "llc-capacity",
        domain: Domain::LlcGroup,
        pressure_unit: "bytes",
        summary: "holds x % of the last-level cache with random touches",
    },
    Resource {
        id: "llc-bandwidth",
        domain: Domain::LlcGroup,
        pressure_unit: "bytes_per_second",
        summary: "streams from the last-level cache at x % of its measured bandwidth",
    },
    Resource {
        id: "memory-capacity",
        domain: Domain::NumaNode,
        pressure_unit: "bytes",
        summary: "keeps x % of the available memory resident",
    },
    Resource {
        id: "memory-bandwidth",
        domain: Domain::NumaNode,
        pressure_unit: "bytes_per_second",
        summary: "streams through memory at x % of its measured bandwidth",
    },
    Resource {
        id: "interconnect",
        domain: Domain::Machine,
        pressure_unit: "operations_per_second",
        summary: "passes cache lines between x % of the pairs of CPUs",
    },
    Resource {
        id: "storage-capacity",
        domain: Domain::BlockDevice,
        pressure_unit: "bytes",
        summary: "reads random segments over x % of a scratch file",
    },
    Resource {
        id: "storage-bandwidth",
        domain: Domain::BlockDevice,
        pressure_unit: "bytes_per_second",
        summary: "reads sequentially, bypassing the page cache, at x % of the measured bandwidth",
    },
    Resource {
        id: "network-bandwidth",
        domain: Domain::NetworkDevice,
        pressure_unit: "bytes_per_second",
        summary: "sends to a named peer at x % of the measured bandwidth",
    },
];

/// The resource called `id`.
pub fn find(id: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|resource| resource.id == id)
}
