//! Which processes belong to a target.

pub use jostle_host::os::proc::Stat;

use jostle_host::os::here;
use jostle_host::os::proc;
use jostle_host::sys::cpus;
use jostle_host::sys::own::is_left;
use jostle_host::sys::own::is_own;
use jostle_host::sys::pidfd::PidFd;
use nix::sys::signal::Signal;
use std::collections::HashMap;
use std::collections::HashSet;

/// Set in the environment of every target we start, so that processes which
/// left its group and lost their parent can still be found. The value differs
/// from target to target.
pub const MARKER: &str = "JOSTLE_TARGET";

/// `None` when the process is gone.
pub fn stat(pid: i32) -> Option<Stat> {
    proc::stat(here(), pid)
}

/// Whether `pid` executes nothing of its own: it has ended, is stopped, or waits
/// in vfork for a child that was stopped before its exec. In the last case the
/// signal that is pending stops it before it returns to its own code.
pub fn stands(pid: i32) -> bool {
    let Some(own) = stat(pid) else {
        return true;
    };
    let child_stopped = |stat: Stat| stat.parent == pid && stat.stopped();
    own.stopped()
        || own.ended()
        || own.state == 'D' && processes().into_iter().filter_map(stat).any(child_stopped)
}

/// Thread ids of a process, ascending; empty when it is gone.
pub fn threads(pid: i32) -> Vec<i32> {
    proc::threads(here(), pid)
}

/// Every process of the machine that we can see.
pub fn processes() -> Vec<i32> {
    proc::processes(here())
}

/// The command line of a process; empty when it is gone.
pub fn command_line(pid: i32) -> Vec<String> {
    proc::command_line(here(), pid)
}

/// Asking one process for its children costs about as much as the `stat` of
/// three: past this many, one pass over `/proc` is cheaper, and bounded.
const MOST_LISTED: usize = 256;

/// Parent links, read from the kernel's lists or by one pass over `/proc`.
#[derive(Default)]
struct Snapshot {
    listed: usize,
    by_parent: Option<HashMap<i32, Vec<i32>>>,
}

impl Snapshot {
    fn children(&mut self, pid: i32) -> Vec<i32> {
        if self.by_parent.is_none() {
            self.listed += 1;
            if self.listed <= MOST_LISTED
                && let Some(children) = proc::children(here(), pid)
            {
                return children;
            }
            let mut map: HashMap<i32, Vec<i32>> = HashMap::new();
            for process in processes() {
                if let Some(stat) = stat(process) {
                    map.entry(stat.parent).or_default().push(process);
                }
            }
            self.by_parent = Some(map);
        }
        let map = self.by_parent.as_ref();
        map.and_then(|map| map.get(&pid))
            .cloned()
            .unwrap_or_default()
    }

    /// Calls `enter` for the children of `roots`, and for those of every process
    /// for which it answers true.
    fn descend(&mut self, roots: &[i32], mut enter: impl FnMut(i32) -> bool) {
        let mut seen: HashSet<i32> = roots.iter().copied().collect();
        let mut queue: Vec<i32> = roots.to_vec();
        while let Some(pid) = queue.pop() {
            for child in self.children(pid) {
                if seen.insert(child) && enter(child) {
                    queue.push(child);
                }
            }
        }
    }

    fn below(&mut self, roots: &[i32]) -> Vec<i32> {
        let mut found = Vec::new();
        self.descend(roots, |child| {
            found.push(child);
            true
        });
        found
    }
}

/// Calls `enter` for the children of `root`, and for those of every process for
/// which it answers true.
pub fn descend(root: i32, enter: impl FnMut(i32) -> bool) {
    Snapshot::default().descend(&[root], enter);
}

/// All descendants of `pid`, it excluded.
pub fn descendants(pid: i32) -> Vec<i32> {
    descendants_of(&[pid])
}

/// All descendants of `roots`, these excluded.
pub fn descendants_of(roots: &[i32]) -> Vec<i32> {
    Snapshot::default().below(roots)
}

