//! What schemes came to, in one run and over several seeds.

use super::scenario::Scheme;
use crate::statistics::Figure;
use crate::statistics::Mean;
use crate::statistics::summary;
use serde::Serialize;

/// What came of one scheme.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SchemeOutcome {
    pub scheme: Scheme,
    /// Node-intervals in use over those of all nodes.
    pub active_share: f64,
    /// Energy of all nodes with an instance each, over that of this scheme.
    pub energy_factor: f64,
    /// Over instances and intervals, as a fraction of what is undisturbed.
    pub mean_performance: f64,
    /// Share of instances × intervals that lose more.
    pub losing_over_3_percent: f64,
    pub losing_over_10_percent: f64,
    /// Bandwidth in use over rated, of nodes in use.
    pub utilization: f64,
    /// Pieces moved, without the first consolidation.
    pub migrations: usize,
    /// Bytes moved over bytes served and moved, without the first.
    pub migration_bandwidth_share: f64,
    pub initially_moved_gb: f64,
    pub most_nodes: usize,
}

/// What came of a run; equal to the last bit for equal input.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConsolidationOutcome {
    pub seed: u64,
    pub instances: usize,
    pub nodes: usize,
    pub intervals: usize,
    /// Mean absolute error of the mirrors' interference over pairs of
    /// applications, as drawn.
    pub mirror_error: f64,
    pub schemes: Vec<SchemeOutcome>,
}

summary! {
    /// One scheme over several seeds; each field as in [`SchemeOutcome`].
    SchemeSummary of ConsolidationOutcome.schemes by scheme: Scheme;
    active_share,
    energy_factor,
    mean_performance,
    losing_over_3_percent,
    losing_over_10_percent,
    utilization,
    migrations,
    migration_bandwidth_share,
    initially_moved_gb,
    most_nodes,
}
