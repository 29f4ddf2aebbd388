//! What a kernel declares about itself, and what it is given.

use crate::network;
use crate::storage::pattern::Pattern;
use jostle_profile::resource::Intensity;
use jostle_profile::resource::Resource;
use serde::Deserialize;
use serde::Serialize;
use std::path::PathBuf;

/// How the worker waits when it has nothing to do for the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Spins, so that treatment and placebo keep the same duty cycle.
    Spin,
    /// Sleeps: the resource is not the CPU's, and the CPU is left alone.
    Sleep,
}

/// Facts about one source of interference.
#[derive(Clone, Copy, Debug)]
pub struct KernelSpec {
    pub resource: Resource,
    pub waiting: Waiting,
    /// What one operation is.
    pub operation: &'static str,
    /// What one operation counts for in the resource's unit of pressure: the
    /// bytes it moves, or 1 where operations are what is counted.
    pub units_per_operation: u64,
    /// How many operations one call of [`Kernel::work`] does at most.
    pub operations_per_call: u64,
    /// Pause after each call once the intensity is in force, nanoseconds; 0
    /// for kernels that press without a break.
    pub pause_ns: u64,
    /// One worker with threads of its own on all CPUs of the placement, where
    /// other kernels have one worker on each.
    pub spans_cpus: bool,
    /// Whether it has a way to be a victim that differs from how it presses: see
    /// [`Kernel::set_probing`].
    pub probes: bool,
    /// Whether it accesses memory differently, and so has another peak, when it time-shares
    /// the target's CPU.
    pub differs_time_shared: bool,
    /// What it does to which structure, how intensity maps, and what it does
    /// not prove.
    pub doc: &'static str,
    /// How it may be told to access memory; empty for those that move no bytes.
    pub accesses: &'static [Access],
    pub build: Build,
}

/// Makes a source ready to press, or says why it cannot be.
pub type Build = fn(&Environment) -> Result<Box<dyn Kernel>, Failure>;

impl KernelSpec {
    /// What intensity means for it.
    pub fn intensity(&self) -> Intensity {
        self.resource.row().intensity
    }

    /// A source that spins on each CPU without a break and counts operations:
    /// what most do. Declarations fill in their texts and what differs.
    pub(crate) const fn of(resource: Resource, build: Build) -> Self {
        KernelSpec {
            resource,
            waiting: Waiting::Spin,
            operation: "",
            units_per_operation: 1,
            operations_per_call: 1,
            pause_ns: 0,
            spans_cpus: false,
            probes: false,
            differs_time_shared: false,
            doc: "",
            accesses: &[],
            build,
        }
    }
}

/// Which instructions a bandwidth kernel moves its bytes with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Loads alone.
    #[default]
    Load,
    /// Stores alone; each line is first read for ownership.
    Store,
    /// Stores past the caches.
    NonTemporalStore,
    /// Loads from one half of the buffer, non-temporal stores to the other.
    Copy,
}

/// The machine as far as kernels need it. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    pub l1d_bytes: u64,
    pub l1i_bytes: u64,
    pub l2_bytes: u64,
    pub llc_bytes: u64,
    /// Entries of the second-level data TLB for base pages; 0 when not known.
    pub tlb_entries: u64,
    /// Memory all workers of one resource together may take, the reserve
    /// already taken off.
    pub memory_headroom_bytes: u64,
    /// Available memory the kernel must leave whatever happens.
    pub memory_reserve_bytes: u64,
    /// How bandwidth kernels access memory.
    pub access: Access,
    /// Whether the source time-shares the target's CPU.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub time_shared: bool,
    /// Where the storage sources may put their unlinked scratch file.
    pub scratch_directory: Option<PathBuf>,
    pub scratch_bytes: u64,
    /// Whom the network source sends to, and how; `None` when nobody was named.
    pub network: Option<network::Traffic>,
    /// What the I/O of `storage-bandwidth` looks like.
    pub storage_pattern: Pattern,
    /// How many workers share one instance of the resource (one L1d, one LLC);
    /// each takes its part. 0 counts as 1.
    pub workers: u64,
    /// CPUs a kernel with threads of its own may use, the worker's first.
    pub cpus: Vec<usize>,
    /// Memory that can be taken at this moment without hurting anybody, bytes;
    /// `None` when it cannot be told.
    #[serde(skip)]
    pub available_bytes: Option<fn() -> Option<u64>>,
}

