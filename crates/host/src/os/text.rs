//! The kernel's small text files: read whole, once or again and again into the
//! same buffer.

use super::Error;
use super::ParseError;
use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::str::FromStr;

/// No file read here is longer.
const LIMIT: usize = 16 << 20;
/// The kernel writes some files in pieces of up to a page; an answer this much
/// shorter than a page is the last one. Asking again would make the kernel
/// write the whole text anew.
const LAST_PIECE: usize = 3072;

/// `path` without the root it may begin with.
fn relative<'a>(root: &Path, path: &'a Path) -> &'a Path {
    let below = path.strip_prefix(root).or_else(|_| path.strip_prefix("/"));
    below.unwrap_or(path)
}

/// `path`, below `root` or as the kernel knows it, below `root`.
pub fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(relative(root, path))
}

/// `path`, below `root` or as the kernel knows it, as the kernel knows it.
pub fn shown(root: &Path, path: &Path) -> String {
    format!("/{}", relative(root, path).display())
}

/// An open file and the text it held last.
pub struct Text {
    file: File,
    path: String,
    buffer: Vec<u8>,
    /// Whether only the beginning matters, which is then read at once.
    beginning: bool,
}

impl Text {
    /// Opens `path` below `root`.
    pub fn open(root: &Path, path: impl AsRef<Path>) -> Result<Text, Error> {
        let path = path.as_ref();
        let shown = shown(root, path);
        match File::open(below(root, path)) {
            Ok(file) => Ok(Text {
                file,
                path: shown,
                buffer: vec![0; 4096],
                beginning: false,
            }),
            Err(error) => Err(Error::of_io(shown, &error)),
        }
    }

    /// Reads no more than fits into `bytes` from now on.
    pub fn only_first(mut self, bytes: usize) -> Text {
        self.buffer.resize(bytes, 0);
        self.beginning = true;
        self
    }

    /// As the kernel knows it.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn malformed(&self, problem: ParseError) -> Error {
        let path = self.path.clone();
        Error::Malformed { path, problem }
    }

    /// The text as it stands now.
    pub fn read(&mut self) -> Result<&str, Error> {
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                if length >= LIMIT {
                    return Err(self.malformed(ParseError::TooLong(LIMIT)));
                }
                self.buffer.resize(2 * length, 0);
            }
            let read = self
                .file
                .read_at(&mut self.buffer[length..], length as u64)
                .map_err(|error| Error::of_io(&self.path, &error))?;
            length += read;
            let full = length == self.buffer.len();
            if read == 0 || self.beginning || (read < LAST_PIECE && !full) {
                break;
            }
        }
        std::str::from_utf8(&self.buffer[..length]).map_err(|_| self.malformed(ParseError::NotText))
    }

    /// What `parse` makes of the text as it stands now.
    pub fn parse<T>(
        &mut self,
        parse: impl FnOnce(&str) -> Result<T, ParseError>,
    ) -> Result<T, Error> {
        let parsed = parse(self.read()?);
        parsed.map_err(|problem| self.malformed(problem))
    }
}

/// The trimmed text of `path` below `root`.
pub fn text(root: &Path, path: impl AsRef<Path>) -> Result<String, Error> {
    parse(root, path, |text| Ok(text.to_string()))
}

/// What `parse` makes of the trimmed text of `path` below `root`.
pub fn parse<T>(
    root: &Path,
    path: impl AsRef<Path>,
    parse: impl FnOnce(&str) -> Result<T, ParseError>,
) -> Result<T, Error> {
    Text::open(root, path)?.parse(|text| parse(text.trim()))
}

/// The number that is all of the text of `path` below `root`.
pub fn number<T: FromStr>(root: &Path, path: impl AsRef<Path>) -> Result<T, Error> {
    parse(root, path, whole)
}

/// Whether `path` exists below `root`.
pub fn exists(root: &Path, path: &str) -> bool {
    below(root, Path::new(path)).exists()
}

