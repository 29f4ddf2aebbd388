//! The files of directories of profiles, read on all CPUs.

use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_DOCUMENT;
use jostle_profile::summary;
use jostle_profile::summary::Document;
use rayon::prelude::*;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

/// Files that cannot be read, named one by one up to here.
const MOST_NAMED: usize = 5;

/// Files of `sources`, and of directories among them every `*.json` but JSON
/// Schemas, sorted by name. Subdirectories are not entered.
///
/// # Errors
/// A request error naming what does not exist or cannot be read.
pub fn files(sources: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for source in sources {
        if !source.is_dir() {
            if !source.exists() {
                return Err(Error::request(format!(
                    "{}: no such file or directory",
                    source.display()
                )));
            }
            found.push(source.clone());
            continue;
        }
        let mut inside = in_directory(source).map_err(|error| {
            Error::request(format!("{}: cannot be read: {error}", source.display()))
        })?;
        inside.sort_unstable();
        found.append(&mut inside);
    }
    Ok(found)
}

fn in_directory(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let hidden = name.starts_with('.');
        if name.ends_with(".json") && !name.ends_with(".schema.json") && !hidden {
            let path = entry.path();
            if !path.is_dir() {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// What each of `files` is, in order.
///
/// # Errors
/// A request error naming a file that cannot be read.
pub fn documents(files: Vec<PathBuf>) -> Result<Vec<(PathBuf, Document)>> {
    let read = |path: PathBuf| match regular::read(&path, LONGEST_DOCUMENT) {
        Ok(bytes) => Ok((path, summary::read(&bytes))),
        Err(error) => Err(Error::request(format!("{}: {error}", path.display()))),
    };
    files.into_par_iter().map(read).collect()
}

/// Says on standard error which files are no profiles.
pub fn warn_of_refused(documents: &[(PathBuf, Document)]) {
    let refused = documents
        .iter()
        .filter_map(|(path, document)| match document {
            Document::Refused(problem) => Some((path, problem)),
            _ => None,
        });
    for (path, problem) in refused.clone().take(MOST_NAMED) {
        warning!("{}: {problem}", path.display());
    }
    let more = refused.count().saturating_sub(MOST_NAMED);
    if more > 0 {
        warning!("{more} more files are no profiles that this version reads; --json names all");
    }
}
