//! Control groups, v1, v2, or both at once: where they are mounted, which one a
//! process is in, and who is inside.

use super::Error;
use super::ParseError;
use super::here;
use super::mounts;
use super::proc;
use super::text;
use procfs_core::FromBufRead;
use procfs_core::ProcessCGroups;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::path::Component;
use std::path::Path;
use std::path::PathBuf;

/// Most directories that are looked through for a name; a machine with more
/// cgroups is told so instead of being searched for minutes.
const MOST_DIRECTORIES: usize = 100_000;
/// Deepest nesting that is looked into.
const DEEPEST: usize = 32;

/// One mounted cgroup hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted, below the root.
    pub directory: PathBuf,
    /// v1 controllers, `name=systemd` among them; none for v2.
    pub controllers: Vec<String>,
    /// The cgroup that stands at the mount point, `/` for the root.
    shown: String,
}

impl Hierarchy {
    /// Whether it is of v2.
    pub fn unified(&self) -> bool {
        self.controllers.is_empty()
    }

    /// Whether it has the v1 `controller`, or is v2 where that is empty.
    pub fn has(&self, controller: &str) -> bool {
        match controller {
            "" => self.unified(),
            _ => self.controllers.iter().any(|name| name == controller),
        }
    }

    /// The directory of the cgroup that `/proc/PID/cgroup` calls `path`, if it
    /// lies below what this mount shows.
    pub fn directory_of(&self, path: &str) -> Option<PathBuf> {
        let below = match self.shown.as_str() {
            "/" => path,
            shown => match path.strip_prefix(shown) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
                // A cgroup namespace: the path is already as the mount shows it.
                _ => path,
            },
        };
        let below = Path::new(below.trim_matches('/'));
        let outside = |part| part == Component::ParentDir;
        (!below.components().any(outside)).then(|| join(&self.directory, below))
    }
}

/// Not leaving a slash at the end.
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
    root: PathBuf,
    list: Vec<Hierarchy>,
}

impl Hierarchies {
    /// Those of this machine.
    pub fn here() -> Result<Hierarchies, Error> {
        Self::below(here())
    }

