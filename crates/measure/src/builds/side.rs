//! One of the builds on the real machine: started again and again, going or paused.

use super::awake::Awake;
use super::bench::BenchError;
use super::bench::Side;
use super::bench::Turn;
use crate::error::Error;
use crate::metric::Metric;
use crate::workload::Target;
use crate::workload::tree;
use jostle_host::os::here;
use jostle_host::os::proc::WaitClock;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::clock::sleep_until;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Longest wait for the first progress of an instance.
const READY: Duration = Duration::from_secs(10);
/// From one look at the count of a starting instance to the next.
const LOOK: Duration = Duration::from_millis(1);
/// Longest sleep between two looks at an interruption.
const NAP_NS: u64 = 20_000_000;
/// Share of a turn that counts however long it waited.
const LEAST: f64 = 0.05;

pub(super) struct Instance {
    pub(super) side: Side,
    /// Ends before the target. Whole runs are measured where there is none.
    pub(super) metric: Option<Box<dyn Metric>>,
    pub(super) target: Target,
    pub(super) interrupt: Arc<AtomicBool>,
    /// Whether an instance was started since [`Instance::prepare`].
    started: bool,
    ended: bool,
    /// How long it waited for the CPU while somebody else had it.
    waits: Option<WaitClock>,
}

/// A build at one moment.
struct Mark {
    at_ns: u64,
    count: u64,
    waited_ns: Option<u64>,
}

impl Mark {
    /// Seconds since `from` in which nobody else had the CPU that it wanted.
    fn since(&self, from: &Mark) -> f64 {
        let wall = self.at_ns.saturating_sub(from.at_ns) as f64;
        let waited = self.waited_ns.zip(from.waited_ns);
        let waited = waited.map_or(0, |(until, from)| until.saturating_sub(from));
        (wall - waited as f64).max(LEAST * wall) / 1e9
    }
}

/// The wait for the CPU of a build that is one thread: of several, some wait for each
/// other.
fn waits(target: &Target) -> Option<WaitClock> {
    let processes = target.scope().processes();
    let [pid] = processes[..] else {
        return None;
    };
    let alone = tree::threads(pid).len() == 1;
    alone.then(|| WaitClock::open(here(), pid, pid).ok())?
}

impl Instance {
    pub(super) fn new(
        side: Side,
        target: Target,
        metric: Option<Box<dyn Metric>>,
        interrupt: Arc<AtomicBool>,
    ) -> Instance {
        Instance {
            side,
            metric,
            target,
            interrupt,
            started: false,
            ended: true,
            waits: None,
        }
    }

    /// The next turn begins another run.
    pub(super) fn prepare(&mut self) {
        self.started = false;
        self.ended = false;
        self.waits = None;
    }

    /// Starts another instance, waits until it makes progress and for `warm_up` more,
    /// and pauses it.
    pub(super) fn start(&mut self, warm_up: Duration) -> Result<(), BenchError> {
        self.prepare();
        if let Some(metric) = &mut self.metric {
            metric.before_restart();
        }
        // One page for all starts would make its place a property of the build.
        self.target.renew_page();
        self.launch()?;
        if let Some(metric) = &mut self.metric {
            let followed = metric.follow(&mut self.target);
            followed.map_err(|error| self.failed(error))?;
        }
        let before = self.count()?;
        let deadline = monotonic_ns() + READY.as_nanos() as u64;
        while self.count()? == before {
            if self.has_ended()? {
                return Ok(());
            }
            if monotonic_ns() > deadline {
                let reason = format!("it made no progress within {} s", READY.as_secs());
                return Err(self.failed(Error::environment(reason)));
            }
            self.wait_until(monotonic_ns() + LOOK.as_nanos() as u64)?;
        }
        self.wait_until(monotonic_ns() + warm_up.as_nanos() as u64)?;
        self.waits = waits(&self.target);
        match self.has_ended()? {
            true => Ok(()),
            false => self.pause(),
        }
    }

    fn launch(&mut self) -> Result<(), BenchError> {
        self.started = true;
        self.target.restart().map_err(|error| self.failed(error))
    }

