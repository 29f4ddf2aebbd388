//! Cycles and instructions of a target in user mode, for the metrics made of
//! them.

use super::budget::Budget;
use super::error::Error;
use super::groups::Groups;
use super::watched::PerfTargets;
use crate::workload::Scope;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::handover;
use jostle_host::sys::handover::Readable;
use jostle_host::sys::perf::why_no_instructions;
use jostle_host::sys::perf_group;
use jostle_host::sys::perf_group::EventConfig;
use std::cell::RefCell;
use std::path::Path;

/// An open pair of counters on everything that belongs to a target.
pub struct CoreCounts {
    groups: Groups,
    last: CoreReading,
}

/// Totals since opening, or between two readings.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoreReading {
    /// Of wall time.
    pub seconds: f64,
    pub cycles: f64,
    pub instructions: f64,
    /// Nanoseconds of CPU time in which they were wanted.
    pub enabled_ns: f64,
    /// Of those, the ones in which they were counting.
    pub running_ns: f64,
}

impl CoreReading {
    /// What happened since `before`.
    pub fn since(&self, before: &CoreReading) -> CoreReading {
        CoreReading {
            seconds: self.seconds - before.seconds,
            cycles: self.cycles - before.cycles,
            instructions: self.instructions - before.instructions,
            enabled_ns: self.enabled_ns - before.enabled_ns,
            running_ns: self.running_ns - before.running_ns,
        }
    }
}

impl CoreCounts {
    pub fn open(scope: &Scope, cpus: &[usize]) -> Result<CoreCounts, Error> {
        if let Some(reason) = why_no_instructions() {
            return Err(Error::Other(reason));
        }
        let events = [EventConfig::hardware(0), EventConfig::hardware(1)];
        CoreCounts::counting(&events, scope, cpus)
    }

    fn counting(
        events: &[EventConfig; 2],
        scope: &Scope,
        cpus: &[usize],
    ) -> Result<CoreCounts, Error> {
        let watched = PerfTargets::find(Path::new("/"), Some(scope), cpus, &mut Vec::new())?;
        let budget = RefCell::new(Budget::of_process());
        let mut groups = Groups::default();
        groups.cells(events.len());
        let times = groups.times();
        groups.add(&budget, &watched, false, (events, &[0, 1]), times)?;
        Ok(CoreCounts {
            groups,
            last: CoreReading::default(),
        })
    }

    /// The same of page faults per CPU nanosecond, which needs no hardware.
    #[cfg(any(test, feature = "fake"))]
    pub fn of_software(scope: &Scope) -> Result<CoreCounts, Error> {
        // task-clock and page faults: both grow in user mode.
        let events = [EventConfig::software(1), EventConfig::software(2)];
        CoreCounts::counting(&events, scope, &[])
    }

    /// How many counters are open and read each time.
    pub fn readers(&self) -> usize {
        self.groups.descriptors().len()
    }

    /// The instructions for somebody else to read. `None` where they were not
    /// counted all of the time until the last reading, or by too many counters.
    pub fn instructions(&self) -> Option<Readable<'_>> {
        let descriptors = self.groups.descriptors();
        let always = self.last.running_ns >= self.last.enabled_ns;
        (always && descriptors.len() <= handover::MOST).then_some(Readable {
            layout: perf_group::layout(2, 1, None),
            descriptors,
        })
    }

    /// Totals since opening, scaled up where the counters took turns with
    /// others. They never go back.
    pub fn read(&mut self) -> CoreReading {
        let seconds = monotonic_ns() as f64 / 1e9;
        let cells = self.groups.read();
        self.last = CoreReading {
            seconds,
            cycles: cells[0],
            instructions: cells[1],
            enabled_ns: cells[2],
            running_ns: cells[3],
        };
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;
    use std::time::Instant;

    /// The same path with events that need no PMU.
    #[test]
    fn another_process_and_its_children_are_counted() {
        let mut child = Command::new("sh")
            .args(["-c", "while :; do (:); done"])
            .spawn()
            .unwrap();
        let scope = Scope::Processes(vec![child.id() as i32]);
        let counted = CoreCounts::of_software(&scope).map(|mut counts| {
            let first = counts.read();
            let deadline = Instant::now() + Duration::from_secs(60);
            loop {
                let did = counts.read().since(&first);
                if did.cycles > 0.0 && did.instructions > 100.0 || Instant::now() > deadline {
                    return did;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        child.kill().unwrap();
        child.wait().unwrap();
        if let Some(did) = crate::skip::have("perf", counted) {
            assert!(did.cycles > 0.0 && did.instructions > 100.0, "{did:?}");
            assert_eq!(did.enabled_ns, did.running_ns);
        }
    }
}
