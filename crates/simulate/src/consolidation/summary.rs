//! What schemes came to over several seeds.

use super::outcome::ConsolidationOutcome;
use super::scenario::Scheme;
use crate::statistics::Figure;
use crate::statistics::Mean;
use crate::statistics::summary;
use serde::Serialize;

summary! {
    /// One scheme over several seeds; each field as in
    /// [`SchemeOutcome`](super::SchemeOutcome).
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
