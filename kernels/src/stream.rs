//! `l2-bandwidth`, `llc-bandwidth`, `memory-bandwidth`: streaming through a
//! buffer.

use crate::Access;
use crate::Buffer;
use crate::Environment;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::moves;
use crate::moves::BLOCK;
use crate::moves::Move;
use crate::spec::check_known;
use crate::sweep::Sweep;
use jostle_profile::resource::Resource;

pub const L2_BANDWIDTH: KernelSpec = KernelSpec {
    operation: "move of a 512-byte block",
    units_per_operation: BLOCK as u64,
    operations_per_call: 12288,
    differs_time_shared: true,
    doc: "Streams with the widest loads the CPU has (or stores, with --access store) through \
          twice the L1 data cache, over and over: always too much for L1d, a few percent of \
          L2. The rate is held at x % of the peak measured at the start. On an SMT sibling it \
          takes L2 bandwidth at every moment; in slices on the same CPU nobody shares \
          bandwidth, and all it can cost is the refill of L1d and of its small part of L2. In \
          slices its loads have at most 32 bytes: loads of 64 bytes give 9 % more bandwidth, \
          but gzip lost 2 to 6 % to them in turns of 0.4 ms on a Xeon, 0.2 to 0.9 % to loads of \
          32 bytes and nothing to loads of 16 bytes, although all evict the same lines. \
          Stores past the caches and copies made with them never move anything within L2 and \
          are refused.",
    accesses: &[Access::Load, Access::Store],
    ..KernelSpec::of(Resource::L2Bandwidth, |env| {
        check_known(env.l1d_bytes, "L1 data cache")?;
        within_caches(env.access, "L2")?;
        Stream::build(2 * env.l1d_bytes, L2_BANDWIDTH.operations_per_call, env)
    })
};

pub const LLC_BANDWIDTH: KernelSpec = KernelSpec {
    operation: "move of a 512-byte block",
    units_per_operation: BLOCK as u64,
    operations_per_call: 1024,
    doc: "Streams with the widest loads the CPU has (or stores, with --access store) through a \
          buffer of four times the L2 cache per worker, at most half of the worker's part of \
          the last-level cache, over and over: too much for L2, so that nearly every line \
          comes from the LLC, of which it keeps a small part. The rate is held at x % of the \
          peak that all workers together reached at the start. It passes through the worker's \
          own L2, which it empties all the time, and takes the mesh or ring between core and \
          LLC with it. Where other guests of the machine push its buffer out of the LLC, a \
          part comes from memory; how much cannot be seen from here. Stores past the caches \
          and copies made with them go to memory and are refused.",
    accesses: &[Access::Load, Access::Store],
    ..KernelSpec::of(Resource::LlcBandwidth, |env| {
        if env.l2_bytes == 0 || env.llc_bytes == 0 {
            return Err(Failure::new(
                "the sizes of the L2 and the last-level cache are not both known on this machine",
            ));
        }
        within_caches(env.access, "the last-level cache")?;
        let part = env.part(env.llc_bytes) / 2;
        let bytes = (4 * env.l2_bytes).min(part);
        if bytes < 2 * env.l2_bytes {
            return Err(Failure::new(format!(
                "half of a worker's part of the last-level cache is {part} bytes, less than \
                 twice its L2: what it reads could not be told from L2"
            )));
        }
        if bytes * env.workers.max(1) > env.memory_headroom_bytes / 2 {
            return Err(Failure::new(format!(
                "needs {bytes} bytes of memory per worker, together more than half of the {} \
                 bytes that may be taken",
                env.memory_headroom_bytes
            )));
        }
        Stream::build(bytes, LLC_BANDWIDTH.operations_per_call, env)
    })
};

pub const MEMORY_BANDWIDTH: KernelSpec = KernelSpec {
    operation: "move of a 512-byte block",
    units_per_operation: BLOCK as u64,
    operations_per_call: 768,
    doc: "Streams with the widest loads the CPU has through a buffer of twice the last-level \
          cache, at least 256 MiB, at most an eighth of the memory that may be taken, so that \
          nearly every line comes from memory. The rate is held at x % of the peak that all \
          workers together reached at the start. What it reads passes through the LLC and \
          takes room there: a target that needs the LLC may be hurt too. With --access store \
          the bytes stored are counted; each line is also read first, so that about twice as \
          much passes. With --access non-temporal-store it is written past the caches and \
          passes once. With --access copy one half of the buffer is copied to the other past \
          the caches, and the bytes read and the bytes written both count.",
    accesses: &[
        Access::Load,
        Access::Store,
        Access::NonTemporalStore,
        Access::Copy,
    ],
    ..KernelSpec::of(Resource::MemoryBandwidth, |env| {
        let wanted = env.part((2 * env.llc_bytes).max(256 << 20));
        let may = env.part(env.memory_headroom_bytes / 8);
        let least = (32u64 << 20).min(wanted);
        if may < least {
            return Err(Failure::new(format!(
                "needs a buffer of {least} bytes, more than an eighth of the {} bytes of \
                 memory that may be taken",
                env.memory_headroom_bytes
            )));
        }
        Stream::build(wanted.min(may), MEMORY_BANDWIDTH.operations_per_call, env)
    })
};

