//! `branch`: jumps that no predictor can know.

use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::weyl::GOLDEN;
use jostle_profile::resource::Resource;

/// Blocks run in one call, and unpredictable branches in each.
const BLOCKS: u64 = 1024;
const PER_BLOCK: u64 = 3;

pub const SPEC: KernelSpec = KernelSpec {
    operation: "unpredictable branch",
    operations_per_call: BLOCKS * PER_BLOCK,
    doc: "Runs through 256 blocks of code in random order. Each has two conditional jumps that \
          are taken half of the time and an indirect jump to one of all blocks, decided by a \
          random generator that runs in registers. No predictor can learn them, so every jump \
          leaves a new entry in the history and in the tables of the predictors of directions \
          and of indirect targets, and the 1024 jumps take entries of the branch target buffer. \
          Wrong guesses set its speed. The rate is held at x % of the peak measured at the \
          start; all three jumps of a block count. On an SMT sibling it takes entries and the \
          front end from the target at every moment. In slices on the same CPU the target's \
          predictors must learn again after every slice. The code takes 16 KiB of the L1 \
          instruction cache, which the target gets back in about a microsecond. It says nothing \
          about return addresses.",
    ..KernelSpec::of(Resource::Branch, |_| {
        match cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            true => Ok(Box::new(Branch { state: GOLDEN })),
            false => Err(Failure::new(
                "there is code with unpredictable branches for x86-64 and aarch64 only",
            )),
        }
    })
};

crate::assembly!("branch.s");

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe extern "C" {
    fn jostle_branch(state: u64, blocks: u64) -> u64;
}

/// Runs `blocks` blocks, above zero, starting with `state`; the state after
/// them.
fn run(state: u64, blocks: u64) -> u64 {
    assert!(blocks > 0);
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: checked above; the routine touches no memory but its return
    // address and changes only caller-saved registers.
    return unsafe { jostle_branch(state, blocks) };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    twin(state, blocks)
}

/// The same state in plain Rust, which a compiler may well do without branches.
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn twin(mut state: u64, blocks: u64) -> u64 {
    const FACTOR: u64 = 0x5851_f42d_4c95_7f2d;
    let mut slot = 0;
    for _ in 0..blocks {
        state = state.wrapping_mul(FACTOR).wrapping_add(2 * slot + 1);
        let bits = state >> 48;
        if bits & 1 != 0 {
            state = state.wrapping_add(FACTOR);
        }
        if bits & 2 != 0 {
            state ^= FACTOR;
        }
        slot = bits >> 8;
    }
    state
}

struct Branch {
    state: u64,
}

impl Kernel for Branch {
    fn work(&mut self) -> Result<u64, Failure> {
        self.state = run(self.state, BLOCKS);
        Ok(SPEC.operations_per_call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_takes_the_branches_of_its_twin() {
        let mut state = GOLDEN;
        for blocks in 1..=2000 {
            assert_eq!(run(state, blocks), twin(state, blocks), "{blocks}");
            state = run(state, blocks);
        }
    }

    #[test]
    fn every_branch_goes_every_way_and_none_repeats() {
        let mut state = GOLDEN;
        let mut slots = [0u32; 256];
        let mut taken = [0u32; 2];
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100_000 {
            // One block at a time always begins in the first.
            state = twin(state, 1);
            let bits = state >> 48;
            slots[(bits >> 8) as usize] += 1;
            taken[0] += (bits & 1) as u32;
            taken[1] += (bits >> 1 & 1) as u32;
            assert!(seen.insert(state), "the generator came round");
        }
        assert!(
            slots.iter().all(|count| (200..600).contains(count)),
            "{slots:?}"
        );
        assert!(
            taken.iter().all(|count| (45_000..55_000).contains(count)),
            "{taken:?}"
        );
    }
}