    /// Those that `<root>/proc/self/mountinfo` tells of, mounted below `root`.
    pub fn below(root: &Path) -> Result<Hierarchies, Error> {
        let mut list: Vec<Hierarchy> = Vec::new();
        for mount in mounts::read(root)? {
            let controllers = match mount.fs_type.as_str() {
                "cgroup2" => Vec::new(),
                "cgroup" => controllers(&mount.super_options),
                _ => continue,
            };
            let known = |other: &Hierarchy| other.controllers == controllers;
            // One hierarchy may be mounted in several places.
            if !list.iter().any(known) {
                list.push(Hierarchy {
                    directory: text::below(root, &mount.mount_point),
                    controllers,
                    shown: mount.root,
                });
            }
        }
        if list.is_empty() {
            return Err(Error::NoCgroups);
        }
        list.sort_by_key(|hierarchy| match hierarchy {
            unified if unified.unified() => 0,
            freezer if freezer.has("freezer") => 1,
            _ => 2,
        });
        Ok(Hierarchies {
            root: root.into(),
            list,
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = &Hierarchy> {
        self.list.iter()
    }

    /// The hierarchy with the v1 `controller`, or v2 where that is empty.
    pub fn with(&self, controller: &str) -> Option<&Hierarchy> {
        self.iter().find(|hierarchy| hierarchy.has(controller))
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

    /// The directory of the cgroup of `process` (a process id, or `self`) in the
    /// hierarchy with the v1 `controller`, or in v2 where that is empty. The
    /// mount point where the cgroup lies outside of what is mounted, as in some
    /// containers; `None` where the process is in no such hierarchy.
    ///
    /// # Errors
    /// Why its cgroups cannot be read, or that the hierarchy is not mounted.
    pub fn of_process(&self, process: &str, controller: &str) -> Result<Option<PathBuf>, Error> {
        let file = format!("proc/{process}/cgroup");
        let cgroups = text::parse(&self.root, file, |text| {
            ProcessCGroups::from_buf_read(text.as_bytes())
                .map_err(|error| ParseError::Other(error.to_string()))
        })?;
        let listed = cgroups.into_iter().find(|cgroup| match controller {
            "" => cgroup.controllers.is_empty(),
            _ => cgroup.controllers.iter().any(|name| name == controller),
        });
        let Some(cgroup) = listed else {
            return Ok(None);
        };
        let hierarchy = self.with(controller).ok_or_else(|| match controller {
            "" => Error::NoUnified,
            _ => Error::NoController(controller.into()),
        })?;
        let directory = hierarchy
            .directory_of(&cgroup.pathname)
            .filter(|directory| hierarchy.shown == "/" || directory.is_dir());
        Ok(Some(
            directory.unwrap_or_else(|| hierarchy.directory.clone()),
        ))
    }

    /// The cgroup of the same path as `directory` in the hierarchy with the v1
    /// `controller`, or in v2 where that is empty: `directory` itself where that
    /// is its own. `None` where there is no such hierarchy.
    ///
    /// # Errors
    /// How the processes in it differ from those in `directory`.
    pub fn counterpart(
        &self,
        directory: &Path,
        controller: &str,
    ) -> Result<Option<PathBuf>, Error> {
        let (Some((own, path)), Some(other)) = (self.locate(directory), self.with(controller))
        else {
            return Ok(None);
        };
        if own == other {
            return Ok(Some(directory.to_path_buf()));
        }
        let counterpart = other.directory.join(path);
        self.same_processes(directory, &counterpart)?;
        Ok(Some(counterpart))
    }

    /// Whether two cgroups of different hierarchies hold the same processes, some
    /// of which may begin and end meanwhile.
    fn same_processes(&self, one: &Path, other: &Path) -> Result<(), Error> {
        let before = processes(one)?;
        let found = processes(other)?;
        let after = processes(one)?;
        let foreign = found.iter().any(|pid| {
            let alive = || self.root.join(format!("proc/{pid}")).exists();
            !before.contains(pid) && !after.contains(pid) && alive()
        });
        let stayed = |pid: &&i32| after.contains(pid);
        let missing = before.iter().filter(stayed).any(|pid| !found.contains(pid));
        match (foreign || missing, before.is_empty()) {
            (false, false) => Ok(()),
            (false, true) => Err(Error::NoProcess(one.display().to_string())),
            (true, _) => Err(Error::OtherProcesses(other.display().to_string())),
        }
    }

    /// Calls `visit` for every cgroup below the mount points, parents first.
    ///
    /// # Errors
    /// When there are too many to look through.
    pub fn walk(&self, mut visit: impl FnMut(&Hierarchy, &Path)) -> Result<(), Error> {
        let mut seen = 0;
        for hierarchy in self.iter() {
            let mut queue = vec![(hierarchy.directory.clone(), 0)];
            while let Some((directory, depth)) = queue.pop() {
                for child in children(&directory) {
                    seen += 1;
                    if seen > MOST_DIRECTORIES {
                        return Err(Error::TooManyCgroups(MOST_DIRECTORIES));
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
    pub fn best(&self, mut directories: Vec<PathBuf>) -> Option<PathBuf> {
        let rank = |directory: &PathBuf| {
            let (own, _) = self.locate(directory)?;
            self.iter().position(|hierarchy| hierarchy == own)
        };
        directories.sort_by_key(|directory| rank(directory).unwrap_or(usize::MAX));
        let holds = |directory: &&PathBuf| any_process(directory, &|_| true);
        let chosen = directories.iter().find(holds).or(directories.first());
        chosen.cloned()
    }
}

/// Controllers, in alphabetical order, among the options of a v1 mount.
fn controllers(super_options: &HashMap<String, Option<String>>) -> Vec<String> {
    let name = |(option, value): (&String, &Option<String>)| match (option.as_str(), value) {
        ("name", Some(value)) => Some(format!("name={value}")),
        ("" | "rw" | "ro" | "xattr" | "noprefix" | "clone_children" | "cpuset_v2_mode", _)
        | (_, Some(_)) => None,
        (controller, None) => Some(controller.to_string()),
    };
    let mut found: Vec<String> = super_options.iter().filter_map(name).collect();
    found.sort_unstable();
    found
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
/// What the kernel says about `cgroup.procs`.
pub fn processes(directory: &Path) -> Result<Vec<i32>, Error> {
    let mut found = BTreeSet::new();
    found.extend(own_processes(directory)?);
    let mut queue = children(directory);
    while let Some(child) = queue.pop() {
        // One that vanishes meanwhile holds nothing; the processes of a
        // threaded one are listed where its domain begins.
        found.extend(own_processes(&child).unwrap_or_default());
        queue.extend(children(&child));
    }
    Ok(found.into_iter().collect())
}

fn own_processes(directory: &Path) -> Result<Vec<i32>, Error> {
    let text = text::text(here(), directory.join("cgroup.procs"))?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Whether the cgroup, or one below, holds a process that `wanted` accepts,
/// without reading more than it takes.
fn any_process(directory: &Path, wanted: &impl Fn(i32) -> bool) -> bool {
    own_processes(directory).is_ok_and(|own| own.into_iter().any(wanted))
        || children(directory)
            .iter()
            .any(|child| any_process(child, wanted))
}

/// What is known of the population of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Population {
    Vanished,
    Empty,
    Living,
}

/// Whether anything lives in the cgroup: one small file with v2.
pub fn population(directory: &Path) -> Population {
    let events = match text::text(here(), directory.join("cgroup.events")) {
        Ok(events) => events,
        Err(_) if !directory.is_dir() => return Population::Vanished,
        Err(_) => String::new(),
    };
    let lives = |pid| pid == 0 || proc::stat(here(), pid).is_some_and(|stat| !stat.ended());
    let empty = match text::value(&events, "populated") {
        Some(populated) => populated == "0",
        None => !any_process(directory, &lives),
    };
    match empty {
        true => Population::Empty,
        false => Population::Living,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::tree;
    use super::*;

    const HYBRID: &str = "\
        25 24 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        26 24 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        27 24 0:25 / /sys/fs/cgroup/my\\040own/unified rw - cgroup2 cgroup2 rw\n\
        28 1 254:0 / / rw - ext4 /dev/vda rw\n";

    #[test]
    fn the_cgroup_of_a_process_per_hierarchy() {
        let tree = tree(&[
            ("proc/self/mountinfo", HYBRID),
            ("proc/7/cgroup", "4:memory:/web\n1:cpu:/\n0::/web/inner\n"),
            ("sys/fs/cgroup/memory/web/cgroup.procs", "7\n"),
            ("sys/fs/cgroup/my own/unified/web/inner/cgroup.procs", "7\n"),
        ]);
        let root = tree.path();
        let hierarchies = Hierarchies::below(root).unwrap();
        let at = |controller| hierarchies.of_process("7", controller);
        let below = |path: &str| Ok(Some(root.join("sys/fs/cgroup").join(path)));
        assert_eq!(at("memory"), below("memory/web"));
        assert_eq!(at("cpu"), below("cpu"));
        assert_eq!(at("blkio"), Ok(None));
        // The kernel writes the space in the mount point as \040.
        assert_eq!(at(""), below("my own/unified/web/inner"));
        assert!(hierarchies.of_process("8", "").unwrap_err().is_absent());
    }

    #[test]
    fn counterparts_hold_the_same_processes() {
        let tree = tree(&[
            ("proc/self/mountinfo", HYBRID),
            ("sys/fs/cgroup/memory/web/cgroup.procs", "7\n9\n"),
            ("sys/fs/cgroup/my own/unified/web/cgroup.procs", "7\n"),
            ("sys/fs/cgroup/my own/unified/web/inner/cgroup.procs", "9\n"),
            ("sys/fs/cgroup/memory/lone/cgroup.procs", "8\n"),
            ("sys/fs/cgroup/memory/mixed/cgroup.procs", "8\n"),
            ("sys/fs/cgroup/my own/unified/mixed/cgroup.procs", "8\n10\n"),
            ("proc/10/stat", ""),
        ]);
        let hierarchies = Hierarchies::below(tree.path()).unwrap();
        let base = tree.path().join("sys/fs/cgroup");
        let at = |path: &str| hierarchies.counterpart(&base.join(path), "");
        let web = base.join("my own/unified/web");
        assert_eq!(at("my own/unified/web"), Ok(Some(web.clone())));
        assert_eq!(at("memory/web"), Ok(Some(web)));
        assert!(at("memory/lone").unwrap_err().is_absent());
        let mixed = at("memory/mixed").unwrap_err();
        assert!(matches!(mixed, Error::OtherProcesses(_)), "{mixed}");
        assert_eq!(at("/elsewhere"), Ok(None));
        let v1 = hierarchies.counterpart(&base.join("memory/web"), "blkio");
        assert_eq!(v1, Ok(None));
    }
}
