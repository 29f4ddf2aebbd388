//! Which runs a merged profile rests on. Pure data.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

/// Several measurements of one program on one machine, taken together. Its
/// intervals hold the spread from one run to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MergedFacts {
    /// In order of time.
    pub runs: Vec<MergedRun>,
    /// Standard deviation of performance from one run to the next that all
    /// resources show together, percent.
    pub spread_percent: f64,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MergedRun {
    /// RFC 3339, UTC.
    pub recorded_at: String,
    pub duration_seconds: f64,
    pub seed: u64,
    pub tool_version: String,
}
