//! What the plugin asks when a job is submitted, and what it is answered.

use serde::Deserialize;
use serde::Serialize;

/// A job as it is submitted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Question {
    pub event: String,
    pub profile: String,
    pub cpus: u32,
    pub memory_mb: u64,
    /// Separated by commas; empty for the default one.
    pub partition: String,
    /// Nodes that the user excludes, as Slurm writes a list.
    pub exclude: String,
    /// Why the job is not steered; empty where it may be.
    pub fixed: String,
}

/// What is to be done with it. Texts hold no quotes, backslashes or control
/// characters: the plugin does not read JSON, it looks for them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// Write this into the admin comment, require the node, or let it wait.
    Steer {
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        wait: Option<u64>,
        comment: String,
    },
    /// Nothing, and why.
    None { why: String },
}

/// Reads a line of the plugin.
///
/// # Errors
/// In words.
pub fn read(line: &str) -> Result<Question, String> {
    let question: Question = serde_json::from_str(line).map_err(|error| error.to_string())?;
    match question.event.as_str() {
        "submit" => Ok(question),
        other => Err(format!("no event is called {other:?}; there is submit")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_needs_its_event_alone_and_may_have_more() {
        let question = read(r#"{"event":"submit","profile":"xz","cpus":2,"new":[1]}"#).unwrap();
        assert_eq!((question.profile.as_str(), question.cpus), ("xz", 2));
        for bad in [
            "",
            "{}",
            "[]",
            r#"{"event":"cancel"}"#,
            r#"{"event":"submit","cpus":-1}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn answers_are_as_the_plugin_looks_for_them() {
        let answer = Answer::Steer {
            node: Some("n1".into()),
            wait: None,
            comment: "why".into(),
        };
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(text, r#"{"answer":"steer","node":"n1","comment":"why"}"#);
    }
}
