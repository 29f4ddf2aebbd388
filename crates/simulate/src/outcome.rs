//! What came of a run.

use serde::Serialize;

/// What became of one job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobRecord {
    /// Index into the workload's jobs.
    pub job: u32,
    pub class: u16,
    pub arrival: f64,
    /// Seconds at which it first ran.
    pub started: f64,
    pub finished: f64,
    /// Seconds it waited for its first place, profiling not counted.
    pub queued_seconds: f64,
    /// Seconds alone on its best platform with the CPUs it asks for; where its
    /// owner set a target, whatever was asked for: at the speed of the target.
    pub ideal_seconds: f64,
    /// ideal seconds / (finished − started): 1 = as alone on the best platform.
    /// With a target at most 1 = the target is reached (Quasar, section 4.6,
    /// "normalized to their performance target"): more than that is of no use
    /// to the owner, and must not make up for jobs that got less.
    pub performance: f64,
    /// ideal seconds / (finished − arrival): what its owner sees; likewise at
    /// most 1 with a target.
    pub with_waiting: f64,
    pub qos: f64,
    /// How often it began anew because a node or unit failed.
    pub restarts: u32,
    pub migrations: u32,
}

/// Moments of the run, at fixed intervals of simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    pub seconds: f64,
    /// Share of the CPUs that are up which are asked for, 0–1.
    pub utilization: f64,
    pub running: u32,
    pub waiting: u32,
}

/// What came of one run; equal to the last bit for equal input.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    pub policy: String,
    pub admission: String,
    pub seed: u64,
    /// In order of the workload's jobs; those that could never fit are missing
    /// here and in `never`.
    pub jobs: Vec<JobRecord>,
    /// Jobs that fit on no node even when empty.
    pub never: Vec<u32>,
    /// From the first arrival to the last end.
    pub makespan_seconds: f64,
    /// CPU-seconds asked for over CPU-seconds that were up, first arrival to
    /// last end.
    pub utilization: f64,
    pub events: u64,
    pub decisions: u64,
    /// Commits that another agent had made impossible.
    pub conflicts: u64,
    pub migrations: u64,
    pub restarts: u64,
    pub samples: Vec<Sample>,
}

/// Real time that a run took; not part of [`Outcome`], as it is never the same
/// twice.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timing {
    pub decision_p50_seconds: f64,
    pub decision_p99_seconds: f64,
    /// Seconds in the policy, all decisions together.
    pub decisions_seconds: f64,
    pub total_seconds: f64,
}
