//! Real seconds that decisions take.

use hdrhistogram::Histogram;
use std::time::Duration;
use std::time::Instant;

/// Decisions that are all timed; of those after them, one in [`TIMED_ONE_IN`] is, and
/// counts for as many: reading the clock costs as much as a cheap decision.
const TIMED_FIRST: u64 = 4096;
const TIMED_ONE_IN: u64 = 16;

/// The longest decision that is told from longer ones: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// A histogram of durations in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Stopwatch {
    durations: Histogram<u64>,
    total: Duration,
    decisions: u64,
}

impl Default for Stopwatch {
    fn default() -> Self {
        Stopwatch {
            durations: Histogram::new_with_max(LONGEST, 2).expect("two digits up to an hour"),
            total: Duration::ZERO,
            decisions: 0,
        }
    }
}

impl Stopwatch {
    /// A decision, timed or not.
    #[inline]
    pub(super) fn time<T>(&mut self, decision: impl FnOnce() -> T) -> T {
        self.decisions += 1;
        let weight = match self.decisions {
            ..=TIMED_FIRST => 1,
            later if later % TIMED_ONE_IN == 0 => TIMED_ONE_IN,
            _ => return decision(),
        };
        let began = Instant::now();
        let made = decision();
        self.note(began.elapsed(), weight);
        made
    }

    fn note(&mut self, took: Duration, weight: u64) {
        let nanoseconds = took.as_nanos().clamp(1, u128::from(LONGEST)) as u64;
        self.durations.saturating_record_n(nanoseconds, weight);
        self.total += took * weight as u32;
    }

    /// Seconds that `share` (0–1) of all durations do not exceed, within 1 %; 0
    /// when none was recorded.
    pub(super) fn percentile(&self, share: f64) -> f64 {
        self.durations.value_at_quantile(share) as f64 * 1e-9
    }

    pub(super) fn total_seconds(&self) -> f64 {
        self.total.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_one_percent() {
        let mut watch = Stopwatch::default();
        assert_eq!(watch.percentile(0.5), 0.0);
        for microseconds in 1..=1000 {
            watch.note(Duration::from_micros(microseconds), 1);
        }
        for (share, expected) in [(0.5, 500e-6), (0.99, 990e-6)] {
            assert!((watch.percentile(share) / expected - 1.0).abs() < 0.01);
        }
        assert!((watch.total_seconds() - 0.5005).abs() < 1e-9);
    }

    #[test]
    fn those_not_timed_are_counted_for() {
        let mut watch = Stopwatch::default();
        let all = TIMED_FIRST + 10 * TIMED_ONE_IN;
        let made = (0..all).map(|n| watch.time(|| n)).sum::<u64>();
        assert_eq!(made, all * (all - 1) / 2);
        assert_eq!(watch.durations.len(), all);
    }
}
