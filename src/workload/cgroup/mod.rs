//! Cgroups as targets: where they are mounted, what lies in them, and which one
//! a path, a container or a unit names. Everything is read below a root, so
//! that tests can put a made-up tree in its place.

pub mod container;
mod engines;
mod freezer;
mod path;
pub mod unit;

pub(super) use freezer::Freezer;
pub(super) use freezer::Kind as FreezerKind;
pub use path::resolve;

use super::tree;
use crate::machine::mounts;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::path::PathBuf;

/// A cgroup to attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupSpec {
    /// Its directory in one of the hierarchies.
    pub directory: PathBuf,
    /// Short name for the profile.
    pub name: String,
    /// What was asked for, with its flag, for messages: `--unit nginx`.
    pub asked: String,
}

/// Most directories that are looked through for a name; a machine with more
/// cgroups is told so instead of being searched for minutes.
const MOST_DIRECTORIES: usize = 100_000;
/// Deepest nesting that is looked into.
const DEEPEST: usize = 32;

/// One mounted cgroup hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub directory: PathBuf,
    /// v1 controllers, `name=systemd` among them; none for v2.
    pub controllers: Vec<String>,
    /// The cgroup that stands at the mount point, `/` for the root.
    shown: String,
}

impl Hierarchy {
    pub fn unified(&self) -> bool {
        self.controllers.is_empty()
    }

    fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }

    /// The directory of the cgroup that `/proc/PID/cgroup` calls `path`, if it
    /// lies below what this mount shows.
    fn directory_of(&self, path: &str) -> Option<PathBuf> {
        let below = match self.shown.as_str() {
            "/" => path,
            shown => match path.strip_prefix(shown) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
                // A cgroup namespace: the path is already as the mount shows it.
                _ => path,
            },
        };
        let below = below.trim_matches('/');
        (!below.split('/').any(|part| part == ".."))
            .then(|| join(&self.directory, Path::new(below)))
    }
}

fn join(directory: &Path, below: &Path) -> PathBuf {
    match below.as_os_str().is_empty() {
        true => directory.to_path_buf(),
        false => directory.join(below),
    }
}

/// All hierarchies of a machine: the unified one first, then the freezer, which
/// can hold what lies in it, then the others as they are mounted.
#[derive(Clone, Debug, Default)]
pub struct Hierarchies {
    list: Vec<Hierarchy>,
}

impl Hierarchies {
    /// Those of this machine.
    ///
    /// # Errors
    /// Why there are none.
    pub fn here() -> Result<Hierarchies, String> {
        Self::below(Path::new("/"))
    }

    /// Those that `<root>/proc/self/mountinfo` tells of, mounted below `root`.
    ///
    /// # Errors
    /// Why there are none.
    pub fn below(root: &Path) -> Result<Hierarchies, String> {
        let file = root.join("proc/self/mountinfo");
        let text = std::fs::read_to_string(&file)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let mut list: Vec<Hierarchy> = Vec::new();
        for mount in mounts::parse(&text) {
            let controllers = match mount.filesystem.as_str() {
                "cgroup2" => Vec::new(),
                "cgroup" => controllers(&mount.super_options),
                _ => continue,
            };
            let directory = join(root, Path::new(mount.point.trim_start_matches('/')));
            let known = |other: &Hierarchy| other.controllers == controllers;
            // One hierarchy may be mounted in several places.
            if !list.iter().any(known) {
                list.push(Hierarchy {
                    directory,
                    controllers,
                    shown: mount.root,
                });
            }
        }
        if list.is_empty() {
            return Err("no cgroup file system is mounted".to_string());
        }
        list.sort_by_key(|hierarchy| match hierarchy {
            unified if unified.unified() => 0,
            freezer if freezer.has("freezer") => 1,
            _ => 2,
        });
        Ok(Hierarchies { list })
    }

    pub fn iter(&self) -> impl Iterator<Item = &Hierarchy> {
        self.list.iter()
    }

    fn unified(&self) -> Option<&Hierarchy> {
        self.iter().find(|hierarchy| hierarchy.unified())
    }

    fn freezer(&self) -> Option<&Hierarchy> {
        self.iter().find(|hierarchy| hierarchy.has("freezer"))
    }

    /// The hierarchy that holds `directory`, and the path inside it; empty for
    /// the root.
    pub fn locate<'a>(&self, directory: &'a Path) -> Option<(&Hierarchy, &'a Path)> {
        self.iter()
            .filter_map(|hierarchy| {
                let below = directory.strip_prefix(&hierarchy.directory).ok()?;
                Some((hierarchy, below))
            })
            // v2 may be mounted at the directory that also holds v1 mounts.
            .min_by_key(|(_, below)| below.components().count())
    }

    /// Calls `visit` for every cgroup below the mount points, parents first.
    ///
    /// # Errors
    /// When there are too many to look through.
    pub(super) fn walk(&self, mut visit: impl FnMut(&Hierarchy, &Path)) -> Result<(), String> {
        let mut seen = 0;
        for hierarchy in self.iter() {
            let mut queue = vec![(hierarchy.directory.clone(), 0)];
            while let Some((directory, depth)) = queue.pop() {
                for child in children(&directory) {
                    seen += 1;
                    if seen > MOST_DIRECTORIES {
                        return Err(format!(
                            "there are more than {MOST_DIRECTORIES} cgroups; give the directory \
                             with --cgroup"
                        ));
                    }
                    visit(hierarchy, &child);
                    if depth < DEEPEST {
                        queue.push((child, depth + 1));
                    }
                }
            }
        }
        Ok(())
    }

    /// The one to use among `directories` that stand for the same thing in
    /// several hierarchies: the first, in the order of the hierarchies, that
    /// holds a process; else the first.
    fn best(&self, mut directories: Vec<PathBuf>) -> Option<PathBuf> {
        let rank = |directory: &PathBuf| {
            let (own, _) = self.locate(directory)?;
            self.iter().position(|hierarchy| hierarchy == own)
        };
        directories.sort_by_key(|directory| rank(directory).unwrap_or(usize::MAX));
        let holds = |directory: &&PathBuf| first_process(directory).is_some();
        let chosen = directories.iter().find(holds).or(directories.first());
        chosen.cloned()
    }
}

