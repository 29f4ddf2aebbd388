//! Walks over all places of a structure in one random order, each step waiting
//! for the one before.
//!
//! The order is drawn and kept as a list, which is read in a row and so costs
//! next to no cache. Any order by arithmetic, a step coprime to the
//! number of places say, is a stride: cores that follow strides across pages
//! fetch such a walk ahead, and its misses look like hits (an EPYC 9004 hid
//! nine of ten).

use crate::weyl::GOLDEN;
use crate::weyl::xorshift;
use std::time::Instant;

/// All places of a structure, each once, in a random order. The orders drawn are
/// always the same for the same number of places.
#[derive(Clone, Debug)]
pub struct Cycle {
    order: Vec<u32>,
    random: u64,
}

impl Cycle {
    /// Over `count` places, at least one.
    pub fn over(count: u64) -> Self {
        let mut cycle = Cycle {
            order: (0..count.clamp(1, u64::from(u32::MAX)) as u32).collect(),
            random: GOLDEN,
        };
        cycle.shuffle();
        cycle
    }

    /// Draws another order.
    pub fn shuffle(&mut self) {
        for last in (1..self.order.len()).rev() {
            self.random = xorshift(self.random);
            let other = (u128::from(self.random) * (last as u128 + 1)) >> 64;
            self.order.swap(last, other as usize);
        }
    }

    /// How many places there are.
    pub fn len(&self) -> u64 {
        self.order.len() as u64
    }

    /// Nanoseconds to read all places in order. `read` returns 0 for a place,
    /// which the next address waits for.
    pub fn forward(&self, read: impl Fn(u64) -> u64) -> f64 {
        walk(self.order.iter(), read)
    }

    /// The same from the last to the first, one place of `stride`.
    pub fn backward(&self, stride: usize, read: impl Fn(u64) -> u64) -> f64 {
        walk(self.order.iter().rev().step_by(stride), read)
    }

    /// As [`Cycle::backward`]; `took` is told the nanoseconds of each read,
    /// those of reading the clock among them.
    pub fn each_backward(
        &self,
        stride: usize,
        read: impl Fn(u64) -> u64,
        mut took: impl FnMut(u32),
    ) {
        let mut zero = 0;
        let mut before = Instant::now();
        for place in self.order.iter().rev().step_by(stride) {
            zero = read(u64::from(*place) + zero);
            std::hint::black_box(zero);
            let now = Instant::now();
            took((now - before).as_nanos() as u32);
            before = now;
        }
    }
}

#[inline(always)]
fn walk<'a>(places: impl Iterator<Item = &'a u32>, read: impl Fn(u64) -> u64) -> f64 {
    let mut zero = 0;
    let start = Instant::now();
    for place in places {
        zero = read(u64::from(*place) + zero);
    }
    std::hint::black_box(zero);
    start.elapsed().as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::cell::RefCell;

    fn order(walk: impl Fn(&dyn Fn(u64) -> u64) -> f64) -> Vec<u64> {
        let seen = RefCell::new(Vec::new());
        walk(&|place| {
            seen.borrow_mut().push(place);
            0
        });
        seen.into_inner()
    }

    #[test]
    fn both_ways_come_through_the_same_places() {
        for count in [1, 2, 96, 768, 1000] {
            let cycle = Cycle::over(count);
            let forward = order(|read| cycle.forward(read));
            let mut back = order(|read| cycle.backward(1, read));
            back.reverse();
            assert_eq!(forward, back);
            let mut all = forward;
            all.sort_unstable();
            assert!(all.into_iter().eq(0..count), "every place once");
        }
        let cycle = Cycle::over(1000);
        let whole = order(|read| cycle.backward(1, read));
        let sample = order(|read| cycle.backward(7, read));
        assert!(sample.iter().eq(whole.iter().step_by(7)));
        let reads = Cell::new(0);
        let each = order(|read| {
            cycle.each_backward(7, read, |_| reads.set(reads.get() + 1));
            0.0
        });
        assert_eq!(each, sample);
        assert_eq!(reads.get(), sample.len());
    }

    #[test]
    fn no_stride_is_left_to_follow() {
        let walked = order(|read| Cycle::over(512).forward(read));
        let strides: Vec<i64> = walked
            .windows(2)
            .map(|pair| pair[1] as i64 - pair[0] as i64)
            .collect();
        let same = strides.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(same <= 5, "{same} of 510 steps repeat the one before");
    }
}
