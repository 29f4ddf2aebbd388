//! Runs a demo: loops, paces, publishes.

use super::Clock;
use super::Demo;
use super::DemoContext;
use super::Share;
use crate::error::Error;
use crate::error::Result;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::clock::process_cpu_ns;
use jostle_host::sys::clock::sleep_until;
use jostle_host::sys::pages::ProgressPage;
use jostle_host::sys::shared::SharedPage;
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
    let mut hold = context.share.map(|share| Hold {
        share,
        begun_ns: started,
        origin_ns: origin,
    });
    loop {
        if let Some(pace) = pace {
            due = next_due(due, pace, monotonic_ns());
            sleep_until(due);
        }
        if let Some(hold) = &mut hold
            && let Some(due) = hold.due(operations, process_cpu_ns(), monotonic_ns())
        {
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

/// Keeps a demo at its share.
struct Hold {
    share: Share,
    /// When it would have begun, had nothing held it up since.
    begun_ns: u64,
    /// Its CPU time then.
    origin_ns: u64,
}

impl Hold {
    /// A sleep that is shorter is not worth it.
    const AHEAD_NS: u64 = 1_000_000;

    /// From when on the next batch is due after so many operations and so much CPU
    /// time; `None`: at once.
    fn due(&mut self, operations: u64, busy_ns: u64, now: u64) -> Option<u64> {
        let wanted = match self.share {
            Share::OfTime(part) => busy_ns.saturating_sub(self.origin_ns) as f64 / part,
            Share::Rate(rate) => operations as f64 / rate * 1e9,
        };
        let due = self.begun_ns + wanted as u64;
        // What was held for longer is not caught up on.
        let latest = now.saturating_sub(MOST_DEBT.as_nanos() as u64);
        self.begun_ns += latest.saturating_sub(due);
        (due > now + Self::AHEAD_NS).then_some(due)
    }
}

fn next_due(last: u64, pace: u64, now: u64) -> u64 {
    (last + pace).max(now.saturating_sub(MOST_DEBT.as_nanos() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_kept_and_what_was_lost_is_not_made_up_for() {
        let hold = |share| Hold {
            share,
            begun_ns: 0,
            origin_ns: 0,
        };
        let mut time = hold(Share::OfTime(0.25));
        // 5 ms of CPU time are due 20 ms after the begin.
        assert_eq!(time.due(0, 5_000_000, 6_000_000), Some(20_000_000));
        assert_eq!(time.due(0, 5_000_000, 19_500_000), None);
        let mut rate = hold(Share::Rate(1000.0));
        assert_eq!(rate.due(10, 0, 0), Some(10_000_000));
        // Stopped for a second, of which 50 ms are caught up on.
        assert_eq!(rate.due(10, 0, 1_010_000_000), None);
        assert_eq!(rate.due(70, 0, 1_010_000_000), Some(1_020_000_000));
    }

    #[test]
    fn debt_is_bounded() {
        let second = 1_000_000_000;
        assert_eq!(next_due(second, 1000, second), second + 1000);
        assert_eq!(next_due(second, 1000, second + 50_000), second + 1000);
        assert_eq!(next_due(second, 1000, 3 * second), 3 * second - 50_000_000);
    }
}
