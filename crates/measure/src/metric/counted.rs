//! Counters of one or more events in all threads of a target, wherever they run;
//! what is counted adds up.

use super::Moments;
use super::binary;
use super::error::Reason;
use crate::error::Error;
use crate::workload::Scope;
use crate::workload::Target;
use jostle_host::os::cpulist;
use jostle_host::os::here;
use jostle_host::sys::perf_group::borrowed;
use jostle_host::sys::probe;
use jostle_host::sys::probe::Event;
use jostle_host::sys::probe::EventLog;
use jostle_host::sys::probe::Place;
use perf_event::Counter;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

/// Where an event is counted, decided when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// In each thread of the target. New ones count by inheritance, or, where
    /// the kernel cannot do that, from the next look on.
    InThreads,
    /// On every CPU: nobody else has the file mapped.
    Everywhere,
    /// On the CPUs of the target: nobody else was seen to pass it there.
    Beside,
    /// On every CPU, by the target's cgroup.
    InCgroup,
}

/// Open counters of some events.
pub(super) struct Counters {
    /// At least one.
    pub events: Vec<Event>,
    pub counted: Counted,
    /// Thread or CPU of each.
    pub open: Vec<(i32, Open)>,
    /// Counts of threads that have ended.
    ended: u64,
    /// When it happened, where that is written down.
    log: Option<Log>,
    early: Early,
}

/// Counters of processes that were not looked at yet, opened before their programs began:
/// by process, and whether all of one are logged.
type Early = Arc<Mutex<Vec<(i32, Vec<Open>, bool)>>>;

/// What counts an event in one place.
pub(super) enum Open {
    Counter(Counter),
    Logged(EventLog),
}

impl Open {
    pub(super) fn read(&mut self) -> io::Result<u64> {
        match self {
            Open::Counter(counter) => counter.read(),
            Open::Logged(log) => log.read(),
        }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        borrowed(match self {
            Open::Counter(counter) => counter,
            Open::Logged(log) => log.counter(),
        })
    }
}

/// When something happened that nobody has asked for yet.
#[derive(Default)]
struct Log {
    times: Vec<u64>,
    /// Those before.
    handed: u64,
    /// Processes that passed it.
    callers: BTreeSet<i32>,
    /// Whether some were lost.
    lost: bool,
}

/// Bytes of all rings together; one holds what happens until it is read, 16 bytes
/// each, 40,000 per second at most, ten times a second.
const RINGS_BYTES: usize = 4 << 20;
const LEAST_RING_BYTES: usize = 64 << 10;
const LARGEST_RING_BYTES: usize = 256 << 10;
/// More places than this are counted without a log.
const MOST_RINGS: usize = RINGS_BYTES / LEAST_RING_BYTES;

impl Counters {
    /// Of `events`, at least one; with `log` it is written down when they happen, where
    /// that can be. `alone` are the CPUs of the target on which nobody else was seen to pass
    /// them.
    pub(super) fn open(
        events: Vec<Event>,
        target: &Scope,
        log: bool,
        alone: Option<&[usize]>,
    ) -> Result<Counters, Reason> {
        if let Scope::Cgroup(directory) = target
            && let Ok(directory) = File::open(directory)
            && let Ok((open, logged)) = on_cpus(&events, log, |cpu| Place::Cgroup(&directory, cpu))
        {
            return Ok(Counters::new(events, Counted::InCgroup, open, logged));
        }
        let own = |event: &Event| match event {
            Event::Uprobe { file, .. } => binary::is_own(file, target),
            Event::Tracepoint { .. } => false,
        };
        if events.iter().all(own) {
            let said = |error| Reason::Probe(probe::explain(&events[0], &error));
            let (open, logged) = on_cpus(&events, log, Place::Cpu).map_err(said)?;
            return Ok(Counters::new(events, Counted::Everywhere, open, logged));
        }
        if let Some(cpus) = alone.filter(|cpus| log && !cpus.is_empty())
            && let Ok(counters) = Counters::on(cpus, events.clone())
            && counters.is_logged()
        {
            return Ok(Counters {
                counted: Counted::Beside,
                ..counters
            });
        }
        let counters = Counters::in_threads(target, events, log)?;
        match counters.open.is_empty() {
            true => Err(Reason::ProcessEnded),
            false => Ok(counters),
        }
    }

    /// The same in a `target` that may be a command, which ends at any moment.
    ///
    /// # Errors
    /// Those of the target.
    pub(super) fn open_in(
        target: &mut Target,
        events: Vec<Event>,
        log: bool,
        alone: bool,
    ) -> Result<Result<Counters, Reason>, Error> {
        let open = |target: &mut Target| -> Result<_, Error> {
            target.keep_running()?;
            // Of one that has ended they cannot be read.
            let cpus = target.cpus().ok().filter(|_| alone);
            Ok(Counters::open(
                events.clone(),
                &target.scope(),
                log,
                cpus.as_deref(),
            ))
        };
        let counters = open(target)?;
        match target.wait(Duration::ZERO) {
            None => Ok(counters),
            Some(_) => open(target),
        }
    }

