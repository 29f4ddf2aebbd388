//! Numbers and words as people read them.

use jostle_measure::console::steers;
use jostle_profile::PlacementMode;
use jostle_profile::Status;
use jostle_profile::cpulist::format_list;

/// Cells of a bar.
const BAR_CELLS: usize = 10;

/// A bar of ten cells for `percent` of 100. Anything above 0 shows at least
/// one cell, so that a small effect does not look like none.
pub fn bar(percent: f64) -> String {
    let share = (percent / 100.0).clamp(0.0, 1.0);
    let mut full = (share * BAR_CELLS as f64).round() as usize;
    if percent >= 0.5 {
        full = full.max(1);
    }
    "█".repeat(full) + &"░".repeat(BAR_CELLS - full)
}

/// A bar of five cells for `percent` of 100, in eighths of a cell.
pub fn short_bar(percent: f64) -> String {
    const CELLS: usize = 5;
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = (percent / 100.0).clamp(0.0, 1.0);
    let eighths = (share * 8.0 * CELLS as f64).round() as usize;
    let bar = "█".repeat(eighths / 8) + PARTS[eighths % 8];
    format!("{bar:<CELLS$}")
}

/// A number with as many digits as a reader can use: three significant ones
/// below 1000, whole and with thousands separators above.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return value.to_string();
    }
    if size >= 1e15 || (size > 0.0 && size < 0.001) {
        return format!("{value:.2e}");
    }
    if size >= 1000.0 {
        return thousands(value);
    }
    let decimals = match size {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        text
    }
}

/// Percent with two digits that matter: 4.3, 19.
pub fn short(percent: f64) -> String {
    match percent.abs() < 9.95 {
        true => format!("{percent:.1}"),
        false => format!("{percent:.0}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 {
        text.insert(0, '−');
    }
    text
}

/// Bytes in binary units.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() < 0.05 || value >= 100.0 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// Seconds as people say them.
pub fn duration(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1000.0)
    } else if seconds < 120.0 {
        format!("{} s", number(seconds))
    } else {
        let whole = seconds.round() as u64;
        match (whole / 60, whole % 60) {
            (minutes, 0) => format!("{minutes} min"),
            (minutes, seconds) => format!("{minutes} min {seconds} s"),
        }
    }
}

/// CPU numbers with runs joined: `0-3,6`.
pub fn cpu_list(cpus: &[usize]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    format_list(&sorted)
}

pub fn mode(mode: PlacementMode) -> &'static str {
    mode.name()
}

pub fn status(status: Status) -> &'static str {
    match status {
        Status::Measured => "measured",
        Status::Inferred => "inferred",
        Status::NotShared => "not shared",
        Status::Unavailable => "unavailable",
        Status::Unresolved => "unresolved",
    }
}

/// Text from a file, safe to print: a profile from elsewhere must not move the
/// cursor or recolour the terminal.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c == '\n' || c == '\t' || steers(c) {
                ' '
            } else {
                c
            }
        })
        .collect()
}

/// `text`, made clean, in lines of at most `width` characters: the first after
/// `first`, the others indented to the same column. A word longer than a line
/// stays whole, and so does a percentage.
pub fn wrap(first: &str, text: &str, width: usize) -> String {
    let indent = " ".repeat(first.chars().count());
    let mut lines = String::new();
    let mut line = first.to_string();
    let mut empty = true;
    let text = clean(text);
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let mut word = word.to_string();
        while let Some(sign) = words.next_if(|next| next.starts_with('%')) {
            word.push(' ');
            word.push_str(sign);
        }
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line.clone_from(&indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(&word);
        empty = false;
    }
    lines.push_str(line.trim_end());
    lines.push('\n');
    lines
}

/// A line for each fact that has a value: its name in a column of its own, the
/// value beside it.
pub fn facts<'a>(
    indent: &str,
    column: usize,
    facts: impl IntoIterator<Item = (&'a str, Option<String>)>,
    width: usize,
) -> String {
    let line = |(name, value): (&str, Option<String>)| {
        let first = format!("{indent}{name:<column$}");
        Some(wrap(&first, &value?, width))
    };
    facts.into_iter().filter_map(line).collect()
}

/// A line for each of `items`, after `mark`.
pub fn list(mark: &str, items: &[String], width: usize) -> String {
    items.iter().map(|item| wrap(mark, item, width)).collect()
}

/// A list below a title after an empty line; nothing without lines.
pub fn titled(title: &str, lines: &[String], prose: usize) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let end = if title.is_empty() { "" } else { "\n" };
    let lines = list("  - ", lines, prose);
    format!("\n{title}{end}{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_a_small_effect() {
        assert_eq!(bar(0.0), "░░░░░░░░░░");
        assert_eq!(bar(1.0), "█░░░░░░░░░");
        assert_eq!(bar(56.0), "██████░░░░");
        assert_eq!(bar(100.0), "██████████");
        assert_eq!(bar(f64::NAN), "░░░░░░░░░░");
    }

    #[test]
    fn numbers_keep_what_a_reader_can_use() {
        assert_eq!(number(128_400.0), "128,400");
        assert_eq!(number(-1_234.0), "−1,234");
        assert_eq!(number(4.2), "4.2");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(0.0421), "0.0421");
        assert_eq!(number(100.0), "100");
        assert_eq!(bytes(2_097_152), "2 MiB");
        assert_eq!(bytes(1_610_612_736), "1.5 GiB");
        assert_eq!(duration(412.5), "6 min 53 s");
        assert_eq!(cpu_list(&[6, 1, 0, 2, 1]), "0-2,6");
    }

    #[test]
    fn wrapped_lines_hang() {
        assert_eq!(wrap("- ", "one two three", 9), "- one two\n  three\n");
        assert_eq!(wrap("- ", "", 9), "-\n");
        assert_eq!(wrap("- ", "of (7 %), too", 9), "- of\n  (7 %),\n  too\n");
        assert_eq!(clean("a\u{1b}[31mb"), "a [31mb");
    }
}
