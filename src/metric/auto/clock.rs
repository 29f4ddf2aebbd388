//! Whether calls follow a clock rather than the work of the program.
//!
//! A timer is the steadiest there is, and would call every program insensitive. While
//! somebody else takes half of the CPU, a timer goes on as before: it is called twice as
//! often per second of the target's CPU time. Work is not.

use super::Window;
use crate::sys::cpus;
use std::time::Duration;
use std::time::Instant;

/// Largest number of CPUs that are kept busy.
const MOST_CPUS: usize = 8;
/// Share of its CPU time that the target must have lost, so that something is seen.
const LEAST_LOST: f64 = 0.25;
/// Calls per CPU time must have grown by so much of what a clock's would.
const LIKE_A_CLOCK: f64 = 0.7;
/// With fewer calls in either half nothing is said.
const FEWEST: u64 = 12;

/// Whether calls follow a clock, from what was counted beside nobody and beside
/// somebody busy.
pub(in crate::metric) fn follows_clock(alone: &[Window], beside: &[Window]) -> bool {
    let sum = |windows: &[Window]| {
        let add = |sum: Window, window: &Window| Window {
            seconds: sum.seconds + window.seconds,
            busy: sum.busy + window.busy,
            count: sum.count + window.count,
        };
        windows.iter().fold(Window::default(), add)
    };
    let (alone, beside) = (sum(alone), sum(beside));
    let share = |sum: Window| sum.busy / sum.seconds;
    if alone.count < FEWEST || beside.count < FEWEST || beside.busy <= 0.0 {
        return false;
    }
    let kept = share(beside) / share(alone);
    let grown = beside.count as f64 / beside.busy / (alone.count as f64 / alone.busy);
    kept < 1.0 - LEAST_LOST && grown > 1.0 + LIKE_A_CLOCK * (1.0 / kept - 1.0)
}

/// Keeps `cpus` busy for `length`; whether that could be done.
pub(in crate::metric) fn keep_busy(cpus: &[usize], length: Duration) -> bool {
    if cpus.is_empty() || cpus.len() > MOST_CPUS {
        return false;
    }
    let until = Instant::now() + length;
    let spin = |cpu: usize| {
        let pinned = cpus::set_affinity(0, &[cpu]).is_ok();
        while pinned && Instant::now() < until {
            std::hint::spin_loop();
        }
        pinned
    };
    std::thread::scope(|scope| {
        let threads = cpus.iter().map(|cpu| scope.spawn(move || spin(*cpu)));
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .all(|thread| thread.join().unwrap_or(false))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(busy: f64, count: u64) -> Vec<Window> {
        let one = Window {
            seconds: 0.005,
            busy: 0.005 * busy,
            count,
        };
        vec![one; 20]
    }

    #[test]
    fn a_timer_is_told_from_work() {
        // With half of the CPU half of the work is done, and a timer rings as often.
        assert!(!follows_clock(&windows(1.0, 4), &windows(0.5, 2)));
        assert!(follows_clock(&windows(1.0, 4), &windows(0.5, 4)));
        // A server that waits for half of the time may do as much as before.
        assert!(!follows_clock(&windows(0.5, 4), &windows(0.48, 4)));
        // The target kept its CPU, or there was hardly a call.
        assert!(!follows_clock(&windows(1.0, 4), &windows(0.9, 4)));
        assert!(!follows_clock(&windows(1.0, 0), &windows(0.5, 0)));
    }

    #[test]
    fn a_cpu_is_kept_busy_for_a_while() {
        let began = Instant::now();
        assert!(keep_busy(&[0], Duration::from_millis(3)));
        assert!(began.elapsed() >= Duration::from_millis(3));
        assert!(!keep_busy(&[], Duration::from_millis(1)));
        assert!(!keep_busy(&[999_999], Duration::from_millis(1)));
    }
}
