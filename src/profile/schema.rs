//! The JSON Schema of a profile.

use serde_json::Value;

/// JSON Schema 2020-12 of `jostle-profile/1`.
pub fn schema() -> Value {
    unimplemented!()
}
