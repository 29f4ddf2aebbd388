//! The search itself: glances at every candidate, looks at those that are promising, and
//! longer ones at the best.

use super::super::Context;
use super::super::binary;
use super::super::error::Reason;
use super::candidates;
use super::candidates::Candidate;
use super::candidates::Seen;
use super::clock::follows_clock;
use super::clock::keep_busy;
use super::costs::Costs;
use super::found::Found;
use super::found::best_apart;
use super::proof::Proof;
use super::proof::Stretch;
use super::steady;
use super::steady::Demands;
use super::steady::Look;
use super::steady::Refusal;
use super::steady::Window;
use super::trial;
use super::trial::Field;
use super::trial::Trace;
use crate::error::Result;
use crate::sys::handover;
use crate::sys::probe::BREAKPOINTS;
use crate::sys::sampling::SoftwareClock;
use crate::workload::State;
use crate::workload::Target;
use jostle_statistics::Noise;
use std::collections::HashMap;
use std::collections::HashSet;
use std::path::Path;
use std::path::PathBuf;
use std::thread::Builder;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

/// A program that was just started loads its libraries and reads its input
/// first.
const SETTLING: Duration = Duration::from_millis(200);
/// Shortest run of a command that is looked into: counting within the run says
/// little where starting takes most of it.
pub(in crate::metric) const SHORTEST_RUN: Duration = Duration::from_millis(150);
/// Samples: one per this much CPU time, for that long.
const PERIOD: Duration = Duration::from_micros(700);
const SAMPLED: Duration = Duration::from_millis(240);
/// In parts of this length, with pauses of the other: programs have phases.
const PART: Duration = Duration::from_millis(60);
const BETWEEN_PARTS: Duration = Duration::from_millis(90);
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
/// Candidates with such a rate from which on nothing more is glanced at again.
const ENOUGH: usize = 24;
/// Windows of a look at each of a group of candidates that were seen to be called.
const LOOK: (usize, Duration) = (25, Duration::from_millis(4));
/// How many of them are counted at once in the end, and what share of a CPU that may take, as
/// far as it was seen; one is always counted.
const PROVED: usize = 8;
const PROVING_COSTS: f64 = 0.06;
/// How long, where not in whole runs, and the same in parts of the time for the choice of
/// the metric, at most.
const PROVED_FOR: Duration = Duration::from_millis(1_200);
const PROVING: f64 = 0.15;
/// How often that is tried where the target ends meanwhile.
const STRETCHES: usize = 4;
/// How many times as long as before a run may take while it is looked at.
const LONGER_RUN: u32 = 3;
/// Largest difference between the calls of two runs that do the same, a fraction of them.
const SAME_IN_RUNS: f64 = 0.02;
/// The measurement that follows lasts about so many times as long as the metric may be
/// chosen.
const RUNS_IN_CHOICES: f64 = 2.0;
/// Windows in which it is seen whether calls follow a clock: every other one beside
/// somebody busy.
const BESIDE: (usize, Duration) = (60, Duration::from_millis(5));
/// Groups that get a look.
const LOOKED_AT: usize = 14;
/// Part of the time for the choice of the metric in which all of these looks are taken;
/// with less, there are fewer groups.
const LOOKING: f64 = 0.16;
/// A score at which no other kind of candidates is tried, and one at which longer runs are
/// not watched for a better one.
const SETTLES_FOR: f64 = 0.25;
const STEADY: f64 = 0.12;
/// After this part of the time for the choice of the metric nothing more is tried.
const SEARCHING: f64 = 0.6;
const LONGEST_SEARCH: Duration = Duration::from_secs(6);
/// Longest run of a command of which runs are compared, in parts of the time for the choice
/// of the metric: two are watched for that, and the measurement needs about ten.
const REPEATED: f64 = 0.2;
/// The same where nothing else is steady.
const REPEATED_AT_MOST: f64 = 0.3;
/// How many times steadier a function of a file that others use has to be: threads that
/// the target starts are not counted there at once.
const SHARED: f64 = 1.3;
/// Rates at a glance for which the second is worthwhile, per second.
const PROMISING: std::ops::RangeInclusive<f64> = 100.0..=80_000.0;

