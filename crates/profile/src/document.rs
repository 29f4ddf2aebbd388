//! JSON documents that name their `format`: read with care, replaced in one
//! step.

use crate::json;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use thiserror::Error;

/// Why a document was refused.
#[derive(Debug, Error)]
pub enum DocumentError {
    #[error("the file is empty; a {0} is a JSON document")]
    Empty(String),
    #[error("{0}")]
    Json(String),
    #[error("key `{key}`: {problem}")]
    Key { key: String, problem: String },
    #[error("not a {what}: {why}")]
    Foreign { what: String, why: String },
    #[error(
        "format \"{format}\" needs a newer jostle; this one ({version}) reads up to \"{expected}\"",
        version = env!("CARGO_PKG_VERSION")
    )]
    Newer { format: String, expected: String },
    #[error(
        "format \"{format}\" is not a version jostle ever wrote; this one reads \"{expected}\""
    )]
    NoVersion { format: String, expected: String },
}

/// Reads a `T` of `format` (`NAME/MAJOR`) from `bytes`. `what` is what a person
/// calls such a document.
///
/// # Errors
/// Empty, not JSON (with line and column), another format or a newer one (by
/// name), or a key of the wrong type (with its path).
pub fn parse<T: DeserializeOwned>(
    bytes: &[u8],
    format: &str,
    what: &str,
) -> Result<T, DocumentError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(DocumentError::Empty(what.into()));
    }
    check_format(bytes, format, what)?;
    json::read(bytes).map_err(|error| {
        let problem = json_problem(&error.error);
        match error.key {
            None => DocumentError::Json(problem),
            Some(key) => DocumentError::Key { key, problem },
        }
    })
}

/// The format is judged first, so that a file of a newer format is refused by
/// its name and not by whichever key changed.
fn check_format(bytes: &[u8], expected: &str, what: &str) -> Result<(), DocumentError> {
    #[derive(Deserialize)]
    struct FormatOnly {
        format: Option<Value>,
    }
    let foreign = |why: String| DocumentError::Foreign {
        what: what.into(),
        why,
    };
    let only: FormatOnly =
        serde_json::from_slice(bytes).map_err(|error| match error.is_data() {
            true => foreign("the document is not a JSON object with a `format`".into()),
            false => DocumentError::Json(json_problem(&error)),
        })?;
    let other = |format: &Value| foreign(format!("`format` is {format}, not \"{expected}\""));
    let found = only
        .format
        .ok_or_else(|| foreign(format!("no key `format` (expected \"{expected}\")")))?;
    let format = found.as_str().ok_or_else(|| other(&found))?;
    let (name, version) = format.split_once('/').ok_or_else(|| other(&found))?;
    if expected.split('/').next() != Some(name) {
        return Err(other(&found));
    }
    let (format, expected) = (format.to_string(), expected.to_string());
    match version.split('.').next().map(str::parse::<u64>) {
        Some(Ok(1)) => Ok(()),
        Some(Ok(2..)) => Err(DocumentError::Newer { format, expected }),
        _ => Err(DocumentError::NoVersion { format, expected }),
    }
}

/// serde_json ends its messages with "at line L column C".
fn json_problem(error: &serde_json::Error) -> String {
    if error.is_eof() {
        format!("{error}: the file looks cut short")
    } else if error.is_syntax() {
        format!("not valid JSON: {error}")
    } else {
        error.to_string()
    }
}

/// Writes `bytes` so that a reader sees the old file or the new one, never
/// half of it: a temporary file in the same directory is written, synced and
/// renamed over `path`, and the directory is synced. On failure the temporary
/// file is removed and `path` is as it was. A file that is replaced passes on its
/// permissions, and its owner where we may do that. A device or a pipe is written to.
///
/// # Errors
/// What the file system answered.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A rename would replace a symbolic link by a file: write where it points.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    // Nor must it replace what is no file at all, like /dev/null.
    if fs::metadata(&path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return File::options().write(true).open(&path)?.write_all(bytes);
    }
    let (temporary, dir) = temporary(&path)?;
    let replaced = fs::metadata(&path).ok();
    let mut options = File::options();
    options.write(true).create_new(true);
    if let Some(replaced) = &replaced {
        // Never open to more than before, not even for a moment.
        options.mode(replaced.mode() & 0o777);
    }
    let file = options.open(&temporary)?;
    if let Some(replaced) = &replaced {
        // Where we may not give it away it is ours, with the same permissions.
        let _ = std::os::unix::fs::fchown(&file, Some(replaced.uid()), Some(replaced.gid()));
        let _ = file.set_permissions(replaced.permissions());
    }
    if let Err(error) = write(file, bytes).and_then(|()| fs::rename(&temporary, &path)) {
        // Nothing better can be done: the first error is what is reported.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    File::open(dir)?.sync_all()
}

/// Writes `bytes` to a new file `path`, whole or not at all. What is there
/// already is never replaced, not even what another process makes meanwhile.
/// The directory is not synced: [`sync`] does it for many files at once.
///
/// # Errors
/// `AlreadyExists` where something is there; else what the file system answered.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (temporary, _) = temporary(path)?;
    let file = File::options()
        .write(true)
        .create_new(true)
        .open(&temporary)?;
    let made = write(file, bytes).and_then(|()| fs::hard_link(&temporary, path));
    fs::remove_file(&temporary)?;
    made
}

/// Makes the names of the files in `dir` last.
///
/// # Errors
/// What the file system answered.
pub fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// A name of its own for a file that becomes `path`, and its directory.
fn temporary(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{}` does not name a file", path.display()),
        ));
    };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new("."));
    // Two saves of one process must not share a temporary file.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}-{count}.tmp", std::process::id()));
    Ok((dir.join(hidden), dir.to_path_buf()))
}

fn write(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_replaced_file_passes_on_its_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        for mode in [0o600, 0o644, 0o660] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            replace(&path, b"new").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
            let found = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(found & 0o777, mode);
        }
    }
}
