//! The processes and threads that a scope stands for at this moment.

use crate::workload::Scope;
use crate::workload::cgroup;
use crate::workload::tree;

/// Processes of `scope` and all that descend from them, ascending. Empty when
/// everything has ended.
pub(super) fn processes(scope: &Scope) -> Vec<i32> {
    let mut found = match scope {
        Scope::Processes(leaders) => {
            let mut found = leaders.clone();
            for &leader in leaders {
                found.extend(tree::descendants(leader));
            }
            found
        }
        // 0 stands for those of another PID namespace.
        Scope::Cgroup(directory) => {
            let mut found = cgroup::processes(directory).unwrap_or_default();
            found.retain(|&pid| pid > 0);
            found
        }
    };
    found.sort_unstable();
    found.dedup();
    found
}

/// Threads of all of them.
pub(super) fn threads(scope: &Scope) -> Vec<i32> {
    let of = processes(scope).into_iter().flat_map(tree::threads);
    of.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_are_walked_down() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(root.path().join("cgroup.procs"), "7\n3\n").unwrap();
        std::fs::write(inner.join("cgroup.procs"), "5\n3\n").unwrap();
        assert_eq!(processes(&Scope::Cgroup(root.path().into())), [3, 5, 7]);
        assert!(processes(&Scope::Cgroup("/nonexistent".into())).is_empty());
    }
}
