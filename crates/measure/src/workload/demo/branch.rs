//! `branch`: calls and jumps in a long sequence that a predictor can learn.

use super::Batch;
use super::Demo;
use super::DemoContext;
use super::random;
use crate::error::Result;
use jostle_profile::resource::Resource;
use std::hint::black_box;

/// Needs predictors of indirect calls and of directions, and next to no data.
pub const DEMO: Demo = Demo {
    name: "branch",
    needs: Some(Resource::Branch),
    about: "indirect calls from one place and jumps, in a sequence that can be learned",
    unit: "calls",
    build,
    ..Demo::USUAL
};

/// Calls until the sequence repeats: as many as current predictors learn.
const CALLS: usize = 960;
/// How often the sequence is run in one batch. One loop goes through all of it:
/// as a loop over passes around a loop over calls, ten passes were predicted
/// far worse (14 ns per call, against 4 ns) than one, two or forty on an EPYC.
const PASSES: usize = 4;

#[inline(never)]
fn leaf<const NUMBER: u32>(x: u64) -> u64 {
    x.rotate_left(NUMBER + 1) ^ u64::from(NUMBER)
}

const LEAVES: [fn(u64) -> u64; 16] = [
    leaf::<0>, leaf::<1>, leaf::<2>, leaf::<3>, leaf::<4>, leaf::<5>, leaf::<6>, leaf::<7>,
    leaf::<8>, leaf::<9>, leaf::<10>, leaf::<11>, leaf::<12>, leaf::<13>, leaf::<14>, leaf::<15>,
];

fn build(_context: &DemoContext) -> Result<Batch> {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    // Four bits choose what is called, one whether a jump is taken.
    let steps: Vec<u8> = (0..CALLS)
        .map(|_| (random(&mut state) >> 59) as u8)
        .collect();
    let mut at = 0;
    Ok(Box::new(move || {
        let mut x = 1;
        for _ in 0..PASSES * CALLS {
            let step = steps[at];
            at += 1;
            if at == steps.len() {
                at = 0;
            }
            x = LEAVES[usize::from(step & 15)](x);
            // What may not be moved makes this a jump, not a selection.
            if step & 16 != 0 {
                x = black_box(x);
            }
        }
        black_box(x);
        (PASSES * CALLS) as u64
    }))
}
