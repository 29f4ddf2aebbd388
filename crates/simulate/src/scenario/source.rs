//! Where in a scenario's text something is wrong, and what would be right.

use super::ScenarioError;
use jostle_schedule::parse_memory;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use toml::Spanned;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The text of a scenario, to say where in it something is wrong.
pub struct Source<'a> {
    pub path: &'a Path,
    pub text: &'a str,
}

impl<'a> Source<'a> {
    pub fn new(path: &'a Path, text: &'a str) -> Self {
        Source { path, text }
    }

    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        toml::from_str(self.text).map_err(|error| {
            let at = error.span().map(|span| span.start);
            let mut problem = error
                .message()
                .trim_end_matches('\n')
                .replace('\n', "; ")
                // The reader writes TOML, not Rust.
                .replace("expected i64", "expected a whole number")
                .replace("expected f64", "expected a number")
                .replace("expected a sequence", "expected a list");
            let line = at.and_then(|at| self.text.lines().nth(self.line(at) - 1));
            if let Some(line) = line.map(str::trim).filter(|line| !line.is_empty()) {
                problem.push_str(&format!(" (in `{line}`)"));
            }
            self.refuse(at, problem)
        })
    }

    /// Lines count from 1.
    pub fn line(&self, offset: usize) -> usize {
        let bytes = self.text.as_bytes();
        let upto = bytes.get(..offset).unwrap_or(bytes);
        1 + upto.iter().filter(|byte| **byte == b'\n').count()
    }

    pub fn refuse(&self, at: Option<usize>, problem: String) -> ScenarioError {
        ScenarioError {
            path: self.path.into(),
            line: at.map(|offset| self.line(offset)),
            problem,
        }
    }

    /// Refuses the value at `key`.
    pub fn wrong<T>(&self, key: &Spanned<T>, problem: String) -> ScenarioError {
        self.refuse(Some(key.span().start), problem)
    }

    /// A file named in the scenario: beside it, unless absolute.
    pub fn beside(&self, file: &str) -> PathBuf {
        match self.path.parent() {
            Some(dir) => dir.join(file),
            None => PathBuf::from(file),
        }
    }
}

/// Says that `what` has no `name`, and what comes nearest.
pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let nearest = known
        .iter()
        .map(|other| (strsim::jaro_winkler(name, other), *other))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((_, nearest)) => format!(
            "key `{what}`: there is no `{name}`; did you mean `{nearest}`? There are {}",
            known.join(", ")
        ),
        None => format!(
            "key `{what}`: there is no `{name}`; there are {}",
            known.join(", ")
        ),
    }
}

/// Names that must differ, and the lines where they stand.
#[derive(Default)]
pub struct Names(BTreeMap<String, usize>);

impl Names {
    pub fn add(&mut self, source: &Source, of: &str, name: &Spanned<String>) -> Result<()> {
        let text = name.get_ref();
        if text.trim().is_empty() {
            return Err(source.wrong(name, format!("key `name`: is empty; name the {of}")));
        }
        let line = source.line(name.span().start);
        match self.0.insert(text.clone(), line) {
            Some(before) => Err(source.wrong(
                name,
                format!(
                    "key `name`: `{text}` is already used on line {before}; give each {of} a name of its own"
                ),
            )),
            None => Ok(()),
        }
    }
}

pub fn memory(source: &Source, key: &Spanned<String>) -> Result<u64> {
    parse_memory(key.get_ref())
        .map_err(|problem| source.wrong(key, format!("key `memory`: {problem}")))
}
