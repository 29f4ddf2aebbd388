//! `l1i` and `tlb`: code and pages, as much of each as the core keeps.

use super::Batch;
use super::Demo;
use super::DemoContext;
use crate::error::Error;
use crate::error::Result;
use jostle_kernels::l1i;
use jostle_kernels::tlb;
use jostle_kernels::tlb::Pages;
use jostle_profile::resource::Resource;
use std::hint::black_box;

/// Runs code that fills three quarters of the first-level instruction cache.
pub const L1I: Demo = Demo {
    name: "l1i",
    needs: Some(Resource::L1i),
    about: "jumps through code that fills 3/4 of the first-level instruction cache",
    unit: "jumps",
    build: |context| Ok(code(context)),
    ..Demo::USUAL
};

/// Reads one line in each of as many pages as a TLB has entries, far apart: what
/// such a walk loses by a turn of another is the entries times the price of one.
pub const TLB: Demo = Demo {
    name: "tlb",
    needs: Some(Resource::Tlb),
    about: "a load in each of as many pages, far apart, as 2/3 of the second-level TLB reaches, one after the other",
    unit: "loads",
    build: pages,
    ..Demo::USUAL
};

/// Jumps of one batch, about 20 µs of them.
const JUMPS: u64 = 6_000;
/// Loads of one batch.
const LOADS: u64 = 2_000;

fn code(context: &DemoContext) -> Batch {
    // The source runs the beginning of the same region: lines that both run
    // would be a gift and not a loss.
    let most = l1i::SLOTS / 2;
    let blocks = (context.l1i_bytes as u64 / 4 * 3 / l1i::BLOCK).clamp(1, most);
    let passes = JUMPS.div_ceil(blocks);
    Box::new(move || {
        black_box(l1i::run_chain_from(l1i::SLOTS - blocks, blocks, passes));
        blocks * passes
    })
}

fn pages(context: &DemoContext) -> Result<Batch> {
    let refuse = |failure: jostle_kernels::Failure| {
        Error::environment(format!("the tlb demo: {}", failure.0))
    };
    let entries = match context.tlb_entries {
        0 => tlb::measure_entries().map_err(refuse)?,
        entries => entries,
    };
    let count = (entries / 3 * 2).max(2);
    let pages = Pages::spread(count as usize).map_err(refuse)?;
    // Near the golden section of an odd number of pages, so that it comes
    // through all of them.
    let step = (count as f64 * 0.618) as u64 | 1;
    let step = (step..)
        .step_by(2)
        .find(|step| coprime(*step, count))
        .unwrap_or(1);
    let mut position = 0;
    Ok(Box::new(move || {
        let mut at = position;
        for _ in 0..LOADS {
            // The page reads as zero, and the next address waits for it.
            at += step + pages.read(at as usize);
            if at >= count {
                at -= count;
            }
        }
        position = black_box(at);
        LOADS
    }))
}

fn coprime(mut a: u64, mut b: u64) -> bool {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}
