//! How much of the last-level cache others leave to this machine.
//!
//! Guests whom a virtual machine does not show use the same last-level cache. A dependent
//! walk over a part of it tells how much they have: on an EPYC with 32 MiB an access took
//! 12 ns in the morning and 50 to 59 ns in the afternoon, as if a third of the lines came
//! from memory (146 ns). Or they leave the cache to everybody but replace what is in it: on a
//! Xeon with 480 MiB, what was read was gone after 100 ms, with nobody else on this machine.

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
/// What others replace is looked at in a part of so many times the second-level cache.
const KEPT_OF_PRIVATE: u64 = 8;
/// At most a quarter of the cache: there must be room for it.
const KEPT_OF_ALL: u64 = 4;
/// At least so many times the second-level cache, which others do not replace.
const KEPT_AT_LEAST: u64 = 4;
/// From the last use of that part to the walk over it. On a Xeon whose other guests were
/// busy, an access to 8 MiB took 34 ns at once, 39 after 10 ms, 95 after 30 and 185 after 100
/// (`scripts/llc-walk kept 8`).
const KEPT_FOR: Duration = Duration::from_millis(30);
/// Passes until a cache holds what is read again and again: some keep little of what they
/// were given once.
const PASSES: u32 = 10;
/// Accesses of such a walk: the lines of a page that are read for its translation are not
/// read again in as few.
const KEPT_STEPS: u64 = 3_000;
/// Waits in a look, of which the one that was disturbed least counts.
const WAITS: u32 = 2;
/// Less between the cache and memory, in parts of the latter, shows nothing.
const CONTRAST: f64 = 0.3;
/// Less than this share kept, percent, is worth a warning.
const KEPT_ENOUGH: f64 = 50.0;
/// Walks of a look, of which the fastest counts: what else runs on the CPU interrupts the
/// others.
const WALKS: u32 = 3;
/// No further walk of a look is begun after this time: some machines report
/// hundreds of megabytes.
const LONGEST: Duration = Duration::from_millis(50);
/// Part of the memory that may be taken which a look takes at most.
const MEMORY_SHARE: f64 = 0.25;
/// An access that takes longer than this many times the least ever seen.
const HELD_FROM: f64 = 1.25;

/// Whether others have a part of the cache that is worth a warning.
pub fn is_held(cache: &LastLevelCache) -> bool {
    let free = cache.free_ns;
    free.is_some_and(|free| cache.access_ns > HELD_FROM * free)
}

/// Whether others replace what is in the cache so fast that it is worth a warning.
pub fn is_replaced(cache: &LastLevelCache) -> bool {
    cache.kept_percent.is_some_and(|kept| kept < KEPT_ENOUGH)
}

/// Share of the lines, percent, that are still in a cache: by the time of an access when all
/// of them were, of one to memory, and of one later.
fn kept(cache_ns: f64, memory_ns: f64, later_ns: f64) -> Option<f64> {
    let contrast = memory_ns - cache_ns;
    let clear = contrast >= CONTRAST * memory_ns;
    clear.then(|| 100.0 * ((memory_ns - later_ns) / contrast).clamp(0.0, 1.0))
}

/// Looks at the last-level cache of one CPU.
pub struct LastCache {
    cpu: usize,
    bytes: u64,
    /// The part that others may replace, where there is room for one.
    kept_bytes: Option<u64>,
    free_ns: Option<f64>,
    looks: Vec<f64>,
    kept: Vec<f64>,
}

impl LastCache {
    /// Of `cpu`; `None` where it is not known, is its core's alone, or is too large for the
    /// `memory_bytes` that may be taken.
    pub fn of(
        machine: &Machine,
        cpu: usize,
        calibration: Option<&Calibration>,
        memory_bytes: u64,
    ) -> Option<LastCache> {
        let cache = machine.llc(cpu)?;
        if machine.private_cache_bytes(cpu) == Some(cache.size_bytes) {
            return None;
        }
        let bytes = (WALK_SHARE * cache.size_bytes as f64) as u64;
        if bytes as f64 > MEMORY_SHARE * memory_bytes as f64 {
            return None;
        }
        let private = machine.private_cache_bytes(cpu).unwrap_or(0);
        let name = cache.name();
        let mut sizes = calibration.iter().flat_map(|known| &known.sizes);
        let known = sizes.find(|size| size.name == name);
        Some(LastCache {
            cpu,
            bytes,
            kept_bytes: Some((KEPT_OF_PRIVATE * private).min(cache.size_bytes / KEPT_OF_ALL))
                .filter(|bytes| private > 0 && *bytes >= KEPT_AT_LEAST * private),
            free_ns: known.and_then(|known| known.walk_ns),
            looks: Vec::new(),
            kept: Vec::new(),
        })
    }

