//! The JSON Schema of a profile.

use super::Profile;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use std::collections::BTreeMap;

/// JSON Schema 2020-12 of `jostle-profile/1`, for what [`super::load`]
/// accepts. Keys are sorted, so that its text does not depend on how
/// `serde_json` was built.
pub fn schema() -> Value {
    let mut schema = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<Profile>();
    schema.insert(
        "$id".into(),
        Value::String("urn:jostle:schema:jostle-profile-1".into()),
    );
    schema.insert(
        "title".into(),
        Value::String("Jostle profile, format jostle-profile/1".into()),
    );
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
