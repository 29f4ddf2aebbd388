//! A value, or the reason why there is none.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;
use std::fmt;

/// What a source of data answered: a value, or `unavailable` with the reason.
///
/// In JSON a value stands as itself and an absent one as
/// `{"unavailable": "reason"}`. It is never 0 and never left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(untagged)]
pub enum Reading<T> {
    Unavailable { unavailable: String },
    Value(T),
}

impl<T> Reading<T> {
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Reading::Unavailable {
            unavailable: reason.into(),
        }
    }

    pub fn value(&self) -> Option<&T> {
        match self {
            Reading::Value(value) => Some(value),
            Reading::Unavailable { .. } => None,
        }
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            Reading::Value(_) => None,
            Reading::Unavailable { unavailable } => Some(unavailable),
        }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Reading::Value(value) => Reading::Value(f(value)),
            Reading::Unavailable { unavailable } => Reading::Unavailable { unavailable },
        }
    }
}

impl<T> From<Result<T, String>> for Reading<T> {
    fn from(result: Result<T, String>) -> Self {
        match result {
            Ok(value) => Reading::Value(value),
            Err(reason) => Reading::unavailable(reason),
        }
    }
}

impl<T: fmt::Display> fmt::Display for Reading<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reading::Value(value) => value.fmt(f),
            Reading::Unavailable { unavailable } => write!(f, "unavailable: {unavailable}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_the_reason() {
        let absent: Reading<u64> = Reading::unavailable("no PMU");
        let text = serde_json::to_string(&absent).unwrap();
        assert_eq!(text, r#"{"unavailable":"no PMU"}"#);
        assert_eq!(serde_json::from_str::<Reading<u64>>(&text).unwrap(), absent);
        let present: Reading<u64> = Reading::Value(7);
        assert_eq!(serde_json::to_string(&present).unwrap(), "7");
        assert_eq!(serde_json::from_str::<Reading<u64>>("7").unwrap(), present);
    }
}
