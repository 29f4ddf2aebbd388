//! Counts candidates for some milliseconds each, by breakpoints of the CPU.

use super::candidates::Candidate;
use super::image::Images;
use super::image::Mapped;
use super::steady::Window;
use crate::os::here;
use crate::os::proc;
use crate::sys::probe;
use crate::sys::probe::BREAKPOINTS;
use crate::workload::Scope;
use crate::workload::tree;
use perf_event::Counter;
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

/// Where the target is and what it has mapped.
#[derive(Default)]
pub(super) struct Field {
    images: Images,
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
    fn open_at(&self, file: &Path, offset: u64) -> io::Result<Vec<Counter>> {
        let mut open = Vec::new();
        for (thread, pid) in &self.threads {
            let mapped = self.mapped.get(pid);
            let address = mapped.and_then(|mapped| mapped.address(file, offset));
            let Some(address) = address else { continue };
            match probe::breakpoint(*thread, address) {
                Ok(counter) => open.push(counter),
                // It has ended.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(open)
    }

    /// Opens breakpoints for `candidates`, at most [`BREAKPOINTS`].
    fn open(&self, candidates: &[&Candidate]) -> io::Result<Vec<Vec<Counter>>> {
        debug_assert!(candidates.len() <= BREAKPOINTS);
        let open = |candidate: &&Candidate| self.open_at(candidate.file(), candidate.offset());
        candidates.iter().map(open).collect()
    }

    /// Whether the instruction at `offset` of `file` is executed within
    /// `length`.
    ///
    /// # Errors
    /// When no breakpoint can be had.
    pub(super) fn is_executed(
        &self,
        file: &Path,
        offset: u64,
        length: Duration,
    ) -> io::Result<bool> {
        let mut counters = [self.open_at(file, offset)?];
        std::thread::sleep(length);
        Ok(read(&mut counters)?[0] > 0)
    }

    /// Counts `candidates` together in `count` windows of about `length`; fewer when
    /// `alive` says that the target has ended.
    ///
    /// # Errors
    /// When no breakpoint can be had.
    pub(super) fn count(
        &self,
        candidates: &[&Candidate],
        (count, length): (usize, Duration),
        mut alive: impl FnMut() -> bool,
    ) -> io::Result<Vec<Windows>> {
        let mut counters = self.open(candidates)?;
        let mut windows = vec![Windows::new(); candidates.len()];
        let (mut before, mut since) = (read(&mut counters)?, Instant::now());
        let mut clock = Busy::of(self.threads.iter().map(|(thread, _)| *thread));
        let mut busy = clock.seconds();
        for number in 0..count {
            std::thread::sleep(uneven(length, number));
            if !alive() {
                break;
            }
            let (after, now) = (read(&mut counters)?, Instant::now());
            let used = clock.seconds();
            for (index, windows) in windows.iter_mut().enumerate() {
                windows.push(Window {
                    seconds: (now - since).as_secs_f64(),
                    busy: used - busy,
                    count: after[index].saturating_sub(before[index]),
                });
            }
            (before, since, busy) = (after, now, used);
        }
        Ok(windows)
    }

    /// The rate of each candidate per second, roughly; infinite where it is far
    /// too high. `each` is what a breakpoint costs, in seconds.
    ///
    /// # Errors
    /// When no breakpoint can be had.
    pub(super) fn glance(&self, candidates: &[&Candidate], each: f64) -> io::Result<Vec<f64>> {
        let mut counters = self.open(candidates)?;
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
    /// Of those of `threads` that have not ended.
    pub(in crate::metric) fn of(threads: impl Iterator<Item = i32>) -> Busy {
        Busy(threads.filter_map(|id| probe::cpu_time(id).ok()).collect())
    }

    /// Seconds so far.
    pub(in crate::metric) fn seconds(&mut self) -> f64 {
        let times = self.0.iter_mut().map(|counter| counter.read().unwrap_or(0));
        times.sum::<u64>() as f64 / 1e9
    }
}

fn read(counters: &mut [Vec<Counter>]) -> io::Result<Vec<u64>> {
    let total = |open: &mut Vec<Counter>| open.iter_mut().map(Counter::read).sum();
    counters.iter_mut().map(total).collect()
}

/// Takes off the time that the breakpoints themselves took; `each` is what one
/// hit costs, in seconds.
pub(super) fn without_cost(windows: &mut [Windows], each: f64) {
    let length = windows.iter().map(Vec::len).min().unwrap_or(0);
    for at in 0..length {
        let hits: u64 = windows.iter().map(|windows| windows[at].count).sum();
        let spent = hits as f64 * each;
        for windows in windows.iter_mut() {
            let Window { seconds, busy, .. } = &mut windows[at];
            for time in [seconds, busy] {
                *time = (*time - spent).max(*time / 20.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_breakpoints_take_is_taken_off() {
        let window = |count| Window {
            seconds: 0.010,
            busy: 0.008,
            count,
        };
        let mut windows = vec![vec![window(400)], vec![window(100)]];
        without_cost(&mut windows, 1e-5);
        for windows in &windows {
            assert!((windows[0].seconds - 0.005).abs() < 1e-9);
            assert!((windows[0].busy - 0.003).abs() < 1e-9);
        }
        // A time is never all taken.
        without_cost(&mut windows, 1.0);
        assert!(windows[0][0].busy > 0.0);
    }
}
