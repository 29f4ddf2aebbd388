//! On whom perf events are opened: threads, a cgroup on each of its CPUs, or
//! the CPUs themselves.

use super::error::Error;
use super::target_cgroup;
use crate::workload::Scope;
use crate::workload::tree;
use jostle_host::os::cgroup;
use jostle_host::os::cpulist;
use jostle_host::os::text;
use jostle_host::sys::perf_group::PerfTarget;
use std::fs::File;
use std::path::Path;

/// Those whose events count.
pub(super) enum PerfTargets {
    Threads(Vec<i32>),
    Cgroup(File, Vec<usize>),
    Cpus(Vec<usize>),
}

impl PerfTargets {
    /// `None`: the machine, on `cpus`. Notes are added where a cgroup cannot be
    /// counted as one.
    pub fn find(
        root: &Path,
        scope: Option<&Scope>,
        cpus: &[usize],
        notes: &mut Vec<String>,
    ) -> Result<PerfTargets, Error> {
        match scope {
            None => Ok(PerfTargets::Cpus(cpus.to_vec())),
            Some(Scope::Processes(pids)) => threads(pids),
            Some(Scope::Cgroup(directory)) => match target_cgroup::for_perf(root, directory) {
                Ok(place) => {
                    let file = File::open(text::below(root, &place))
                        .map_err(|error| Error::Other(format!("{}: {error}", place.display())))?;
                    Ok(PerfTargets::Cgroup(file, usable(root, directory, cpus)))
                }
                Err(why) => {
                    let pids = cgroup::processes(directory)?;
                    notes.push(format!(
                        "perf events count the threads that the cgroup held at the start and \
                         what they start, not the cgroup: {why}"
                    ));
                    threads(&pids)
                }
            },
        }
    }

    /// Each of them, to open a group on.
    pub fn each(&self) -> Vec<PerfTarget<'_>> {
        match self {
            PerfTargets::Threads(threads) => {
                threads.iter().copied().map(PerfTarget::Thread).collect()
            }
            PerfTargets::Cgroup(file, cpus) => cpus
                .iter()
                .map(|&cpu| PerfTarget::Cgroup(file, cpu))
                .collect(),
            PerfTargets::Cpus(cpus) => cpus.iter().copied().map(PerfTarget::Cpu).collect(),
        }
    }
}

/// Every thread of each process and of its descendants. A thread that is
/// started between this and the opening of its parent is missed: once the
/// parent is open, its new threads count through it, and nothing tells the two
/// cases apart.
fn threads(pids: &[i32]) -> Result<PerfTargets, Error> {
    let processes = tree::with_descendants(pids);
    let threads: Vec<i32> = processes
        .iter()
        .flat_map(|&process| tree::threads(process))
        .collect();
    match threads.is_empty() {
        true => Err(match pids {
            [pid] => Error::ProcessEnded(*pid),
            [] => Error::EmptyCgroup,
            _ => Error::ProcessesEnded,
        }),
        false => Ok(PerfTargets::Threads(threads)),
    }
}

/// The CPUs that the cgroup may use, else `cpus`.
fn usable(root: &Path, directory: &Path, cpus: &[usize]) -> Vec<usize> {
    ["cpuset.cpus.effective", "cpuset.effective_cpus"]
        .iter()
        .filter_map(|name| cpulist::read(root, directory.join(name)).ok())
        .find(|list| !list.is_empty())
        // Nothing keeps it on the CPUs it is expected on.
        .or_else(|| cpulist::online(root).ok().filter(|all| !all.is_empty()))
        .unwrap_or_else(|| cpus.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_host::os::fake::tree;

    #[test]
    fn a_cgroup_is_counted_where_it_may_run() {
        let root = tree(&[
            ("sys/devices/system/cpu/online", "0-7\n"),
            ("cg/cpuset.cpus.effective", "2-3\n"),
            ("bare/cgroup.procs", ""),
        ]);
        let at = |name: &str| usable(root.path(), Path::new(name), &[1]);
        assert_eq!(at("/cg"), [2, 3]);
        assert_eq!(at("/bare"), [0, 1, 2, 3, 4, 5, 6, 7]);
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(usable(empty.path(), Path::new("/bare"), &[1]), [1]);
    }

    #[test]
    fn our_own_threads_are_found() {
        let us = std::process::id() as i32;
        match threads(&[us]) {
            Ok(PerfTargets::Threads(found)) => assert!(found.contains(&us)),
            _ => panic!("we have threads"),
        }
        assert!(threads(&[i32::MAX]).is_err());
    }
}