    /// Takes some tenths of a second of that CPU and evicts what others have in the cache; the
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
            self.kept.extend(self.wait_and_see(&lines));
        }
        // Refused only when those CPUs just went away; then nothing is lost.
        let _ = set_affinity(0, &before);
    }

    /// Share of a part of the cache, percent, that is still there some time after it was read;
    /// `None` where the cache and memory cannot be told apart.
    fn wait_and_see(&self, lines: &Lines) -> Option<f64> {
        let bytes = self.kept_bytes?;
        let warm = || (0..PASSES).for_each(|_| lines.warm(bytes));
        let [mut cache, mut memory, mut later] = [f64::INFINITY; 3];
        for _ in 0..WALKS {
            warm();
            cache = cache.min(lines.walk_translated_ns(bytes, KEPT_STEPS));
            memory = memory.min(lines.walk_memory_ns(bytes, KEPT_STEPS)?);
        }
        for _ in 0..WAITS {
            warm();
            // A CPU that sleeps may be given to others, who have caches of their own to fill.
            let read = Instant::now();
            while read.elapsed() < KEPT_FOR {
                std::hint::spin_loop();
            }
            later = later.min(lines.walk_translated_ns(bytes, KEPT_STEPS));
        }
        kept(cache, memory, later)
    }

    /// What the looks saw; `None` without any.
    pub fn found(&self) -> Option<LastLevelCache> {
        (!self.looks.is_empty()).then(|| LastLevelCache {
            access_ns: stats::median(&mut self.looks.clone()),
            free_ns: self.free_ns,
            kept_percent: (!self.kept.is_empty()).then(|| stats::median(&mut self.kept.clone())),
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
            kept_percent: None,
            looks: 2,
        };
        assert!(!is_held(&took(20.0, Some(20.0))));
        assert!(!is_held(&took(24.9, Some(20.0))));
        assert!(is_held(&took(25.1, Some(20.0))));
        assert!(!is_held(&took(500.0, None)));
    }

    #[test]
    fn what_is_kept_lies_between_cache_and_memory() {
        assert_eq!(kept(33.7, 142.2, 33.7), Some(100.0));
        assert_eq!(kept(33.7, 142.2, 75.1).map(f64::round), Some(62.0));
        assert_eq!(kept(33.7, 142.2, 150.0), Some(0.0));
        assert_eq!(kept(33.7, 142.2, 20.0), Some(100.0));
        assert_eq!(kept(120.0, 142.2, 130.0), None, "no contrast");
        let found = |kept_percent| LastLevelCache {
            access_ns: 1.0,
            free_ns: None,
            kept_percent,
            looks: 1,
        };
        assert!(is_replaced(&found(Some(49.0))));
        assert!(!is_replaced(&found(Some(51.0))) && !is_replaced(&found(None)));
    }

    #[test]
    fn what_is_not_shared_or_too_large_is_not_looked_at() {
        let machine = fake::cores(2, 1);
        let cache = LastCache::of(&machine, 0, None, 1 << 30).unwrap();
        assert_eq!(cache.found(), None);
        assert!(LastCache::of(&machine, 0, None, 64 << 20).is_none());
        let mut alone = machine;
        alone.caches.retain(|cache| cache.level < 3);
        assert!(LastCache::of(&alone, 0, None, 1 << 30).is_none());
    }

    #[test]
    fn looking_leaves_the_thread_where_it_was() {
        let machine = Machine::detect();
        let before = affinity(0).unwrap();
        for cpu in &machine.allowed_cpus {
            let (headroom, _) = machine.memory_headroom_bytes();
            let Some(mut cache) = LastCache::of(&machine, *cpu, None, headroom) else {
                continue;
            };
            cache.look();
            cache.look();
            let found = cache.found().unwrap();
            assert!(found.access_ns > 0.0 && found.looks == 2, "{found:?}");
            let kept = found.kept_percent;
            assert!(
                kept.is_none_or(|kept| (0.0..=100.0).contains(&kept)),
                "{found:?}"
            );
            assert_eq!(affinity(0).unwrap(), before);
        }
    }
}
