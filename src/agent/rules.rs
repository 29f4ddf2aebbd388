//! Rules of the configuration: which workloads there are, and what may be done with
//! them.

use super::store;
use regex_lite::Regex;
use serde::Deserialize;
use serde::Deserializer;
use std::collections::BTreeMap;
use std::fmt;

/// One `[[workload]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it applies to.
    #[serde(rename = "match")]
    pub matches: Match,
    /// Name of the workload; that of the unit, container, … where absent. Where
    /// several things match, a number is put behind it.
    pub name: Option<String>,
    /// How its performance is read, as after `--metric`; only while experiments run
    /// where absent.
    pub metric: Option<String>,
    /// What is usual, in the metric's unit; that of its profile where absent.
    pub baseline: Option<f64>,
    /// Fraction of the usual performance that it must keep.
    #[serde(default = "default_qos")]
    pub qos: f64,
    /// Whether sources of interference may run beside it.
    #[serde(default)]
    pub profile: bool,
    /// Whether it may be paused for milliseconds to see whom it slows.
    #[serde(default)]
    pub pause: bool,
    /// Name of its profile in the store; the workload's name where absent.
    pub stored_as: Option<String>,
}

fn default_qos() -> f64 {
    0.95
}

impl Rule {
    /// Name in the store of the profile of `workload`: pods and units may have
    /// characters in their names that files should not.
    pub(super) fn stored_name(&self, workload: &str) -> String {
        store::file_name(self.stored_as.as_deref().unwrap_or(workload))
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if matches!(&self.matches, Match::Labels(labels) if labels.is_empty()) {
            return Err("match = { labels = {} } names no label".into());
        }
        if !(0.1..=1.0).contains(&self.qos) {
            return Err(format!("qos = {}: give a fraction from 0.1 to 1", self.qos));
        }
        if self
            .name
            .as_ref()
            .is_some_and(|name| name.trim().is_empty())
        {
            return Err("name is empty; leave it out to use the name of what matches".into());
        }
        if self
            .baseline
            .is_some_and(|it| !(it.is_finite() && it > 0.0))
        {
            return Err("baseline: give a number above 0".into());
        }
        Ok(())
    }
}

/// What a rule applies to; written as `match = { unit = "nginx.service" }`. Values
/// are patterns: `*` stands for any text, `?` for one character.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Match {
    /// Path of a cgroup below its hierarchy, `/system.slice/*.service`.
    Cgroup(Pattern),
    /// Name of a systemd unit.
    Unit(Pattern),
    /// Name or id of a container.
    Container(Pattern),
    /// `NAMESPACE/POD` or `NAMESPACE/POD/CONTAINER`.
    Pod(Pattern),
    /// Name of a process, as in `/proc/PID/comm`.
    Process(Pattern),
    /// Labels of a container or pod, all of which must match.
    Labels(BTreeMap<String, Pattern>),
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Match::Cgroup(pattern) => write!(f, "cgroup {}", pattern.as_str()),
            Match::Unit(pattern) => write!(f, "unit {}", pattern.as_str()),
            Match::Container(pattern) => write!(f, "container {}", pattern.as_str()),
            Match::Pod(pattern) => write!(f, "pod {}", pattern.as_str()),
            Match::Process(pattern) => write!(f, "process {}", pattern.as_str()),
            Match::Labels(labels) => {
                let one = |(key, it): (&String, &Pattern)| format!("{key}={}", it.as_str());
                let all: Vec<String> = labels.iter().map(one).collect();
                write!(f, "labels {}", all.join(" "))
            }
        }
    }
}

/// A text with `*` and `?`.
#[derive(Clone)]
pub struct Pattern {
    text: String,
    compiled: Regex,
}

impl Pattern {
    pub fn new(text: &str) -> Pattern {
        let escaped = regex_lite::escape(text)
            .replace(r"\*", ".*")
            .replace(r"\?", ".");
        let compiled = Regex::new(&format!("(?s)^{escaped}$"));
        Pattern {
            text: text.into(),
            compiled: compiled.expect("escaped text is an expression"),
        }
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.compiled.is_match(text)
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        match text.is_empty() {
            true => Err(serde::de::Error::custom("an empty pattern matches nothing")),
            false => Ok(Pattern::new(&text)),
        }
    }
}
