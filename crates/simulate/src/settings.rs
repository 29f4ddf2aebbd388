//! How a run is conducted.

use crate::number;
use jostle_schedule::admission::AdmissionOptions;
use serde::Deserialize;

/// Scheduler agents that work at the same time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Agents {
    /// 1 = one scheduler with the true state.
    #[serde(deserialize_with = "number::count")]
    pub count: usize,
    /// An agent's own copy of the cluster is brought up to date every so many
    /// seconds, drawn anew each time between the two.
    #[serde(deserialize_with = "number::interval")]
    pub sync_seconds: [f64; 2],
}

impl Default for Agents {
    fn default() -> Self {
        Agents {
            count: 1,
            sync_seconds: [5.0, 10.0],
        }
    }
}

/// How long a decision takes on the simulated clock. An agent makes one
/// decision after the other.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Latency {
    #[serde(deserialize_with = "number::not_negative")]
    pub base_seconds: f64,
    /// For each node or unit that the policy looked at.
    #[serde(deserialize_with = "number::not_negative")]
    pub per_examined_seconds: f64,
}

impl Default for Latency {
    fn default() -> Self {
        Latency {
            base_seconds: 0.005,
            per_examined_seconds: 1e-5,
        }
    }
}

/// What happens when a running job changes its behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PhaseDetection {
    /// Chance that a change of phase is noticed at all.
    #[serde(rename = "noticed_percent", deserialize_with = "number::percent")]
    pub chance: f64,
    /// Seconds from the change until the new profile is there.
    #[serde(deserialize_with = "number::not_negative")]
    pub delay_seconds: f64,
    /// Seconds a migration stops the job: median and sigma of a lognormal.
    #[serde(rename = "median_seconds", deserialize_with = "number::positive")]
    pub migration_median_seconds: f64,
    #[serde(rename = "sigma", deserialize_with = "number::not_negative")]
    pub migration_sigma: f64,
    /// Policies may move jobs.
    #[serde(rename = "allowed")]
    pub migrate: bool,
}

impl Default for PhaseDetection {
    fn default() -> Self {
        PhaseDetection {
            chance: 0.94,
            delay_seconds: 20.0,
            migration_median_seconds: 5.0,
            migration_sigma: 0.5,
            migrate: true,
        }
    }
}

/// How one run is conducted.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// A name of [`POLICIES`](jostle_schedule::POLICIES).
    pub policy: String,
    /// A name of [`ADMISSIONS`](jostle_schedule::admission::ADMISSIONS).
    pub admission: String,
    /// What it is told; its seed is that of each agent.
    pub admission_options: AdmissionOptions,
    pub seed: u64,
    pub agents: Agents,
    pub latency: Latency,
    pub phases: PhaseDetection,
}
