//! The processes and threads that a scope stands for at this moment.

use crate::target::Scope;
use crate::target::tree;
use std::path::Path;
use std::path::PathBuf;

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
        Scope::Cgroup(directory) => in_cgroup(directory),
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

fn in_cgroup(directory: &Path) -> Vec<i32> {
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = vec![directory.into()];
    while let Some(directory) = left.pop() {
        let listed = std::fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        found.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()));
        let inside = std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten();
        left.extend(
            inside
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
    }
    found
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
