//! Dependent walks: what one access costs over a given number of bytes. Not a
//! source of interference; it finds the sizes of caches, and what others take of one.
//!
//! The order is the golden-ratio one of [`weyl`](crate::weyl), which no
//! prefetcher follows. Every position takes in the word that was loaded before
//! it (which is zero), so that no load can begin before the last has ended, and
//! no chain has to be written first: any part of a buffer can be walked at once.

use crate::Buffer;
use crate::Failure;
use crate::weyl::GOLDEN;
use std::cell::Cell;
use std::time::Instant;

const LINE: u64 = 64;
const PAGE: usize = 4096;
/// The first word of a page tells that the page was touched; this one is zero.
const ZERO_WORD: usize = 1;

/// Where a walk is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    at: u64,
}

impl Walk {
    /// Takes `steps` steps over the first `lines` cache lines of `buffer`, which was
    /// never written but for the first word of a page.
    pub(crate) fn over(&mut self, buffer: &Buffer, lines: u64, steps: u64) {
        let mut at = self.at;
        for _ in 0..steps {
            at = at.wrapping_add(GOLDEN);
            at = at.wrapping_add(buffer.read(Walk::word(at, lines)));
        }
        self.at = at;
    }

    /// The word that is read at position `at` among the first `lines` cache lines.
    #[inline(always)]
    fn word(at: u64, lines: u64) -> usize {
        let line = ((at as u128 * lines as u128) >> 64) as u64;
        (line * LINE / 8) as usize + ZERO_WORD
    }

    /// The words that the next `steps` steps of [`Walk::over`] will read.
    fn ahead(&self, lines: u64, steps: u64) -> impl Iterator<Item = usize> + use<> {
        let mut at = self.at;
        (0..steps).map(move |_| {
            // What is loaded on the way is zero.
            at = at.wrapping_add(GOLDEN);
            Walk::word(at, lines)
        })
    }
}

/// Memory to walk over, on huge pages where the kernel has them.
pub struct Lines {
    buffer: Buffer,
    walk: Cell<Walk>,
}

impl Lines {
    /// Memory of `bytes`, every page touched once: what a hypervisor has not
    /// backed yet comes only then, many times slower than any cache.
    ///
    /// # Errors
    /// When the kernel refuses the memory.
    pub fn new(bytes: u64) -> Result<Self, Failure> {
        Ok(Lines {
            buffer: Buffer::resident(bytes as usize)?,
            walk: Cell::default(),
        })
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Loads every line of the first `bytes` once, as fast as it goes, so that
    /// what fits in a cache is there.
    pub fn warm(&self, bytes: u64) {
        for line in 0..self.lines(bytes) {
            self.buffer.read((line * LINE / 8) as usize + ZERO_WORD);
        }
    }

    /// Nanoseconds per access of a dependent walk of `steps` accesses over the
    /// lines of the first `bytes`. It goes on where the last one ended: short walks
    /// would find the lines of the one before still at hand.
    pub fn walk_ns(&self, bytes: u64, steps: u64) -> f64 {
        let lines = self.lines(bytes);
        let mut walk = self.walk.get();
        let start = Instant::now();
        walk.over(&self.buffer, lines, steps);
        let took = start.elapsed().as_nanos() as f64;
        self.walk.set(walk);
        took / steps.max(1) as f64
    }

    /// As [`Lines::walk_ns`], with the translations of all addresses at hand as far as the
    /// TLB and the caches hold them: another line of each page is read before.
    pub fn walk_translated_ns(&self, bytes: u64, steps: u64) -> f64 {
        let words = (self.lines(bytes) * LINE / 8) as usize;
        for word in self.walk.get().ahead(self.lines(bytes), steps) {
            // The other half of its page.
            let other = word ^ (PAGE / 2 / 8);
            self.buffer.read(if other < words { other } else { word });
        }
        self.walk_ns(bytes, steps)
    }

    /// As [`Lines::walk_translated_ns`], with every line from memory: each is removed from
    /// all caches before. `None` where a program cannot do that.
    pub fn walk_memory_ns(&self, bytes: u64, steps: u64) -> Option<f64> {
        let mut ahead = self.walk.get().ahead(self.lines(bytes), steps);
        let flushed = ahead.all(|word| self.buffer.flush(word));
        flushed.then(|| self.walk_ns(bytes, steps))
    }

    fn lines(&self, bytes: u64) -> u64 {
        (bytes.min(self.bytes()) / LINE).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a large effect: the first-level cache against what lies behind it.
    #[test]
    fn more_bytes_than_a_core_has_caches_cost_more() {
        let lines = Lines::new(64 << 20).unwrap();
        lines.warm(64 << 20);
        let best = |bytes| {
            (0..5)
                .map(|_| lines.walk_ns(bytes, 20_000))
                .fold(f64::INFINITY, f64::min)
        };
        let (small, large) = (best(8 << 10), best(64 << 20));
        assert!(0.0 < small && small * 2.0 < large, "{small} {large}");
    }

    /// Only a large effect: the first-level cache against memory.
    #[test]
    fn what_is_flushed_comes_from_memory() {
        let lines = Lines::new(8 << 10).unwrap();
        // Fewer steps than lines: none is read twice.
        let near = || (0..20).map(|_| lines.walk_translated_ns(8 << 10, 100));
        let far = || (0..20).filter_map(|_| lines.walk_memory_ns(8 << 10, 100));
        let least = |walks: &mut dyn Iterator<Item = f64>| walks.fold(f64::INFINITY, f64::min);
        let (near, far) = (least(&mut near()), least(&mut far()));
        assert!(near > 0.0 && 3.0 * near < far, "{near} {far}");
        assert_eq!(far.is_finite(), cfg!(target_arch = "x86_64"));
    }

    #[test]
    fn a_walk_stays_inside_and_takes_what_there_is() {
        let lines = Lines::new(1).unwrap();
        assert_eq!(lines.bytes(), 4096);
        assert!(lines.walk_ns(1 << 40, 1000).is_finite());
        lines.warm(1 << 40);
    }
}
