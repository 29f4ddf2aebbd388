//! The search itself: glances at every candidate, looks at those that are promising, and
//! longer ones at the best.

mod weigh;

use super::super::Context;
use super::super::error::Reason;
use super::candidates;
use super::candidates::Candidate;
use super::candidates::Seen;
use super::costs::Costs;
use super::found::Found;
use super::found::best_apart;
use super::proof::Proof;
use super::steady;
use super::steady::Demands;
use super::steady::Refusal;
use super::trial;
use super::trial::Field;
use super::trial::Trace;
use crate::error::Result;
use crate::workload::State;
use crate::workload::Target;
use jostle_host::sys::probe::BREAKPOINTS;
use jostle_host::sys::sampling::SoftwareClock;
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
pub(in crate::metric) const SHORTEST_RUN: Duration = Duration::from_millis(50);
/// Commands whose runs are shorter than this are looked into once only: there are many whole
/// runs, which tell a good deal.
const BRIEF_RUN: Duration = Duration::from_millis(150);
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
/// Promising ones of a kind with less of which the next kind is tried before a longer look.
const FEW: usize = 4;
/// How many of them are counted at once in the end, and what share of a CPU that may take, as
/// far as it was seen; one is always counted.
const PROVED: usize = 8;
/// Whole functions among them, where there are so many: of hundreds of places within functions
/// some look steady by chance.
const WHOLE_PROVED: usize = 4;
const PROVING_COSTS: f64 = 0.06;
/// The same where whole runs are compared: what is called often now is called rarely later.
const PROVING_RUNS_COSTS: f64 = 0.15;
/// A score at which no other kind of candidates is tried.
const SETTLES_FOR: f64 = 0.12;
/// The same of a look, and of whole runs: no further one is watched.
const LOOKS_GOOD: f64 = 0.10;
/// The same of what was counted in a part of a run, and of what whole runs are not compared
/// for if they are longer than [`REPEATED`]: a function may be called evenly in one phase of a
/// program, and not at all in the next.
const STEADY: f64 = 0.06;
/// After this part of the time for the choice of the metric nothing more is tried.
const SEARCHING: f64 = 0.6;
const LONGEST_SEARCH: Duration = Duration::from_secs(6);
/// Longest run of a command of which runs are compared, in parts of the time for the choice
/// of the metric: one or two are watched for that.
const REPEATED: f64 = 0.2;
/// The same where nothing else is steady.
const REPEATED_AT_MOST: f64 = 0.6;
/// Part of the windows after which it is not tried again where a command ended meanwhile.
const MOST_OF_WINDOWS: f64 = 0.6;
/// Rates at a glance for which the second is worthwhile, per second.
const PROMISING: std::ops::RangeInclusive<f64> = 100.0..=80_000.0;

/// What a search has found.
pub(in crate::metric) struct Choice<'a> {
    /// Functions that would serve as progress, best first.
    pub found: Vec<Found>,
    /// What counted them: to be dropped when the counters of one have been opened.
    _proofs: Vec<Proof<'a>>,
}

/// Functions of `target` that would serve as progress; or why there are none.
///
/// # Errors
/// When the target fails meanwhile; an interruption.
pub(in crate::metric) fn search<'a>(
    target: &mut Target,
    context: &'a Context,
) -> Result<Result<Choice<'a>, Reason>> {
    let mut search = Search::new(target, context);
    let mut refused = None;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 && (search.is_over() || search.is_brief()) {
            break;
        }
        match search.attempt(target, attempt)? {
            Ok(found) => {
                return Ok(Ok(Choice {
                    found,
                    _proofs: search.proofs,
                }));
            }
            Err(reason) if reason.is_final() => return Ok(Err(reason)),
            Err(reason) => refused = Some(reason),
        }
    }
    Ok(Err(refused.unwrap_or(Reason::NeverSeen)))
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

