//! A floor under the target's performance while sources ran.

use crate::reading::Reading;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

/// The performance below which every source stops, and whether it was reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FloorFacts {
    /// As given to `--floor`.
    pub asked: String,
    /// The same in the metric's unit: the lowest rate or the highest latency.
    pub limit: Reading<f64>,
    /// The same as a fraction of performance without interference.
    pub of_baseline: Reading<f64>,
    /// How performance was watched and what counts as below the floor, in words
    /// with numbers.
    pub rule: Reading<String>,
    /// Absent where performance stayed above the floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<FloorReached>,
}

/// How the floor was reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FloorReached {
    /// Performance from the first window below the floor until the decision, in
    /// the metric's unit.
    pub value: f64,
    /// The same as a fraction of performance without interference.
    pub of_baseline: f64,
    /// The source that ran when performance fell, by resource id; absent where
    /// none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Its intensity, percent; absent beside the placebo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intensity_percent: Option<f64>,
    /// From the begin of the measurement to the decision.
    pub at_seconds: f64,
    /// From the begin of the first window below the floor to the decision.
    pub decided_after_seconds: f64,
    /// From there until the last source was at rest.
    pub parked_after_seconds: Reading<f64>,
}
