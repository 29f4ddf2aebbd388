//! Asks for a number again and again while a window is open, from a thread of
//! its own.

use super::Context;
use super::StdoutKind;
use super::error::Reason;
use super::growth::Growth;
use crate::error::Result;
use crate::warning::Warning;
use jostle_host::sys::clock::monotonic_ns;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

/// One answer: when it was complete, and the number or why there is none.
type Answer = Result<f64, Reason>;

/// Asked for the number; the function it is given says whether the answer is no
/// longer wanted.
pub(super) type Ask = Box<dyn FnMut(&dyn Fn() -> bool) -> Answer + Send>;

#[derive(Default)]
struct State {
    /// Counts windows; odd while one is open.
    phase: u64,
    /// CLOCK_MONOTONIC nanoseconds and the number.
    readings: Vec<(u64, f64)>,
    /// Of the readings of all windows.
    growth: Growth,
    failure: Option<Reason>,
    over: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Poller {
    shared: Arc<Shared>,
}

impl Poller {
    /// Calls `ask` whenever a window is open, once every `interval` at most.
    pub(super) fn start(name: &str, interval: Duration, mut ask: Ask) -> Result<Poller> {
        let shared = Arc::<Shared>::default();
        let ours = shared.clone();
        let thread = std::thread::Builder::new().name("metric-poller".into());
        let spawned = thread.spawn(move || {
            loop {
                let idle = |state: &mut State| state.phase.is_multiple_of(2) && !state.over;
                let state = ours.changed.wait_while(ours.lock(), idle);
                let state = state.unwrap_or_else(PoisonError::into_inner);
                if state.over {
                    return;
                }
                let phase = state.phase;
                drop(state);
                let begin = Instant::now();
                let unwanted = || {
                    let state = ours.lock();
                    state.over || state.phase != phase
                };
                let answer = ask(&unwanted);
                let mut state = ours.lock();
                if state.phase != phase {
                    continue;
                }
                match answer {
                    Ok(number) => {
                        state.readings.push((monotonic_ns(), number));
                        state.growth.push(number);
                    }
                    Err(reason) => state.failure = Some(reason),
                }
                ours.changed.notify_all();
                let rest = interval.saturating_sub(begin.elapsed());
                let waits = |state: &mut State| state.phase == phase && !state.over;
                drop(ours.changed.wait_timeout_while(state, rest, waits));
            }
        });
        spawned.map_err(|error| Reason::Thread(error).failed(name))?;
        Ok(Poller { shared })
    }

    /// Opens a window: only what is asked from now on counts.
    pub(super) fn open(&self) {
        let mut state = self.shared.lock();
        state.phase += 1 + state.phase % 2;
        state.readings.clear();
        state.failure = None;
        self.shared.changed.notify_all();
    }

    /// What is to be said of all readings so far, if they were taken as levels.
    pub(super) fn warning(&self) -> Option<Warning> {
        self.shared.lock().growth.warning()
    }

    /// Closes the window once it holds `wanted` readings, and returns all.
    ///
    /// # Errors
    /// That of `alive`, asked now and then; what `ask` failed with; an
    /// interruption.
    pub(super) fn finish(
        &self,
        wanted: usize,
        alive: &mut dyn FnMut() -> Result<()>,
        context: &Context,
        name: &str,
    ) -> Result<Vec<(u64, f64)>> {
        let result = self.gather(wanted, alive, context, name);
        let mut state = self.shared.lock();
        state.phase += state.phase % 2;
        self.shared.changed.notify_all();
        drop(state);
        result
    }

    fn gather(
        &self,
        wanted: usize,
        alive: &mut dyn FnMut() -> Result<()>,
        context: &Context,
        name: &str,
    ) -> Result<Vec<(u64, f64)>> {
        loop {
            let lacks =
                |state: &mut State| state.readings.len() < wanted && state.failure.is_none();
            let tick = Duration::from_millis(20);
            let waited = self
                .shared
                .changed
                .wait_timeout_while(self.shared.lock(), tick, lacks);
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let failure = state.failure.take();
            let enough = state.readings.len() >= wanted;
            let readings = match enough {
                true => std::mem::take(&mut state.readings),
                false => Vec::new(),
            };
            drop(state);
            // That the target ended explains whatever else went wrong.
            alive()?;
            if let Some(reason) = failure {
                return Err(reason.failed(name));
            }
            if enough {
                return Ok(readings);
            }
            context.check_interrupt()?;
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
    }
}

/// What the readings of a window say: their mean, or their growth per second.
pub(super) fn summary(readings: &[(u64, f64)], kind: StdoutKind, name: &str) -> Result<f64> {
    let (Some(&(since, from)), Some(&(until, to))) = (readings.first(), readings.last()) else {
        return Err(Reason::NothingRead.failed(name));
    };
    match kind {
        StdoutKind::Value => {
            let sum: f64 = readings.iter().map(|(_, number)| number).sum();
            Ok(sum / readings.len() as f64)
        }
        StdoutKind::Rate if to < from => Err(Reason::WentDown { from, to }.wrong(name)),
        StdoutKind::Rate => {
            let seconds = until.saturating_sub(since).max(1) as f64 / 1e9;
            Ok((to - from) / seconds)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_asked_within_the_window_count() {
        let mut asked = 0.0;
        let ask: Ask = Box::new(move |_| {
            asked += 1.0;
            Ok(asked)
        });
        let poller = Poller::start("x", Duration::from_millis(1), ask).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        assert!(poller.shared.lock().readings.is_empty());
        let context = Context::default();
        poller.open();
        let first = poller.finish(2, &mut || Ok(()), &context, "x").unwrap();
        assert_eq!(first[0].1, 1.0);
        let asked = first.last().unwrap().1;
        std::thread::sleep(Duration::from_millis(30));
        poller.open();
        let second = poller.finish(1, &mut || Ok(()), &context, "x").unwrap();
        // At most the answer that nobody wanted any more lies between.
        assert!(second[0].1 <= asked + 2.0, "{second:?} after {asked}");
    }

    #[test]
    fn failures_are_told_and_levels_averaged() {
        let ask: Ask = Box::new(|_| Err(Reason::Probe("no luck".into())));
        let poller = Poller::start("x", Duration::from_millis(1), ask).unwrap();
        poller.open();
        let context = Context::default();
        let error = poller.finish(1, &mut || Ok(()), &context, "x").unwrap_err();
        assert_eq!(error.to_string(), "--metric x: no luck");
        poller.open();
        let mut ended = || Err(crate::error::Error::environment("it ended"));
        let error = poller.finish(1, &mut ended, &context, "x").unwrap_err();
        assert_eq!(error.to_string(), "it ended");
        let readings = [(0, 2.0), (1_000_000_000, 4.0), (2_000_000_000, 12.0)];
        assert_eq!(summary(&readings, StdoutKind::Value, "").unwrap(), 6.0);
        assert_eq!(summary(&readings, StdoutKind::Rate, "").unwrap(), 5.0);
        let back = [(0, 2.0), (1, 1.0)];
        assert!(summary(&back, StdoutKind::Rate, "").is_err());
        assert!(summary(&[], StdoutKind::Value, "").is_err());
    }
}
