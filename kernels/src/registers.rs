//! What `int`, `fp` and `vector` have in common: a loop that works on its
//! registers alone.
//!
//! The loop loads its registers from a state in memory, runs for some rounds
//! and stores them back, so that nothing can be left out of it and a test can
//! compare every lane with the twin. Each call starts from the same state: the
//! values it goes through are always the same, and a test looks at all of them
//! (a not-a-number or a denormal would send the CPU down slower paths).

use crate::Failure;
use crate::Kernel;
use crate::weyl::GOLDEN;

/// Runs a loop for so many rounds, at least one, on a state as long as the
/// loop's.
pub type Run<T> = unsafe fn(*mut T, u64);

/// A loop that presses on execution units.
pub struct RegisterLoop<T> {
    start: Vec<T>,
    state: Vec<T>,
    run: Run<T>,
    rounds: u64,
    operations: u64,
}

impl<T: Copy> RegisterLoop<T> {
    /// `run` starting from `start` in every call, for as many rounds of
    /// `operations_per_round` as fit into `operations_per_call`.
    ///
    /// # Safety
    /// `run` can be called with a state of the length of `start` on this CPU.
    pub unsafe fn new(
        start: Vec<T>,
        run: Run<T>,
        operations_per_round: u64,
        operations_per_call: u64,
    ) -> Self {
        let rounds = (operations_per_call / operations_per_round).max(1);
        RegisterLoop {
            state: start.clone(),
            start,
            run,
            rounds,
            operations: rounds * operations_per_round,
        }
    }
}

impl<T: Copy> Kernel for RegisterLoop<T> {
    fn work(&mut self) -> Result<u64, Failure> {
        self.state.copy_from_slice(&self.start);
        // SAFETY: by the promise given to `new`; there is at least one round.
        unsafe { (self.run)(self.state.as_mut_ptr(), self.rounds) };
        std::hint::black_box(&mut self.state);
        Ok(self.operations)
    }
}

/// One variant of the floating-point loops: `registers` chains of `width`
/// numbers each.
pub struct FloatLoop {
    pub name: &'static str,
    pub registers: usize,
    /// Numbers in one register.
    pub width: usize,
    /// Even registers multiply, odd ones add; else all multiply.
    pub adders: bool,
    /// Multiplications are fused multiply-adds.
    pub fused: bool,
    /// Instructions for each register in one round.
    pub rows: usize,
    pub run: Run<f64>,
}

/// What odd lanes add in one row and subtract in the next.
pub const STEP: f64 = 0.618_033_988_749_894_8;

/// x·factor is close to −x, and so is x·fused factor + x: a number changes its
/// sign and most of its digits in every row, and a call is over long before it
/// has become small.
pub const FACTOR: f64 = -0.999_987_654_321;
pub const FUSED_FACTOR: f64 = -1.999_987_654_321;

impl FloatLoop {
    /// Instructions in one round.
    pub fn operations_per_round(&self) -> u64 {
        (self.registers * self.rows) as u64
    }

    /// The state every call starts from: different numbers between 1 and 2.
    pub fn start(&self) -> Vec<f64> {
        (1..=self.registers * self.width)
            .map(|lane| 1.0 + (lane as f64 * STEP).fract())
            .collect()
    }

    /// What one instruction makes of `x` in `register` in `row`.
    fn next(&self, row: usize, register: usize, x: f64) -> f64 {
        match (self.adders && register % 2 == 1, row.is_multiple_of(2)) {
            (true, true) => x + STEP,
            (true, false) => x - STEP,
            (false, _) if self.fused => x.mul_add(FUSED_FACTOR, x),
            (false, _) => x * FACTOR,
        }
    }

    /// One row of the loop in plain Rust; `row` counts from 0.
    pub fn twin_row(&self, state: &mut [f64], row: usize) {
        for (register, lanes) in state.chunks_exact_mut(self.width).enumerate() {
            for x in lanes {
                *x = self.next(row, register, *x);
            }
        }
    }

    /// The source that runs this loop for `operations_per_call`.
    ///
    /// # Safety
    /// `run` can be called with a state of `registers` × `width` numbers on
    /// this CPU.
    pub unsafe fn kernel(&self, operations_per_call: u64) -> Box<dyn Kernel> {
        // SAFETY: `start` has that length; the rest by the caller's promise.
        Box::new(unsafe {
            RegisterLoop::new(
                self.start(),
                self.run,
                self.operations_per_round(),
                operations_per_call,
            )
        })
    }
}

/// The loop in plain Rust, for CPUs that have no other: scalar or, as the
/// compiler pleases, packed.
pub const PLAIN: FloatLoop = FloatLoop {
    name: "rust",
    registers: 14,
    width: 1,
    adders: true,
    fused: false,
    rows: 4,
    run: run_plain,
};

/// # Safety
/// `state` points to 14 numbers.
unsafe fn run_plain(state: *mut f64, rounds: u64) {
    // SAFETY: by the caller's promise.
    let state = unsafe { &mut *state.cast::<[f64; 14]>() };
    let mut lanes = *state;
    for row in 0..rounds as usize * PLAIN.rows {
        PLAIN.twin_row(&mut lanes, row);
    }
    *state = lanes;
}

/// `lanes` different words, none of them zero.
pub fn start_words<const LANES: usize>() -> [u64; LANES] {
    std::array::from_fn(|lane| GOLDEN.rotate_left(5 * lane as u32))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Compares every variant with the twin, bit by bit.
    pub fn assert_twins(variants: &[FloatLoop]) {
        for variant in variants {
            for rounds in 1..=8u64 {
                let mut expected = variant.start();
                for row in 0..rounds as usize * variant.rows {
                    variant.twin_row(&mut expected, row);
                }
                let mut state = variant.start();
                // SAFETY: the state is as long as the variant's, and only what
                // this CPU can run is listed.
                unsafe { (variant.run)(state.as_mut_ptr(), rounds) };
                let bits = |state: &[f64]| state.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(
                    bits(&state),
                    bits(&expected),
                    "{}, {rounds} rounds",
                    variant.name
                );
            }
        }
    }

    /// Follows every number through a whole call.
    pub fn assert_normal(variants: &[FloatLoop], operations_per_call: u64) {
        for variant in variants {
            let rows = operations_per_call as usize / variant.registers;
            let mut state = variant.start();
            for row in 0..rows {
                let before = state.clone();
                variant.twin_row(&mut state, row);
                for (x, before) in state.iter().zip(before) {
                    assert!(
                        x.is_normal() && x.abs() > 0.1 && x.abs() < 10.0 && *x != before,
                        "{}: {before} became {x} in row {row}",
                        variant.name
                    );
                }
            }
        }
    }

    #[test]
    fn every_call_does_the_same_work_and_says_how_much() {
        // SAFETY: every CPU can run the plain loop, on 14 numbers.
        let mut kernel = unsafe { PLAIN.kernel(1000) };
        assert_eq!(kernel.work().unwrap(), 1000 / 56 * 56);
        // SAFETY: the state is as long as the plain loop's.
        let mut kernel = unsafe { RegisterLoop::new(PLAIN.start(), PLAIN.run, 56, 1000) };
        kernel.work().unwrap();
        let once = kernel.state.clone();
        assert_ne!(once, kernel.start);
        kernel.work().unwrap();
        assert_eq!(once, kernel.state);
    }
}
