//! Network patterns by name or from a TOML file; `scripts/patterns/web.toml`
//! explains the format.

use super::pattern_file;
use super::pattern_file::Law;
pub use super::pattern_file::PatternError;
use super::pattern_file::PatternText;
use super::pattern_file::start;
use jostle_kernels::network::pattern::LARGEST_MESSAGE;
use jostle_kernels::network::pattern::MOST_MESSAGES;
use jostle_kernels::network::pattern::MOST_TRANSITIONS;
use jostle_kernels::network::pattern::MOST_WINDOWS;
use jostle_kernels::network::pattern::Message;
use jostle_kernels::network::pattern::Pattern;
use jostle_kernels::network::pattern::Transition;
use jostle_kernels::network::pattern::Window;
use jostle_kernels::network::pattern::always;
use serde::Deserialize;
use std::ops::Deref;
use toml::Spanned;

/// Shortest and longest window, seconds.
const WINDOW_SECONDS: (f64, f64) = (0.01, 3600.0);

/// Names of the built-in patterns; the first is played unless another is named.
pub const NAMES: [&str; 3] = ["bulk", "burst", "web"];

const MISSING: &str = "no such file, and no built-in pattern of that name: give bulk, burst, web \
                       or a TOML file";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    message: Vec<RawMessage>,
    #[serde(default)]
    window: Vec<RawWindow>,
    #[serde(default)]
    transition: Vec<RawTransition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMessage {
    name: Spanned<String>,
    bytes: Spanned<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWindow {
    name: Spanned<String>,
    seconds: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTransition {
    #[serde(default)]
    window: Option<Spanned<String>>,
    from: Spanned<String>,
    to: Spanned<String>,
    probability: Spanned<f64>,
    inter_arrival_us: Spanned<f64>,
    #[serde(default)]
    arrival: Law,
    #[serde(default)]
    spread: Option<Spanned<f64>>,
}

/// The pattern called `name`: `bulk`, `burst`, `web`, or the file there.
///
/// # Errors
/// When there is no such file, or [`parse`] refuses it.
pub fn load(name: &str) -> Result<Pattern, PatternError> {
    match name {
        "bulk" => Ok(Pattern::bulk()),
        "burst" => Ok(Pattern::burst()),
        "web" => parse("web", include_str!("../../patterns/web.toml")),
        _ => parse(name, &pattern_file::read(name, MISSING)?),
    }
}

/// Checks the pattern in `text`; `file` is for messages.
///
/// # Errors
/// TOML that is not well formed; a key that is unknown, missing or of the wrong
/// type; no message; names that are repeated or unknown; sizes, times and lengths
/// out of bounds; transitions without a window where there are windows;
/// probabilities that do not sum to 1 for what follows a message in a window;
/// messages of a window that cannot reach each other; several windows and no
/// times.
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
const WORDS: [(&str, &str); 4] = [
    (
        "expected a sequence",
        "expected a list; tables are [[message]], [[window]] and [[transition]]",
    ),
    ("expected struct RawMessage", "expected [[message]] tables"),
    ("expected struct RawWindow", "expected [[window]] tables"),
    (
        "expected struct RawTransition",
        "expected [[transition]] tables",
    ),
];

impl Reader<'_> {
    fn read(&self) -> Result<Pattern, PatternError> {
        let raw: RawFile = self.parse(&WORDS)?;
        let count = raw.transition.len();
        self.need(count <= MOST_TRANSITIONS, None, || {
            format!("holds {count} transitions; {MOST_TRANSITIONS} are the most")
        })?;
        let messages = self.messages(&raw.message)?;
        let windows = self.windows(&raw, &messages)?;
        Ok(Pattern {
            seed: raw.seed.unwrap_or(1),
            messages,
            windows,
        })
    }

    fn messages(&self, raw: &[RawMessage]) -> Result<Vec<Message>, PatternError> {
        let count = raw.len();
        self.need(count > 0, None, || {
            "holds no message; add at least one [[message]] with name and bytes, and a \
             [[transition]]"
                .into()
        })?;
        self.need(count <= MOST_MESSAGES, None, || {
            format!("holds {count} messages; {MOST_MESSAGES} are the most")
        })?;
        let mut messages: Vec<Message> = Vec::new();
        for RawMessage { name, bytes } in raw {
            self.name(name)?;
            let repeated = messages.iter().any(|other| other.name == *name.get_ref());
            self.need(!repeated, start(name), || {
                format!(
                    "there are two messages named '{}'; rename one",
                    name.get_ref()
                )
            })?;
            let size = *bytes.get_ref();
            let fits = (1..=i64::from(LARGEST_MESSAGE)).contains(&size);
            self.need(fits, start(bytes), || {
                format!("bytes = {size}: give the payload, 1 to {LARGEST_MESSAGE} bytes")
            })?;
            messages.push(Message {
                name: name.get_ref().clone(),
                bytes: size as u32,
            });
        }
        Ok(messages)
    }

    fn windows(&self, raw: &RawFile, messages: &[Message]) -> Result<Vec<Window>, PatternError> {
        let count = raw.window.len();
        self.need(count <= MOST_WINDOWS, None, || {
            format!("holds {count} windows; {MOST_WINDOWS} are the most")
        })?;
        let mut windows: Vec<Window> = Vec::new();
        for RawWindow { name, seconds } in &raw.window {
            self.name(name)?;
            let repeated = windows.iter().any(|other| other.name == *name.get_ref());
            self.need(!repeated, start(name), || {
                format!(
                    "there are two windows named '{}'; rename one",
                    name.get_ref()
                )
            })?;
            let (least, most) = WINDOW_SECONDS;
            let length = *seconds.get_ref();
            self.need((least..=most).contains(&length), start(seconds), || {
                format!("seconds = {length}: give {least} to {most}")
            })?;
            windows.push(Window {
                name: name.get_ref().clone(),
                seconds: length,
                transitions: Vec::new(),
            });
        }
        if windows.is_empty() {
            windows.push(always(Vec::new()));
        }
        let named = !raw.window.is_empty();
        for kind in &raw.transition {
            let window = self.window(kind, &windows, named)?;
            let transition = self.transition(kind, messages)?;
            windows[window].transitions.push(transition);
        }
        for (index, window) in windows.iter_mut().enumerate() {
            let name = named.then(|| window.name.clone());
            let of = |kind: &&RawTransition| {
                let found = kind.window.as_ref().map(|name| name.get_ref());
                !named || found == name.as_ref()
            };
            let own: Vec<&RawTransition> = raw.transition.iter().filter(of).collect();
            let at = match named {
                true => start(&raw.window[index].name),
                false => None,
            };
            self.chain(window, &own, messages, at, count > 1)?;
        }
        let silent = windows.iter().all(|window| window.transitions.is_empty());
        self.need(!silent, None, || {
            "holds no [[transition]]; add at least one, from a message to a message, with \
             probability and inter_arrival_us"
                .into()
        })?;
        Ok(windows)
    }

    /// The index of the window that a transition belongs to.
    fn window(
        &self,
        kind: &RawTransition,
        windows: &[Window],
        named: bool,
    ) -> Result<usize, PatternError> {
        let known = || {
            let known: Vec<&str> = windows.iter().map(|window| window.name.as_str()).collect();
            known.join(", ")
        };
        match &kind.window {
            None if !named => Ok(0),
            None => {
                let problem = format!("add window, one of {}, to this transition", known());
                Err(self.error(start(&kind.from), problem))
            }
            Some(window) if !named => {
                let problem = format!(
                    "window = \"{}\": there is no [[window]] of that name; add it with its seconds, \
                     or leave the key out",
                    window.get_ref()
                );
                Err(self.error(start(window), problem))
            }
            Some(window) => {
                let name = window.get_ref();
                let found = windows.iter().position(|window| window.name == *name);
                found.ok_or_else(|| {
                    let problem = format!(
                        "window = \"{name}\": there is no such window; there are {}",
                        known()
                    );
                    self.error(start(window), problem)
                })
            }
        }
    }

    fn transition(
        &self,
        raw: &RawTransition,
        messages: &[Message],
    ) -> Result<Transition, PatternError> {
        let message = |key: &str, name: &Spanned<String>| {
            let (at, name) = (start(name), name.get_ref());
            let found = messages.iter().position(|message| message.name == *name);
            found.ok_or_else(|| {
                let known: Vec<&str> = messages.iter().map(|it| it.name.as_str()).collect();
                let known = known.join(", ");
                let problem =
                    format!("{key} = \"{name}\": there is no such message; there are {known}");
                self.error(at, problem)
            })
        };
        Ok(Transition {
            from: message("from", &raw.from)?,
            to: message("to", &raw.to)?,
            probability: self.probability(&raw.probability)?,
            inter_arrival_us: self.inter_arrival_us(&raw.inter_arrival_us)?,
            arrival: self.arrival(raw.arrival, raw.spread.as_ref(), &raw.inter_arrival_us)?,
        })
    }

    /// The chain of one window, written as `raw`; `at` is where the window is
    /// named.
    fn chain(
        &self,
        window: &mut Window,
        raw: &[&RawTransition],
        messages: &[Message],
        at: Option<usize>,
        several: bool,
    ) -> Result<(), PatternError> {
        if window.transitions.is_empty() {
            return Ok(());
        }
        let ends = |kind: &Transition| [kind.from, kind.to];
        let mut used: Vec<usize> = window.transitions.iter().flat_map(ends).collect();
        used.sort_unstable();
        used.dedup();
        let of = match at {
            Some(_) => format!(" in window '{}'", window.name),
            None => String::new(),
        };
        for &message in &used {
            let name = &messages[message].name;
            let last = raw.iter().rfind(|kind| kind.from.get_ref() == name);
            let kinds = window.transitions.iter_mut();
            let leaving = kinds.filter(|kind| kind.from == message);
            self.sum_to_one(
                leaving.map(|kind| &mut kind.probability),
                last.and_then(|kind| start(&kind.probability)),
                &format!("message '{name}'{of}"),
            )?;
        }
        let names: Vec<&str> = used.iter().map(|&it| messages[it].name.as_str()).collect();
        let index = |message: usize| used.binary_search(&message).unwrap_or(0);
        let steps = window.transitions.iter();
        let steps = steps.map(|kind| (index(kind.from), index(kind.to), kind.probability));
        self.connected(&names, &steps.collect::<Vec<_>>(), at)?;
        let timed = |kind: &Transition| kind.probability * kind.inter_arrival_us > 0.0;
        let endless = several && !window.transitions.iter().any(timed);
        self.need(!endless, at, || {
            format!(
                "inter_arrival_us is 0 in every transition of window '{}', which would so have no \
                 rate; give at least one above 0",
                window.name
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_kernels::network::pattern::Arrival;

    const SMALL: &str = "\
seed = 7
[[message]]
name = \"call\"
bytes = 100
[[message]]
name = \"answer\"
bytes = 4000
[[window]]
name = \"day\"
seconds = 2
[[window]]
name = \"night\"
seconds = 0.5
[[transition]]
window = \"day\"
from = \"call\"
to = \"answer\"
probability = 1
inter_arrival_us = 50
[[transition]]
window = \"day\"
from = \"answer\"
to = \"call\"
probability = 1
inter_arrival_us = 950
arrival = \"gamma\"
spread = 2.0
";

    #[test]
    fn a_file_is_what_it_says() {
        let pattern = parse("small.toml", SMALL).unwrap();
        assert_eq!(pattern.seed, 7);
        assert_eq!(pattern.windows[1].transitions, []);
        let answer = pattern.windows[0].transitions[1];
        assert_eq!(answer.arrival, Arrival::Gamma(2.0));
        // 2000 messages a second in four fifths of the time.
        let (bytes, messages) = pattern.per_second(1).unwrap();
        assert!((messages - 1600.0).abs() < 1e-6, "{messages}");
        assert!((bytes - 1600.0 * 2050.0).abs() < 1e-3, "{bytes}");
    }

    #[test]
    fn the_built_in_ones_hold_their_own_rules() {
        for name in NAMES {
            let pattern = load(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(pattern.is_timed(), name != "bulk", "{name}");
        }
    }

    #[test]
    fn a_bad_pattern_names_file_line_and_fix() {
        let plain = "[[message]]\nname = \"a\"\nbytes = 1\n";
        let untimed = SMALL.replace("= 50", "= 0").replace("= 950", "= 0");
        let cases: Vec<(String, Option<usize>, &[&str])> = vec![
            (String::new(), None, &["no message", "[[message]]"]),
            (plain.into(), None, &["no [[transition]]"]),
            (
                SMALL.replace("= 100\n", "= 0\n"),
                Some(4),
                &["bytes = 0", "1 to"],
            ),
            (
                SMALL.replace("\"answer\"\nbytes", "\"call\"\nbytes"),
                Some(6),
                &["two messages named 'call'"],
            ),
            (
                SMALL.replace("\"night\"", "\"day\""),
                Some(12),
                &["two windows named 'day'"],
            ),
            (
                SMALL.replace("= 0.5", "= 0"),
                Some(13),
                &["seconds = 0", "0.01"],
            ),
            (
                SMALL.replacen("window = \"day\"\n", "", 1),
                Some(15),
                &["add window", "day, night"],
            ),
            (
                SMALL.replacen("window = \"day\"", "window = \"dawn\"", 1),
                Some(15),
                &["dawn", "day, night"],
            ),
            (
                SMALL.replacen("from = \"call\"", "from = \"cell\"", 1),
                Some(16),
                &["from = \"cell\"", "call, answer"],
            ),
            (
                SMALL.replacen("probability = 1", "probability = 0.7", 1),
                Some(18),
                &["message 'call' in window 'day'", "0.7"],
            ),
            (
                SMALL.replace("to = \"call\"", "to = \"answer\""),
                Some(9),
                &["no transitions lead back to 'call'"],
            ),
            (untimed, Some(9), &["inter_arrival_us is 0", "'day'"]),
            (
                SMALL.replace("spread = 2.0\n", ""),
                Some(25),
                &["add spread"],
            ),
            (SMALL.replace("bytes", "octets"), None, &["octets"]),
            (
                plain.replace("[[message]]", "[message]"),
                None,
                &["[[message]]"],
            ),
        ];
        for (text, line, words) in cases {
            let error = parse("bad.toml", &text).expect_err(&text);
            let said = error.to_string();
            assert!(said.starts_with("bad.toml"), "{said}");
            if line.is_some() {
                assert_eq!(error.line, line, "{said}");
            }
            for word in words {
                assert!(said.contains(word), "'{word}' in: {said}");
            }
        }
        for (name, word) in [
            ("/no/such/file", "bulk, burst, web"),
            ("/dev/zero", "not a regular file"),
        ] {
            let error = load(name).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(word), "{error}");
        }
    }
}
