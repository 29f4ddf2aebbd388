//! Cycles per instruction of a workload, from hardware counters that stay open.

use jostle_host::sys::perf::why_no_instructions;
use jostle_measure::counters::CoreCounts;
use jostle_measure::counters::CoreReading;
use jostle_measure::workload::Scope;
use std::cell::Cell;
use std::rc::Rc;

/// Counters over all workloads, each of them read at every refresh: 1 µs or so. A
/// cgroup takes one for each CPU that it may use.
const MOST: usize = 1024;
/// Refreshes after which counters that could not be opened are tried again.
const TRY_AGAIN: u32 = 60;

/// Opens the counters of all workloads.
pub(super) struct Opener {
    /// Why there are none on this machine.
    none: Option<String>,
    open: fn(&Scope) -> Result<CoreCounts, String>,
    /// How many are open.
    readers: Rc<Cell<usize>>,
}

impl Opener {
    pub(super) fn new() -> Opener {
        Opener {
            none: why_no_instructions(),
            open: |scope| CoreCounts::open(scope, &[]).map_err(|error| error.to_string()),
            readers: Rc::default(),
        }
    }

    fn open(&self, scope: &Scope) -> Result<Open, String> {
        if self.readers.get() >= MOST {
            return Err(format!(
                "{MOST} counters of other workloads are open, and no more are read"
            ));
        }
        let mut counts = (self.open)(scope)?;
        let before = counts.read();
        let readers = Readers {
            own: counts.readers(),
            all: self.readers.clone(),
        };
        self.readers.set(self.readers.get() + readers.own);
        Ok(Open {
            counts,
            before,
            _readers: readers,
        })
    }
}

/// What one workload takes of all counters, given back in the end.
struct Readers {
    own: usize,
    all: Rc<Cell<usize>>,
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.all.set(self.all.get() - self.own);
    }
}

pub(super) struct Open {
    counts: CoreCounts,
    before: CoreReading,
    _readers: Readers,
}

/// The counters of one workload.
#[derive(Default)]
pub(super) enum Cycles {
    /// To be opened at the next refresh.
    #[default]
    Closed,
    Open(Box<Open>),
    /// Could not be opened, and is tried again after so many refreshes.
    Refused(String, u32),
}

/// Whose counters they are.
pub(super) trait Counted {
    fn scope(&self) -> Scope;
}

impl Cycles {
    /// Cycles per instruction, in user mode, since the call before. `ran`: it used CPU
    /// time since then, as far as is known.
    pub(super) fn read(
        &mut self,
        of: &impl Counted,
        ran: bool,
        opener: &Opener,
    ) -> Result<f64, String> {
        if let Some(reason) = &opener.none {
            return Err(reason.clone());
        }
        match self {
            Cycles::Refused(reason, left) if *left > 0 => {
                *left -= 1;
                return Err(reason.clone());
            }
            Cycles::Open(_) if !ran => return Err("it used no CPU time meanwhile".into()),
            Cycles::Open(open) => {
                let now = open.counts.read();
                let did = now.since(&open.before);
                open.before = now;
                if did.cycles > 0.0 && did.instructions > 0.0 {
                    return Ok(did.cycles / did.instructions);
                }
            }
            Cycles::Closed | Cycles::Refused(..) => {}
        }
        // Who ran is not, or no longer, among those that are counted.
        *self = Cycles::Closed;
        match opener.open(&of.scope()) {
            Ok(open) => {
                *self = Cycles::Open(Box::new(open));
                Err("its counters were opened just now".into())
            }
            Err(reason) => {
                *self = Cycles::Refused(reason.clone(), TRY_AGAIN);
                Err(reason)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Child;
    use std::process::Command;
    use std::time::Duration;
    use std::time::Instant;

    struct Shell(Child);

    impl Shell {
        fn new() -> Shell {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do (:); done"]);
            Shell(command.spawn().unwrap())
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    /// A workload of which the processes change.
    struct Processes(Vec<i32>);

    impl Counted for Processes {
        fn scope(&self) -> Scope {
            Scope::Processes(self.0.clone())
        }
    }

    /// Opens events that need no hardware.
    fn software() -> Opener {
        Opener {
            none: None,
            open: |scope| CoreCounts::of_software(scope).map_err(|error| error.to_string()),
            readers: Rc::default(),
        }
    }

    /// Reads until there is a value.
    fn value(cycles: &mut Cycles, of: &Processes, opener: &Opener) -> f64 {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            match cycles.read(of, true, opener) {
                Ok(value) => return value,
                Err(reason) => assert!(Instant::now() < end, "{reason}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[test]
    fn counters_follow_whoever_runs_and_are_given_back() {
        let opener = software();
        let mut cycles = Cycles::default();
        let first = Shell::new();
        let mut workload = Processes(vec![first.0.id() as i32]);
        let opened = match cycles.read(&workload, true, &opener) {
            Err(reason) if opener.readers.get() == 0 => Err(reason),
            _ => Ok(()),
        };
        if crate::skip::have("perf", opened).is_none() {
            return;
        }
        assert!(value(&mut cycles, &workload, &opener) > 0.0);
        let idle = cycles.read(&workload, false, &opener).unwrap_err();
        assert!(idle.contains("no CPU time"), "{idle}");
        // All processes are replaced.
        let second = Shell::new();
        drop(first);
        workload.0 = vec![second.0.id() as i32];
        assert!(value(&mut cycles, &workload, &opener) > 0.0);
        let Cycles::Open(open) = &cycles else {
            panic!("closed after a value");
        };
        // What the shell forked in the moment of opening is counted with it.
        assert_eq!(opener.readers.get(), open.counts.readers());
        drop(cycles);
        assert_eq!(opener.readers.get(), 0);
    }

    #[test]
    fn what_cannot_be_opened_has_a_reason_and_is_tried_again() {
        let mut opener = software();
        let mut cycles = Cycles::default();
        let gone = Processes(vec![i32::MAX]);
        let reason = cycles.read(&gone, true, &opener).unwrap_err();
        assert!(reason.contains("ended"), "{reason}");
        assert!(matches!(cycles, Cycles::Refused(_, TRY_AGAIN)));
        opener.readers.set(MOST);
        for _ in 0..TRY_AGAIN {
            assert_eq!(cycles.read(&gone, true, &opener).unwrap_err(), reason);
        }
        let full = cycles.read(&gone, true, &opener).unwrap_err();
        assert!(full.contains("1024 counters"), "{full}");
        opener.none = Some("no PMU".into());
        assert_eq!(cycles.read(&gone, true, &opener).unwrap_err(), "no PMU");
    }
}
