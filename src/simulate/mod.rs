//! A cluster of discrete events that drives [`schedule`](crate::schedule) and
//! knows what the policies do not.
//!
//! A [`Workload`] is drawn from a scenario and a seed: nodes, jobs with their
//! true behaviour, and what breaks. Policies see only the estimates in it. The
//! same workload is given to every policy.

pub mod consolidation;
mod outcome;
mod settings;
mod truth;
mod workload;

pub use outcome::JobRecord;
pub use outcome::Moment;
pub use outcome::Outcome;
pub use outcome::Timing;
pub use settings::Agents;
pub use settings::Latency;
pub use settings::PhaseDetection;
pub use settings::Settings;
pub use truth::TrueApp;
pub use truth::TrueCurve;
pub use truth::TruePlatform;
pub use truth::Truth;
pub use workload::Fault;
pub use workload::Job;
pub use workload::JobPhase;
pub use workload::Workload;
