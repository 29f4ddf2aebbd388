//! Counts candidates for some milliseconds each, by breakpoints of the CPU.

use super::candidates::Candidate;
use super::image::Images;
use super::image::Mapped;
use super::steady::Window;
use crate::metric::error::Reason;
use crate::workload::Scope;
use crate::workload::Shield;
use crate::workload::tree;
use jostle_host::os::here;
use jostle_host::os::proc;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::probe;
use jostle_host::sys::probe::BREAKPOINTS;
use jostle_host::sys::probe::Lost;
use jostle_statistics::ByNumber;
use perf_event::Counter;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

/// Most threads that are counted in.
const MOST_THREADS: usize = 16;

/// Windows of about `length`: of equal ones, a program that does the same again and
/// again in the time of some would look steady.
pub(in crate::metric) fn uneven(length: Duration, number: usize) -> Duration {
    const PARTS: [f64; 5] = [0.6, 1.2, 0.8, 1.4, 1.0];
    length.mul_f64(PARTS[number % PARTS.len()])
}

/// What was counted, one window after another.
pub(super) type Windows = Vec<Window>;

/// What was counted, and when.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    pub windows: Windows,
    /// Seconds of CPU time of the target, ascending, within its windows.
    pub times: Vec<f64>,
    /// Share of that time that the threads used which made most of the calls, had the others
    /// not waited for a CPU; `None` where that was not looked at.
    pub by_callers: Option<f64>,
}

impl Trace {
    /// From the `times` of calls, and the `ends` of windows one after another: each on
    /// CLOCK_MONOTONIC in nanoseconds, and the CPU time of the target until then in seconds.
    /// At least one end.
    pub(super) fn of(mut times: Vec<u64>, ends: &[(u64, f64)]) -> Trace {
        let [begin, end] = [ends[0].0, ends[ends.len() - 1].0];
        times.sort_unstable();
        times.retain(|time| (begin..=end).contains(time));
        let mut trace = Trace::default();
        let (mut counted, mut used) = (0, 0.0);
        for pair in ends.windows(2) {
            let until = times.partition_point(|time| *time <= pair[1].0);
            let window = Window {
                seconds: (pair[1].0 - pair[0].0) as f64 / 1e9,
                busy: pair[1].1 - pair[0].1,
                count: (until - counted) as u64,
            };
            let of_cpu_time = |time: &u64| {
                let part = (time - pair[0].0) as f64 / 1e9 / window.seconds.max(1e-9);
                used + part * window.busy
            };
            trace
                .times
                .extend(times[counted..until].iter().map(of_cpu_time));
            (counted, used) = (until, used + window.busy);
            trace.windows.push(window);
        }
        trace
    }

    /// CPU time of all its windows, in seconds.
    pub(super) fn busy(&self) -> f64 {
        self.windows.iter().map(|window| window.busy).sum()
    }
}

/// Holds what a thread executes within a trial at most, 16 bytes each time.
const RING_BYTES: usize = 256 << 10;

/// Where the target is and what it has mapped.
#[derive(Default)]
pub(super) struct Field {
    images: Images,
    /// Covers the threads from the first breakpoint on.
    shield: Option<Shield>,
    /// By process.
    pub mapped: HashMap<i32, Mapped>,
    /// Threads, each with its process.
    pub threads: Vec<(i32, i32)>,
}

impl Field {
    /// Looks again at what belongs to the target; its busiest threads first.
    pub(super) fn look(&mut self, target: &Scope) {
        self.threads.clear();
        let mut busy = Vec::new();
        for pid in target.processes() {
            for thread in tree::threads(pid) {
                let used = proc::thread_stat(here(), pid, thread).map(|stat| stat.used);
                busy.push((used, thread, pid));
            }
        }
        busy.sort_unstable_by(|a, b| b.cmp(a));
        busy.truncate(MOST_THREADS);
        for (_, thread, pid) in busy {
            self.threads.push((thread, pid));
            if !self.mapped.contains_key(&pid) {
                self.mapped.insert(pid, self.images.of(pid));
            }
        }
    }

    /// What was mapped may have changed: a program was loaded, or its libraries.
    pub(super) fn forget(&mut self) {
        self.mapped.clear();
    }

