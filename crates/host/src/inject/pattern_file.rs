//! What the files of patterns and schedules share: reading them with a limit,
//! errors that name the line, laws of times, and what makes a chain.

use jostle_kernels::storage::pattern::Arrival;
use jostle_kernels::storage::pattern::MOST_GAMMA_SPREAD;
use jostle_kernels::storage::pattern::MOST_NORMAL_SPREAD;
use jostle_profile::regular;
use serde::Deserialize;
use std::io;
use std::path::Path;
use thiserror::Error;
use toml::Spanned;

/// How far the probabilities that leave a state may sum from 1.
const SUM_TOLERANCE: f64 = 1e-6;
/// Longest name in a pattern, bytes.
pub(super) const LONGEST_NAME: usize = 64;
/// Longest time, µs: an hour.
const LONGEST_US: f64 = 3.6e9;
/// Largest file that is read, bytes: several times the largest pattern.
const LARGEST_FILE: u64 = 4 << 20;

/// Why a file was refused; names the file, and the line where there is one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}{}: {problem}", line.map_or(String::new(), |line| format!(", line {line}")))]
pub struct PatternError {
    pub file: String,
    pub line: Option<usize>,
    pub problem: String,
}

/// `arrival`; normal and gamma laws have a `spread`.
#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Law {
    #[default]
    Fixed,
    Exponential,
    Poisson,
    Normal,
    Gamma,
}

/// The text of the file called `name`; `missing` is what to say when there is no
/// such file.
///
/// # Errors
/// When it cannot be read, or is too large or no text.
pub(super) fn read(name: &str, missing: &str) -> Result<String, PatternError> {
    let refuse = |problem: String| PatternError {
        file: name.into(),
        line: None,
        problem,
    };
    match regular::read_text(Path::new(name), LARGEST_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(refuse(missing.into())),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(refuse("not a TOML file: not UTF-8 text".into()))
        }
        Err(error) => Err(refuse(error.to_string())),
        Ok(text) => Ok(text),
    }
}

