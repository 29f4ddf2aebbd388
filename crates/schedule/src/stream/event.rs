//! What a line of the stream may say.

use crate::error::StreamError;
use crate::nodes_file::MOST_CPUS;
use crate::nodes_file::parse_memory;
use jostle_profile as profile;
use jostle_profile::Profile;
use serde::Deserialize;

/// One event, checked as far as it can be without the cluster.
#[derive(Debug)]
pub(super) enum Event {
    Arrive(Box<Arrival>),
    Depart {
        id: String,
    },
    NodeUp(NodeUp),
    NodeDown {
        name: String,
    },
    ProfileChanged {
        id: String,
        what: What,
        seconds_left: Option<f64>,
    },
    /// A move has cost so many seconds of the moved application's run.
    MoveCost {
        seconds: f64,
    },
    State,
}

/// A job that wants a place.
#[derive(Debug)]
pub(super) struct Arrival {
    pub id: String,
    pub what: What,
    /// Instead of the usual demand.
    pub cpus: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub spread: bool,
    pub target: Option<f64>,
    /// How long it would take alone on its best platform.
    pub seconds: Option<f64>,
}

/// Which application: one that is known, or the one described.
#[derive(Debug)]
pub(super) enum What {
    Known(String),
    Described(Box<Profile>),
}

#[derive(Debug)]
pub(super) struct NodeUp {
    pub name: String,
    pub cpus: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub platform: Option<String>,
    pub shares_cpus: Option<bool>,
}

/// Every key of every event.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    event: String,
    at: Option<f64>,
    id: Option<String>,
    name: Option<String>,
    app: Option<String>,
    profile: Option<Box<Profile>>,
    cpus: Option<i64>,
    memory: Option<String>,
    platform: Option<String>,
    shares_cpus: Option<bool>,
    spread: Option<bool>,
    target: Option<f64>,
    seconds: Option<f64>,
    seconds_left: Option<f64>,
}

/// The events and the keys that each may have beside `event` and `at`.
const EVENTS: [(&str, &[&str]); 7] = [
    (
        "arrive",
        &[
            "id", "app", "profile", "cpus", "memory", "spread", "target", "seconds",
        ],
    ),
    ("depart", &["id"]),
    (
        "node-up",
        &["name", "cpus", "memory", "platform", "shares_cpus"],
    ),
    ("node-down", &["name"]),
    ("profile-changed", &["id", "app", "profile", "seconds_left"]),
    ("move-cost", &["seconds"]),
    ("state", &[]),
];

/// The event of `line`, and the seconds on the caller's clock if it says them.
///
/// # Errors
///
/// [`StreamError`]: what is wrong and how to mend it.
pub(super) fn parse(line: &str) -> Result<(Event, Option<f64>), StreamError> {
    // An array of values in the order of the keys would otherwise do.
    if !line.trim_start().starts_with('{') {
        return Err(StreamError::NotAnObject);
    }
    let mut json = serde_json::Deserializer::from_str(line);
    let raw: Raw = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let problem = without_line(error.inner());
        match path.as_str() {
            "." => StreamError::Json(problem),
            _ => StreamError::key(path, problem),
        }
    })?;
    json.end()
        .map_err(|error| StreamError::Json(without_line(&error)))?;
    let Some((event, keys)) = EVENTS.iter().find(|(event, _)| *event == raw.event) else {
        let events: Vec<&str> = EVENTS.iter().map(|(event, _)| *event).collect();
        return Err(StreamError::UnknownEvent {
            event: raw.event,
            known: events.join(", "),
        });
    };
    raw.only(event, keys)?;
    let at = raw.at.map(|at| span("at", at)).transpose()?;
    Ok((raw.event(event)?, at))
}

