//! What a group of candidates would be as progress: alone and together, by what they did at
//! one time or in whole runs.

use super::LOOKS_GOOD;
use super::Promising;
use super::STEADY;
use super::Search;
use super::Step;
use super::in_turn;
use crate::metric::auto::candidates::Candidate;
use crate::metric::auto::clock::follows_clock;
use crate::metric::auto::clock::keep_busy;
use crate::metric::auto::costs::Costs;
use crate::metric::auto::found::Found;
use crate::metric::auto::proof::Proof;
use crate::metric::auto::proof::Stretch;
use crate::metric::auto::steady;
use crate::metric::auto::steady::Demands;
use crate::metric::auto::steady::Look;
use crate::metric::auto::steady::Refusal;
use crate::metric::auto::steady::Window;
use crate::metric::auto::trial;
use crate::metric::auto::trial::Trace;
use crate::metric::binary;
use crate::workload::Target;
use jostle_host::sys::handover;
use jostle_host::sys::probe::BREAKPOINTS;
use jostle_statistics::ByNumber;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

/// Windows of a look at each of a group of candidates that were seen to be called.
const LOOK: (usize, Duration) = (25, Duration::from_millis(4));
/// How long they are counted all at once, where not in whole runs, and the same in parts of
/// the time for the choice of the metric, at most.
const PROVED_FOR: Duration = Duration::from_millis(1_200);
const PROVING: f64 = 0.15;
/// Oldest run whose end is waited for, however much time there is for the choice.
const LONGEST_WAIT: Duration = Duration::from_secs(6);
/// How often that is tried where the target ends meanwhile.
const STRETCHES: usize = 5;
/// No run is begun for it that would end later, in parts of the time for the choice.
const WHOLE_RUNS: f64 = 1.4;
/// How many times as long as before a run may take while it is looked at.
const LONGER_RUN: u32 = 3;
/// The last part of a run is compared with a whole one if it is at least so long, in seconds
/// of CPU time, or such a share of the run.
const LONG_PART: f64 = 0.4;
const LARGE_PART: f64 = 0.4;
/// Largest difference between the calls of two runs that do the same, a fraction of them.
const SAME_IN_RUNS: f64 = 0.02;
/// The measurement that follows lasts about so many times as long as the metric may be
/// chosen.
const RUNS_IN_CHOICES: f64 = 2.0;
/// Windows in which it is seen whether calls follow a clock: every other one beside
/// somebody busy.
const BESIDE: (usize, Duration) = (60, Duration::from_millis(5));
/// Threads that use less of the target's CPU time do not do its work.
const HARDLY: f64 = 0.1;
/// Groups that get a look.
const LOOKED_AT: usize = 14;
/// Part of the time for the choice of the metric in which all of these looks are taken;
/// with less, there are fewer groups.
const LOOKING: f64 = 0.16;
/// How many times steadier a function of a file that others use has to be: threads that
/// the target starts are not counted there at once.
const SHARED: f64 = 1.3;

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
fn merged<'t>(traces: impl IntoIterator<Item = &'t [f64]>) -> Vec<f64> {
    let mut times: Vec<f64> = traces.into_iter().flatten().copied().collect();
    times.sort_unstable_by(f64::total_cmp);
    times
}

/// A run as `whole` up to where the last calls of another begin, and then as `part`, which is
/// these: when each call was, in seconds.
fn continued(whole: &[f64], part: &[f64]) -> Vec<f64> {
    let begin = whole.len().saturating_sub(part.len());
    let mut run: Vec<f64> = whole.iter().take(begin + 1).copied().collect();
    let mut now = run.last().copied().unwrap_or_default();
    run.extend(part.windows(2).map(|pair| {
        now += pair[1] - pair[0];
        now
    }));
    run
}

/// What else was seen of a run, candidate by candidate.
#[derive(Clone, Copy)]
enum Again<'t> {
    Nothing,
    /// Another whole one.
    Whole(&'t [Trace]),
    /// Another one from somewhere within to its end.
    End(&'t [Trace]),
}

impl Again<'_> {
    /// The same of some of the candidates only, as they stand in `members`.
    fn traces(&self, members: &[usize]) -> Option<Vec<&[f64]>> {
        let (Again::Whole(traces) | Again::End(traces)) = self else {
            return None;
        };
        let own = members.iter().map(|at| traces.get(*at));
        own.map(|trace| trace.map(|trace| &trace.times[..]))
            .collect()
    }
}

