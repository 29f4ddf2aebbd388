//! The JSON Schemas of what jostle writes.

use super::Profile;
use super::blame::Blame;
use super::node::NodeState;
use super::pairs::Pairs;
use super::provision::Provision;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use std::collections::BTreeMap;

/// JSON Schema 2020-12 of `jostle-profile/1`, for what [`super::load`]
/// accepts. Keys are sorted, so that its text does not depend on how
/// `serde_json` was built.
pub fn schema() -> Value {
    of::<Profile>(
        "jostle-profile-1",
        "Jostle profile, format jostle-profile/1",
    )
}

/// The same of `jostle-pairs/1`, for what [`super::pairs::load`] accepts.
pub fn pairs_schema() -> Value {
    of::<Pairs>("jostle-pairs-1", "Jostle pairs, format jostle-pairs/1")
}

/// The same of `jostle-blame/1`, for what [`super::blame::load`] accepts.
pub fn blame_schema() -> Value {
    of::<Blame>("jostle-blame-1", "Jostle blame, format jostle-blame/1")
}

/// The same of `jostle-node/1`, which an agent shows.
pub fn node_schema() -> Value {
    of::<NodeState>("jostle-node-1", "Jostle node, format jostle-node/1")
}

/// The same of `jostle-provision/1`, which `jostle provision --json` prints.
pub fn provision_schema() -> Value {
    of::<Provision>(
        "jostle-provision-1",
        "Jostle provision, format jostle-provision/1",
    )
}

fn of<T: JsonSchema>(id: &str, title: &str) -> Value {
    let mut schema = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<T>();
    schema.insert(
        "$id".into(),
        Value::String(format!("urn:jostle:schema:{id}")),
    );
    schema.insert("title".into(), Value::String(title.into()));
    sorted(schema.to_value())
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries = map.into_iter().map(|(key, value)| (key, sorted(value)));
            let in_order: BTreeMap<String, Value> = entries.collect();
            Value::Object(in_order.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
