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
use super::binary;
use super::error::Reason;
use crate::error::Result;
use crate::sys::handover;
use crate::sys::probe;
use crate::sys::probe::BREAKPOINTS;
use crate::sys::probe::Event;
use crate::sys::sampling::SoftwareClock;
use crate::workload::State;
use crate::workload::Target;
use candidates::Candidate;
use candidates::Seen;
use jostle_statistics::Noise;
use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;
use std::thread::Builder;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;
use steady::Refusal;
use trial::Field;
use trial::Trace;

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
const GLANCES: u32 = 3;
/// How many in all those get that were not called once although the target spent
/// at least [`HOT`] of its time in them: it may do so in phases.
const MOST_GLANCES: u32 = 9;
const HOT: f64 = 0.1;
/// Longest time between two glances. It is drawn: a program that pauses at even
/// times could do so at every glance otherwise.
const BETWEEN_GLANCES: Duration = Duration::from_millis(50);
/// Second look at the best ones.
const SECOND: (usize, Duration) = (40, Duration::from_millis(4));
/// Groups of candidates that get the second look.
const SECOND_GROUPS: usize = 3;
/// How much steadier a function of a file that others use has to be: threads that
/// the target starts are not counted there at once.
const SHARED: f64 = 0.15;
/// Rates at a glance for which the second is worthwhile, per second.
const PROMISING: std::ops::RangeInclusive<f64> = 200.0..=80_000.0;

/// A function of which calls are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub file: PathBuf,
    /// Symbol, or address as `0x…`.
    pub symbol: String,
    /// What is probed, from the beginning of the file.
    pub offset: u64,
}

impl Call {
    pub(super) fn event(&self) -> Event {
        Event::Uprobe {
            file: self.file.clone(),
            offset: self.offset,
        }
    }

    /// As it is asked for.
    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.file.display(), self.symbol)
    }

    pub(super) fn words(&self) -> String {
        format!("{} in {}", self.symbol, self.file.display())
    }
}