impl Raw {
    /// Refuses what `event` does not have: a key that does nothing is a
    /// mistake somewhere.
    fn only(&self, event: &str, keys: &[&str]) -> Result<(), StreamError> {
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
        ];
        match given
            .iter()
            .find(|(key, given)| *given && !keys.contains(key))
        {
            Some((key, _)) => Err(StreamError::key(*key, format!("`{event}` has none"))),
            None => Ok(()),
        }
    }

    fn event(self, event: &str) -> Result<Event, StreamError> {
        let cpus = self.cpus.map(count).transpose()?;
        let memory_bytes = self.memory.as_deref().map(parse_memory).transpose();
        let memory_bytes = memory_bytes.map_err(|problem| StreamError::key("memory", problem))?;
        let seconds_left = self.seconds_left.map(|left| span("seconds_left", left));
        let seconds_left = seconds_left.transpose()?;
        let named = |key: &str, value: Option<String>| match value {
            Some(value) if !value.trim().is_empty() => Ok(value),
            Some(_) => Err(StreamError::key(key, "is empty")),
            None => Err(StreamError::missing(key, event)),
        };
        let what = |app: Option<String>, profile: Option<Box<Profile>>| match (app, profile) {
            (app, Some(mut profile)) => {
                // The name under which the caller knows it.
                if let Some(app) = app {
                    profile.workload.name = app;
                }
                check(&profile)?;
                Ok(What::Described(profile))
            }
            (Some(app), None) => Ok(What::Known(app)),
            (None, None) => Err(StreamError::NoApp(event.into())),
        };
        Ok(match event {
            "arrive" => Event::Arrive(Box::new(Arrival {
                id: named("id", self.id)?,
                what: what(self.app, self.profile)?,
                cpus,
                memory_bytes,
                spread: self.spread.unwrap_or(false),
                target: match self.target {
                    Some(target) if !(target.is_finite() && target > 0.0) => {
                        return Err(StreamError::key(
                            "target",
                            format!("is {target}; write a speed above 0"),
                        ));
                    }
                    target => target,
                },
                seconds: match self.seconds {
                    Some(seconds) => Some(span("seconds", seconds)?),
                    None => None,
                },
            })),
            "depart" => Event::Depart {
                id: named("id", self.id)?,
            },
            "node-up" => Event::NodeUp(NodeUp {
                name: named("name", self.name)?,
                cpus,
                memory_bytes,
                platform: self.platform,
                shares_cpus: self.shares_cpus,
            }),
            "node-down" => Event::NodeDown {
                name: named("name", self.name)?,
            },
            "profile-changed" => Event::ProfileChanged {
                id: named("id", self.id)?,
                what: what(self.app, self.profile)?,
                seconds_left,
            },
            "move-cost" => Event::MoveCost {
                seconds: span(
                    "seconds",
                    self.seconds
                        .ok_or_else(|| StreamError::missing("seconds", event))?,
                )?,
            },
            _ => Event::State,
        })
    }
}

fn count(cpus: i64) -> Result<u32, StreamError> {
    u32::try_from(cpus)
        .ok()
        .filter(|cpus| (1..=MOST_CPUS).contains(cpus))
        .ok_or_else(|| {
            StreamError::key(
                "cpus",
                format!(
                    "is {cpus}; write a whole number of CPUs, 1 or more and at most {MOST_CPUS}"
                ),
            )
        })
}

fn span(key: &str, seconds: f64) -> Result<f64, StreamError> {
    match seconds.is_finite() && seconds >= 0.0 {
        true => Ok(seconds),
        false => Err(StreamError::key(
            key,
            format!("is {seconds}; write seconds, 0 or more"),
        )),
    }
}

fn check(profile: &Profile) -> Result<(), StreamError> {
    let (ours, theirs) = (profile::FORMAT, profile.format.as_str());
    if theirs != ours && !theirs.starts_with(&format!("{ours}.")) {
        return Err(StreamError::key(
            "profile.format",
            format!("is {theirs:?}; this version reads {ours:?}"),
        ));
    }
    profile::check(profile).map_err(|problem| {
        StreamError::Profile(problem.to_string().replacen("key `", "key `profile.", 1))
    })
}

/// Every event is on one line of its own, so that serde's "line 1" misleads.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match error.line() {
        0 | 1 => text.replace(" at line 1 column ", " at column "),
        _ => text,
    }
}
