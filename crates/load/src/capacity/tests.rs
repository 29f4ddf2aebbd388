//! The search against queues that are only computed.

use super::*;
use crate::amount::Percentile;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use std::time::Duration;

/// A server whose latency climbs as in a queue towards its limit.
struct Queue {
    limit: f64,
    noise: f64,
    random: ChaCha8Rng,
    rate: f64,
    generator_limit: f64,
    /// Windows so far, and those in which the machine stands still.
    windows: usize,
    stalled: std::ops::Range<usize>,
    /// That each window takes.
    length: Duration,
}

impl Probe for Queue {
    fn begin(&mut self, rate: f64) -> Result<()> {
        self.rate = rate;
        Ok(())
    }

    fn window(&mut self) -> Result<TrialWindow> {
        let jitter = 1.0 + self.noise * (self.random.random::<f64>() - 0.5);
        self.windows += 1;
        let stalled = self.stalled.contains(&self.windows);
        let over = self.rate >= self.limit || stalled;
        let late = if self.rate > self.generator_limit {
            0.01
        } else {
            0.0
        };
        let seconds = match over {
            true => 1.0,
            false => 100e-6 / (1.0 - self.rate / self.limit) * jitter,
        };
        Ok(TrialWindow {
            latency: Some(Latency {
                seconds: seconds + late,
                at_least: over,
            }),
            achieved_per_second: self.rate.min(self.limit),
            own_lateness: late,
        })
    }

    fn end(&mut self) {}

    fn elapsed(&self) -> Duration {
        self.length * self.windows as u32
    }
}

fn queue(limit: f64, noise: f64, seed: u64) -> Queue {
    Queue {
        limit,
        noise,
        random: ChaCha8Rng::seed_from_u64(seed),
        rate: 0.0,
        generator_limit: f64::INFINITY,
        windows: 0,
        stalled: 0..0,
        length: Duration::ZERO,
    }
}

fn target() -> LatencyTarget {
    LatencyTarget {
        percentile: Percentile::P99,
        bound: Duration::from_millis(1),
    }
}

#[test]
fn the_capacity_of_a_queue_is_found_from_anywhere() {
    // 1 ms is reached at nine tenths of the limit.
    for start in [1.0, 900.0, 10_000.0, 3e6] {
        let mut told = 0;
        let found = search(target(), start, &mut queue(10_000.0, 0.0, 1), &mut |_| {
            told += 1;
        })
        .unwrap();
        let rate = found.rate_per_second;
        assert!((8750.0..=9000.0).contains(&rate), "{rate} from {start}");
        assert!(found.missed_at_per_second.unwrap() > 9000.0);
        assert_eq!(found.stopped_by, StoppedBy::Resolution);
        assert_eq!(told, found.curve.len());
        assert!(found.warning().is_none());
        assert!(
            found
                .curve
                .is_sorted_by_key(|trial| trial.rate_per_second as u64)
        );
    }
}

#[test]
fn noise_is_borne_or_told() {
    for seed in 0..50 {
        let mut probe = queue(10_000.0, 0.6, seed);
        let found = search(target(), 1000.0, &mut probe, &mut |_| ()).unwrap();
        let rate = found.rate_per_second;
        assert!((7500.0..=9600.0).contains(&rate), "{rate}, seed {seed}");
    }
}

#[test]
fn a_generator_at_its_limit_is_not_taken_for_the_server() {
    let mut probe = queue(1e6, 0.0, 1);
    probe.generator_limit = 50_000.0;
    let found = search(target(), 1000.0, &mut probe, &mut |_| ()).unwrap();
    assert_eq!(found.stopped_by, StoppedBy::Generator);
    assert!(matches!(
        found.warning(),
        Some(Warning::CapacityAtLeast { .. })
    ));
}

#[test]
fn a_target_out_of_reach_is_said_with_the_latency() {
    let tight = LatencyTarget {
        bound: Duration::from_micros(10),
        ..target()
    };
    let error = search(tight, 1000.0, &mut queue(1e4, 0.0, 1), &mut |_| ()).unwrap_err();
    assert!(matches!(error, Error::TargetMissed { .. }), "{error}");
    assert!(error.to_string().contains("0.100 ms"), "{error}");
}

#[test]
fn a_stall_of_the_machine_is_not_taken_for_the_limit() {
    // While the rate is being doubled, and while the gap is being halved.
    for stalled in [3..6, 9..12, 11..17] {
        let mut probe = queue(10_000.0, 0.0, 1);
        probe.stalled = stalled.clone();
        let found = search(target(), 1000.0, &mut probe, &mut |_| ()).unwrap();
        let rate = found.rate_per_second;
        assert!((8500.0..=9000.0).contains(&rate), "{rate}, {stalled:?}");
    }
}

#[test]
fn a_search_that_takes_too_long_ends_with_the_best_rate_known() {
    // Two windows a rate: 1000, 2000, 4000 and 8000 meet the target, 16000 does not.
    let mut probe = queue(10_000.0, 0.0, 1);
    probe.length = Duration::from_secs(18);
    let found = search(target(), 1000.0, &mut probe, &mut |_| ()).unwrap();
    assert_eq!(found.stopped_by, StoppedBy::Time);
    assert_eq!(found.rate_per_second, 8000.0);
    assert_eq!(found.missed_at_per_second, Some(16_000.0));
    assert_eq!(probe.windows, 10);
    let warning = found.warning().unwrap();
    assert_eq!(warning.code(), "load-capacity-search-cut-short");
    let text = warning.to_string();
    assert!(
        text.contains("180 s") && text.contains("8000 requests/s met p99:1ms, 16000"),
        "{text}"
    );
}

#[test]
fn a_busy_machine_ends_a_search_without_a_rate() {
    let mut probe = queue(10_000.0, 0.0, 1);
    probe.length = Duration::from_secs(10);
    probe.stalled = 0..usize::MAX;
    let error = search(target(), 1e6, &mut probe, &mut |_| ()).unwrap_err();
    assert!(matches!(error, Error::SearchTooLong { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("180 s") && text.contains("at least 1000.000 ms"),
        "{text}"
    );
    assert_eq!(probe.windows, 18);
}

#[test]
fn a_rate_that_meets_the_target_above_one_that_misses_it_is_not_the_best() {
    // The machine is busy from the confirmation of the rate found on.
    let mut probe = queue(10_000.0, 0.0, 1);
    let calm = search(target(), 1000.0, &mut probe, &mut |_| ()).unwrap();
    let busy_from = probe.windows - 3;
    let mut probe = queue(10_000.0, 0.0, 1);
    probe.stalled = busy_from..usize::MAX;
    probe.length = LONGEST / (busy_from as u32 + 6);
    let found = search(target(), 1000.0, &mut probe, &mut |_| ()).unwrap();
    assert_eq!(found.stopped_by, StoppedBy::Time);
    assert!(found.rate_per_second < calm.rate_per_second, "{found:?}");
    assert!(
        found.missed_at_per_second.unwrap() <= calm.rate_per_second,
        "{found:?}"
    );
}
