//! What strategies came to over several seeds.

use super::outcome::CloudOutcome;
use super::outcome::StrategyOutcome;
use crate::mean::Mean;
use jostle_schedule::provision::Strategy;
use serde::Serialize;

/// One strategy over several seeds; each field as in [`StrategyOutcome`],
/// absent when no run has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StrategySummary {
    pub strategy: Strategy,
    pub with_profiles: bool,
    pub performance: Option<Mean>,
    pub batch_performance: Option<Mean>,
    pub service_performance: Option<Mean>,
    pub performance_p5: Option<Mean>,
    pub performance_running: Option<Mean>,
    pub qos_share: Option<Mean>,
    pub performance_vs_sr: Option<Mean>,
    pub cost: Option<Mean>,
    pub cost_vs_sr: Option<Mean>,
    pub makespan_minutes: Option<Mean>,
    pub reserved_instances: Option<Mean>,
    pub reserved_utilization: Option<Mean>,
    pub on_demand_instances: Option<Mean>,
    pub on_demand_mean: Option<Mean>,
    pub poor_share: Option<Mean>,
    pub queued: Option<Mean>,
    pub wait_seconds: Option<Mean>,
    pub break_even_weeks: Option<Mean>,
}

impl StrategySummary {
    /// Strategies in the order of the first outcome; all outcomes are of one
    /// scenario.
    pub fn all(outcomes: &[CloudOutcome]) -> Vec<StrategySummary> {
        let count = outcomes.first().map_or(0, |first| first.strategies.len());
        (0..count)
            .map(|at| {
                let runs: Vec<&StrategyOutcome> = outcomes
                    .iter()
                    .filter_map(|outcome| outcome.strategies.get(at))
                    .collect();
                StrategySummary::of(runs[0], &runs)
            })
            .collect()
    }

    fn of(first: &StrategyOutcome, runs: &[&StrategyOutcome]) -> StrategySummary {
        let some = |of: fn(&StrategyOutcome) -> Option<f64>| {
            Mean::of(runs.iter().filter_map(|run| of(run)))
        };
        let all = |of: fn(&StrategyOutcome) -> f64| Mean::of(runs.iter().map(|run| of(run)));
        StrategySummary {
            strategy: first.strategy,
            with_profiles: first.with_profiles,
            performance: all(|run| run.performance),
            batch_performance: some(|run| run.batch_performance),
            service_performance: some(|run| run.service_performance),
            performance_p5: all(|run| run.performance_p5),
            performance_running: all(|run| run.performance_running),
            qos_share: all(|run| run.qos_share),
            performance_vs_sr: some(|run| run.performance_vs_sr),
            cost: all(|run| run.cost),
            cost_vs_sr: some(|run| run.cost_vs_sr),
            makespan_minutes: all(|run| run.makespan_minutes),
            reserved_instances: all(|run| f64::from(run.reserved_instances)),
            reserved_utilization: some(|run| run.reserved_utilization),
            on_demand_instances: all(|run| run.on_demand_instances as f64),
            on_demand_mean: all(|run| run.on_demand_mean),
            poor_share: some(|run| run.poor_share),
            queued: all(|run| run.queued as f64),
            wait_seconds: all(|run| run.wait_seconds),
            break_even_weeks: some(|run| run.break_even_weeks),
        }
    }
}
