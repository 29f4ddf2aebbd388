//! The search for the capacity of a real server.

use crate::amount::LatencyTarget;
use crate::capacity::Capacity;
use crate::capacity::Probe;
use crate::capacity::RESOLUTION;
use crate::capacity::Trial;
use crate::capacity::TrialWindow;
use crate::capacity::search;
use crate::error::Error;
use crate::error::Result;
use crate::generator::Generator;
use crate::spec::Pace;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

/// Shortest and longest window.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(10);
/// Before the first window of a rate.
const SETTLE: Duration = Duration::from_millis(100);
/// How long the peak of the closed loop is looked at, to know where to begin.
const PEAK: Duration = Duration::from_millis(400);

/// Searches with real requests. `start` is the first rate tried [default: a
/// quarter of what the closed loop reaches]; `on_trial` is called after each rate,
/// with the time since the start.
///
/// # Errors
/// Those of [`search`]; an interrupted error when `interrupt` was raised.
pub fn find_capacity(
    generator: &mut Generator,
    target: LatencyTarget,
    start: Option<f64>,
    interrupt: &AtomicBool,
    on_trial: &mut dyn FnMut(&Trial, Duration),
) -> Result<Capacity> {
    let began = Instant::now();
    let start = match start {
        Some(rate) => rate,
        None => closed_peak(generator)? / 4.0,
    };
    let mut probe = Sender {
        generator,
        target,
        interrupt,
        rate: start,
        began,
    };
    let mut found = search(target, start, &mut probe, &mut |trial| {
        on_trial(trial, began.elapsed())
    })?;
    found.search_seconds = began.elapsed().as_secs_f64();
    Ok(found)
}

fn closed_peak(generator: &mut Generator) -> Result<f64> {
    generator.pace_within(Pace::Closed, Duration::ZERO);
    sleep(PEAK / 4);
    generator.open_window();
    sleep(PEAK);
    let window = generator.close_window()?;
    generator.suspend();
    generator.resume();
    match window.finished {
        0 => Err(Error::NoSuccess {
            time: PEAK,
            failures: window.failures.to_string(),
        }),
        _ => Ok(window.throughput()),
    }
}

struct Sender<'a> {
    generator: &'a mut Generator,
    target: LatencyTarget,
    interrupt: &'a AtomicBool,
    rate: f64,
    began: Instant,
}

impl Sender<'_> {
    fn nap(&self, length: Duration) -> Result<()> {
        nap(length, self.interrupt);
        match self.interrupt.load(Relaxed) {
            true => Err(Error::Interrupted("while the capacity was searched")),
            false => Ok(()),
        }
    }
}

/// Sleeps for `length`, or until `interrupt` was raised.
pub fn nap(length: Duration, interrupt: &AtomicBool) {
    let until = Instant::now() + length;
    while !interrupt.load(Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(Duration::from_millis(50)));
    }
}

impl Probe for Sender<'_> {
    fn begin(&mut self, rate: f64) -> Result<()> {
        self.rate = rate;
        self.generator.pace_within(Pace::Open(rate), Duration::ZERO);
        self.nap(SETTLE)
    }

    fn window(&mut self) -> Result<TrialWindow> {
        let samples = 1.2 * self.target.percentile.samples_needed() / self.rate;
        // Long enough that a rate beyond what is served by as little as the
        // resolution builds up a queue of the bound.
        let queue = self.target.bound.as_secs_f64() / (RESOLUTION - 1.0);
        let length = Duration::try_from_secs_f64(samples.max(queue))
            .unwrap_or(LONGEST)
            .clamp(SHORTEST, LONGEST);
        self.generator.open_window();
        self.nap(length)?;
        let window = self.generator.close_window()?;
        Ok(TrialWindow {
            latency: window.percentile(self.target.percentile),
            achieved_per_second: window.throughput(),
            own_lateness: window.lateness(self.target.percentile).unwrap_or(0.0),
        })
    }

    fn end(&mut self) {
        self.generator.suspend();
        self.generator.resume();
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}
