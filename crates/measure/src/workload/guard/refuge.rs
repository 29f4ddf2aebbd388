//! A cgroup for the guard that is not the profiler's: what ends or freezes a whole
//! cgroup (`cgroup.kill`, `memory.oom.group`, the freezer) must leave the guard.
//!
//! In v1 the guard goes one up, where processes may be beside cgroups. In v2 they
//! may not, but at the root: there it gets a cgroup beside the profiler's, which it
//! removes at its end.

use crate::workload::cgroup::Hierarchies;
use std::path::Path;
use std::path::PathBuf;

/// What has to be removed at the end.
#[derive(Default)]
pub(super) struct Refuge {
    made: Option<(PathBuf, PathBuf)>,
}

impl Refuge {
    /// Moves this process as far as the kernel lets it; where it may not move it
    /// stays, and `jostle release` is what is left.
    pub(super) fn enter() -> Refuge {
        let Ok(hierarchies) = Hierarchies::here() else {
            return Refuge::default();
        };
        for controller in ["freezer", "memory"] {
            if let Some((_, above)) = above(&hierarchies, controller) {
                join(&above);
            }
        }
        let Some((top, above)) = above(&hierarchies, "") else {
            return Refuge::default();
        };
        if join(&above) {
            return Refuge::default();
        }
        let own = above.join(format!("jostle-guard-{}", std::process::id()));
        if std::fs::create_dir(&own).is_err() {
            return Refuge::default();
        }
        if !join(&own) {
            let _ = std::fs::remove_dir(&own);
            return Refuge::default();
        }
        Refuge {
            made: Some((own, top)),
        }
    }

    pub(super) fn leave(self) {
        if let Some((own, top)) = self.made
            && join(&top)
        {
            let _ = std::fs::remove_dir(own);
        }
    }
}

/// The root of the hierarchy with `controller` and the cgroup above ours in it;
/// `None` where we are at the root or cannot see it.
fn above(hierarchies: &Hierarchies, controller: &str) -> Option<(PathBuf, PathBuf)> {
    let ours = hierarchies.of_process("self", controller).ok()??;
    let (hierarchy, below) = hierarchies.locate(&ours)?;
    let above = below.parent()?;
    let above = hierarchy.directory.join(above);
    Some((hierarchy.directory.clone(), above))
}

fn join(directory: &Path) -> bool {
    let own = std::process::id().to_string();
    std::fs::write(directory.join("cgroup.procs"), own).is_ok()
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_above_ours() {
        let tree = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let mounts = "31 23 0:28 / /memory rw - cgroup cgroup rw,memory\n\
                      32 23 0:29 / /unified rw - cgroup2 cgroup2 rw\n";
        write("proc/self/mountinfo", mounts);
        write("proc/self/cgroup", "4:memory:/\n0::/slice/job\n");
        write("unified/slice/job/cgroup.procs", "");
        write("memory/cgroup.procs", "");
        let hierarchies = Hierarchies::below(tree.path()).unwrap();
        let unified = tree.path().join("unified");
        let found = above(&hierarchies, "");
        assert_eq!(found, Some((unified.clone(), unified.join("slice"))));
        assert_eq!(above(&hierarchies, "memory"), None);
        assert_eq!(above(&hierarchies, "freezer"), None);
    }
}
