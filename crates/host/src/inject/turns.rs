//! How long a turn on a CPU is that busy processes share by the scheduler alone.

use crate::os;
use crate::sys::clock::monotonic_ns;
use crate::sys::clock::tick_ns;
use crate::sys::cpus::set_affinity;
use jostle_profile::SchedulerFacts;
use jostle_profile::Sourced;
use jostle_profile::reading::Reading;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::Duration;

/// Two threads share the CPU for so long, and so many times.
const LENGTH: Duration = Duration::from_millis(60);
const PARTS: usize = 4;
/// Fewer turns than this say nothing.
const FEWEST: u64 = 8;

/// What two busy threads on one CPU saw of each other.
struct Shared {
    /// Which of them ran last.
    last: AtomicUsize,
    switches: AtomicU64,
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    stop: AtomicBool,
}

/// Has two threads share `cpu` for a fifth of a second, and says what the kernel
/// says of its scheduler.
pub fn measure(cpu: usize, online: usize) -> SchedulerFacts {
    // Where the turns fall between the ticks differs from start to start.
    let parts: Vec<Option<(u64, u64)>> = (0..PARTS).map(|_| share(cpu)).collect();
    facts(turn(&parts, cpu), online)
}

/// The same without the turns, which are unknown for this `reason`.
pub fn unmeasured(online: usize, reason: &str) -> SchedulerFacts {
    facts(Reading::unavailable(reason), online)
}

fn facts(turn_seconds: Reading<Sourced>, online: usize) -> SchedulerFacts {
    SchedulerFacts {
        turn_seconds,
        base_slice_seconds: os::sched::base_slice(os::here(), online),
        tick_seconds: match tick_ns() {
            Some(tick) => Reading::Value(Sourced {
                value: tick as f64 / 1e9,
                source: "resolution of CLOCK_MONOTONIC_COARSE".into(),
            }),
            None => Reading::unavailable("there is no CLOCK_MONOTONIC_COARSE"),
        },
        plain_switch_microseconds: Reading::unavailable("not measured"),
    }
}

/// Turns of two threads on `cpu`, and the nanoseconds that they took; `None` where
/// threads cannot be put there.
fn share(cpu: usize) -> Option<(u64, u64)> {
    let shared = Arc::new(Shared {
        last: AtomicUsize::new(0),
        switches: AtomicU64::new(0),
        first_ns: AtomicU64::new(0),
        last_ns: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let threads = [1, 2].map(|number| {
        let shared = shared.clone();
        let thread = std::thread::Builder::new();
        thread.spawn(move || take_turns(cpu, number, &shared))
    });
    sleep(LENGTH);
    shared.stop.store(true, Relaxed);
    let mut moved = true;
    for thread in threads {
        moved &= thread.is_ok_and(|thread| thread.join().unwrap_or(false));
    }
    let turns = shared.switches.load(Relaxed).saturating_sub(1);
    let took = shared.last_ns.load(Relaxed) - shared.first_ns.load(Relaxed);
    moved.then_some((turns, took))
}

/// Spins and notes when the other one ran in between. Whether it could be put on
/// the CPU.
fn take_turns(cpu: usize, number: usize, shared: &Shared) -> bool {
    if set_affinity(0, &[cpu]).is_err() {
        return false;
    }
    while !shared.stop.load(Relaxed) {
        if shared.last.load(Relaxed) == number {
            jostle_kernels::spin::spin(20);
            continue;
        }
        let now = monotonic_ns();
        shared.last.store(number, Relaxed);
        if shared.switches.fetch_add(1, Relaxed) == 0 {
            shared.first_ns.store(now, Relaxed);
        }
        shared.last_ns.store(now, Relaxed);
    }
    true
}

fn turn(parts: &[Option<(u64, u64)>], cpu: usize) -> Reading<Sourced> {
    let (mut turns, mut took_ns) = (0, 0);
    for part in parts {
        let Some((more, took)) = part else {
            return Reading::unavailable(format!("threads cannot be put on CPU {cpu}"));
        };
        turns += more;
        took_ns += took;
    }
    match turns < FEWEST {
        true => Reading::unavailable(format!(
            "two busy threads took {turns} turns on CPU {cpu} in {} ms, {FEWEST} are needed",
            LENGTH.as_millis() * parts.len() as u128
        )),
        false => Reading::Value(Sourced {
            value: took_ns as f64 / turns as f64 / 1e9,
            source: format!("{turns} turns of two busy threads on CPU {cpu}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_from_all_parts_or_there_is_a_reason() {
        let milliseconds = |turns: u64, each: u64| Some((turns, turns * each * 1_000_000));
        let found = turn(&[milliseconds(30, 2), milliseconds(15, 4)], 1);
        let mean = found.value().unwrap().value;
        assert!((mean - 0.12 / 45.0).abs() < 1e-9, "{found:?}");
        let few = turn(&[milliseconds(3, 2)], 1);
        assert!(few.reason().unwrap().contains("3 turns"));
        let refused = turn(&[milliseconds(30, 2), None], 1);
        assert!(refused.reason().unwrap().contains("CPU 1"));
    }

    #[test]
    fn two_threads_share_a_cpu_in_turns_of_milliseconds() {
        let cpus = crate::sys::cpus::affinity(0).unwrap();
        let found = measure(cpus[0], cpus.len());
        // Other work on the machine makes turns longer, not as long as this.
        let turn = found.turn_seconds.value().map(|turn| turn.value);
        assert!(
            turn.is_none_or(|turn| (1e-4..0.1).contains(&turn)),
            "{found:?}"
        );
        assert_ne!(found.turn_seconds.value(), None, "{found:?}");
    }
}
