//! The resources Jostle knows: one table, one row each. Nothing here measures.
//!
//! A new source of interference is one row here and one kernel file in
//! `jostle-kernels`; whatever else differs between resources is a column.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Who shares a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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

/// What the intensity of a source changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intensity {
    /// The share of the CPU's time that the worker takes.
    Share,
    /// What the kernel keeps touching, at full speed.
    Footprint,
    /// The rate of operations, as a share of the measured peak; at 100 % the
    /// kernel is not held back.
    Rate,
}

/// Times of one source, before what is known of slices is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From a switch until caches, queues and memory are in a steady state.
    pub settle: Duration,
    /// Length of one window.
    pub window: Duration,
    /// How long full strength is observed to learn the peak.
    pub peak: Duration,
}

impl Timing {
    const fn millis(settle: u64, window: u64, peak: u64) -> Timing {
        Timing {
            settle: Duration::from_millis(settle),
            window: Duration::from_millis(window),
            peak: Duration::from_millis(peak),
        }
    }
}

/// What a switch between intensities costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchCost {
    /// Next to nothing.
    None,
    /// The time of filling the memory that the source takes.
    FillsMemory,
}

/// Resources on which a source costs something although it applies pressure to
/// another one, and why.
type CrossTalk = (&'static [Resource], &'static str);

/// What the table says of one resource.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name used on the command line and in profiles.
    pub id: &'static str,
    pub domain: Domain,
    pub intensity: Intensity,
    /// The unit in which achieved pressure is reported.
    pub pressure_unit: &'static str,
    /// What the source of interference does at intensity x.
    pub summary: &'static str,
    pub timing: Timing,
    /// Intensities at which the source is compared with itself alone, percent.
    pub probe_endpoints: &'static [f64],
    /// Most workers beside a target on other CPUs.
    pub most_workers: usize,
    pub switch_cost: SwitchCost,
    /// What the achieved pressure is taken from.
    pub measured_by: &'static str,
    /// Whether it is a part of a cache, of which one can see what is gone.
    pub cache: bool,
    /// Whether the applications that the simulator generates know it, and draw
    /// random numbers for it: the resources of the papers, and CPU time. A seed
    /// keeps its meaning when a resource is added.
    pub generated: bool,
    cross_talk: &'static [CrossTalk],
}

/// What most rows have in common: a rate on a core that needs no time to take
/// effect.
const USUAL: Row = Row {
    id: "",
    domain: Domain::PhysicalCore,
    intensity: Intensity::Rate,
    pressure_unit: "operations_per_second",
    summary: "",
    timing: Timing::millis(3, 24, 60),
    probe_endpoints: &[100.0],
    most_workers: usize::MAX,
    switch_cost: SwitchCost::None,
    measured_by: "operations done in the window",
    cache: false,
    generated: true,
    cross_talk: &[],
};

/// A part of a cache that is kept by touching it.
const CACHE: Row = Row {
    intensity: Intensity::Footprint,
    pressure_unit: "bytes",
    probe_endpoints: &[50.0, 100.0],
    measured_by: "what the source goes through",
    cache: true,
    ..USUAL
};

/// A device: disks of virtual machines speed up and slow down by tenths within
/// a second.
const DEVICE: Row = Row {
    pressure_unit: "bytes_per_second",
    timing: Timing::millis(15, 60, 500),
    most_workers: 1,
    ..USUAL
};

/// What every core of a group uses on its way to memory, and the caches before.
const OUTER: &[Resource] = {
    use Resource::*;
    &[LlcCapacity, LlcBandwidth, MemoryBandwidth, MemoryCapacity]
};
const INNER: &[Resource] = {
    use Resource::*;
    &[L2Capacity, L2Bandwidth, L1d, L1i, Tlb]
};
const PATH_TO_MEMORY: &str = "both go through the LLC and the path to memory: what streams from \
                              memory takes room in the LLC, and what misses the LLC takes memory \
                              bandwidth";
const DEVICES: CrossTalk = (
    {
        use Resource::*;
        &[StorageCapacity, StorageBandwidth, NetworkBandwidth]
    },
    "requests, data and completions pass through memory and the LLC, those of a virtual device on \
     the host, too",
);
const TAKEN_BACK: &str = "an outer cache that holds all lines of the inner ones takes lines back \
                          from the victim's when it is filled by others";
const THROUGH_L1D: CrossTalk = (
    &[Resource::L1d],
    "every line on its way from L2 takes a place in L1d",
);
const SAME_DEVICE: &str = "both read from the same device";
const TRANSFERS: CrossTalk = (
    OUTER,
    "what it transfers is written to memory, through the LLC or past it",
);
const INTERRUPTS: CrossTalk = (
    &[Resource::CpuTime],
    "the device's interrupts take time of the CPU they land on",
);

