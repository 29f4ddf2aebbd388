//! How much of the last-level cache others leave to this machine.
//!
//! Guests whom a virtual machine does not show use the same last-level cache. A dependent
//! walk over a part of it tells how much they have: on an EPYC with 32 MiB an access took
//! 12 ns in the morning and 50 to 59 ns in the afternoon, as if a third of the lines came
//! from memory (146 ns).

use super::Machine;
use super::calibration::Calibration;
use super::calibration::WALK_SHARE;
use crate::sys::cpus::affinity;
use crate::sys::cpus::set_affinity;
use jostle_kernels::walk::Lines;
use jostle_profile::LastLevelCache;
use jostle_statistics as stats;
use std::time::Duration;
use std::time::Instant;

/// Accesses of one walk: a millisecond where most come from memory.
const STEPS: u64 = 20_000;
/// Walks of a look, of which the fastest counts: what else runs on the CPU interrupts the
/// others.
const WALKS: u32 = 3;
/// No further walk of a look is begun after this time: some machines report
/// hundreds of megabytes.
const LONGEST: Duration = Duration::from_millis(50);
/// Part of the free memory that a look may take.
const MEMORY_SHARE: f64 = 0.25;
/// An access that takes longer than this many times the least ever seen.
const HELD_FROM: f64 = 1.25;

/// Whether others have a part of the cache that is worth a warning.
pub fn is_held(cache: &LastLevelCache) -> bool {
    let free = cache.free_ns;
    free.is_some_and(|free| cache.access_ns > HELD_FROM * free)
}

/// Looks at the last-level cache of one CPU.
pub struct LastCache {
    cpu: usize,
    bytes: u64,
    free_ns: Option<f64>,
    looks: Vec<f64>,
}

impl LastCache {
    /// Of `cpu`; `None` where it is not known, is its core's alone, or is too large for the
    /// free memory.
    pub fn of(
        machine: &Machine,
        cpu: usize,
        calibration: Option<&Calibration>,
    ) -> Option<LastCache> {
        let cache = machine.llc(cpu)?;
        if machine.private_cache_bytes(cpu) == Some(cache.size_bytes) {
            return None;
        }
        let (headroom, _) = machine.memory_headroom_bytes();
        let bytes = (WALK_SHARE * cache.size_bytes as f64) as u64;
        if bytes as f64 > MEMORY_SHARE * headroom as f64 {
            return None;
        }
        let name = cache.name();
        let mut sizes = calibration.iter().flat_map(|known| &known.sizes);
        let known = sizes.find(|size| size.name == name);
        Some(LastCache {
            cpu,
            bytes,
            free_ns: known.and_then(|known| known.walk_ns),
            looks: Vec::new(),
        })
    }

    /// Takes some milliseconds of that CPU and evicts what others have in the cache; the
    /// calling thread may run afterwards where it might before. Counts for nothing where
    /// the CPU or the memory is refused.
    pub fn look(&mut self) {
        let (Ok(before), Ok(lines)) = (affinity(0), Lines::new(self.bytes)) else {
            return;
        };
        if set_affinity(0, &[self.cpu]).is_ok() {
            let began = Instant::now();
            let mut fastest = f64::INFINITY;
            for _ in 0..WALKS {
                lines.warm(self.bytes);
                fastest = fastest.min(lines.walk_ns(self.bytes, STEPS));
                if began.elapsed() > LONGEST {
                    break;
                }
            }
            self.looks.push(fastest);
        }
        // Refused only when those CPUs just went away; then nothing is lost.
        let _ = set_affinity(0, &before);
    }

    /// What the looks saw; `None` without any.
    pub fn found(&self) -> Option<LastLevelCache> {
        (!self.looks.is_empty()).then(|| LastLevelCache {
            access_ns: stats::median(&mut self.looks.clone()),
            free_ns: self.free_ns,
            looks: self.looks.len() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fake;

    #[test]
    fn a_cache_is_held_when_accesses_take_a_quarter_longer_than_ever() {
        let took = |access_ns, free_ns| LastLevelCache {
            access_ns,
            free_ns,
            looks: 2,
        };
        assert!(!is_held(&took(20.0, Some(20.0))));
        assert!(!is_held(&took(24.9, Some(20.0))));
        assert!(is_held(&took(25.1, Some(20.0))));
        assert!(!is_held(&took(500.0, None)));
    }

    #[test]
    fn what_is_not_shared_or_too_large_is_not_looked_at() {
        let machine = fake::cores(2, 1);
        let cache = LastCache::of(&machine, 0, None).unwrap();
        assert_eq!(cache.found(), None);
        let mut small = machine.clone();
        small.memory.available_bytes = 64 << 20;
        assert!(LastCache::of(&small, 0, None).is_none());
        let mut alone = machine;
        alone.caches.retain(|cache| cache.level < 3);
        assert!(LastCache::of(&alone, 0, None).is_none());
    }

    #[test]
    fn looking_leaves_the_thread_where_it_was() {
        let machine = Machine::detect();
        let before = affinity(0).unwrap();
        for cpu in &machine.allowed_cpus {
            let Some(mut cache) = LastCache::of(&machine, *cpu, None) else {
                continue;
            };
            cache.look();
            cache.look();
            let found = cache.found().unwrap();
            assert!(found.access_ns > 0.0 && found.looks == 2, "{found:?}");
            assert_eq!(affinity(0).unwrap(), before);
        }
    }
}