/// Names in a directory, sorted.
pub fn names(root: &Path, path: impl AsRef<Path>) -> Result<Vec<String>, Error> {
    let path = path.as_ref();
    let entries =
        fs::read_dir(below(root, path)).map_err(|error| Error::of_io(shown(root, path), &error))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// Numbers N for which the directory holds a `<prefix>N`, ascending; empty
/// when the directory cannot be read.
pub fn numbered<T: FromStr + Ord>(root: &Path, path: impl AsRef<Path>, prefix: &str) -> Vec<T> {
    let mut numbers: Vec<T> = names(root, path)
        .unwrap_or_default()
        .iter()
        .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// The number that is all of `text`.
fn whole<T: FromStr>(text: &str) -> Result<T, ParseError> {
    let text = text.trim();
    text.parse()
        .map_err(|_| ParseError::Number(text.chars().take(40).collect()))
}

/// The count that is all of `text`.
pub fn count(text: &str) -> Result<f64, ParseError> {
    whole::<u64>(text).map(|number| number as f64)
}

/// The count after `key` at the beginning of a line, separated by space or
/// colon.
pub fn keyed(text: &str, key: &str) -> Result<f64, ParseError> {
    let rest = value(text, key).ok_or_else(|| ParseError::NoLine(key.into()))?;
    count(rest.split(' ').next().unwrap_or_default()).map_err(|problem| ParseError::Value {
        key: key.into(),
        problem: Box::new(problem),
    })
}

/// What stands after `key` and a space or colon at the beginning of a line.
pub fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?;
        rest.strip_prefix([' ', ':', '\t']).map(str::trim)
    })
}

/// The value of `key: value kB` in the text of `meminfo`, of the machine or of
/// a NUMA node, in bytes.
pub fn meminfo_bytes(text: &str, key: &str) -> Result<u64, ParseError> {
    text.lines()
        .find_map(|line| line.split_once(key)?.1.strip_prefix(':'))
        .and_then(|value| value.trim().trim_end_matches("kB").trim().parse().ok())
        .and_then(|kib: u64| kib.checked_mul(1024))
        .ok_or_else(|| ParseError::NoKey(key.into()))
}

#[cfg(test)]
mod tests {
    use super::super::fake::tree;
    use super::*;

    #[test]
    fn texts_are_read_anew_each_time() {
        let root = tree(&[("proc/x", "one 1\n")]);
        let path = root.path().join("proc/x");
        let mut text = Text::open(root.path(), "/proc/x").unwrap();
        assert_eq!(text.parse(|text| keyed(text, "one")), Ok(1.0));
        fs::write(&path, "one 22\n".repeat(5000)).unwrap();
        assert_eq!(text.read().unwrap().len(), 7 * 5000);
        fs::write(&path, [0xff, 0xfe]).unwrap();
        let problem = text.read().unwrap_err().to_string();
        assert_eq!(problem, "/proc/x: not text");
        let Err(missing) = Text::open(root.path(), "proc/y") else {
            panic!("opened what does not exist");
        };
        assert!(missing.is_absent());
        assert_eq!(missing.to_string(), "/proc/y does not exist");
    }

    #[test]
    fn paths_are_named_as_the_kernel_knows_them() {
        let root = Path::new("/made/up");
        for path in ["/made/up/proc/x", "/proc/x", "proc/x"] {
            assert_eq!(shown(root, Path::new(path)), "/proc/x");
            assert_eq!(below(root, Path::new(path)), root.join("proc/x"));
        }
        assert_eq!(below(Path::new("/"), Path::new("/a")), Path::new("/a"));
    }

    #[test]
    fn numbers_and_keys() {
        assert_eq!(count(" 7\n"), Ok(7.0));
        assert!(count("-7").is_err());
        assert_eq!(keyed("a_b 1\na 2\n", "a"), Ok(2.0));
        assert_eq!(keyed("rchar: 5\n", "rchar"), Ok(5.0));
        let problem = keyed("a x\n", "a").unwrap_err().to_string();
        assert!(problem.contains("a: 'x'"), "{problem}");
        assert!(keyed("", "a").is_err());
    }

    #[test]
    fn meminfo_of_machine_and_node() {
        let machine = "MemTotal:       24684096 kB\nMemFree: 1 kB\n";
        assert_eq!(
            meminfo_bytes(machine, "MemTotal").unwrap(),
            24_684_096 * 1024
        );
        let node = "Node 0 MemTotal:       15952088 kB";
        assert_eq!(meminfo_bytes(node, "MemTotal").unwrap(), 15_952_088 * 1024);
        assert!(meminfo_bytes(machine, "MemAvailable").is_err());
        assert!(meminfo_bytes("MemTotal: lots kB", "MemTotal").is_err());
        assert!(meminfo_bytes("MemTotal: 18446744073709551615 kB", "MemTotal").is_err());
    }
}