/// Functions of `target` that would serve as progress, best first; or why there
/// are none.
///
/// # Errors
/// When the target fails meanwhile; an interruption.
pub(in crate::metric) fn search(
    target: &mut Target,
    context: &Context,
) -> Result<Result<Vec<Found>, Reason>> {
    let mut search = Search::new(target, context);
    let mut refused = None;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 && search.is_over() {
            break;
        }
        match search.attempt(target, attempt)? {
            Ok(found) => return Ok(Ok(found)),
            Err(reason) if reason.is_final() => return Ok(Err(reason)),
            Err(reason) => refused = Some(reason),
        }
    }
    Ok(Err(refused.unwrap_or(Reason::NeverSeen)))
}

/// How many groups get a look where `choice` is the time to choose the metric.
fn most_groups(choice: Duration) -> usize {
    let (windows, length) = LOOK;
    let all = LOOKED_AT as f64 * windows as f64 * length.as_secs_f64();
    let share = (choice.as_secs_f64() * LOOKING / all).min(1.0);
    ((LOOKED_AT as f64 * share).round() as usize).max(1)
}

/// All sets of `number` members, at most a handful, but for the empty one.
fn subsets(number: usize) -> impl Iterator<Item = Vec<usize>> {
    let members = move |chosen| {
        (0..number)
            .filter(move |at| chosen >> at & 1 == 1)
            .collect()
    };
    (1..1usize << number).map(members)
}

/// The times of all of `traces` together, ascending.
fn merged(traces: &[Trace]) -> Vec<f64> {
    let mut times: Vec<f64> = traces
        .iter()
        .flat_map(|trace| &trace.times)
        .copied()
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The first of each function, then the second of each, and so on: what is counted
/// together should not all be of one phase.
fn in_turn<'c>(candidates: impl Iterator<Item = &'c Candidate>) -> Vec<&'c Candidate> {
    let mut seen: HashMap<(&Path, usize), usize> = HashMap::new();
    let numbered = candidates.map(|candidate| {
        let number = seen.entry(candidate.function()).or_default();
        *number += 1;
        (*number, candidate)
    });
    let mut numbered: Vec<(usize, &Candidate)> = numbered.collect();
    numbered.sort_by_key(|(number, _)| *number);
    let candidates = numbered.into_iter().map(|(_, candidate)| candidate);
    candidates.collect()
}

struct Search<'a> {
    context: &'a Context,
    /// All that would do, if need be.
    found: Vec<Found>,
    began: Instant,
    /// When what was found is taken.
    until: Instant,
    field: Field,
    /// Being measured meanwhile.
    costs: Option<JoinHandle<Result<Costs, Reason>>>,
    /// The shortest run that has ended.
    shortest: Option<Duration>,
    /// Files that other processes have mapped, and those that they have not.
    shared: HashMap<PathBuf, bool>,
    pauses: Noise,
    /// Whether longer runs are watched, too.
    patient: bool,
}

/// Members of a group, by their places in it, and what it would be to count them together.
type Weighed = (Vec<usize>, Found);

/// What a step of the search found out; a reason ends the attempt.
type Step<T> = Result<Result<T, Reason>>;

