//! Labelled windows, from CSV.

use super::features::FEATURES;
use crate::error::TrainingError;
use csv::StringRecord;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_RECORDING;
use jostle_profile::windows as written;
use std::path::Path;

/// One window: what a node's counters said, and whether what ran there was slow.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Window {
    /// Sorts by time; empty where the file does not say it.
    pub time: String,
    pub node: String,
    /// Empty where the file does not say it.
    pub workload: String,
    /// In the order of the features; not a number where missing.
    pub values: Vec<f32>,
    pub slow: bool,
}

/// Windows in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Windows {
    pub files: Vec<String>,
    /// Names of what is learned from.
    pub features: Vec<String>,
    pub windows: Vec<Window>,
    /// Windows of which it is not known whether the workload was slow.
    pub unlabelled: usize,
    /// What the reader of a report should know.
    pub notes: Vec<String>,
}

const STRAGGLER: &str = "straggler";

impl Windows {
    /// Those of all files: of agents in any number, or of one kind of others.
    pub(super) fn load(paths: &[impl AsRef<Path>]) -> Result<Self, TrainingError> {
        let mut all = Windows::default();
        for path in paths {
            let file = path.as_ref().display().to_string();
            let text = regular::read_text(path.as_ref(), LONGEST_RECORDING).map_err(|error| {
                TrainingError::Read {
                    file: file.clone(),
                    why: error.to_string(),
                }
            })?;
            all.append(Windows::parse(&text, &file)?)?;
        }
        // Stable: what has the same time, or none, stays in the order of the files.
        all.windows.sort_by(|a, b| a.time.cmp(&b.time));
        Ok(all)
    }

    fn append(&mut self, more: Windows) -> Result<(), TrainingError> {
        if let Some(first) = self.files.first()
            && self.features != more.features
        {
            let what = format!("its counters are not those of {first}; train on one kind of file");
            let file = more.files.concat();
            return Err(TrainingError::Windows { file, what });
        }
        self.features = more.features;
        self.files.extend(more.files);
        self.windows.extend(more.windows);
        self.unlabelled += more.unlabelled;
        self.notes.extend(more.notes);
        Ok(())
    }

    /// CSV `text` as an agent writes it, or with a header of `node`, counters,
    /// `straggler` and optionally `workload` in any order. `file` is named in errors.
    pub(super) fn parse(text: &str, file: &str) -> Result<Self, TrainingError> {
        let table = Table { file, text };
        match text.starts_with('#') {
            true => of_agent(&table),
            false => of_others(&table),
        }
    }
}

/// A text with its name.
struct Table<'a> {
    file: &'a str,
    text: &'a str,
}

impl<'a> Table<'a> {
    fn error(&self, line: usize, what: impl Into<String>) -> TrainingError {
        TrainingError::Line {
            file: self.file.into(),
            line,
            what: what.into(),
        }
    }

    fn reader(
        &self,
        text: &'a str,
    ) -> Result<(csv::Reader<&'a [u8]>, StringRecord), TrainingError> {
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .comment(Some(b'#'))
            .flexible(true)
            .from_reader(text.as_bytes());
        let header = match reader.headers() {
            Ok(header) if !header.iter().all(str::is_empty) => header.clone(),
            _ => {
                let what = "no header; its first line has to name the columns: \
                            node, the counters, straggler";
                let file = self.file.into();
                let what = what.into();
                return Err(TrainingError::Windows { file, what });
            }
        };
        for (at, name) in header.iter().enumerate() {
            if name.is_empty() {
                return Err(self.error(1, format!("column {} has no name", at + 1)));
            }
            if header.iter().take(at).any(|other| other == name) {
                return Err(self.error(1, format!("two columns are called `{name}`")));
            }
        }
        Ok((reader, header))
    }

    fn column(&self, header: &StringRecord, name: &str) -> Result<usize, TrainingError> {
        let at = header.iter().position(|column| column == name);
        at.ok_or_else(|| {
            let what = format!("there is no column `{name}`; add it to the header");
            self.error(1, what)
        })
    }

