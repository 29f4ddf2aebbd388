//! `quiet` and `cpu-time`: registers only. They differ in the clock alone.

use super::Batch;
use super::Clock;
use super::Demo;
use super::DemoContext;
use super::random;
use crate::error::Result;
use std::hint::black_box;

/// Needs nothing that is shared: no resource should be flagged.
pub const QUIET: Demo = Demo {
    name: "quiet",
    alias: None,
    about: "arithmetic in registers by its own CPU time; needs nothing shared",
    unit: "operations",
    clock: Clock::Cpu,
    pace: None,
    build,
};

/// Needs CPU time and nothing else.
pub const CPU_TIME: Demo = Demo {
    name: "cpu-time",
    alias: None,
    about: "arithmetic in registers by wall time; needs CPU time alone",
    unit: "operations",
    clock: Clock::Wall,
    pace: None,
    build,
};

fn build(_context: &DemoContext) -> Result<Batch> {
    const STEPS: u64 = 12_000;
    let mut state = 0x9e37_79b9_7f4a_7c15;
    Ok(Box::new(move || {
        let mut sum = 0u64;
        let mut local = state;
        for _ in 0..STEPS {
            sum ^= random(&mut local);
        }
        state = local;
        black_box(sum);
        STEPS
    }))
}
