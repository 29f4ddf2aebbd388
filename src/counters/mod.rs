//! What target and machine do meanwhile, by the counters of CPU and kernel.
//!
//! Opened once, sampled at the ends of every window. What cannot be read here
//! is listed with its reason, and stays in the list.

use crate::target::Scope;
use std::path::PathBuf;

/// What a reading means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Events, bytes or time per second of the window.
    Rate,
    /// A quotient of two counts of the same instants, like instructions per
    /// cycle, or a percentage.
    Ratio,
    /// A level, as it stands at the end of the window.
    Level,
}

/// Whose doing a reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Target,
    /// The target's CPUs, whoever runs on them.
    Cpus,
    Machine,
}

/// One counter of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// As in the profile: `ipc`, `llc-misses`, `run-queue-delay`, …
    pub name: String,
    pub unit: &'static str,
    pub kind: Kind,
    pub owner: Owner,
    /// Where it comes from: `perf hardware`, `/proc/pressure`, …
    pub source: &'static str,
    /// Why there is no reading of it here.
    pub unavailable: Option<String>,
}

/// What to count beside the usual.
#[derive(Clone, Debug)]
pub struct CounterOptions {
    /// Where `/proc` and `/sys` are found; tests have their own.
    pub root: PathBuf,
    /// Further events, as `perf list` writes them: `r01c2`, `PMU/EVENT/`,
    /// `PMU/config=0x…/`.
    pub events: Vec<String>,
}

impl Default for CounterOptions {
    fn default() -> Self {
        CounterOptions {
            root: "/".into(),
            events: Vec::new(),
        }
    }
}

/// Everything as it stood at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {}

/// Open counters of one target.
pub struct Counters {
    list: Vec<Counter>,
}

impl Counters {
    /// Opens what there is; `cpus` are the target's. Never fails: what cannot be
    /// had is in the list with its reason.
    pub fn open(scope: &Scope, cpus: &[usize], options: &CounterOptions) -> Counters {
        let _ = (scope, cpus, options);
        Counters { list: Vec::new() }
    }

    /// All of them, in the order of [`Counters::readings`].
    pub fn list(&self) -> &[Counter] {
        &self.list
    }

    /// Counts another run of the target from now on; samples taken before are
    /// of no use after it.
    pub fn follow(&mut self, scope: &Scope) {
        let _ = scope;
    }

    pub fn sample(&mut self) -> Sample {
        Sample::default()
    }

    /// What happened between two samples, one per counter of the list. `None`:
    /// no reading for these two (unavailable, or it did not run meanwhile).
    pub fn readings(&self, from: &Sample, to: &Sample) -> Vec<Option<f64>> {
        let _ = (from, to);
        vec![None; self.list.len()]
    }

    /// Of the counters that take turns on the CPU's registers, the smallest
    /// share of the time that each was counting, 0–1; its readings are scaled
    /// up by the inverse. `None` for those that always count.
    pub fn running_shares(&self, from: &Sample, to: &Sample) -> Vec<Option<f64>> {
        let _ = (from, to);
        vec![None; self.list.len()]
    }
}
