//! Every number below a bound exactly once, in an order that looks random and
//! takes no memory.

/// Steps of a full-period congruential generator over the next power of two,
/// scrambled by steps that can be undone; what falls beyond the bound is
/// skipped, at most every second one.
#[derive(Clone, Debug)]
pub struct Order {
    bound: u64,
    bits: u32,
    state: u64,
}

impl Order {
    /// An order of the numbers below `bound`, at least 1.
    pub fn new(bound: u64) -> Order {
        Order {
            bound: bound.max(1),
            bits: bound.max(2).next_power_of_two().trailing_zeros(),
            state: 0,
        }
    }

    /// From now on the numbers below `bound`, from where it is now.
    pub fn bound(&mut self, bound: u64) {
        *self = Order {
            state: self.state,
            ..Order::new(bound)
        };
    }
}

impl Iterator for Order {
    type Item = u64;

    /// Never ends: each pass comes in the order of the first.
    fn next(&mut self) -> Option<u64> {
        let mask = (1u64 << self.bits) - 1;
        let half = self.bits.div_ceil(2);
        loop {
            // Odd increment, factor 1 modulo 4: the full period.
            self.state = self
                .state
                .wrapping_mul(0x5851_F42D_4C95_7F2D)
                .wrapping_add(0x1405_7B7E_F767_814F)
                & mask;
            let mut number = self.state;
            number ^= number >> half;
            number = number.wrapping_mul(crate::weyl::GOLDEN) & mask;
            number ^= number >> half;
            if number < self.bound {
                return Some(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_number_comes_once_a_pass(bound in 1u64..5000) {
            let mut order = Order::new(bound);
            for _ in 0..2 {
                let mut pass: Vec<u64> = order.by_ref().take(bound as usize).collect();
                pass.sort_unstable();
                prop_assert!(pass.into_iter().eq(0..bound));
            }
        }
    }

    #[test]
    fn another_bound_begins_where_the_last_one_was() {
        let mut order = Order::new(1000);
        let first: Vec<u64> = order.by_ref().take(400).collect();
        order.bound(1000);
        let mut pass: Vec<u64> = first.into_iter().chain(order.by_ref().take(600)).collect();
        pass.sort_unstable();
        assert!(pass.into_iter().eq(0..1000));
        for bound in [10, 5000, 1] {
            order.bound(bound);
            let mut pass: Vec<u64> = order.by_ref().take(bound as usize).collect();
            pass.sort_unstable();
            assert!(pass.into_iter().eq(0..bound), "{bound}");
        }
    }

    #[test]
    fn neighbours_in_time_lie_far_apart() {
        let bound = 65_536;
        let numbers: Vec<u64> = Order::new(bound).take(bound as usize).collect();
        let mean = numbers
            .windows(2)
            .map(|pair| pair[0].abs_diff(pair[1]) as f64)
            .sum::<f64>()
            / (bound - 1) as f64
            / bound as f64;
        // Independent uniform numbers differ by a third.
        assert!((0.28..0.38).contains(&mean), "{mean}");
        let strides: std::collections::HashSet<u64> = numbers
            .windows(2)
            .map(|pair| pair[1].wrapping_sub(pair[0]) % bound)
            .collect();
        assert!(
            strides.len() > 10_000,
            "no stride to learn: {}",
            strides.len()
        );
    }
}
