//! Pauses on the real machine.

use super::bench::Arm;
use super::bench::Bench;
use super::bench::BenchError;
use super::bench::Pause;
use super::bench::REACHES;
use super::bench::Window;
use super::clocks::Clocks;
use super::clocks::Reading;
use crate::pairs;
use crate::pairs::Member;
use crate::workload::tree;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::clock::sleep_until;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Longest sleep between two looks at who has ended, nanoseconds.
const NAP_NS: u64 = 10_000_000;
/// Time after a pause that nothing is compared with: whoever was paused catches up.
const RECOVERY_NS: u64 = 10_000_000;
/// Times that a pause is put off because the victim was just started again.
const PUT_OFF: usize = 5;

pub(super) struct LiveBench<'a> {
    pub(super) victim: &'a mut Member,
    pub(super) candidates: &'a mut [Member],
    pub(super) placebo: &'a mut Member,
    pub(super) clocks: Clocks,
    pub(super) interrupt: Arc<AtomicBool>,
    /// End of the last pause.
    pub(super) resumed_ns: u64,
}

/// The victim at one moment.
#[derive(Clone, Copy, Default)]
struct Mark {
    at_ns: u64,
    count: u64,
    clocks: Reading,
}

impl Mark {
    fn since(&self, earlier: &Mark) -> Window {
        let seconds = |later: Option<u64>, earlier: Option<u64>| {
            Some(later?.saturating_sub(earlier?) as f64 / 1e9)
        };
        Window {
            work: self.count.saturating_sub(earlier.count) as f64,
            seconds: self.at_ns.saturating_sub(earlier.at_ns) as f64 / 1e9,
            cpu_seconds: seconds(self.clocks.cpu_ns, earlier.clocks.cpu_ns),
            waited_seconds: seconds(self.clocks.waited_ns, earlier.clocks.waited_ns),
        }
    }
}

impl LiveBench<'_> {
    fn mark(&mut self) -> Result<Mark, BenchError> {
        let began = monotonic_ns();
        let count = self.victim.count().map_err(of_victim)?.unwrap_or(0);
        let ended = monotonic_ns();
        Ok(Mark {
            at_ns: began + (ended - began) / 2,
            count,
            clocks: self.clocks.read(),
        })
    }

    /// Waits until `deadline_ns`; whether the victim was started again meanwhile.
    fn pass(&mut self, deadline_ns: u64) -> Result<bool, BenchError> {
        loop {
            if self.interrupt.load(Relaxed) {
                return Err(BenchError::Interrupted);
            }
            if self.keep_running()? {
                return Ok(true);
            }
            let now = monotonic_ns();
            if now >= deadline_ns {
                return Ok(false);
            }
            sleep_until(deadline_ns.min(now + NAP_NS));
        }
    }

    fn keep_running(&mut self) -> Result<bool, BenchError> {
        let restarted = self.victim.keep_running().map_err(of_victim)?;
        if restarted {
            self.clocks = Clocks::of(self.victim.target());
        }
        Ok(restarted)
    }

    /// The victim at the beginning of each window before the order, which is given
    /// `gap_ns` from now; and whether it kept being started again.
    fn before(&mut self, gap_ns: u64, pause_ns: u64) -> Result<([Mark; 3], bool), BenchError> {
        let mut since = self.resumed_ns + RECOVERY_NS;
        let mut order = monotonic_ns() + gap_ns;
        for _ in 0..PUT_OFF {
            let starts = REACHES.map(|reach| {
                let reach = (reach * pause_ns as f64) as u64;
                order.saturating_sub(reach).max(since)
            });
            let mut marks = [Mark::default(); REACHES.len()];
            let mut restarted = false;
            // The longest begins first.
            for (start, mark) in starts.iter().zip(&mut marks).rev() {
                restarted = restarted || self.pass(*start)?;
                *mark = self.mark()?;
            }
            if !restarted && !self.pass(order)? {
                return Ok((marks, false));
            }
            since = monotonic_ns() + RECOVERY_NS;
            let least = since + (REACHES[1] * pause_ns as f64) as u64;
            order = order.max(least);
        }
        Ok(([self.mark()?; REACHES.len()], true))
    }

    fn member(&mut self, arm: Arm) -> &mut Member {
        match arm {
            Arm::Placebo => self.placebo,
            Arm::Candidate(index) => &mut self.candidates[index],
        }
    }
}

impl Bench for LiveBench<'_> {
    fn now(&self) -> f64 {
        monotonic_ns() as f64 / 1e9
    }

    fn play(&mut self, arm: Arm, gap: f64, pause: f64) -> Result<Pause, BenchError> {
        let pause_ns = (pause * 1e9) as u64;
        let (marks, put_off) = self.before((gap * 1e9) as u64, pause_ns)?;
        let pid = self.member(arm).target().pid();
        if tree::stat(pid).is_some_and(|stat| stat.stopped()) {
            let reason = "somebody else stopped it; it is left so".to_string();
            return Err(BenchError::NotPaused(reason));
        }
        let order = self.mark()?;
        let order_ns = monotonic_ns();
        self.member(arm).set(false).map_err(of_candidate)?;
        let stands_ns = monotonic_ns();
        let paused = self.stand(pause_ns);
        let release_ns = monotonic_ns();
        // Whatever was read: first of all it goes on.
        self.member(arm).set(true).map_err(of_candidate)?;
        let goes_ns = monotonic_ns();
        self.resumed_ns = goes_ns;
        let [first, middle, last] = paused?;
        let spoiled = put_off || self.keep_running()?;
        let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
        Ok(Pause {
            before: marks.map(|mark| order.since(&mark)),
            paused: [middle.since(&first), last.since(&middle)],
            stop_seconds: seconds(order_ns, stands_ns),
            resume_seconds: seconds(release_ns, goes_ns),
            held_seconds: seconds(order_ns, goes_ns),
            spoiled,
        })
    }
}

impl LiveBench<'_> {
    /// The victim while somebody stands still: at the beginning, in the middle and
    /// at the end of a pause.
    fn stand(&mut self, pause_ns: u64) -> Result<[Mark; 3], BenchError> {
        let first = self.mark()?;
        sleep_until(first.at_ns + pause_ns / 2);
        let middle = self.mark()?;
        sleep_until(first.at_ns + pause_ns);
        Ok([first, middle, self.mark()?])
    }
}

fn of_victim(error: pairs::BenchError) -> BenchError {
    match error {
        pairs::BenchError::Interrupted => BenchError::Interrupted,
        other => BenchError::VictimEnded(other.to_string()),
    }
}

fn of_candidate(error: pairs::BenchError) -> BenchError {
    match error {
        pairs::BenchError::Interrupted => BenchError::Interrupted,
        pairs::BenchError::Ended { reason, .. } => BenchError::Ended(reason),
        pairs::BenchError::NotPaused { reason, .. } => BenchError::NotPaused(reason),
    }
}
