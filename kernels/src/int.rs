//! `int`: integer operations.

use crate::KernelSpec;
use crate::registers::RegisterLoop;
use crate::registers::Run;
use crate::registers::start_words;
use crate::weyl::GOLDEN;
use jostle_profile::resource::Resource;

const LANES: usize = 12;
/// Operations of one round: every lane meets each of twelve once.
const PER_ROUND: u64 = (LANES * LANES) as u64;

crate::assembly!("int.s");

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe extern "C" {
    fn jostle_int(lanes: *mut u64, rounds: u64, k: u64);
}

pub const SPEC: KernelSpec = KernelSpec {
    operation: "64-bit integer operation",
    operations_per_call: 196_608,
    doc: "Runs additions, exclusive ors, address additions, rotations and multiplications in \
          twelve independent chains, from registers only, as fast as the core can: every \
          integer port has work, and the one that multiplies too. Every operand is a \
          register: additions of constants, moves and zeroing never reach a port on recent \
          cores. On a core with five integer ports it reaches 4.6 operations per clock; \
          additions alone reach 4.9, and the difference is the multiplications. The rate is \
          held at x % of the peak measured at the start. On an SMT sibling it takes ports \
          from the target at every moment. In slices on the same CPU ports are free again \
          the moment it stops, so nothing of them can be seen there. It does not load, \
          store, divide or mispredict.",
    ..KernelSpec::of(Resource::Int, |_| {
        let run = variants().first().expect("the twin is always there").1;
        // SAFETY: all variants take a state of twelve words.
        Ok(Box::new(unsafe {
            RegisterLoop::new(
                start_words::<LANES>().to_vec(),
                run,
                PER_ROUND,
                SPEC.operations_per_call,
            )
        }))
    })
};

/// Every variant this CPU can run on twelve words, the twin last.
pub fn variants() -> Vec<(&'static str, Run<u64>)> {
    let mut found: Vec<(&'static str, Run<u64>)> = Vec::new();
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: `Run` passes on the routine's own contract; every CPU of the
    // architecture has the instructions.
    found.push(("assembly", |lanes, rounds| unsafe {
        jostle_int(lanes, rounds, GOLDEN)
    }));
    found.push(("rust", twin));
    found
}

/// The same in plain Rust.
///
/// # Safety
/// `lanes` points to twelve words.
unsafe fn twin(lanes: *mut u64, rounds: u64) {
    // SAFETY: by the caller's promise.
    let lanes = unsafe { &mut *lanes.cast::<[u64; LANES]>() };
    // Unknown to the compiler, or it would fold operations into one another.
    let k = std::hint::black_box(GOLDEN);
    for row in 0..rounds as usize * LANES {
        for place in 0..LANES {
            let x = &mut lanes[(row + place) % LANES];
            *x = match place {
                0 => x.wrapping_mul(k),
                1 => x.rotate_left(13),
                2 | 4 | 6 | 8 | 10 => x.wrapping_add(k),
                _ => *x ^ k,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_ends_where_the_twin_ends() {
        for rounds in 1..=8 {
            let mut expected = start_words::<LANES>();
            // SAFETY: twelve words.
            unsafe { twin(expected.as_mut_ptr(), rounds) };
            for (name, run) in variants() {
                let mut lanes = start_words::<LANES>();
                // SAFETY: as above; `variants` lists only what this CPU has.
                unsafe { run(lanes.as_mut_ptr(), rounds) };
                assert_eq!(lanes, expected, "{name}, {rounds} rounds");
            }
        }
    }

    #[test]
    fn lanes_stay_different_and_busy() {
        let mut lanes = start_words::<LANES>();
        for _ in 0..SPEC.operations_per_call / PER_ROUND {
            let before = lanes;
            // SAFETY: twelve words.
            unsafe { twin(lanes.as_mut_ptr(), 1) };
            for (lane, word) in lanes.iter().enumerate() {
                assert_ne!(*word, before[lane], "lane {lane} stands still");
                assert!(!lanes[..lane].contains(word), "lane {lane} is a copy");
            }
        }
    }
}
