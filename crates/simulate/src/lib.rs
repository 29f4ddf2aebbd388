#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod agenda;
mod arrivals;
pub mod cloud;
pub mod consolidation;
mod engine;
mod error;
mod estimate;
mod hardware;
mod number;
mod outcome;
mod population;
mod random;
mod run;
mod scenario;
mod settings;
mod statistics;
mod summary;
mod truth;
mod validate;
mod windows;
mod workload;
mod world;

pub use engine::Scheduler;
pub use error::*;
pub use estimate::Profiling;
pub use outcome::*;
pub use population::Structure;
pub use population::scored;
pub use population::scores;
pub use run::*;
pub use scenario::Scenario;
pub use scenario::ScenarioFile;
pub use settings::*;
pub use statistics::Mean;
pub use summary::*;
pub use truth::*;
pub use windows::*;
pub use workload::*;
