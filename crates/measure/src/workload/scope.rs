//! What belongs to a target.

use super::cgroup;
use super::tree;
use jostle_host::os::here;
use jostle_host::os::proc;
use std::path::PathBuf;

/// What belongs to a target, for those who count what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// These processes, their threads, and whatever descends from them.
    Processes(Vec<i32>),
    /// Everything inside this cgroup: its directory.
    Cgroup(PathBuf),
}

impl Scope {
    /// All its processes at this moment, ascending. Empty when everything has
    /// ended.
    pub fn processes(&self) -> Vec<i32> {
        match self {
            Scope::Processes(leaders) => tree::with_descendants(leaders),
            // 0 stands for those of another PID namespace.
            Scope::Cgroup(directory) => {
                let mut found = cgroup::processes(directory).unwrap_or_default();
                found.retain(|&pid| pid > 0);
                found
            }
        }
    }

    /// Threads of all of them.
    pub fn threads(&self) -> Vec<i32> {
        let processes = self.processes().into_iter();
        processes.flat_map(tree::threads).collect()
    }
}

/// How the processes of a target are found, also while somebody else has hold of
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finder {
    /// Our children that carry this marker in their environment, and whatever
    /// descends from them.
    Marked(String),
    Scope(Scope),
}

impl Finder {
    /// All its processes at this moment, ascending; empty between two runs.
    pub fn processes(&self) -> Vec<i32> {
        let marker = match self {
            Finder::Marked(marker) => marker,
            Finder::Scope(scope) => return scope.processes(),
        };
        let us = std::process::id() as i32;
        let mut children = proc::children(here(), us).unwrap_or_default();
        children.retain(|&child| tree::marker_of(child).as_ref() == Some(marker));
        tree::with_descendants(&children)
    }
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
        std::fs::write(inner.join("cgroup.procs"), "5\n3\n0\n").unwrap();
        assert_eq!(Scope::Cgroup(root.path().into()).processes(), [3, 5, 7]);
        assert!(Scope::Cgroup("/nonexistent".into()).processes().is_empty());
    }
    #[test]
    fn a_marked_child_is_found_with_its_own() {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "sleep 60 & wait"]);
        command.env(tree::MARKER, "a-marker-of-this-test");
        let mut child = command.spawn().unwrap();
        let finder = Finder::Marked("a-marker-of-this-test".into());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let mut found = Vec::new();
        while found.len() < 2 && std::time::Instant::now() < deadline {
            found = finder.processes();
        }
        for &pid in &found {
            let pid = nix::unistd::Pid::from_raw(pid);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
        child.wait().unwrap();
        assert_eq!(found.len(), 2);
        assert!(found.contains(&(child.id() as i32)));
        let nobody = Finder::Marked("nobody's".into());
        assert!(nobody.processes().is_empty());
    }
}
