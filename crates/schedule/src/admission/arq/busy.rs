//! How long servers of a pool stay busy.

use std::collections::VecDeque;

/// Busy times kept per pool; older ones are forgotten, so that the pool's
/// distribution follows what runs there.
const KEPT: usize = 256;

/// The last busy times of a pool, from a start on a server to its end.
#[derive(Clone, Debug, Default)]
pub(super) struct BusyTimes {
    in_order: VecDeque<f64>,
    sorted: Vec<f64>,
    /// Sums of the first 0, 1, 2 … of `sorted`.
    sums: Vec<f64>,
}

impl BusyTimes {
    pub(super) fn observe(&mut self, seconds: f64) {
        if !(seconds.is_finite() && seconds > 0.0) {
            return;
        }
        if self.in_order.len() == KEPT
            && let Some(old) = self.in_order.pop_front()
        {
            let at = self.sorted.partition_point(|kept| *kept < old);
            self.sorted.remove(at);
        }
        self.in_order.push_back(seconds);
        let at = self.sorted.partition_point(|kept| *kept < seconds);
        self.sorted.insert(at, seconds);
        self.sums.clear();
        self.sums.push(0.0);
        let mut sum = 0.0;
        for kept in &self.sorted {
            sum += kept;
            self.sums.push(sum);
        }
    }

    /// Probability that a server found busy at a random moment is free within
    /// `t` seconds: Σ min(x, t) / Σ x over busy times x, the distribution of
    /// the remaining time in a renewal process. `None` without history.
    pub(super) fn freed_within(&self, t: f64) -> Option<f64> {
        let total = *self.sums.last()?;
        let shorter = self.sorted.partition_point(|busy| *busy <= t);
        let longer = (self.sorted.len() - shorter) as f64;
        Some((self.sums[shorter] + t.max(0.0) * longer) / total)
    }

    /// Probability that at least one of `servers` busy ones is free within `t`:
    /// 1 − (1 − F(t))^n, as if they were independent; 0 without history.
    pub(super) fn any_freed_within(&self, t: f64, servers: usize) -> f64 {
        match self.freed_within(t) {
            Some(one) => 1.0 - (1.0 - one).max(0.0).powi(servers as i32),
            None => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_busy_times_by_hand() {
        let mut busy = BusyTimes::default();
        assert_eq!(busy.freed_within(5.0), None);
        assert_eq!(busy.any_freed_within(5.0, 9), 0.0);
        for seconds in [30.0, 10.0] {
            busy.observe(seconds);
        }
        // (10 + 20) / 40: of a random moment, a quarter falls into the short one.
        assert_eq!(busy.freed_within(20.0), Some(0.75));
        assert_eq!(busy.freed_within(0.0), Some(0.0));
        assert_eq!(busy.freed_within(99.0), Some(1.0));
        // Two servers: 1 − 0.25².
        assert_eq!(busy.any_freed_within(20.0, 2), 0.9375);
    }

    #[test]
    fn a_constant_busy_time_leaves_a_uniform_rest() {
        let mut busy = BusyTimes::default();
        for _ in 0..10 {
            busy.observe(100.0);
        }
        for t in [10.0, 25.0, 90.0] {
            assert!((busy.freed_within(t).unwrap() - t / 100.0).abs() < 1e-12);
        }
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut busy = BusyTimes::default();
        busy.observe(1e6);
        for _ in 0..KEPT {
            busy.observe(10.0);
        }
        assert_eq!(busy.sorted.len(), KEPT);
        assert_eq!(busy.freed_within(10.0), Some(1.0));
        busy.observe(f64::NAN);
        assert_eq!(busy.sorted.len(), KEPT);
    }
}
