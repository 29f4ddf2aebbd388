//! `progress:auto`: finds a function whose calls tell how fast an unmodified
//! program gets on.
//!
//! Samples by the software clock say where the program is and what called it;
//! breakpoints of the CPU count each candidate for some milliseconds; the best
//! ones are looked at for longer. Needs neither symbols nor a PMU.

mod candidates;
mod image;
mod steady;
mod trial;

pub(super) use steady::Look;
pub(super) use steady::Window;
pub(super) use trial::Busy;
pub(super) use trial::uneven;

use super::Context;
use super::error::Reason;
use crate::error::Result;
use crate::sys::probe;
use crate::sys::probe::BREAKPOINTS;
use crate::sys::sampling::SoftwareClock;
use crate::workload::State;
use crate::workload::Target;
use candidates::Candidate;
use candidates::Seen;
use std::path::Path;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;
use steady::Refusal;
use trial::Field;
use trial::Windows;

/// A program that was just started loads its libraries and reads its input
/// first.
const SETTLING: Duration = Duration::from_millis(200);
/// Shortest run of a command that is looked into: counting within the run says
/// little where starting takes most of it.
pub(super) const SHORTEST_RUN: Duration = Duration::from_millis(150);
/// Samples: one per this much CPU time, for that long.
const PERIOD: Duration = Duration::from_micros(700);
const SAMPLED: Duration = Duration::from_millis(200);
/// Fewest samples that say where a program spends its time.
const FEWEST_SAMPLES: usize = 12;
/// How often all of it is tried, with the pauses in between: programs have
/// phases.
const ATTEMPTS: u32 = 3;
/// How often each candidate gets a glance: one that is called in a part of the
/// time only must not be missed.
const GLANCES: usize = 2;
/// Second look at the best ones.
const SECOND: (usize, Duration) = (40, Duration::from_millis(4));
/// Groups of candidates that get the second look.
const SECOND_GROUPS: usize = 3;
/// Rates at a glance for which the second is worthwhile, per second.
const PROMISING: std::ops::RangeInclusive<f64> = 200.0..=80_000.0;

/// A function that would serve, best first.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub file: PathBuf,
    /// Symbol, or address as `0x…`.
    pub symbol: String,
    /// What is probed, from the beginning of the file.
    pub offset: u64,
    /// What one call costs.
    pub each: Duration,
    pub look: Look,
    /// How many functions were counted.
    pub tried: usize,
}

/// What a probe costs on a cheap instruction and on others, and a breakpoint.
#[derive(Clone, Copy, Debug)]
struct Costs {
    push: Duration,
    other: Duration,
    breakpoint: Duration,
}

impl Costs {
    fn measure() -> Result<Costs, Reason> {
        Ok(Costs {
            breakpoint: probe::breakpoint_cost().map_err(Reason::Probe)?,
            push: probe::uprobe_cost(&[0x55]).map_err(Reason::Probe)?,
            other: probe::uprobe_cost(&[]).map_err(Reason::Probe)?,
        })
    }

    fn of(&self, code: &[u8]) -> Duration {
        match probe::is_cheap(code) {
            true => self.push,
            false => self.other,
        }
    }
}

/// Functions of `target` that would serve as progress, best first; or why there
/// are none.
///
/// # Errors
/// When the target fails meanwhile; an interruption.
pub(super) fn search(target: &mut Target, context: &Context) -> Result<Result<Vec<Found>, Reason>> {
    let mut search = Search {
        context,
        field: Field::default(),
        costs: Some(std::thread::spawn(Costs::measure)),
        shortest: None,
    };
    let mut refused = None;
    for attempt in 0..ATTEMPTS {
        match search.attempt(target, attempt)? {
            Ok(found) => return Ok(Ok(found)),
            Err(reason) if reason.is_final() => return Ok(Err(reason)),
            Err(reason) => refused = Some(reason),
        }
    }
    Ok(Err(refused.unwrap_or(Reason::NeverSeen)))
}

