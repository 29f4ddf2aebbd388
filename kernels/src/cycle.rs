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

    /// Nanoseconds to read the first `places` places of the cycle in order.
    /// `read` returns 0 for a place, which the next address waits for.
    pub fn forward(&self, places: u64, read: impl Fn(u64) -> u64) -> f64 {
        self.walk(0, self.step, places, read)
    }

    /// The same places from the last to the first.
    pub fn backward(&self, places: u64, read: impl Fn(u64) -> u64) -> f64 {
        let last = (places.max(1) - 1) as u128 * self.step as u128 % self.count as u128;
        self.walk(last as u64, self.count - self.step, places, read)
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
    }
}
