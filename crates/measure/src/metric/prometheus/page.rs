//! The text format in which programs expose their metrics.
//!
//! Read here and not by `prometheus-parse`: that passes over lines that it
//! cannot read (so an HTML page is a page without metrics), and has no colons
//! in names and no braces in the values of labels.

use crate::metric::error::FormatError;
use crate::metric::error::PageError;
use std::collections::BTreeMap;
use std::collections::HashMap;

/// What a TYPE line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Counter,
    Gauge,
    Histogram,
    Summary,
    Untyped,
}

/// Labels of a series, by name.
pub(super) type Labels = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub name: String,
    pub labels: Labels,
    pub value: f64,
}

impl Sample {
    /// As it would be written: `name{a="b"}`.
    pub(super) fn series(&self) -> String {
        shown(&self.name, &self.labels)
    }
}

/// `name{a="b"}`.
pub(super) fn shown(name: &str, labels: &Labels) -> String {
    if labels.is_empty() {
        return name.to_string();
    }
    let parts: Vec<String> = labels
        .iter()
        .map(|(label, value)| format!("{label}={value:?}"))
        .collect();
    format!("{name}{{{}}}", parts.join(","))
}

/// One answer of the endpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    types: HashMap<String, Type>,
    pub samples: Vec<Sample>,
}

impl Page {
    pub(super) fn parse(text: &str) -> Result<Page, PageError> {
        let mut page = Page::default();
        for (number, line) in text.lines().enumerate() {
            let at = |reason: FormatError| PageError::Line {
                number: number + 1,
                reason,
                start: line.chars().take(80).flat_map(char::escape_debug).collect(),
            };
            let line = line.trim();
            if let Some(comment) = line.strip_prefix('#') {
                page.comment(comment).map_err(at)?;
            } else if !line.is_empty() {
                page.samples.push(sample(line).map_err(at)?);
            }
        }
        Ok(page)
    }

    fn comment(&mut self, text: &str) -> Result<(), FormatError> {
        let mut words = text.split_ascii_whitespace();
        if words.next() != Some("TYPE") {
            return Ok(());
        }
        let (Some(name), Some(kind)) = (words.next(), words.next()) else {
            return Err(FormatError::TypeLine);
        };
        let kind = match kind {
            "counter" => Type::Counter,
            "gauge" => Type::Gauge,
            "histogram" => Type::Histogram,
            "summary" => Type::Summary,
            // Those of OpenMetrics behave like these.
            "gaugehistogram" | "info" | "stateset" | "untyped" | "unknown" => Type::Untyped,
            other => return Err(FormatError::Type(other.into())),
        };
        self.types.insert(name.to_string(), kind);
        Ok(())
    }

    /// The type of the samples called `name`, by their TYPE line or suffix.
    pub(super) fn type_of(&self, name: &str) -> Type {
        let said = |name: &str| self.types.get(name).copied();
        if let Some(kind) = said(name).filter(|kind| *kind != Type::Untyped) {
            return kind;
        }
        for suffix in ["_total", "_count", "_sum", "_bucket"] {
            let Some(family) = name.strip_suffix(suffix) else {
                continue;
            };
            match (suffix, said(family)) {
                ("_total", _) | (_, Some(Type::Histogram | Type::Summary)) => return Type::Counter,
                _ => {}
            }
        }
        Type::Untyped
    }

    /// Names of all samples, each once.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.samples.iter().map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// A line `name{label="value",…} value [time] [# exemplar]`.
fn sample(line: &str) -> Result<Sample, FormatError> {
    let (name, rest) = take_name(line, true)?;
    let (labels, rest) = match rest.trim_start().strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (Labels::new(), rest),
    };
    let rest = rest.split(" # ").next().unwrap_or(rest);
    let mut words = rest.split_ascii_whitespace();
    let value = words.next().ok_or(FormatError::NoValue)?;
    let value = number(value).ok_or_else(|| FormatError::Value(value.into()))?;
    if let Some(time) = words.next()
        && time.parse::<f64>().is_err()
    {
        return Err(FormatError::Time(time.into()));
    }
    match words.next() {
        Some(more) => Err(FormatError::Behind(more.into())),
        None => Ok(Sample {
            name: name.into(),
            labels,
            value,
        }),
    }
}

