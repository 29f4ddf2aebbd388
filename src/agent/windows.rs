//! Windows to learn from: a row of CSV per workload and refresh, in files of bounded
//! number and size.
//!
//! Rows are appended to `windows.csv`. Before it grows beyond its limit it becomes
//! `windows-TIME.csv`, and the oldest of those is removed. A crash may leave half a
//! line at the end, which is cut before the next row is written.

use super::config::WindowsSection;
use jostle_profile::node::NodeState;
use jostle_profile::windows;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::SystemTime;

const CURRENT: &str = "windows.csv";
/// Longest line that is looked for at the end of a file, bytes.
const LONGEST_LINE: usize = 64 << 10;

/// Writes windows where the configuration says so.
pub(super) struct Recorder {
    settings: WindowsSection,
    directory: PathBuf,
    open: Option<Open>,
    problem: Option<String>,
}

/// The file that rows are appended to.
struct Open {
    file: File,
    /// Whole lines.
    bytes: u64,
}

impl Recorder {
    pub(super) fn new(settings: &WindowsSection, directory: PathBuf) -> Recorder {
        Recorder {
            settings: settings.clone(),
            directory,
            open: None,
            problem: None,
        }
    }

    /// Why the last windows were not written.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Writes the windows of `state`. Some problem when it is a new one.
    pub(super) fn see(&mut self, state: &NodeState) -> Option<String> {
        if !self.settings.enabled {
            return None;
        }
        let written = self.append(&self.rows(state));
        let problem = written.err().map(|error| {
            // Opened again, which cuts what was half written.
            self.open = None;
            let path = self.directory.join(CURRENT);
            format!("windows.directory: {}: {error}", path.display())
        });
        let new = problem.clone().filter(|_| problem != self.problem);
        self.problem = problem;
        new
    }

    fn rows(&self, state: &NodeState) -> Vec<Vec<u8>> {
        let known = |it: &&_| self.settings.unlabelled || windows::slow(it).is_some();
        let kept = state.workloads.iter().filter(known);
        let rows = kept.filter_map(|it| windows::record(state, it));
        rows.map(|fields| line(&fields)).collect()
    }

    fn append(&mut self, rows: &[Vec<u8>]) -> io::Result<()> {
        let most = self.settings.max_file_mib << 20;
        let mut pending = Vec::new();
        for row in rows {
            let open = self.opened()?;
            let grown = open.bytes + (pending.len() + row.len()) as u64;
            if grown > most && open.bytes + pending.len() as u64 > header().len() as u64 {
                open.write(&pending)?;
                pending.clear();
                self.rotate()?;
            }
            pending.extend_from_slice(row);
        }
        match pending.is_empty() {
            true => Ok(()),
            false => self.opened()?.write(&pending),
        }
    }

    fn opened(&mut self) -> io::Result<&mut Open> {
        if self.open.is_none() {
            fs::create_dir_all(&self.directory)?;
            let path = self.directory.join(CURRENT);
            if path.try_exists()? && !is_ours(&path)? {
                self.put_aside()?;
            }
            self.open = Some(Open::at(&path)?);
        }
        Ok(self.open.as_mut().expect("just opened"))
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.open = None;
        self.put_aside()
    }

    /// Gives the current file a name of its own and removes the oldest.
    fn put_aside(&self) -> io::Result<()> {
        let mut at = SystemTime::now();
        let target = loop {
            let time = humantime::format_rfc3339_millis(at).to_string();
            let name = format!("windows-{}.csv", time.replace(':', ""));
            let path = self.directory.join(name);
            if !path.try_exists()? {
                break path;
            }
            at += Duration::from_millis(1);
        };
        fs::rename(self.directory.join(CURRENT), target)?;
        let mut kept: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(is_put_aside) {
                kept.push(entry.path());
            }
        }
        // Their names sort by time.
        kept.sort_unstable();
        let most = self.settings.max_files.saturating_sub(1) as usize;
        let surplus = kept.len().saturating_sub(most);
        kept[..surplus].iter().try_for_each(fs::remove_file)
    }
}

impl Open {
    /// The file at `path`, whole lines only, with a header.
    fn at(path: &Path) -> io::Result<Open> {
        let mut options = File::options();
        let mut file = options.create(true).read(true).append(true).open(path)?;
        let length = file.metadata()?.len();
        let bytes = whole_lines(&mut file, length)?;
        if bytes < length {
            file.set_len(bytes)?;
        }
        let mut open = Open { file, bytes };
        if open.bytes < header().len() as u64 {
            open.file.set_len(0)?;
            open.bytes = 0;
            open.write(&header())?;
        }
        Ok(open)
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write_all(lines)?;
        self.bytes += lines.len() as u64;
        Ok(())
    }
}

