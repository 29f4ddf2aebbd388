//! Many runs at once.

use super::engine::Scheduler;
use super::engine::run;
use super::engine::run_with;
use super::error::SimulationError;
use super::outcome::Outcome;
use super::outcome::Timing;
use super::settings::Settings;
use super::workload::Workload;
use rayon::prelude::*;

/// Every run by itself, on as many threads as the pool has; results in the
/// order given, each as it would be alone but for its [`Timing`].
pub fn run_all(runs: &[(&Workload, Settings)]) -> Vec<Result<(Outcome, Timing), SimulationError>> {
    let each = runs.par_iter();
    each.map(|(workload, settings)| run(workload, settings))
        .collect()
}

/// [`run_all`] with agents made by `scheduler` from the settings of their run
/// and a seed.
pub fn run_all_with(
    runs: &[(&Workload, Settings)],
    scheduler: impl Fn(&Settings, u64) -> Scheduler + Sync,
) -> Vec<Result<(Outcome, Timing), SimulationError>> {
    let each = runs.par_iter();
    each.map(|(workload, settings)| {
        run_with(workload, settings, &mut |seed| scheduler(settings, seed))
    })
    .collect()
}