/// What was counted of a group of candidates, in their order.
struct Counted<'t> {
    first: &'t [Trace],
    again: Again<'t>,
    /// Whether nobody else was seen to call each; nothing is known of those without.
    alone: &'t [bool],
}

/// What candidates did in whole runs of a command, one after another, and in a part of a run
/// before.
#[derive(Default)]
struct Watched {
    whole: Vec<Stretch>,
    part: Option<Stretch>,
}

impl Watched {
    /// The end of a run, or else the longest part.
    fn keep_part(&mut self, part: Stretch) {
        let longer = |known: &Stretch| part.ended || part.length() > known.length();
        if self.part.as_ref().is_none_or(longer) {
            self.part = Some(part);
        }
    }

    /// Whether there are too few runs to compare, of a command that takes `run`.
    fn lacks_runs(&self, run: Option<Duration>) -> bool {
        let least = run.map_or(LONG_PART, |run| {
            LONG_PART.min(LARGE_PART * run.as_secs_f64())
        });
        let is_long = |part: &Stretch| part.ended && part.length() >= least;
        let needed = if self.part.as_ref().is_some_and(is_long) {
            1
        } else {
            2
        };
        self.whole.len() < needed
    }

    fn is_hopeless(&self) -> bool {
        self.whole.last().is_some_and(Stretch::is_hopeless)
    }

    fn counted(&self) -> Counted<'_> {
        let (first, again) = match (&self.whole[..], &self.part) {
            ([first, second], _) if first.ended && second.ended => {
                (&first.traces[..], Again::Whole(&second.traces))
            }
            ([first, ..], Some(part)) if first.ended && part.ended => {
                (&first.traces[..], Again::End(&part.traces))
            }
            ([.., last], _) => (&last.traces[..], Again::Nothing),
            ([], Some(part)) => (&part.traces[..], Again::Nothing),
            ([], None) => (&[][..], Again::Nothing),
        };
        let last = self.whole.last().or(self.part.as_ref());
        let alone = last.map_or(&[][..], |stretch| &stretch.alone);
        Counted {
            first,
            again,
            alone,
        }
    }
}

/// What whole runs show of some candidates together.
struct InRuns {
    /// Noise and gap, as of [`steady::noise_between_runs`].
    noise: Option<(f64, f64)>,
    /// See [`Found::whole_runs`].
    runs: Vec<Vec<f64>>,
}

impl Counted<'_> {
    /// What runs of a command show that are `compared` so many times, of `members`.
    fn in_runs(&self, members: &[usize], compared: f64) -> Option<InRuns> {
        let others = self.again.traces(members)?;
        let own = members.iter().map(|at| self.first.get(*at));
        let own: Vec<&Trace> = own.collect::<Option<_>>()?;
        let times = merged(own.iter().map(|trace| &trace.times[..]));
        let again = merged(others.iter().copied());
        match self.again {
            Again::Nothing => None,
            Again::Whole(_) => {
                let differ = times.len().abs_diff(again.len()) as f64;
                if differ > SAME_IN_RUNS * times.len().max(1) as f64 {
                    return None;
                }
                let span = [0.0, own.first().map_or(0.0, |trace| trace.busy())];
                Some(InRuns {
                    noise: steady::noise_between_runs(&times, &again, span, compared),
                    runs: vec![times, again],
                })
            }
            Again::End(traces) => {
                let same = own.iter().zip(&others);
                let same = same.map(|(own, end)| {
                    let from = own.times.len().checked_sub(end.len())?;
                    Some(&own.times[from..])
                });
                let same = merged(same.collect::<Option<Vec<&[f64]>>>()?);
                let span = [0.0, traces.first().map_or(0.0, Trace::busy)];
                Some(InRuns {
                    noise: steady::noise_between_runs(&again, &same, span, compared),
                    runs: vec![continued(&times, &again), times],
                })
            }
        }
    }
}

/// Members of a group, by their places in it, and what it would be to count them together.
pub(super) type Weighed = (Vec<usize>, Found);

