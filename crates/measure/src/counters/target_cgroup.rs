//! Where the target's own cgroup is, in each hierarchy.

use super::error::Error;
use crate::workload::Scope;
use crate::workload::tree;
use jostle_host::os;
use jostle_host::os::cgroup;
use jostle_host::os::cgroup::Hierarchies;
use jostle_host::os::text;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;

/// The target's own cgroup, in each hierarchy.
pub struct TargetCgroup {
    scope: Option<Scope>,
    hierarchies: Result<Hierarchies, os::Error>,
    /// Processes of a target that is given by its processes.
    members: Vec<i32>,
    /// What was found, by controller.
    known: RefCell<HashMap<&'static str, Result<PathBuf, Error>>>,
}

impl TargetCgroup {
    pub fn find(root: &Path, scope: Option<&Scope>) -> TargetCgroup {
        let members = match scope {
            Some(Scope::Processes(pids)) => tree::with_descendants(pids),
            _ => Vec::new(),
        };
        TargetCgroup {
            scope: scope.cloned(),
            hierarchies: Hierarchies::below(root),
            members,
            known: RefCell::default(),
        }
    }

    /// Its directory in the v1 hierarchy with `controller`, in v2 where that is
    /// empty.
    pub fn of(&self, controller: &'static str) -> Result<PathBuf, Error> {
        let mut known = self.known.borrow_mut();
        let found = known.entry(controller);
        found.or_insert_with(|| self.look(controller)).clone()
    }

    fn look(&self, controller: &str) -> Result<PathBuf, Error> {
        let kind = match controller {
            "" => "cgroup v2".to_string(),
            _ => format!("cgroup v1 {controller}"),
        };
        let hierarchies = self.hierarchies.as_ref().map_err(os::Error::clone)?;
        match &self.scope {
            None => Err(Error::NoTarget),
            Some(Scope::Processes(pids)) => {
                let pid = pids.first().ok_or(Error::NoProcess)?;
                let found = hierarchies.of_process(&pid.to_string(), controller)?;
                let directory = found.ok_or(Error::NotInHierarchy(kind))?;
                match self.is_exclusive(hierarchies, &directory)? {
                    true => Ok(directory),
                    false => Err(Error::Shared),
                }
            }
            Some(Scope::Cgroup(directory)) => hierarchies
                .counterpart(directory, controller)
                .map_err(|problem| Error::Counterpart {
                    kind: kind.clone(),
                    problem,
                })?
                .ok_or(Error::NotMounted(kind)),
        }
    }

    /// Whether nobody else is in the cgroup.
    fn is_exclusive(&self, hierarchies: &Hierarchies, directory: &Path) -> Result<bool, os::Error> {
        // The root holds everything, the kernel's threads and us included, and
        // takes milliseconds to list.
        let located = hierarchies.locate(directory);
        if located.is_none_or(|(_, below)| below.as_os_str().is_empty()) {
            return Ok(false);
        }
        let all = cgroup::processes(directory)?;
        Ok(all.iter().all(|&pid| self.belongs(pid)))
    }

    /// Whether a process is the target's, or gone by now.
    fn belongs(&self, pid: i32) -> bool {
        let mut at = pid;
        while !self.members.contains(&at) {
            match tree::stat(at) {
                None => return at == pid,
                Some(stat) if stat.parent <= 1 => return false,
                // It may have begun after the members were listed.
                Some(stat) => at = stat.parent,
            }
        }
        true
    }
}

/// The directory to hand to the kernel for counting perf events of the cgroup
/// `directory`.
pub(super) fn for_perf(root: &Path, directory: &Path) -> Result<PathBuf, Error> {
    let hierarchies = Hierarchies::below(root)?;
    if hierarchies.locate(directory).is_none() {
        return Err(Error::NoMount(text::shown(root, directory)));
    }
    let controller = match hierarchies.with("perf_event") {
        Some(_) => "perf_event",
        // Where no v1 hierarchy has it, it belongs to v2, unseen.
        None => "",
    };
    let found = hierarchies.counterpart(directory, controller)?;
    found.ok_or(Error::NoPerfHierarchy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_host::os::fake::tree;

    #[test]
    fn perf_counts_in_the_hierarchy_that_has_it() {
        const MEMORY: &str = "26 24 0:24 / /cg/memory rw - cgroup cgroup rw,memory\n";
        const PERF: &str = "27 24 0:25 / /cg/perf_event rw - cgroup cgroup rw,perf_event\n";
        const UNIFIED: &str = "28 24 0:26 / /cg/unified rw - cgroup2 cgroup2 rw\n";
        for (mounts, expected) in [
            ([MEMORY, PERF, UNIFIED].concat(), Some("cg/perf_event/web")),
            ([MEMORY, UNIFIED].concat(), Some("cg/unified/web")),
            (MEMORY.into(), None),
        ] {
            let root = tree(&[
                ("proc/self/mountinfo", &mounts),
                ("cg/memory/web/cgroup.procs", "7\n"),
                ("cg/perf_event/web/cgroup.procs", "7\n"),
                ("cg/unified/web/cgroup.procs", "7\n"),
            ]);
            let found = for_perf(root.path(), &root.path().join("cg/memory/web"));
            let expected = expected.map(|path| root.path().join(path));
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{found:?}");
            assert!(for_perf(root.path(), Path::new("/elsewhere")).is_err());
        }
    }
}
