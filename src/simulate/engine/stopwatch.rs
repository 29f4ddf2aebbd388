//! Real seconds that decisions take.

use std::time::Duration;

/// Places per doubling: a percentile is within 2.2 %.
const PER_OCTAVE: f64 = 16.0;

/// 2^40 ns is a quarter of an hour.
const OCTAVES: usize = 40;

/// Counts of durations on a logarithmic scale.
#[derive(Clone, Debug)]
pub(super) struct Stopwatch {
    counts: Vec<u64>,
    total: Duration,
}

impl Default for Stopwatch {
    fn default() -> Self {
        Stopwatch {
            counts: vec![0; OCTAVES * PER_OCTAVE as usize],
            total: Duration::ZERO,
        }
    }
}

impl Stopwatch {
    pub(super) fn note(&mut self, took: Duration) {
        let nanoseconds = took.as_nanos().max(1) as f64;
        let place = (nanoseconds.log2() * PER_OCTAVE) as usize;
        let last = self.counts.len() - 1;
        self.counts[place.min(last)] += 1;
        self.total += took;
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
            watch.note(Duration::from_micros(microseconds));
        }
        for (share, expected) in [(0.5, 500e-6), (0.99, 990e-6)] {
            assert!((watch.percentile(share) / expected - 1.0).abs() < 0.025);
        }
        assert!((watch.total_seconds() - 0.5005).abs() < 1e-9);
    }
}