impl<'a> Search<'a> {
    fn new(target: &Target, context: &'a Context) -> Search<'a> {
        Search {
            context,
            found: Vec::new(),
            began: Instant::now(),
            until: Instant::now()
                .checked_add(context.options.choice.mul_f64(SEARCHING))
                .unwrap_or_else(|| Instant::now() + LONGEST_SEARCH),
            field: Field::default(),
            // Beside the search, or after it where there is no thread.
            costs: Builder::new().spawn(Costs::measure).ok(),
            shortest: None,
            shared: HashMap::new(),
            pauses: Noise::seeded(target.pid() as u64),
            patient: false,
        }
    }
}

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
        // What runs have in common is seen best where most of the time is spent.
        let others = match self.repeated() {
            Some(_) => [&seen.branches, &seen.imported],
            None => [&seen.imported, &seen.branches],
        };
        for candidates in [&seen.candidates].into_iter().chain(others) {
            match self.choose(target, candidates, &costs)? {
                Ok(refusal) => {
                    tried += candidates.len();
                    worst = worst.max(refusal);
                }
                Err(reason) if self.found.is_empty() => return Ok(Err(reason)),
                Err(_) => break,
            }
            let good = |found: &Found| !found.poor && found.score < SETTLES_FOR;
            if self.found.iter().any(good) || self.is_over() && !self.may_go_on() {
                break;
            }
        }
        let last = attempt + 1 == ATTEMPTS || self.is_over();
        if self.found.iter().any(|found| !found.poor || last) {
            let best = best_apart(std::mem::take(&mut self.found)).into_iter();
            return Ok(Ok(best.map(|found| Found { tried, ..found }).collect()));
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
            self.pause(target, PART.min(SAMPLED - watched))?;
            watched += began.elapsed();
            samples.extend(clocks.iter_mut().flat_map(SoftwareClock::take));
            drop(clocks);
            if watched < SAMPLED {
                self.pause(target, BETWEEN_PARTS)?;
            }
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

    /// Length of a run of a command that is seen often enough to know what is the same in
    /// each.
    fn repeated(&self) -> Option<Duration> {
        let part = match self.patient {
            true => REPEATED_AT_MOST,
            false => REPEATED,
        };
        let longest = self.context.options.choice.mul_f64(part);
        self.shortest.filter(|shortest| *shortest <= longest)
    }

    /// Whether it has taken long enough.
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Whether it may take longer, since nothing was found: whole runs tell far less.
    fn may_go_on(&self) -> bool {
        let longest = self.context.options.choice;
        self.found.is_empty() && self.began.elapsed() < longest
    }

    /// Counts `candidates`, looks longer at the best and keeps what would do; what was
    /// wrong with most of the others.
    fn choose(
        &mut self,
        target: &mut Target,
        candidates: &[Candidate],
        costs: &Costs,
    ) -> Step<Option<Refusal>> {
        let mut promising: Vec<(f64, &Candidate)> = Vec::new();
        // Share of a CPU that counting them takes.
        let mut shares: Vec<(f64, &Candidate)> = Vec::new();
        let mut worst = None;
        let mut rates = vec![0.0_f64; candidates.len()];
        for glance in 0..MOST_GLANCES {
            // Those that are far too frequent are so once and for all. Of the many within
            // functions one glance is enough where it shows something.
            let open = |index: &usize| match (glance, candidates[*index].is_within()) {
                (0, _) => true,
                (1..GLANCES, false) => rates[*index].is_finite(),
                (1..GLANCES, true) => rates[*index] == 0.0,
                _ => rates[*index] == 0.0 && candidates[*index].hot >= HOT,
            };
            let open: Vec<usize> = (0..candidates.len()).filter(open).collect();
            let found = rates.iter().filter(|rate| PROMISING.contains(rate)).count();
            if open.is_empty() || glance > 0 && (self.is_over() || found >= ENOUGH) {
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
                    Err(reason) => return Ok(Err(reason)),
                }
            }
        }
        let mut alike = HashSet::new();
        for (candidate, rate) in candidates.iter().zip(rates) {
            // What was counted alike in one glance lies in one loop.
            let loops = (candidate.function(), rate.to_bits());
            if candidate.is_within() && rate > 0.0 && !alike.insert(loops) {
                continue;
            }
            let each = costs.of(&candidate.spot().1).as_secs_f64();
            if PROMISING.contains(&rate) && rate * each < 4.0 * steady::COSTLIEST {
                let middle = (steady::SLOWEST * steady::USUAL).sqrt();
                promising.push(((rate / middle).ln().abs(), candidate));
                shares.push((rate * each, candidate));
            } else if rate > 0.0 {
                let slow = rate < *PROMISING.start();
                worst = worst.max(Some(if slow { Refusal::Slow } else { Refusal::Costly }));
            }
        }
        promising.sort_by(|a, b| a.0.total_cmp(&b.0));
        let promising = promising.into_iter().map(|(_, candidate)| candidate);
        let mut promising = in_turn(promising);
        promising.truncate(most_groups(self.context.options.choice) * BREAKPOINTS);
        let best = match self.repeated() {
            // What they do in a moment says little.
            Some(_) => promising
                .into_iter()
                .take(PROVED)
                .collect::<Vec<&Candidate>>(),
            None => match self.best_of(target, promising, PROVED, costs)? {
                Ok(best) => best,
                Err(reason) => return Ok(Err(reason)),
            },
        };
        if best.is_empty() {
            return Ok(Ok(worst));
        }
        let mut taken = 0.0;
        let mut best = best;
        best.retain(|candidate| {
            let of = |(_, other): &&(f64, &Candidate)| std::ptr::eq(*other, *candidate);
            let share = shares.iter().find(of).map_or(0.0, |(share, _)| *share);
            let fits = taken == 0.0 || taken + share <= PROVING_COSTS;
            taken += if fits { share } else { 0.0 };
            fits
        });
        let (mut group, mut sums) = match self.prove(target, best.clone(), costs)? {
            Ok(proved) => proved,
            Err(reason) => return Ok(Err(reason)),
        };
        let steady = sums.iter().any(|(_, sum)| sum.score < STEADY);
        if !steady && self.repeated().is_none() && !self.patient && !self.is_over() {
            self.patient = true;
            if self.repeated().is_some() {
                (group, sums) = match self.prove(target, best, costs)? {
                    Ok(proved) => proved,
                    Err(reason) => return Ok(Err(reason)),
                };
            }
        }
        for (_, sum) in &mut sums {
            let (each, noise) = (sum.each.as_secs_f64(), sum.noise);
            let refused = |demands| sum.look.refused(each, noise, demands);
            let poor = refused(Demands::Usual);
            worst = worst.max(poor);
            sum.poor = poor.is_some();
            if sum.repeated.is_some() {
                sum.poor = refused(Demands::Repeated).is_some();
            }
        }
        sums.retain(|(_, sum)| {
            let (each, noise) = (sum.each.as_secs_f64(), sum.noise);
            !sum.poor || sum.look.refused(each, noise, Demands::Lenient).is_none()
        });
        // What comes in bursts follows no clock.
        let even = sums.iter().any(|(_, sum)| sum.repeated.is_none());
        let clocks = match even {
            true => self.clocks(target, &group, costs)?,
            false => Ok(Vec::new()),
        };
        let clocks = match clocks {
            Ok(clocks) => clocks,
            Err(reason) => return Ok(Err(reason)),
        };
        for (members, sum) in sums {
            if members.iter().any(|at| clocks.contains(at)) {
                worst = worst.max(Some(Refusal::Clock));
                continue;
            }
            let calls = members.iter().map(|at| group[*at].call()).collect();
            self.found.push(Found { calls, ..sum });
        }
        Ok(Ok(worst))
    }

