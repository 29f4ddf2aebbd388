//! `l1d`, `l2-capacity`, `l2-bandwidth`, `llc-capacity`, `llc-bandwidth`: one
//! cache each.

use super::Batch;
use super::Demo;
use super::DemoContext;
use super::below;
use super::random;
use crate::error::Result;
use jostle_host::sys::memory::ask_huge_pages;
use jostle_profile::resource::Resource;
use std::hint::black_box;

/// Lives in three quarters of the first-level data cache.
pub const L1D: Demo = Demo {
    name: "l1d",
    needs: Some(Resource::L1d),
    about: "random loads over 3/4 of the first-level data cache",
    unit: "loads",
    build: build_l1d,
    ..Demo::USUAL
};

/// Lives in 60 % of the second-level cache.
pub const L2_CAPACITY: Demo = Demo {
    name: "l2-capacity",
    needs: Some(Resource::L2Capacity),
    alias: Some("l2"),
    about: "follows pointers through 60 % of the second-level cache",
    unit: "loads",
    build: |context| Ok(chase(context.l2_bytes / 10 * 6, 4096)),
    ..Demo::USUAL
};

/// Streams from the second-level cache.
pub const L2_BANDWIDTH: Demo = Demo {
    name: "l2-bandwidth",
    needs: Some(Resource::L2Bandwidth),
    about: "streams over four times the first-level cache",
    unit: "bytes",
    build: |context| Ok(stream(4 * context.l1d_bytes, 2 << 20)),
    ..Demo::USUAL
};

/// Lives in the last-level cache, well beyond the second level.
pub const LLC_CAPACITY: Demo = Demo {
    name: "llc-capacity",
    needs: Some(Resource::LlcCapacity),
    alias: Some("llc"),
    about: "follows pointers through a quarter of the last-level cache",
    unit: "loads",
    build: |context| Ok(chase(llc_footprint(context), 256)),
    ..Demo::USUAL
};

/// Streams from the last-level cache.
pub const LLC_BANDWIDTH: Demo = Demo {
    name: "llc-bandwidth",
    needs: Some(Resource::LlcBandwidth),
    about: "streams over eight times the second-level cache, at most a quarter of the last level",
    unit: "bytes",
    build: |context| Ok(stream(llc_stream(context), 512 << 10)),
    ..Demo::USUAL
};

/// Eight times the L2, at most a quarter of the LLC and never within L2's reach.
fn llc_stream(context: &DemoContext) -> usize {
    let wanted = (8 * context.l2_bytes).min(context.llc_bytes / 4);
    wanted.max(4 * context.l2_bytes)
}

/// A quarter of the LLC, at most 24 times the L2 and never within its reach.
fn llc_footprint(context: &DemoContext) -> usize {
    let wanted = (24 * context.l2_bytes).min(context.llc_bytes / 4);
    wanted.max(4 * context.l2_bytes)
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line {
    next: u32,
    payload: [u32; 15],
}

/// One random cycle through all lines of `bytes` (Sattolo's algorithm).
fn cycle(bytes: usize) -> Vec<Line> {
    let count = (bytes / size_of::<Line>()).clamp(2, u32::MAX as usize);
    let mut lines = Vec::with_capacity(count);
    ask_huge_pages(&mut lines);
    lines.extend((0..count).map(|index| Line {
        next: index as u32,
        payload: [index as u32; 15],
    }));
    let mut state = 0x1234_5678_9abc_def1;
    for index in (1..count).rev() {
        let other = below(random(&mut state), index);
        let kept = lines[index].next;
        lines[index].next = lines[other].next;
        lines[other].next = kept;
    }
    lines
}

/// Dependent loads along a random cycle, so that neither prefetcher nor
/// out-of-order execution hides where a line lives.
fn chase(bytes: usize, loads: u64) -> Batch {
    let lines = cycle(bytes);
    let mut position = 0u32;
    Box::new(move || {
        let mut at = position;
        for _ in 0..loads {
            at = lines[at as usize].next;
        }
        position = black_box(at);
        loads
    })
}

fn build_l1d(context: &DemoContext) -> Result<Batch> {
    const ROUNDS: u64 = 6_000;
    let lines = cycle(context.l1d_bytes / 4 * 3);
    let mut position = 0u32;
    let mut state = 0x0dd0_5eed_0dd0_5eed;
    Ok(Box::new(move || {
        let mut at = position;
        let mut sum = 0u32;
        for _ in 0..ROUNDS {
            // One load that depends on the last, two that do not.
            at = lines[at as usize].next;
            let bits = random(&mut state);
            sum = sum.wrapping_add(lines[below(bits, lines.len())].payload[0]);
            sum = sum.wrapping_add(lines[below(bits << 29, lines.len())].payload[7]);
        }
        position = black_box(at);
        black_box(sum);
        3 * ROUNDS
    }))
}

/// So many words, resident: they are written, since untouched zero pages would
/// all be one page.
pub(super) fn filled(words: usize, value: u64) -> Vec<u64> {
    let mut buffer: Vec<u64> = Vec::with_capacity(words);
    ask_huge_pages(&mut buffer);
    buffer.resize(words, black_box(value));
    buffer
}

/// Sums `bytes` of memory over and over, about `batch` bytes per batch.
pub(super) fn stream(bytes: usize, batch: usize) -> Batch {
    const CHUNK: usize = 64;
    let words = (bytes / size_of::<u64>())
        .next_multiple_of(CHUNK)
        .max(CHUNK);
    let buffer = filled(words, 1);
    let per_batch = (batch / size_of::<u64>()).next_multiple_of(CHUNK);
    let mut position = 0;
    Box::new(move || {
        let mut sums = [0u64; 8];
        let mut left = per_batch;
        while left > 0 {
            let length = left.min(buffer.len() - position);
            for chunk in buffer[position..position + length].chunks_exact(8) {
                for (sum, word) in sums.iter_mut().zip(chunk) {
                    *sum = sum.wrapping_add(*word);
                }
            }
            left -= length;
            position = (position + length) % buffer.len();
        }
        black_box(sums);
        (per_batch * size_of::<u64>()) as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_visits_every_line_once() {
        for bytes in [0, 128, 64 * 1000] {
            let lines = cycle(bytes);
            let mut at = 0;
            for step in 1..=lines.len() {
                at = lines[at].next as usize;
                assert_eq!(at == 0, step == lines.len(), "{bytes} bytes, step {step}");
            }
        }
    }
}
