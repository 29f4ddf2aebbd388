//! What calibration needs of a source, and of the time around it: the seam at
//! which tests put made-up ones.

use jostle_host::inject::Snapshot;
use jostle_host::inject::WorkerError;
use jostle_host::inject::WorkerGroup;
use jostle_host::inject::placement::Refusal;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::control_page::Order;
use jostle_profile::resource::Timing;
use std::thread::sleep;
use std::time::Duration;

/// Why a measurement ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The user asked for it: all of it ends.
    Interrupted,
    /// This source cannot go on, in words; the others can.
    Failed(String),
}

impl From<WorkerError> for Stop {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Stopped => Stop::Interrupted,
            error => Stop::Failed(error.to_string()),
        }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Stop::Failed(refusal.to_string())
    }
}

/// The clock, the user, and the way to tell how it goes.
pub trait Watch: Sync {
    /// Time since some fixed moment.
    fn now(&self) -> Duration;

    /// Waits.
    fn pause(&self, length: Duration) -> Result<(), Stop>;

    fn check(&self) -> Result<(), Stop>;

    /// Tells what is being done.
    fn say(&self, text: &str) -> Result<(), Stop>;
}

/// The time that a measurement of a source has, and how it is spent.
#[derive(Clone, Copy)]
pub struct Slot<'a> {
    pub timing: Timing,
    pub length: Duration,
    pub watch: &'a dyn Watch,
}

/// A source that can be switched and read.
pub trait Press {
    /// Switches, and waits until that is in force.
    fn order(&mut self, order: Order, watch: &dyn Watch) -> Result<(), Stop>;

    /// Watches full strength for `length`, makes what is reached the peak that
    /// intensity refers to, and returns it, operations per second. `None` for
    /// sources that are not held at a rate.
    fn reach_peak(&mut self, length: Duration, watch: &dyn Watch) -> Result<Option<f64>, Stop>;

    /// Sets the peak, operations per second of all workers together.
    fn set_peak(&mut self, operations_per_second: f64);

    /// Pressure at 100 %, in the resource's unit.
    fn full_scale(&self) -> Option<f64>;

    fn snapshot(&self) -> Snapshot;

    /// Pressure between two snapshots, in the resource's unit.
    fn pressure(&self, from: &Snapshot, to: &Snapshot) -> f64;

    /// The source's own performance between two snapshots.
    fn probe(&self, from: &Snapshot, to: &Snapshot) -> Option<f64>;
}

/// Longest wait for a switch: a source may have to take memory first.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest sleep between two looks at the interrupt flag.
const NAP: Duration = Duration::from_millis(50);

impl Press for WorkerGroup {
    fn order(&mut self, order: Order, watch: &dyn Watch) -> Result<(), Stop> {
        self.check_exits()?;
        let command = self.set(order);
        Ok(self.wait_applied(command, PATIENCE, &|| watch.check().is_err())?)
    }

    fn reach_peak(&mut self, length: Duration, watch: &dyn Watch) -> Result<Option<f64>, Stop> {
        watch.check()?;
        Ok(self.calibrate_peak(length)?)
    }

    fn set_peak(&mut self, operations_per_second: f64) {
        WorkerGroup::set_peak(self, operations_per_second);
    }

    fn full_scale(&self) -> Option<f64> {
        WorkerGroup::full_scale(self)
    }

    fn snapshot(&self) -> Snapshot {
        WorkerGroup::snapshot(self)
    }

    fn pressure(&self, from: &Snapshot, to: &Snapshot) -> f64 {
        WorkerGroup::pressure(self, from, to)
    }

    fn probe(&self, from: &Snapshot, to: &Snapshot) -> Option<f64> {
        WorkerGroup::probe(self, from, to)
    }
}

/// The real clock; `stop` tells whether the user interrupted, `say` is told
/// what is being done.
pub struct Live<'a> {
    pub stop: &'a (dyn Fn() -> bool + Sync),
    pub say: &'a (dyn Fn(&str) + Sync),
}

impl Watch for Live<'_> {
    fn now(&self) -> Duration {
        Duration::from_nanos(monotonic_ns())
    }

    fn pause(&self, length: Duration) -> Result<(), Stop> {
        let end = self.now() + length;
        loop {
            self.check()?;
            let left = end.saturating_sub(self.now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(NAP));
        }
    }

    fn check(&self) -> Result<(), Stop> {
        match (self.stop)() {
            true => Err(Stop::Interrupted),
            false => Ok(()),
        }
    }

    fn say(&self, text: &str) -> Result<(), Stop> {
        (self.say)(text);
        self.check()
    }
}