impl<'a> Search<'a> {
    /// Counts `candidates` all at once, as [`Search::watch`] says: the best four of them, and
    /// what it would be to count some of these together, as in [`Search::look_at`].
    pub(super) fn prove<'c>(
        &mut self,
        target: &mut Target,
        candidates: Vec<&'c Candidate>,
        costs: &Costs,
    ) -> Step<(Vec<&'c Candidate>, Vec<Weighed>)> {
        let mut proof = match Proof::begin(&candidates, target, self.context) {
            Ok(proof) => proof,
            Err(reason) => return Ok(Err(reason)),
        };
        let seen = match self.watch(&mut proof, target, &candidates, costs)? {
            Ok(seen) => seen,
            Err(reason) => return Ok(Err(reason)),
        };
        self.proofs.push(proof);
        self.field.forget();
        let counted = seen.counted();
        let alone = (0..candidates.len()).map(|at| vec![at]);
        let mut alone = self.weigh(target, &candidates, &counted, alone, costs);
        alone.sort_by_number(|it| it.1.score);
        let best = alone.iter().flat_map(|(members, _)| members).copied();
        let best: Vec<usize> = best.take(BREAKPOINTS).collect();
        let together = subsets(best.len());
        let together = together.map(|set| set.into_iter().map(|at| best[at]).collect());
        let sums = self.weigh(target, &candidates, &counted, together, costs);
        let place = |at: &usize| best.iter().position(|one| one == at);
        let sums = sums
            .into_iter()
            .map(|(members, sum)| (members.iter().filter_map(place).collect(), sum));
        let group = best.iter().map(|at| candidates[*at]).collect();
        Ok(Ok((group, sums.collect())))
    }

    /// Counts for a while, or in a whole run of a command that is seen often enough and in
    /// the end of another. Where nothing is steady in that while, it is waited for the end of
    /// a run that may be one of those.
    fn watch(
        &mut self,
        proof: &mut Proof<'a>,
        target: &mut Target,
        candidates: &[&Candidate],
        costs: &Costs,
    ) -> Step<Watched> {
        let usual = PROVED_FOR.min(self.context.options.choice.mul_f64(PROVING));
        let mut seen = Watched::default();
        for _ in 0..STRETCHES {
            let run = self.repeated();
            let under_way = seen.part.as_ref().map(|part| !part.ended);
            let anew = run.is_some() && under_way == Some(false);
            // Probes may slow a run down a lot.
            let choice = self.context.options.choice.as_secs_f64();
            let left = Duration::try_from_secs_f64(WHOLE_RUNS * choice).unwrap_or(Duration::MAX);
            let left = left.saturating_sub(self.began.elapsed());
            if anew && run.is_some_and(|run| left < run) {
                break;
            }
            let longest = match (run, under_way) {
                (Some(run), _) => (LONGER_RUN * run + usual).min(left.max(usual)),
                (None, Some(true)) => self.may_last(),
                (None, _) => usual,
            };
            if anew {
                target.restart_after(|| proof.forget())?;
                self.run_began = Instant::now();
            } else {
                if let Err(reason) = self.keep_running(target)? {
                    return Ok(Err(reason));
                }
                proof.forget();
            }
            let stretch = proof.stretch(target, longest)?;
            // Of a run that ends meanwhile the length is known then.
            if stretch.ended
                && let Err(reason) = self.keep_running(target)?
            {
                return Ok(Err(reason));
            }
            let (ended, given_up) = (stretch.ended, stretch.is_given_up());
            let few = stretch.length() < 0.5 * usual.as_secs_f64();
            match anew {
                true => seen.whole.push(stretch),
                false => seen.keep_part(stretch),
            }
            if anew {
                let told = !seen.lacks_runs(self.repeated())
                    && (seen.whole.len() > 1
                        || self.best(target, candidates, &seen, costs) < LOOKS_GOOD);
                if !ended || seen.is_hopeless() || told {
                    break;
                }
                continue;
            }
            if ended && (few || self.repeated().is_some()) {
                continue;
            }
            if !target.is_ours() || given_up || self.best(target, candidates, &seen, costs) < STEADY
            {
                break;
            }
            self.patient = true;
            let may_end = under_way != Some(true) && !self.may_last().is_zero();
            if self.repeated().is_none() && (ended || !may_end) {
                break;
            }
        }
        Ok(Ok(seen))
    }

    /// How long the run under way may last still for runs to be compared.
    fn may_last(&self) -> Duration {
        let longest = self.longest_repeated().min(LONGEST_WAIT);
        longest.saturating_sub(self.run_began.elapsed())
    }

    /// The best score of one of `candidates` by what was seen; infinity without any.
    fn best(
        &mut self,
        target: &Target,
        candidates: &[&Candidate],
        seen: &Watched,
        costs: &Costs,
    ) -> f64 {
        let alone = (0..candidates.len()).map(|at| vec![at]);
        let alone = self.weigh(target, candidates, &seen.counted(), alone, costs);
        let scores = alone.iter().map(|(_, found)| found.score);
        scores.fold(f64::INFINITY, f64::min)
    }

    /// Those of `group` whose calls are no work, by their places in it, and why: threads make
    /// them that hardly use a CPU, or they follow a clock, see [`follows_clock`], as far as
    /// that may be tried: it keeps the CPUs of a command busy in every other window.
    pub(super) fn without_work(
        &mut self,
        target: &mut Target,
        group: &[&Candidate],
        costs: &Costs,
    ) -> Step<Vec<(usize, Refusal)>> {
        let cpus = target.cpus().unwrap_or_default();
        let may_press = self.context.options.may_press && target.is_ours() && !cpus.is_empty();
        if !may_press && target.scope().threads().len() < 2 {
            return Ok(Ok(Vec::new()));
        }
        let (windows, length) = BESIDE;
        let wait = |number: usize| {
            if !may_press || number.is_multiple_of(2) || !keep_busy(&cpus, length) {
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
        let refusal = |at: usize| {
            // Of those that were not counted nothing is known.
            let trace = counted.get(at)?;
            let idle = trace.by_callers.is_some_and(|share| share < HARDLY);
            let clock = may_press && follows_clock(&every_other(trace, 0), &every_other(trace, 1));
            match (idle, clock) {
                (_, true) => Some((at, Refusal::Clock)),
                (true, _) => Some((at, Refusal::Idle)),
                _ => None,
            }
        };
        Ok(Ok((0..group.len()).filter_map(refusal).collect()))
    }

    /// Looks at those of `promising` that got no look yet, as far as there is time, and gives
    /// each its score. The best of all, or infinity.
    pub(super) fn look(
        &mut self,
        target: &mut Target,
        promising: &mut [Promising],
        costs: &Costs,
    ) -> Step<f64> {
        let most = most_groups(self.context.options.choice) * BREAKPOINTS;
        promising.sort_by_number(|it| it.off);
        let looked_at = promising.iter().filter(|it| it.score.is_some()).count();
        let open = promising.iter().filter(|it| it.score.is_none());
        let mut open = in_turn(open.map(|it| it.candidate));
        open.truncate(most.saturating_sub(looked_at).max(BREAKPOINTS));
        for group in open.chunks(BREAKPOINTS) {
            let sums = match self.look_at(target, group, LOOK, costs)? {
                Ok(sums) => sums,
                Err(reason) => return Ok(Err(reason)),
            };
            for (at, candidate) in group.iter().enumerate() {
                let with = sums.iter().filter(|(members, _)| members.contains(&at));
                // The slowest look steady: there is hardly a call in the time of a block.
                let slow = |sum: &Found| {
                    let refused =
                        sum.look
                            .refused(sum.each.as_secs_f64(), sum.noise, Demands::Usual);
                    refused == Some(Refusal::Slow)
                };
                let with = with.filter(|(_, sum)| !slow(sum));
                let best = with.map(|(_, sum)| sum.score).min_by(f64::total_cmp);
                let own = promising
                    .iter_mut()
                    .find(|it| std::ptr::eq(it.candidate, *candidate));
                if let Some(own) = own {
                    own.score = Some(best.unwrap_or(f64::INFINITY));
                }
            }
        }
        let scores = promising.iter().filter_map(|it| it.score);
        Ok(Ok(scores.fold(f64::INFINITY, f64::min)))
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
        let counted = Counted {
            first: &counted,
            again: Again::Nothing,
            alone: &[],
        };
        Ok(Ok(self.weigh(
            target,
            group,
            &counted,
            subsets(number),
            costs,
        )))
    }

    /// What it would be to count each of `sets` of a `group` together, by what all of it did.
    fn weigh(
        &mut self,
        target: &Target,
        group: &[&Candidate],
        counted: &Counted,
        sets: impl Iterator<Item = Vec<usize>>,
        costs: &Costs,
    ) -> Vec<Weighed> {
        let places = target.cpus().map_or(1, |cpus| cpus.len());
        let most = (handover::MOST / places.max(self.field.threads.len()).max(1)).max(1);
        let costs: Vec<Duration> = group.iter().map(|it| costs.of(&it.spot().1)).collect();
        let is_alone = |at: usize| counted.alone.get(at) == Some(&true);
        let shared: Vec<bool> = (group.iter().enumerate())
            .map(|(at, it)| !is_alone(at) && self.is_shared(it.file(), target))
            .collect();
        let mut sums = Vec::new();
        for members in sets {
            let traces = members.iter().filter_map(|at| counted.first.get(*at));
            let traces: Vec<&Trace> = traces.collect();
            if members.len() > most || traces.iter().any(|trace| trace.windows.is_empty()) {
                continue;
            }
            let windows = traces.iter().map(|trace| &trace.windows[..]);
            let Some(look) = Look::of(&steady::sum(windows)) else {
                continue;
            };
            let times = merged(traces.iter().map(|trace| &trace.times[..]));
            let span = [0.0, traces.first().map_or(0.0, |trace| trace.busy())];
            let even = steady::gap(&times, span);
            let Some(alone) = steady::noise(&times, span, even) else {
                continue;
            };
            let total = times.len().max(1) as f64;
            let share =
                |at: &usize| costs[*at].mul_f64(counted.first[*at].times.len() as f64 / total);
            let each: Duration = members.iter().map(share).sum();
            let cost = each.as_secs_f64();
            let run = self.repeated();
            let seen = run.and_then(|run| {
                let compared = RUNS_IN_CHOICES * self.context.options.choice.div_duration_f64(run);
                counted.in_runs(&members, compared)
            });
            let known = seen.as_ref().and_then(|seen| seen.noise);
            let known = known.filter(|(noise, _)| *noise < alone);
            // From the end of a run alone it is not known that all have as many calls.
            let same = known.is_some() || matches!(counted.again, Again::Whole(_));
            let (noise, gap) = known.unwrap_or((alone, even));
            let nobody_else = members.iter().all(|at| is_alone(*at));
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
                    alone: nobody_else,
                    poor: false,
                    repeated: known.and(run).filter(|_| bursts),
                    whole_runs: seen
                        .filter(|_| same)
                        .map_or_else(Vec::new, |seen| seen.runs),
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

    #[test]
    fn a_run_is_compared_with_the_end_of_another_call_by_call() {
        // 1,200 calls at uneven distances, in 1.2 s.
        let gap = |at: usize| 0.000_2 + 0.001_6 * (at * 7 % 11) as f64 / 10.0;
        let times = |from: usize, to: usize| -> Vec<f64> {
            let gaps = (from..to).scan(0.0, |now, at| {
                *now += gap(at);
                Some(*now)
            });
            gaps.collect()
        };
        let trace = |times: Vec<f64>| {
            let busy = times.last().copied().unwrap_or_default();
            let window = Window {
                seconds: busy,
                busy,
                count: times.len() as u64,
            };
            Trace {
                windows: vec![window],
                times,
                ..Trace::default()
            }
        };
        let whole = [trace(times(0, 1_200))];
        let seen = |end: Trace| {
            let end = [end];
            let counted = Counted {
                first: &whole,
                again: Again::End(&end),
                alone: &[],
            };
            let seen = counted.in_runs(&[0], 1e9)?;
            assert!(seen.runs.iter().all(|run| run.len() == 1_200));
            seen.noise.map(|(noise, _)| noise)
        };
        let same = seen(trace(times(700, 1_200))).unwrap();
        // Other calls than those at the end of the whole run.
        let other = seen(trace(times(705, 1_205))).unwrap();
        assert!(same < 1e-6 && other > 0.02, "{same} {other}");
        // More than a run has.
        assert_eq!(seen(trace(times(0, 1_300))), None);
    }

    #[test]
    fn the_end_of_a_run_continues_another_one() {
        let whole = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(
            continued(&whole, &[0.5, 2.5, 3.0]),
            [1.0, 2.0, 3.0, 5.0, 5.5]
        );
        assert_eq!(continued(&whole, &[]), whole);
        assert_eq!(continued(&whole, &whole), whole);
        assert!(continued(&[], &[]).is_empty());
    }
}