fn number(word: &str) -> Option<f64> {
    // Words that Rust reads as numbers and the format does not have.
    let letters = word.trim_start_matches(['+', '-']);
    let special = ["inf", "nan"].contains(&letters.to_lowercase().as_str());
    (special || letters.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
        .then(|| word.parse().ok())?
}

fn take_name(text: &str, colons: bool) -> Result<(&str, &str), FormatError> {
    let inside = |(at, c): &(usize, char)| {
        c.is_ascii_alphabetic()
            || *c == '_'
            || (colons && *c == ':')
            || (*at > 0 && c.is_ascii_digit())
    };
    let end = text
        .char_indices()
        .find(|found| !inside(found))
        .map_or(text.len(), |(at, _)| at);
    match end {
        0 => Err(FormatError::Name),
        _ => Ok(text.split_at(end)),
    }
}

/// Labels up to their closing brace, and what follows it.
pub(super) fn labels(text: &str) -> Result<(Labels, &str), FormatError> {
    let mut found = Labels::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((found, after));
        }
        let (name, after) = take_name(rest, false)?;
        let after = after.trim_start().strip_prefix('=');
        let after = after
            .map(str::trim_start)
            .and_then(|rest| rest.strip_prefix('"'));
        let after = after.ok_or_else(|| FormatError::Label(name.into()))?;
        let (value, after) = quoted(after)?;
        found.insert(name.into(), value);
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None if rest.starts_with('}') => {}
            None => return Err(FormatError::Brace),
        }
    }
}

/// Text up to the closing quote, and what follows it.
fn quoted(text: &str) -> Result<(String, &str), FormatError> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match letters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, other @ ('\\' | '"'))) => value.push(other),
                _ => return Err(FormatError::Escape),
            },
            other => value.push(other),
        }
    }
    Err(FormatError::Quote)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP up It is.\n# TYPE up gauge\nup 1\n\n\
        # TYPE http_requests counter\n\
        http_requests_total{code=\"200\",path=\"/a\\\"b\\\\c\\nd\"} 1027 1395066363000\n\
        http_requests_total{ code = \"500\", } 3e2\n\
        # TYPE rpc histogram\nrpc_bucket{le=\"+Inf\"} 7 # {trace=\"x\"} 0.5\nrpc_sum NaN\nrpc_count 7\n\
        lonely +Inf\n# EOF\n";

    #[test]
    fn a_page_is_read() {
        let page = Page::parse(PAGE).unwrap();
        assert_eq!(page.samples.len(), 7);
        assert_eq!(page.samples[1].labels["path"], "/a\"b\\c\nd");
        assert_eq!(page.samples[2].value, 300.0);
        assert_eq!(page.samples[3].series(), "rpc_bucket{le=\"+Inf\"}");
        assert!(page.samples[4].value.is_nan());
        assert_eq!(page.type_of("up"), Type::Gauge);
        assert_eq!(page.type_of("http_requests_total"), Type::Counter);
        assert_eq!(page.type_of("other_total"), Type::Counter);
        assert_eq!(page.type_of("rpc"), Type::Histogram);
        assert_eq!(page.type_of("rpc_count"), Type::Counter);
        assert_eq!(page.type_of("lonely"), Type::Untyped);
        assert_eq!(page.type_of("thread_count"), Type::Untyped);
    }

    #[test]
    fn malformed_lines_are_numbered() {
        for wrong in [
            "x",
            "x y",
            "9x 1",
            "x{ 1",
            "x{a} 1",
            "x{a=b} 1",
            "x{a=\"b} 1",
            "x{a=\"\\q\"} 1",
            "x{a=\"b\" c=\"d\"} 1",
            "x 1 2 3",
            "x 1 then",
            "x infinity1",
            "# TYPE x",
            "# TYPE x meter",
            "<html>",
            "\u{0}",
        ] {
            let error = Page::parse(&format!("ok 1\n{wrong}\n"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(": line 2: "), "{wrong}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in ".{0,200}") {
            let _ = Page::parse(&text);
        }

        #[test]
        fn what_is_written_is_read(value in "[^\\n]{0,20}", number in -1e12f64..1e12) {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
            // A carriage return at the end of a line is not part of it.
            let page = Page::parse(&format!("m{{l=\"{escaped}\"}} {number}\n")).unwrap();
            proptest::prop_assert_eq!(&page.samples[0].labels["l"], &value);
            proptest::prop_assert_eq!(page.samples[0].value, number);
        }
    }
}
