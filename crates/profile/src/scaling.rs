//! How performance grows with CPUs and with copies. Pure data.

use crate::Estimate;
use crate::Unknown;
use crate::WarningFacts;
use crate::reading::Reading;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

/// The curves that were measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ScalingFacts {
    /// Performance by the number of CPUs that the target may use (scale-up).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<ScalingCurve>,
    /// Total performance by the number of copies that run at once, each on CPUs
    /// of its own (scale-out).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<ScalingCurve>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Performance at several sizes, as multiples of that at size 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ScalingCurve {
    /// RFC 3339, UTC.
    pub recorded_at: String,
    /// Time that the blocks took.
    pub seconds: f64,
    /// What was read, as given to `--metric`, or why nothing could be read.
    pub metric: Reading<String>,
    /// CPUs that were used, in the order in which sizes take them.
    pub cpus: Vec<usize>,
    /// Ascending sizes; the first is 1.
    pub points: Vec<ScalingPoint>,
    /// What a reader should know before using the curve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<WarningFacts>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// One size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ScalingPoint {
    /// CPUs, or copies.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub size: u32,
    pub speedup: Reading<Speedup>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Whether a speed-up is known as closely as asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SpeedupStatus {
    Measured,
    /// The interval is wider than twice the half-width asked for.
    Unresolved,
}

/// Performance as a multiple of that at size 1; at size 1 exactly 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Speedup {
    pub value: f64,
    pub ci95: [f64; 2],
    pub status: SpeedupStatus,
    /// Blocks behind it, those at size 1 included.
    pub blocks: u64,
    /// Performance at size 1 in the unit of the metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Estimate>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl ScalingCurve {
    /// Sizes with their speed-ups, where these are known; ascending.
    pub fn known(&self) -> impl Iterator<Item = (u32, &Speedup)> {
        let points = self.points.iter();
        points.filter_map(|point| Some((point.size, point.speedup.value()?)))
    }
}
