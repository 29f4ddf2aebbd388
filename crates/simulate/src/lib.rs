//! A cluster of discrete events that drives [`schedule`](jostle_schedule) and
//! knows what the policies do not.
//!
//! A [`Workload`] is drawn from a scenario and a seed: nodes, jobs with their
//! true behaviour, and what breaks. Policies see only the estimates in it. The
//! same workload is given to every policy.

mod agenda;
pub mod arrivals;
pub mod cloud;
pub mod consolidation;
mod engine;
mod error;
mod estimate;
pub mod hardware;
mod mean;
mod number;
mod outcome;
pub mod population;
mod random;
mod run;
mod scenario;
mod settings;
mod summary;
mod truth;
mod validate;
mod windows;
mod workload;
mod world;

pub use engine::Scheduler;
pub use error::InvalidKey;
pub use error::Problem;
pub use error::RecordedError;
pub use error::ScenarioError;
pub use error::SimulationError;
pub use error::WorldError;
pub use estimate::Profiling;
pub use mean::Mean;
pub use outcome::JobRecord;
pub use outcome::Moment;
pub use outcome::Outcome;
pub use outcome::Timing;
pub use run::run;
pub use run::run_all;
pub use run::run_with;
pub use scenario::Scenario;
pub use scenario::ScenarioFile;
pub use scenario::admissions;
pub use settings::Agents;
pub use settings::Latency;
pub use settings::PhaseDetection;
pub use settings::Settings;
pub use summary::DecisionTimes;
pub use summary::Figures;
pub use summary::Summary;
pub use summary::performance_cdf;
pub use truth::TrueApp;
pub use truth::TrueCurve;
pub use truth::TruePlatform;
pub use truth::Truth;
pub use windows::Windows;
pub use windows::windows;
pub use windows::windows_with;
pub use workload::Fault;
pub use workload::Job;
pub use workload::JobPhase;
pub use workload::Workload;
pub use world::Happening;
pub use world::Left;
pub use world::Step;
pub use world::World;
pub use world::counters::counter_names;