    /// Calls `take` with every record that has all columns, and its line.
    fn each(
        &self,
        reader: &mut csv::Reader<&[u8]>,
        header: &StringRecord,
        mut take: impl FnMut(&StringRecord, usize) -> Result<(), TrainingError>,
    ) -> Result<(), TrainingError> {
        let mut fields = StringRecord::new();
        loop {
            let more = reader.read_record(&mut fields);
            let more = more.map_err(|error| TrainingError::Read {
                file: self.file.into(),
                why: error.to_string(),
            })?;
            if !more {
                return Ok(());
            }
            let line = fields.position().map_or(0, |at| at.line() as usize);
            // A blank line, or the header of a file that was put behind another.
            if fields.len() == 1 && fields[0].is_empty() || fields == *header {
                continue;
            }
            if fields.len() != header.len() {
                let (has, wants) = (fields.len(), header.len());
                let what = format!("{has} fields, but the header names {wants} columns");
                return Err(self.error(line, what));
            }
            take(&fields, line)?;
        }
    }

    fn label(&self, name: &str, text: &str, line: usize) -> Result<bool, TrainingError> {
        match text {
            "0" => Ok(false),
            "1" => Ok(true),
            other => Err(self.error(line, format!("`{name}` is `{other}`, not 0 or 1"))),
        }
    }

    fn named(&self, name: &str, text: &str, line: usize) -> Result<String, TrainingError> {
        match text {
            "" => Err(self.error(line, format!("`{name}` is empty"))),
            text => Ok(text.into()),
        }
    }
}

/// What an agent wrote: what others did on the node is worked out from the readings of
/// the node and of the workload.
fn of_agent(table: &Table) -> Result<Windows, TrainingError> {
    let mut notes = Vec::new();
    // A crash leaves half a line, which may look like a whole one.
    let text = match table.text.rfind('\n') {
        Some(end) if end + 1 < table.text.len() => {
            notes.push(format!(
                "{}: its last line is cut off and left out",
                table.file
            ));
            &table.text[..=end]
        }
        _ => table.text,
    };
    let first = text.lines().next().unwrap_or_default();
    written::check_format(first).map_err(|problem| table.error(1, problem))?;
    let (mut reader, header) = table.reader(text)?;
    let column = |name: &str| table.column(&header, name);
    let (time, node) = (column(written::TIME)?, column(written::NODE)?);
    let (workload, slow) = (column(written::WORKLOAD)?, column(written::SLOW)?);
    let place = |name: &str| header.iter().position(|column| column == name);
    let places = FEATURES.map(|it| (place(it.node), place(it.workload)));
    let missing = FEATURES.iter().zip(&places);
    let missing = missing.filter(|(_, (node, workload))| node.is_none() || workload.is_none());
    let missing: Vec<&str> = missing.map(|(feature, _)| feature.name).collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        notes.push(format!("{}: no columns for {missing}", table.file));
    }
    let mut windows = Vec::new();
    let mut unlabelled = 0;
    table.each(&mut reader, &header, |fields, line| {
        let number = |at: Option<usize>| match at.map(|at| (at, &fields[at])) {
            None | Some((_, "")) => Ok(None),
            Some((at, text)) => match text.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(Some(value)),
                _ => Err(table.error(
                    line,
                    format!(
                        "`{}` is `{text}`, not a finite number; leave the field empty where \
                         there is no value",
                        &header[at]
                    ),
                )),
            },
        };
        let mut values = Vec::with_capacity(FEATURES.len());
        for (feature, (node, workload)) in FEATURES.iter().zip(places) {
            values.push(feature.of_others(number(node)?, number(workload)?));
        }
        if fields[slow].is_empty() {
            unlabelled += 1;
            return Ok(());
        }
        windows.push(Window {
            time: fields[time].to_string(),
            node: table.named(written::NODE, &fields[node], line)?,
            workload: table.named(written::WORKLOAD, &fields[workload], line)?,
            values,
            slow: table.label(written::SLOW, &fields[slow], line)?,
        });
        Ok(())
    })?;
    Ok(Windows {
        files: vec![table.file.into()],
        features: FEATURES.map(|it| it.name.to_string()).into(),
        windows,
        unlabelled,
        notes,
    })
}

