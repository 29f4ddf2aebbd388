//! How much of each shared resource a CPU really gets, over time.
//!
//! One thread measures one gauge after the other for a millisecond or so: the
//! speed of integer operations, and the access time of a dependent walk over
//! part of each cache and over memory. Somebody on the hidden sibling thread
//! makes the first slower and takes the caches away; somebody elsewhere on the
//! chip, the last-level cache and memory. A gauge is free in a look when it is
//! near its reference: the calibrated access time where there is one, else the
//! best that it showed so far. On a virtual machine one more gauge tells whether
//! another CPU that is said to share the last-level cache does.

use crate::machine::Machine;
use crate::machine::calibration::Calibration;
use crate::machine::calibration::WALK_SHARE;
use crate::machine::transfer::APART_NS;
use crate::machine::transfer::Transfer;
use crate::sys::cpus::set_affinity;
use jostle_kernels::Environment;
use jostle_kernels::Kernel;
use jostle_kernels::source;
use jostle_kernels::walk::Lines;
use jostle_profile::resource::Resource;
use serde::Serialize;
use std::time::Duration;
use std::time::Instant;

/// What is walked over for memory, as a multiple of the last cache.
const BEYOND: f64 = 4.0;
/// Most that a gauge may take of the memory that may be taken.
const MEMORY_SHARE: f64 = 0.25;
/// Accesses that are timed in a look: about a millisecond in a second-level cache.
const STEPS: u64 = 200_000;
/// The same beyond it, where one access takes ten times as long.
const FAR_STEPS: u64 = 20_000;
/// Calls of the integer loop in a look.
const CALLS: u32 = 20;
/// A look is free up to this many times the reference.
const FREE: f64 = 1.25;
/// From one round of looks to the next.
pub const ROUND: Duration = Duration::from_millis(100);
/// The reference when nothing is calibrated: what this share of the looks reached.
const BEST: f64 = 0.02;

/// What a gauge looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The speed of integer operations.
    Units,
    /// The access time of a walk.
    Walk,
    /// The time of a cache line to this CPU and back.
    LineTo(usize),
}

/// One gauge's looks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gauge {
    /// "units", or the name of a cache, or "memory", or "shared".
    pub name: String,
    #[serde(skip)]
    pub what: What,
    /// What it walks over; 0 for the units.
    pub bytes: u64,
    /// Nanoseconds per access (per thousand operations for the units) when free; for a
    /// line to another CPU those from which on the cache is not shared.
    pub reference_ns: f64,
    /// Where that is from.
    pub reference: &'static str,
    /// Per look, in order: nanoseconds as above.
    #[serde(skip)]
    pub looks: Vec<f64>,
}

impl Gauge {
    fn new(name: &str, what: What, bytes: u64, calibrated: Option<f64>) -> Gauge {
        Gauge {
            name: name.to_string(),
            what,
            bytes,
            reference_ns: calibrated.unwrap_or(f64::INFINITY),
            reference: match calibrated {
                Some(_) => "calibrated",
                None => "the best seen",
            },
            looks: Vec::new(),
        }
    }

    fn line_to(cpu: usize) -> Gauge {
        Gauge {
            name: "shared".to_string(),
            what: What::LineTo(cpu),
            bytes: 64,
            reference_ns: APART_NS,
            reference: "two accesses of memory",
            looks: Vec::new(),
        }
    }

    /// The CPU that a line is sent to.
    pub fn other_cpu(&self) -> Option<usize> {
        match self.what {
            What::LineTo(cpu) => Some(cpu),
            What::Units | What::Walk => None,
        }
    }

    fn push(&mut self, nanoseconds: f64) {
        self.looks.push(nanoseconds);
        if self.reference == "the best seen" {
            let mut sorted = self.looks.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            self.reference_ns = sorted[(BEST * sorted.len() as f64) as usize];
        }
    }

    /// Share of the last `count` looks in which it was free, percent; `None`
    /// without any.
    pub fn free_percent(&self, count: usize) -> Option<f64> {
        let last = &self.looks[self.looks.len().saturating_sub(count)..];
        let most = match self.what {
            What::LineTo(_) => self.reference_ns,
            What::Units | What::Walk => FREE * self.reference_ns,
        };
        let free = last.iter().filter(|look| **look <= most);
        (!last.is_empty()).then(|| 100.0 * free.count() as f64 / last.len() as f64)
    }

    /// Nanoseconds that this share (0–1) of the looks stayed below.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.looks.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        Some(sorted[(share * last as f64).round() as usize])
    }
}

/// Everything that is looked at on one CPU.
pub struct Gauges {
    units: Box<dyn Kernel>,
    lines: Lines,
    transfer: Option<Transfer>,
    pub gauges: Vec<Gauge>,
}