/// Refuses what goes past the caches.
fn within_caches(access: Access, cache: &str) -> Result<(), Failure> {
    let how = match access {
        Access::Load | Access::Store => return Ok(()),
        Access::NonTemporalStore => "non-temporal-store",
        Access::Copy => "copy",
    };
    Err(Failure::new(format!(
        "--access {how} goes past {cache} and would press on memory alone; use --access load \
         or --access store"
    )))
}

struct Stream {
    buffer: Buffer,
    /// Blocks that are gone through: all of the buffer, or of one half when
    /// the other is copied to.
    blocks: usize,
    /// Operations of one block: a copied one is read and written.
    operations_per_block: usize,
    /// Operations of one call.
    call: usize,
    sweep: Sweep,
}

impl Stream {
    fn build(bytes: u64, call: u64, env: &Environment) -> Result<Box<dyn Kernel>, Failure> {
        let (_, fastest) = moves::widest(env.access, env.time_shared);
        Ok(Box::new(Stream::new(bytes, call, env.access, fastest)?))
    }

    fn new(bytes: u64, call: u64, access: Access, kernel: Move) -> Result<Self, Failure> {
        let bytes = (bytes as usize).next_multiple_of(2 * BLOCK);
        let parts = match access {
            Access::Copy => 2,
            _ => 1,
        };
        let blocks = bytes / BLOCK / parts;
        Ok(Stream {
            buffer: Buffer::resident(bytes)?,
            blocks,
            operations_per_block: parts,
            call: call as usize,
            sweep: Sweep::new(kernel, blocks * (parts - 1)),
        })
    }
}

impl Kernel for Stream {
    fn work(&mut self) -> Result<u64, Failure> {
        let blocks = self.call / self.operations_per_block;
        self.sweep.over(&mut self.buffer, self.blocks, blocks);
        Ok(self.call as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(access: Access) -> Environment {
        Environment {
            l1d_bytes: 32 << 10,
            l2_bytes: 1 << 20,
            llc_bytes: 16 << 20,
            memory_headroom_bytes: 4 << 30,
            access,
            ..Environment::default()
        }
    }

    #[test]
    fn time_shared_no_move_has_64_bytes() {
        let names = |access| moves::variants(access).into_iter().map(|(name, _)| name);
        for access in [Access::Load, Access::Store] {
            let of = |time_shared| Some(moves::widest(access, time_shared).0);
            assert_eq!(of(false), names(access).next());
            let mut narrow = names(access).filter(|name| *name != "avx512");
            assert_eq!(of(true), narrow.next());
        }
    }

    #[test]
    fn a_copy_counts_both_sides_and_fills_the_second_half() {
        let twin = moves::copy_twin;
        let mut stream = Stream::new(8 * BLOCK as u64, 8, Access::Copy, twin).unwrap();
        for word in 0..4 * BLOCK / 8 {
            stream.buffer.write(word, word as u64 + 1);
        }
        assert_eq!(stream.work().unwrap(), 8, "four blocks read, four written");
        for word in 0..4 * BLOCK / 8 {
            assert_eq!(stream.buffer.read(4 * BLOCK / 8 + word), word as u64 + 1);
        }
    }

    #[test]
    fn what_goes_past_the_caches_is_refused_in_them() {
        for access in [Access::NonTemporalStore, Access::Copy] {
            for spec in [&L2_BANDWIDTH, &LLC_BANDWIDTH] {
                let reason = (spec.build)(&environment(access)).err().unwrap().0;
                assert!(reason.contains("--access"), "{reason}");
            }
            let mut kernel = (MEMORY_BANDWIDTH.build)(&environment(access)).unwrap();
            let expected = MEMORY_BANDWIDTH.operations_per_call;
            assert_eq!(kernel.work().unwrap(), expected);
        }
    }

    #[test]
    fn an_llc_that_l2_could_hide_is_a_reason() {
        let mut env = environment(Access::Store);
        let mut kernel = (LLC_BANDWIDTH.build)(&env).unwrap();
        assert_eq!(kernel.work().unwrap(), LLC_BANDWIDTH.operations_per_call);
        env.workers = 8;
        let reason = (LLC_BANDWIDTH.build)(&env).err().unwrap().0;
        assert!(reason.contains("twice its L2"), "{reason}");
        env.llc_bytes = 0;
        let reason = (LLC_BANDWIDTH.build)(&env).err().unwrap().0;
        assert!(reason.contains("not both known"), "{reason}");
    }
}
