//! One member of a group: going or stopped, started again when it ends, and read.

use super::bench::BenchError;
use super::bench::Did;
use super::warning::PairWarning;
use crate::error::Error;
use crate::metric::Metric;
use crate::warning::Warning;
use crate::workload::Target;
use jostle_host::sys::clock::monotonic_ns;
use std::time::Duration;

/// Longest time that a member without a window of its own is read for at once.
const WINDOW: Duration = Duration::from_millis(100);

pub(crate) struct Member {
    /// Its metric ends before it.
    metric: Option<Box<dyn Metric>>,
    target: Target,
    index: usize,
    how: How,
    stopped: bool,
    /// Times that it was started again.
    runs: u32,
    /// Count when the present run began; `None` where that was not seen.
    base: Option<u64>,
    reading: Option<Reading>,
}

/// How it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// A count that can be looked at whenever.
    Count,
    /// The metric needs a window of its own.
    Window,
    /// One reading per run.
    Run,
    Not,
}

/// A reading that was begun.
struct Reading {
    since_ns: u64,
    count: u64,
    /// Time between a run's end and the next one's begin.
    idle_ns: u64,
    place: Option<(u32, f64)>,
    /// Seconds that the run took.
    run: Option<f64>,
    restarted: bool,
}

impl Member {
    pub(crate) fn new(index: usize, target: Target, metric: Option<Box<dyn Metric>>) -> Member {
        let mut member = Member {
            metric,
            target,
            index,
            how: How::Not,
            stopped: false,
            runs: 0,
            base: None,
            reading: None,
        };
        member.how = match &mut member.metric {
            None => How::Not,
            Some(metric) if metric.one_run_per_window() => How::Run,
            Some(metric) => match metric.counted() {
                Some(_) => How::Count,
                None => How::Window,
            },
        };
        member
    }

    pub(crate) fn metric(&self) -> Option<&dyn Metric> {
        self.metric.as_deref()
    }

