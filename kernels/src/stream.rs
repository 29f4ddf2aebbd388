//! `l2-bandwidth`, `memory-bandwidth`: streaming loads.

use crate::Buffer;
use crate::Failure;
use crate::Intensity;
use crate::Kernel;
use crate::KernelSpec;
use crate::Waiting;

/// Bytes one iteration of the inner loop reads.
pub const BLOCK: usize = 512;

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(include_str!("../../asm/x86_64/stream_load.s"));
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(include_str!("../../asm/aarch64/stream_load.s"));

#[cfg(target_arch = "x86_64")]
unsafe extern "sysv64" {
    fn jostle_stream_load_avx512(base: *const u8, blocks: usize) -> u64;
    fn jostle_stream_load_avx2(base: *const u8, blocks: usize) -> u64;
    fn jostle_stream_load_sse2(base: *const u8, blocks: usize) -> u64;
}

#[cfg(target_arch = "aarch64")]
unsafe extern "C" {
    fn jostle_stream_load_neon(base: *const u8, blocks: usize) -> u64;
}

pub const L2_BANDWIDTH: KernelSpec = KernelSpec {
    resource: "l2-bandwidth",
    intensity: Intensity::Rate,
    waiting: Waiting::Spin,
    operation: "load of a 512-byte block",
    units_per_operation: BLOCK as u64,
    operations_per_call: 2048,
    pause_ns: 0,
    spans_cpus: false,
    doc: "Streams with the widest loads the CPU has through twice the L1 data cache, over \
          and over: always too much for L1d, a few percent of L2. The rate is held at x % \
          of the peak measured at the start. On an SMT sibling it takes L2 bandwidth at \
          every moment; in slices on the same CPU nobody shares bandwidth, and all it can \
          cost is the refill of L1d and of its small part of L2.",
    build: |env| {
        if env.l1d_bytes == 0 {
            return Err(Failure::new(
                "the size of the L1 data cache is not known on this machine",
            ));
        }
        Stream::build(2 * env.l1d_bytes, L2_BANDWIDTH.operations_per_call)
    },
};

pub const MEMORY_BANDWIDTH: KernelSpec = KernelSpec {
    resource: "memory-bandwidth",
    intensity: Intensity::Rate,
    waiting: Waiting::Spin,
    operation: "load of a 512-byte block",
    units_per_operation: BLOCK as u64,
    operations_per_call: 128,
    pause_ns: 0,
    spans_cpus: false,
    doc: "Streams with the widest loads the CPU has through a buffer of twice the last-level \
          cache, at least 256 MiB, at most an eighth of the memory that may be taken, so that \
          nearly every line comes from memory. The rate is held at x % of the peak that all \
          workers together reached at the start. What it reads passes through the LLC and \
          takes room there: a target that needs the LLC may be hurt too.",
    build: |env| {
        let wanted = (2 * env.llc_bytes).max(256 << 20) / env.workers.max(1);
        let may = env.memory_headroom_bytes / 8 / env.workers.max(1);
        let least = (32u64 << 20).min(wanted);
        if may < least {
            return Err(Failure::new(format!(
                "needs a buffer of {least} bytes, more than an eighth of the {} bytes of \
                 memory that may be taken",
                env.memory_headroom_bytes
            )));
        }
        Stream::build(wanted.min(may), MEMORY_BANDWIDTH.operations_per_call)
    },
};

/// Loads `blocks` blocks of 512 bytes from `base` on and folds them by
/// exclusive or: the widest loads of this CPU.
type LoadBlocks = unsafe fn(*const u8, usize) -> u64;

struct Stream {
    buffer: Buffer,
    /// Blocks in the buffer.
    blocks: usize,
    /// Blocks one call reads.
    call: usize,
    at: usize,
    kernel: LoadBlocks,
}

impl Stream {
    fn build(bytes: u64, call: u64) -> Result<Box<dyn Kernel>, Failure> {
        let bytes = (bytes as usize).next_multiple_of(BLOCK);
        Ok(Box::new(Stream {
            buffer: Buffer::resident(bytes)?,
            blocks: bytes / BLOCK,
            call: call as usize,
            at: 0,
            kernel: variants().first().expect("the twin is always there").1,
        }))
    }
}

