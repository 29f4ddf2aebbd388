//! `l1i`: running code that covers a share of the L1 instruction cache.

use crate::Environment;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::spec::check_known;
use jostle_profile::resource::Resource;

/// Bytes of code in one block, a cache line.
pub const BLOCK: u64 = 64;
/// Offset in a block at which a no-operation begins on every architecture.
const MIDDLE: u64 = 28;
/// Blocks of the region, 256 KiB of code.
pub const SLOTS: u64 = 4096;

pub const SPEC: KernelSpec = KernelSpec {
    operation: "run of a 64-byte block of code",
    units_per_operation: BLOCK,
    operations_per_call: 4096,
    doc: "Runs code that covers x % of the L1 instruction cache: blocks of one line that jump to \
          the next, spread evenly over the sets. A block has more \
          instructions than the micro-op caches of Intel's cores keep for one line, so it is \
          fetched from L1i and decoded at every pass; other cores may serve footprints of a few \
          KiB from such a cache. On an SMT sibling it takes L1i lines and the decoders from the \
          target at every moment; in slices on the same CPU it can only cost the refill of one \
          L1i per slice, a few µs. The code region is 256 KiB: where L1i is larger, 100 % is \
          those 256 KiB, and the pressure shows it. It takes branch \
          predictor entries too, one or two per block. On an EPYC 9004 with 32 KiB it displaced \
          21 % at 20, 44 at 40, 70 at 60, 92 at 80 and all at full.",
    ..KernelSpec::of(Resource::L1i, build)
};

crate::assembly!("l1i.s");

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe extern "C" {
    fn jostle_l1i(slot: u64, blocks: u64, passes: u64) -> u32;
    fn jostle_l1i_visit(slot: u64, skip: u64) -> u32;
}

/// Runs the first `blocks` blocks of the chain, `passes` times over, both above
/// zero. Returns the sum of the slots it came through.
pub fn run_chain(blocks: u64, passes: u64) -> u32 {
    run_chain_from(0, blocks, passes)
}

/// As [`run_chain`], from block `first` on: what covers a part of the region that
/// others do not run.
pub fn run_chain_from(first: u64, blocks: u64, passes: u64) -> u32 {
    assert!(blocks > 0 && blocks <= SLOTS && first <= SLOTS - blocks && passes > 0);
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: checked above; the routine touches no memory and changes only
    // caller-saved registers.
    return unsafe { jostle_l1i(first, blocks, passes) };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    chain_twin(first, blocks, passes)
}

/// The same sum in plain Rust, which has no such code to run.
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn chain_twin(first: u64, blocks: u64, passes: u64) -> u32 {
    let slots = first..first + blocks;
    (slots.sum::<u64>() * passes) as u32
}

/// Runs the block at place `block` of the chain alone, entered so that no core
/// can fetch it ahead. Returns its slot.
pub fn visit(block: u64) -> u32 {
    visit_from(block, 0)
}

/// As [`visit`], but enters in the middle of the block. A micro-op cache knows
/// code by where it was entered: it holds nothing for this entry after visits
/// from the beginning, and the code is fetched from L1i and decoded.
pub fn visit_middle(block: u64) {
    std::hint::black_box(visit_from(block, MIDDLE));
}

fn visit_from(block: u64, skip: u64) -> u32 {
    assert!(block < SLOTS);
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: the block lies in the region, and an instruction begins at `skip`,
    // which is 0 or `MIDDLE`; the routine touches no memory but its own return
    // address and changes only caller-saved registers.
    return unsafe { jostle_l1i_visit(block, skip) };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return if skip == 0 { block as u32 } else { 0 };
}

struct L1i {
    blocks_full: u64,
    blocks: u64,
}

fn build(env: &Environment) -> Result<Box<dyn Kernel>, Failure> {
    if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) {
        return Err(Failure::new(
            "there is code to cover the L1 instruction cache with for x86-64 and aarch64 only",
        ));
    }
    check_known(env.l1i_bytes, "L1 instruction cache")?;
    let blocks_full = (env.part(env.l1i_bytes) / BLOCK).clamp(1, SLOTS);
    Ok(Box::new(L1i {
        blocks_full,
        blocks: blocks_full,
    }))
}

impl Kernel for L1i {
    fn set_intensity(&mut self, percent: f64) {
        let blocks = (self.blocks_full as f64 * percent / 100.0).round() as u64;
        self.blocks = blocks.clamp(1, self.blocks_full);
    }

    fn work(&mut self) -> Result<u64, Failure> {
        let passes = SPEC.operations_per_call.div_ceil(self.blocks);
        std::hint::black_box(run_chain(self.blocks, passes));
        Ok(self.blocks * passes)
    }

    fn held(&self) -> u64 {
        self.blocks * BLOCK
    }

    fn holds_at_most(&self) -> u64 {
        self.blocks_full * BLOCK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(l1i_bytes: u64) -> Environment {
        Environment {
            l1i_bytes,
            ..Environment::default()
        }
    }

    #[test]
    fn the_chain_comes_through_the_slots_of_its_twin() {
        // The sum shows the last slot added when one block more is run.
        for blocks in 1..=SLOTS {
            assert_eq!(run_chain(blocks, 1), chain_twin(0, blocks, 1), "{blocks}");
        }
        assert_eq!(run_chain(1000, 7), chain_twin(0, 1000, 7));
        let last = SLOTS - 384;
        assert_eq!(run_chain_from(last, 384, 3), chain_twin(last, 384, 3));
    }

    #[test]
    fn the_chain_comes_through_every_slot_once() {
        let mut seen = vec![false; SLOTS as usize];
        for block in 0..SLOTS {
            let slot = visit(block) as usize;
            assert!(!seen[slot], "{slot} twice");
            seen[slot] = true;
        }
    }

    #[test]
    fn footprint_follows_intensity_up_to_the_region() {
        let mut kernel = build(&environment(64 << 10)).unwrap();
        for (percent, bytes) in [(100.0, 64 << 10), (25.0, 16 << 10), (0.0, BLOCK)] {
            kernel.set_intensity(percent);
            assert_eq!(kernel.held(), bytes);
            assert!(kernel.work().unwrap() >= SPEC.operations_per_call);
        }
        let kernel = build(&environment(1 << 20)).unwrap();
        assert_eq!(kernel.holds_at_most(), SLOTS * BLOCK);
        let reason = build(&environment(0)).err().unwrap().0;
        assert!(reason.contains("not known"), "{reason}");
    }
}