    /// Opens a breakpoint at `offset` of `file` in every thread that has mapped
    /// it.
    fn open_at<T>(
        &self,
        (file, offset): (&Path, u64),
        breakpoint: impl Fn(i32, u64) -> io::Result<T>,
    ) -> io::Result<Vec<T>> {
        let mut open = Vec::new();
        for (thread, pid) in &self.threads {
            let mapped = self.mapped.get(pid);
            let address = mapped.and_then(|mapped| mapped.address(file, offset));
            let Some(address) = address else { continue };
            match breakpoint(*thread, address) {
                Ok(counter) => open.push(counter),
                // It has ended.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(open)
    }

    /// Sees to it that breakpoints do not end the threads.
    fn cover(&mut self) -> Result<(), Reason> {
        let shield = match self.shield.take() {
            Some(shield) => Ok(shield),
            None => Shield::start(),
        };
        let threads = self.threads.iter().map(|(thread, _)| *thread);
        let mut shield = shield.map_err(Reason::NoShield)?;
        shield.cover(threads).map_err(Reason::NoShield)?;
        self.shield = Some(shield);
        Ok(())
    }

    /// Opens breakpoints for `candidates`, at most [`BREAKPOINTS`].
    fn open<T>(
        &mut self,
        candidates: &[&Candidate],
        breakpoint: impl Fn(i32, u64) -> io::Result<T>,
    ) -> Result<Vec<Vec<T>>, Reason> {
        debug_assert!(candidates.len() <= BREAKPOINTS);
        self.cover()?;
        let open = |candidate: &&Candidate| {
            self.open_at((candidate.file(), candidate.offset()), &breakpoint)
        };
        let opened: io::Result<_> = candidates.iter().map(open).collect();
        opened.map_err(Reason::NoBreakpoints)
    }

    /// Whether the instruction at `offset` of `file` is executed within
    /// `length`.
    ///
    /// # Errors
    /// When no breakpoint can be had, or none without danger to the target.
    pub(super) fn is_executed(
        &mut self,
        file: &Path,
        offset: u64,
        length: Duration,
    ) -> Result<bool, Reason> {
        self.cover()?;
        let opened = self.open_at((file, offset), probe::breakpoint);
        let mut counters = [opened.map_err(Reason::NoBreakpoints)?];
        std::thread::sleep(length);
        Ok(read(&mut counters)?[0] > 0)
    }

    /// Counts `candidates` together in `count` windows, each as long as `wait` takes for
    /// one of its number; fewer when that says that the target has ended. `each` is what a
    /// breakpoint costs, in seconds.
    ///
    /// # Errors
    /// When no breakpoint can be had, or none without danger to the target.
    pub(super) fn count(
        &mut self,
        candidates: &[&Candidate],
        count: usize,
        each: f64,
        mut wait: impl FnMut(usize) -> bool,
    ) -> Result<Vec<Trace>, Reason> {
        let mut logs = self.open(candidates, |thread, address| {
            let log = probe::breakpoint_log(thread, address, RING_BYTES);
            log.map(|log| (thread, log))
        })?;
        let threads = self.threads.iter().map(|(thread, _)| *thread);
        let mut clocks: Vec<(i32, Busy)> = threads
            .map(|thread| (thread, Busy::of([thread].into_iter())))
            .collect();
        let waited_before = self.waited();
        let mut seconds = || clocks.iter_mut().map(|(_, clock)| clock.seconds()).sum();
        let mut ends = vec![(monotonic_ns(), seconds())];
        for number in 0..count {
            if !wait(number) {
                break;
            }
            ends.push((monotonic_ns(), seconds()));
        }
        let waited = self.waited();
        let used = clocks.iter_mut().enumerate().map(|(at, (thread, clock))| {
            // Where that is not counted, CPU time alone has to tell.
            let wait = waited[at].zip(waited_before[at]);
            let wait = wait.map_or(0, |(now, before)| now.saturating_sub(before));
            Used {
                thread: *thread,
                ran: clock.seconds(),
                waited: wait as f64 / 1e9,
            }
        });
        let mut used: Vec<Used> = used.collect();
        let traces = logs.iter_mut().map(|logs| {
            let (mut times, mut callers) = (Vec::new(), BTreeSet::new());
            let mut calls = Vec::with_capacity(logs.len());
            for (thread, log) in logs {
                let before = times.len();
                // Where some was lost it is far too frequent.
                if log.take(&mut times, &mut callers) == Err(Lost) {
                    return (Trace::default(), Vec::new());
                }
                calls.push((*thread, times.len() - before));
            }
            (Trace::of(times, &ends), calls)
        });
        let mut traces: Vec<(Trace, Vec<(i32, usize)>)> = traces.collect();
        for (thread, count) in traces.iter().flat_map(|(_, calls)| calls) {
            let own = used.iter_mut().filter(|used| used.thread == *thread);
            own.for_each(|used| used.ran = (used.ran - *count as f64 * each).max(0.0));
        }
        for (trace, calls) in &mut traces {
            trace.by_callers = by_callers(calls, &used);
        }
        Ok(traces.into_iter().map(|(trace, _)| trace).collect())
    }

    /// How long each thread has waited for a CPU, in nanoseconds, as far as that is known.
    fn waited(&self) -> Vec<Option<u64>> {
        let threads = self.threads.iter();
        let waited = threads.map(|(tid, pid)| proc::thread_waited_ns(here(), *pid, *tid));
        waited.collect()
    }

    /// The rate of each candidate per second, roughly; infinite where it is far
    /// too high. `each` is what a breakpoint costs, in seconds.
    ///
    /// # Errors
    /// When no breakpoint can be had, or none without danger to the target.
    pub(super) fn glance(
        &mut self,
        candidates: &[&Candidate],
        each: f64,
    ) -> Result<Vec<f64>, Reason> {
        let mut counters = self.open(candidates, probe::breakpoint)?;
        let mut rates = vec![0.0; candidates.len()];
        for (length, hot) in GLANCES {
            let (before, since) = (read(&mut counters)?, Instant::now());
            std::thread::sleep(length);
            let after = read(&mut counters)?;
            let whole = since.elapsed().as_secs_f64();
            let counts = after.iter().zip(&before);
            let counts: Vec<f64> = counts.map(|(a, b)| a.saturating_sub(*b) as f64).collect();
            let spent = counts.iter().sum::<f64>() * each;
            let seconds = (whole - spent).max(whole / 20.0);
            for (index, count) in counts.into_iter().enumerate() {
                if count * each > hot * whole {
                    // The others are not seen beside it.
                    counters[index].clear();
                    rates[index] = f64::INFINITY;
                } else if rates[index] != f64::INFINITY {
                    rates[index] = count / seconds;
                }
            }
        }
        Ok(rates)
    }
}

/// What a thread did for a while: seconds on a CPU, without those that breakpoints took, and
/// seconds in which it was ready and had none.
struct Used {
    thread: i32,
    ran: f64,
    waited: f64,
}

/// Share of the CPU time in `used` of the threads that made 90 % of the `calls`, those with
/// most calls first; `None` without either. What the others waited for a CPU counts as used:
/// one that does all the work is held up most where CPUs are full, and one that hardly does
/// any would seem to do a part of it.
fn by_callers(calls: &[(i32, usize)], used: &[Used]) -> Option<f64> {
    let all: usize = calls.iter().map(|(_, count)| count).sum();
    let time: f64 = used.iter().map(|used| used.ran).sum();
    if all == 0 || time <= 0.0 {
        return None;
    }
    let mut calls = calls.to_vec();
    calls.sort_by_number(|(_, count)| -(*count as f64));
    let (mut made, mut theirs, mut callers) = (0, 0.0, Vec::new());
    for (thread, count) in calls {
        if made as f64 >= 0.9 * all as f64 {
            break;
        }
        made += count;
        let own = used.iter().filter(|used| used.thread == thread);
        theirs += own.map(|used| used.ran).sum::<f64>();
        callers.push(thread);
    }
    let others = used.iter().filter(|used| !callers.contains(&used.thread));
    let others: f64 = others.map(|used| used.ran + used.waited).sum();
    Some(theirs / (theirs + others).max(1e-12))
}

/// Lengths of the parts of a glance, and which share of the time a breakpoint
/// may take in each.
const GLANCES: [(Duration, f64); 3] = [
    (Duration::from_micros(300), 0.4),
    (Duration::from_micros(700), 0.3),
    (Duration::from_micros(3000), 0.6),
];

/// The CPU time of some threads together.
pub(in crate::metric) struct Busy(Vec<Counter>);

impl Busy {
    /// Of those of `threads` that have not ended, from now on.
    pub(in crate::metric) fn of(threads: impl Iterator<Item = i32>) -> Busy {
        Busy(threads.filter_map(|id| probe::cpu_time(id).ok()).collect())
    }

    /// Seconds since then.
    pub(in crate::metric) fn seconds(&mut self) -> f64 {
        let times = self.0.iter_mut().map(|counter| counter.read().unwrap_or(0));
        times.sum::<u64>() as f64 / 1e9
    }
}

fn read(counters: &mut [Vec<Counter>]) -> Result<Vec<u64>, Reason> {
    let total = |open: &mut Vec<Counter>| open.iter_mut().map(Counter::read).sum();
    let counts: io::Result<_> = counters.iter_mut().map(total).collect();
    counts.map_err(Reason::NoBreakpoints)
}

/// Takes off the time that the breakpoints themselves took; `each` is what one
/// hit costs, in seconds.
pub(super) fn without_cost(traces: &mut [Trace], each: f64) {
    let known = |trace: &&mut Trace| !trace.windows.is_empty();
    let mut traces: Vec<&mut Trace> = traces.iter_mut().filter(known).collect();
    let length = traces.first().map_or(0, |trace| trace.windows.len());
    for at in 0..length {
        let hits: u64 = traces.iter().map(|trace| trace.windows[at].count).sum();
        let spent = hits as f64 * each;
        for trace in traces.iter_mut() {
            let begin: f64 = trace.windows[..at].iter().map(|window| window.busy).sum();
            let Window { seconds, busy, .. } = &mut trace.windows[at];
            let was = *busy;
            for time in [seconds, &mut *busy] {
                *time = (*time - spent).max(*time / 20.0);
            }
            let (is, end) = (*busy, begin + was);
            // What came later comes earlier.
            let first = trace.times.partition_point(|time| *time < begin);
            for time in &mut trace.times[first..] {
                *time = match *time <= end {
                    true => begin + (*time - begin) * (is / was.max(1e-12)),
                    false => *time - (was - is),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_call_are_told_by_the_time_that_they_use() {
        let used = |thread, ran, waited| Used {
            thread,
            ran,
            waited,
        };
        let alone = [
            used(1, 0.001, 0.0),
            used(2, 0.060, 0.0),
            used(3, 0.039, 0.0),
        ];
        let share = |calls: &[(i32, usize)]| by_callers(calls, &alone).unwrap();
        assert!((share(&[(1, 200), (2, 0)]) - 0.01).abs() < 1e-9);
        // A stray call elsewhere changes nothing, a fifth of the calls does.
        assert!((share(&[(1, 190), (2, 10)]) - 0.01).abs() < 1e-9);
        assert!((share(&[(1, 160), (2, 40)]) - 0.61).abs() < 1e-9);
        assert!((share(&[(2, 50), (3, 50)]) - 0.99).abs() < 1e-9);
        assert_eq!(by_callers(&[(1, 0)], &alone), None);
        assert_eq!(by_callers(&[(1, 5)], &[used(1, 0.0, 0.1)]), None);
        // The one that works has a third of the CPU, the other one all it wants.
        let crowded = [used(1, 0.006, 0.150), used(2, 0.100, 0.194)];
        let share = |calls: &[(i32, usize)]| by_callers(calls, &crowded).unwrap();
        assert!((share(&[(1, 300)]) - 0.02).abs() < 1e-9);
        assert!(share(&[(2, 300)]) > 0.3);
    }

    #[test]
    fn the_time_that_breakpoints_take_is_taken_off() {
        let window = |count| Window {
            seconds: 0.010,
            busy: 0.008,
            count,
        };
        let trace = |count| Trace {
            windows: vec![window(count)],
            ..Trace::default()
        };
        // Of the third nothing is known.
        let mut traces = [trace(400), trace(100), Trace::default()];
        without_cost(&mut traces, 1e-5);
        for trace in &traces[..2] {
            assert!((trace.windows[0].seconds - 0.005).abs() < 1e-9);
            assert!((trace.windows[0].busy - 0.003).abs() < 1e-9);
        }
        // A time is never all taken.
        without_cost(&mut traces, 1.0);
        assert!(traces[0].windows[0].busy > 0.0);
    }
}
