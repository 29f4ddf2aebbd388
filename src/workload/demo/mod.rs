//! Built-in targets that need one known thing each, and tell how fast they go.
//!
//! `jostle demo NAME` runs until killed and publishes a progress page, as any
//! program may. A demo is one file here and one row of [`DEMOS`].

mod branch;
mod cache;
mod core;
mod harness;
mod kv;
mod memory_bandwidth;
mod memory_capacity;
mod prefetch;
mod registers;
mod scratch;
mod storage_bandwidth;
mod storage_capacity;
mod units;

pub use harness::run;

use crate::error::Error;
use crate::error::Result;
use crate::machine::Cache;
use crate::machine::CacheKind;
use crate::machine::Machine;
use jostle_kernels::network::Traffic;
use jostle_profile::resource::Resource;
use std::path::PathBuf;
use std::time::Duration;

/// Which time a demo's performance is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// What a user waits for; lost CPU time counts.
    Wall,
    /// The demo's own CPU time: lost CPU time does not count, slower memory
    /// does.
    Cpu,
}

/// Performs one batch and returns the operations done, which are published
/// then. Who reads the page in step with the CPU's switches would see long
/// batches as noise or, worse, as a bias. So one takes about 2 µs by wall time,
/// and about 20 µs by CPU time: reading that clock is a system call (0.55 µs in
/// a virtual machine), and its readers divide operations by a time that was
/// published together with them. Those that wait for a device publish what
/// each wait brought.
pub type Batch = Box<dyn FnMut() -> u64>;

/// One row of [`DEMOS`].
pub struct Demo {
    pub name: &'static str,
    /// The resource it is made for: the one that it needs, and as little as
    /// possible of any other.
    pub needs: Option<Resource>,
    /// CPUs it keeps busy.
    pub cpus: usize,
    pub alias: Option<&'static str>,
    /// One line: what it does and so what it should be sensitive to.
    pub about: &'static str,
    /// What an operation is, plural.
    pub unit: &'static str,
    pub clock: Clock,
    /// One batch is due per this time (open loop); none: as fast as it goes.
    pub pace: Option<Duration>,
    pub build: fn(&DemoContext) -> Result<Batch>,
}

impl Demo {
    /// What most demos have in common.
    const USUAL: Demo = Demo {
        name: "",
        needs: None,
        cpus: 1,
        alias: None,
        about: "",
        unit: "",
        clock: Clock::Cpu,
        pace: None,
        build: |_| Ok(Box::new(|| 0)),
    };
}

/// All demos, in the order they are listed.
pub const DEMOS: &[Demo] = &[
    kv::DEMO,
    registers::QUIET,
    registers::CPU_TIME,
    units::INT,
    units::FP,
    units::VECTOR,
    core::L1I,
    cache::L1D,
    cache::L2_CAPACITY,
    cache::L2_BANDWIDTH,
    core::TLB,
    prefetch::DEMO,
    branch::DEMO,
    cache::LLC_CAPACITY,
    cache::LLC_BANDWIDTH,
    memory_capacity::DEMO,
    memory_bandwidth::DEMO,
    units::INTERCONNECT,
    storage_capacity::DEMO,
    storage_bandwidth::DEMO,
    units::NETWORK_BANDWIDTH,
];

/// What a demo may want to know.
#[derive(Clone, Debug)]
pub struct DemoContext {
    pub l1i_bytes: usize,
    pub l1d_bytes: usize,
    pub l2_bytes: usize,
    /// The L2's size where there is no third level.
    pub llc_bytes: usize,
    /// Entries of the second-level data TLB; 0 where only measuring tells.
    pub tlb_entries: u64,
    pub memory_bytes: u64,
    /// `--size`, in bytes.
    pub size_bytes: Option<u64>,
    /// `--scratch`.
    pub scratch: Option<PathBuf>,
    /// `--peer` and what goes with it.
    pub network: Option<Traffic>,
}

