//! Renting machines: HCloud's strategies on one load (dissertation, chapter 8).
//!
//! A [`CloudScenario`] draws one stream of jobs from a load in vCPUs over time
//! and gives it to every strategy, with and without profiles. Reserved and
//! largest on-demand instances are whole machines of 16 vCPUs; a smaller one is
//! a slice of a machine whose other slices co-tenants press on, by an amount
//! that changes over time and that no strategy sees. True rates come from
//! [`World`](crate::World).

mod load;
mod outcome;
mod population;
mod run;
mod scenario;

pub use outcome::*;
pub use scenario::CloudScenario;
pub use scenario::External;
pub use scenario::SpinUp;

use crate::error::InvalidKey;
use jostle_schedule::provision::Strategy;
use population::Population;
use rayon::prelude::*;

impl CloudScenario {
    /// Runs every strategy on the load drawn from `seed`, in parallel; equal to
    /// the last bit for equal input.
    ///
    /// # Errors
    ///
    /// As [`Self::check`].
    pub fn run(&self, seed: u64) -> Result<CloudOutcome, InvalidKey> {
        self.check()?;
        let population = Population::draw(self, seed);
        let jobs = load::draw(self, &population, seed);
        let runs: Vec<(Strategy, bool)> = self
            .with_profiles
            .iter()
            .flat_map(|known| self.strategies.iter().map(|strategy| (*strategy, *known)))
            .collect();
        let records = runs
            .into_par_iter()
            .map(|(strategy, known)| run::run(self, &population, &jobs, strategy, known, seed))
            .collect::<Result<_, _>>()?;
        Ok(CloudOutcome::of(self, seed, records))
    }
}

#[cfg(test)]
mod tests;
