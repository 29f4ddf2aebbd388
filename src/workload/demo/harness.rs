//! Runs a demo: loops, paces, publishes.

use super::Clock;
use super::Demo;
use super::DemoContext;
use crate::error::Error;
use crate::error::Result;
use crate::sys::clock::monotonic_ns;
use crate::sys::clock::process_cpu_ns;
use crate::sys::clock::sleep_until;
use crate::sys::pages::ProgressPage;
use crate::sys::shared::SharedPage;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::Release;
use std::time::Duration;

/// Most time by which an open-loop demo tries to catch up after it was held.
const MOST_DEBT: Duration = Duration::from_millis(50);

/// How long a demo rests whose device or peer is gone.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);

/// Runs `demo` until the process is killed, or for `limit`.
///
/// # Errors
/// An environment error when it cannot run here.
pub fn run(demo: &Demo, context: &DemoContext, limit: Option<Duration>) -> Result<()> {
    let page: SharedPage<ProgressPage> = SharedPage::create(ProgressPage::NAME)
        .map_err(|error| Error::environment(format!("cannot share a progress page: {error}")))?;
    page.version.store(ProgressPage::VERSION, Relaxed);
    let clock = match demo.clock {
        Clock::Wall => ProgressPage::CLOCK_WALL,
        Clock::Cpu => ProgressPage::CLOCK_CPU,
    };
    page.clock.store(clock, Relaxed);
    let mut batch = (demo.build)(context)?;
    // The first batch takes what only the first one costs.
    batch();
    let origin = process_cpu_ns();
    let started = monotonic_ns();
    page.magic.store(ProgressPage::MAGIC, Release);
    let pace = demo.pace.map(|pace| pace.as_nanos() as u64);
    let mut due = started;
    let mut operations = 0u64;
    loop {
        if let Some(pace) = pace {
            due = next_due(due, pace, monotonic_ns());
            sleep_until(due);
        }
        operations = operations.wrapping_add(batch());
        // Wall time is the reader's own. The clock is read before either store:
        // whoever takes the CPU in between almost never parts the two.
        match demo.clock {
            Clock::Wall => page.operations.store(operations, Release),
            Clock::Cpu => {
                let busy_ns = process_cpu_ns() - origin;
                page.operations.store(operations, Release);
                page.busy_ns.store(busy_ns, Release);
            }
        }
        if limit.is_some_and(|limit| monotonic_ns() - started >= limit.as_nanos() as u64) {
            return Ok(());
        }
    }
}

fn next_due(last: u64, pace: u64, now: u64) -> u64 {
    (last + pace).max(now.saturating_sub(MOST_DEBT.as_nanos() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debt_is_bounded() {
        let second = 1_000_000_000;
        assert_eq!(next_due(second, 1000, second), second + 1000);
        assert_eq!(next_due(second, 1000, second + 50_000), second + 1000);
        assert_eq!(next_due(second, 1000, 3 * second), 3 * second - 50_000_000);
    }
}
