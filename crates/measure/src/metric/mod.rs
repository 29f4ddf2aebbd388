//! How a target's performance is read. Whatever the metric, higher is better:
//! latencies and run times are inverted.

mod auto;
mod binary;
mod choose;
mod counted;
mod eh_frame;
mod error;
mod events;
mod exec;
mod feed;
mod file;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod growth;
mod io;
mod ips;
mod load;
mod names;
mod pace;
mod per_run;
mod poller;
mod printed;
mod progress;
mod prometheus;
mod runs;
mod spot;
mod suggest;
mod symbols;
mod tracepoint;

pub use choose::Start;
pub use choose::check;
pub use choose::start;
pub use choose::start_warm;
pub use feed::StdoutKind;
pub use names::METRICS;
pub use names::MetricKind;

use crate::error::Error;
use crate::error::Result;
use crate::warning::Warning;
use crate::workload::Target;
use error::Reason;
use jostle_host::sys::handover::Readable;
use jostle_load::Generator;
use jostle_profile::Direction;
use jostle_profile::MetricFacts;
use jostle_profile::Resolution;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Reads the performance of one target, window by window.
///
/// The caller switches arms, lets things settle, calls `begin`, sleeps the
/// window's length and calls `end`. The target must be running meanwhile.
pub trait Metric {
    /// Name, unit and direction for the profile; the baseline is the caller's
    /// to fill in.
    fn facts(&self) -> MetricFacts;

    /// Shortest window worth asking for, where the target itself decides
    /// that. `end` takes the time it needs anyway.
    fn natural_window(&self) -> Option<Duration> {
        None
    }

    /// True when one window is one run of a finite command: `begin` starts the
    /// run, and sleeping before `end` is of no use.
    fn one_run_per_window(&self) -> bool {
        false
    }

    /// True when a command that has ended is started again and read on.
    fn restarts(&self) -> bool {
        self.one_run_per_window()
    }

    /// Opens a window.
    ///
    /// # Errors
    /// What [`Metric::end`] tells.
    fn begin(&mut self, target: &mut Target) -> Result<()>;

    /// Closes the window; waits when the target has not yet told enough.
    /// Performance, higher is better, in the unit of the facts or (direction
    /// lower) its inverse. Finite and not negative.
    ///
    /// # Errors
    /// A request error when this metric does not fit the target, an
    /// environment error when the target ended or nothing can be read, an
    /// interrupted error when the flag of [`Start`] was raised.
    fn end(&mut self, target: &mut Target) -> Result<f64>;

    /// What one reading is, in words: mean, rate or quantile, and over what.
    fn window_rule(&self) -> String;

    /// How finely in time it can be read.
    fn resolution(&self) -> Resolution;

    /// What reading costs, in words with the numbers known here: the target,
    /// the machine, or somebody else.
    fn cost(&self) -> String;

    /// What a reader of the profile must know about the readings so far.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }

    /// Told just before the target is stopped, so that nobody goes on asking it
    /// for work.
    fn suspend(&mut self) {}

    /// Told just after the target goes on.
    fn resume(&mut self) {}

    /// The load that the target is under, if we send it.
    fn load(&self) -> Option<&Generator> {
        None
    }

    /// Told before turns are read: a command that was started again has other
    /// counters, and so have threads that are new.
    ///
    /// # Errors
    /// Those of [`Metric::begin`].
    fn follow(&mut self, _target: &mut Target) -> Result<()> {
        Ok(())
    }

    /// Where a worker can read the same count at any instant; `None` for a
    /// metric that only the profiler can read.
    fn turns(&self) -> Option<TurnSource<'_>> {
        None
    }

    /// What was counted since the metric was opened, over all runs of a command that
    /// was started again; `None` for a metric that is no growing count.
    fn counted(&mut self) -> Option<Result<u64>> {
        None
    }

    /// What happened until now is not asked for.
    fn forget_moments(&mut self) {}

    /// When the operations since the last call were done; `None` for a metric that does
    /// not write that down, or of which some was lost: then from now on its
    /// [`TurnSource`] is not logged.
    fn moments(&mut self) -> Option<Moments> {
        None
    }

    /// From one operation to the next, at a moment taken at random; `None` where that
    /// is not known.
    fn gap(&self) -> Option<Duration> {
        None
    }

    /// Whole runs of a command, one after another, as they are without interference: when
    /// each of its operations was done, in seconds of CPU time from the begin of the run. None where such
    /// runs were not watched, or do not do the same.
    fn whole_runs(&self) -> &[Vec<f64>] {
        &[]
    }

    /// Called ten times a second while moments are kept.
    fn keep_moments(&mut self) {}

    /// Told just before a command that has ended is started again.
    fn before_restart(&mut self) {}

    /// The run that is under way, and what a worker read when it began; `None` where
    /// that is not known.
    fn run(&self) -> Option<Run> {
        None
    }

    /// Translates a performance into the unit of the facts.
    fn in_unit(&self, performance: f64) -> f64 {
        match self.facts().direction {
            Direction::Higher => performance,
            Direction::Lower => 1.0 / performance,
        }
    }
}

