//! Loading whole cache lines in an order no prefetcher follows, as fast as the
//! load ports allow. Hand-written loops, each with a twin in plain Rust.
//!
//! A golden-ratio index (see [`crate::weyl`]) costs a multiplication, too much
//! for one line: two lines can be loaded per cycle. So the lines are cut into
//! eight segments of equal length, and one index serves the same line of all.

use crate::Buffer;
use crate::weyl::GOLDEN;

/// Bytes of a cache line.
pub const LINE: u64 = 64;
/// Lines loaded with one index, one in each segment.
pub const GROUP: u64 = 8;

/// Loads `groups` groups of eight lines out of eight segments of `segment`
/// lines, the first after `state` in golden-ratio order. Returns the words of
/// the last group folded by exclusive or.
///
/// # Safety
/// The base is aligned to 64, `segment * 512` bytes from it on can be read, and
/// both counts are above zero.
pub type Scatter =
    unsafe extern "C" fn(base: *const u8, segment: u64, groups: u64, state: u64) -> u64;

crate::assembly!("scatter.s");

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    fn jostle_scatter_avx512(base: *const u8, segment: u64, groups: u64, state: u64) -> u64;
    fn jostle_scatter_avx2(base: *const u8, segment: u64, groups: u64, state: u64) -> u64;
    fn jostle_scatter_sse2(base: *const u8, segment: u64, groups: u64, state: u64) -> u64;
}

#[cfg(target_arch = "aarch64")]
unsafe extern "C" {
    fn jostle_scatter_neon(base: *const u8, segment: u64, groups: u64, state: u64) -> u64;
}

/// Where a buffer is touched next.
#[derive(Clone, Copy, Debug)]
pub struct Scattered {
    state: u64,
    scatter: Scatter,
}

impl Default for Scattered {
    /// From the beginning, with the widest loads this CPU has.
    fn default() -> Self {
        Scattered {
            state: 0,
            scatter: variants()[0].1,
        }
    }
}

impl Scattered {
    /// Loads the next `groups` groups out of the first eight segments of
    /// `segment` lines of `buffer`; both above zero.
    ///
    /// # Panics
    /// When the buffer is shorter.
    pub fn touch(&mut self, buffer: &Buffer, segment: u64, groups: u64) {
        assert!(segment > 0 && groups > 0);
        let bytes = segment.checked_mul(GROUP * LINE);
        assert!(bytes.is_some_and(|bytes| bytes <= buffer.len() as u64));
        // SAFETY: checked above; a buffer is aligned. The variant was picked
        // for this CPU.
        let folded = unsafe { (self.scatter)(buffer.as_ptr(), segment, groups, self.state) };
        std::hint::black_box(folded);
        self.state = self.state.wrapping_add(groups.wrapping_mul(GOLDEN));
    }
}

/// [`Scatter`] in plain Rust.
///
/// # Safety
/// As [`Scatter`].
pub unsafe extern "C" fn scatter_twin(
    base: *const u8,
    segment: u64,
    groups: u64,
    state: u64,
) -> u64 {
    let mut order = crate::weyl::Weyl(state);
    let mut folded = 0;
    for _ in 0..groups {
        let line = order.next_below(segment);
        folded = 0;
        for part in 0..GROUP {
            let at = (part * segment + line) * LINE;
            for word in 0..LINE / 8 {
                // SAFETY: `line < segment`, so that all lies in the range
                // promised by the caller.
                folded ^= unsafe {
                    base.add((at + word * 8) as usize)
                        .cast::<u64>()
                        .read_volatile()
                };
            }
        }
    }
    folded
}

/// Every variant this CPU can run, widest first, the twin last.
pub fn variants() -> Vec<(&'static str, Scatter)> {
    let mut found: Vec<(&'static str, Scatter)> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") {
            found.push(("avx512", jostle_scatter_avx512));
        }
        if has!("avx2") {
            found.push(("avx2", jostle_scatter_avx2));
        }
        found.push(("sse2", jostle_scatter_sse2));
    }
    #[cfg(target_arch = "aarch64")]
    found.push(("neon", jostle_scatter_neon));
    found.push(("rust", scatter_twin));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_loads_the_lines_of_its_twin() {
        let segment = 37;
        let bytes = segment * GROUP * LINE;
        let mut buffer = Buffer::resident(bytes as usize).unwrap();
        for word in 0..bytes / 8 {
            let value = word.wrapping_mul(GOLDEN).rotate_left(17);
            buffer.write(word as usize, value);
        }
        // The fold shows the last group only, so every length is tried.
        for groups in 1..=2 * segment {
            // SAFETY: the buffer has eight segments of that length.
            let expected = unsafe { scatter_twin(buffer.as_ptr(), segment, groups, 5) };
            assert_ne!(expected, 0);
            for (name, scatter) in variants() {
                // SAFETY: as above; `variants` lists only what this CPU has.
                let folded = unsafe { scatter(buffer.as_ptr(), segment, groups, 5) };
                assert_eq!(folded, expected, "{name}, {groups} groups");
            }
        }
    }

    #[test]
    fn two_calls_go_on_where_one_would() {
        let buffer = Buffer::resident(4096).unwrap();
        let mut once = Scattered::default();
        once.touch(&buffer, 8, 5);
        let mut twice = Scattered::default();
        twice.touch(&buffer, 8, 2);
        twice.touch(&buffer, 8, 3);
        assert_eq!(once.state, twice.state);
    }
}
