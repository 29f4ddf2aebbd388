//! The profiles that classification learns from.

use jostle_measure::console::note;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_DOCUMENT;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// Every profile in `directory`, by file name; documents of other formats are
/// passed over, and so is the file `except`. Several profiles of one workload are
/// welcome. `flag` named the directory.
///
/// # Errors
/// A request error naming the directory, or the file that cannot be read.
pub fn read(flag: &str, directory: &Path, except: Option<&Path>) -> Result<Vec<Profile>> {
    let unreadable = |error| {
        let directory = directory.display();
        Error::request(format!(
            "{flag} {directory}: cannot read the directory: {error}"
        ))
    };
    let except = except.and_then(|path| path.canonicalize().ok());
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        if is_json && is_profile(&path) && path.canonicalize().ok() != except {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    let load = |path: &PathBuf| profile::load(path).map_err(Error::request);
    paths.iter().map(load).collect()
}

/// False for what says itself that it is something else, like a schema.
fn is_profile(path: &Path) -> bool {
    let document = regular::read(path, LONGEST_DOCUMENT).ok();
    let document: Option<Value> = document.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match document.as_ref().map(|document| document.get("format")) {
        Some(Some(Value::String(format))) => format.starts_with("jostle-profile/"),
        // A schema, or anything else without a format.
        Some(_) => false,
        // Loading says what is wrong.
        None => true,
    }
}

/// Those whose metric is of the same sort: what a percentile of latencies
/// tolerates and what a rate or a run time tolerates are different things. The
/// others are named.
pub fn comparable(training: &[Profile], latency: bool) -> Vec<&Profile> {
    let (same, other): (Vec<&Profile>, Vec<&Profile>) = training
        .iter()
        .partition(|profile| is_latency(profile) == latency);
    if !other.is_empty() {
        let names = other
            .iter()
            .map(|profile| format!("{} ({})", profile.workload.name, profile.metric.name));
        let sort = if latency {
            "not a latency"
        } else {
            "a latency"
        };
        note!(
            "left out, because the metric is {sort}: {}",
            names.collect::<Vec<_>>().join(", ")
        );
    }
    same
}

/// Whether the profile's metric is a latency.
pub fn is_latency(profile: &Profile) -> bool {
    profile.metric.name.starts_with("latency")
}