    /// What its metric says of the readings so far; `name` is the member's.
    pub(super) fn warnings(&self, name: &str) -> Vec<PairWarning> {
        let metric = self.metric.iter();
        let warnings = metric.flat_map(|metric| metric.warnings());
        let named = |warning: Warning| PairWarning::MemberMetric {
            member: name.into(),
            about: warning.facts().code,
            warning: warning.to_string(),
        };
        warnings.map(named).collect()
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Lets it run on `cpus` only, now and whenever it is started again.
    ///
    /// # Errors
    /// When it is gone, or the system refuses.
    pub(crate) fn confine(&mut self, cpus: &[usize]) -> Result<(), BenchError> {
        let confined = self.target.confine(cpus);
        confined.map_err(|error| self.ended(error))
    }

    pub(crate) fn reads_runs(&self) -> bool {
        self.how == How::Run
    }

    /// Whether a block in which it was started again is to be played anew.
    pub(crate) fn is_cut_by_restarts(&self) -> bool {
        matches!(self.how, How::Count | How::Window)
    }

    /// Shortest block in which it can be read `operations` of which it does `rate`
    /// per second.
    pub(crate) fn shortest(&self, rate: f64, operations: f64) -> Duration {
        match self.how {
            How::Count if rate > 0.0 => Duration::from_secs_f64((operations / rate).min(60.0)),
            How::Window => {
                let natural = self.metric.as_ref().and_then(|it| it.natural_window());
                natural.unwrap_or(WINDOW)
            }
            How::Run => {
                let natural = self.metric.as_ref().and_then(|it| it.natural_window());
                natural.unwrap_or_default()
            }
            How::Count | How::Not => Duration::ZERO,
        }
    }

    /// Sets it going or still.
    pub(crate) fn set(&mut self, going: bool) -> Result<(), BenchError> {
        if !going {
            return self.stop();
        }
        if self.stopped {
            self.stopped = false;
            self.target.cont().map_err(|error| self.ended(error))?;
            if let Some(metric) = &mut self.metric {
                metric.resume();
            }
        }
        self.keep_running().map(|_| ())
    }

    fn stop(&mut self) -> Result<(), BenchError> {
        if self.stopped {
            return Ok(());
        }
        if let Some(exit) = self.target.wait(Duration::ZERO) {
            // One that is to be started again runs no more than a stopped one.
            return match exit.success() && self.target.is_ours() {
                true => Ok(()),
                false => Err(self.ended(self.target.gone(exit))),
            };
        }
        if let Some(reason) = self.target.unstoppable() {
            return Err(self.not_paused(reason));
        }
        if let Some(metric) = &mut self.metric {
            metric.suspend();
        }
        match self.target.stop() {
            Ok(()) => {
                self.stopped = true;
                Ok(())
            }
            Err(error) => {
                if let Some(metric) = &mut self.metric {
                    metric.resume();
                }
                match self.target.wait(Duration::ZERO) {
                    Some(exit) if exit.success() && self.target.is_ours() => Ok(()),
                    Some(exit) => Err(self.ended(self.target.gone(exit))),
                    None => Err(self.not_paused(error.to_string())),
                }
            }
        }
    }

    /// Starts a command that has ended again; whether it had.
    pub(crate) fn keep_running(&mut self) -> Result<bool, BenchError> {
        if self.stopped || self.target.wait(Duration::ZERO).is_none() {
            return Ok(false);
        }
        if let Some(reading) = &mut self.reading
            && reading.run.is_none()
        {
            reading.run = self.target.ran_for().map(|took| took.as_secs_f64());
        }
        let counted = self.count().unwrap_or(None);
        if let Some(metric) = &mut self.metric {
            metric.before_restart();
        }
        let gap = self.target.ended_for().unwrap_or_default();
        let began = monotonic_ns();
        self.target
            .keep_running()
            .map_err(|error| self.ended(error))?;
        if let Some(metric) = &mut self.metric {
            let followed = metric.follow(&mut self.target);
            followed.map_err(|error| self.ended(error))?;
        }
        if let Some(reading) = &mut self.reading {
            reading.restarted = true;
            reading.idle_ns += gap.as_nanos() as u64 + (monotonic_ns() - began);
        }
        self.runs += 1;
        self.base = counted;
        Ok(true)
    }

    /// Begins to read it.
    pub(crate) fn begin(&mut self) -> Result<(), BenchError> {
        self.reading = None;
        match self.how {
            How::Not => return Ok(()),
            How::Run => self.target.restart().map_err(|error| self.ended(error))?,
            How::Window => {
                if let Some(metric) = &mut self.metric {
                    let begun = metric.begin(&mut self.target);
                    begun.map_err(|error| self.ended(error))?;
                }
            }
            How::Count => {}
        }
        let count = self.count()?.unwrap_or(0);
        let base = self.base.filter(|base| *base <= count);
        self.reading = Some(Reading {
            since_ns: monotonic_ns(),
            count,
            idle_ns: 0,
            place: base.map(|base| (self.runs, (count - base) as f64)),
            run: None,
            restarted: false,
        });
        Ok(())
    }

    /// Whether a run that is being read goes on.
    pub(crate) fn is_running_on(&self) -> bool {
        let reading = self.reading.as_ref();
        self.how == How::Run && reading.is_some_and(|reading| reading.run.is_none())
    }

    /// What it did since [`Self::begin`].
    pub(crate) fn end(&mut self) -> Result<Option<Did>, BenchError> {
        let Some(reading) = self.reading.take() else {
            return Ok(None);
        };
        let now = monotonic_ns();
        let seconds = now.saturating_sub(reading.since_ns + reading.idle_ns) as f64 / 1e9;
        let did = |work, seconds, place| {
            Some(Did {
                work,
                seconds,
                place,
                restarted: reading.restarted,
            })
        };
        Ok(match self.how {
            How::Not => None,
            How::Run => reading.run.map(|took| Did {
                work: 1.0,
                seconds: took.max(1e-9),
                place: None,
                restarted: false,
            }),
            How::Window => {
                let metric = self.metric.as_mut();
                let ended = metric.map(|metric| metric.end(&mut self.target));
                let rate = ended.transpose().map_err(|error| self.ended(error))?;
                rate.and_then(|rate| did(rate * seconds, seconds, None))
            }
            How::Count => {
                let now = self.count()?.unwrap_or(0);
                let work = now.saturating_sub(reading.count) as f64;
                let place = reading.place.filter(|_| !reading.restarted);
                did(work, seconds.max(1e-9), place)
            }
        })
    }

    /// What its metric has counted, if it counts.
    pub(crate) fn count(&mut self) -> Result<Option<u64>, BenchError> {
        let counted = self.metric.as_mut().and_then(|metric| metric.counted());
        counted.transpose().map_err(|error| self.ended(error))
    }

    fn ended(&self, error: Error) -> BenchError {
        match error {
            Error::Interrupted(_) => BenchError::Interrupted,
            error => BenchError::Ended {
                member: self.index,
                reason: error.to_string(),
            },
        }
    }

    fn not_paused(&self, reason: String) -> BenchError {
        BenchError::NotPaused {
            member: self.index,
            reason,
        }
    }
}

impl Drop for Member {
    /// What was stopped goes on.
    fn drop(&mut self) {
        if self.stopped {
            let _ = self.target.cont();
        }
    }
}