impl DemoContext {
    /// Reads the caches of the CPU we run on; typical sizes where the kernel
    /// does not tell.
    pub fn read(
        size_bytes: Option<u64>,
        scratch: Option<PathBuf>,
        network: Option<Traffic>,
    ) -> DemoContext {
        let machine = Machine::detect();
        let cpu = machine.allowed_cpus.first().copied().unwrap_or(0);
        let bytes = |cache: Option<&Cache>| cache.map(|cache| cache.size_bytes as usize);
        let l2_bytes = bytes(machine.l2(cpu)).unwrap_or(1024 * 1024);
        DemoContext {
            l1i_bytes: bytes(machine.cache(cpu, 1, CacheKind::Instruction)).unwrap_or(32 * 1024),
            l1d_bytes: bytes(machine.l1d(cpu)).unwrap_or(32 * 1024),
            l2_bytes,
            llc_bytes: bytes(machine.llc(cpu)).unwrap_or(l2_bytes),
            tlb_entries: machine.tlb_entries.value().map_or(0, |entries| *entries),
            memory_bytes: match machine.memory.total_bytes {
                0 => 1 << 30,
                bytes => bytes,
            },
            size_bytes,
            scratch,
            network,
        }
    }
}

/// The demo called `name`, or its alias.
///
/// # Errors
/// A request error with the list and the nearest name.
pub fn find(name: &str) -> Result<&'static Demo> {
    let hit = DEMOS
        .iter()
        .find(|demo| demo.name == name || demo.alias == Some(name));
    hit.ok_or_else(|| {
        let names: Vec<&str> = DEMOS.iter().map(|demo| demo.name).collect();
        let nearest = names
            .iter()
            .map(|candidate| (strsim::levenshtein(name, candidate), candidate))
            .min()
            .filter(|(distance, _)| *distance <= 3)
            .map(|(_, candidate)| format!(" (did you mean {candidate}?)"))
            .unwrap_or_default();
        Error::request(format!(
            "there is no demo '{}'{nearest}; there are: {}",
            super::output::printable(name.as_bytes()),
            names.join(", ")
        ))
    })
}

/// A step of xorshift64*: quick, register-only, good enough for addresses.
#[inline(always)]
fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// A number below `bound` from 64 random bits.
#[inline(always)]
fn below(random: u64, bound: usize) -> usize {
    ((u128::from(random) * bound as u128) >> 64) as usize
}

/// The demo that is made for `resource`.
pub fn made_for(resource: Resource) -> &'static Demo {
    let hit = DEMOS.iter().find(|demo| demo.needs == Some(resource));
    hit.expect("every resource has one, which a test checks")
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_profile::resource::Domain;

    #[test]
    fn names_are_unique_and_found() {
        for demo in DEMOS {
            assert_eq!(find(demo.name).unwrap().name, demo.name);
            if let Some(alias) = demo.alias {
                assert_eq!(find(alias).unwrap().name, demo.name);
            }
        }
    }

    #[test]
    fn every_resource_has_a_demo_of_its_name() {
        for &resource in Resource::ALL {
            assert_eq!(made_for(resource).name, resource.id());
        }
    }

    #[test]
    fn a_wrong_name_gets_the_nearest() {
        let Err(error) = find("quite") else {
            panic!("there is no such demo");
        };
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("did you mean quiet?"), "{error}");
        let Err(error) = find("something else") else {
            panic!("there is no such demo");
        };
        assert!(!error.to_string().contains("did you mean"), "{error}");
        assert!(error.to_string().contains("memory-bandwidth"), "{error}");
    }

    #[test]
    fn every_memory_demo_does_work() {
        let context = DemoContext {
            l1i_bytes: 32 << 10,
            l1d_bytes: 32 << 10,
            l2_bytes: 256 << 10,
            llc_bytes: 1 << 20,
            tlb_entries: 512,
            memory_bytes: 64 << 20,
            size_bytes: Some(1 << 20),
            scratch: Some("/var/tmp".into()),
            network: None,
        };
        let devices = [Domain::BlockDevice, Domain::NetworkDevice, Domain::Machine];
        let of_device = |demo: &&Demo| {
            let domain = demo.needs.map(|resource| resource.row().domain);
            domain.is_some_and(|domain| devices.contains(&domain))
        };
        for demo in DEMOS.iter().filter(|demo| !of_device(demo)) {
            let mut batch = match (demo.build)(&context) {
                Ok(batch) => batch,
                Err(error) => panic!("{}: {error}", demo.name),
            };
            assert!(batch() > 0, "{}", demo.name);
            assert!(batch() > 0, "{}", demo.name);
        }
    }
}
