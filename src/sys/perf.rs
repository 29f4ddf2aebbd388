//! Hardware counters of another process.

use perf_event::Builder;
use perf_event::Counter;
use perf_event::ReadFormat;
use perf_event::events::Event;
use perf_event::events::Hardware;
use std::io;

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
                Err(error) => return Err(reason(&error)),
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
    open(Hardware::INSTRUCTIONS, None)
        .err()
        .map(|error| reason(&error))
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

fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            "this machine shows no PMU (most virtual machines have none)".into()
        }
        Some(libc::EACCES | libc::EPERM) => {
            let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
                .unwrap_or_else(|_| "unreadable".into());
            format!(
                "no permission to count (perf_event_paranoid is {}; CAP_PERFMON, or a level of at most 2 for your own processes, would do)",
                level.trim()
            )
        }
        Some(libc::EMFILE) => {
            "too many threads for the limit on open files (raise `ulimit -n`)".into()
        }
        _ => format!("perf_event_open failed: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event::events::Software;

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
