//! What the target used by itself, read directly. Pure data.

use crate::reading::Reading;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeMap;

/// What the target used while nothing interfered with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Usage {
    /// Time without interference that the rates are taken from, spread over
    /// the measurement.
    pub seconds: f64,
    /// Parts of this time that were read one by one; the intervals come from
    /// the differences between them.
    pub parts: u64,
    /// By quantity: what was read, or why it could not be read.
    #[serde(default)]
    pub quantities: BTreeMap<String, Reading<UsedQuantity>>,
}

/// Who a number is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UsedBy {
    Target,
    /// Everything in the target's network namespace.
    Namespace,
    /// Everybody on this machine: the target used this much at most.
    Machine,
}

/// A rate or a size, and how much of the machine it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct UsedQuantity {
    pub value: f64,
    pub ci95: [f64; 2],
    pub unit: String,
    pub of: UsedBy,
    /// File or counter it was read from.
    pub source: String,
    /// Resource that `share` is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// How much of the peak it is, or why that cannot be told.
    pub share: Reading<UsedShare>,
}

/// A share of a peak.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct UsedShare {
    /// May exceed 100 where the target gets more out of a resource than its
    /// source of interference does.
    pub percent: f64,
    pub ci95: [f64; 2],
    /// What 100 % stands for, in the unit of the value.
    pub peak: f64,
    /// Where the peak comes from, in words.
    pub peak_from: String,
    /// How this compares with `equivalent_intensity` of the resource, in
    /// words; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_probe: Option<String>,
}
