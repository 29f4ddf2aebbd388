//! Moving bytes as fast as this CPU can: loads, stores, stores past the
//! caches, copies. Hand-written loops, each with a twin in plain Rust.

use crate::Access;

/// Bytes one iteration of an inner loop reads, writes, or both.
pub const BLOCK: usize = 512;

/// Moves blocks of 512 bytes: from the first address, or to the second, or
/// both. What is loaded without being stored comes back folded by exclusive or;
/// stores fill with ones, copies copy.
///
/// # Safety
/// Both addresses are aligned to 64; `blocks > 0` blocks can be read from the
/// first and written to the second, as far as the access does either; for
/// copies they do not overlap.
pub type Move = unsafe fn(from: *const u8, to: *mut u8, blocks: usize) -> u64;

crate::assembly!("stream_load.s");
crate::assembly!("stream_store.s");
crate::assembly!("stream_copy.s");

/// The four routines of one set of instructions, under their names in the
/// assembly.
macro_rules! routines {
    ($load:ident, $store:ident, $store_nt:ident, $copy:ident) => {{
        unsafe extern "C" {
            fn $load(from: *const u8, blocks: usize) -> u64;
            fn $store(to: *mut u8, blocks: usize);
            fn $store_nt(to: *mut u8, blocks: usize);
            fn $copy(from: *const u8, to: *mut u8, blocks: usize);
        }
        // SAFETY, of all four: `Move` passes on the routine's own contract, and
        // a set is offered only to CPUs that have its instructions.
        let set: [Move; 4] = [
            // SAFETY: see above.
            |from, _, blocks| unsafe { $load(from, blocks) },
            // SAFETY: see above.
            |_, to, blocks| unsafe {
                $store(to, blocks);
                0
            },
            // SAFETY: see above.
            |_, to, blocks| unsafe {
                $store_nt(to, blocks);
                0
            },
            // SAFETY: see above.
            |from, to, blocks| unsafe {
                $copy(from, to, blocks);
                0
            },
        ];
        set
    }};
}

/// Every variant of `access` that this CPU can run, widest first, the twin last.
pub fn variants(access: Access) -> Vec<(&'static str, Move)> {
    let mut found: Vec<(&'static str, [Move; 4])> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") {
            let set = routines!(
                jostle_stream_load_avx512,
                jostle_stream_store_avx512,
                jostle_stream_store_nt_avx512,
                jostle_stream_copy_avx512
            );
            found.push(("avx512", set));
        }
        if has!("avx2") {
            let set = routines!(
                jostle_stream_load_avx2,
                jostle_stream_store_avx2,
                jostle_stream_store_nt_avx2,
                jostle_stream_copy_avx2
            );
            found.push(("avx2", set));
        }
        let set = routines!(
            jostle_stream_load_sse2,
            jostle_stream_store_sse2,
            jostle_stream_store_nt_sse2,
            jostle_stream_copy_sse2
        );
        found.push(("sse2", set));
    }
    #[cfg(target_arch = "aarch64")]
    {
        let set = routines!(
            jostle_stream_load_neon,
            jostle_stream_store_neon,
            jostle_stream_store_nt_neon,
            jostle_stream_copy_neon
        );
        found.push(("neon", set));
    }
    found.push(("rust", [load_twin, store_twin, store_twin, copy_twin]));
    let of = |(name, set): (_, [Move; 4])| (name, set[access as usize]);
    found.into_iter().map(of).collect()
}

/// The widest moves that this CPU supports, but of at most 32 bytes if `time_shared`: loads
/// of 64 bytes from the second-level cache cost the next process on the CPU 8 to 21 µs per
/// switch (Xeon, 2-vCPU guest; cause unknown). A program that uses registers only lost 2 to
/// 5 % in turns of 0.4 ms, and nothing with loads of 32 bytes.
pub(crate) fn widest(access: Access, time_shared: bool) -> (&'static str, Move) {
    let variants = variants(access);
    let fits = |(name, _): &&(&str, Move)| !time_shared || *name != "avx512";
    // The plain one is always there.
    *variants.iter().find(fits).unwrap_or(&variants[0])
}

/// [`Move`] that loads, in plain Rust.
///
/// # Safety
/// As [`Move`].
pub unsafe fn load_twin(from: *const u8, _: *mut u8, blocks: usize) -> u64 {
    let words = from.cast::<u64>();
    let mut folded = [0u64; 8];
    for row in 0..blocks * BLOCK / 64 {
        for (lane, value) in folded.iter_mut().enumerate() {
            // SAFETY: in range by the caller's promise.
            *value ^= unsafe { words.add(row * 8 + lane).read_volatile() };
        }
    }
    folded.iter().fold(0, |all, word| all ^ word)
}

/// [`Move`] that stores, in plain Rust, which has no way past the caches.
///
/// # Safety
/// As [`Move`].
pub unsafe fn store_twin(_: *const u8, to: *mut u8, blocks: usize) -> u64 {
    for word in 0..blocks * BLOCK / 8 {
        // SAFETY: in range by the caller's promise.
        unsafe { to.cast::<u64>().add(word).write_volatile(u64::MAX) };
    }
    0
}

/// [`Move`] that copies, in plain Rust.
///
/// # Safety
/// As [`Move`].
pub unsafe fn copy_twin(from: *const u8, to: *mut u8, blocks: usize) -> u64 {
    for word in 0..blocks * BLOCK / 8 {
        // SAFETY: both in range by the caller's promise.
        unsafe {
            let value = from.cast::<u64>().add(word).read_volatile();
            to.cast::<u64>().add(word).write_volatile(value);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;
    use crate::weyl::GOLDEN;

    /// Blocks in each half of a buffer: one is read, the other written.
    const HALF: usize = 8;

    fn filled() -> Buffer {
        let mut buffer = Buffer::resident(2 * HALF * BLOCK).unwrap();
        for word in 0..2 * HALF * BLOCK / 8 {
            buffer.write(word, (word as u64).wrapping_mul(GOLDEN).rotate_left(17));
        }
        buffer
    }

    /// The fold a variant returns for `blocks` blocks and the words it leaves.
    fn moved(variant: Move, blocks: usize) -> (u64, Vec<u64>) {
        let mut buffer = filled();
        let base = buffer.as_mut_ptr();
        // SAFETY: each half has `HALF` blocks; `variants` lists only what this
        // CPU has.
        let folded = unsafe { variant(base, base.add(HALF * BLOCK), blocks) };
        let words = (0..2 * HALF * BLOCK / 8).map(|word| buffer.read(word));
        (folded, words.collect())
    }

    #[test]
    fn every_variant_does_what_its_twin_does() {
        for access in [
            Access::Load,
            Access::Store,
            Access::NonTemporalStore,
            Access::Copy,
        ] {
            for blocks in 1..=HALF {
                let (_, twin) = *variants(access).last().unwrap();
                let expected = moved(twin, blocks);
                let untouched = moved(load_twin, blocks).1;
                match access {
                    Access::Load => assert_ne!(expected.0, 0),
                    _ => assert_ne!(expected.1, untouched),
                }
                for (name, variant) in variants(access) {
                    let done = moved(variant, blocks);
                    assert!(done == expected, "{access:?} {name}, {blocks} blocks");
                }
            }
        }
    }
}
