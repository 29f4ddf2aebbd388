//! `vector`: the widest SIMD operations.

use crate::KernelSpec;
#[cfg(target_arch = "x86_64")]
use crate::registers::FACTOR;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::registers::FUSED_FACTOR;
use crate::registers::FloatLoop;
use crate::registers::PLAIN;
#[cfg(target_arch = "x86_64")]
use crate::registers::STEP;
use jostle_profile::resource::Resource;

crate::assembly!("vector.s");

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    fn jostle_vector_avx512(lanes: *mut f64, rounds: u64, factor: f64);
    fn jostle_vector_avx2(lanes: *mut f64, rounds: u64, factor: f64, step: f64);
    fn jostle_vector_sse2(lanes: *mut f64, rounds: u64, factor: f64, step: f64);
}

#[cfg(target_arch = "aarch64")]
unsafe extern "C" {
    fn jostle_vector_neon(lanes: *mut f64, rounds: u64, factor: f64);
}

pub const SPEC: KernelSpec = KernelSpec {
    operation: "packed floating-point instruction",
    operations_per_call: 98_304,
    doc: "Runs the widest SIMD arithmetic the CPU has, double precision, in independent \
          chains from registers only. With AVX-512 these are fused multiply-adds alone, \
          two floating-point operations on each of eight numbers; with AVX2 and FMA half \
          fused multiply-adds, half additions on four numbers; with SSE2 half \
          multiplications, half additions on two. One instruction counts as one operation, \
          whatever its width. On a core with two 512-bit multipliers it reaches 1.95 per \
          clock. The rate is held at x % of the peak measured at the start. On an SMT \
          sibling it takes the SIMD ports from the target at every moment. Wide SIMD can \
          also cost frequency: some CPUs lower the clock of the core while it runs and for \
          a while after, which slows a target that shares the core, even in turns and \
          without SIMD of its own, and a whole package may slow down at its power limit. \
          On the AVX-512 Xeon this was written on, the clock right after it was the same \
          or one step (2.6 %) lower, and back within 20 µs. It does not show integer SIMD, \
          shuffles or the tile unit.",
    ..KernelSpec::of(Resource::Vector, |_| {
        let widest = variants().remove(0);
        // SAFETY: `variants` lists only what this CPU can run, each with the
        // length its routine takes.
        Ok(unsafe { widest.kernel(SPEC.operations_per_call) })
    })
};

/// Every variant this CPU can run, widest first, plain Rust last.
pub fn variants() -> Vec<FloatLoop> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") {
            found.push(FloatLoop {
                name: "avx512",
                registers: 30,
                width: 8,
                adders: false,
                fused: true,
                rows: 2,
                // SAFETY: `Run` passes on the routine's own contract, and the
                // CPU has the instructions.
                run: |lanes, rounds| unsafe { jostle_vector_avx512(lanes, rounds, FUSED_FACTOR) },
            });
        }
        let mixed = |name, width, fused, run| FloatLoop {
            name,
            registers: 14,
            width,
            adders: true,
            fused,
            rows: 4,
            run,
        };
        if has!("avx2") && has!("fma") {
            // SAFETY: as above.
            found.push(mixed("avx2", 4, true, |lanes, rounds| unsafe {
                jostle_vector_avx2(lanes, rounds, FUSED_FACTOR, STEP)
            }));
        }
        // SAFETY: as above; every x86-64 CPU has SSE2.
        found.push(mixed("sse2", 2, false, |lanes, rounds| unsafe {
            jostle_vector_sse2(lanes, rounds, FACTOR, STEP)
        }));
    }
    #[cfg(target_arch = "aarch64")]
    found.push(FloatLoop {
        name: "neon",
        registers: 22,
        width: 2,
        adders: false,
        fused: true,
        rows: 2,
        // SAFETY: `Run` passes on the routine's own contract; every aarch64
        // CPU that runs Linux has the instructions.
        run: |lanes, rounds| unsafe { jostle_vector_neon(lanes, rounds, FUSED_FACTOR) },
    });
    found.push(PLAIN);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::tests::assert_normal;
    use crate::registers::tests::assert_twins;

    #[test]
    fn every_variant_ends_where_its_twin_ends() {
        assert_twins(&variants());
    }

    #[test]
    fn numbers_stay_normal_through_a_whole_call() {
        assert_normal(&variants(), SPEC.operations_per_call);
    }
}
