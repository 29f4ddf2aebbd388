//! Fewer CPUs for a target for a while, and all of them again afterwards.

use super::scope::Scope;
use super::tree;
use jostle_host::os::here;
use jostle_host::os::proc;
use jostle_host::sys::cpus;
use nix::libc;
use std::collections::HashMap;
use std::io;

/// Looks for threads that came while others were confined.
const PASSES: usize = 8;

/// What threads may run on apart from us. Dropping it gives that back to what is in
/// the scope.
pub(super) struct Confinement {
    scope: Scope,
    /// By thread: when it started, and its CPUs as they were found.
    found: HashMap<i32, (u64, Vec<usize>)>,
    /// CPUs of the first process as they were found.
    usual: Vec<usize>,
    /// What threads are confined to now.
    now: Vec<usize>,
}

/// One thread of a process.
#[derive(Clone, Copy)]
struct Thread {
    process: i32,
    id: i32,
    start: u64,
}

impl Confinement {
    /// Of what is in `scope`, whose first process may run on the CPUs `usual`; changes
    /// nothing yet.
    pub(super) fn new(scope: Scope, usual: Vec<usize>) -> Confinement {
        Confinement {
            scope,
            found: HashMap::new(),
            usual,
            now: Vec::new(),
        }
    }

    /// Lets the threads of `processes` run on those of `cpus` that they may run on
    /// otherwise, on all of `cpus` where that is none of them.
    pub(super) fn apply(
        &mut self,
        processes: impl Fn() -> Vec<i32>,
        cpus: &[usize],
    ) -> io::Result<()> {
        self.each(processes, |own| {
            let inside = |cpu: &usize| own.contains(cpu);
            let both: Vec<usize> = cpus.iter().copied().filter(inside).collect();
            if both.is_empty() { cpus.to_vec() } else { both }
        })?;
        self.now = cpus.to_vec();
        Ok(())
    }

    /// What belongs to it now; changes when a command is started again.
    pub(super) fn follow(&mut self, scope: Scope) {
        self.scope = scope;
    }

    /// Sets the CPUs of every thread to what `wanted` makes of its own.
    fn each(
        &mut self,
        processes: impl Fn() -> Vec<i32>,
        wanted: impl Fn(&[usize]) -> Vec<usize>,
    ) -> io::Result<()> {
        for _ in 0..PASSES {
            let mut changed = false;
            for thread in threads(&processes()) {
                let Some(has) = gone(cpus::affinity(thread.id))? else {
                    continue;
                };
                let wanted = wanted(&self.own(thread, &has));
                if has != wanted {
                    changed |= gone(cpus::set_affinity(thread.id, &wanted))?.is_some();
                }
            }
            if !changed {
                break;
            }
        }
        Ok(())
    }

    /// The CPUs of a thread without us. One that came meanwhile inherited what we
    /// had set; it would have inherited what its process had.
    fn own(&mut self, thread: Thread, has: &[usize]) -> Vec<usize> {
        if let Some((start, own)) = self.found.get(&thread.id)
            && *start == thread.start
        {
            return own.clone();
        }
        let inherited = !self.now.is_empty() && has.iter().all(|cpu| self.now.contains(cpu));
        let own = match (inherited, self.found.get(&thread.process)) {
            (false, _) => has.to_vec(),
            (true, Some((_, process))) => process.clone(),
            (true, None) => self.usual.clone(),
        };
        self.found.insert(thread.id, (thread.start, own.clone()));
        own
    }
}

impl Drop for Confinement {
    fn drop(&mut self) {
        let scope = self.scope.clone();
        // Refused only where the system's own rules changed meanwhile.
        let _ = self.each(|| scope.processes(), <[usize]>::to_vec);
    }
}

fn threads(processes: &[i32]) -> Vec<Thread> {
    let mut found = Vec::new();
    for &process in processes {
        let ids = tree::threads(process).into_iter();
        found.extend(ids.filter_map(|id| {
            let start = proc::thread_stat(here(), process, id)?.start;
            Some(Thread { process, id, start })
        }));
    }
    found
}

/// `None` for a thread that has ended.
fn gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(error),
    }
}
