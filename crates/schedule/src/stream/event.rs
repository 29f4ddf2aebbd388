//! What a line of the stream may say.

use crate::error::StreamError;
use crate::nodes_file::check_cpus;
use crate::nodes_file::parse_memory;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::document::DocumentError;
use jostle_profile::json;
use jostle_profile::node;
use jostle_profile::node::NodeState;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Longest name of a job, a node or an application, bytes. Slurm and Kubernetes allow 253.
const LONGEST_NAME: usize = 1024;
/// Thirty thousand years: whatever clock the caller has, and sums stay exact to a
/// millisecond.
const MOST_SECONDS: f64 = 1e12;
/// As in a nodes file.
const MOST_SPEED: f64 = 1e9;

/// One line of the stream: every key that an event may have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Event {
    pub event: String,
    /// Seconds on the caller's clock.
    pub at: Option<f64>,
    id: Option<String>,
    name: Option<String>,
    /// Which application: one that is known, or the name of the one described.
    pub app: Option<String>,
    #[serde(rename = "profile")]
    profile_text: Option<Box<RawValue>>,
    #[serde(skip)]
    pub profile: Option<Box<Profile>>,
    cpus: Option<i64>,
    memory: Option<String>,
    pub platform: Option<String>,
    pub shares_cpus: Option<bool>,
    pub spread: Option<bool>,
    pub target: Option<f64>,
    /// How long it would take alone on its best platform; what a move has cost.
    pub seconds: Option<f64>,
    pub seconds_left: Option<f64>,
    /// What a node read, by the names of columns; null where unavailable.
    pub readings: Option<BTreeMap<String, Option<f64>>>,
    /// The same as its agent tells it.
    #[serde(rename = "state")]
    state_text: Option<Box<RawValue>>,
    #[serde(skip)]
    pub state: Option<Box<NodeState>>,
}

/// The event of `line`, its numbers checked.
///
/// # Errors
///
/// [`StreamError`]: what is wrong and how to mend it.
pub(super) fn parse(line: &str) -> Result<Event, StreamError> {
    // An array of values in the order of the keys would otherwise do.
    if !line.trim_start().starts_with('{') {
        return Err(StreamError::NotAnObject);
    }
    let mut event: Event = json::read(line.as_bytes()).map_err(|error| {
        let problem = without_line(&error.error);
        match error.key {
            None => StreamError::Json(problem),
            Some(key) => StreamError::key(key, problem),
        }
    })?;
    event.profile = document("profile", event.profile_text.take(), profile::parse)?;
    event.state = document("state", event.state_text.take(), node::parse)?;
    Ok(event)
}

/// The document that stands under `key`, by the reader of its format.
fn document<T>(
    key: &str,
    text: Option<Box<RawValue>>,
    read: fn(&[u8]) -> Result<T, DocumentError>,
) -> Result<Option<Box<T>>, StreamError> {
    let document = text.map(|text| read(text.get().as_bytes())).transpose();
    let document = document.map_err(|error| match error {
        DocumentError::Key {
            key: within,
            problem,
        } => StreamError::key(format!("{key}.{within}"), without_position(problem)),
        DocumentError::Newer { .. } | DocumentError::NoVersion { .. } => {
            StreamError::key(format!("{key}.format"), error.to_string())
        }
        _ => StreamError::key(key, without_position(error.to_string())),
    })?;
    Ok(document.map(Box::new))
}

impl Event {
    /// Refuses what this event does not have, as a key that does nothing is a
    /// mistake somewhere, and numbers that cannot be.
    pub(super) fn check(&self, keys: &[&str]) -> Result<(), StreamError> {
        let given = [
            ("id", self.id.is_some()),
            ("name", self.name.is_some()),
            ("app", self.app.is_some()),
            ("profile", self.profile.is_some()),
            ("cpus", self.cpus.is_some()),
            ("memory", self.memory.is_some()),
            ("platform", self.platform.is_some()),
            ("shares_cpus", self.shares_cpus.is_some()),
            ("spread", self.spread.is_some()),
            ("target", self.target.is_some()),
            ("seconds", self.seconds.is_some()),
            ("seconds_left", self.seconds_left.is_some()),
            ("readings", self.readings.is_some()),
            ("state", self.state.is_some()),
        ];
        let foreign = |(key, given): &&(&str, bool)| *given && !keys.contains(key);
        if let Some((key, _)) = given.iter().find(foreign) {
            return Err(StreamError::key(*key, format!("`{}` has none", self.event)));
        }
        for (key, seconds) in [
            ("at", self.at),
            ("seconds_left", self.seconds_left),
            ("seconds", self.seconds),
        ] {
            if let Some(seconds) = seconds.filter(|it| !(0.0..=MOST_SECONDS).contains(it)) {
                let problem = format!("is {seconds}; write seconds, 0 to {MOST_SECONDS}");
                return Err(StreamError::key(key, problem));
            }
        }
        for (key, name) in [("app", &self.app), ("platform", &self.platform)] {
            if name.is_some() {
                self.named(key, name)?;
            }
        }
        match self.target.filter(|it| !(*it > 0.0 && *it < MOST_SPEED)) {
            Some(target) => Err(StreamError::key(
                "target",
                format!("is {target}; write a speed above 0 and below {MOST_SPEED}"),
            )),
            None => Ok(()),
        }
    }

    pub(super) fn id(&self) -> Result<String, StreamError> {
        self.named("id", &self.id)
    }

    pub(super) fn name(&self) -> Result<String, StreamError> {
        self.named("name", &self.name)
    }

    fn named(&self, key: &str, value: &Option<String>) -> Result<String, StreamError> {
        match value {
            Some(value) if value.len() > LONGEST_NAME => {
                let problem = format!("has {} bytes; at most {LONGEST_NAME}", value.len());
                Err(StreamError::key(key, problem))
            }
            Some(value) if !value.trim().is_empty() => Ok(value.clone()),
            Some(_) => Err(StreamError::key(key, "is empty")),
            None => Err(self.missing(key)),
        }
    }

    pub(super) fn missing(&self, key: &str) -> StreamError {
        StreamError::Missing {
            key: key.into(),
            event: self.event.clone(),
        }
    }

    pub(super) fn cpus(&self) -> Result<Option<u32>, StreamError> {
        let cpus = self.cpus.map(check_cpus).transpose();
        cpus.map_err(|problem| StreamError::key("cpus", problem))
    }

    pub(super) fn memory_bytes(&self) -> Result<Option<u64>, StreamError> {
        let bytes = self.memory.as_deref().map(parse_memory).transpose();
        bytes.map_err(|problem| StreamError::key("memory", problem))
    }
}

/// What a profile sent with an event must keep to.
pub(super) fn check_profile(profile: &Profile) -> Result<(), StreamError> {
    profile::check(profile)
        .map_err(|error| StreamError::key(format!("profile.{}", error.key), error.problem))
}

/// Within a document serde counts from where that begins, which says nothing.
fn without_position(mut problem: String) -> String {
    if let Some(position) = problem.rfind(" at line ") {
        problem.truncate(position);
    }
    problem
}

/// Every event is on one line of its own, so that serde's "line 1" misleads.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match error.line() {
        0 | 1 => text.replace(" at line 1 column ", " at column "),
        _ => text,
    }
}