/// Whether the target executes an instruction that begins at `offset` of `file`,
/// as far as it is seen within the trial. A probe anywhere else would break it.
///
/// # Errors
/// Those of the target; an interruption. The inner one says why it cannot be
/// known.
pub(super) fn executes(
    (file, offset): (&Path, u64),
    target: &mut Target,
    context: &Context,
) -> Result<Result<bool, Reason>> {
    let mut field = Field::default();
    let deadline = Instant::now() + context.options.trial;
    while Instant::now() < deadline {
        context.check_interrupt()?;
        target.check_alive()?;
        // Its libraries may be yet to be loaded.
        field.forget();
        field.look(&target.scope());
        match field.is_executed(file, offset, LOOKED) {
            Ok(true) => return Ok(Ok(true)),
            Ok(false) => {}
            Err(error) => return Ok(Err(Reason::NoBreakpoints(error))),
        }
    }
    Ok(Ok(false))
}

/// How long is looked for an instruction before threads are listed again.
const LOOKED: Duration = Duration::from_millis(50);

struct Search<'a> {
    context: &'a Context,
    field: Field,
    /// Being measured meanwhile.
    costs: Option<JoinHandle<Result<Costs, Reason>>>,
    /// The shortest run that has ended.
    shortest: Option<Duration>,
}

/// What a step of the search found out; a reason ends the attempt.
type Step<T> = Result<Result<T, Reason>>;

