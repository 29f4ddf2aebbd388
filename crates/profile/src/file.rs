//! Loading and saving profiles.

use super::FORMAT;
use super::Profile;
use super::check;
use crate::document;
use crate::document::DocumentError;
use crate::layout;
use crate::regular;
use crate::regular::LONGEST_DOCUMENT;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
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
    pub(crate) fn new(path: &Path, problem: impl ToString) -> Self {
        LoadError {
            path: path.to_path_buf(),
            problem: problem.to_string(),
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
    let profile = parse(&read(path)?).map_err(|error| LoadError::new(path, error))?;
    check::check(&profile).map_err(|error| LoadError::new(path, error))?;
    Ok(profile)
}

/// Reads a profile from the bytes of its file. Its numbers are not judged: see
/// [`check`](check::check).
///
/// # Errors
/// Those of [`document::parse`].
pub fn parse(bytes: &[u8]) -> Result<Profile, DocumentError> {
    document::parse(bytes, FORMAT, "jostle profile")
}

/// A profile as a JSON value.
pub fn to_value(profile: &Profile) -> Value {
    serde_json::to_value(profile).expect("the keys of its maps are text")
}

/// Reads a document of `format`, unchecked; `what` is what a person calls it.
///
/// # Errors
/// Those of reading the file and of [`document::parse`], with the path.
pub(crate) fn document<T: DeserializeOwned>(
    path: &Path,
    format: &str,
    what: &str,
) -> Result<T, LoadError> {
    document::parse(&read(path)?, format, what).map_err(|error| LoadError::new(path, error))
}

fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    regular::read(path, LONGEST_DOCUMENT)
        .map_err(|error| LoadError::new(path, read_problem(path, &error)))
}

/// Reads every `*.json` in `dir`, in file name order, leaving out
/// `*.schema.json`, measured pairs (`jostle-pairs/1`) and `jostle-blame/1`. Subdirectories are not
/// entered.
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
    paths.sort_unstable();
    let mut first_with: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut profiles = Vec::with_capacity(paths.len());
    for path in paths {
        if is_other_document(&path) {
            continue;
        }
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

/// Whether `path` says that it holds pairs or a blame, and not a profile.
fn is_other_document(path: &Path) -> bool {
    #[derive(Deserialize)]
    struct FormatOnly {
        format: String,
    }
    let text = regular::read(path, LONGEST_DOCUMENT).unwrap_or_default();
    let only = serde_json::from_slice::<FormatOnly>(&text);
    let other =
        |format: &str| format.starts_with("jostle-pairs/") || format.starts_with("jostle-blame/");
    only.is_ok_and(|only| other(&only.format))
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
    document::replace(path, layout::json(profile)?.as_bytes())
}

fn read_problem(path: &Path, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        "no such file".into()
    } else if path.is_dir() {
        "is a directory; name a file in it".into()
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
