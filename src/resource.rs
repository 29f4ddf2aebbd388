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
    BlockDevice,
}

impl Domain {
    pub fn as_str(self) -> &'static str {
        match self {
            Domain::LogicalCpu => "logical CPU",
            Domain::PhysicalCore => "physical core",
            Domain::L2Group => "L2 group",
            Domain::LlcGroup => "LLC group",
            Domain::NumaNode => "NUMA node",
            Domain::BlockDevice => "block device",
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
        id: "llc-capacity",
        domain: Domain::LlcGroup,
        pressure_unit: "bytes",
        summary: "holds x % of the last-level cache with random touches",
    },
    Resource {
        id: "memory-bandwidth",
        domain: Domain::NumaNode,
        pressure_unit: "bytes_per_second",
        summary: "streams through memory at x % of its measured bandwidth",
    },
    Resource {
        id: "memory-capacity",
        domain: Domain::NumaNode,
        pressure_unit: "bytes",
        summary: "keeps x % of the available memory resident",
    },
    Resource {
        id: "storage-bandwidth",
        domain: Domain::BlockDevice,
        pressure_unit: "bytes_per_second",
        summary: "reads sequentially, bypassing the page cache, at x % of the measured bandwidth",
    },
];

/// The resource called `id`.
pub fn find(id: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|resource| resource.id == id)
}