    /// Lets it run for `skip`, which does not count, and `length`, which does.
    pub(super) fn counted_turn(
        &mut self,
        awake: &Awake,
        skip: Duration,
        length: Duration,
    ) -> Result<Turn, BenchError> {
        let over = Turn {
            ended: true,
            ..Turn::default()
        };
        if self.has_ended()? {
            return Ok(over);
        }
        self.target.cont().map_err(|error| self.failed(error))?;
        awake.rest();
        self.wait_until(monotonic_ns() + skip.as_nanos() as u64)?;
        let from = self.mark()?;
        self.wait_until(from.at_ns + length.as_nanos() as u64)?;
        let until = self.mark()?;
        awake.spin();
        if self.has_ended()? {
            return Ok(over);
        }
        self.pause()?;
        Ok(Turn {
            work: until.count.saturating_sub(from.count) as f64,
            seconds: until.since(&from),
            ended: false,
        })
    }

    /// Lets a run go on for `length`, or to its end.
    pub(super) fn run_turn(&mut self, awake: &Awake, length: Duration) -> Result<Turn, BenchError> {
        let first = !self.started;
        let from_ns = monotonic_ns();
        match first {
            true => self.launch()?,
            false => self.target.cont().map_err(|error| self.failed(error))?,
        }
        awake.rest();
        let until_ns = from_ns + length.as_nanos() as u64;
        loop {
            self.check_interrupt()?;
            let left = until_ns.saturating_sub(monotonic_ns());
            let nap = Duration::from_nanos(left.min(NAP_NS));
            if self.target.wait(nap).is_some() {
                break;
            }
            if left == 0 {
                let seconds = monotonic_ns().saturating_sub(from_ns) as f64 / 1e9;
                awake.spin();
                if self.pause().is_ok() {
                    return Ok(Turn {
                        work: 0.0,
                        seconds,
                        ended: false,
                    });
                }
                // It ended while it was being paused, or cannot be.
                if !self.has_ended()? {
                    return Err(self.failed(Error::environment("it cannot be paused")));
                }
                break;
            }
        }
        self.has_ended()?;
        let since = self.target.ended_for().unwrap_or_default().as_nanos() as u64;
        let whole = self.target.ran_for().filter(|_| first);
        let took = monotonic_ns().saturating_sub(from_ns + since);
        let took = whole.unwrap_or(Duration::from_nanos(took));
        Ok(Turn {
            work: 1.0,
            seconds: took.as_secs_f64(),
            ended: true,
        })
    }

    /// # Errors
    /// When it failed.
    fn has_ended(&mut self) -> Result<bool, BenchError> {
        if !self.ended {
            match self.target.wait(Duration::ZERO) {
                Some(exit) if exit.success() => self.ended = true,
                Some(exit) => return Err(self.failed(self.target.gone(exit))),
                None => {}
            }
        }
        Ok(self.ended)
    }

    fn pause(&mut self) -> Result<(), BenchError> {
        match self.target.stop() {
            Ok(()) => Ok(()),
            Err(error) => match self.has_ended()? {
                true => Ok(()),
                false => Err(self.failed(error)),
            },
        }
    }

    fn mark(&mut self) -> Result<Mark, BenchError> {
        let before = monotonic_ns();
        let count = self.count()?;
        let after = monotonic_ns();
        Ok(Mark {
            at_ns: before + (after - before) / 2,
            count,
            waited_ns: self.waits.as_mut().and_then(WaitClock::read_ns),
        })
    }

    fn count(&mut self) -> Result<u64, BenchError> {
        let counted = self.metric.as_mut().and_then(|metric| metric.counted());
        counted.unwrap_or(Ok(0)).map_err(|error| self.failed(error))
    }

    fn wait_until(&self, deadline_ns: u64) -> Result<(), BenchError> {
        loop {
            self.check_interrupt()?;
            let now = monotonic_ns();
            if now >= deadline_ns {
                return Ok(());
            }
            sleep_until(deadline_ns.min(now + NAP_NS));
        }
    }

    fn check_interrupt(&self) -> Result<(), BenchError> {
        match self.interrupt.load(Relaxed) {
            true => Err(BenchError::Interrupted),
            false => Ok(()),
        }
    }

    fn failed(&self, error: Error) -> BenchError {
        match error {
            Error::Interrupted(_) => BenchError::Interrupted,
            error => BenchError::Failed {
                side: self.side,
                reason: error.to_string(),
            },
        }
    }
}
