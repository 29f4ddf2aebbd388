//! Whether calls follow a clock rather than the work of the program.
//!
//! A timer is the steadiest there is, and would call every program insensitive. While
//! others take most of the CPU, a timer goes on as before: it is called several times as
//! often per second of the target's CPU time. Work is not.

use super::steady::Window;
use jostle_host::sys::cpus;
use std::time::Duration;
use std::time::Instant;

/// Largest number of CPUs that are kept busy.
const MOST_CPUS: usize = 8;
/// Threads on each: a target of one thread keeps a quarter of its CPU, and one of several,
/// or on a busy machine, loses enough to be seen.
const THREADS: usize = 3;
/// Share of its CPU time that the target must have lost, so that something is seen.
const LEAST_LOST: f64 = 0.25;
/// Calls per CPU time must have grown by so much of what a clock's would, and by so many
/// standard errors more.
const LIKE_A_CLOCK: f64 = 0.35;
const STANDARD_ERRORS: f64 = 2.0;

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
    if alone.count == 0 || beside.count == 0 || beside.busy <= 0.0 {
        return false;
    }
    let kept = share(beside) / share(alone);
    let grown = beside.count as f64 / beside.busy / (alone.count as f64 / alone.busy);
    // As of independent calls; even ones vary less.
    let error = (1.0 / alone.count as f64 + 1.0 / beside.count as f64).sqrt();
    let least = LIKE_A_CLOCK * (1.0 / kept - 1.0) + STANDARD_ERRORS * error;
    kept < 1.0 - LEAST_LOST && grown > 1.0 + least
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
        let each = cpus.iter().flat_map(|cpu| [*cpu; THREADS]);
        let threads = each.map(|cpu| scope.spawn(move || spin(cpu)));
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
        // Chance, with so few.
        assert!(!follows_clock(&windows(1.0, 1)[..3], &windows(0.5, 1)[..3]));
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