/// The best [`PROVED`] of `candidates`, which are in order, [`WHOLE_PROVED`] whole functions
/// among them.
fn with_whole<T>(candidates: Vec<T>, is_whole: impl Fn(&T) -> bool) -> Vec<T> {
    let whole = candidates.iter().filter(|it| is_whole(it)).count();
    let mut kept_free = whole.min(WHOLE_PROVED);
    let mut others = PROVED - kept_free;
    let fits = candidates.into_iter().filter(|it| {
        let places = match is_whole(it) && kept_free > 0 {
            true => &mut kept_free,
            false => &mut others,
        };
        let fits = *places > 0;
        *places -= usize::from(fits);
        fits
    });
    fits.collect()
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
    /// When the run of a command began that is under way.
    run_began: Instant,
    /// Kept, since nothing can be opened for a while once they are closed.
    proofs: Vec<Proof<'a>>,
}

/// What is called as often as is worth a longer look.
#[derive(Clone, Copy)]
struct Promising<'c> {
    candidate: &'c Candidate,
    /// How far its rate is from what is best, as a log.
    off: f64,
    /// Share of a CPU that counting it takes.
    share: f64,
    /// That of a look, alone or with others of its group, once one was taken; see
    /// [`Found::score`].
    score: Option<f64>,
}

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
            run_began: Instant::now(),
            proofs: Vec::new(),
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
            self.run_began = Instant::now();
            self.field.forget();
            let loading = self.shortest.unwrap_or(SETTLING).min(BRIEF_RUN) / 3;
            self.pause(target, loading)?;
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
        let kinds = [&seen.candidates].into_iter().chain(others);
        let mut promising: Vec<Promising> = Vec::new();
        for (kind, candidates) in kinds.enumerate() {
            match self.glance(target, candidates, &costs)? {
                Ok((more, refusal)) => {
                    tried += candidates.len();
                    worst = worst.max(refusal);
                    promising.extend(more);
                }
                Err(reason) if self.found.is_empty() && promising.is_empty() => {
                    return Ok(Err(reason));
                }
                Err(_) => {}
            }
            let more = kind < others.len() && !self.is_over();
            // Looking longer at a few costs as much as at many.
            let enough = match self.repeated() {
                _ if more && promising.len() < FEW => false,
                // What those of a command that is repeated do in a moment says little.
                Some(_) => true,
                None => match self.look(target, &mut promising, &costs)? {
                    Ok(best) if best < LOOKS_GOOD => true,
                    // Of a command whose runs can be compared, these tell more.
                    Ok(_) => {
                        self.patient = true;
                        self.repeated().is_some() && promising.len() >= FEW
                    }
                    Err(reason) if self.found.is_empty() => return Ok(Err(reason)),
                    Err(_) => break,
                },
            };
            // Proving takes longest, and is done with the best of all kinds.
            if more && !enough {
                continue;
            }
            match self.choose(target, &mut promising, &costs)? {
                Ok(refusal) => worst = worst.max(refusal),
                Err(reason) if self.found.is_empty() => return Ok(Err(reason)),
                Err(_) => break,
            }
            let good = |found: &Found| !found.poor && found.score < SETTLES_FOR;
            if self.found.iter().any(good) || self.is_over() && !self.may_go_on() {
                break;
            }
        }
        let last = attempt + 1 == ATTEMPTS || self.is_over() || self.is_brief();
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
        let longest = self.longest_repeated();
        self.shortest.filter(|shortest| *shortest <= longest)
    }

    /// Longest run of a command of which runs are compared.
    fn longest_repeated(&self) -> Duration {
        let part = match self.patient {
            true => REPEATED_AT_MOST,
            false => REPEATED,
        };
        self.context.options.choice.mul_f64(part)
    }

    /// Whether it has taken long enough.
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Whether the runs of a command are so short that many can be measured.
    fn is_brief(&self) -> bool {
        self.shortest.is_some_and(|shortest| shortest < BRIEF_RUN)
    }

    /// Whether it may take longer, since nothing was found: whole runs tell far less.
    fn may_go_on(&self) -> bool {
        let longest = self.context.options.choice;
        self.found.is_empty() && self.began.elapsed() < longest && !self.is_brief()
    }

    /// Counts `candidates` for some milliseconds each; those worth a longer look, and what was
    /// wrong with most of the others.
    fn glance<'c>(
        &mut self,
        target: &mut Target,
        candidates: &'c [Candidate],
        costs: &Costs,
    ) -> Step<(Vec<Promising<'c>>, Option<Refusal>)> {
        let mut promising: Vec<Promising> = Vec::new();
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
                promising.push(Promising {
                    candidate,
                    off: (rate / middle).ln().abs(),
                    share: rate * each,
                    score: None,
                });
            } else if rate > 0.0 {
                let slow = rate < *PROMISING.start();
                worst = worst.max(Some(if slow { Refusal::Slow } else { Refusal::Costly }));
            }
        }
        Ok(Ok((promising, worst)))
    }

    /// Looks longer at the best of those that are `promising`, which it takes, and keeps what
    /// would do; what was wrong with most of the others.
    fn choose(
        &mut self,
        target: &mut Target,
        promising: &mut Vec<Promising>,
        costs: &Costs,
    ) -> Step<Option<Refusal>> {
        let mut worst = None;
        let by_looks = self.repeated().is_none();
        let order = |it: &Promising| match it.score {
            score if by_looks => (score.unwrap_or(f64::INFINITY), it.off),
            _ => (0.0, it.off),
        };
        let sooner = |a: (f64, f64), b: (f64, f64)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1));
        promising.sort_by(|a, b| sooner(order(a), order(b)));
        let shares: Vec<(f64, &Candidate)> = promising
            .iter()
            .map(|it| (it.share, it.candidate))
            .collect();
        let best = in_turn(promising.iter().map(|it| it.candidate));
        let mut best = with_whole(best, |it| !it.is_within());
        if best.is_empty() {
            return Ok(Ok(worst));
        }
        let mut taken = 0.0;
        let most = match by_looks {
            true => PROVING_COSTS,
            false => PROVING_RUNS_COSTS,
        };
        best.retain(|candidate| {
            let of = |(_, other): &&(f64, &Candidate)| std::ptr::eq(*other, *candidate);
            let share = shares.iter().find(of).map_or(0.0, |(share, _)| *share);
            let fits = taken == 0.0 || taken + share <= most;
            taken += if fits { share } else { 0.0 };
            fits
        });
        let is_taken = |it: &Promising| best.iter().any(|taken| std::ptr::eq(*taken, it.candidate));
        promising.retain(|it| !is_taken(it));
        let (group, mut sums) = match self.prove(target, best, costs)? {
            Ok(proved) => proved,
            Err(reason) => return Ok(Err(reason)),
        };
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
        let without_work = match even {
            true => self.without_work(target, &group, costs)?,
            false => Ok(Vec::new()),
        };
        let without_work = match without_work {
            Ok(without_work) => without_work,
            Err(reason) => return Ok(Err(reason)),
        };
        for (members, sum) in sums {
            let mut refused = without_work.iter().filter(|(at, _)| members.contains(at));
            if let Some((_, refusal)) = refused.next() {
                worst = worst.max(Some(*refusal));
                continue;
            }
            let calls = members.iter().map(|at| group[*at].call()).collect();
            self.found.push(Found { calls, ..sum });
        }
        Ok(Ok(worst))
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
            let each = costs.breakpoint.as_secs_f64();
            let mut counted = match self.field.count(group, windows, each, wait) {
                Ok(counted) => counted,
                Err(reason) => return Ok(Err(reason)),
            };
            let length = |traces: &[Trace]| {
                let lengths = traces.iter().map(|trace| trace.windows.len());
                lengths.max().unwrap_or(0)
            };
            let seen = length(&counted);
            trial::without_cost(&mut counted, each);
            if best.as_ref().is_none_or(|best| length(best) < seen) {
                best = Some(counted);
            }
            if seen as f64 >= MOST_OF_WINDOWS * windows as f64 {
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
    fn places_within_functions_do_not_crowd_out_whole_ones() {
        let proved = |candidates: &str| -> String {
            let kept = with_whole(candidates.chars().collect(), |it| it.is_uppercase());
            kept.into_iter().collect()
        };
        assert_eq!(proved("abcdefghijABCDE"), "abcdABCD");
        assert_eq!(proved("aAbcdefghiB"), "aAbcdefB");
        // As good as the others they may be more.
        assert_eq!(proved("ABCDEFaGHIJ"), "ABCDEFaG");
        assert_eq!(proved("abcdefghij"), "abcdefgh");
        assert_eq!(proved("aB"), "aB");
    }
}
