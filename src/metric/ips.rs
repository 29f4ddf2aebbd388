//! `ips`: instructions per second of wall time, by the CPU's own counters.
//!
//! It counts the target's threads as they are at the start and what they start
//! later. Spinning counts as progress: prefer a metric of the target's own.

use super::Metric;
use super::facts;
use crate::error::Error;
use crate::error::Result;
use crate::profile::Direction;
use crate::profile::MetricFacts;
use crate::sys::clock::monotonic_ns;
use crate::sys::perf::Instructions;
use crate::target::Target;
use crate::target::tree;
use std::time::Duration;

pub(super) struct Ips {
    counter: Instructions,
    pid: i32,
    because: String,
    start: Option<(u64, f64)>,
}

impl Ips {
    pub(super) fn new(target: &Target, because: &str) -> Result<Ips> {
        Ok(Ips {
            counter: open(target)?,
            pid: target.pid(),
            because: because.into(),
            start: None,
        })
    }

    fn read(&mut self) -> Result<(u64, f64)> {
        let count = self
            .counter
            .read()
            .map_err(|error| Error::environment(format!("ips: reading failed: {error}")))?;
        Ok((monotonic_ns(), count))
    }
}

/// What `ips` needs and this machine lacks, and what to use instead.
fn unavailable(target: &Target, reason: &str) -> Error {
    let others = match target.is_ours() {
        true => {
            "progress (if it publishes a progress page), stdout:REGEX (a number it prints), runs (if it ends by itself)"
        }
        false => "progress (if it publishes a progress page)",
    };
    Error::environment(format!(
        "--metric ips: instructions cannot be counted: {reason}; metrics that would work for {}: {others}",
        target.name()
    ))
}

fn open(target: &Target) -> Result<Instructions> {
    let mut threads = tree::threads(target.pid());
    for child in tree::descendants(target.pid()) {
        threads.extend(tree::threads(child));
    }
    Instructions::open(&threads).map_err(|reason| unavailable(target, &reason))
}

impl Metric for Ips {
    fn facts(&self) -> MetricFacts {
        let unit = "instructions per second";
        facts("ips", unit, Direction::Higher, &self.because)
    }

    fn natural_window(&self) -> Option<Duration> {
        None
    }

    fn window_rule(&self) -> String {
        "instructions in user mode per second of wall time".into()
    }

    fn cost(&self) -> String {
        "nothing while the target runs; one read of a counter per thread at each end of a window"
            .into()
    }

    fn begin(&mut self, target: &mut Target) -> Result<()> {
        target.check_alive()?;
        if target.pid() != self.pid {
            self.counter = open(target)?;
            self.pid = target.pid();
        }
        self.start = Some(self.read()?);
        Ok(())
    }

    fn end(&mut self, target: &mut Target) -> Result<f64> {
        let Some((since, before)) = self.start.take() else {
            return Err(Error::environment("ips: the window was never begun"));
        };
        let (now, after) = self.read()?;
        target.check_alive()?;
        let seconds = (now.saturating_sub(since)).max(1) as f64 / 1e9;
        // Scaled counts may step back a little.
        Ok((after - before).max(0.0) / seconds)
    }
}
