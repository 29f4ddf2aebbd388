//! Memory of a cache's size that fits in it.
//!
//! A cache larger than a page times its ways picks its sets by bits of the
//! physical address that a program does not choose. Where the system, or the
//! host of a virtual machine, hands out small pages, a buffer as large as such a
//! cache asks for more places in some sets than there are, and for fewer in
//! others: on an EPYC 9004 (1 MiB, 8 ways) with a host on 4 KiB pages a walk over
//! 1 MiB missed half of the time, on huge pages of the guest, too. So pages are
//! tried one by one: one is kept if it is still in the cache after all that were
//! kept before were read. On that machine this finds 256 pages among some 450,
//! and no more among 1,500, in 10 to 50 ms.

use crate::Buffer;
use crate::Failure;
use crate::cycle::Cycle;
use crate::scatter::LINE;
use std::time::Instant;

const PAGE: usize = 4096;
const LINES: usize = PAGE / LINE as usize;
/// 64-bit words of a line.
const WORDS: usize = LINE as usize / 8;
/// As many times what is needed is looked through.
const POOL: u64 = 4;
/// The time to choose grows with the square of the size: beyond this, pages are
/// taken as they come.
const LARGEST: u64 = 4 << 20;
/// Looks at a page, of which the best counts: a neighbour on the same core only
/// takes.
const TRIES: usize = 3;
/// Reading a page that is gone takes so many times longer, or the clock shows
/// nothing.
const LEAST_RISE: f64 = 1.4;
/// A page is there when reading it takes less than this share of the way from
/// near to far.
const BAR: f64 = 0.2;

/// Bytes to have at hand for [`buffer`].
pub fn needs(bytes: u64) -> u64 {
    if bytes > LARGEST { bytes } else { POOL * bytes }
}

/// A buffer of `bytes` with a zero at the beginning of every line, of pages that
/// fit together in the cache of that size that the calling thread's CPU has
/// behind an L1d of `l1d_bytes`. Where fewer fit, because somebody else is using
/// the cache, or the clock shows no difference, the rest are any pages.
///
/// # Errors
/// When there is no memory.
pub fn buffer(bytes: u64, l1d_bytes: u64) -> Result<Buffer, Failure> {
    if bytes > LARGEST {
        return Buffer::of_zeroed_lines(bytes);
    }
    let pool = Buffer::of_zeroed_lines(POOL * bytes)?;
    let count = (bytes as usize).div_ceil(PAGE);
    match choose(&pool, count, l1d_bytes) {
        None => Ok(pool.shortened(bytes as usize)),
        Some(pages) => pool.arranged(&pages),
    }
}

/// The pages to take; `None` when the first `count` will do, or nothing can be
/// told.
fn choose(pool: &Buffer, count: usize, l1d_bytes: u64) -> Option<Vec<usize>> {
    let all = pool.len() / PAGE;
    let lines = Cycle::over(LINES as u64);
    let after = |page: usize, others: &[usize]| read_ns(pool, &lines, page, others);
    // Enough that the page is not in L1d any more.
    let few = 2 * l1d_bytes as usize / PAGE + 1;
    let others: Vec<usize> = (1..all).collect();
    let near = least((0..4 * TRIES).map(|_| after(0, &others[..few.min(count)])));
    let far = least((0..TRIES).map(|_| after(0, &others)));
    if far < LEAST_RISE * near {
        return None;
    }
    let bar = near + BAR * (far - near);
    let mut kept = Vec::with_capacity(count);
    let mut rest = Vec::new();
    for page in 0..all {
        if kept.len() == count {
            break;
        }
        match (0..TRIES).any(|_| after(page, &kept) < bar) {
            true => kept.push(page),
            false => rest.push(page),
        }
    }
    if rest.is_empty() {
        return None;
    }
    rest.truncate(count - kept.len());
    kept.extend(rest);
    Some(kept)
}

/// Nanoseconds to read the lines of a page one after the other when `others`
/// were read since.
fn read_ns(pool: &Buffer, lines: &Cycle, page: usize, others: &[usize]) -> f64 {
    let word = |page: usize, line: usize| (page * LINES + line) * WORDS;
    let touch = |page: usize| {
        for line in 0..LINES {
            pool.read(word(page, line));
        }
    };
    touch(page);
    for _ in 0..2 {
        others.iter().copied().for_each(touch);
    }
    let began = Instant::now();
    lines.forward(|line| pool.read(word(page, line as usize)));
    began.elapsed().as_nanos() as f64
}

fn least(times: impl Iterator<Item = f64>) -> f64 {
    times.fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_as_long_as_asked_for_and_zero_at_each_line() {
        for bytes in [4096, 64 << 10, (256 << 10) + 4096] {
            let buffer = buffer(bytes, 32 << 10).unwrap();
            assert_eq!(buffer.len() as u64, bytes);
            let lines = buffer.len() / LINE as usize;
            assert!((0..lines).all(|line| buffer.read(line * WORDS) == 0));
        }
    }

    #[test]
    fn pages_are_chosen_once_each() {
        let pool = Buffer::of_zeroed_lines(POOL << 20).unwrap();
        if let Some(mut pages) = choose(&pool, 256, 32 << 10) {
            assert_eq!(pages.len(), 256);
            pages.sort_unstable();
            pages.dedup();
            assert_eq!(pages.len(), 256);
            assert!(pages.iter().all(|page| *page < pool.len() / PAGE));
        }
    }
}
