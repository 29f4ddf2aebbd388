//! Storage patterns by name or from a TOML file; `scripts/patterns/mail.toml`
//! explains the format.

use super::pattern_file;
use super::pattern_file::Law;
pub use super::pattern_file::PatternError;
use super::pattern_file::PatternText;
use super::pattern_file::start;
use jostle_kernels::storage::pattern::Access;
use jostle_kernels::storage::pattern::LARGEST_BLOCK;
use jostle_kernels::storage::pattern::MOST_STATES;
use jostle_kernels::storage::pattern::MOST_TRANSITIONS;
use jostle_kernels::storage::pattern::Operation;
use jostle_kernels::storage::pattern::Pattern;
use jostle_kernels::storage::pattern::SECTOR;
use jostle_kernels::storage::pattern::State;
use jostle_kernels::storage::pattern::Transition;
use serde::Deserialize;
use std::ops::Deref;
use toml::Spanned;

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

/// The pattern called `name`: `sequential`, `random`, `mail`, or the file there.
///
/// # Errors
/// When there is no such file, or [`parse`] refuses it.
pub fn load(name: &str) -> Result<Pattern, PatternError> {
    match name {
        "sequential" => return Ok(Pattern::sequential()),
        "random" => return Ok(Pattern::random()),
        "mail" => return parse("mail", include_str!("../../patterns/mail.toml")),
        _ => {}
    }
    let missing = "no such file, and no built-in pattern of that name: give sequential, random, \
                   mail or a TOML file";
    let text = pattern_file::read(name, missing)?;
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
    Reader(PatternText { file, text }).read()
}

struct Reader<'a>(PatternText<'a>);

impl<'a> Deref for Reader<'a> {
    type Target = PatternText<'a>;

    fn deref(&self) -> &PatternText<'a> {
        &self.0
    }
}

/// The reader writes TOML, not Rust.
const WORDS: [(&str, &str); 3] = [
    (
        "expected a sequence",
        "expected a list; tables are [[state]] and [[transition]]",
    ),
    ("expected struct RawState", "expected [[state]] tables"),
    (
        "expected struct RawTransition",
        "expected [[transition]] tables",
    ),
];

impl Reader<'_> {
    fn read(&self) -> Result<Pattern, PatternError> {
        let raw: RawFile = self.parse(&WORDS)?;
        let states = self.states(&raw.state)?;
        let transitions = self.transitions(&raw.transition, &states)?;
        let names: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
        let steps = transitions.iter();
        let steps = steps.map(|kind| (kind.from, kind.to, kind.probability));
        self.connected(&names, &steps.collect::<Vec<_>>(), None)?;
        Ok(Pattern {
            name: self.file.into(),
            seed: raw.seed.unwrap_or(1),
            states,
            transitions,
        })
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
            self.name(name)?;
            let (at, name) = (start(name), name.get_ref());
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
            probability: self.probability(&raw.probability)?,
            block_bytes: block as u32,
            operation: raw.operation,
            access: raw.access,
            inter_arrival_us: self.inter_arrival_us(&raw.inter_arrival_us)?,
            arrival: self.arrival(raw.arrival, raw.spread.as_ref(), &raw.inter_arrival_us)?,
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
            let last = raw.iter().rfind(|kind| kind.from.get_ref() == name);
            let leaving = transitions.iter_mut().filter(|kind| kind.from == index);
            self.sum_to_one(
                leaving.map(|kind| &mut kind.probability),
                last.and_then(|kind| start(&kind.probability)),
                &format!("state '{name}'"),
            )?;
        }
        Ok(())
    }
}
