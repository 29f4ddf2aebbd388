//! `fp`: scalar floating-point operations.

use crate::KernelSpec;
#[cfg(target_arch = "x86_64")]
use crate::registers::FACTOR;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::registers::FUSED_FACTOR;
use crate::registers::FloatLoop;
use crate::registers::PLAIN;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::registers::STEP;
use jostle_profile::resource::Resource;

crate::assembly!("fp.s");

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    fn jostle_fp_fma(lanes: *mut f64, rounds: u64, factor: f64, step: f64);
    fn jostle_fp_sse2(lanes: *mut f64, rounds: u64, factor: f64, step: f64);
}

#[cfg(target_arch = "aarch64")]
unsafe extern "C" {
    fn jostle_fp_neon(lanes: *mut f64, rounds: u64, factor: f64, step: f64);
}

pub const SPEC: KernelSpec = KernelSpec {
    operation: "scalar floating-point instruction",
    operations_per_call: 131_072,
    doc: "Runs scalar double-precision multiplications and additions in equal parts, in \
          independent chains from registers only: some cores add on other ports than they \
          multiply on, and both are kept busy. Where the CPU has fused multiply-adds they \
          stand in for the multiplications; each counts as one operation, although it is \
          two floating-point operations. All numbers stay between 0.1 and 10, so that no \
          slow path is taken. On a core with two multipliers and two adders on three ports \
          it reaches 2.9 operations per clock. The rate is held at x % of the peak measured \
          at the start. On an SMT sibling it takes floating-point ports from the target at \
          every moment; in slices on the same CPU the ports are free the moment it stops, so \
          nothing of them can be seen there. It shows nothing about division, square roots \
          or denormal numbers.",
    ..KernelSpec::of(Resource::Fp, |_| {
        let fastest = variants().remove(0);
        // SAFETY: `variants` lists only what this CPU can run, each with the
        // length its routine takes.
        Ok(unsafe { fastest.kernel(SPEC.operations_per_call) })
    })
};

/// Every variant this CPU can run, fastest first, plain Rust last.
pub fn variants() -> Vec<FloatLoop> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        let scalar = |name, fused, run| FloatLoop {
            name,
            registers: 14,
            width: 1,
            adders: true,
            fused,
            rows: 4,
            run,
        };
        if std::arch::is_x86_feature_detected!("fma") {
            // SAFETY: `Run` passes on the routine's own contract, and the CPU
            // has the instructions.
            found.push(scalar("fma", true, |lanes, rounds| unsafe {
                jostle_fp_fma(lanes, rounds, FUSED_FACTOR, STEP)
            }));
        }
        // SAFETY: as above; every x86-64 CPU has SSE2.
        found.push(scalar("sse2", false, |lanes, rounds| unsafe {
            jostle_fp_sse2(lanes, rounds, FACTOR, STEP)
        }));
    }
    #[cfg(target_arch = "aarch64")]
    found.push(FloatLoop {
        name: "neon",
        registers: 22,
        width: 1,
        adders: true,
        fused: true,
        rows: 2,
        // SAFETY: `Run` passes on the routine's own contract; every aarch64
        // CPU that runs Linux has the instructions.
        run: |lanes, rounds| unsafe { jostle_fp_neon(lanes, rounds, FUSED_FACTOR, STEP) },
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
