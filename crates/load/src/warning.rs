//! What a reader of the results must know. All warning texts of the crate are
//! in this file.

use crate::failure::Failures;
use crate::placement::SharedCpus;
use std::fmt;
use std::time::Duration;

/// Sending later than this after the intended time, at p99, is warned of.
pub const TIMING_BOUND: Duration = Duration::from_micros(50);

/// A caution about a load, with what is needed to judge it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// The generator had no CPU of its own.
    SharedCpus {
        shared: SharedCpus,
        /// What it used, percent of one CPU.
        cpu_percent: f64,
    },
    /// It sent later than [`TIMING_BOUND`] after the intended time, at p99.
    SentLate {
        p99: Duration,
    },
    RequestsFailed {
        failures: Failures,
        due: u64,
    },
    /// The same rate now met the target and now did not.
    NoisyCapacity {
        slo: String,
        met_per_second: f64,
        missed_per_second: Option<f64>,
    },
    /// The generator could not send fast enough to find the limit.
    CapacityAtLeast {
        per_second: f64,
    },
    /// The search for the capacity ended by its limit of time.
    CapacitySearchCutShort {
        limit: Duration,
        slo: String,
        met_per_second: f64,
        missed_per_second: Option<f64>,
    },
}

impl Warning {
    /// A short name that stays the same between versions.
    pub fn code(&self) -> &'static str {
        match self {
            Warning::SharedCpus { .. } => "load-shared-cpus",
            Warning::SentLate { .. } => "load-sent-late",
            Warning::RequestsFailed { .. } => "load-requests-failed",
            Warning::NoisyCapacity { .. } => "load-noisy-capacity",
            Warning::CapacityAtLeast { .. } => "load-capacity-at-least",
            Warning::CapacitySearchCutShort { .. } => "load-capacity-search-cut-short",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::SharedCpus {
                shared,
                cpu_percent,
            } => write!(
                f,
                "the load generator shares CPU {} with {}: there was no CPU for it alone; it took \
                 {cpu_percent:.0} % of one CPU",
                shared.cpus,
                match shared.with_target {
                    true => "the target",
                    false => "sources, which yield to it",
                }
            ),
            Warning::SentLate { p99 } => write!(
                f,
                "the load generator sent late by up to {:.0} µs at p99 (more than {} µs), which is \
                 part of every latency",
                p99.as_secs_f64() * 1e6,
                TIMING_BOUND.as_micros()
            ),
            Warning::RequestsFailed { failures, due } => write!(
                f,
                "{} of {due} requests failed: {failures}",
                failures.total()
            ),
            Warning::NoisyCapacity {
                slo,
                met_per_second,
                missed_per_second,
            } => {
                write!(f, "the capacity is known no better than ")?;
                match missed_per_second {
                    Some(missed) => write!(f, "between {met_per_second:.0} and {missed:.0}")?,
                    None => write!(f, "above {met_per_second:.0}")?,
                }
                write!(
                    f,
                    " requests/s: the same rate met {slo} in one window and missed it in the next"
                )
            }
            Warning::CapacityAtLeast { per_second } => write!(
                f,
                "the capacity is at least {per_second:.0} requests/s: the load generator could not \
                 send faster on time"
            ),
            Warning::CapacitySearchCutShort {
                limit,
                slo,
                met_per_second,
                missed_per_second,
            } => {
                write!(
                    f,
                    "the search for the capacity was ended after {} s: {met_per_second:.0} \
                     requests/s met {slo}",
                    limit.as_secs()
                )?;
                match missed_per_second {
                    Some(missed) => write!(f, ", {missed:.0} did not")?,
                    None => write!(f, ", more was not tried")?,
                }
                write!(
                    f,
                    "; something else may have run on the machine or a low rate needs long windows"
                )
            }
        }
    }
}