impl Environment {
    /// One worker's part of something that all of them share.
    pub(crate) fn part(&self, all: u64) -> u64 {
        all / self.workers.max(1)
    }

    /// Refuses to take more than half of the memory that may be taken; `what`
    /// tells the reader what it is for.
    pub(crate) fn check_memory(&self, wanted: u64, what: &str) -> Result<(), Failure> {
        match self.memory_headroom_bytes {
            may if wanted > may / 2 => Err(Failure::new(format!(
                "needs {wanted} bytes of memory {what}, more than half of the {may} bytes that \
                 may be taken"
            ))),
            _ => Ok(()),
        }
    }
}

/// Refuses to go on without the size of `cache`.
pub(crate) fn check_known(bytes: u64, cache: &str) -> Result<(), Failure> {
    match bytes {
        0 => Err(Failure::new(format!(
            "the size of the {cache} is not known on this machine"
        ))),
        _ => Ok(()),
    }
}

/// Why a kernel cannot run here, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl Failure {
    pub fn new(reason: impl Into<String>) -> Self {
        Failure(reason.into())
    }
}

/// What passed between a kernel and its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTraffic {
    /// Requests that ended.
    pub requests: u64,
    /// Time by which requests were given up because the device fell further
    /// behind than can be made up for, nanoseconds.
    pub behind_ns: u64,
}

/// One source of interference, ready to press.
pub trait Kernel {
    /// Sets the intensity, 0 to 100. Kernels whose intensity is a share or a
    /// rate ignore it: the worker paces them.
    fn set_intensity(&mut self, _percent: f64) {}

    /// Told before each treatment whether to be a victim instead of a source: to use
    /// as much, and so that it loses as much as it can beside a neighbour. Kernels
    /// that lose much as sources, too, ignore it.
    fn set_probing(&mut self, _probing: bool) {}

    /// Told before each treatment by a kernel whose intensity is a rate: the
    /// operations per second to press at, `None` for as many as it can. Returns
    /// whether the kernel keeps to that rate itself, because its operations are
    /// due at times of their own; the worker paces all others.
    fn set_rate(&mut self, _operations_per_second: Option<f64>) -> bool {
        false
    }

    /// Operations per second at 100 %, for kernels to which that is given and
    /// not what the machine turns out to deliver. `None` for all others, whose
    /// peak is measured.
    fn peak(&self) -> Option<f64> {
        None
    }

    /// Presses on the resource for some 5 to 50 µs (storage and the filling of
    /// memory take as long as one request takes) and returns the operations
    /// done.
    ///
    /// # Errors
    /// When the kernel cannot go on; the worker then ends with the reason.
    fn work(&mut self) -> Result<u64, Failure>;

    /// Called once when the placebo begins: kernels with threads of their own
    /// let them pass the time as their worker does.
    fn placebo(&mut self) {}

    /// Takes the pressure off: called once when treatment or placebo ends.
    fn release(&mut self) {}

    /// Whether the intensity set last is fully in force.
    fn applied(&self) -> bool {
        true
    }

    /// What the kernel holds at this moment, in the resource's unit: bytes,
    /// entries. 0 for kernels that hold nothing.
    fn held(&self) -> u64 {
        0
    }

    /// What it holds at 100 %, in the same unit.
    fn holds_at_most(&self) -> u64 {
        0
    }

    /// Operations since the start that someone else confirmed, for kernels
    /// whose own count says only what was handed over. `None` for all others.
    fn confirmed(&self) -> Option<u64> {
        None
    }

    /// What carries its operations, and why, where machines differ in that.
    /// One line.
    fn engine(&self) -> Option<&str> {
        None
    }

    /// What passed between the kernel and its device since the start. `None`
    /// for kernels without one.
    fn traffic(&self) -> Option<DeviceTraffic> {
        None
    }
}
