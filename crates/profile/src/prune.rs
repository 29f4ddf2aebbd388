//! Which files of a directory of profiles can go.

use crate::summary::Document;
use crate::summary::Summary;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;

/// What is to go; nothing unless asked for.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// All but the first file of one measurement.
    pub duplicates: bool,
    /// What is no profile that this version reads. Other documents of Jostle,
    /// such as pairs, stay.
    pub other_formats: bool,
    /// Profiles recorded before this moment, RFC 3339 in UTC or the start of it.
    pub before: Option<String>,
    /// Fingerprints of the machines that are left; profiles of others go.
    pub machines: Option<BTreeSet<String>>,
}

/// Why a file goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The same measurement as this file.
    DuplicateOf(PathBuf),
    /// What was found instead of a profile.
    OtherFormat(String),
    /// When it was recorded.
    Old(String),
    /// The machine that is no longer there.
    OtherMachine(String),
}

impl Rules {
    /// Whether there is no rule by which anything goes.
    pub fn is_empty(&self) -> bool {
        let flags = [
            self.duplicates,
            self.other_formats,
            self.before.is_some(),
            self.machines.is_some(),
        ];
        !flags.contains(&true)
    }

    /// The indices of the `files` that go, with the reason, in order. One pass.
    pub fn apply(&self, files: &[(PathBuf, Document)]) -> Vec<(usize, Reason)> {
        let mut first: HashMap<_, &Path> = HashMap::new();
        let mut gone = Vec::new();
        for (index, (path, document)) in files.iter().enumerate() {
            let reason = match document {
                Document::Profile(summary) => self.reason(summary).or_else(|| {
                    let before = *first.entry(summary.same_measurement()).or_insert(path);
                    let twice = self.duplicates && before != path;
                    twice.then(|| Reason::DuplicateOf(before.to_path_buf()))
                }),
                Document::Other(_) => None,
                Document::Refused(problem) => self
                    .other_formats
                    .then(|| Reason::OtherFormat(problem.to_string())),
            };
            gone.extend(reason.map(|reason| (index, reason)));
        }
        gone
    }

    fn reason(&self, summary: &Summary) -> Option<Reason> {
        let machines = self.machines.as_ref();
        if machines.is_some_and(|left| !left.contains(&summary.machine)) {
            return Some(Reason::OtherMachine(summary.machine.clone()));
        }
        // Times of one form sort as text.
        let old = self
            .before
            .as_deref()
            .is_some_and(|before| *summary.recorded_at < *before);
        old.then(|| Reason::Old(summary.recorded_at.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::DocumentError;

    fn summary(name: &str, machine: &str, recorded_at: &str) -> Document {
        Document::Profile(Box::new(Summary {
            name: name.into(),
            machine: machine.into(),
            model: "CPU".into(),
            metric: "stdout".into(),
            recorded_at: recorded_at.into(),
            duration_seconds: 30.0,
            seed: 1,
            partial: false,
            decided: 0,
            entries: 0,
            sensitive: Vec::new(),
            most_sensitive: None,
        }))
    }

    fn files() -> Vec<(PathBuf, Document)> {
        let documents = [
            summary("web", "f1", "2026-01-01T00:00:00Z"),
            summary("web", "f1", "2026-03-01T00:00:00Z"),
            summary("web", "f1", "2026-01-01T00:00:00Z"),
            summary("db", "f1", "2026-01-01T00:00:00Z"),
            summary("db", "f2", "2026-05-01T00:00:00Z"),
            Document::Other("jostle-pairs/1".into()),
            Document::Refused(DocumentError::Empty("jostle profile".into())),
        ];
        let name = |index| PathBuf::from(format!("{index}.json"));
        let numbered = documents.into_iter().enumerate();
        numbered
            .map(|(index, document)| (name(index), document))
            .collect()
    }

    fn gone(rules: Rules) -> Vec<usize> {
        let found = rules.apply(&files());
        found.into_iter().map(|(index, _)| index).collect()
    }

    #[test]
    fn each_rule_takes_what_it_names_and_nothing_else() {
        assert!(gone(Rules::default()).is_empty());
        assert!(Rules::default().is_empty());
        let duplicates = Rules {
            duplicates: true,
            ..Rules::default()
        };
        assert_eq!(gone(duplicates), [2]);
        let formats = Rules {
            other_formats: true,
            ..Rules::default()
        };
        assert_eq!(gone(formats), [6]);
        let old = Rules {
            before: Some("2026-02-01".into()),
            ..Rules::default()
        };
        assert_eq!(gone(old), [0, 2, 3]);
        let elsewhere = Rules {
            machines: Some(BTreeSet::from(["f2".into()])),
            ..Rules::default()
        };
        assert_eq!(gone(elsewhere), [0, 1, 2, 3]);
    }

    /// The file that stays must not be one that another rule takes.
    #[test]
    fn of_duplicates_one_stays() {
        let both = Rules {
            duplicates: true,
            before: Some("2026-02-01".into()),
            ..Rules::default()
        };
        assert_eq!(gone(both), [0, 2, 3]);
    }
}
