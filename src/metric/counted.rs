//! Counters of one or more events in all threads of a target, wherever they run;
//! what is counted adds up.

use super::binary;
use super::error::Reason;
use crate::os::cpulist;
use crate::os::here;
use crate::sys::probe;
use crate::sys::probe::Event;
use crate::sys::probe::Place;
use crate::workload::Scope;
use perf_event::Counter;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;

/// Where an event is counted, decided when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// In each thread of the target. New ones count by inheritance, or, where
    /// the kernel cannot do that, from the next look on.
    InThreads,
    /// On every CPU: nobody else has the file mapped.
    Everywhere,
    /// On every CPU, by the target's cgroup.
    InCgroup,
}

/// Open counters of some events.
pub(super) struct Counters {
    /// At least one.
    pub events: Vec<Event>,
    pub counted: Counted,
    /// Thread or CPU of each.
    pub open: Vec<(i32, Counter)>,
    /// Counts of threads that have ended.
    ended: u64,
}

impl Counters {
    /// Of `events`, at least one.
    pub(super) fn open(events: Vec<Event>, target: &Scope) -> Result<Counters, Reason> {
        if let Scope::Cgroup(directory) = target
            && let Ok(directory) = File::open(directory)
            && let Ok(open) = on_cpus(&events, |cpu| Place::Cgroup(&directory, cpu))
        {
            return Ok(Counters::new(events, Counted::InCgroup, open));
        }
        let processes = target.processes();
        let own = |event: &Event| match event {
            Event::Uprobe { file, .. } => binary::other_users(file, &processes) == Some(0),
            Event::Tracepoint { .. } => false,
        };
        if events.iter().all(own) {
            let said = |error| Reason::Probe(probe::explain(&events[0], &error));
            let open = on_cpus(&events, Place::Cpu).map_err(said)?;
            return Ok(Counters::new(events, Counted::Everywhere, open));
        }
        let mut counters = Counters::new(events, Counted::InThreads, Vec::new());
        counters.look(target)?;
        match counters.open.is_empty() {
            true => Err(Reason::ProcessEnded),
            false => Ok(counters),
        }
    }

    fn new(events: Vec<Event>, counted: Counted, open: Vec<(i32, Counter)>) -> Counters {
        Counters {
            events,
            counted,
            open,
            ended: 0,
        }
    }

    fn inheritable(&self) -> bool {
        self.events.iter().all(Event::inheritable)
    }

    /// Whether threads that the target starts are missed until the next look.
    pub(super) fn misses_new_threads(&self) -> bool {
        self.counted == Counted::InThreads && !self.inheritable()
    }

    /// Adds threads that are new and drops those that have ended; how many
    /// were new.
    pub(super) fn look(&mut self, target: &Scope) -> Result<usize, Reason> {
        if self.counted != Counted::InThreads || (self.inheritable() && !self.open.is_empty()) {
            return Ok(0);
        }
        let now: BTreeSet<i32> = target.threads().into_iter().collect();
        let open = std::mem::take(&mut self.open).into_iter();
        let (open, ended) = open.partition(|(thread, _)| now.contains(thread));
        self.open = open;
        self.retire(ended);
        let known: BTreeSet<i32> = self.open.iter().map(|(thread, _)| *thread).collect();
        let mut new = 0;
        for &id in now.difference(&known) {
            let of = |event: &Event| event.count(Place::Thread { id, inherit: true });
            let opened: io::Result<Vec<Counter>> = self.events.iter().map(of).collect();
            match opened {
                Ok(counters) => {
                    self.open
                        .extend(counters.into_iter().map(|counter| (id, counter)));
                    new += 1;
                }
                // It may have ended since it was listed.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(Reason::Probe(probe::explain(&self.events[0], &error))),
            }
        }
        Ok(new)
    }

    /// Keeps the counts of threads that have ended.
    pub(super) fn retire(&mut self, ended: Vec<(i32, Counter)>) {
        let mut ended: Vec<Counter> = ended.into_iter().map(|(_, counter)| counter).collect();
        let counts = ended.iter_mut().map(|counter| counter.read().unwrap_or(0));
        self.ended += counts.sum::<u64>();
        probe::close_later(ended);
    }

    pub(super) fn total(&mut self) -> io::Result<u64> {
        let mut total = self.ended;
        for (_, counter) in &mut self.open {
            total += counter.read()?;
        }
        Ok(total)
    }
}

fn on_cpus<'a>(
    events: &[Event],
    place: impl Fn(usize) -> Place<'a>,
) -> io::Result<Vec<(i32, Counter)>> {
    let mut open = Vec::new();
    for cpu in cpulist::online(here()).map_err(std::io::Error::other)? {
        for event in events {
            open.push((cpu as i32, event.count(place(cpu))?));
        }
    }
    Ok(open)
}
