//! `quiet` and `cpu-time`: registers only. They differ in the clock alone.

use super::Batch;
use super::Clock;
use super::Demo;
use super::random;
use jostle_profile::resource::Resource;
use std::hint::black_box;

/// Needs nothing that is shared: no resource should be flagged.
pub const QUIET: Demo = Demo {
    name: "quiet",
    about: "arithmetic in registers by its own CPU time; needs nothing shared",
    unit: "operations",
    build: |_| Ok(compute(12_000)),
    ..Demo::USUAL
};

/// Needs CPU time and nothing else.
pub const CPU_TIME: Demo = Demo {
    name: "cpu-time",
    needs: Some(Resource::CpuTime),
    about: "arithmetic in registers by wall time; needs CPU time alone",
    unit: "operations",
    clock: Clock::Wall,
    build: |_| Ok(compute(1_000)),
    ..Demo::USUAL
};

fn compute(steps: u64) -> Batch {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    Box::new(move || {
        let mut sum = 0u64;
        let mut local = state;
        for _ in 0..steps {
            sum ^= random(&mut local);
        }
        state = local;
        black_box(sum);
        steps
    })
}
