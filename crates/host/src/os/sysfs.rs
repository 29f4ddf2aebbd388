//! `/sys`: settings and devices, by the ways the kernel writes them there.

use super::Error;
use super::ParseError;
use super::text;
use std::path::Path;

/// Event sources of the kernel, one directory each.
pub const EVENT_SOURCES: &str = "sys/bus/event_source/devices";

/// The number of an event source, as the kernel assigned it at boot.
pub fn event_source(root: &Path, name: &str) -> Result<u32, Error> {
    text::number(root, format!("{EVENT_SOURCES}/{name}/type"))
}

/// The word in brackets: `always [madvise] never`.
pub fn choice(root: &Path, path: &str) -> Result<String, Error> {
    text::parse(root, path, |text| {
        text.split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'))
            .map(|(word, _)| word.to_string())
            .ok_or_else(|| ParseError::text(text, "marks no choice"))
    })
}

/// Bytes in a file that says `48K`, `2048K`, `32M`.
pub fn size(root: &Path, path: &str) -> Result<u64, Error> {
    text::parse(root, path, |text| {
        let (digits, unit) = match text.as_bytes().last() {
            Some(b'K') => (&text[..text.len() - 1], 1 << 10),
            Some(b'M') => (&text[..text.len() - 1], 1 << 20),
            Some(b'G') => (&text[..text.len() - 1], 1 << 30),
            _ => (text, 1),
        };
        digits
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(unit))
            .filter(|&bytes| bytes > 0)
            .ok_or_else(|| ParseError::text(text, "is not a size"))
    })
}

/// A file that says 0 or 1.
pub fn flag(root: &Path, path: impl AsRef<Path>) -> Result<bool, Error> {
    text::parse(root, path, |text| match text {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(ParseError::text(other, "is neither 0 nor 1")),
    })
}
