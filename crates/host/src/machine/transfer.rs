//! Whether two CPUs share their last-level cache now, whatever the machine reports.
//!
//! A hypervisor moves virtual CPUs between cores, within seconds to minutes. Two that
//! are said to share a cache may then be on core complexes, or sockets, of their own,
//! and a source on one takes nothing from a target on the other. One cache line tells:
//! two threads, one on each CPU, answer each other through it. Within a shared cache
//! it goes there and back in less time than two accesses of memory take; between
//! caches it needs more.

use crate::sys::cpus::set_affinity;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::Release;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

/// A line that needs more nanoseconds there and back came through memory's fabric:
/// about two accesses of memory. On an EPYC host, guests saw 60 to 140 ns within a
/// complex, more where the sibling threads are busy, and 340 to 400 ns between two.
pub const APART_NS: f64 = 220.0;

/// Times that the line goes there and back in a burst, and bursts of a look, of which
/// the median counts: an interrupt lengthens one.
const ROUND_TRIPS: u64 = 40;
const BURSTS: u64 = 7;
/// Bursts that a look needs at least.
const FEWEST: usize = 3;
/// Longest look: the target may keep its CPU for a slice of the scheduler before it
/// lets the thread in.
const LONGEST: Duration = Duration::from_millis(8);
/// Looks at the line between two looks at the clock.
const SPINS: u32 = 256;

/// The line, alone in two neighbouring ones: they are fetched together.
#[repr(align(128))]
#[derive(Default)]
struct Line {
    value: AtomicU64,
}

/// One look, as both threads see it.
#[derive(Default)]
struct Look {
    line: Line,
    /// The answering thread is there.
    there: AtomicBool,
}

/// Two threads that wait for looks.
pub struct Transfer {
    /// The CPUs, first and second.
    pub cpus: [usize; 2],
    asks: Option<Sender<Arc<Look>>>,
    answers: Option<Sender<Arc<Look>>>,
    times: Receiver<(Arc<Look>, Option<f64>)>,
    threads: Vec<JoinHandle<()>>,
}

impl Transfer {
    /// Between two CPUs that this process may run on.
    ///
    /// # Errors
    /// In words, when it may not, or a thread cannot be started.
    pub fn between(first: usize, second: usize) -> Result<Transfer, String> {
        let (asks, asked) = channel::<Arc<Look>>();
        let (answers, to_answer) = channel::<Arc<Look>>();
        let (told, times) = channel();
        let (bound, is_bound) = channel();
        let start = |cpu: usize, work: Box<dyn FnOnce() + Send>| {
            let bound = bound.clone();
            let thread = std::thread::Builder::new().name(format!("line-{cpu}"));
            thread
                .spawn(move || {
                    let kept = set_affinity(0, &[cpu]);
                    let go = kept.is_ok();
                    let _ = bound.send(kept.map_err(|error| (cpu, error)));
                    if go {
                        work();
                    }
                })
                .map_err(|error| format!("cannot start a thread for CPU {cpu}: {error}"))
        };
        let asking = move || {
            for look in asked {
                let time = ask(&look);
                if told.send((look, time)).is_err() {
                    break;
                }
            }
        };
        let answering = move || {
            for look in to_answer {
                answer(&look);
            }
        };
        let threads = vec![
            start(first, Box::new(asking))?,
            start(second, Box::new(answering))?,
        ];
        for _ in 0..threads.len() {
            if let Ok(Err((cpu, error))) = is_bound.recv() {
                return Err(format!("cannot keep to CPU {cpu}: {error}"));
            }
        }
        Ok(Transfer {
            cpus: [first, second],
            asks: Some(asks),
            answers: Some(answers),
            times,
            threads,
        })
    }

    /// Nanoseconds that the line takes from the first CPU to the second and back, the
    /// median of a few bursts; `None` where one of the CPUs was too busy. Takes a tenth of a
    /// millisecond of both CPUs, and up to [`LONGEST`] where the second is busy.
    pub fn look(&self) -> Option<f64> {
        let look = Arc::new(Look::default());
        let (asks, answers) = (self.asks.as_ref()?, self.answers.as_ref()?);
        answers.send(look.clone()).ok()?;
        asks.send(look.clone()).ok()?;
        let deadline = Instant::now() + 2 * LONGEST;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let (of, time) = self.times.recv_timeout(left).ok()?;
            // Else an earlier look that came too late.
            if Arc::ptr_eq(&of, &look) {
                return time;
            }
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.asks = None;
        self.answers = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Waits until `done`, at most to `deadline`; whether it came.
fn wait(deadline: Instant, done: impl Fn() -> bool) -> bool {
    loop {
        for _ in 0..SPINS {
            if done() {
                return true;
            }
        }
        if Instant::now() > deadline {
            return false;
        }
    }
}

fn ask(look: &Look) -> Option<f64> {
    let deadline = Instant::now() + LONGEST;
    if !wait(deadline, || look.there.load(Acquire)) {
        look.line.value.store(u64::MAX, Release);
        return None;
    }
    let mut bursts = Vec::new();
    let mut value = 0;
    'bursts: for _ in 0..BURSTS {
        let began = Instant::now();
        for _ in 0..ROUND_TRIPS {
            look.line.value.store(value + 1, Release);
            value += 2;
            if !wait(deadline, || look.line.value.load(Acquire) == value) {
                break 'bursts;
            }
        }
        bursts.push(began.elapsed().as_secs_f64() * 1e9 / ROUND_TRIPS as f64);
    }
    look.line.value.store(u64::MAX, Release);
    bursts.sort_unstable_by(f64::total_cmp);
    (bursts.len() >= FEWEST).then(|| bursts[bursts.len() / 2])
}

fn answer(look: &Look) {
    look.there.store(true, Release);
    let deadline = Instant::now() + LONGEST;
    let asked = || look.line.value.load(Relaxed) % 2 == 1;
    while wait(deadline, asked) {
        let value = look.line.value.load(Acquire);
        if value == u64::MAX {
            return;
        }
        look.line.value.store(value + 1, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::cpus::affinity;

    #[test]
    fn a_line_takes_nanoseconds_between_two_cpus() {
        let cpus = affinity(0).unwrap();
        assert!(
            cpus.len() >= 2,
            "this test needs two CPUs, and may use {cpus:?}"
        );
        let transfer = Transfer::between(cpus[0], cpus[1]).unwrap();
        let looks: Vec<f64> = (0..50).filter_map(|_| transfer.look()).collect();
        assert!(looks.len() > 10, "{looks:?}");
        let sorted = jostle_statistics::median(&mut looks.clone());
        assert!((5.0..20_000.0).contains(&sorted), "{looks:?}");
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        let error = Transfer::between(0, 9999).err().unwrap();
        assert!(error.contains("CPU 9999"), "{error}");
    }

    #[test]
    fn nobody_waits_long_for_a_thread_that_does_not_come() {
        let look = Look::default();
        let began = Instant::now();
        assert_eq!(ask(&look), None);
        assert!(began.elapsed() < Duration::from_secs(2));
        // Nor for one that has gone.
        answer(&look);
    }
}
