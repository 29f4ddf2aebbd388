//! A warning as a profile keeps it.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A caution about the numbers, for programs that filter or count them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct WarningFacts {
    /// Kebab case; stays the same between versions.
    pub code: String,
    /// The sentence, as in `doubts`.
    pub message: String,
    /// The numbers in it, units in the key names.
    #[serde(flatten)]
    pub fields: BTreeMap<String, Value>,
}
