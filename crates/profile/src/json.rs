//! JSON, with errors that name the key they are about.

use serde::Deserializer;
use serde::de::DeserializeOwned;
use serde::de::DeserializeSeed;
use serde::de::MapAccess;
use serde::de::SeqAccess;
use serde::de::Visitor;
use std::fmt;

/// What is wrong in a JSON text, and the key it is about, as `a.b[0].c`: none for what is wrong
/// at the top, or where the text ends too soon.
#[derive(Debug)]
pub struct JsonError {
    pub key: Option<String>,
    pub error: serde_json::Error,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "key `{key}`: {}", self.error),
            None => self.error.fmt(f),
        }
    }
}

impl std::error::Error for JsonError {}

/// Reads the whole of `bytes` as one `T`.
///
/// # Errors
/// What serde_json says, and the key.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    serde_json::from_slice(bytes).map_err(|error| JsonError {
        key: key(bytes, &error),
        error,
    })
}

/// serde_json tells the line and the column that it had read to: the end of the value or the
/// name that was wrong, or the bracket that opens it. So the text up to there is read again, and
/// what was read last is what the error is about.
fn key(bytes: &[u8], error: &serde_json::Error) -> Option<String> {
    let lines_before = error.line().checked_sub(1).filter(|_| !error.is_eof())?;
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.take(lines_before).map(<[u8]>::len).sum();
    let read = before + error.column();
    let opens = matches!(bytes.get(read), Some(b'{' | b'['));
    let read = bytes.get(..read + usize::from(opens))?;
    let mut last = Vec::new();
    // The text ends in the middle, which is an error too.
    let _ = Walk {
        last: &mut last,
        depth: 0,
    }
    .deserialize(&mut serde_json::Deserializer::from_slice(read));
    let key: String = last.iter().map(Step::to_string).collect();
    let key = key.strip_prefix('.').unwrap_or(&key);
    Some(key.to_string()).filter(|key| !key.is_empty())
}

enum Step {
    Name(String),
    Index(usize),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, ".{name}"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Reads anything. `last` is the way to what was read last, its first `depth` steps that to this
/// value.
struct Walk<'a> {
    last: &'a mut Vec<Step>,
    depth: usize,
}

impl Walk<'_> {
    /// That of the value to which `step` leads from this one.
    fn to(&mut self, step: Step) -> Walk<'_> {
        self.last.truncate(self.depth);
        self.last.push(step);
        Walk {
            last: self.last,
            depth: self.depth + 1,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

/// An element of a list: its step is taken when it begins, as the list may also end there.
struct Element<'a, 'b> {
    list: &'a mut Walk<'b>,
    index: usize,
}

impl<'de> DeserializeSeed<'de> for Element<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        self.list.to(Step::Index(self.index)).deserialize(json)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut json: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(()) = json.next_element_seed(Element {
            list: &mut self,
            index,
        })? {
            index += 1;
        }
        self.last.truncate(self.depth);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut json: A) -> Result<(), A::Error> {
        while let Some(name) = json.next_key()? {
            json.next_value_seed(self.to(Step::Name(name)))?;
        }
        self.last.truncate(self.depth);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Top {
        #[serde(default)]
        _small: u8,
        #[serde(default)]
        _list: Vec<u8>,
        #[serde(default)]
        _word: Option<Word>,
        #[serde(default)]
        _map: BTreeMap<String, Vec<Inner>>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {
        _x: f64,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        One,
    }

    #[test]
    fn an_error_names_the_key_it_is_about() {
        for (text, key) in [
            (r#"{"_small":300}"#, Some("_small")),
            (r#"{"_small": 300 , "_list": []}"#, Some("_small")),
            (r#"{"_small":"a\"b"}"#, Some("_small")),
            (r#"{"_small":null}"#, Some("_small")),
            (r#"{"_small":{}}"#, Some("_small")),
            (r#"{"_list":5}"#, Some("_list")),
            (r#"{"_list":[1,-2,3]}"#, Some("_list[1]")),
            (r#"{"_list":[1, [2]]}"#, Some("_list[1]")),
            (r#"{"_list":[[2]]}"#, Some("_list[0]")),
            (r#"{"_list":[ {}]}"#, Some("_list[0]")),
            (r#"{"_list":[1,2,true]}"#, Some("_list[2]")),
            (r#"{"_list":[1,2],"_small":1.5}"#, Some("_small")),
            (r#"{"_word":"two"}"#, Some("_word")),
            (r#"{"other":[1]}"#, Some("other")),
            (
                "{\n \"_small\": 1,\n \"_map\": {\n  \"a\\\"b\": [{\"_x\": 1},\n   {\"_x\": \"y\"}]}}",
                Some("_map.a\"b[1]._x"),
            ),
            (r#"{"_map":{"ü":[{"_x":1},{}],"b":[]}}"#, Some("_map.ü[1]")),
            (r#"{"_map":{"a":[{"_x":1}],"b":[1]}}"#, Some("_map.b[0]")),
            (r#"{"_map":{"a":[{"_x":1e999}]}}"#, Some("_map.a[0]._x")),
            ("7", None),
            ("", None),
            (r#"{"_small":"#, None),
            (r#"{"_small":1} x"#, None),
        ] {
            let error = read::<Top>(text.as_bytes()).unwrap_err();
            assert_eq!(error.key.as_deref(), key, "{text}: {}", error.error);
        }
    }
}
