//! Labelled windows of node counters, from CSV.

use std::path::Path;
use thiserror::Error;

/// Why nothing could be learned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TrainingError {
    #[error("cannot read {file}: {why}")]
    Read { file: String, why: String },
    #[error(
        "{file}: no header; its first line has to name the columns: node, the counters, straggler"
    )]
    Empty { file: String },
    #[error("{file}:1: {what}")]
    Header { file: String, what: String },
    #[error("{file}:{line}: {what}")]
    Line {
        file: String,
        line: usize,
        what: String,
    },
    #[error("{file}: {windows} windows are too few to learn from; at least {least} are needed")]
    Few {
        file: String,
        windows: usize,
        least: usize,
    },
    #[error(
        "{file}: of the {windows} windows to learn from (the first two thirds) {}; \
         both kinds are needed",
        if *stragglers { "every one is a straggler" } else { "none is a straggler" }
    )]
    OneClass {
        file: String,
        windows: usize,
        stragglers: bool,
    },
    #[error("{what} is {value}; it has to be {range}")]
    Option {
        what: &'static str,
        value: String,
        range: &'static str,
    },
}

/// One window: what a node's counters said when work started there, and what
/// became of that work.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Window {
    pub node: String,
    pub counters: Vec<f32>,
    pub straggler: bool,
}

/// Windows in the order of the file, which is that of time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Windows {
    pub file: String,
    /// Names of counters.
    pub counters: Vec<String>,
    pub windows: Vec<Window>,
}

const NODE: &str = "node";
const STRAGGLER: &str = "straggler";

impl Windows {
    pub(super) fn load(path: &Path) -> Result<Self, TrainingError> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Windows::parse(&text, &file),
            Err(error) => Err(TrainingError::Read {
                file,
                why: error.to_string(),
            }),
        }
    }

    /// `text` with a header line of `node`, counters, `straggler` in any order,
    /// and a line per window. A field may stand in quotes, a quote in it twice,
    /// but not go over several lines. `file` is named in errors.
    pub(super) fn parse(text: &str, file: &str) -> Result<Self, TrainingError> {
        let file = file.to_string();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.lines();
        let header: Vec<String> = match lines.next() {
            Some(line) if !line.trim().is_empty() => fields(line),
            _ => return Err(TrainingError::Empty { file }),
        };
        let wrong = |what: String| TrainingError::Header {
            file: file.clone(),
            what,
        };
        for (at, name) in header.iter().enumerate() {
            if name.is_empty() {
                return Err(wrong(format!("column {} has no name", at + 1)));
            }
            if header[..at].contains(name) {
                return Err(wrong(format!("two columns are called `{name}`")));
            }
        }
        let column = |name: &str| {
            let at = header.iter().position(|column| *column == name);
            at.ok_or_else(|| wrong(format!("there is no column `{name}`; add it to the header")))
        };
        let (node, straggler) = (column(NODE)?, column(STRAGGLER)?);
        let counters: Vec<String> = header
            .iter()
            .filter(|name| *name != NODE && *name != STRAGGLER)
            .cloned()
            .collect();
        if counters.is_empty() {
            return Err(wrong(
                "there is no counter beside `node` and `straggler`".into(),
            ));
        }
        let mut windows = Vec::new();
        for (number, line) in lines.enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let wrong = |what: String| TrainingError::Line {
                file: file.clone(),
                line: number + 2,
                what,
            };
            let fields = fields(line);
            if fields.len() != header.len() {
                return Err(wrong(format!(
                    "{} fields, but the header names {} columns",
                    fields.len(),
                    header.len()
                )));
            }
            let mut window = Window {
                node: fields[node].clone(),
                counters: Vec::with_capacity(counters.len()),
                straggler: match fields[straggler].as_str() {
                    "0" => false,
                    "1" => true,
                    other => return Err(wrong(format!("`straggler` is `{other}`, not 0 or 1"))),
                },
            };
            if window.node.is_empty() {
                return Err(wrong("`node` is empty".into()));
            }
            for (at, field) in fields.iter().enumerate() {
                if at == node || at == straggler {
                    continue;
                }
                match field.parse::<f32>() {
                    Ok(value) if value.is_finite() => window.counters.push(value),
                    _ => {
                        let name = &header[at];
                        return Err(wrong(format!(
                            "`{name}` is `{field}`, not a finite number; leave the line out \
                             when a counter was not read"
                        )));
                    }
                }
            }
            windows.push(window);
        }
        Ok(Windows {
            file,
            counters,
            windows,
        })
    }
}

/// The fields of a line, without spaces around them.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
        .iter()
        .map(|field| field.trim().to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Windows::parse(text, "w.csv").unwrap_err().to_string()
    }

    #[test]
    fn columns_stand_in_any_order() {
        let windows =
            Windows::parse("a,straggler,node,b\n0.5, 1 ,n1,2\n\n1,0,n2,3\n", "w").unwrap();
        assert_eq!(windows.counters, ["a", "b"]);
        assert_eq!(windows.windows[0].counters, [0.5, 2.0]);
        assert!(windows.windows[0].straggler);
        assert_eq!(windows.windows[1].node, "n2");
    }

    #[test]
    fn fields_may_be_quoted() {
        assert_eq!(fields(r#""a, ""b""", 2,,"""#), [r#"a, "b""#, "2", "", ""]);
        assert_eq!(fields("a,b"), ["a", "b"]);
    }

    #[test]
    fn errors_name_file_line_and_column() {
        assert!(error("").starts_with("w.csv: no header"));
        assert_eq!(
            error("node,a\n"),
            "w.csv:1: there is no column `straggler`; add it to the header"
        );
        assert_eq!(
            error("a,straggler\n"),
            "w.csv:1: there is no column `node`; add it to the header"
        );
        assert!(error("node,straggler\n").contains("no counter"));
        assert!(error("node,a,a,straggler\n").contains("two columns are called `a`"));
        assert!(error("node,,straggler\n").contains("column 2 has no name"));
        let line = |line: &str| error(&format!("node,a,straggler\nn,1,0\n{line}\n"));
        assert_eq!(
            line("n,1"),
            "w.csv:3: 2 fields, but the header names 3 columns"
        );
        assert!(line("n,NaN,0").starts_with("w.csv:3: `a` is `NaN`, not a finite number"));
        assert!(line("n,x,0").contains("`a` is `x`"));
        assert!(line("n,inf,0").contains("`a` is `inf`"));
        assert!(line("n,,0").contains("`a` is ``"));
        assert_eq!(line("n,1,2"), "w.csv:3: `straggler` is `2`, not 0 or 1");
        assert_eq!(line(",1,1"), "w.csv:3: `node` is empty");
    }
}
