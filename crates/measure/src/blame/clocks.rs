//! CPU time and waiting time of the victim, cheap enough to be read at every
//! pause.

use crate::workload::Target;
use crate::workload::tree;
use jostle_host::os::here;
use jostle_host::os::proc::WaitClock;
use jostle_host::sys::clock::cpu_ns_of;

/// A victim with more processes or threads is not read at every pause.
const MOST: usize = 32;

/// The clocks of all processes and threads that the victim had at one moment.
#[derive(Default)]
pub(super) struct Clocks {
    processes: Vec<i32>,
    /// Of each thread.
    waits: Vec<WaitClock>,
}

/// Sums since the processes began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    pub(super) cpu_ns: Option<u64>,
    pub(super) waited_ns: Option<u64>,
}

impl Clocks {
    pub(super) fn of(target: &Target) -> Clocks {
        Clocks::of_processes(target.scope().processes())
    }

    pub(super) fn of_processes(processes: Vec<i32>) -> Clocks {
        let threads = processes.iter().flat_map(|pid| {
            let threads = tree::threads(*pid).into_iter();
            threads.map(move |tid| (*pid, tid))
        });
        let threads: Vec<(i32, i32)> = threads.collect();
        if threads.len() > MOST {
            return Clocks::default();
        }
        let clocks = threads.iter();
        let clocks = clocks.map(|(pid, tid)| WaitClock::open(here(), *pid, *tid));
        // All or nothing: a sum without some of its parts is wrong.
        let waits: Result<Vec<WaitClock>, _> = clocks.collect();
        Clocks {
            processes,
            waits: waits.unwrap_or_default(),
        }
    }

    pub(super) fn read(&mut self) -> Reading {
        let cpu = self.processes.iter().map(|pid| cpu_ns_of(*pid));
        let cpu: Option<u64> = cpu.sum();
        let waited: Option<u64> = self.waits.iter_mut().map(WaitClock::read_ns).sum();
        Reading {
            cpu_ns: cpu.filter(|_| !self.processes.is_empty()),
            waited_ns: waited.filter(|_| !self.waits.is_empty()),
        }
    }
}
