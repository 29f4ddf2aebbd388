//! Renting machines: HCloud's strategies on one load (dissertation, chapter 8).
//!
//! A [`CloudScenario`] draws one stream of jobs from a load in vCPUs over time
//! and gives it to every strategy, with and without profiles. Reserved and
//! largest on-demand instances are whole machines of 16 vCPUs; a smaller one is
//! a slice of a machine whose other slices strangers press on, by an amount
//! that changes over time and that no strategy sees. True rates come from
//! [`World`](super::World).

mod load;
mod outcome;
mod population;
mod run;
mod scenario;
mod summary;

pub use outcome::Cheapest;
pub use outcome::CloudOutcome;
pub use outcome::StrategyOutcome;
pub use scenario::CloudError;
pub use scenario::CloudScenario;
pub use scenario::External;
pub use scenario::SpinUp;
pub use summary::StrategySummary;

#[cfg(test)]
mod tests;
