//! Storage patterns by name or from a TOML file; `scripts/patterns/mail.toml`
//! explains the format.

use jostle_kernels::storage::pattern::Access;
use jostle_kernels::storage::pattern::Arrival;
use jostle_kernels::storage::pattern::LARGEST_BLOCK;
use jostle_kernels::storage::pattern::MOST_STATES;
use jostle_kernels::storage::pattern::MOST_TRANSITIONS;
use jostle_kernels::storage::pattern::Operation;
use jostle_kernels::storage::pattern::Pattern;
use jostle_kernels::storage::pattern::SECTOR;
use jostle_kernels::storage::pattern::State;
use jostle_kernels::storage::pattern::Transition;
use serde::Deserialize;
use std::path::Path;
use thiserror::Error;
use toml::Spanned;

/// How far the probabilities that leave a state may sum from 1.
const SUM_TOLERANCE: f64 = 1e-6;
/// Longest name of a state, bytes.
const LONGEST_NAME: usize = 64;
/// Longest time between two I/Os, µs: an hour.
const LONGEST_US: f64 = 3.6e9;

/// Why a pattern was refused; names the file, and the line where there is one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}{}: {problem}", line.map_or(String::new(), |line| format!(", line {line}")))]
pub struct PatternError {
    pub file: String,
    pub line: Option<usize>,
    pub problem: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    state: Vec<RawState>,
    #[serde(default)]
    transition: Vec<RawTransition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawState {
    name: Spanned<String>,
    range_percent: Spanned<[f64; 2]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTransition {
    from: Spanned<String>,
    to: Spanned<String>,
    probability: Spanned<f64>,
    block_bytes: Spanned<i64>,
    operation: Operation,
    access: Access,
    inter_arrival_us: Spanned<f64>,
    #[serde(default)]
    arrival: Arrival,
}

/// The pattern called `name`: `sequential`, `random`, `mail`, or the file there.
///
/// # Errors
/// When there is no such file, or [`parse`] refuses it.
pub fn load(name: &str) -> Result<Pattern, PatternError> {
    match name {
        "sequential" => return Ok(Pattern::sequential()),
        "random" => return Ok(Pattern::random()),
        "mail" => return parse("mail", include_str!("../../scripts/patterns/mail.toml")),
        _ => {}
    }
    let text = std::fs::read_to_string(Path::new(name)).map_err(|error| PatternError {
        file: name.into(),
        line: None,
        problem: match error.kind() {
            std::io::ErrorKind::NotFound => {
                "no such file, and no built-in pattern of that name: give sequential, random, \
                 mail or a TOML file"
                    .into()
            }
            std::io::ErrorKind::InvalidData => "not a TOML file: not UTF-8 text".into(),
            _ => error.to_string(),
        },
    })?;
    parse(name, &text)
}

/// Checks the pattern in `text`; `file` is for messages.
///
/// # Errors
/// TOML that is not well formed; a key that is unknown, missing or of the wrong
/// type; no state; ranges outside 0–100 % or overlapping; names that are
/// repeated or unknown; probabilities that do not sum to 1 for each state;
/// times that are negative or not numbers; block sizes that are not whole
/// sectors; states that cannot reach each other.
pub fn parse(file: &str, text: &str) -> Result<Pattern, PatternError> {
    Reader { file, text }.read()
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn read(&self) -> Result<Pattern, PatternError> {
        let raw: RawFile = toml::from_str(self.text).map_err(|error| self.not_toml(&error))?;
        let states = self.states(&raw.state)?;
        let transitions = self.transitions(&raw.transition, &states)?;
        let pattern = Pattern {
            name: self.file.into(),
            seed: raw.seed.unwrap_or(1),
            states,
            transitions,
        };
        self.connected(&pattern)?;
        Ok(pattern)
    }

    /// A refusal at the byte `at` of the text.
    fn refuse<T>(&self, at: Option<usize>, problem: String) -> Result<T, PatternError> {
        Err(PatternError {
            file: self.file.into(),
            line: at.map(|offset| 1 + self.text[..offset].matches('\n').count()),
            problem,
        })
    }

    fn not_toml(&self, error: &toml::de::Error) -> PatternError {
        // The reader writes TOML, not Rust.
        let problem = error
            .message()
            .trim_end_matches('\n')
            .replace('\n', "; ")
            .replace(
                "expected a sequence",
                "expected a list; tables are [[state]] and [[transition]]",
            )
            .replace("expected struct RawState", "expected [[state]] tables")
            .replace(
                "expected struct RawTransition",
                "expected [[transition]] tables",
            )
            .replace("expected i64", "expected a whole number")
            .replace("expected u64", "expected a whole number, 0 or more")
            .replace("expected f64", "expected a number");
        let refused: Result<(), _> = self.refuse(error.span().map(|span| span.start), problem);
        refused.expect_err("it was refused")
    }

    fn states(&self, raw: &[RawState]) -> Result<Vec<State>, PatternError> {
        if raw.is_empty() {
            return self.refuse(
                None,
                "holds no state; add at least one [[state]] with name and range_percent, and a \
                 [[transition]]"
                    .into(),
            );
        }
        if raw.len() > MOST_STATES {
            return self.refuse(
                None,
                format!("holds {} states; {MOST_STATES} are the most", raw.len()),
            );
        }
        for (index, state) in raw.iter().enumerate() {
            let (at, name) = (Some(state.name.span().start), state.name.get_ref());
            if name.is_empty() || name.len() > LONGEST_NAME {
                return self.refuse(
                    at,
                    format!("name = \"{name}\": give 1 to {LONGEST_NAME} bytes"),
                );
            }
            if raw[..index]
                .iter()
                .any(|other| other.name.get_ref() == name)
            {
                return self.refuse(
                    at,
                    format!("there are two states named '{name}'; rename one"),
                );
            }
            let (at, [from, to]) = (
                Some(state.range_percent.span().start),
                *state.range_percent.get_ref(),
            );
            if !(0.0 <= from && from < to && to <= 100.0) {
                return self.refuse(
                    at,
                    format!(
                        "range_percent = [{from}, {to}] of state '{name}': give two numbers from 0 \
                         to 100, the smaller first"
                    ),
                );
            }
            let overlapping = raw[..index].iter().find(|other| {
                let [other_from, other_to] = *other.range_percent.get_ref();
                from < other_to && other_from < to
            });
            if let Some(other) = overlapping {
                let [other_from, other_to] = *other.range_percent.get_ref();
                return self.refuse(
                    at,
                    format!(
                        "range_percent = [{from}, {to}] of state '{name}' overlaps [{other_from}, \
                         {other_to}] of state '{}'; ranges must not overlap",
                        other.name.get_ref()
                    ),
                );
            }
        }
        Ok(raw
            .iter()
            .map(|state| State {
                name: state.name.get_ref().clone(),
                range_percent: *state.range_percent.get_ref(),
            })
            .collect())
    }

    fn transitions(
        &self,
        raw: &[RawTransition],
        states: &[State],
    ) -> Result<Vec<Transition>, PatternError> {
        if raw.len() > MOST_TRANSITIONS {
            return self.refuse(
                None,
                format!(
                    "holds {} transitions; {MOST_TRANSITIONS} are the most",
                    raw.len()
                ),
            );
        }
        let mut transitions = Vec::new();
        for transition in raw {
            transitions.push(self.transition(transition, states)?);
        }
        self.sums(raw, states, &mut transitions)?;
        let spread = |kind: &Transition| kind.probability * kind.inter_arrival_us > 0.0;
        if !transitions.iter().any(spread) {
            return self.refuse(
                raw.first().map(|kind| kind.inter_arrival_us.span().start),
                "inter_arrival_us is 0 in every transition; give at least one above 0, since \
                 intensity scales them"
                    .into(),
            );
        }
        Ok(transitions)
    }

    fn transition(
        &self,
        raw: &RawTransition,
        states: &[State],
    ) -> Result<Transition, PatternError> {
        let state = |key: &str, name: &Spanned<String>| {
            let found = states
                .iter()
                .position(|state| state.name == *name.get_ref());
            found.map_or_else(
                || {
                    let known: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
                    self.refuse(
                        Some(name.span().start),
                        format!(
                            "{key} = \"{}\": there is no such state; there are {}",
                            name.get_ref(),
                            known.join(", ")
                        ),
                    )
                },
                Ok,
            )
        };
        let number = |key: &str, value: &Spanned<f64>, most: f64, text: &str| match (0.0..=most)
            .contains(value.get_ref())
        {
            true => Ok(*value.get_ref()),
            false => self.refuse(
                Some(value.span().start),
                format!("{key} = {}: give {text}", value.get_ref()),
            ),
        };
        let block = *raw.block_bytes.get_ref();
        let sizes = i64::from(SECTOR)..=i64::from(LARGEST_BLOCK);
        if !sizes.contains(&block) || block % i64::from(SECTOR) != 0 {
            return self.refuse(
                Some(raw.block_bytes.span().start),
                format!(
                    "block_bytes = {block}: give a multiple of {SECTOR} up to {LARGEST_BLOCK}, \
                     since direct I/O moves whole sectors"
                ),
            );
        }
        Ok(Transition {
            from: state("from", &raw.from)?,
            to: state("to", &raw.to)?,
            probability: number("probability", &raw.probability, 1.0, "a number from 0 to 1")?,
            block_bytes: block as u32,
            operation: raw.operation,
            access: raw.access,
            inter_arrival_us: number(
                "inter_arrival_us",
                &raw.inter_arrival_us,
                LONGEST_US,
                "a time of 0 or more, in microseconds, at most an hour",
            )?,
            arrival: raw.arrival,
        })
    }

    /// The probabilities that leave each state sum to 1; what rounding left is
    /// taken out.
    fn sums(
        &self,
        raw: &[RawTransition],
        states: &[State],
        transitions: &mut [Transition],
    ) -> Result<(), PatternError> {
        for (index, state) in states.iter().enumerate() {
            let leaving = || transitions.iter().filter(|kind| kind.from == index);
            let sum: f64 = leaving().map(|kind| kind.probability).sum();
            if (sum - 1.0).abs() > SUM_TOLERANCE {
                let last = raw.iter().rfind(|kind| *kind.from.get_ref() == state.name);
                let problem = match last {
                    Some(_) => format!(
                        "probability: the {} transitions from state '{}' sum to {sum}; make them \
                         sum to 1",
                        leaving().count(),
                        state.name
                    ),
                    None => format!(
                        "no transition leaves state '{}'; add [[transition]] tables with from = \
                         \"{}\" whose probability sums to 1",
                        state.name, state.name
                    ),
                };
                return self.refuse(last.map(|kind| kind.probability.span().start), problem);
            }
            for kind in transitions.iter_mut().filter(|kind| kind.from == index) {
                kind.probability /= sum;
            }
        }
        Ok(())
    }

    /// Every state leads to every other, by transitions that happen.
    fn connected(&self, pattern: &Pattern) -> Result<(), PatternError> {
        type End = fn(&Transition) -> usize;
        let ways: [(End, End, &str); 2] = [
            (
                |kind| kind.from,
                |kind| kind.to,
                "from '{first}' no transitions lead to '{state}'",
            ),
            (
                |kind| kind.to,
                |kind| kind.from,
                "from '{state}' no transitions lead back to '{first}'",
            ),
        ];
        for (near, far, text) in ways {
            let mut reached = vec![false; pattern.states.len()];
            let mut open = vec![0];
            while let Some(state) = open.pop() {
                if std::mem::replace(&mut reached[state], true) {
                    continue;
                }
                let happen = pattern
                    .transitions
                    .iter()
                    .filter(|kind| kind.probability > 0.0);
                open.extend(happen.filter(|kind| near(kind) == state).map(far));
            }
            if let Some(lost) = reached.iter().position(|reached| !reached) {
                let text = text
                    .replace("{first}", &pattern.states[0].name)
                    .replace("{state}", &pattern.states[lost].name);
                return self.refuse(
                    None,
                    format!(
                        "{text}; every state must be reached from every other: add a \
                             [[transition]] or remove the state"
                    ),
                );
            }
        }
        Ok(())
    }
}