/// Bytes of `file` up to its last line end.
fn whole_lines(file: &mut File, length: u64) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let from = length.saturating_sub(LONGEST_LINE as u64);
    let mut tail = vec![0; (length - from) as usize];
    file.read_exact_at(&mut tail, from)?;
    let end = tail.iter().rposition(|byte| *byte == b'\n');
    Ok(end.map_or(from, |end| from + end as u64 + 1))
}

/// Whether a file begins as this version would begin it, as far as it goes.
fn is_ours(path: &Path) -> io::Result<bool> {
    let header = header();
    let mut begin = Vec::new();
    File::open(path)?
        .take(header.len() as u64)
        .read_to_end(&mut begin)?;
    Ok(header.starts_with(&begin))
}

/// `windows-2026-01-01T….csv`.
fn is_put_aside(name: &str) -> bool {
    let time = name
        .strip_prefix("windows-")
        .and_then(|it| it.strip_suffix(".csv"));
    time.is_some_and(|time| {
        time.len() >= 10 && time[..4].bytes().all(|it| it.is_ascii_digit()) && time.contains('T')
    })
}

fn header() -> Vec<u8> {
    let names: Vec<String> = windows::header().into_iter().map(str::to_string).collect();
    let mut text = format!("# {}\n", windows::FORMAT).into_bytes();
    text.extend(line(&names));
    text
}

/// One record on one line: a line end within a field would hide where records end.
fn line(fields: &[String]) -> Vec<u8> {
    let plain = fields.iter().map(|it| it.replace(char::is_control, " "));
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record(plain).expect("memory holds it");
    csv.into_inner().expect("memory holds it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(directory: &Path, most: u64, files: u64) -> Recorder {
        let settings = WindowsSection {
            enabled: true,
            max_file_mib: most,
            max_files: files,
            ..WindowsSection::default()
        };
        Recorder::new(&settings, directory.into())
    }

    fn row(first: &str) -> Vec<u8> {
        line(&[first.to_string(), "1".into()])
    }

    fn text(directory: &Path) -> String {
        fs::read_to_string(directory.join(CURRENT)).unwrap()
    }

    #[test]
    fn a_torn_line_is_cut_and_names_are_quoted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        recorder(path, 1, 2)
            .append(&[row("a,\"b\""), row("c\nd")])
            .unwrap();
        let whole = text(path);
        assert!(whole.ends_with("\n\"a,\"\"b\"\"\",1\nc d,1\n"), "{whole}");
        fs::write(path.join(CURRENT), format!("{whole}e,")).unwrap();
        recorder(path, 1, 2).append(&[row("f")]).unwrap();
        assert_eq!(text(path), format!("{whole}f,1\n"));
    }

    #[test]
    fn half_a_header_is_written_again_and_a_foreign_file_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::write(path.join(CURRENT), &header()[..30]).unwrap();
        recorder(path, 1, 3).append(&[row("a")]).unwrap();
        let begin = String::from_utf8(header()).unwrap();
        assert_eq!(text(path), format!("{begin}a,1\n"));
        fs::write(path.join(CURRENT), "mine,and mine alone\n1,2\n").unwrap();
        recorder(path, 1, 3).append(&[row("b")]).unwrap();
        assert_eq!(text(path), format!("{begin}b,1\n"));
        let mut names = fs::read_dir(path).unwrap().map(|it| it.unwrap().path());
        let other = names.find(|it| !it.ends_with(CURRENT)).unwrap();
        assert!(fs::read_to_string(other).unwrap().starts_with("mine,"));
    }

    #[test]
    fn disk_use_is_bounded_and_the_newest_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::write(path.join("windows-notes.csv"), "kept").unwrap();
        let mut recorder = recorder(path, 1, 3);
        let long = "x".repeat(1000);
        for refresh in 0..100 {
            let rows: Vec<Vec<u8>> = (0..100)
                .map(|at| row(&format!("{refresh}-{at}-{long}")))
                .collect();
            recorder.append(&rows).unwrap();
        }
        let mut sizes = Vec::new();
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != "windows-notes.csv" {
                sizes.push(entry.metadata().unwrap().len());
            }
        }
        assert_eq!(sizes.len(), 3, "{sizes:?}");
        assert!(sizes.iter().all(|it| *it <= 1 << 20), "{sizes:?}");
        assert!(text(path).contains("\n99-99-"));
        assert!(path.join("windows-notes.csv").exists());
    }
}