    /// Of `events`, at least one, in each thread of `target`.
    pub(super) fn in_threads(
        target: &Scope,
        events: Vec<Event>,
        log: bool,
    ) -> Result<Counters, Reason> {
        let mut counters = Counters::new(events, Counted::InThreads, Vec::new(), log);
        counters.look(target)?;
        Ok(counters)
    }

    /// Of `events`, at least one, on some `cpus`, whoever they happen to there, written down
    /// when they happen.
    pub(super) fn on(cpus: &[usize], events: Vec<Event>) -> Result<Counters, Reason> {
        let mut open = Vec::with_capacity(cpus.len());
        let mut all_logged = true;
        for cpu in cpus {
            let bytes = ring_bytes(cpus.len() * events.len());
            let opened = open_all(&events, bytes, || Place::Cpu(*cpu));
            let (counters, logged) =
                opened.map_err(|error| Reason::Probe(probe::explain(&events[0], &error)))?;
            all_logged &= logged;
            open.extend(counters.into_iter().map(|counter| (*cpu as i32, counter)));
        }
        Ok(Counters::new(events, Counted::Everywhere, open, all_logged))
    }

    fn new(events: Vec<Event>, counted: Counted, open: Vec<(i32, Open)>, logged: bool) -> Counters {
        Counters {
            events,
            counted,
            open,
            ended: 0,
            log: logged.then(Log::default),
            early: Early::default(),
        }
    }

    /// Opens the counters of every process that `target` is started as from now on before
    /// its program begins: what is opened later misses the first calls of a run, and a run
    /// then seems to be at another place than it is.
    pub(super) fn open_early(&self, target: &mut Target) {
        if self.counted != Counted::InThreads || self.inheritable() {
            return;
        }
        let early = Arc::downgrade(&self.early);
        let events = self.events.clone();
        let bytes = self.log.is_some().then(|| ring_bytes(2 * events.len()));
        target.before_program(Some(Arc::new(move |pid| {
            let place = || Place::Thread {
                id: pid,
                inherit: true,
            };
            // Whoever cannot be counted now may be later, which then says why not.
            if let Some(early) = early.upgrade()
                && let Ok((open, logged)) = open_all(&events, bytes.flatten(), place)
            {
                let mut early = early.lock().unwrap_or_else(PoisonError::into_inner);
                early.push((pid, open, logged));
            }
        })));
    }

    /// Whether process `pid` is counted since before its program began, and not looked at
    /// yet.
    pub(super) fn is_opened_early(&self, pid: i32) -> bool {
        let early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.iter().any(|(of, _, _)| *of == pid)
    }

