//! Loading and saving profiles.

use super::FORMAT;
use super::Profile;
use super::check;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use thiserror::Error;

/// Files in a directory of profiles that end so are JSON Schemas, not profiles.
const SCHEMA_SUFFIX: &str = ".schema.json";

/// Why a profile could not be loaded; always names the file.
#[derive(Debug, Error)]
#[error("{}: {problem}", path.display())]
pub struct LoadError {
    pub path: PathBuf,
    pub problem: String,
}

impl LoadError {
    fn new(path: &Path, problem: impl Into<String>) -> Self {
        LoadError {
            path: path.to_path_buf(),
            problem: problem.into(),
        }
    }
}

/// Reads one profile and checks it.
///
/// Keys this version does not know are kept in the `unknown` maps, resource ids
/// it does not know are kept as they are.
///
/// # Errors
///
/// When the file cannot be read, is not JSON (with line and column), is not a
/// profile or one of a newer major format, has a key of the wrong type (with
/// the key's path, line and column), or holds a number outside its scale (with
/// the key's path).
pub fn load(path: &Path) -> Result<Profile, LoadError> {
    let bytes = fs::read(path).map_err(|error| LoadError::new(path, read_problem(path, &error)))?;
    parse(&bytes).map_err(|problem| LoadError::new(path, problem))
}

/// Reads every `*.json` in `dir`, in file name order, leaving out
/// `*.schema.json`. Subdirectories are not entered.
///
/// # Errors
///
/// When the directory or one of its profiles cannot be read, or when two files
/// describe workloads of the same name (both files are named).
pub fn load_dir(dir: &Path) -> Result<Vec<(PathBuf, Profile)>, LoadError> {
    let unreadable = |error: io::Error| LoadError::new(dir, dir_problem(&error));
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let is_json = path
            .extension()
            .is_some_and(|extension| extension == "json");
        let is_schema = path.to_string_lossy().ends_with(SCHEMA_SUFFIX);
        if is_json && !is_schema && !path.is_dir() {
            paths.push(path);
        }
    }
    paths.sort();
    let mut first_with: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut profiles = Vec::with_capacity(paths.len());
    for path in paths {
        let profile = load(&path)?;
        if let Some(first) = first_with.insert(profile.workload.name.clone(), path.clone()) {
            return Err(LoadError::new(
                &path,
                format!(
                    "workload.name `{}` is also used by {}; rename one of the two or move it to another directory",
                    profile.workload.name,
                    first.display()
                ),
            ));
        }
        profiles.push((path, profile));
    }
    Ok(profiles)
}

/// Writes `profile` so that a reader sees the old file or the new one, never
/// half of it: a temporary file in the same directory is written, synced and
/// renamed over `path`, and the directory is synced. On failure the temporary
/// file is removed and `path` is as it was.
///
/// # Errors
///
/// `InvalidData` when the profile itself breaks its scales (JSON has no NaN:
/// writing one would turn a wrong number into an absent one); otherwise what
/// the file system answered.
pub fn save(profile: &Profile, path: &Path) -> io::Result<()> {
    check::check(profile).map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem))?;
    let mut text = serde_json::to_string_pretty(profile)?;
    text.push('\n');

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
    temporary.write_and_rename(text.as_bytes(), &path)?;
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

fn parse(bytes: &[u8]) -> Result<Profile, String> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err("the file is empty; a jostle profile is a JSON document".into());
    }
    check_format(bytes)?;
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let profile: Profile = serde_path_to_error::deserialize(&mut json).map_err(|error| {
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
    check::check(&profile)?;
    Ok(profile)
}

/// The format is judged first, so that a file of a newer format is refused by
/// its name and not by whichever key changed.
fn check_format(bytes: &[u8]) -> Result<(), String> {
    #[derive(Deserialize)]
    struct FormatOnly {
        format: Option<Value>,
    }
    let only: FormatOnly = serde_json::from_slice(bytes).map_err(|error| {
        if error.is_data() {
            "not a jostle profile: the document is not a JSON object with a `format`".into()
        } else {
            json_problem(&error)
        }
    })?;
    let format = match only.format {
        Some(Value::String(format)) => format,
        Some(other) => {
            return Err(format!(
                "not a jostle profile: `format` is {other}, not \"{FORMAT}\""
            ));
        }
        None => {
            return Err(format!(
                "not a jostle profile: no key `format` (expected \"{FORMAT}\")"
            ));
        }
    };
    let (expected_name, _) = FORMAT.split_once('/').unwrap_or((FORMAT, ""));
    let foreign = || format!("not a jostle profile: `format` is {format:?}, not \"{FORMAT}\"");
    let (name, version) = format.split_once('/').ok_or_else(foreign)?;
    if name != expected_name {
        return Err(foreign());
    }
    let major = version.split('.').next().unwrap_or(version);
    match major.parse::<u64>() {
        Ok(1) => Ok(()),
        Ok(newer) if newer > 1 => Err(format!(
            "format \"{format}\" needs a newer jostle; this one ({}) reads up to \"{FORMAT}\"",
            env!("CARGO_PKG_VERSION")
        )),
        _ => Err(format!(
            "format \"{format}\" is not a version jostle ever wrote; this one reads \"{FORMAT}\""
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

fn read_problem(path: &Path, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        "no such file".into()
    } else if path.is_dir() {
        "is a directory; name a profile in it".into()
    } else {
        error.to_string()
    }
}

fn dir_problem(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such directory".into(),
        io::ErrorKind::NotADirectory => {
            "is not a directory; name the directory that holds the profiles".into()
        }
        _ => error.to_string(),
    }
}