/// A run of a command that is started again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Runs that ended before.
    pub number: u32,
    /// The worker's reading at its begin.
    pub base: u64,
}

/// When operations were done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// Operations that were handed over before.
    pub before: u64,
    /// On CLOCK_MONOTONIC, ascending.
    pub times: Vec<u64>,
}

/// A count that a worker can read whenever the target is off the CPU.
#[derive(Clone, Debug)]
pub struct TurnSource<'a> {
    /// What it reads.
    pub readable: Readable<'a>,
    /// Changes when `readable` does; see [`jostle_host::sys::handover::version`].
    pub version: u64,
    /// Whether performance is counted per the CPU time that is read beside it,
    /// instead of wall time.
    pub by_cpu_time: bool,
    /// Whether [`Metric::moments`] tells the same, so that nobody needs to read it.
    pub logged: bool,
}

/// What the command line may say about a metric.
#[derive(Clone, Debug)]
pub struct MetricOptions {
    /// `--direction` of a printed number.
    pub direction: Direction,
    /// `--kind` of a printed number.
    pub kind: StdoutKind,
    /// Numbers a window needs at least.
    pub prints: u32,
    /// Time to wait for them; extended to 20 times the interval seen.
    pub print_timeout: Duration,
    /// `--run-timeout`: longest time one run of a finite command may take.
    pub run_timeout: Duration,
    /// Longest time to watch any target until something countable happens.
    pub trial: Duration,
    /// Longest time to watch a command when choosing the metric, no longer than
    /// `trial`: a part of the budget.
    pub choice: Duration,
    /// Whether the CPUs of a command that jostle started may be kept busy for some
    /// milliseconds at a time to choose the metric.
    pub may_press: bool,
    /// Whether it is to be written down when something happens that is counted: for
    /// whoever asks for [`Metric::moments`]. Takes up to 4 MiB.
    pub moments: bool,
    /// `--probe-timeout`: longest one run of a probe command or one request for
    /// a page of metrics may take.
    pub probe_timeout: Duration,
    /// `--probe-interval`: shortest time from one such reading to the next.
    pub probe_interval: Duration,
    /// `--metric-ca`: PEM file of the authorities that a page's certificate may be signed
    /// by; `None`: those of the system.
    pub ca: Option<PathBuf>,
}

impl Default for MetricOptions {
    fn default() -> Self {
        MetricOptions {
            direction: Direction::Higher,
            kind: StdoutKind::Value,
            prints: 3,
            print_timeout: Duration::from_secs(10),
            run_timeout: Duration::from_secs(600),
            trial: Duration::from_secs(10),
            choice: Duration::MAX,
            may_press: true,
            moments: true,
            probe_timeout: Duration::from_secs(10),
            probe_interval: Duration::from_millis(200),
            ca: None,
        }
    }
}

/// What a metric needs to read besides its target.
#[derive(Clone, Debug, Default)]
struct Context {
    options: MetricOptions,
    /// Why this metric was chosen.
    because: String,
    /// Raised to abandon whatever is being waited for.
    interrupt: Arc<AtomicBool>,
}

impl Context {
    fn chosen(&self, because: &str) -> Context {
        Context {
            because: because.into(),
            ..self.clone()
        }
    }

    fn check_interrupt(&self) -> Result<()> {
        match self.interrupt.load(Relaxed) {
            true => Err(Error::Interrupted(String::new())),
            false => Ok(()),
        }
    }
}

/// A reading of a number of the given direction as performance.
///
/// # Errors
/// A request error for one that cannot be compared.
fn oriented(value: f64, direction: Direction, name: &str) -> Result<f64> {
    let what = match direction {
        Direction::Higher if value.is_finite() && value >= 0.0 => return Ok(value),
        Direction::Lower if value.is_finite() && value > 0.0 => return Ok(1.0 / value),
        Direction::Higher => "rate",
        Direction::Lower => "latency",
    };
    Err(Reason::NotPositive { value, what }.wrong(name))
}

/// What [`Metric::begin`] noted, taken by [`Metric::end`].
fn begun<T>(start: &mut Option<T>, name: &str) -> Result<T> {
    start.take().ok_or_else(|| Reason::NotBegun.failed(name))
}

/// Facts without what only the measurement knows.
fn facts(name: &str, unit: &str, direction: Direction, because: &str) -> MetricFacts {
    MetricFacts {
        name: name.into(),
        unit: unit.into(),
        direction,
        chosen_because: because.into(),
        window_rule: None,
        resolution: None,
        cost: None,
        load: None,
        baseline: None,
        unknown: Default::default(),
    }
}
