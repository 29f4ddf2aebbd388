//! Several functions counted at once by probes, each with the time of every call: in whole
//! runs of a command, or for a while.
//!
//! Breakpoints see four functions for a moment. What they are called later in a run, and
//! whether other runs call them at the same places, is seen only here.

use super::candidates::Candidate;
use super::trial::Busy;
use super::trial::Trace;
use crate::metric::Context;
use crate::metric::counted::Counters;
use crate::metric::error::Reason;
use crate::workload::Target;
use jostle_host::os::cpulist;
use jostle_host::os::here;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::probe;
use std::collections::BTreeSet;
use std::time::Duration;
use std::time::Instant;

/// How often the calls are taken out of the rings.
const TAKEN: Duration = Duration::from_millis(5);

/// What was seen without a break.
pub(super) struct Stretch {
    /// Of each candidate, in their order; without windows where there were far too many calls.
    pub traces: Vec<Trace>,
    /// Whether the target ended with it.
    pub ended: bool,
    /// Of each candidate, whether nobody but the target was seen to call it on its CPUs, until
    /// then; not where these were not watched.
    pub alone: Vec<bool>,
}

impl Stretch {
    /// Whether all are called far too often.
    pub(super) fn is_given_up(&self) -> bool {
        self.traces.iter().all(|trace| trace.windows.is_empty())
    }

    /// The same, or it was long enough to see that they are called far too rarely.
    pub(super) fn is_hopeless(&self) -> bool {
        if self.is_given_up() {
            return true;
        }
        let length = self.length();
        let rate = |trace: &Trace| trace.times.len() as f64 / length;
        length > LONG_ENOUGH && self.traces.iter().all(|trace| rate(trace) < FAR_TOO_FEW)
    }

    /// In seconds.
    pub(super) fn length(&self) -> f64 {
        let windows = self.traces.iter().map(|trace| &trace.windows);
        let longest = windows.max_by_key(|windows| windows.len());
        longest.map_or(0.0, |windows| {
            windows.iter().map(|window| window.seconds).sum()
        })
    }
}

/// Calls per second from which on a candidate is given up: it slows the target down, which
/// others would be judged by. What is rare at one time may be so frequent at another.
const FAR_TOO_MANY: f64 = 60_000.0;
/// Calls per second of one that is of no use, once it was seen for so long, in seconds.
const FAR_TOO_FEW: f64 = 60.0;
const LONG_ENOUGH: f64 = 0.3;
/// As many as in this time more are no harm.
const BURST: Duration = Duration::from_millis(50);

/// Counters on all CPUs of the target where those are not more, even if it has fewer threads:
/// there they see what a thread does from its begin.
const FEW_CPUS: usize = 4;
/// Most counters.
const MOST_COUNTERS: usize = 32;

/// What counts the candidates.
pub(super) struct Proof<'a> {
    context: &'a Context,
    /// Of each, in their order.
    counters: Vec<Counters>,
    given_up: Vec<bool>,
    /// On CLOCK_MONOTONIC, in nanoseconds: what was counted before is left out.
    since: u64,
    /// Whether the CPUs are watched and nobody but the target was seen to call each there.
    alone: Vec<bool>,
}

impl<'a> Proof<'a> {
    /// Counts `candidates`, or the first of them: on the CPUs of `target`, whoever calls them
    /// there, or in its threads where those are fewer. Each counter takes some 80 ms to close,
    /// in which none can be opened, so that there must not be many.
    ///
    /// # Errors
    /// Why one cannot be counted.
    pub(super) fn begin(
        candidates: &[&Candidate],
        target: &Target,
        context: &'a Context,
    ) -> Result<Proof<'a>, Reason> {
        let cpus = match target.cpus() {
            Ok(cpus) if !cpus.is_empty() => cpus,
            _ => cpulist::online(here()).map_err(|error| Reason::Probe(error.to_string()))?,
        };
        let scope = target.scope();
        let threads = scope.threads().len();
        let on_cpus = cpus.len() <= threads.max(FEW_CPUS);
        let places = if on_cpus { cpus.len() } else { threads };
        let most = (MOST_COUNTERS / places.max(1)).max(1);
        let events = candidates.iter().map(|candidate| candidate.call().event());
        let counters = events.take(most).map(|event| match on_cpus {
            true => Counters::on(&cpus, vec![event]),
            false => Counters::in_threads(&scope, vec![event], true),
        });
        let counters: Vec<Counters> = counters.collect::<Result<_, Reason>>()?;
        Ok(Proof {
            context,
            given_up: vec![false; counters.len()],
            alone: vec![on_cpus; counters.len()],
            counters,
            since: monotonic_ns(),
        })
    }

    /// Leaves out what was counted so far.
    pub(super) fn forget(&mut self) {
        for counters in &mut self.counters {
            counters.forget_log();
        }
        self.since = monotonic_ns();
    }

    /// Counts until the target ends, for `longest` at most, with what was counted since
    /// [`Proof::forget`].
    ///
    /// # Errors
    /// An interruption.
    pub(super) fn stretch(
        &mut self,
        target: &mut Target,
        longest: Duration,
    ) -> crate::error::Result<Stretch> {
        let mut times = vec![Vec::new(); self.counters.len()];
        let mut threads: Vec<i32> = Vec::new();
        let (mut clock, mut before) = (Busy::of(std::iter::empty()), 0.0);
        let began = Instant::now();
        let mut ends = vec![(self.since, 0.0)];
        let mut own = BTreeSet::new();
        let mut ended = false;
        while !ended && began.elapsed() < longest && self.given_up.contains(&false) {
            self.context.check_interrupt()?;
            own.extend(target.scope().processes());
            let now = target.scope().threads();
            if now != threads {
                before += clock.seconds();
                clock = Busy::of(now.iter().copied());
                threads = now;
            }
            let counted = self.counters.iter_mut().zip(&mut self.given_up);
            for (counters, given_up) in counted.filter(|(_, given_up)| !**given_up) {
                // A thread may be new.
                *given_up = counters.look(&target.scope()).is_err();
            }
            ended = target.wait(TAKEN).is_some();
            let most = FAR_TOO_MANY * (began.elapsed() + BURST).as_secs_f64();
            for (at, counters) in self.counters.iter_mut().enumerate() {
                times[at].extend(
                    counters
                        .moments()
                        .map_or(Vec::new(), |moments| moments.times),
                );
                self.given_up[at] |= !counters.is_logged() || times[at].len() as f64 > most;
                if self.given_up[at] {
                    probe::close_later(std::mem::take(&mut counters.open));
                }
            }
            ends.push((monotonic_ns(), before + clock.seconds()));
        }
        for (alone, counters) in self.alone.iter_mut().zip(&self.counters) {
            *alone &= counters.callers().all(|pid| own.contains(&pid));
        }
        let traces = times.into_iter().zip(&self.given_up);
        let traces = traces.map(|(times, given_up)| match given_up {
            true => Trace::default(),
            false => Trace::of(times, &ends),
        });
        Ok(Stretch {
            traces: traces.collect(),
            ended,
            alone: self.alone.clone(),
        })
    }
}

impl Drop for Proof<'_> {
    fn drop(&mut self) {
        // Each takes some 80 ms.
        let open = self
            .counters
            .iter_mut()
            .map(|counters| std::mem::take(&mut counters.open));
        probe::close_later(open.flatten().collect());
    }
}
