//! Walks over all places of a structure in one scattered cycle, each step
//! waiting for the one before.

use std::time::Instant;

/// A cycle through `count` places by a step coprime to their number near its
/// golden section.
#[derive(Clone, Copy, Debug)]
pub struct Cycle {
    count: u64,
    step: u64,
}

impl Cycle {
    /// Over `count` places, at least one.
    pub fn over(count: u64) -> Self {
        let count = count.max(1);
        let mut step = ((count as f64 * 0.618) as u64).max(1);
        while gcd(step, count) != 1 {
            step += 1;
        }
        Cycle { count, step }
    }

    /// The cycle that takes `stride` steps of this one at a time, and how many
    /// of its places come before this one is through: a sample spread evenly
    /// over both the places and the order.
    pub fn sparse(&self, stride: u64) -> (Cycle, u64) {
        let step = (u128::from(self.step) * u128::from(stride) % u128::from(self.count)) as u64;
        let count = self.count;
        (Cycle { count, step }, count.div_ceil(stride))
    }

    /// Nanoseconds to read the first `places` places of the cycle in order.
    /// `read` returns 0 for a place, which the next address waits for.
    pub fn forward(&self, places: u64, read: impl Fn(u64) -> u64) -> f64 {
        self.walk(0, self.step, places, read)
    }

    /// The same places from the last to the first.
    pub fn backward(&self, places: u64, read: impl Fn(u64) -> u64) -> f64 {
        self.walk(
            self.place(places.max(1) - 1),
            self.count - self.step,
            places,
            read,
        )
    }

    /// As [`Cycle::backward`]; `took` is told the nanoseconds of each read,
    /// those of reading the clock among them.
    pub fn each_backward(&self, places: u64, read: impl Fn(u64) -> u64, mut took: impl FnMut(u32)) {
        let mut at = self.place(places.max(1) - 1);
        let mut before = Instant::now();
        for _ in 0..places {
            at += self.count - self.step + read(at);
            if at >= self.count {
                at -= self.count;
            }
            std::hint::black_box(at);
            let now = Instant::now();
            took((now - before).as_nanos() as u32);
            before = now;
        }
    }

    /// The place that comes `nth` in the cycle.
    fn place(&self, nth: u64) -> u64 {
        (nth as u128 * self.step as u128 % self.count as u128) as u64
    }

    #[inline(always)]
    fn walk(&self, first: u64, step: u64, places: u64, read: impl Fn(u64) -> u64) -> f64 {
        let mut at = first;
        let start = Instant::now();
        for _ in 0..places {
            at += step + read(at);
            if at >= self.count {
                at -= self.count;
            }
        }
        std::hint::black_box(at);
        start.elapsed().as_nanos() as f64
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
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
            let forward = order(|read| cycle.forward(count, read));
            let mut back = order(|read| cycle.backward(count, read));
            back.reverse();
            assert_eq!(forward, back);
            let mut all = forward;
            all.sort_unstable();
            assert!(all.into_iter().eq(0..count), "every place once");
        }
        let cycle = Cycle::over(1000);
        let mut back = order(|read| cycle.backward(100, read));
        back.reverse();
        assert_eq!(order(|read| cycle.forward(100, read)), back);
        let reads = Cell::new(0);
        let mut each = order(|read| {
            cycle.each_backward(100, read, |_| reads.set(reads.get() + 1));
            0.0
        });
        each.reverse();
        assert_eq!(each, back);
        assert_eq!(reads.get(), 100);
        let (sparse, places) = cycle.sparse(7);
        let whole = order(|read| cycle.forward(1000, read));
        let sample = order(|read| sparse.forward(places, read));
        assert!(sample.iter().eq(whole.iter().step_by(7)));
    }
}
