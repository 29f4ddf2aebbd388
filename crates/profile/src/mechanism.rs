//! What moved while a source pressed, and how the target itself changed.

use super::Estimate;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

/// What a counter counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CounterFacts {
    pub unit: String,
    /// Whose doing it is: `target`, `cpus` (the target's CPUs, whoever runs on
    /// them) or `machine`.
    pub owner: String,
    /// Where it was read, like `perf hardware` or `/proc/pressure`.
    pub source: String,
    /// Smallest share of a window, 0–1, that it was counting while it took
    /// turns with others on the CPU's registers; its readings are scaled up by
    /// the inverse. Absent when it always counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub running_share: Option<f64>,
}

/// One counter under both arms, at the highest intensity measured. Its unit
/// stands in `conditions.counters`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CounterPair {
    pub control: f64,
    pub treat: f64,
    /// treat ÷ control, where both are mostly above zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Estimate>,
    /// treat − control, where there is no ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Estimate>,
    /// True when the change is certain, with the chance of any false one over
    /// all counters and resources of the profile held under 5 %.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moved: bool,
    /// Pairs of windows behind it.
    #[serde(default, skip_serializing_if = "none")]
    pub pairs: u64,
}

/// A stretch of time in which the target ran at a level of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Phase {
    /// Since the measurement began.
    pub from_seconds: f64,
    pub to_seconds: f64,
    /// Performance as a fraction of the fastest phase's.
    pub level: f64,
}

/// Performance at the highest intensity in one phase of the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PhasePerformance {
    /// As in `conditions.phases`; phases of the same level are taken together.
    pub level: f64,
    /// Fraction of the performance under control in the same phase.
    pub performance: f64,
    pub ci95: [f64; 2],
    pub windows: u64,
}

fn none(pairs: &u64) -> bool {
    *pairs == 0
}
