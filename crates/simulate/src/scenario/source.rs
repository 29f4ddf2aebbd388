//! The text of a scenario, and where in it something is wrong.

use crate::error::InvalidKey;
use crate::error::Problem;
use crate::error::ScenarioError;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use toml::Spanned;
use toml::de::DeTable;
use toml::de::DeValue;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The text of a scenario; `path` is for messages and for files beside it.
pub struct Source<'a> {
    pub path: &'a Path,
    pub text: &'a str,
}

impl Source<'_> {
    /// Refuses TOML that is not well formed, and keys that are unknown, missing, of
    /// the wrong type or out of range, with the line.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        toml::from_str(self.text).map_err(|error| {
            let line = error.span().map(|span| self.line_at(span.start));
            let mut problem = error
                .message()
                .trim_end_matches('\n')
                .replace('\n', "; ")
                // The reader writes TOML, not Rust.
                .replace("expected i64", "expected a whole number")
                .replace("expected f64", "expected a number")
                .replace("expected a sequence", "expected a list");
            let text = line.and_then(|line| self.text.lines().nth(line - 1));
            if let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) {
                problem.push_str(&format!(" (in `{text}`)"));
            }
            ScenarioError {
                line,
                ..ScenarioError::new(self.path, Problem::Toml(problem))
            }
        })
    }

    /// Lines count from 1.
    fn line_at(&self, offset: usize) -> usize {
        let bytes = self.text.as_bytes();
        let before = bytes.get(..offset).unwrap_or(bytes);
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    /// The line of `key`, as `nodes[0].count`, or of the innermost table around
    /// it that the text has.
    pub fn line_of(&self, key: &str) -> Option<usize> {
        let table = DeTable::parse(self.text).ok()?;
        Some(self.line_at(find(table.get_ref(), key)?))
    }

    /// Refuses the value of `key`.
    pub fn wrong(&self, key: impl Into<String>, problem: Problem) -> ScenarioError {
        self.invalid(InvalidKey::new(key, problem))
    }

    pub fn invalid(&self, InvalidKey { key, problem }: InvalidKey) -> ScenarioError {
        ScenarioError {
            line: self.line_of(&key),
            key: Some(key),
            ..ScenarioError::new(self.path, problem)
        }
    }

    /// A file named in the scenario: beside it, unless absolute.
    pub fn beside(&self, file: &str) -> PathBuf {
        match self.path.parent() {
            Some(dir) => dir.join(file),
            None => PathBuf::from(file),
        }
    }

    /// Refuses names of `of` (as `[[class]]` tables) that are empty or that two
    /// have.
    pub fn check_names<'n>(
        &self,
        of: &'static str,
        names: impl Iterator<Item = &'n String>,
    ) -> Result<()> {
        let mut first = BTreeMap::new();
        for (at, name) in names.enumerate() {
            let key = format!("{of}[{at}].name");
            if name.trim().is_empty() {
                return Err(self.wrong(key, Problem::Empty(format!("name the {of}"))));
            }
            if let Some(before) = first.insert(name, at) {
                let line = self.line_of(&format!("{of}[{before}].name")).unwrap_or(1);
                let name = name.clone();
                return Err(self.wrong(key, Problem::AlreadyUsed { name, line, of }));
            }
        }
        Ok(())
    }
}

/// Offset of `key`, or of the innermost part of it that is written in `table`.
fn find(table: &DeTable, key: &str) -> Option<usize> {
    table.iter().find_map(|(name, value)| {
        let rest = key.strip_prefix(name.get_ref().as_ref())?;
        let ends = rest.is_empty() || rest.starts_with(['.', '[']);
        ends.then(|| within(value, rest).unwrap_or(name.span().start))
    })
}

fn within(value: &Spanned<DeValue>, rest: &str) -> Option<usize> {
    match value.get_ref() {
        DeValue::Table(table) => find(table, rest.strip_prefix('.')?),
        DeValue::Array(items) => {
            let (index, rest) = rest.strip_prefix('[')?.split_once(']')?;
            let item = items.get(index.parse::<usize>().ok()?)?;
            within(item, rest).or(Some(item.span().start))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_where_they_stand() {
        let text = "days = 3\n[[nodes]]\ncount = 1\n[[nodes]]\nname = \"b\"\ncount = 2\n[[apps]]\nsize_gb = [1, 2]\n\
                    [speed]\n\"m1.large\" = 2\n";
        let line = |text, key| {
            let path = Path::new("some.toml");
            Source { path, text }.line_of(key)
        };
        for (key, expected) in [
            ("days", Some(1)),
            ("nodes", Some(2)),
            ("nodes[0].count", Some(3)),
            ("nodes[1].count", Some(6)),
            ("nodes[1].capacity_gb", Some(4)),
            ("apps[0].size_gb[1]", Some(8)),
            ("speed.m1.large", Some(10)),
            ("pieces", None),
        ] {
            assert_eq!(line(text, key), expected, "{key}");
        }
        let inline = "nodes = [{ count = 0 }]";
        assert_eq!(line(inline, "nodes[0].count"), Some(1));
    }
}
