//! Hardware counters, of ourselves and of other processes, and why one cannot
//! be opened, in words.

use perf_event::Builder;
use perf_event::Counter;
use perf_event::ReadFormat;
use perf_event::events::Event;
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
        Some(libc::EACCES | libc::EPERM) => format!(
            "hardware counters are forbidden: kernel.perf_event_paranoid is {paranoid}; set it to \
             2 or lower (sysctl -w kernel.perf_event_paranoid=2), grant CAP_PERFMON, or, in a \
             container, allow perf_event_open in its seccomp profile"
        ),
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

/// Instructions that processes retire in user mode, children included.
pub struct Instructions {
    counters: Vec<Counter>,
}

impl Instructions {
    /// Counts the threads `threads`, and what they start from now on.
    ///
    /// # Errors
    /// Why counting is impossible, in words.
    pub fn open(threads: &[i32]) -> Result<Instructions, String> {
        Self::counting(Hardware::INSTRUCTIONS, threads)
    }

    fn counting(event: impl Event + Clone, threads: &[i32]) -> Result<Instructions, String> {
        let mut counters = Vec::with_capacity(threads.len());
        for &thread in threads {
            match open(event.clone(), Some(thread)) {
                Ok(counter) => counters.push(counter),
                // A thread may end between being listed and being opened.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(explain_open_error(&error, &paranoid())),
            }
        }
        match counters.is_empty() {
            true => Err("the process has ended".into()),
            false => Ok(Instructions { counters }),
        }
    }

    /// Instructions since opening, scaled up where the counter had to take
    /// turns with others.
    pub fn read(&mut self) -> io::Result<f64> {
        let mut total = 0.0;
        for counter in &mut self.counters {
            let data = counter.read_full()?;
            let enabled = data.time_enabled().unwrap_or_default().as_nanos() as f64;
            let running = data.time_running().unwrap_or_default().as_nanos() as f64;
            if running > 0.0 {
                total += data.count() as f64 * enabled / running;
            }
        }
        Ok(total)
    }
}

/// Why instructions cannot be counted here, or nothing when they can.
pub fn why_no_instructions() -> Option<String> {
    count_own_instructions(&paranoid()).err()
}

fn open(event: impl Event, thread: Option<i32>) -> io::Result<Counter> {
    let mut builder = Builder::new(event);
    match thread {
        Some(thread) => builder.observe_pid(thread),
        None => builder.observe_self(),
    };
    builder
        .any_cpu()
        .inherit(true)
        .enabled(true)
        .read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING)
        .build()
}

pub(crate) fn paranoid() -> String {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .map_or_else(|_| "unreadable".into(), |level| level.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event::events::Software;

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

    /// The same path with an event that needs no PMU.
    #[test]
    fn another_process_and_its_children_are_counted() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "while :; do (:); done"])
            .spawn()
            .unwrap();
        let counters = Instructions::counting(Software::TASK_CLOCK, &[child.id() as i32]);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let counted = counters.map(|mut counters| {
            loop {
                let count = counters.read().unwrap();
                if count > 0.0 || std::time::Instant::now() > deadline {
                    return count;
                }
            }
        });
        child.kill().unwrap();
        child.wait().unwrap();
        match counted {
            Ok(count) => assert!(count > 0.0),
            Err(reason) => println!("skipped: {reason}"),
        }
    }
}
