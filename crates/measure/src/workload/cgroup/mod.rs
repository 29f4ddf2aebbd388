//! Cgroups as targets: which one a path, a container or a unit names, and how
//! everything in it is stopped.

pub mod container;
mod engines;
mod freezer;
mod path;
pub mod unit;

pub(super) use freezer::Freezer;
pub(super) use freezer::Kind as FreezerKind;
pub use path::resolve;

pub use jostle_host::os::cgroup::Hierarchies;
pub use jostle_host::os::cgroup::Hierarchy;
pub use jostle_host::os::cgroup::processes;

use super::tree;
use jostle_host::os::Error;
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
        Err(Error::Unsupported { .. }) => {
            return Some(format!(
                "{shown} is a threaded cgroup, which holds threads and no processes; give the \
                 one above it whose cgroup.type is 'domain threaded'"
            ));
        }
        Err(Error::Absent { .. }) => return Some(format!("the cgroup {shown} vanished")),
        Err(error) => return Some(error.to_string()),
    };
    if found.contains(&0) {
        return Some(format!(
            "{shown} holds processes that cannot be seen from here (another PID namespace); run \
             jostle on the host, or in a container that shares its PID namespace"
        ));
    }
    let us = tree::self_and_ancestors();
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
