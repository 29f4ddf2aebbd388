//! How full the cluster is over time.

use crate::outcome::Sample;

/// Moments are thinned out when there are so many.
const MOST_SAMPLES: usize = 512;

/// The state from one event to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Level {
    pub(super) cpus_asked: u64,
    pub(super) cpus_up: u64,
    pub(super) running: u32,
    pub(super) waiting: u32,
}

/// Integrates over time, and notes the level at fixed intervals: of one second
/// at first, twice as long whenever there are too many.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    at: f64,
    asked_seconds: f64,
    up_seconds: f64,
    interval: f64,
    next_sample: f64,
    samples: Vec<Sample>,
}

impl Meter {
    pub(super) fn new(start: f64) -> Self {
        Meter {
            at: start,
            asked_seconds: 0.0,
            up_seconds: 0.0,
            interval: 1.0,
            next_sample: start,
            samples: Vec::new(),
        }
    }

    /// Counts `level` from the last call until `now`.
    #[inline]
    pub(super) fn until(&mut self, now: f64, level: Level) {
        let seconds = now - self.at;
        if seconds <= 0.0 {
            return;
        }
        self.asked_seconds += seconds * level.cpus_asked as f64;
        self.up_seconds += seconds * level.cpus_up as f64;
        self.at = now;
        while self.next_sample < now {
            self.note(level);
        }
    }

    fn note(&mut self, level: Level) {
        self.samples.push(Sample {
            seconds: self.next_sample,
            utilization: share(level.cpus_asked as f64, level.cpus_up as f64),
            running: level.running,
            waiting: level.waiting,
        });
        if self.samples.len() == MOST_SAMPLES {
            let mut at = 0;
            self.samples.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.interval *= 2.0;
            self.next_sample = self.samples.last().map_or(0.0, |last| last.seconds);
        }
        self.next_sample += self.interval;
    }

    /// CPU-seconds asked for over CPU-seconds up so far.
    pub(super) fn utilization(&self) -> f64 {
        share(self.asked_seconds, self.up_seconds)
    }

    pub(super) fn into_samples(self) -> Vec<Sample> {
        self.samples
    }
}

fn share(part: f64, whole: f64) -> f64 {
    match whole > 0.0 {
        true => part / whole,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(cpus_asked: u64) -> Level {
        Level {
            cpus_asked,
            cpus_up: 10,
            running: 1,
            waiting: 0,
        }
    }

    #[test]
    fn utilization_is_the_mean_over_time() {
        let mut meter = Meter::new(5.0);
        meter.until(7.0, level(10));
        meter.until(15.0, level(5));
        assert!((meter.utilization() - 0.6).abs() < 1e-12);
        let seconds: Vec<f64> = meter.into_samples().iter().map(|m| m.seconds).collect();
        assert_eq!(seconds, (5..15).map(f64::from).collect::<Vec<_>>());
    }

    #[test]
    fn long_runs_have_few_moments_at_one_interval() {
        let mut meter = Meter::new(0.0);
        meter.until(1e6, level(3));
        let samples = meter.into_samples();
        assert!((MOST_SAMPLES / 2 - 1..MOST_SAMPLES).contains(&samples.len()));
        let interval = samples[1].seconds - samples[0].seconds;
        for pair in samples.windows(2) {
            assert_eq!(pair[1].seconds - pair[0].seconds, interval);
        }
    }
}