/// Functions that would serve together.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// At least one.
    pub calls: Vec<Call>,
    /// What one call costs.
    pub each: Duration,
    pub look: Look,
    /// Seconds from one call to the next, at any moment on average.
    pub gap: f64,
    /// Whether other processes have one of the files mapped: then only threads are
    /// counted that are known to be the target's.
    shared: bool,
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
        // Beside the search, or after it where there is no thread.
        costs: Builder::new().spawn(Costs::measure).ok(),
        shortest: None,
        shared: HashMap::new(),
        pauses: Noise::seeded(target.pid() as u64),
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
    /// Files that other processes have mapped, and those that they have not.
    shared: HashMap<PathBuf, bool>,
    pauses: Noise,
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
        let lenient = attempt + 1 == ATTEMPTS;
        let mut tried = 0;
        let mut worst = None;
        for candidates in [&seen.candidates, &seen.imported, &seen.branches] {
            match self.choose(target, candidates, &costs, lenient)? {
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

    /// Where the target is; of a command that ends meanwhile, in as many runs as
    /// it takes.
    fn sample(&mut self, target: &mut Target) -> Step<Seen> {
        let mut samples = Vec::new();
        // By process: each run has its own.
        let mut mapped = HashMap::new();
        let mut watched = Duration::ZERO;
        while watched < SAMPLED {
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
            let began = Instant::now();
            self.pause(target, SAMPLED - watched)?;
            watched += began.elapsed();
            samples.extend(clocks.iter_mut().flat_map(SoftwareClock::take));
            drop(clocks);
            // What was loaded meanwhile counts too.
            if target.wait(Duration::ZERO).is_none() {
                self.field.forget();
                self.field.look(&target.scope());
            }
            mapped.extend(self.field.mapped.drain());
        }
        if samples.len() < FEWEST_SAMPLES {
            return Ok(Err(Reason::Asleep {
                samples: samples.len(),
                milliseconds: SAMPLED.as_millis(),
            }));
        }
        Ok(Ok(candidates::collect(&samples, &mapped)))
    }

    /// Counts `candidates` and looks longer at the best; and what was wrong with
    /// most of those. `lenient`: see [`Look::refused`].
    fn choose(
        &mut self,
        target: &mut Target,
        candidates: &[Candidate],
        costs: &Costs,
        lenient: bool,
    ) -> Step<(Vec<Found>, Option<Refusal>)> {
        let mut promising: Vec<(f64, &Candidate)> = Vec::new();
        let mut worst = None;
        let mut rates = vec![0.0_f64; candidates.len()];
        for glance in 0..MOST_GLANCES {
            // Those that are far too frequent are so once and for all.
            let open = |index: &usize| match glance < GLANCES {
                true => rates[*index].is_finite(),
                false => rates[*index] == 0.0 && candidates[*index].hot >= HOT,
            };
            let open: Vec<usize> = (0..candidates.len()).filter(open).collect();
            if open.is_empty() {
                break;
            }
            if glance > 0 {
                let drawn = self.pauses.uniform();
                self.pause(target, BETWEEN_GLANCES.mul_f64(drawn))?;
            }
            for group in open.chunks(BREAKPOINTS) {
                if let Err(reason) = self.keep_running(target)? {
                    return Ok(Err(reason));
                }
                self.field.look(&target.scope());
                let members: Vec<&Candidate> =
                    group.iter().map(|index| &candidates[*index]).collect();
                match self.field.glance(&members, costs.breakpoint.as_secs_f64()) {
                    Ok(seen) => {
                        for (index, seen) in group.iter().zip(seen) {
                            rates[*index] = rates[*index].max(seen);
                        }
                    }
                    Err(error) => return Ok(Err(Reason::NoBreakpoints(error))),
                }
            }
        }
        for (candidate, rate) in candidates.iter().zip(rates) {
            let each = costs.of(&candidate.spot().1).as_secs_f64();
            if PROMISING.contains(&rate) && rate * each < 4.0 * steady::COSTLIEST {
                let middle = (steady::SLOWEST * steady::FASTEST).sqrt();
                promising.push(((rate / middle).ln().abs(), candidate));
            } else if rate > 0.0 {
                let slow = rate < *PROMISING.start();
                worst = worst.max(Some(if slow { Refusal::Slow } else { Refusal::Costly }));
            }
        }
        promising.sort_by(|a, b| a.0.total_cmp(&b.0));
        promising.truncate(SECOND_GROUPS * BREAKPOINTS);
        let places = target.cpus().map_or(1, |cpus| cpus.len());
        let most = (handover::MOST / places.max(self.field.threads.len()).max(1)).max(1);
        let mut found = Vec::new();
        for group in promising.chunks(BREAKPOINTS) {
            let group: Vec<&Candidate> = group.iter().map(|(_, candidate)| *candidate).collect();
            let counted = match self.count(target, &group, SECOND, costs)? {
                Ok(counted) => counted,
                Err(reason) => return Ok(Err(reason)),
            };
            // Each function, and all sums of them: what one does in its phase another
            // may do in the next, and more calls are less coarse.
            for members in 1..1usize << group.len().min(counted.len()) {
                let member = |index: &usize| members >> index & 1 == 1;
                let chosen = || (0..group.len()).filter(member);
                let known = |index: usize| !counted[index].windows.is_empty();
                if chosen().count() > most || !chosen().all(known) {
                    continue;
                }
                let windows = steady::sum(chosen().map(|index| &counted[index].windows[..]));
                let times = chosen().map(|index| &counted[index].times[..]);
                let span = chosen().next().map_or([0, 0], |index| counted[index].span);
                let gap = steady::gap(times, span);
                let Some(look) = Look::of(&windows) else {
                    continue;
                };
                let each = |index: usize| {
                    let (_, code) = group[index].spot();
                    (counted[index].times.len() as f64, costs.of(&code))
                };
                let total: f64 = chosen().map(|index| each(index).0).sum();
                let share = |index| {
                    let (calls, cost) = each(index);
                    cost.mul_f64(calls / total.max(1.0))
                };
                let cost: Duration = chosen().map(share).sum();
                match look.refused(cost.as_secs_f64(), lenient) {
                    Some(refusal) => worst = worst.max(Some(refusal)),
                    None => found.push(Found {
                        calls: chosen().map(|index| group[index].call()).collect(),
                        each: cost,
                        look,
                        gap,
                        shared: chosen().any(|index| self.is_shared(group[index].file(), target)),
                        tried: 0,
                    }),
                }
            }
        }
        let score = |found: &Found| {
            let shared = if found.shared { SHARED } else { 0.0 };
            shared + found.look.score(found.each.as_secs_f64(), found.gap)
        };
        found.sort_by(|a, b| score(a).total_cmp(&score(b)));
        // Others share no call with a better one: they are for when that fails.
        let mut best: Vec<Found> = Vec::new();
        for found in found {
            let same = |other: &Found| other.calls.iter().any(|call| found.calls.contains(call));
            if !best.iter().any(same) {
                best.push(found);
            }
        }
        let found = best;
        Ok(Ok((found, worst)))
    }

    /// Whether others than the target have `file` mapped, or that cannot be known.
    fn is_shared(&mut self, file: &Path, target: &Target) -> bool {
        let processes = || target.scope().processes();
        let users = || binary::other_users(file, &processes()) != Some(0);
        let known = self.shared.entry(file.to_path_buf());
        *known.or_insert_with(users)
    }

    /// Counts a group, again where the target ended meanwhile.
    fn count(
        &mut self,
        target: &mut Target,
        group: &[&Candidate],
        (windows, length): (usize, Duration),
        costs: &Costs,
    ) -> Step<Vec<Trace>> {
        let mut best: Option<Vec<Trace>> = None;
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
            let length = |traces: &[Trace]| {
                let lengths = traces.iter().map(|trace| trace.windows.len());
                lengths.max().unwrap_or(0)
            };
            let seen = length(&counted);
            trial::without_cost(&mut counted, costs.breakpoint.as_secs_f64());
            if best.as_ref().is_none_or(|best| length(best) < seen) {
                best = Some(counted);
            }
            if seen == windows {
                break;
            }
        }
        Ok(Ok(best.unwrap_or_default()))
    }
}
