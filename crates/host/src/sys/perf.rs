//! Hardware counters, of ourselves and of other processes, and why one cannot
//! be opened, in words.

use crate::os::here;
use crate::os::text;
use perf_event::Builder;
use perf_event::events::Hardware;
use std::io;

/// Instructions of this thread over a short piece of work: proof that the
/// hardware counts.
///
/// # Errors
/// Why there is no such counter, and what to change when that is in the user's
/// hands. `paranoid` is the text of `kernel.perf_event_paranoid`, for the words.
pub fn count_own_instructions(paranoid: &str) -> Result<u64, String> {
    let explain = |error: io::Error| explain_open_error(&error, paranoid);
    let mut counter = Builder::new(Hardware::INSTRUCTIONS)
        .build()
        .map_err(explain)?;
    counter.enable().map_err(explain)?;
    let mut sum = 0u64;
    for i in 0..1000u64 {
        sum = std::hint::black_box(sum.wrapping_add(i));
    }
    counter.disable().map_err(explain)?;
    match counter.read().map_err(explain)? {
        // Some hypervisors let the event be opened and then never count.
        0 => Err("a hardware counter opens but counts nothing".to_string()),
        count => Ok(count),
    }
}

/// What a failed `perf_event_open` of a hardware event means, in words.
pub fn explain_open_error(error: &io::Error, paranoid: &str) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "the kernel has no hardware counters to offer, as usual in a virtual machine \
             without a virtual PMU"
                .to_string()
        }
        Some(libc::EACCES | libc::EPERM) => forbidden(paranoid),
        Some(libc::ENOSYS) => {
            "this kernel or sandbox has no perf_event_open system call".to_string()
        }
        Some(libc::EMFILE) => {
            "too many open files for another counter: raise `ulimit -n`".to_string()
        }
        Some(libc::EBUSY) => "another user holds the hardware counters exclusively".to_string(),
        _ => format!("perf_event_open failed: {error}"),
    }
}

fn forbidden(paranoid: &str) -> String {
    // Up to 2 the kernel itself lets everyone count their own programs in user
    // mode, so somebody else forbids it.
    match paranoid.trim().parse::<i32>() {
        Ok(level) if level <= 2 => format!(
            "hardware counters are forbidden though kernel.perf_event_paranoid is {level}: in a \
             container, allow perf_event_open in its seccomp profile (or --cap-add PERFMON); \
             elsewhere grant CAP_PERFMON, or look for a security module that refuses"
        ),
        _ => format!(
            "hardware counters are forbidden: kernel.perf_event_paranoid is {paranoid}; set it to \
             2 or lower (sysctl -w kernel.perf_event_paranoid=2), grant CAP_PERFMON, or, in a \
             container, allow perf_event_open in its seccomp profile"
        ),
    }
}

/// Why instructions cannot be counted here, or nothing when they can.
pub fn why_no_instructions() -> Option<String> {
    count_own_instructions(&paranoid()).err()
}

/// `kernel.perf_event_paranoid` as the kernel writes it.
pub fn paranoid() -> String {
    text::text(here(), "proc/sys/kernel/perf_event_paranoid")
        .unwrap_or_else(|_| "unreadable".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_errno_is_explained() {
        let words = |errno| explain_open_error(&io::Error::from_raw_os_error(errno), "4");
        assert!(words(libc::ENOENT).contains("virtual PMU"));
        assert!(words(libc::EOPNOTSUPP).contains("virtual PMU"));
        assert!(words(libc::EACCES).contains("perf_event_paranoid is 4"));
        assert!(words(libc::EPERM).contains("CAP_PERFMON"));
        assert!(words(libc::ENOSYS).contains("system call"));
        assert!(words(libc::EINVAL).contains("perf_event_open failed"));
    }

    #[test]
    fn counting_answers_either_way() {
        match count_own_instructions("2") {
            Ok(count) => assert!(count >= 1000, "{count}"),
            Err(reason) => assert!(!reason.is_empty()),
        }
    }
}