/// `roots` and all their descendants, ascending.
pub fn with_descendants(roots: &[i32]) -> Vec<i32> {
    let mut found = descendants_of(roots);
    found.extend(roots);
    found.sort_unstable();
    found.dedup();
    found
}

/// This process and all it descends from.
pub fn self_and_ancestors() -> Vec<i32> {
    let mut found = Vec::new();
    let mut process = std::process::id() as i32;
    while process > 0 {
        found.push(process);
        process = stat(process).map_or(0, |stat| stat.parent);
    }
    found
}

/// Logical CPUs that any thread of these processes may run on, ascending; as
/// narrow as their cpusets are. Processes that ended have none.
pub fn affinities(processes: impl IntoIterator<Item = i32>) -> Vec<usize> {
    let mut found = std::collections::BTreeSet::new();
    for thread in processes.into_iter().flat_map(threads) {
        found.extend(cpus::affinity(thread).unwrap_or_default());
    }
    found.into_iter().collect()
}

/// Every process of a target we started except its leaders: the leaders'
/// descendants, and orphans that became our children (see
/// [`jostle_host::sys::process::adopt_orphans`]).
pub fn members(leaders: &[i32], marker: &str) -> Vec<i32> {
    let us = std::process::id() as i32;
    let our_session = stat(us).map(|stat| stat.session);
    let mut snapshot = Snapshot::default();
    let adopted: Vec<i32> = snapshot
        .children(us)
        .into_iter()
        .filter(|child| !leaders.contains(child) && !is_own(*child))
        .filter(|&child| {
            let Some(stat) = stat(child) else {
                return false;
            };
            match marker_of(child) {
                _ if is_left(child, stat.start) => false,
                _ if leaders.contains(&stat.group) => true,
                Some(found) => found == marker,
                // Our workers and helpers stay in our session; who wiped its
                // environment and started a session came from a target.
                None => Some(stat.session) != our_session,
            }
        })
        .collect();
    let mut roots = adopted.clone();
    roots.extend(leaders);
    let mut found = snapshot.below(&roots);
    found.extend(adopted);
    found.sort_unstable();
    found.dedup();
    found.retain(|pid| !leaders.contains(pid));
    found
}

/// Ended processes that a target's leaders lost and we adopted; whoever does not
/// reap them now and then drowns in them when a target makes daemons.
pub fn ended_orphans(leaders: &[i32]) -> Vec<i32> {
    let us = std::process::id() as i32;
    let our_session = stat(us).map(|stat| stat.session);
    let mut children = proc::children(here(), us).unwrap_or_default();
    children.retain(|&child| {
        !leaders.contains(&child)
            && !is_own(child)
            && stat(child).is_some_and(|stat| {
                // Children of our own share our session and lead their groups.
                stat.ended() && (leaders.contains(&stat.group) || Some(stat.session) != our_session)
            })
    });
    children
}

/// `signal` to `pid` if it descends from us.
pub fn signal_below(pid: i32, signal: Signal) {
    let Ok(process) = PidFd::open(pid) else {
        return;
    };
    // Looked at after opening: were it another one by now, it would not be below us.
    if is_below(pid, std::process::id() as i32) {
        let _ = process.signal(Some(signal));
    }
}

fn is_below(pid: i32, ancestor: i32) -> bool {
    let mut at = pid;
    while at > 1 {
        at = stat(at).map_or(0, |stat| stat.parent);
        if at == ancestor {
            return true;
        }
    }
    false
}

/// SIGCONT to `pid` if it is still the process that started at `start`.
pub fn resume(pid: i32, start: u64) {
    let Ok(process) = PidFd::open(pid) else {
        return;
    };
    // Compared after opening: the handle cannot change its mind any more.
    if stat(pid).is_some_and(|stat| stat.start == start) {
        let _ = process.signal(Some(Signal::SIGCONT));
    }
}

/// The value of [`MARKER`] in the environment `pid` was started with.
pub fn marker_of(pid: i32) -> Option<String> {
    proc::environment(here(), pid, MARKER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_child() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        assert!(descendants(std::process::id() as i32).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
