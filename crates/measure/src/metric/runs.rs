//! `runs`: how long a command that ends by itself takes.

use super::Context;
use super::Metric;
use super::begun;
use super::facts;
use crate::error::Error;
use crate::error::Result;
use crate::workload::Target;
use jostle_profile::Direction;
use jostle_profile::MetricFacts;
use jostle_profile::Resolution;
use std::time::Duration;
use std::time::Instant;

pub(super) struct Runs {
    context: Context,
    /// Seconds of the first complete run, where it was seen.
    usual: Option<Duration>,
    started: Option<Instant>,
}

impl Runs {
    pub(super) fn new(usual: Option<Duration>, context: Context) -> Runs {
        Runs {
            context,
            usual,
            started: None,
        }
    }
}

impl Metric for Runs {
    fn facts(&self) -> MetricFacts {
        facts("runs", "seconds", Direction::Lower, &self.context.because)
    }

    fn natural_window(&self) -> Option<Duration> {
        self.usual
    }

    fn one_run_per_window(&self) -> bool {
        true
    }

    fn window_rule(&self) -> String {
        "one run of the command from its start to its end; every window is one run".into()
    }

    fn resolution(&self) -> Resolution {
        Resolution::Run
    }

    fn cost(&self) -> String {
        let run = self.usual.map_or_else(
            || "as long as the command takes".to_string(),
            |usual| format!("{:.3} s as seen last", usual.as_secs_f64()),
        );
        format!("nothing in the command; each window takes one run of it, {run}")
    }

    fn begin(&mut self, target: &mut Target) -> Result<()> {
        target.restart()?;
        self.started = Some(Instant::now());
        Ok(())
    }

    fn end(&mut self, target: &mut Target) -> Result<f64> {
        let started = begun(&mut self.started, "runs")?;
        loop {
            let exit = target.wait(Duration::from_millis(100));
            let took = target.ran_for().unwrap_or_else(|| started.elapsed());
            match exit {
                Some(exit) if exit.success() => {
                    self.usual.get_or_insert(took);
                    return Ok(1.0 / took.as_secs_f64().max(1e-9));
                }
                Some(exit) => return Err(target.gone(exit)),
                None => {}
            }
            self.context.check_interrupt()?;
            if started.elapsed() >= self.context.options.run_timeout {
                return Err(Error::request(format!(
                    "--metric runs: {} was still running after {} s; raise --run-timeout, or use another metric if it never ends",
                    target.name(),
                    self.context.options.run_timeout.as_secs_f64()
                )));
            }
        }
    }
}
