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
use jostle_host::machine::Cache;
use jostle_host::machine::CacheKind;
use jostle_host::machine::Machine;
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
    /// `--share`: how much of its resource the demo uses.
    pub share: Option<Share>,
}

/// How much of its resource a demo uses, instead of all that it gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    /// Of a CPU's time, 0–1.
    OfTime(f64),
    /// Operations per second.
    Rate(f64),
}

impl Share {
    /// So many operations per second.
    ///
    /// # Errors
    /// A request error for a rate that is none.
    pub fn rate(per_second: f64) -> Result<Share> {
        match per_second > 0.0 && per_second.is_finite() {
            true => Ok(Share::Rate(per_second)),
            false => Err(Error::request(format!(
                "--rate {per_second}: give operations per second, above 0"
            ))),
        }
    }

    /// The options of `jostle demo` that ask for it.
    pub fn options(self) -> [String; 2] {
        match self {
            Share::OfTime(part) => ["--share".into(), (part * 100.0).to_string()],
            Share::Rate(rate) => ["--rate".into(), rate.to_string()],
        }
    }
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
            share: None,
        }
    }
}

impl Demo {
    /// What `percent` of its resource is, of which `peak` gives the calibrated
    /// peak in the resource's unit.
    ///
    /// # Errors
    /// A request error for a share that is none, for a demo whose operations are
    /// not what its resource is measured in, and where there is no peak.
    pub fn share(
        &self,
        percent: f64,
        peak: impl FnOnce(Resource) -> Result<f64, String>,
    ) -> Result<Share> {
        if !(percent > 0.0 && percent <= 100.0) {
            return Err(Error::request(format!(
                "--share {percent}: give percent of the resource, above 0 and at most 100"
            )));
        }
        match self.needs {
            Some(Resource::CpuTime) => Ok(Share::OfTime(percent / 100.0)),
            Some(resource)
                if self.unit == "bytes" && resource.row().pressure_unit == "bytes_per_second" =>
            {
                let peak = peak(resource)
                    .map_err(|reason| Error::request(format!("--share {percent}: {reason}")))?;
                Ok(Share::Rate(peak * percent / 100.0))
            }
            _ => {
                let able = |demo: &&Demo| {
                    let of_bytes = demo.unit == "bytes" && demo.needs.is_some();
                    of_bytes || demo.needs == Some(Resource::CpuTime)
                };
                let able: Vec<&str> = DEMOS.iter().filter(able).map(|demo| demo.name).collect();
                Err(Error::request(format!(
                    "--share: the {} demo uses no rate that can be a share; those that do are: {}",
                    self.name,
                    able.join(", ")
                )))
            }
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
    fn a_share_is_of_the_peak_or_of_time() {
        let share = |name: &str, percent| find(name).unwrap().share(percent, |_| Ok(200.0));
        assert_eq!(share("cpu-time", 30.0).unwrap(), Share::OfTime(0.3));
        assert_eq!(share("storage-bandwidth", 10.0).unwrap(), Share::Rate(20.0));
        for (name, percent) in [("cpu-time", 0.0), ("cpu-time", 101.0), ("kv", 10.0)] {
            assert_eq!(share(name, percent).unwrap_err().exit_code(), 2, "{name}");
        }
        let refused = find("memory-bandwidth").unwrap();
        let refused = refused.share(10.0, |_| Err("no peak".into())).unwrap_err();
        assert!(refused.to_string().contains("no peak"), "{refused}");
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
            share: None,
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
