//! What a counter is, and which ones are asked for.

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
