//! Windows for wrangler to learn from.

use super::Args;
use super::unwritten;
use crate::cli::output;
use crate::error::Error;
use crate::error::Result;
use jostle_profile::document;
use jostle_simulate as simulate;
use jostle_simulate::Scenario;
use std::path::Path;

/// Runs the first policy once, first come, first served, and writes labelled
/// windows of it to `path`.
pub fn write(scenario: &Scenario, args: &Args, path: &Path) -> Result<()> {
    let policies = args.policies.iter().chain(&scenario.policies);
    let policy = policies.map(String::as_str).next().unwrap_or_default();
    let failed = |error: simulate::SimulationError| {
        Error::request(format!(
            "{}, {policy}, seed {}: {error}",
            scenario.name, args.seed
        ))
    };
    let workload = scenario
        .workload(args.seed)
        .map_err(|error| Error::request(error.to_string()))?;
    let settings = scenario.settings(policy, "none", args.seed);
    let windows = simulate::windows(&workload, &settings).map_err(failed)?;
    let mut csv = Vec::new();
    windows
        .write_csv(&mut csv)
        .map_err(|error| unwritten(path, error))?;
    document::replace(path, &csv).map_err(|error| unwritten(path, error))?;
    output::text(&format!(
        "{}: {} windows of {policy}, seed {}; in {} of them the job straggled\n",
        path.display(),
        windows.len(),
        args.seed,
        windows.stragglers()
    ))
}
