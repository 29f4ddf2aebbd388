//! A comparison for a comment on a pull request.

use super::words;
use crate::report::text;
use jostle_compare::Comparison;
use std::fmt::Write;

/// A heading with the answer, a table, and what has to be known about it.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    let mut page = format!(
        "### Interference: {}\n\n{}\n\n",
        comparison.verdict.word.words(),
        escaped(&words::conclusion(comparison))
    );
    page += "| resource | loss, % | change, points | tolerates | causes | uses, % | verdict |\n";
    page += "|---|---|---|---|---|---|---|\n";
    for it in &comparison.resources {
        let cells = [
            words::name_of(it),
            words::both(&it.loss),
            words::difference(&it.loss),
            words::both_whole(&it.tolerated),
            words::both_whole(&it.caused),
            words::both(&it.used),
            words::outcome(it.outcome()).to_string(),
        ]
        .map(|cell| escaped(&cell));
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
    page.push('\n');
    for (which, side) in [("old", &comparison.old), ("new", &comparison.new)] {
        let _ = writeln!(page, "- {which}: {}", escaped(&words::side(side)));
    }
    for it in &comparison.gate.judged {
        let _ = writeln!(page, "- condition {}", escaped(&words::judged(it)));
    }
    for notice in &comparison.notices {
        let _ = writeln!(page, "- warning: {}", escaped(&notice.message));
    }
    if let Some(names) = words::not_compared(comparison) {
        let _ = writeln!(page, "- {}", escaped(&names));
    }
    page
}

/// Text from a profile must not become a tag, a link, a cell or a mention.
pub(super) fn escaped(it: &str) -> String {
    let mut out = String::new();
    for c in text::clean(it).chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '@' => out += "&#64;",
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '#' | '!' | '~' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_text() {
        let name = "<b>x</b> | `y` [z](u) @me\u{1b}[31m";
        let text = escaped(name);
        assert!(!text.contains('<') && !text.contains('@') && !text.contains('\u{1b}'));
        assert!(text.contains("\\|") && text.contains("\\`y\\`") && text.contains("\\[z\\]"));
    }
}
