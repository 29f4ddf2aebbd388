//! Undoing what a profiler did that can no longer do it itself.

use super::super::cgroup::Freezer;
use super::super::cgroup::FreezerKind;
use crate::workload::tree;
use jostle_host::sys::guard_page::GuardPage;
use jostle_host::sys::pidfd::PidFd;
use jostle_host::sys::process::signal_group;
use nix::sys::signal::Signal;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Looks for processes of a target that fork while they are ended.
const LOOKS: usize = 100;

/// The entries of the page in use: pid and start time of a process, or of the leader of
/// a group.
pub(super) fn entries(page: &GuardPage) -> impl Iterator<Item = (i32, u64)> {
    let count = page.count.load(SeqCst) as usize;
    let used = page.processes.iter().take(count);
    used.map(|[first, second]| (first.load(SeqCst) as i32, second.load(SeqCst)))
}

/// The freezer that holds the target.
pub(super) fn frozen(page: &GuardPage) -> Option<Freezer> {
    let kind = match page.freezer.load(SeqCst) {
        1 => FreezerKind::V1,
        2 => FreezerKind::V2,
        _ => return None,
    };
    Some(Freezer {
        directory: PathBuf::from(std::ffi::OsString::from_vec(page.directory.get())),
        kind,
    })
}

/// Thaws or resumes whatever the profiler froze or stopped.
///
/// # Errors
/// When the freezer refuses: to be tried again.
pub(super) fn resume(page: &GuardPage) -> io::Result<()> {
    page.release(|| resume_all(page))
}

fn resume_all(page: &GuardPage) -> io::Result<()> {
    let thawed = match frozen(page) {
        None => Ok(()),
        Some(freezer) => match freezer.thaw() {
            // Nothing in a cgroup that is gone can be frozen.
            Err(_) if !freezer.directory.is_dir() => Ok(()),
            other => other,
        },
    };
    for (pid, start) in entries(page) {
        tree::resume(pid, start);
    }
    thawed
}

/// Ends a process group, if its number still stands for it: its leader is there, or one
/// of its processes carries `marker`. The kernel gives the number to nobody else as long
/// as the group has a process.
pub(super) fn end_group((group, start): (i32, u64), marker: &str) {
    let led = tree::stat(group).is_some_and(|stat| stat.start == start);
    let belongs = |pid: &i32| {
        let inside = tree::stat(*pid).is_some_and(|stat| stat.group == group);
        inside && carries(*pid, marker)
    };
    if led || tree::processes().iter().any(belongs) {
        // Gone meanwhile, or not ours to end.
        let _ = signal_group(group, Signal::SIGKILL);
    }
}

/// Ends every process that carries `marker`, and tells how many there were.
pub(super) fn end_marked(marker: &str) -> usize {
    let mut ended = std::collections::BTreeSet::new();
    // Again and again: one may fork while we look.
    for _ in 0..LOOKS {
        let left = marked(marker);
        if left.is_empty() {
            break;
        }
        for pid in left {
            let process = PidFd::open(pid);
            // Asked again through a handle that a later process cannot take over.
            if let (Ok(process), true) = (process, carries(pid, marker)) {
                let _ = process.signal(Some(Signal::SIGKILL));
                ended.insert(pid);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    ended.len()
}

/// The processes that carry `marker`.
pub(super) fn marked(marker: &str) -> Vec<i32> {
    let all = tree::processes().into_iter();
    all.filter(|&pid| carries(pid, marker)).collect()
}

fn carries(pid: i32, marker: &str) -> bool {
    let lives = tree::stat(pid).is_some_and(|stat| !stat.ended());
    lives && tree::marker_of(pid).is_some_and(|found| found == marker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_host::sys::shared::SharedPage;

    /// Guards and `jostle release` alike: a profiler that was stopped recognizes by the
    /// count that its target goes on.
    #[test]
    fn a_release_counts_whoever_makes_it() {
        let page: SharedPage<GuardPage> = SharedPage::create("jostle-undo-test").unwrap();
        for releases in 1..3 {
            resume(&page).unwrap();
            assert_eq!(page.let_go.load(SeqCst), releases);
            assert_eq!(page.letting_go.load(SeqCst), 0);
        }
    }
}