    /// The counters of thread `id` that were opened before its program began.
    fn opened_early(&self, id: i32) -> Option<(Vec<Open>, bool)> {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        let at = early.iter().position(|(pid, _, _)| *pid == id)?;
        let (_, open, logged) = early.swap_remove(at);
        Some((open, logged))
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
            let places = (now.len() + self.open.len()) * self.events.len();
            let bytes = self.log.is_some().then(|| ring_bytes(places)).flatten();
            let opened = match self.opened_early(id) {
                Some(opened) => Ok(opened),
                None => open_all(&self.events, bytes, || Place::Thread { id, inherit: true }),
            };
            match opened {
                Ok((counters, logged)) => {
                    if !logged {
                        self.log = None;
                    }
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
    pub(super) fn retire(&mut self, ended: Vec<(i32, Open)>) {
        let mut ended: Vec<Open> = ended.into_iter().map(|(_, counter)| counter).collect();
        let counts = ended.iter_mut().map(|counter| counter.read().unwrap_or(0));
        self.ended += counts.sum::<u64>();
        if let Some(log) = &mut self.log {
            log.take(ended.iter_mut());
        }
        probe::close_later(ended);
    }

    /// Processes that passed it since the log was forgotten, as far as that was written down.
    pub(super) fn callers(&self) -> impl Iterator<Item = i32> {
        let log = self.log.iter();
        log.flat_map(|log| log.callers.iter().copied())
    }

    /// Whether it is written down when something happens.
    pub(super) fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    /// Takes what was written down out of the rings before they are full.
    pub(super) fn take_log(&mut self) {
        if let Some(log) = &mut self.log {
            log.take(self.open.iter_mut().map(|(_, open)| open));
        }
    }

    /// Leaves out what happened until now, and who did it; whether some of it was lost.
    pub(super) fn forget_log(&mut self) -> bool {
        self.take_log();
        self.log.as_mut().is_some_and(|log| {
            log.handed += log.times.len() as u64;
            log.times.clear();
            log.callers.clear();
            std::mem::take(&mut log.lost)
        })
    }

    /// How often something was written down; `None` where it is not, or some was lost.
    pub(super) fn logged(&mut self) -> Option<u64> {
        self.take_log();
        let log = self.log.as_ref().filter(|log| !log.lost)?;
        Some(log.handed + log.times.len() as u64)
    }

    /// What happened since the last call; `None` where it is not written down. Where some
    /// was lost, nothing is from now on.
    pub(super) fn moments(&mut self) -> Option<Moments> {
        self.take_log();
        if self.log.as_ref().is_some_and(|log| log.lost) {
            self.log = None;
        }
        let log = self.log.as_mut()?;
        let mut times = std::mem::take(&mut log.times);
        times.sort_unstable();
        let before = log.handed;
        log.handed += times.len() as u64;
        Some(Moments { before, times })
    }

    pub(super) fn total(&mut self) -> io::Result<u64> {
        let mut total = self.ended;
        for (_, counter) in &mut self.open {
            total += counter.read()?;
        }
        Ok(total)
    }
}

impl Log {
    fn take<'o>(&mut self, open: impl Iterator<Item = &'o mut Open>) {
        for open in open {
            self.lost |= match open {
                Open::Logged(ring) => ring.take(&mut self.times, &mut self.callers).is_err(),
                Open::Counter(_) => true,
            };
        }
    }
}

/// On every CPU, with a `log` if that is wanted; whether all have one.
fn on_cpus<'a>(
    events: &[Event],
    log: bool,
    place: impl Fn(usize) -> Place<'a>,
) -> io::Result<(Vec<(i32, Open)>, bool)> {
    let mut all = (Vec::new(), log);
    let cpus = cpulist::online(here()).map_err(std::io::Error::other)?;
    let bytes = ring_bytes(cpus.len() * events.len());
    for cpu in cpus {
        let bytes = bytes.filter(|_| all.1);
        let (open, logged) = open_all(events, bytes, || place(cpu))?;
        all.0
            .extend(open.into_iter().map(|open| (cpu as i32, open)));
        all.1 &= logged;
    }
    Ok(all)
}

/// Bytes of each of so many rings; `None` for too many.
fn ring_bytes(rings: usize) -> Option<usize> {
    let each = RINGS_BYTES / rings.max(1).next_power_of_two();
    (rings <= MOST_RINGS).then(|| each.clamp(LEAST_RING_BYTES, LARGEST_RING_BYTES))
}

/// All `events` in one place, with rings of `ring_bytes` where those can be had.
fn open_all<'a>(
    events: &[Event],
    ring_bytes: Option<usize>,
    place: impl Fn() -> Place<'a>,
) -> io::Result<(Vec<Open>, bool)> {
    if let Some(bytes) = ring_bytes {
        let logged = events.iter().map(|event| event.log(place(), bytes));
        let logged: io::Result<Vec<EventLog>> = logged.collect();
        if let Ok(logged) = logged {
            return Ok((logged.into_iter().map(Open::Logged).collect(), true));
        }
    }
    let counters = events.iter().map(|event| event.count(place()));
    let counters: io::Result<Vec<Counter>> = counters.collect();
    Ok((counters?.into_iter().map(Open::Counter).collect(), false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_share_what_they_may_take() {
        assert_eq!(ring_bytes(1), Some(LARGEST_RING_BYTES));
        for rings in [3, 16, 33, 64] {
            let each = ring_bytes(rings).unwrap();
            assert!(
                each.is_power_of_two() && each * rings <= RINGS_BYTES,
                "{rings}"
            );
            assert!(each >= LEAST_RING_BYTES, "{rings}");
        }
        assert_eq!(ring_bytes(65), None);
    }

    #[test]
    fn what_was_lost_is_forgotten_or_ends_the_log() {
        let lost = || Log {
            times: vec![5, 3],
            handed: 7,
            callers: BTreeSet::new(),
            lost: true,
        };
        let counters = |log| Counters {
            events: Vec::new(),
            counted: Counted::Everywhere,
            open: Vec::new(),
            ended: 0,
            log: Some(log),
            early: Early::default(),
        };
        let mut known = counters(lost());
        assert_eq!(known.logged(), None);
        assert!(known.forget_log());
        assert_eq!((known.logged(), known.forget_log()), (Some(9), false));
        let mut ends = counters(lost());
        assert!(ends.moments().is_none() && !ends.is_logged());
        let mut all = counters(Log {
            lost: false,
            ..lost()
        });
        let moments = all.moments().unwrap();
        assert_eq!((moments.before, moments.times), (7, vec![3, 5]));
        assert_eq!(all.moments().unwrap().before, 9);
    }
}