/// What another program, or the simulator, wrote: every other column is a counter.
fn of_others(table: &Table) -> Result<Windows, TrainingError> {
    let (mut reader, header) = table.reader(table.text)?;
    let node = table.column(&header, written::NODE)?;
    let straggler = table.column(&header, STRAGGLER)?;
    let workload = header.iter().position(|column| column == written::WORKLOAD);
    let is_counter = |at: &usize| ![Some(node), Some(straggler), workload].contains(&Some(*at));
    let columns: Vec<usize> = (0..header.len()).filter(is_counter).collect();
    if columns.is_empty() {
        return Err(table.error(1, "there is no counter beside `node` and `straggler`"));
    }
    let mut windows = Vec::new();
    table.each(&mut reader, &header, |fields, line| {
        let read = columns.iter().map(|at| match fields[*at].parse::<f32>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(table.error(
                line,
                format!(
                    "`{}` is `{}`, not a finite number; leave the line out when a counter was \
                     not read",
                    &header[*at], &fields[*at]
                ),
            )),
        });
        windows.push(Window {
            time: String::new(),
            slow: table.label(STRAGGLER, &fields[straggler], line)?,
            node: table.named(written::NODE, &fields[node], line)?,
            workload: workload.map_or_else(String::new, |at| fields[at].to_string()),
            values: read.collect::<Result<_, _>>()?,
        });
        Ok(())
    })?;
    Ok(Windows {
        files: vec![table.file.into()],
        features: columns.iter().map(|at| header[*at].to_string()).collect(),
        windows,
        ..Windows::default()
    })
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
        assert_eq!(windows.features, ["a", "b"]);
        assert_eq!(windows.windows[0].values, [0.5, 2.0]);
        assert!(windows.windows[0].slow);
        assert_eq!(windows.windows[1].node, "n2");
    }

    #[test]
    fn fields_may_be_quoted() {
        let text = "node,\"a, \"\"b\"\"\", straggler
n,\"2\",0
";
        let windows = Windows::parse(text, "w").unwrap();
        assert_eq!(windows.features, [r#"a, "b""#]);
        assert_eq!(windows.windows[0].values, [2.0]);
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

    const HEADER: &str = "# jostle-windows/1\n\
        time,node,machine,workload,node_cpu_percent,workload_cpu_percent,extra,slow\n";

    #[test]
    fn windows_of_an_agent_say_what_others_do() {
        let text = format!(
            "{HEADER}t1,n,m,\"a, b\",150,100,x,1\nt2,n,m,w,,100,,0\nt3,n,m,w,50,10,,\n\
             t4,n,m,w,1,1,1,0"
        );
        let windows = Windows::parse(&text, "w.csv").unwrap();
        let [first, second] = &windows.windows[..] else {
            panic!("{windows:?}");
        };
        assert_eq!((first.workload.as_str(), first.slow), ("a, b", true));
        assert_eq!(first.values[0], 50.0);
        assert!(first.values[1].is_nan() && second.values[0].is_nan());
        assert_eq!(windows.unlabelled, 1);
        assert!(windows.notes[0].contains("last line is cut off"));
        assert!(windows.notes[1].contains("no columns for memory_used_bytes"));
    }

    #[test]
    fn foreign_future_and_broken_files_are_named() {
        assert!(error("# jostle-windows/2\na,b\n").contains("newer jostle"));
        assert!(error("# something else\nnode\n").contains("not jostle-windows/1"));
        let cut = error("# jostle-windows/1");
        assert!(cut.contains("no header"), "{cut}");
        let no_label = "# jostle-windows/1\ntime,node,workload\n";
        assert!(error(no_label).contains("no column `slow`"));
        let line = |line: &str| error(&format!("{HEADER}{line}\n"));
        assert!(line("t,n,m,w,NaN,1,,0").starts_with("w.csv:3: `node_cpu_percent` is `NaN`"));
        assert!(line("t,n,m,w,1,1,,yes").contains("`slow` is `yes`"));
        assert!(line("t,n,m,,1,1,,1").contains("`workload` is empty"));
        assert!(line("t,n,m").contains("3 fields, but the header names 8"));
    }

    #[test]
    fn files_are_put_in_order_of_time() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["b.csv", "a.csv"].map(|name| directory.path().join(name));
        std::fs::write(&paths[0], format!("{HEADER}t3,n,m,w,1,1,,1\n{HEADER}")).unwrap();
        std::fs::write(
            &paths[1],
            format!("{HEADER}t1,n,m,w,1,1,,0\nt4,n,m,w,1,1,,0\n"),
        )
        .unwrap();
        let windows = Windows::load(&paths).unwrap().windows;
        let times: Vec<&str> = windows.iter().map(|it| it.time.as_str()).collect();
        assert_eq!(times, ["t1", "t3", "t4"]);
        std::fs::write(&paths[1], "node,load,straggler\nn,1,0\n").unwrap();
        let mixed = Windows::load(&paths).unwrap_err().to_string();
        assert!(
            mixed.contains("a.csv: its counters are not those of"),
            "{mixed}"
        );
    }
}