    /// Counts `candidates` all at once, in two whole runs of a command that is seen often
    /// enough, or for a while: the best four of them, and what it would be to count some of
    /// these together, as in [`Search::look_at`].
    fn prove<'c>(
        &mut self,
        target: &mut Target,
        candidates: Vec<&'c Candidate>,
        costs: &Costs,
    ) -> Step<(Vec<&'c Candidate>, Vec<Weighed>)> {
        if let Err(reason) = self.keep_running(target)? {
            return Ok(Err(reason));
        }
        let mut proof = match Proof::begin(&candidates, target, self.context) {
            Ok(proof) => proof,
            Err(reason) => return Ok(Err(reason)),
        };
        let usual = PROVED_FOR.min(self.context.options.choice.mul_f64(PROVING));
        let mut stretches: Vec<Stretch> = Vec::new();
        for _ in 0..STRETCHES {
            let whole = self.repeated();
            if whole.is_some() {
                target.restart()?;
            } else if let Err(reason) = self.keep_running(target)? {
                return Ok(Err(reason));
            }
            let longest = whole.map_or(usual, |run| LONGER_RUN * run + usual);
            let stretch = proof.stretch(target, longest)?;
            let (ended, length) = (stretch.ended, stretch.length());
            if whole.is_none() {
                stretches.clear();
            }
            stretches.push(stretch);
            // Of a run that ends meanwhile the length is known then.
            if ended && let Err(reason) = self.keep_running(target)? {
                return Ok(Err(reason));
            }
            let known = whole.is_none() && self.repeated().is_some();
            if known {
                stretches.clear();
                continue;
            }
            let again = match whole {
                Some(_) => ended && stretches.len() < 2,
                None => ended && length < 0.5 * usual.as_secs_f64(),
            };
            if !again {
                break;
            }
        }
        drop(proof);
        self.field.forget();
        let [first, second] = match &stretches[..] {
            [first, second] if first.ended && second.ended => [&first.traces, &second.traces],
            [.., last] => [&last.traces, &Vec::new()],
            [] => return Ok(Ok((Vec::new(), Vec::new()))),
        };
        let alone = (0..candidates.len()).map(|at| vec![at]);
        let mut alone = self.weigh(target, &candidates, [first, second], alone, costs);
        alone.sort_by(|a, b| a.1.score.total_cmp(&b.1.score));
        let best: Vec<usize> = alone
            .iter()
            .flat_map(|(members, _)| members)
            .copied()
            .collect();
        let best = &best[..best.len().min(BREAKPOINTS)];
        let of = |traces: &[Trace]| {
            best.iter()
                .filter_map(|at| traces.get(*at).cloned())
                .collect()
        };
        let [first, second]: [Vec<Trace>; 2] = [of(first), of(second)];
        let group: Vec<&Candidate> = best.iter().map(|at| candidates[*at]).collect();
        let together = subsets(group.len());
        let sums = self.weigh(target, &group, [&first, &second], together, costs);
        Ok(Ok((group, sums)))
    }

    /// Those of `group` that follow a clock, by their places in it, see [`follows_clock`], as
    /// far as that may be tried: keeps the CPUs of a command busy in every other window.
    fn clocks(
        &mut self,
        target: &mut Target,
        group: &[&Candidate],
        costs: &Costs,
    ) -> Step<Vec<usize>> {
        let cpus = target.cpus().unwrap_or_default();
        if !self.context.options.may_press || !target.is_ours() || cpus.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let (windows, length) = BESIDE;
        let wait = |number: usize| {
            if number.is_multiple_of(2) || !keep_busy(&cpus, length) {
                std::thread::sleep(length);
            }
        };
        let counted = match self.count(target, group, windows, wait, costs)? {
            Ok(counted) => counted,
            Err(reason) => return Ok(Err(reason)),
        };
        let every_other = |trace: &Trace, from: usize| -> Vec<Window> {
            let windows = trace.windows.iter().skip(from);
            windows.step_by(2).copied().collect()
        };
        let clock = |trace: &Trace| follows_clock(&every_other(trace, 0), &every_other(trace, 1));
        // Of those that were not counted nothing is known.
        let is_clock = |at: &usize| counted.get(*at).is_some_and(clock);
        Ok(Ok((0..group.len()).filter(is_clock).collect()))
    }

    /// Those of `candidates` that are worth a longer look, at `most`, best first.
    fn best_of<'c>(
        &mut self,
        target: &mut Target,
        candidates: Vec<&'c Candidate>,
        most: usize,
        costs: &Costs,
    ) -> Step<Vec<&'c Candidate>> {
        if candidates.len() <= most {
            return Ok(Ok(candidates));
        }
        let mut scored: Vec<(f64, &Candidate)> = Vec::new();
        for group in candidates.chunks(BREAKPOINTS) {
            let sums = match self.look_at(target, group, LOOK, costs)? {
                Ok(sums) => sums,
                Err(reason) => return Ok(Err(reason)),
            };
            for (at, candidate) in group.iter().enumerate() {
                let with = sums.iter().filter(|(members, _)| members.contains(&at));
                let best = with.map(|(_, sum)| sum.score).min_by(f64::total_cmp);
                scored.extend(best.map(|score| (score, *candidate)));
            }
        }
        scored.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut best = in_turn(scored.into_iter().map(|(_, candidate)| candidate));
        best.truncate(most);
        Ok(Ok(best))
    }

    /// Counts a group of candidates, and what it would be to count some of them together:
    /// what one does in its phase another may do in the next, and more calls are less
    /// coarse. By their places in the group; `calls` are left empty.
    fn look_at(
        &mut self,
        target: &mut Target,
        group: &[&Candidate],
        look: (usize, Duration),
        costs: &Costs,
    ) -> Step<Vec<Weighed>> {
        let (windows, length) = look;
        let wait = |number| std::thread::sleep(trial::uneven(length, number));
        let counted = match self.count(target, group, windows, wait, costs)? {
            Ok(counted) => counted,
            Err(reason) => return Ok(Err(reason)),
        };
        let number = group.len().min(counted.len());
        Ok(Ok(self.weigh(
            target,
            group,
            [&counted, &[]],
            subsets(number),
            costs,
        )))
    }

    /// What it would be to count each of `sets` of a `group` together, by what all of it did
    /// at one time, and in another run if that was seen.
    fn weigh(
        &mut self,
        target: &Target,
        group: &[&Candidate],
        [counted, again]: [&[Trace]; 2],
        sets: impl Iterator<Item = Vec<usize>>,
        costs: &Costs,
    ) -> Vec<Weighed> {
        let places = target.cpus().map_or(1, |cpus| cpus.len());
        let most = (handover::MOST / places.max(self.field.threads.len()).max(1)).max(1);
        let costs: Vec<Duration> = group.iter().map(|it| costs.of(&it.spot().1)).collect();
        let shared: Vec<bool> = group
            .iter()
            .map(|it| self.is_shared(it.file(), target))
            .collect();
        let mut sums = Vec::new();
        for members in sets {
            let of = |traces: &'_ [Trace]| -> Vec<Trace> {
                members
                    .iter()
                    .filter_map(|at| traces.get(*at).cloned())
                    .collect()
            };
            let (traces, others) = (of(counted), of(again));
            if members.len() > most || traces.iter().any(|trace| trace.windows.is_empty()) {
                continue;
            }
            let windows = traces.iter().map(|trace| &trace.windows[..]);
            let Some(look) = Look::of(&steady::sum(windows)) else {
                continue;
            };
            let (times, others) = (merged(&traces), merged(&others));
            let span = [0.0, traces.first().map_or(0.0, Trace::busy)];
            let even = steady::gap(&times, span);
            let Some(alone) = steady::noise(&times, span, even) else {
                continue;
            };
            let total = times.len().max(1) as f64;
            let share = |at: &usize| costs[*at].mul_f64(counted[*at].times.len() as f64 / total);
            let each: Duration = members.iter().map(share).sum();
            let cost = each.as_secs_f64();
            let differ = times.len().abs_diff(others.len()) as f64 / total;
            let run = self.repeated().filter(|_| differ <= SAME_IN_RUNS);
            let known = run.and_then(|run| {
                let runs = RUNS_IN_CHOICES * self.context.options.choice.div_duration_f64(run);
                steady::noise_between_runs(&times, &others, span, runs)
            });
            let (noise, gap, repeated) = match known {
                Some((noise, gap)) if noise < alone => (noise, gap, run),
                _ => (alone, even, None),
            };
            let bursts = look.refused(cost, alone, Demands::Usual).is_some();
            let worse = match members.iter().any(|at| shared[*at]) {
                true => SHARED,
                false => 1.0,
            };
            sums.push((
                members,
                Found {
                    calls: Vec::new(),
                    each,
                    look,
                    gap,
                    noise,
                    score: worse * look.score(cost, noise),
                    poor: false,
                    repeated: repeated.filter(|_| bursts),
                    whole_runs: run.map_or_else(Vec::new, |_| vec![times, others]),
                    tried: 0,
                },
            ));
        }
        sums
    }

    /// Whether others than the target have `file` mapped, or that cannot be known.
    fn is_shared(&mut self, file: &Path, target: &Target) -> bool {
        let users = || !binary::is_own(file, &target.scope());
        let known = self.shared.entry(file.to_path_buf());
        *known.or_insert_with(users)
    }

    /// Counts a group, again where the target ended meanwhile.
    fn count(
        &mut self,
        target: &mut Target,
        group: &[&Candidate],
        windows: usize,
        wait: impl Fn(usize),
        costs: &Costs,
    ) -> Step<Vec<Trace>> {
        let mut best: Option<Vec<Trace>> = None;
        for _ in 0..3 {
            if let Err(reason) = self.keep_running(target)? {
                return Ok(Err(reason));
            }
            self.field.look(&target.scope());
            let wait = |number| {
                wait(number);
                target.wait(Duration::ZERO).is_none()
            };
            let mut counted = match self.field.count(group, windows, wait) {
                Ok(counted) => counted,
                Err(reason) => return Ok(Err(reason)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_less_time_fewer_are_looked_at() {
        assert_eq!(most_groups(Duration::MAX), LOOKED_AT);
        assert!(most_groups(Duration::from_millis(1_700)) < LOOKED_AT / 2);
        assert_eq!(most_groups(Duration::ZERO), 1);
    }
}
