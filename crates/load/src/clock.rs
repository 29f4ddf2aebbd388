//! Time, and what the generator's own thread is allowed.

use nix::sched::CpuSet;
use nix::sched::sched_setaffinity;
use nix::sys::time::TimeSpec;
use nix::time::ClockId;
use nix::time::clock_gettime;
use nix::unistd::Pid;

/// Nanoseconds of CLOCK_MONOTONIC: the same in every process of the machine.
pub(crate) fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC);
    nanoseconds(time.expect("this clock exists on every Linux"))
}

pub(crate) fn nanoseconds(time: TimeSpec) -> u64 {
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// CPU time the calling thread has used, nanoseconds.
#[cfg(test)]
pub(crate) fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap())
}

/// Restricts the calling thread to `cpus`.
pub(crate) fn pin(cpus: &[usize]) -> nix::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu)?;
    }
    sched_setaffinity(Pid::from_raw(0), &set)
}
