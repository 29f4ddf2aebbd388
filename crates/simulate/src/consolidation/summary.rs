//! What schemes came to over several seeds.

use super::outcome::ConsolidationOutcome;
use super::outcome::SchemeOutcome;
use super::scenario::Scheme;
use crate::mean::Mean;
use serde::Serialize;

/// One scheme over several seeds; each field as in [`SchemeOutcome`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SchemeSummary {
    pub scheme: Scheme,
    pub active_share: Option<Mean>,
    pub energy_factor: Option<Mean>,
    pub mean_performance: Option<Mean>,
    pub losing_over_3_percent: Option<Mean>,
    pub losing_over_10_percent: Option<Mean>,
    pub utilization: Option<Mean>,
    pub migrations: Option<Mean>,
    pub migration_bandwidth_share: Option<Mean>,
    pub initially_moved_gb: Option<Mean>,
    pub most_nodes: Option<Mean>,
}

impl SchemeSummary {
    /// Schemes in the order of the first outcome; all outcomes are of one
    /// scenario.
    pub fn all(outcomes: &[ConsolidationOutcome]) -> Vec<SchemeSummary> {
        let count = outcomes.first().map_or(0, |first| first.schemes.len());
        (0..count)
            .map(|at| {
                let runs: Vec<&SchemeOutcome> = outcomes
                    .iter()
                    .filter_map(|outcome| outcome.schemes.get(at))
                    .collect();
                let all = |of: fn(&SchemeOutcome) -> f64| Mean::of(runs.iter().map(|run| of(run)));
                SchemeSummary {
                    scheme: runs[0].scheme,
                    active_share: all(|run| run.active_share),
                    energy_factor: all(|run| run.energy_factor),
                    mean_performance: all(|run| run.mean_performance),
                    losing_over_3_percent: all(|run| run.losing_over_3_percent),
                    losing_over_10_percent: all(|run| run.losing_over_10_percent),
                    utilization: all(|run| run.utilization),
                    migrations: all(|run| run.migrations as f64),
                    migration_bandwidth_share: all(|run| run.migration_bandwidth_share),
                    initially_moved_gb: all(|run| run.initially_moved_gb),
                    most_nodes: all(|run| run.most_nodes as f64),
                }
            })
            .collect()
    }
}
