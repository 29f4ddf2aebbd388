//! Standard error: progress, warnings and the error a command ends with. What
//! cannot be written is dropped: a closed or full standard error is no reason
//! for a measurement to end.

use std::borrow::Cow;
use std::fmt::Arguments;
use std::fmt::Write as _;
use std::io::Write;

/// A longer line was not written for a person: it is cut. Characters.
const LONGEST_LINE: usize = 8_192;

/// Writes `text` in one piece, as far as standard error takes it: harmless, and in
/// lines of a sensible length.
pub fn write(text: Arguments) {
    let text = text.to_string();
    raw(format_args!("{}", harmless(&cut(&text), &[])));
}

/// As [`write`], with what steers the terminal.
pub fn raw(text: Arguments) {
    let _ = std::io::stderr()
        .lock()
        .write_all(text.to_string().as_bytes());
}

/// Whether a terminal would do something else with it than show it: move the cursor,
/// change colours, reverse what is around it.
pub fn steers(character: char) -> bool {
    let bidirectional = matches!(character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    bidirectional || character.is_control() && !matches!(character, '\n' | '\t')
}

/// `text` without anything that steers a terminal, but for the sequences `own`, which
/// are ours. What is taken out stands as JSON would write it, so that a document stays
/// one.
pub fn harmless<'a>(text: &'a str, own: &[&str]) -> Cow<'a, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some(ours) = own.iter().find(|ours| rest.starts_with(**ours)) {
            clean += ours;
            rest = &rest[ours.len()..];
            continue;
        }
        match steers(character) {
            true => _ = write!(clean, "\\u{:04x}", u32::from(character)),
            false => clean.push(character),
        }
        rest = &rest[character.len_utf8()..];
    }
    Cow::Owned(clean)
}

fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST_LINE {
        return Cow::Borrowed(text);
    }
    let short = |line: &str| match line.char_indices().nth(LONGEST_LINE) {
        None => line.to_string(),
        Some((end, _)) => format!("{} … ({} bytes more)", &line[..end], line.len() - end),
    };
    let lines: Vec<String> = text.split('\n').map(short).collect();
    Cow::Owned(lines.join("\n"))
}

/// A line on standard error, formatted as by `format!`.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => {
        $crate::console::write(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// A line on standard error that starts with `jostle: warning: `.
#[macro_export]
macro_rules! warning {
    ($($text:tt)*) => {
        $crate::console::note!("jostle: warning: {}", format_args!($($text)*))
    };
}

pub use note;
pub use warning;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal_but_what_is_ours() {
        let own = ["\u{1b}[1m", "\u{1b}[0m"];
        let text = "\u{1b}[1mbold\u{1b}[0m\ta\u{1b}[31mb\u{202e}c\u{9b}d\re\n";
        let clean = "\u{1b}[1mbold\u{1b}[0m\ta\\u001b[31mb\\u202ec\\u009bd\\u000de\n";
        assert_eq!(harmless(text, &own), clean);
        assert!(!harmless(text, &[]).contains(steers));
        assert!(matches!(harmless("größer ≥ 5 %\n", &[]), Cow::Borrowed(_)));
        let json = serde_json::json!({ "name": "a\u{202e}\u{7f}\u{1b}" }).to_string();
        let read: serde_json::Value = serde_json::from_str(&harmless(&json, &[])).unwrap();
        assert_eq!(read["name"], "a\u{202e}\u{7f}\u{1b}");
    }

    #[test]
    fn long_lines_are_cut_and_others_stay() {
        let text = format!("one\n{}\nthree\n", "ä".repeat(50_000));
        let short = cut(&text);
        assert!(short.len() < 20_000 && short.starts_with("one\nää"));
        assert!(short.ends_with("bytes more)\nthree\n"));
        assert_eq!(cut("short\n"), "short\n");
    }
}
