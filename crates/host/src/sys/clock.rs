//! Clocks, in nanoseconds.

use nix::sys::time::TimeSpec;
use nix::time::ClockId;
use nix::time::ClockNanosleepFlags;
use nix::time::clock_getcpuclockid;
use nix::time::clock_getres;
use nix::time::clock_gettime;
use nix::time::clock_nanosleep;
use nix::unistd::Pid;
use std::time::Duration;
use std::time::SystemTime;

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("this clock exists on every Linux");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Nanoseconds of CLOCK_MONOTONIC: the same in every process of the machine.
pub fn monotonic_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// CPU time the calling thread has used, nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time the calling process has used, nanoseconds.
pub fn process_cpu_ns() -> u64 {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time that all threads of process `pid` have used, the ended ones too,
/// nanoseconds; `None` when it is gone.
pub fn cpu_ns_of(pid: i32) -> Option<u64> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid)).ok()?;
    let time = clock_gettime(clock).ok()?;
    Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Nanoseconds from one tick of the kernel to the next: the resolution of the clock
/// that only the tick moves.
pub fn tick_ns() -> Option<u64> {
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).ok()?;
    Some(tick.tv_sec() as u64 * 1_000_000_000 + tick.tv_nsec() as u64)
}

/// Sleeps until CLOCK_MONOTONIC reaches `deadline_ns`; returns early on a
/// signal, and at once where that has passed: the kernel would start a timer and give
/// the CPU away, which takes 60 µs in a 2-vCPU VM.
pub fn sleep_until(deadline_ns: u64) {
    if monotonic_ns() >= deadline_ns {
        return;
    }
    let deadline = TimeSpec::from(Duration::from_nanos(deadline_ns));
    let until = ClockNanosleepFlags::TIMER_ABSTIME;
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, until, &deadline);
}

/// A moment in UTC to the second, as RFC 3339 writes it; none before 1970.
pub fn rfc3339(moment: SystemTime) -> String {
    let moment = moment.max(SystemTime::UNIX_EPOCH);
    humantime::format_rfc3339_seconds(moment).to_string()
}

/// Minutes since midnight, local time; `None` where that is not known.
pub fn local_minute(moment: SystemTime) -> Option<u32> {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let seconds: libc::time_t = since.as_secs().try_into().ok()?;
    let mut parts = std::mem::MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are valid for the call, which fills `parts` unless it
    // returns null.
    let parts = unsafe {
        if libc::localtime_r(&seconds, parts.as_mut_ptr()).is_null() {
            return None;
        }
        parts.assume_init()
    };
    Some(parts.tm_hour as u32 * 60 + parts.tm_min as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_civil() {
        let at = |seconds| rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(at(1_795_233_600), "2026-11-21T04:00:00Z");
    }
}