/// Makes [`Resource`] and its table from the same rows.
macro_rules! resources {
    ($($name:ident $id:literal { $($row:tt)* })*) => {
        /// A shared part of the machine, in the order of measurement.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[cfg_attr(feature = "schema", derive(JsonSchema))]
        pub enum Resource {
            $(#[serde(rename = $id)] $name,)*
        }

        impl Resource {
            /// Every resource of this version, in the order of measurement.
            pub const ALL: &'static [Resource] = &[$(Resource::$name),*];
        }

        static TABLE: &[Row] = {
            use Resource::*;
            &[$(Row { id: $id, $($row)* }),*]
        };
    };
}

resources! {
    CpuTime "cpu-time" {
        domain: Domain::LogicalCpu,
        intensity: Intensity::Share,
        pressure_unit: "percent_of_cpu",
        summary: "takes x % of the CPU's time in slices",
        timing: Timing::millis(3, 30, 60),
        measured_by: "CPU time of the worker",
        cross_talk: &[
            (
                &[StorageBandwidth, StorageCapacity, NetworkBandwidth],
                "the victim hands in its requests on the CPU that is taken",
            ),
            (
                &[MemoryCapacity],
                "the victim copies from the page cache on the CPU that is taken",
            ),
            (
                &[Interconnect],
                "of two that pass messages one waits while the CPU of the other is taken",
            ),
            (
                &[L2Capacity, LlcCapacity, LlcBandwidth],
                "while the CPU is taken for milliseconds, others take the victim's part of the \
                 cache",
            ),
        ],
        ..USUAL
    }
    Int "int" {
        summary: "issues integer operations at x % of the measured peak",
        ..USUAL
    }
    Fp "fp" {
        summary: "issues scalar floating-point operations at x % of the measured peak",
        ..USUAL
    }
    Vector "vector" {
        summary: "issues the widest SIMD operations at x % of the measured peak",
        cross_talk: &[(
            &[Int, Fp, L1i, L1d, Prefetcher, Branch, Tlb],
            "wide SIMD lowers the core's frequency for a while",
        )],
        ..USUAL
    }
    L1i "l1i" {
        summary: "jumps at random through code that covers x % of the L1 instruction cache",
        ..CACHE
    }
    L1d "l1d" {
        summary: "touches x % of the L1 data cache at random",
        ..CACHE
    }
    L2Capacity "l2-capacity" {
        domain: Domain::L2Group,
        summary: "holds x % of the L2 cache with random touches",
        cross_talk: &[
            THROUGH_L1D,
            (
                &[L1i],
                "L2 holds instructions too, and many L2s take them back from L1i",
            ),
            (
                &[L2Bandwidth, Prefetcher, StorageCapacity],
                "the victim's buffer lives in L2 and comes back from the LLC after each turn",
            ),
            (&[Tlb], "page-table entries are cached in L2"),
            (
                OUTER,
                "the part of the victim's data and page tables that L2 held is gone after each \
                 turn",
            ),
        ],
        ..CACHE
    }
    L2Bandwidth "l2-bandwidth" {
        domain: Domain::L2Group,
        pressure_unit: "bytes_per_second",
        summary: "streams from L2 at x % of its measured bandwidth",
        cross_talk: &[THROUGH_L1D],
        ..USUAL
    }
    Tlb "tlb" {
        pressure_unit: "entries",
        summary: "touches one line in each of x % of the pages the second-level TLB reaches",
        cross_talk: &[(
            &[
                L2Capacity, LlcCapacity, LlcBandwidth, MemoryBandwidth, MemoryCapacity,
                Prefetcher, L2Bandwidth,
            ],
            "the victim's translations are gone after each turn and must be walked again",
        )],
        ..CACHE
    }
    Prefetcher "prefetcher" {
        summary: "runs short, ever-broken strided streams x % of the time",
        cross_talk: &[(
            &[L1d, L2Capacity, L2Bandwidth],
            "its buffer passes through the victim's cache",
        )],
        ..USUAL
    }
    Branch "branch" {
        summary: "runs branches that no predictor can know at x % of the measured peak",
        generated: false,
        cross_talk: &[(
            &[L1i],
            "the victim's jumps are predicted from the tables that the source fills",
        )],
        ..USUAL
    }
    LlcCapacity "llc-capacity" {
        domain: Domain::LlcGroup,
        summary: "holds x % of the last-level cache by reading it over and over",
        // Its probe is a victim that has room: a walk through a part of the cache.
        probe_endpoints: &[100.0],
        timing: Timing::millis(5, 50, 60),
        most_workers: 4,
        cross_talk: &[(OUTER, PATH_TO_MEMORY), (INNER, TAKEN_BACK), DEVICES],
        ..CACHE
    }
    LlcBandwidth "llc-bandwidth" {
        domain: Domain::LlcGroup,
        pressure_unit: "bytes_per_second",
        summary: "streams from the last-level cache at x % of its measured bandwidth",
        most_workers: 4,
        cross_talk: &[(OUTER, PATH_TO_MEMORY), (INNER, TAKEN_BACK), DEVICES],
        ..USUAL
    }
    MemoryCapacity "memory-capacity" {
        domain: Domain::NumaNode,
        intensity: Intensity::Footprint,
        pressure_unit: "bytes",
        summary: "keeps x % of the available memory resident",
        // What was evicted from the page cache comes back only as it is read.
        timing: Timing::millis(1200, 250, 60),
        most_workers: 1,
        switch_cost: SwitchCost::FillsMemory,
        measured_by: "resident memory of the worker, from /proc/PID/status",
        cross_talk: &[
            (OUTER, "clearing the pages that it is given streams through the LLC and memory"),
        ],
        ..USUAL
    }
    MemoryBandwidth "memory-bandwidth" {
        domain: Domain::NumaNode,
        pressure_unit: "bytes_per_second",
        summary: "streams through memory at x % of its measured bandwidth",
        cross_talk: &[(OUTER, PATH_TO_MEMORY), (INNER, TAKEN_BACK), DEVICES],
        ..USUAL
    }
    Interconnect "interconnect" {
        domain: Domain::Machine,
        summary: "passes cache lines between x % of the pairs of CPUs",
        ..USUAL
    }
    StorageCapacity "storage-capacity" {
        domain: Domain::BlockDevice,
        intensity: Intensity::Footprint,
        pressure_unit: "bytes",
        summary: "reads random segments over x % of a scratch file, at x % of the random-read peak",
        measured_by: "segments read since the intensity was set",
        cross_talk: &[(&[StorageBandwidth], SAME_DEVICE), TRANSFERS, INTERRUPTS],
        ..DEVICE
    }
    StorageBandwidth "storage-bandwidth" {
        domain: Domain::BlockDevice,
        summary: "reads sequentially, bypassing the page cache, at x % of the measured bandwidth",
        cross_talk: &[(&[StorageCapacity], SAME_DEVICE), TRANSFERS, INTERRUPTS],
        ..DEVICE
    }
    NetworkBandwidth "network-bandwidth" {
        domain: Domain::NetworkDevice,
        summary: "sends to a named peer at x % of the measured bandwidth",
        measured_by: "bytes that the peer says arrived",
        cross_talk: &[TRANSFERS, INTERRUPTS],
        ..DEVICE
    }
}

impl Resource {
    /// The name used on the command line and in profiles.
    pub fn id(self) -> &'static str {
        self.row().id
    }

    /// All that the table says of it.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Whether its source, on a CPU of its own, evicts lines from the last-level cache.
    pub fn evicts_from_last_level(self) -> bool {
        matches!(self.row().domain, Domain::LlcGroup | Domain::NumaNode)
    }

    /// Why its source costs `victim` something although it applies pressure to
    /// another resource; `None` when no mechanism is known, and the effect is a
    /// defect until one is.
    pub fn explains_cost_to(self, victim: Resource) -> Option<&'static str> {
        let mut notes = self.row().cross_talk.iter();
        let hit = notes.find(|(victims, _)| victims.contains(&victim));
        hit.map(|(_, why)| *why)
    }

    /// The names of all resources, separated by commas.
    pub fn names() -> String {
        let ids: Vec<&str> = Resource::ALL.iter().map(|resource| resource.id()).collect();
        ids.join(", ")
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

/// A name that this version has no resource for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no resource '{0}'; there are {names}", names = Resource::names())]
pub struct UnknownResource(pub String);

impl FromStr for Resource {
    type Err = UnknownResource;

    fn from_str(id: &str) -> Result<Self, Self::Err> {
        let named = |resource: &&Resource| resource.id() == id;
        let found = Resource::ALL.iter().find(named);
        found
            .copied()
            .ok_or_else(|| UnknownResource(id.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_from_text_and_json() {
        for &resource in Resource::ALL {
            assert_eq!(resource.id().parse(), Ok(resource));
            assert_eq!(resource.to_string(), resource.id());
            let json = serde_json::to_string(&resource).unwrap();
            assert_eq!(json, format!("{:?}", resource.id()));
            assert_eq!(serde_json::from_str::<Resource>(&json).unwrap(), resource);
        }
        let error = "elsewhere".parse::<Resource>().unwrap_err().to_string();
        assert!(
            error.contains("'elsewhere'") && error.contains("l2-bandwidth"),
            "{error}"
        );
    }

    #[test]
    fn mechanisms_are_known_by_pair_and_not_for_all() {
        use Resource::*;
        assert!(CpuTime.explains_cost_to(StorageBandwidth).is_some());
        assert!(MemoryBandwidth.explains_cost_to(LlcCapacity).is_some());
        assert!(L1i.explains_cost_to(L1d).is_none());
        // No row explains whatever there is.
        for &source in Resource::ALL {
            let mut others = Resource::ALL.iter().filter(|victim| **victim != source);
            assert!(others.any(|victim| source.explains_cost_to(*victim).is_none()));
        }
        assert_eq!(Int.explains_cost_to(MemoryBandwidth), None);
        assert_eq!(Interconnect.explains_cost_to(L1d), None);
    }
}