fn controllers(super_options: &str) -> Vec<String> {
    let known = |option: &&str| {
        !option.is_empty()
            && (option.starts_with("name=")
                || !matches!(
                    *option,
                    "rw" | "ro" | "xattr" | "noprefix" | "clone_children" | "cpuset_v2_mode"
                ) && !option.contains('='))
    };
    super_options
        .split(',')
        .filter(known)
        .map(str::to_string)
        .collect()
}

/// Directories right below `directory`, sorted; none when it is gone.
fn children(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    found.sort_unstable();
    found
}

/// Processes in the cgroup at `directory` and in all below, ascending. A 0
/// stands for processes outside of our PID namespace.
///
/// # Errors
/// What the kernel says about `cgroup.procs`; `NotFound` when it vanished.
pub fn processes(directory: &Path) -> io::Result<Vec<i32>> {
    let mut found = BTreeSet::new();
    let own = own_processes(directory)?;
    found.extend(own);
    let mut queue = children(directory);
    while let Some(child) = queue.pop() {
        // One that vanishes meanwhile holds nothing; the processes of a
        // threaded one are listed where its domain begins.
        found.extend(own_processes(&child).unwrap_or_default());
        queue.extend(children(&child));
    }
    Ok(found.into_iter().collect())
}

fn own_processes(directory: &Path) -> io::Result<Vec<i32>> {
    let text = match std::fs::read_to_string(directory.join("cgroup.procs")) {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
            return Err(io::ErrorKind::NotFound.into());
        }
        text => text?,
    };
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Some process of the cgroup or of one below, without reading more than it
/// takes.
fn first_process(directory: &Path) -> Option<i32> {
    let own = own_processes(directory).unwrap_or_default();
    own.first().copied().or_else(|| {
        children(directory)
            .iter()
            .find_map(|child| first_process(child))
    })
}

/// What is known of the population of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Population {
    Vanished,
    Empty,
    Living,
}

/// Whether anything lives in the cgroup: one small file with v2.
pub(super) fn population(directory: &Path) -> Population {
    if let Ok(events) = std::fs::read_to_string(directory.join("cgroup.events")) {
        return match value(&events, "populated") {
            Some("0") => Population::Empty,
            _ => Population::Living,
        };
    }
    if !directory.is_dir() {
        return Population::Vanished;
    }
    match living(directory) {
        true => Population::Living,
        false => Population::Empty,
    }
}

fn living(directory: &Path) -> bool {
    let lives = |pid: &i32| *pid == 0 || tree::stat(*pid).is_some_and(|stat| !stat.ended());
    own_processes(directory).is_ok_and(|own| own.iter().any(lives))
        || children(directory).iter().any(|child| living(child))
}

/// The value of a line `key value` of a flat keyed file.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
}

/// Why the cgroup at `directory` cannot be a target.
pub(super) fn refusal(hierarchies: &Hierarchies, directory: &Path) -> Option<String> {
    let shown = directory.display();
    match hierarchies.locate(directory) {
        None => {
            let mounts: Vec<String> = hierarchies
                .iter()
                .map(|hierarchy| hierarchy.directory.display().to_string())
                .collect();
            return Some(format!(
                "{shown} lies in none of the cgroup hierarchies, which are {}",
                mounts.join(", ")
            ));
        }
        Some((_, below)) if below.as_os_str().is_empty() => {
            return Some(format!(
                "{shown} is the root of its hierarchy and holds the whole machine; give a cgroup \
                 below it"
            ));
        }
        Some(_) => {}
    }
    let found = match processes(directory) {
        Ok(found) => found,
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            return Some(format!(
                "{shown} is a threaded cgroup, which holds threads and no processes; give the \
                 one above it whose cgroup.type is 'domain threaded'"
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Some(format!("the cgroup {shown} vanished"));
        }
        Err(error) => return Some(format!("{shown}/cgroup.procs: {error}")),
    };
    if found.contains(&0) {
        return Some(format!(
            "{shown} holds processes that cannot be seen from here (another PID namespace); run \
             jostle on the host, or in a container that shares its PID namespace"
        ));
    }
    let us = tree::us_and_above();
    if let Some(pid) = found.iter().find(|pid| us.contains(pid)) {
        return Some(format!(
            "{shown} holds jostle itself or a process it was started from ({pid}); stopping it \
             would stop jostle. Start jostle from another cgroup, for example with systemd-run \
             --scope"
        ));
    }
    let ended = |pid: &i32| tree::stat(*pid).is_none_or(|stat| stat.ended());
    found
        .iter()
        .all(ended)
        .then(|| format!("the cgroup {shown} holds no process; start its workload first"))
}
