//! What the target uses while nothing interferes with it: read in windows
//! without interference and, so that this time is spread over the measurement,
//! in short pauses between rounds.

use super::LiveExecutor;
use crate::experiment::counting::Counting;
use crate::experiment::executor::WindowError;
use crate::usage::Meter;
use crate::usage::Part;
use crate::usage::Totals;
use crate::usage::Track;
use crate::workload::Target;
use jostle_host::sys::clock::monotonic_ns;
use std::time::Duration;

/// Shortest part of time that is read by itself.
const PART: Duration = Duration::from_millis(50);
/// After a round a target that has a rate to keep catches up on what it could
/// not do.
const SETTLE: Duration = Duration::from_millis(150);
/// What is read after that, in parts.
const READ: Duration = Duration::from_millis(150);
/// Share of the measurement that such pauses may take, and when the first comes.
const PAUSES: f64 = 0.04;
const FIRST: Duration = Duration::from_secs(3);
/// Reading memory may take this share of the time: of several processes the
/// kernel walks through all page tables.
const MEMORY_SHARE: u64 = 100;
/// Longest sleep until a command that has ended is started again.
const NAP: Duration = Duration::from_millis(20);
/// Counters that tell what a target uses.
const COUNTERS: [&str; 4] = [
    "memory-bandwidth-total",
    "llc-occupancy",
    "instructions",
    "branches",
];

pub(super) struct Quiet {
    meter: Meter,
    track: Track,
    /// Begin of the part under way.
    open: Option<(u64, Totals)>,
    /// Runs of the target that had ended then.
    ended_runs: u64,
    /// Spent in pauses so far.
    paused: Duration,
    /// From when on memory may be read again.
    memory_ns: u64,
}

impl Quiet {
    pub(super) fn new(meter: Meter) -> Quiet {
        Quiet {
            meter,
            track: Track::default(),
            open: None,
            ended_runs: 0,
            paused: Duration::ZERO,
            memory_ns: 0,
        }
    }

    /// A time without interference begins, or goes on.
    pub(super) fn begin(&mut self, target: &Target) {
        if self.open.is_none() {
            self.ended_runs = target.ended_runs();
            self.meter.follow(&target.scope());
            let totals = self.meter.totals();
            self.track.reached(&totals);
            self.open = Some((monotonic_ns(), totals));
        }
    }

    /// It has lasted until now; a part of time that is long enough is kept.
    pub(super) fn reached(&mut self, target: &mut Target) {
        let now = monotonic_ns();
        let Some((begun, from)) = &self.open else {
            return;
        };
        if now - begun < PART.as_nanos() as u64 {
            return;
        }
        // Seen to have ended, it is yet to be started again.
        let over = target.wait(Duration::ZERO).is_some();
        let ended = over || target.ended_runs() != self.ended_runs;
        self.meter.follow(&target.scope());
        let to = self.meter.totals();
        let part = Part::between(from, &to);
        match ended {
            true => self.track.push_across_an_end(part),
            false => self.track.push(part),
        }
        // The next part may begin while nothing runs, and is not within a run either.
        self.ended_runs = if over { u64::MAX } else { target.ended_runs() };
        self.track.reached(&to);
        self.open = Some((now, to));
        self.note(Track::note);
    }

    /// Reads memory, if that may be done again.
    fn note(&mut self, what: fn(&mut Track, &Meter)) {
        let now = monotonic_ns();
        if now >= self.memory_ns {
            what(&mut self.track, &self.meter);
            let took = monotonic_ns() - now;
            self.memory_ns = now + took * MEMORY_SHARE;
        }
    }

    /// Something interferes from now on.
    pub(super) fn interrupt(&mut self) {
        self.open = None;
    }

    /// Keeps what was counted in a window without interference.
    pub(super) fn count(&mut self, counting: &Counting, values: &[Option<f64>], length: Duration) {
        for (name, value) in counting.names().zip(values) {
            if let (true, Some(value)) = (COUNTERS.contains(&name), value) {
                self.track.count(name, *value, length.as_secs_f64());
            }
        }
    }

    /// Whether the pauses so far are fewer than `elapsed` allows.
    fn is_due(&self, elapsed: Duration) -> bool {
        let since = elapsed.checked_sub(FIRST);
        since.is_some_and(|since| self.paused <= since.mul_f64(PAUSES))
    }
}

impl LiveExecutor<'_> {
    /// Has what the target uses read by `meter` from now on.
    pub fn watch_use(&mut self, meter: Meter) {
        self.quiet = Some(Quiet::new(meter));
    }

    /// As [`Track::touched_within`], so far.
    pub(super) fn touched(&self, time: Duration) -> Option<f64> {
        self.quiet.as_ref()?.track.touched_within(time)
    }

    /// What was read of what the target uses.
    pub fn usage(&mut self) -> Option<Track> {
        let quiet = self.quiet.take()?;
        let mut track = quiet.track;
        track.finish();
        for (name, facts) in self.counters() {
            if let Some(reason) = facts.reason() {
                track.cannot_count(&name, reason);
            }
        }
        Some(track)
    }

    /// Pauses before a round, where that is due, and reads what the target uses
    /// meanwhile.
    pub(super) fn pause_for_use(&mut self) -> Result<(), WindowError> {
        let elapsed = Duration::from_nanos(monotonic_ns() - self.start_ns);
        let Some(quiet) = &mut self.quiet else {
            return Ok(());
        };
        // What comes next is played beside sources, with a pause or without.
        quiet.interrupt();
        if !quiet.is_due(elapsed) {
            quiet.meter.follow(&self.target.scope());
            quiet.note(Track::note_disturbed);
            return Ok(());
        }
        self.put_down()?;
        self.rest(SETTLE)?;
        if let Some(quiet) = &mut self.quiet {
            quiet.begin(self.target);
        }
        for _ in 0..READ.as_nanos() / PART.as_nanos() {
            self.rest(PART)?;
            if let Some(quiet) = &mut self.quiet {
                quiet.reached(self.target);
            }
        }
        if let Some(quiet) = &mut self.quiet {
            quiet.interrupt();
            quiet.paused += READ + SETTLE;
        }
        Ok(())
    }

    /// Lets the target run, a command that has ended again.
    fn rest(&mut self, length: Duration) -> Result<(), WindowError> {
        if !self.metric.restarts() {
            return self.pause(length, true);
        }
        let until = monotonic_ns() + length.as_nanos() as u64;
        loop {
            let left = until.saturating_sub(monotonic_ns());
            if self.interrupted() {
                return Err(WindowError::Interrupted);
            }
            if left == 0 {
                return Ok(());
            }
            self.target.wait(NAP.min(Duration::from_nanos(left)));
            self.keep_running()?;
        }
    }
}