impl Gauges {
    /// For `cpu`, to which the calling thread is bound.
    ///
    /// # Errors
    /// In words, when there is no memory or the CPU is not allowed.
    pub fn on(
        machine: &Machine,
        cpu: usize,
        calibration: Option<&Calibration>,
    ) -> Result<Gauges, String> {
        set_affinity(0, &[cpu]).map_err(|error| format!("cannot keep to CPU {cpu}: {error}"))?;
        let build = source(Resource::Int).build;
        let units = build(&Environment::default()).map_err(|failure| failure.0)?;
        let (headroom, _) = machine.memory_headroom_bytes();
        let most = (MEMORY_SHARE * headroom as f64) as u64;
        let caches = machine.caches.iter();
        let mut caches: Vec<(String, u64)> = caches
            .filter(|cache| cache.kind.holds_data() && cache.shared_cpus.contains(&cpu))
            .map(|cache| (cache.name(), cache.size_bytes))
            .collect();
        caches.sort_by_key(|(_, bytes)| *bytes);
        let mut gauges = vec![Gauge::new("units", What::Units, 0, None)];
        for (name, size) in &caches {
            let bytes = (WALK_SHARE * *size as f64) as u64;
            let sizes = calibration.map_or(&[][..], |known| &known.sizes);
            let known = sizes.iter().find(|known| known.name == *name);
            if bytes <= most {
                let calibrated = known.and_then(|known| known.walk_ns);
                gauges.push(Gauge::new(name, What::Walk, bytes, calibrated));
            }
        }
        let beyond = caches
            .last()
            .map(|(_, bytes)| (BEYOND * *bytes as f64) as u64);
        if let Some(bytes) = beyond.filter(|bytes| *bytes <= most) {
            gauges.push(Gauge::new("memory", What::Walk, bytes, None));
        }
        let transfer = match machine.hypervisor.is_some() {
            true => machine.shares_last_cache_with(cpu),
            false => None,
        };
        let transfer = transfer.map(|other| Transfer::between(cpu, other));
        let transfer = transfer.transpose()?;
        gauges.extend(transfer.as_ref().map(|line| Gauge::line_to(line.cpus[1])));
        let largest = gauges.iter().map(|gauge| gauge.bytes).max().unwrap_or(0);
        Ok(Gauges {
            units,
            lines: Lines::new(largest.max(4096)).map_err(|failure| failure.0)?,
            transfer,
            gauges,
        })
    }

    /// One look at each; what another CPU has no time for is left out.
    ///
    /// # Errors
    /// In words, when the integer loop cannot go on.
    pub fn look(&mut self) -> Result<(), String> {
        for gauge in &mut self.gauges {
            let look = match gauge.what {
                What::Units => {
                    let began = Instant::now();
                    let mut operations = 0;
                    for _ in 0..CALLS {
                        operations += self.units.work().map_err(|failure| failure.0)?;
                    }
                    began.elapsed().as_secs_f64() * 1e12 / operations.max(1) as f64
                }
                What::LineTo(_) => match self.transfer.as_ref().and_then(Transfer::look) {
                    Some(nanoseconds) => nanoseconds,
                    None => continue,
                },
                What::Walk => {
                    // What other gauges left is not what the neighbour left.
                    self.lines.warm(gauge.bytes);
                    let near = gauge.bytes < 4 << 20;
                    if near {
                        self.lines.walk_ns(gauge.bytes, gauge.bytes / 64);
                    }
                    let steps = if near { STEPS } else { FAR_STEPS };
                    self.lines.walk_ns(gauge.bytes, steps)
                }
            };
            gauge.push(look);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::cpus;

    #[test]
    fn a_gauge_is_free_near_its_reference() {
        let mut best = Gauge::new("L2", What::Walk, 1, None);
        assert_eq!(best.free_percent(10), None);
        for look in [10.0, 4.0, 4.1, 9.0, 4.2] {
            best.push(look);
        }
        assert_eq!(best.reference_ns, 4.0);
        assert_eq!(best.free_percent(5), Some(60.0));
        assert_eq!(best.free_percent(2), Some(50.0));
        // Never free: all that this run saw was held.
        let mut known = Gauge::new("L2", What::Walk, 1, Some(4.0));
        for look in [9.0, 9.1, 9.2] {
            known.push(look);
        }
        assert_eq!(known.free_percent(3), Some(0.0));
        assert_eq!(known.quantile(0.5), Some(9.1));
    }

    #[test]
    fn looks_are_taken_of_every_level() {
        let machine = Machine::detect();
        let before = cpus::affinity(0).unwrap();
        let cpu = machine.allowed_cpus[0];
        let mut gauges = Gauges::on(&machine, cpu, None).unwrap();
        // The other CPU may have no time for a look.
        let twice = |gauges: &Gauges| gauges.gauges.iter().all(|gauge| gauge.looks.len() >= 2);
        let mut rounds = 0;
        while !twice(&gauges) && rounds < 100 {
            gauges.look().unwrap();
            rounds += 1;
        }
        cpus::set_affinity(0, &before).unwrap();
        assert!(gauges.gauges.len() >= 2, "units and a cache");
        assert!(twice(&gauges), "after {rounds} rounds: {:?}", gauges.gauges);
        for gauge in &gauges.gauges {
            if gauge.other_cpu().is_none() {
                assert_eq!(gauge.looks.len(), rounds);
            }
            assert!(gauge.looks.iter().all(|look| *look > 0.0), "{gauge:?}");
        }
        let times: Vec<f64> = gauges.gauges[1..]
            .iter()
            .map(|gauge| gauge.quantile(0.0).unwrap())
            .collect();
        // The first-level cache is faster than what lies farthest.
        assert!(times[0] < times[times.len() - 1], "{times:?}");
    }
}
