//! What strategies came to over several seeds.

use super::outcome::CloudOutcome;
use crate::statistics::Figure;
use crate::statistics::Mean;
use crate::statistics::summary;
use jostle_schedule::provision::Strategy;
use serde::Serialize;

summary! {
    /// One strategy over several seeds; each field as in
    /// [`StrategyOutcome`](super::StrategyOutcome), absent when no run has it.
    StrategySummary of CloudOutcome.strategies by strategy: Strategy, with_profiles: bool;
    performance,
    batch_performance,
    service_performance,
    performance_p5,
    performance_running,
    qos_share,
    performance_vs_sr,
    cost,
    cost_vs_sr,
    makespan_minutes,
    reserved_instances,
    reserved_utilization,
    on_demand_instances,
    on_demand_mean,
    poor_share,
    queued,
    wait_seconds,
    break_even_weeks,
}