impl Kernel for Stream {
    fn work(&mut self) -> Result<u64, Failure> {
        let mut left = self.call;
        while left > 0 {
            left -= self.load(left);
        }
        Ok(self.call as u64)
    }
}

impl Stream {
    /// Reads up to `most` blocks, not past the end of the buffer; how many.
    fn load(&mut self, most: usize) -> usize {
        let blocks = most.min(self.blocks - self.at);
        // SAFETY: `at + blocks <= self.blocks`, all inside the buffer, which is
        // aligned; `blocks > 0` because `at < self.blocks`. The variant was
        // picked for this CPU.
        let folded = unsafe { (self.kernel)(self.buffer.as_ptr().add(self.at * BLOCK), blocks) };
        std::hint::black_box(folded);
        self.at = (self.at + blocks) % self.blocks;
        blocks
    }
}

/// The same in plain Rust.
///
/// # Safety
/// `base` is aligned to 8 and `blocks * 512` bytes from it on can be read.
pub unsafe fn load_twin(base: *const u8, blocks: usize) -> u64 {
    let words = base.cast::<u64>();
    let mut folded = [0u64; 8];
    for row in 0..blocks * BLOCK / 64 {
        for (lane, value) in folded.iter_mut().enumerate() {
            // SAFETY: in range by the caller's promise.
            *value ^= unsafe { words.add(row * 8 + lane).read_volatile() };
        }
    }
    folded.iter().fold(0, |all, word| all ^ word)
}

/// Every variant this CPU can run, widest first, the twin last.
pub fn variants() -> Vec<(&'static str, LoadBlocks)> {
    let mut found: Vec<(&'static str, LoadBlocks)> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: `LoadBlocks` passes on the routine's own contract, and
            // the CPU has the instructions.
            found.push(("avx512", |base, blocks| unsafe {
                jostle_stream_load_avx512(base, blocks)
            }));
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            found.push(("avx2", |base, blocks| unsafe {
                jostle_stream_load_avx2(base, blocks)
            }));
        }
        // SAFETY: every x86-64 CPU has SSE2.
        found.push(("sse2", |base, blocks| unsafe {
            jostle_stream_load_sse2(base, blocks)
        }));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every aarch64 CPU that runs Linux has NEON.
    found.push(("neon", |base, blocks| unsafe {
        jostle_stream_load_neon(base, blocks)
    }));
    found.push(("rust", load_twin));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weyl::GOLDEN;

    #[test]
    fn every_variant_folds_what_the_twin_folds() {
        let mut buffer = Buffer::resident(8 * BLOCK).unwrap();
        for word in 0..8 * BLOCK / 8 {
            buffer.write(word, (word as u64).wrapping_mul(GOLDEN).rotate_left(17));
        }
        for blocks in 1..=8 {
            // SAFETY: the buffer has eight blocks.
            let expected = unsafe { load_twin(buffer.as_ptr(), blocks) };
            assert_ne!(expected, 0);
            for (name, load) in variants() {
                // SAFETY: as above; `variants` lists only what this CPU has.
                let folded = unsafe { load(buffer.as_ptr(), blocks) };
                assert_eq!(folded, expected, "{name}, {blocks} blocks");
            }
        }
    }

    #[test]
    fn the_stream_wraps_inside_its_buffer() {
        let bytes = 12_288;
        let mut stream = Stream {
            buffer: Buffer::resident(bytes).unwrap(),
            blocks: bytes / BLOCK,
            call: 100,
            at: 0,
            kernel: load_twin,
        };
        assert_eq!(stream.load(10), 10);
        assert_eq!(stream.load(100), 14, "stops at the end");
        assert_eq!(stream.at, 0);
        assert_eq!(stream.work().unwrap(), 100);
        assert_eq!(stream.at, 100 % 24);
    }
}