/// The text of a pattern, with the name of its file for messages.
#[derive(Clone, Copy)]
pub(super) struct PatternText<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl PatternText<'_> {
    pub fn error(&self, at: Option<usize>, problem: String) -> PatternError {
        PatternError {
            file: self.file.into(),
            line: at.map(|offset| 1 + self.text[..offset].matches('\n').count()),
            problem,
        }
    }

    /// Refuses the pattern with `problem` unless a condition is met; `at` is the
    /// byte of the text where the reader should look.
    pub fn need(
        &self,
        met: bool,
        at: Option<usize>,
        problem: impl FnOnce() -> String,
    ) -> Result<(), PatternError> {
        match met {
            true => Ok(()),
            false => Err(self.error(at, problem())),
        }
    }

    /// Reads the TOML; `words` replace what only a reader of Rust understands.
    pub fn parse<'de, T: Deserialize<'de>>(
        &'de self,
        words: &[(&str, &str)],
    ) -> Result<T, PatternError> {
        toml::from_str(self.text).map_err(|error| {
            let problem = error.message().trim_end_matches('\n').replace('\n', "; ");
            let common = [
                ("expected i64", "expected a whole number"),
                ("expected u64", "expected a whole number, 0 or more"),
                ("expected f64", "expected a number"),
            ];
            let replace = |text: String, (rust, toml): &(&str, &str)| text.replace(rust, toml);
            let problem = words.iter().chain(&common).fold(problem, replace);
            self.error(error.span().map(|span| span.start), problem)
        })
    }

    /// A name of the right length.
    pub fn name(&self, name: &Spanned<String>) -> Result<(), PatternError> {
        let length = name.get_ref().len();
        self.need((1..=LONGEST_NAME).contains(&length), start(name), || {
            format!(
                "name = \"{}\": give 1 to {LONGEST_NAME} bytes",
                name.get_ref()
            )
        })
    }

    /// A number from 0 to `most`; `text` says so.
    pub fn number(
        &self,
        key: &str,
        value: &Spanned<f64>,
        most: f64,
        text: &str,
    ) -> Result<f64, PatternError> {
        let (at, value) = (start(value), *value.get_ref());
        self.need((0.0..=most).contains(&value), at, || {
            format!("{key} = {value}: give {text}")
        })?;
        Ok(value)
    }

    pub fn probability(&self, value: &Spanned<f64>) -> Result<f64, PatternError> {
        self.number("probability", value, 1.0, "a number from 0 to 1")
    }

    pub fn inter_arrival_us(&self, value: &Spanned<f64>) -> Result<f64, PatternError> {
        self.number(
            "inter_arrival_us",
            value,
            LONGEST_US,
            "a time of 0 or more, in microseconds, at most an hour",
        )
    }

    /// The law and its spread; `time` is where a missing spread is asked for.
    pub fn arrival(
        &self,
        law: Law,
        spread: Option<&Spanned<f64>>,
        time: &Spanned<f64>,
    ) -> Result<Arrival, PatternError> {
        let most = match law {
            Law::Normal => MOST_NORMAL_SPREAD,
            Law::Gamma => MOST_GAMMA_SPREAD,
            Law::Fixed | Law::Exponential | Law::Poisson => 0.0,
        };
        let spread = match (spread, most > 0.0) {
            (Some(spread), true) => spread,
            (None, false) => {
                return Ok(match law {
                    Law::Exponential => Arrival::Exponential,
                    Law::Poisson => Arrival::Poisson,
                    Law::Fixed | Law::Normal | Law::Gamma => Arrival::Fixed,
                });
            }
            (Some(spread), false) => {
                let problem = "spread: only for arrival = \"normal\" or \"gamma\"; remove it";
                return Err(self.error(start(spread), problem.into()));
            }
            (None, true) => {
                let problem = format!(
                    "arrival: add spread, the standard deviation of the time as a share of its \
                     mean, above 0 and at most {most}"
                );
                return Err(self.error(start(time), problem));
            }
        };
        let value = *spread.get_ref() as f32;
        self.need(value > 0.0 && value <= most, start(spread), || {
            format!(
                "spread = {value}: give the standard deviation of the time as a share of its \
                 mean, above 0 and at most {most}"
            )
        })?;
        Ok(match law {
            Law::Normal => Arrival::Normal(value),
            _ => Arrival::Gamma(value),
        })
    }

    /// Divides `probabilities`, of everything that leaves one state, by their
    /// sum, which must be 1 but for rounding. `last`: where the last of them
    /// stands; `what`: the state, as messages call it.
    pub fn sum_to_one<'p>(
        &self,
        probabilities: impl Iterator<Item = &'p mut f64>,
        last: Option<usize>,
        what: &str,
    ) -> Result<(), PatternError> {
        let leaving: Vec<&mut f64> = probabilities.collect();
        let sum: f64 = leaving.iter().map(|probability| **probability).sum();
        self.need((sum - 1.0).abs() <= SUM_TOLERANCE, last, || {
            match leaving.len() {
                0 => format!(
                    "no transition leaves {what}; add [[transition]] tables that do, whose \
                     probability sums to 1"
                ),
                count => format!(
                    "probability: the {count} transitions from {what} sum to {sum}; make them sum \
                     to 1"
                ),
            }
        })?;
        for probability in leaving {
            *probability /= sum;
        }
        Ok(())
    }

    /// Every one of `states` leads to every other, by transitions that happen.
    /// `steps`: from, to, probability.
    pub fn connected(
        &self,
        states: &[&str],
        steps: &[(usize, usize, f64)],
        at: Option<usize>,
    ) -> Result<(), PatternError> {
        for forward in [true, false] {
            let mut reached = vec![false; states.len()];
            let mut open = vec![0];
            while let Some(state) = open.pop() {
                if std::mem::replace(&mut reached[state], true) {
                    continue;
                }
                open.extend(steps.iter().filter_map(|&(from, to, probability)| {
                    let (near, far) = if forward { (from, to) } else { (to, from) };
                    (probability > 0.0 && near == state).then_some(far)
                }));
            }
            let lost = reached.iter().position(|reached| !reached);
            self.need(lost.is_none(), at, || {
                let (first, lost) = (states[0], lost.map_or("", |lost| states[lost]));
                let text = match forward {
                    true => format!("from '{first}' no transitions lead to '{lost}'"),
                    false => format!("from '{lost}' no transitions lead back to '{first}'"),
                };
                format!(
                    "{text}; every state must be reached from every other: add a [[transition]] \
                     or remove the state"
                )
            })?;
        }
        Ok(())
    }
}

/// Where a value begins in the text.
pub(super) fn start<T>(value: &Spanned<T>) -> Option<usize> {
    Some(value.span().start)
}