impl Search<'_> {
    /// Keeps a command running.
    fn keep_running(&mut self, target: &mut Target) -> Step<()> {
        self.context.check_interrupt()?;
        if let State::Exited(exit) = target.state() {
            if !exit.success() || !target.is_ours() {
                return Err(target.gone(exit));
            }
            if let Some(took) = target.ran_for() {
                self.shortest = Some(self.shortest.map_or(took, |known| known.min(took)));
                if took < SHORTEST_RUN {
                    return Ok(Err(Reason::ShortRuns(took)));
                }
            }
            target.restart()?;
            self.field.forget();
            self.pause(target, SETTLING.min(SHORTEST_RUN / 3))?;
        }
        Ok(Ok(()))
    }

    /// Waits, or until the target ends.
    fn pause(&self, target: &mut Target, length: Duration) -> Result<()> {
        self.context.check_interrupt()?;
        target.wait(length);
        Ok(())
    }

    fn attempt(&mut self, target: &mut Target, attempt: u32) -> Step<Vec<Found>> {
        if attempt > 0 || target.is_ours() {
            self.pause(target, SETTLING)?;
        }
        let seen = match self.sample(target)? {
            Ok(seen) => seen,
            Err(reason) => return Ok(Err(reason)),
        };
        let costs = match self.costs.take() {
            Some(measuring) => measuring.join().unwrap_or(Err(Reason::NeverSeen)),
            None => Costs::measure(),
        };
        let costs = match costs {
            Ok(costs) => costs,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut tried = 0;
        let mut worst = None;
        for candidates in [&seen.candidates, &seen.imported, &seen.branches] {
            match self.choose(target, candidates, &costs)? {
                Ok((found, refusal)) => {
                    tried += candidates.len();
                    if !found.is_empty() {
                        let found = found.into_iter().map(|found| Found { tried, ..found });
                        return Ok(Ok(found.collect()));
                    }
                    worst = worst.max(refusal);
                }
                Err(reason) => return Ok(Err(reason)),
            }
        }
        Ok(Err(Reason::NoSteadyCalls {
            tried,
            samples: seen.samples,
            unknown_percent: seen.unknown_share * 100.0,
            refusal: worst.map_or("none was called", Refusal::words),
        }))
    }

    /// Where the target is.
    fn sample(&mut self, target: &mut Target) -> Step<Seen> {
        if let Err(reason) = self.keep_running(target)? {
            return Ok(Err(reason));
        }
        self.field.look(&target.scope());
        let mut clocks = Vec::new();
        for (thread, _) in &self.field.threads {
            match SoftwareClock::watch(*thread, PERIOD) {
                Ok(clock) => clocks.push(clock),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Ok(Err(Reason::NoSamples(error))),
            }
        }
        self.pause(target, SAMPLED)?;
        let samples: Vec<_> = clocks.iter_mut().flat_map(SoftwareClock::take).collect();
        drop(clocks);
        // What was loaded meanwhile counts too.
        if target.wait(Duration::ZERO).is_none() {
            self.field.forget();
            self.field.look(&target.scope());
        }
        if samples.len() < FEWEST_SAMPLES {
            if let Err(reason) = self.keep_running(target)? {
                return Ok(Err(reason));
            }
            return Ok(Err(Reason::Asleep {
                samples: samples.len(),
                milliseconds: SAMPLED.as_millis(),
            }));
        }
        Ok(Ok(candidates::collect(&samples, &self.field.mapped)))
    }

    /// Counts `candidates` and looks longer at the best; and what was wrong with
    /// most of those.
    fn choose(
        &mut self,
        target: &mut Target,
        candidates: &[Candidate],
        costs: &Costs,
    ) -> Step<(Vec<Found>, Option<Refusal>)> {
        let mut promising: Vec<(f64, &Candidate)> = Vec::new();
        let mut worst = None;
        let mut rates = vec![0.0_f64; candidates.len()];
        for _ in 0..GLANCES {
            for (group, rates) in candidates
                .chunks(BREAKPOINTS)
                .zip(rates.chunks_mut(BREAKPOINTS))
            {
                if let Err(reason) = self.keep_running(target)? {
                    return Ok(Err(reason));
                }
                self.field.look(&target.scope());
                let group: Vec<&Candidate> = group.iter().collect();
                match self.field.glance(&group, costs.breakpoint.as_secs_f64()) {
                    Ok(seen) => {
                        for (rate, seen) in rates.iter_mut().zip(seen) {
                            *rate = rate.max(seen);
                        }
                    }
                    Err(error) => return Ok(Err(Reason::NoBreakpoints(error))),
                }
            }
        }
        for (candidate, rate) in candidates.iter().zip(rates) {
            let each = costs.of(&candidate.spot().1).as_secs_f64();
            if PROMISING.contains(&rate) && rate * each < 4.0 * steady::DEAREST {
                let middle = (steady::SLOWEST * steady::FASTEST).sqrt();
                promising.push(((rate / middle).ln().abs(), candidate));
            } else if rate > 0.0 {
                let slow = rate < *PROMISING.start();
                worst = worst.max(Some(if slow { Refusal::Slow } else { Refusal::Dear }));
            }
        }
        promising.sort_by(|a, b| a.0.total_cmp(&b.0));
        promising.truncate(SECOND_GROUPS * BREAKPOINTS);
        let mut found = Vec::new();
        for group in promising.chunks(BREAKPOINTS) {
            let group: Vec<&Candidate> = group.iter().map(|(_, candidate)| *candidate).collect();
            let counted = match self.count(target, &group, SECOND, costs)? {
                Ok(counted) => counted,
                Err(reason) => return Ok(Err(reason)),
            };
            for (candidate, windows) in group.into_iter().zip(counted) {
                let Some(look) = Look::of(&windows) else {
                    continue;
                };
                let (offset, code) = candidate.spot();
                let each = costs.of(&code);
                match look.refused(each.as_secs_f64()) {
                    Some(refusal) => worst = worst.max(Some(refusal)),
                    None => found.push(Found {
                        file: candidate.file().to_path_buf(),
                        symbol: candidate.name(),
                        offset,
                        each,
                        look,
                        tried: 0,
                    }),
                }
            }
        }
        let score = |found: &Found| found.look.score(found.each.as_secs_f64());
        found.sort_by(|a, b| score(a).total_cmp(&score(b)));
        Ok(Ok((found, worst)))
    }

    /// Counts a group, again where the target ended meanwhile.
    fn count(
        &mut self,
        target: &mut Target,
        group: &[&Candidate],
        (windows, length): (usize, Duration),
        costs: &Costs,
    ) -> Step<Vec<Windows>> {
        let mut best: Option<Vec<Windows>> = None;
        for _ in 0..3 {
            if let Err(reason) = self.keep_running(target)? {
                return Ok(Err(reason));
            }
            self.field.look(&target.scope());
            let alive = || target.wait(Duration::ZERO).is_none();
            let mut counted = match self.field.count(group, (windows, length), alive) {
                Ok(counted) => counted,
                Err(error) => return Ok(Err(Reason::NoBreakpoints(error))),
            };
            let seen = counted.first().map_or(0, Vec::len);
            trial::without_cost(&mut counted, costs.breakpoint.as_secs_f64());
            if best.as_ref().is_none_or(|best| best[0].len() < seen) {
                best = Some(counted);
            }
            if seen == windows {
                break;
            }
        }
        Ok(Ok(best.unwrap_or_default()))
    }
}
