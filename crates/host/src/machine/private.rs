//! Whether a CPU has the second-level cache of its core to itself.
//!
//! On a virtual machine a co-tenant that this machine does not show may run on the
//! hidden sibling thread and occupy that cache, even all the time. Applying pressure to it
//! then costs the target nothing more. Access times show this: a dependent walk over part
//! of the cache, compared with one over the first level. On an Intel Xeon with nobody
//! there it took 2.3 to 2.7 times as long, with and without huge pages. With 14 cycles to
//! the second level, 50 to the third, 4 to the first and 7 of arithmetic, it is 1.9 times
//! when all lines are there and 5.2 times when none is.

use super::Machine;
use crate::sys::cpus::affinity;
use crate::sys::cpus::set_affinity;
use jostle_kernels::walk::Lines;

/// By the cycles above, an access takes this many times as long as one in the first level
/// when four of ten lines come from the third.
pub const HELD_FROM: f64 = 3.3;

/// Part of the cache that is walked over.
const PART: f64 = 0.6;
/// What is walked over for the first level, bytes.
const NEAR: u64 = 16 << 10;
/// Accesses of one walk: some ten microseconds.
const STEPS: u64 = 4_000;
/// Walks of a look, of which the fastest counts: what else runs on the CPU, the target
/// among it, interrupts the others.
const WALKS: u32 = 4;

/// What one look saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Nanoseconds per access in the first-level cache, the arithmetic of the walk
    /// included.
    pub near_ns: f64,
    /// The same over part of the second-level cache.
    pub ns: f64,
}

impl Look {
    /// Whether co-tenants had a large part of the cache.
    pub fn held(&self) -> bool {
        self.ns > HELD_FROM * self.near_ns
    }
}

/// Looks at one CPU's second-level cache.
pub struct PrivateCache {
    cpu: usize,
    bytes: u64,
    lines: Lines,
}

impl PrivateCache {
    /// Of `cpu`; `None` where its second-level cache is not its core's alone or is
    /// not known, or where memory is refused.
    pub fn of(machine: &Machine, cpu: usize) -> Option<PrivateCache> {
        let bytes = (PART * machine.private_cache_bytes(cpu)? as f64) as u64;
        (bytes >= 4 * NEAR).then_some(())?;
        let lines = Lines::new(bytes).ok()?;
        Some(PrivateCache { cpu, bytes, lines })
    }

    /// Takes a fraction of a millisecond of that CPU, and leaves the calling thread
    /// where it may run as it was. `None` where the thread may not run there.
    pub fn look(&self) -> Option<Look> {
        let before = affinity(0).ok()?;
        let seen = set_affinity(0, &[self.cpu]).ok().map(|()| {
            let fastest = |bytes: u64| {
                let walks = (0..WALKS).map(|_| {
                    self.lines.warm(bytes);
                    self.lines.walk_ns(bytes, STEPS)
                });
                walks.fold(f64::INFINITY, f64::min)
            };
            Look {
                near_ns: fastest(NEAR),
                ns: fastest(self.bytes),
            }
        });
        // Refused only when those CPUs just went away; then nothing is lost.
        let _ = set_affinity(0, &before);
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_held_when_half_of_it_comes_from_farther_away() {
        let look = |ns| Look { near_ns: 2.5, ns };
        // An EPYC's 14 and 50 cycles, and the walk's own 7: free, half, all held.
        assert!(!look(2.5 * 21.0 / 11.0).held());
        assert!(look(2.5 * 39.0 / 11.0).held());
        assert!(look(2.5 * 57.0 / 11.0).held());
    }

    #[test]
    fn looking_leaves_the_thread_where_it_was() {
        let machine = Machine::detect();
        let before = affinity(0).unwrap();
        for cpu in &machine.allowed_cpus {
            let Some(cache) = PrivateCache::of(&machine, *cpu) else {
                continue;
            };
            let look = cache.look().unwrap();
            assert!(look.near_ns > 0.0 && look.ns > look.near_ns, "{look:?}");
            assert_eq!(affinity(0).unwrap(), before);
        }
        let mut nothing = Machine::detect();
        nothing.caches.clear();
        assert!(PrivateCache::of(&nothing, 0).is_none());
    }
}
