//! Where a cgroup is found: in which hierarchy, by which path in another, with
//! which processes.

use super::files;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hierarchy {
    pub mount: PathBuf,
    pub v2: bool,
    /// Controllers of a v1 hierarchy, by name.
    pub controllers: Vec<String>,
}

/// All of them, from `/proc/mounts`.
pub(super) fn hierarchies(root: &Path) -> Vec<Hierarchy> {
    let Ok(text) = files::text(root, "proc/mounts") else {
        return Vec::new();
    };
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, mount, kind, options, ..] = words[..] else {
                return None;
            };
            matches!(kind, "cgroup" | "cgroup2").then(|| Hierarchy {
                mount: mount.into(),
                v2: kind == "cgroup2",
                controllers: options.split(',').map(str::to_string).collect(),
            })
        })
        .collect()
}

/// The hierarchy that `directory` lies in, and its path there.
pub(super) fn locate<'a>(
    all: &'a [Hierarchy],
    directory: &Path,
) -> Option<(&'a Hierarchy, PathBuf)> {
    all.iter()
        .filter_map(|one| Some((one, directory.strip_prefix(&one.mount).ok()?.to_path_buf())))
        .max_by_key(|(one, _)| one.mount.as_os_str().len())
}

/// The directory to hand to the kernel for counting perf events of
/// `directory`.
///
/// # Errors
/// Why there is none.
pub(super) fn for_perf(root: &Path, directory: &Path) -> Result<PathBuf, String> {
    let all = hierarchies(root);
    let Some((own, path)) = locate(&all, directory) else {
        return Err(format!("{} lies in no cgroup mount", directory.display()));
    };
    let perf = all
        .iter()
        .find(|one| !one.v2 && one.controllers.iter().any(|name| name == "perf_event"))
        // Where no v1 hierarchy has it, it belongs to v2, unseen.
        .or_else(|| all.iter().find(|one| one.v2));
    let Some(perf) = perf else {
        return Err("no hierarchy with the perf_event controller is mounted".into());
    };
    if perf == own {
        return Ok(directory.to_path_buf());
    }
    let twin = perf.mount.join(path);
    same(root, directory, &twin).map(|()| twin)
}

/// Whether two cgroups of different hierarchies hold the same processes, some
/// of which may begin and end meanwhile.
///
/// # Errors
/// How they differ.
pub(super) fn same(root: &Path, one: &Path, other: &Path) -> Result<(), String> {
    let before = processes(root, one)?;
    let found = processes(root, other)?;
    let after = processes(root, one)?;
    let foreign = found.iter().any(|pid| {
        let alive = root.join(format!("proc/{pid}")).exists();
        !before.contains(pid) && !after.contains(pid) && alive
    });
    let stayed = |pid: &&i32| after.contains(pid);
    let missing = before.iter().filter(stayed).any(|pid| !found.contains(pid));
    match (foreign || missing, before.is_empty()) {
        (false, false) => Ok(()),
        (false, true) => Err(format!("{} holds no process", one.display())),
        (true, _) => Err(format!("{} holds other processes", other.display())),
    }
}

/// Processes of the cgroup and of those below it, ascending.
///
/// # Errors
/// Why the cgroup cannot be read.
pub(super) fn processes(root: &Path, directory: &Path) -> Result<Vec<i32>, String> {
    let path = files::relative(directory);
    let own = files::text(root, &format!("{path}/cgroup.procs"))?;
    let mut found: BTreeSet<i32> = own
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let below = std::fs::read_dir(root.join(&path)).into_iter().flatten();
    for entry in below.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // It may vanish meanwhile.
            found.extend(processes(root, &directory.join(entry.file_name())).unwrap_or_default());
        }
    }
    Ok(found.into_iter().collect())
}

/// Directory of the cgroup of `pid` in the hierarchy that has `controller`
/// (v1), or in v2 where that is empty.
pub(super) fn of_process(root: &Path, pid: i32, controller: &str) -> Option<PathBuf> {
    let text = files::text(root, &format!("proc/{pid}/cgroup")).ok()?;
    let all = hierarchies(root);
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        let hierarchy = all.iter().find(|one| match controller {
            "" => one.v2 && names.is_empty(),
            _ => {
                !one.v2
                    && names.split(',').any(|name| name == controller)
                    && one.controllers.iter().any(|name| name == controller)
            }
        })?;
        Some(hierarchy.mount.join(path.trim_start_matches('/')))
    })
}

#[cfg(test)]
mod tests {
    use super::super::pmu::tests::tree;
    use super::*;

    const HYBRID: &str = "\
        cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
        cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n\
        /dev/vda / ext4 rw 0 0\n";

    #[test]
    fn perf_counts_in_the_hierarchy_that_has_it() {
        let hybrid = tree(&[
            ("proc/mounts", HYBRID),
            ("sys/fs/cgroup/memory/web/cgroup.procs", "7\n9\n"),
            ("sys/fs/cgroup/unified/web/cgroup.procs", "7\n"),
            ("sys/fs/cgroup/unified/web/inner/cgroup.procs", "9\n"),
            ("sys/fs/cgroup/memory/lone/cgroup.procs", "8\n"),
            ("sys/fs/cgroup/memory/mixed/cgroup.procs", "8\n"),
            ("sys/fs/cgroup/unified/mixed/cgroup.procs", "8\n10\n"),
            ("proc/10/stat", ""),
        ]);
        let at = |path: &str| for_perf(hybrid.path(), Path::new(path));
        let web = Path::new("/sys/fs/cgroup/unified/web");
        assert_eq!(at("/sys/fs/cgroup/unified/web").unwrap(), web);
        assert_eq!(at("/sys/fs/cgroup/memory/web").unwrap(), web);
        assert!(
            at("/sys/fs/cgroup/memory/lone")
                .unwrap_err()
                .contains("does not exist")
        );
        assert!(
            at("/sys/fs/cgroup/memory/mixed")
                .unwrap_err()
                .contains("other processes")
        );
        assert!(at("/elsewhere").is_err());
        let mounted =
            format!("{HYBRID}cgroup /sys/fs/cgroup/perf_event cgroup rw,perf_event 0 0\n");
        let v1 = tree(&[
            ("proc/mounts", &mounted),
            ("sys/fs/cgroup/memory/web/cgroup.procs", "7\n"),
            ("sys/fs/cgroup/perf_event/web/cgroup.procs", "7\n"),
        ]);
        assert_eq!(
            for_perf(v1.path(), Path::new("/sys/fs/cgroup/memory/web")).unwrap(),
            Path::new("/sys/fs/cgroup/perf_event/web")
        );
    }

    #[test]
    fn the_cgroup_of_a_process_per_hierarchy() {
        let root = tree(&[
            ("proc/mounts", HYBRID),
            ("proc/7/cgroup", "4:memory:/web\n1:cpu:/\n0::/web/inner\n"),
        ]);
        let at = |controller| of_process(root.path(), 7, controller);
        assert_eq!(
            at("memory").unwrap(),
            Path::new("/sys/fs/cgroup/memory/web")
        );
        assert_eq!(at("cpu").unwrap(), Path::new("/sys/fs/cgroup/cpu/"));
        assert_eq!(
            at("").unwrap(),
            Path::new("/sys/fs/cgroup/unified/web/inner")
        );
        assert_eq!(at("blkio"), None);
        assert_eq!(of_process(root.path(), 8, ""), None);
    }
}
