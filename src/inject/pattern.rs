//! Storage patterns by name or from a TOML file; `scripts/patterns/mail.toml`
//! explains the format.

use jostle_kernels::storage::pattern::Access;
use jostle_kernels::storage::pattern::Arrival;
use jostle_kernels::storage::pattern::LARGEST_BLOCK;
use jostle_kernels::storage::pattern::MOST_GAMMA_SPREAD;
use jostle_kernels::storage::pattern::MOST_NORMAL_SPREAD;
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
    arrival: Law,
    #[serde(default)]
    spread: Option<Spanned<f64>>,
}

/// `arrival`; normal and gamma laws have a `spread`.
#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Law {
    #[default]
    Fixed,
    Exponential,
    Poisson,
    Normal,
    Gamma,
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

    fn error(&self, at: Option<usize>, problem: String) -> PatternError {
        PatternError {
            file: self.file.into(),
            line: at.map(|offset| 1 + self.text[..offset].matches('\n').count()),
            problem,
        }
    }

    /// Refuses the pattern with `problem` unless a condition is met; `at` is the
    /// byte of the text where the reader should look.
    fn need(
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

    fn not_toml(&self, error: &toml::de::Error) -> PatternError {
        // The reader writes TOML, not Rust.
        let problem = error.message().trim_end_matches('\n').replace('\n', "; ");
        let words = [
            (
                "expected a sequence",
                "expected a list; tables are [[state]] and [[transition]]",
            ),
            ("expected struct RawState", "expected [[state]] tables"),
            (
                "expected struct RawTransition",
                "expected [[transition]] tables",
            ),
            ("expected i64", "expected a whole number"),
            ("expected u64", "expected a whole number, 0 or more"),
            ("expected f64", "expected a number"),
        ];
        let replace = |text: String, (rust, toml): (&str, &str)| text.replace(rust, toml);
        let problem = words.into_iter().fold(problem, replace);
        self.error(error.span().map(|span| span.start), problem)
    }

    fn states(&self, raw: &[RawState]) -> Result<Vec<State>, PatternError> {
        let count = raw.len();
        self.need(count > 0, None, || {
            "holds no state; add at least one [[state]] with name and range_percent, and a \
             [[transition]]"
                .into()
        })?;
        self.need(count <= MOST_STATES, None, || {
            format!("holds {count} states; {MOST_STATES} are the most")
        })?;
        let mut states: Vec<State> = Vec::new();
        for RawState {
            name,
            range_percent,
        } in raw
        {
            let (at, name) = (start(name), name.get_ref());
            self.need((1..=LONGEST_NAME).contains(&name.len()), at, || {
                format!("name = \"{name}\": give 1 to {LONGEST_NAME} bytes")
            })?;
            let repeated = states.iter().any(|other| other.name == *name);
            self.need(!repeated, at, || {
                format!("there are two states named '{name}'; rename one")
            })?;
            let (at, [from, to]) = (start(range_percent), *range_percent.get_ref());
            self.need(0.0 <= from && from < to && to <= 100.0, at, || {
                format!(
                    "range_percent = [{from}, {to}] of state '{name}': give two numbers from 0 \
                     to 100, the smaller first"
                )
            })?;
            for other in &states {
                let [other_from, other_to] = other.range_percent;
                self.need(to <= other_from || other_to <= from, at, || {
                    format!(
                        "range_percent = [{from}, {to}] of state '{name}' overlaps [{other_from}, \
                         {other_to}] of state '{}'; ranges must not overlap",
                        other.name
                    )
                })?;
            }
            states.push(State {
                name: name.clone(),
                range_percent: [from, to],
            });
        }
        Ok(states)
    }

    fn transitions(
        &self,
        raw: &[RawTransition],
        states: &[State],
    ) -> Result<Vec<Transition>, PatternError> {
        let count = raw.len();
        self.need(count <= MOST_TRANSITIONS, None, || {
            format!("holds {count} transitions; {MOST_TRANSITIONS} are the most")
        })?;
        let mut transitions = raw
            .iter()
            .map(|transition| self.transition(transition, states))
            .collect::<Result<Vec<_>, _>>()?;
        self.sums(raw, states, &mut transitions)?;
        let spread = |kind: &Transition| kind.probability * kind.inter_arrival_us > 0.0;
        let at = raw.first().and_then(|kind| start(&kind.inter_arrival_us));
        self.need(transitions.iter().any(spread), at, || {
            "inter_arrival_us is 0 in every transition; give at least one above 0, since \
             intensity scales them"
                .into()
        })?;
        Ok(transitions)
    }

    fn transition(
        &self,
        raw: &RawTransition,
        states: &[State],
    ) -> Result<Transition, PatternError> {
        let state = |key: &str, name: &Spanned<String>| {
            let (at, name) = (start(name), name.get_ref());
            let found = states.iter().position(|state| state.name == *name);
            found.ok_or_else(|| {
                let known: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
                let known = known.join(", ");
                let problem =
                    format!("{key} = \"{name}\": there is no such state; there are {known}");
                self.error(at, problem)
            })
        };
        let number = |key: &str, value: &Spanned<f64>, most: f64, text: &str| {
            let (at, value) = (start(value), *value.get_ref());
            self.need((0.0..=most).contains(&value), at, || {
                format!("{key} = {value}: give {text}")
            })?;
            Ok(value)
        };
        let block = *raw.block_bytes.get_ref();
        let sizes = i64::from(SECTOR)..=i64::from(LARGEST_BLOCK);
        let fits = sizes.contains(&block) && block % i64::from(SECTOR) == 0;
        self.need(fits, start(&raw.block_bytes), || {
            format!(
                "block_bytes = {block}: give a multiple of {SECTOR} up to {LARGEST_BLOCK}, \
                 since direct I/O moves whole sectors"
            )
        })?;
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
            arrival: self.arrival(raw)?,
        })
    }

    fn arrival(&self, raw: &RawTransition) -> Result<Arrival, PatternError> {
        let most = match raw.arrival {
            Law::Normal => MOST_NORMAL_SPREAD,
            Law::Gamma => MOST_GAMMA_SPREAD,
            Law::Fixed | Law::Exponential | Law::Poisson => 0.0,
        };
        let spread = match (&raw.spread, most > 0.0) {
            (Some(spread), true) => spread,
            (None, false) => {
                return Ok(match raw.arrival {
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
                return Err(self.error(start(&raw.inter_arrival_us), problem));
            }
        };
        let value = *spread.get_ref() as f32;
        self.need(value > 0.0 && value <= most, start(spread), || {
            format!(
                "spread = {value}: give the standard deviation of the time as a share of its \
                 mean, above 0 and at most {most}"
            )
        })?;
        Ok(match raw.arrival {
            Law::Normal => Arrival::Normal(value),
            _ => Arrival::Gamma(value),
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
        for (index, State { name, .. }) in states.iter().enumerate() {
            let leaving = || transitions.iter().filter(|kind| kind.from == index);
            let sum: f64 = leaving().map(|kind| kind.probability).sum();
            let last = raw.iter().rfind(|kind| kind.from.get_ref() == name);
            let at = last.and_then(|kind| start(&kind.probability));
            self.need((sum - 1.0).abs() <= SUM_TOLERANCE, at, || match last {
                Some(_) => format!(
                    "probability: the {} transitions from state '{name}' sum to {sum}; make them \
                     sum to 1",
                    leaving().count(),
                ),
                None => format!(
                    "no transition leaves state '{name}'; add [[transition]] tables with from = \
                     \"{name}\" whose probability sums to 1"
                ),
            })?;
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
                let leads = |kind: &&Transition| kind.probability > 0.0 && near(kind) == state;
                open.extend(pattern.transitions.iter().filter(leads).map(far));
            }
            if let Some(lost) = reached.iter().position(|reached| !reached) {
                let text = text
                    .replace("{first}", &pattern.states[0].name)
                    .replace("{state}", &pattern.states[lost].name);
                let problem = format!(
                    "{text}; every state must be reached from every other: add a [[transition]] \
                     or remove the state"
                );
                return Err(self.error(None, problem));
            }
        }
        Ok(())
    }
}

/// Where a value begins in the text.
fn start<T>(value: &Spanned<T>) -> Option<usize> {
    Some(value.span().start)
}
