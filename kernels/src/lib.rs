//! The sources of interference: what runs inside a jostle worker.
//!
//! Each source is one file under this crate and one row of [`KERNELS`]. A
//! kernel knows how to press on one resource at full speed or over a given
//! footprint; it knows nothing of slices, pacing, arms or processes, which are
//! the worker's business.
//!
//! Inner loops that must not be left to a compiler stand in `asm/<arch>/` and
//! are assembled into this crate; each has a twin in plain Rust with the same
//! result, which is also what runs on architectures without assembly.
#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

/// Assembles a file of `asm/<arch>/` where there is one for the architecture.
macro_rules! assembly {
    ($file:literal) => {
        #[cfg(target_arch = "x86_64")]
        std::arch::global_asm!(include_str!(concat!("../asm/x86_64/", $file)));
        #[cfg(target_arch = "aarch64")]
        std::arch::global_asm!(include_str!(concat!("../asm/aarch64/", $file)));
    };
}
use assembly;

mod branch;
mod buffer;
mod chain;
mod cpu_time;
mod cycle;
pub mod displace;
mod fit;
mod footprint;
pub mod fp;
pub mod int;
mod interconnect;
pub mod l1i;
#[cfg(not(miri))]
mod mapping;
#[cfg(miri)]
#[path = "mapping_in_miri.rs"]
mod mapping;
mod memory_capacity;
pub mod moves;
pub mod network;
mod prefetcher;
mod refill;
pub mod registers;
pub mod scatter;
mod spec;
pub mod spin;
pub mod storage;
mod stream;
mod sweep;
pub mod tlb;
pub mod vector;
pub mod walk;
pub mod weyl;

pub use buffer::Buffer;
pub use refill::Left;
pub use refill::left_behind;
pub use spec::Access;
pub use spec::DeviceTraffic;
pub use spec::Environment;
pub use spec::Failure;
pub use spec::Kernel;
pub use spec::KernelSpec;
pub use spec::Waiting;

use jostle_profile::resource::Resource;

/// Every source of interference of this version, in the order of
/// [`Resource::ALL`].
pub const KERNELS: &[KernelSpec] = &[
    cpu_time::SPEC,
    int::SPEC,
    fp::SPEC,
    vector::SPEC,
    l1i::SPEC,
    footprint::L1D,
    footprint::L2_CAPACITY,
    stream::L2_BANDWIDTH,
    tlb::SPEC,
    prefetcher::SPEC,
    branch::SPEC,
    footprint::LLC_CAPACITY,
    stream::LLC_BANDWIDTH,
    memory_capacity::SPEC,
    stream::MEMORY_BANDWIDTH,
    interconnect::SPEC,
    storage::CAPACITY,
    storage::BANDWIDTH,
    network::SPEC,
];

/// The source that applies pressure to `resource`.
pub fn source(resource: Resource) -> &'static KernelSpec {
    &KERNELS[resource as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_has_its_source() {
        assert_eq!(KERNELS.len(), Resource::ALL.len());
        for &resource in Resource::ALL {
            assert_eq!(source(resource).resource, resource);
        }
    }
}

#[cfg(test)]
#[path = "../../tests/common/skip.rs"]
mod skip;
