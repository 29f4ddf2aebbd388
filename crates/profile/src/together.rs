//! What two sources cost at once. Pure data.

use crate::Estimate;
use crate::reading::Reading;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

/// Two sources that pressed at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Together {
    /// Ids of the two resources.
    pub resources: [String; 2],
    pub effect: Reading<Interaction>,
}

/// What the target kept beside two sources at 100 %, of its speed beside the
/// placebo: beside each, beside both, and how far both differ from the product of the
/// two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Interaction {
    /// Beside the one source and beside the other, as fractions, in the order of
    /// `resources`, measured in the same blocks as both.
    pub each: [Estimate; 2],
    pub both: Estimate,
    /// `both` ÷ (the product of `each`): 1 where each costs the same whatever the
    /// other does, above 1 where they cost less together, below where they cost more.
    pub factor: Estimate,
    /// Pressure that each source reached beside the other one, percent of what it
    /// reached without; absent where it cannot be read.
    pub arrived_percent: [Option<f64>; 2],
    /// Blocks beside both.
    pub blocks: u64,
}
