//! JSON documents that name their `format`: read with care, replaced in one
//! step.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// Reads a `T` of `format` (`NAME/MAJOR`) from `bytes`. `what` is what a person
/// calls such a document.
///
/// # Errors
/// In words: empty, not JSON (with line and column), another format or a newer
/// one (by name), or a key of the wrong type (with its path).
pub fn parse<T: DeserializeOwned>(bytes: &[u8], format: &str, what: &str) -> Result<T, String> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(format!("the file is empty; a {what} is a JSON document"));
    }
    check_format(bytes, format, what)?;
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let document: T = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let key = error.path().to_string();
        let problem = json_problem(error.inner());
        // The path of an error at the top is a lone dot, which says nothing.
        if key == "." {
            problem
        } else {
            format!("key `{key}`: {problem}")
        }
    })?;
    json.end().map_err(|error| json_problem(&error))?;
    Ok(document)
}

/// The format is judged first, so that a file of a newer format is refused by
/// its name and not by whichever key changed.
fn check_format(bytes: &[u8], expected: &str, what: &str) -> Result<(), String> {
    #[derive(Deserialize)]
    struct FormatOnly {
        format: Option<Value>,
    }
    let only: FormatOnly = serde_json::from_slice(bytes).map_err(|error| {
        if error.is_data() {
            format!("not a {what}: the document is not a JSON object with a `format`")
        } else {
            json_problem(&error)
        }
    })?;
    let format = match only.format {
        Some(Value::String(format)) => format,
        Some(other) => {
            return Err(format!(
                "not a {what}: `format` is {other}, not \"{expected}\""
            ));
        }
        None => {
            return Err(format!(
                "not a {what}: no key `format` (expected \"{expected}\")"
            ));
        }
    };
    let (expected_name, _) = expected.split_once('/').unwrap_or((expected, ""));
    let foreign = || format!("not a {what}: `format` is {format:?}, not \"{expected}\"");
    let (name, version) = format.split_once('/').ok_or_else(foreign)?;
    if name != expected_name {
        return Err(foreign());
    }
    let major = version.split('.').next().unwrap_or(version);
    match major.parse::<u64>() {
        Ok(1) => Ok(()),
        Ok(newer) if newer > 1 => Err(format!(
            "format \"{format}\" needs a newer jostle; this one ({}) reads up to \"{expected}\"",
            env!("CARGO_PKG_VERSION")
        )),
        _ => Err(format!(
            "format \"{format}\" is not a version jostle ever wrote; this one reads \"{expected}\""
        )),
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
/// file is removed and `path` is as it was.
///
/// # Errors
/// What the file system answered.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A rename would replace a symbolic link by a file: write where it points.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{}` does not name a file", path.display()),
        ));
    };
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let temporary = Temporary::create(dir, name)?;
    temporary.write_and_rename(bytes, &path)?;
    File::open(dir)?.sync_all()
}

/// A file that is gone when this is dropped, unless it was renamed.
struct Temporary {
    path: PathBuf,
    file: File,
    keep: bool,
}

impl Temporary {
    fn create(dir: &Path, name: &std::ffi::OsStr) -> io::Result<Self> {
        // Two saves of one process must not share a temporary file.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(
            ".{}-{}.tmp",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ));
        let path = dir.join(hidden);
        let file = File::options().write(true).create_new(true).open(&path)?;
        Ok(Temporary {
            path,
            file,
            keep: false,
        })
    }

    fn write_and_rename(mut self, bytes: &[u8], to: &Path) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_all()?;
        fs::rename(&self.path, to)?;
        self.keep = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.keep {
            // Nothing better can be done: the first error is what is reported.
            let _ = fs::remove_file(&self.path);
        }
    }
}
