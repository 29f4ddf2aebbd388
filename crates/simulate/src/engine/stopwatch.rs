//! Real seconds that decisions take.

use std::time::Duration;
use std::time::Instant;

/// Places per doubling: a percentile is within 2.2 %.
const PER_OCTAVE: f64 = 16.0;

/// 2^40 ns is a quarter of an hour.
const OCTAVES: usize = 40;

/// Decisions that are all timed; of those after them, one in [`RARELY`] is, and
/// counts for as many: reading the clock costs as much as a cheap decision.
const ALL: u64 = 4096;
const RARELY: u64 = 16;

/// Counts of durations on a logarithmic scale.
#[derive(Clone, Debug)]
pub(super) struct Stopwatch {
    counts: Vec<u64>,
    total: Duration,
    decisions: u64,
}

impl Default for Stopwatch {
    fn default() -> Self {
        Stopwatch {
            counts: vec![0; OCTAVES * PER_OCTAVE as usize],
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
            ..=ALL => 1,
            later if later % RARELY == 0 => RARELY,
            _ => return decision(),
        };
        let began = Instant::now();
        let made = decision();
        self.note(began.elapsed(), weight);
        made
    }

    fn note(&mut self, took: Duration, weight: u64) {
        let nanoseconds = took.as_nanos().max(1) as f64;
        let place = (nanoseconds.log2() * PER_OCTAVE) as usize;
        let last = self.counts.len() - 1;
        self.counts[place.min(last)] += weight;
        self.total += took * weight as u32;
    }

    /// Seconds that `share` (0–1) of all durations do not pass; 0 when none was
    /// noted.
    pub(super) fn percentile(&self, share: f64) -> f64 {
        let all: u64 = self.counts.iter().sum();
        let rank = ((share * all as f64).ceil() as u64).max(1);
        let mut below = 0;
        for (place, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return ((place as f64 + 0.5) / PER_OCTAVE).exp2() * 1e-9;
            }
        }
        0.0
    }

    pub(super) fn total_seconds(&self) -> f64 {
        self.total.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_their_place() {
        let mut watch = Stopwatch::default();
        assert_eq!(watch.percentile(0.5), 0.0);
        for microseconds in 1..=1000 {
            watch.note(Duration::from_micros(microseconds), 1);
        }
        for (share, expected) in [(0.5, 500e-6), (0.99, 990e-6)] {
            assert!((watch.percentile(share) / expected - 1.0).abs() < 0.025);
        }
        assert!((watch.total_seconds() - 0.5005).abs() < 1e-9);
    }

    #[test]
    fn those_not_timed_are_counted_for() {
        let mut watch = Stopwatch::default();
        let all = ALL + 10 * RARELY;
        let made = (0..all).map(|n| watch.time(|| n)).sum::<u64>();
        assert_eq!(made, all * (all - 1) / 2);
        assert_eq!(watch.counts.iter().sum::<u64>(), all);
    }
}
