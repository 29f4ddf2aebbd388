//! Storage on few nodes through days of changing demand: BLOC's evaluation
//! (dissertation, appendix B) as a simulation of its own, in intervals instead
//! of events.
//!
//! The truth, demand to come and what applications really lose beside each
//! other, is drawn from a seed; schemes see demand that has passed and what
//! mirrors measured of pairs, with their error.

mod drive;
mod outcome;
mod scenario;
mod scene;

pub use outcome::*;
pub use scenario::ConsolidationScenario;
pub use scenario::Scheme;
pub use scenario::StorageApp;
pub use scenario::StoreType;

use crate::error::InvalidKey;

impl ConsolidationScenario {
    /// Runs every scheme on the truth of `seed`.
    ///
    /// # Errors
    ///
    /// Names the parameter that cannot be.
    pub fn run(&self, seed: u64) -> Result<ConsolidationOutcome, InvalidKey> {
        self.check()?;
        let scene = scene::Scene::draw(self, seed);
        let schemes = self.schemes.iter();
        Ok(ConsolidationOutcome {
            seed,
            instances: scene.instances.len(),
            nodes: scene.stores.len(),
            intervals: scene.intervals,
            mirror_error: scene.mirror_error(),
            schemes: schemes
                .map(|scheme| drive::drive(self, &scene, *scheme))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests;
