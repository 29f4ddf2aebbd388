//! Labelled windows of node counters, from CSV.

use crate::error::TrainingError;
use std::path::Path;

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

    /// CSV `text` with a header of `node`, counters, `straggler` in any order,
    /// and a record per window. `file` is named in errors.
    pub(super) fn parse(text: &str, file: &str) -> Result<Self, TrainingError> {
        let file = file.to_string();
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .flexible(true)
            .from_reader(text.as_bytes());
        let header = match reader.headers() {
            Ok(header) if !header.is_empty() => header.clone(),
            _ => {
                let what = "no header; its first line has to name the columns: \
                            node, the counters, straggler";
                let what = what.into();
                return Err(TrainingError::Windows { file, what });
            }
        };
        let wrong_at = |line: usize, what: String| TrainingError::Line {
            file: file.clone(),
            line,
            what,
        };
        let wrong = |what: String| wrong_at(1, what);
        for (at, name) in header.iter().enumerate() {
            if name.is_empty() {
                return Err(wrong(format!("column {} has no name", at + 1)));
            }
            if header.iter().take(at).any(|other| other == name) {
                return Err(wrong(format!("two columns are called `{name}`")));
            }
        }
        let column = |name: &str| {
            let at = header.iter().position(|column| column == name);
            at.ok_or_else(|| wrong(format!("there is no column `{name}`; add it to the header")))
        };
        let (node, straggler) = (column(NODE)?, column(STRAGGLER)?);
        let columns: Vec<usize> = (0..header.len())
            .filter(|at| *at != node && *at != straggler)
            .collect();
        let counters: Vec<String> = columns.iter().map(|at| header[*at].to_string()).collect();
        if counters.is_empty() {
            return Err(wrong(
                "there is no counter beside `node` and `straggler`".into(),
            ));
        }
        let mut windows = Vec::new();
        for record in reader.records() {
            let fields = record.map_err(|error| TrainingError::Read {
                file: file.clone(),
                why: error.to_string(),
            })?;
            let line = fields.position().map_or(0, |at| at.line() as usize);
            let wrong = |what: String| wrong_at(line, what);
            if fields.len() == 1 && fields[0].is_empty() {
                continue;
            }
            if fields.len() != header.len() {
                return Err(wrong(format!(
                    "{} fields, but the header names {} columns",
                    fields.len(),
                    header.len()
                )));
            }
            let straggler = match &fields[straggler] {
                "0" => false,
                "1" => true,
                other => return Err(wrong(format!("`straggler` is `{other}`, not 0 or 1"))),
            };
            if fields[node].is_empty() {
                return Err(wrong("`node` is empty".into()));
            }
            let read = columns.iter().map(|at| match fields[*at].parse::<f32>() {
                Ok(value) if value.is_finite() => Ok(value),
                _ => Err(wrong(format!(
                    "`{}` is `{}`, not a finite number; leave the line out when a counter was \
                     not read",
                    &header[*at], &fields[*at]
                ))),
            });
            windows.push(Window {
                node: fields[node].to_string(),
                counters: read.collect::<Result<_, _>>()?,
                straggler,
            });
        }
        Ok(Windows {
            file,
            counters,
            windows,
        })
    }
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
        let text = "node,\"a, \"\"b\"\"\", straggler
n,\"2\",0
";
        let windows = Windows::parse(text, "w").unwrap();
        assert_eq!(windows.counters, [r#"a, "b""#]);
        assert_eq!(windows.windows[0].counters, [2.0]);
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
