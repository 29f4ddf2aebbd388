//! Which cgroup a path names: as `/proc/PID/cgroup` writes it, as a directory,
//! or relative to the cgroup root.

use super::CgroupSpec;
use super::Hierarchies;
use super::processes;
use crate::error::Error;
use crate::error::Result;
use crate::near;
use std::path::Path;
use std::path::PathBuf;

/// The cgroup that `--cgroup given` names.
///
/// # Errors
/// A request error when there is none, with near names, or when the same path
/// means different processes in different hierarchies, with the directories to
/// choose from.
pub fn resolve(hierarchies: &Hierarchies, given: &str) -> Result<CgroupSpec> {
    let refused = |text: String| Error::request(format!("--cgroup {given}: {text}"));
    if given.trim_matches('/').is_empty() {
        return Err(refused(
            "the root cgroup holds the whole machine; give one below it, for example \
             /system.slice/x.service"
                .into(),
        ));
    }
    let directory = match as_directory(hierarchies, given) {
        Some(directory) => directory,
        None => {
            let candidates = candidates(hierarchies, given);
            if candidates.is_empty() {
                let near = near::hint(given, names(hierarchies), "");
                return Err(refused(format!(
                    "there is no such cgroup; give a path as in /proc/PID/cgroup, a directory \
                     under /sys/fs/cgroup, or a path relative to the cgroup root{near}"
                )));
            }
            if let Some(list) = differing(&candidates) {
                return Err(refused(format!(
                    "it holds different processes in different hierarchies; give the directory: \
                     {list}"
                )));
            }
            hierarchies
                .best(candidates)
                .expect("one candidate at least")
        }
    };
    let name = directory.file_name().unwrap_or(directory.as_os_str());
    Ok(CgroupSpec {
        name: name.to_string_lossy().into_owned(),
        asked: format!("--cgroup {given}"),
        directory,
    })
}

/// `given` as a directory inside a hierarchy, wherever it was called from.
fn as_directory(hierarchies: &Hierarchies, given: &str) -> Option<PathBuf> {
    let path = Path::new(given);
    if !path.is_absolute() {
        return None;
    }
    let directory = path.canonicalize().ok().filter(|path| path.is_dir())?;
    hierarchies.locate(&directory)?;
    Some(directory)
}

/// Directories that `given` may mean, one per hierarchy at most.
fn candidates(hierarchies: &Hierarchies, given: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let below = Path::new(given.trim_matches('/'));
    let outside = |part| matches!(part, std::path::Component::ParentDir);
    if below.components().any(outside) {
        return found;
    }
    for hierarchy in hierarchies.iter() {
        let as_listed = hierarchy.directory_of(given);
        // `cpu/x`: relative to the directory that holds the mounts.
        let base = hierarchy.directory.parent();
        let below_base = base
            .map(|base| base.join(below))
            .filter(|path| path.starts_with(&hierarchy.directory));
        for directory in [as_listed, below_base].into_iter().flatten() {
            if directory != hierarchy.directory && directory.is_dir() && !found.contains(&directory)
            {
                found.push(directory);
            }
        }
    }
    found
}

/// The directories in words, when they hold different processes. One that holds
/// none does not count: many controllers are not used by everybody.
fn differing(candidates: &[PathBuf]) -> Option<String> {
    let read = || -> Vec<(&PathBuf, Vec<i32>)> {
        candidates
            .iter()
            .filter_map(|directory| Some((directory, processes(directory).ok()?)))
            .filter(|(_, found)| !found.is_empty())
            .collect()
    };
    // Processes come and go between two reads: differences must stay.
    for _ in 0..5 {
        let sets = read();
        if sets.windows(2).all(|pair| pair[0].1 == pair[1].1) {
            return None;
        }
    }
    let list: Vec<String> = read()
        .iter()
        .map(|(directory, found)| format!("{} ({} processes)", directory.display(), found.len()))
        .collect();
    Some(list.join(", "))
}

/// Paths of all cgroups as a person would give them.
fn names(hierarchies: &Hierarchies) -> Vec<String> {
    let mut names = Vec::new();
    // Too many to look through are as good as none here.
    let _ = hierarchies.walk(|hierarchy, directory| {
        if let Ok(below) = directory.strip_prefix(&hierarchy.directory) {
            names.push(format!("/{}", below.display()));
        }
    });
    names
}
