//! The kernel's small text files below a root: opened once, read again and
//! again into the same buffer.

use std::fs;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;

/// No file read here is longer.
const LIMIT: usize = 1 << 20;
/// The kernel writes some files in pieces of up to a page; an answer this much
/// shorter than a page is the last one. Asking again would make the kernel
/// write the whole text anew.
const LAST_PIECE: usize = 3072;

/// An open file and the text it held last.
pub(super) struct Text {
    file: File,
    path: String,
    buffer: Vec<u8>,
    /// Whether only the beginning matters, which is then read at once.
    beginning: bool,
}

impl Text {
    /// Opens `<root>/<path>`.
    ///
    /// # Errors
    /// What the kernel said, with the path as it is known to everyone.
    pub fn open(root: &Path, path: &str) -> Result<Text, String> {
        let shown = format!("/{}", path.trim_start_matches('/'));
        match File::open(root.join(path.trim_start_matches('/'))) {
            Ok(file) => Ok(Text {
                file,
                path: shown,
                buffer: vec![0; 4096],
                beginning: false,
            }),
            Err(error) => Err(explain(&shown, &error)),
        }
    }

    /// Reads no more than fits into `bytes` from now on.
    pub fn only_first(mut self, bytes: usize) -> Text {
        self.buffer.resize(bytes, 0);
        self.beginning = true;
        self
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// The text as it stands now.
    ///
    /// # Errors
    /// What the kernel said, with the path.
    pub fn read(&mut self) -> Result<&str, String> {
        let failed = |error: io::Error, path: &str| explain(path, &error);
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                if length >= LIMIT {
                    return Err(format!("{}: longer than {LIMIT} bytes", self.path));
                }
                self.buffer.resize(2 * length, 0);
            }
            let read = self
                .file
                .read_at(&mut self.buffer[length..], length as u64)
                .map_err(|error| failed(error, &self.path))?;
            length += read;
            let full = length == self.buffer.len();
            if read == 0 || self.beginning || (read < LAST_PIECE && !full) {
                break;
            }
        }
        std::str::from_utf8(&self.buffer[..length]).map_err(|_| format!("{}: not text", self.path))
    }
}

/// What an error of a file of the kernel means.
fn explain(path: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT) => format!("{path} does not exist"),
        Some(libc::ENODEV | libc::EOPNOTSUPP) => format!("{path}: switched off in this kernel"),
        Some(libc::ESRCH) => format!("{path}: the process has ended"),
        Some(libc::EACCES | libc::EPERM) => {
            format!("{path}: not allowed; run as its owner or as root")
        }
        _ => format!("{path}: {error}"),
    }
}

/// The trimmed text of `<root>/<path>`.
///
/// # Errors
/// What the kernel said, with the path.
pub(super) fn text(root: &Path, path: &str) -> Result<String, String> {
    Ok(Text::open(root, path)?.read()?.trim().to_string())
}

/// Names in the directory `<root>/<path>`, sorted; none when it cannot be read.
pub(super) fn names(root: &Path, path: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root.join(path.trim_start_matches('/')))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The one number that a file holds.
///
/// # Errors
/// A message with the text.
pub(super) fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    text.parse::<u64>()
        .map(|number| number as f64)
        .map_err(|_| {
            format!(
                "'{}' is not a number",
                text.chars().take(40).collect::<String>()
            )
        })
}

/// The number after `key` at the beginning of a line, separated by space or
/// colon.
///
/// # Errors
/// A message naming the key.
pub(super) fn keyed(text: &str, key: &str) -> Result<f64, String> {
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix([' ', ':', '\t']))
        .ok_or_else(|| format!("no line {key}"))?;
    number(rest.trim().split(' ').next().unwrap_or_default())
        .map_err(|problem| format!("{key}: {problem}"))
}

/// `path` below `root` without its leading slash.
pub(super) fn relative(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches('/').to_string()
}

/// `<root>/<path>`, where `path` may be absolute.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(relative(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_anew_each_time() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("proc")).unwrap();
        let path = root.path().join("proc/x");
        fs::write(&path, "one 1\n").unwrap();
        let mut text = Text::open(root.path(), "/proc/x").unwrap();
        assert_eq!(keyed(text.read().unwrap(), "one"), Ok(1.0));
        fs::write(&path, "one 22\n".repeat(5000)).unwrap();
        assert_eq!(text.read().unwrap().len(), 7 * 5000);
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(text.read().unwrap_err().contains("/proc/x: not text"));
        let Err(missing) = Text::open(root.path(), "proc/y") else {
            panic!("opened what does not exist");
        };
        assert_eq!(missing, "/proc/y does not exist");
    }

    #[test]
    fn numbers_and_keys() {
        assert_eq!(number(" 7\n"), Ok(7.0));
        assert!(number("-7").is_err());
        assert_eq!(keyed("a_b 1\na 2\n", "a"), Ok(2.0));
        assert_eq!(keyed("rchar: 5\n", "rchar"), Ok(5.0));
        assert!(keyed("a x\n", "a").unwrap_err().contains("a: 'x'"));
        assert!(keyed("", "a").is_err());
    }
}
