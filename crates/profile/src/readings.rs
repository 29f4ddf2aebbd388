//! The raw readings of a measurement that did not end.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

/// What an interrupted measurement had read, so that another can go on: only
/// in partial profiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Readings {
    /// Time spent measuring.
    pub elapsed_seconds: f64,
    /// Undisturbed performance at the start, higher is better.
    pub undisturbed: Vec<f64>,
    pub pairs: Vec<PairReading>,
}

/// One pair of windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PairReading {
    /// Resource id.
    pub resource: String,
    /// `tolerated` or `caused`.
    pub half: String,
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 100.0)))]
    pub intensity: f64,
    /// `ln(treat / control)` or `ln(beside the target / alone)`.
    pub log_ratio: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<f64>,
    /// The denominator of the ratio.
    pub reference: f64,
    /// Since the measurement began.
    pub at_seconds: f64,
}
