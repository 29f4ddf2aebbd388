//! What a target did at the same place in its other runs, or in other repetitions of
//! what it repeats.

use super::Ends;
use super::Kept;
use super::SequenceLog;
use crate::experiment::executor::Place;
use crate::experiment::executor::TargetState;
use crate::experiment::executor::TargetTurn;
use jostle_statistics::ByNumber;
use jostle_statistics::Course;
use jostle_statistics::Step;
use jostle_statistics::location;
use jostle_statistics::marks;
use jostle_statistics::period;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The repetition of a target is looked for again when it has been read for so many
/// times as long.
const SEARCHED_AGAIN: f64 = 1.5;

/// Least share of a block between the first operation that was done in it and the last,
/// where their times are known: less is mostly noise.
const BETWEEN_MARKS: f64 = 0.25;

/// Share of a block that what is under way in it may take in other runs, where no two
/// operations were done in the block and it still counts.
const MOST_UNDER_WAY: f64 = 0.5;

/// How long an operation under way at an end of a block may take, in times the block.
const MOST_AT_ENDS: f64 = 1.0;

/// Pieces of whole runs of which the fastest is taken, in seconds.
const PIECE_OF_RUN: f64 = 0.010;

/// How often the course is found anew, with what the arms cost and how the target drifted,
/// as it shows then.
const PASSES: usize = 3;

/// What a target that does not end repeats.
#[derive(Default)]
pub(in crate::experiment) struct Repetition {
    /// Operations of one repetition.
    period: Option<f64>,
    /// Time in which it was looked for, in seconds of the target.
    searched: f64,
    /// The same from operation to operation: what fits all repetitions, to the operation.
    exact: Option<f64>,
    searched_finely: f64,
}

impl Repetition {
    /// How fast the longest run is at each place of what it repeats.
    fn course(&mut self, steps: &[(Place, Step)]) -> Option<Course> {
        let (own, seen) = longest(steps)?;
        if seen >= SEARCHED_AGAIN * self.searched {
            (self.period, self.searched) = (period(&own), seen);
        }
        Course::folded(&own, self.period?)
    }

    /// The same from operation to operation; `in_parts` where steps end between two.
    fn fine(&mut self, steps: &[(Place, Step)], in_parts: bool) -> Option<Course> {
        let (own, seen) = longest(steps)?;
        if seen >= SEARCHED_AGAIN * self.searched_finely {
            let found = Course::finely_folded(&own);
            self.searched_finely = seen;
            self.exact = found.as_ref().map(|(_, period)| *period);
            if !in_parts {
                return found.map(|(course, _)| course);
            }
        }
        match in_parts {
            true => Course::folded_by_operation(&own, self.exact?),
            false => Course::folded_in_fine_pieces(&own, self.exact?),
        }
    }
}

/// The steps of the run that was seen longest, in order, and their sum in seconds.
fn longest(steps: &[(Place, Step)]) -> Option<(Vec<Step>, f64)> {
    let mut seconds: BTreeMap<u32, f64> = BTreeMap::new();
    for (place, step) in steps {
        *seconds.entry(place.run).or_default() += step.seconds;
    }
    let (&longest, &seen) = seconds.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    let own = steps.iter().filter(|(place, _)| place.run == longest);
    let mut own: Vec<Step> = own.map(|(_, step)| *step).collect();
    own.sort_by_number(|it| it.from);
    Some((own, seen))
}

/// What one log knows of the target's course.
type Known = fn(&SequenceLog) -> Option<&Rc<Course>>;

/// All steps of known place, each as long as it would have been at the usual pace, as
/// blocks show it that are read as `ends` says and compared with what is `known`.
fn all_steps(sequences: &[SequenceLog], ends: Ends, known: Known) -> Vec<(Place, Step)> {
    let paces: Vec<Vec<f64>> = sequences
        .iter()
        .map(|log| log.paces(ends, known(log)))
        .collect();
    let known = paces.iter().flatten().copied();
    let usual = location(&known.filter(|pace| pace.is_finite()).collect::<Vec<f64>>());
    let logs = sequences.iter().zip(&paces);
    logs.flat_map(|(log, paces)| log.steps(paces, usual, ends))
        .collect()
}

/// The first operation that was done in `turns` and the last, which follow each other:
/// operations and seconds since the begin of the first turn.
fn known_marks(turns: &[&TargetTurn]) -> Vec<(f64, f64)> {
    let mut before = (0.0, 0.0);
    let mut marks = Vec::new();
    for turn in turns {
        let done = turn.done.into_iter().flatten();
        marks.extend(done.map(|it| (before.0 + it.operations, before.1 + it.seconds)));
        before = (before.0 + turn.operations, before.1 + turn.seconds);
    }
    match (marks.first(), marks.last()) {
        (Some(&first), Some(&last)) => vec![first, last],
        _ => marks,
    }
}

/// How long each operation of a run takes, in seconds: piece by piece as in that of `runs`
/// which was fastest there, since what somebody else on the machine does only slows it down.
fn fastest(runs: &[Vec<f64>]) -> Vec<f64> {
    let operations = runs.iter().map(Vec::len).min().unwrap_or(0);
    let time = |run: &Vec<f64>, done: usize| done.checked_sub(1).map_or(0.0, |last| run[last]);
    let mut took = Vec::with_capacity(operations);
    while took.len() < operations {
        let first = took.len();
        let until = time(&runs[0], first) + PIECE_OF_RUN;
        let end = runs[0][..operations].partition_point(|done| *done < until);
        let end = end.max(first + 1);
        let whole = |run: &&Vec<f64>| time(run, end) - time(run, first);
        let fastest = runs.iter().min_by(|a, b| whole(a).total_cmp(&whole(b)));
        let Some(run) = fastest else { break };
        took.extend((first..end).map(|at| (time(run, at + 1) - time(run, at)).max(1e-9)));
    }
    took
}

fn from_begin(steps: &[(Place, Step)]) -> Vec<Step> {
    let from_begin = steps.iter().filter(|(place, _)| place.from_begin);
    from_begin.map(|(_, step)| *step).collect()
}

impl SequenceLog {
    /// Tells all `sequences` of whole `runs` in which no source was played: when each operation
    /// was done, in seconds from the begin.
    pub(in crate::experiment) fn follow_whole_runs(
        sequences: &mut [SequenceLog],
        runs: &[Vec<f64>],
    ) {
        let steps = (0..runs.len() as u32).flat_map(|run| {
            let times = fastest(runs).into_iter().zip(0..);
            times.map(move |(seconds, done)| Step {
                // None of those that are measured.
                run: u32::MAX - run,
                from: f64::from(done),
                to: f64::from(done) + 1.0,
                seconds,
            })
        });
        let course = Course::by_operation(&steps.collect::<Vec<Step>>()).map(Rc::new);
        for sequence in sequences {
            sequence.undisturbed = course.clone();
        }
    }

    /// Tells all `sequences` the course of the target's runs, or of what it repeats, as
    /// far as they have seen it.
    pub(in crate::experiment) fn follow_course(
        sequences: &mut [SequenceLog],
        repetition: &mut Repetition,
    ) {
        for _ in 0..PASSES {
            let steps = all_steps(sequences, Ends::Block, |log| log.course.as_ref());
            let from_begin = from_begin(&steps);
            let course = Course::of(&from_begin).or_else(|| repetition.course(&steps));
            let course = course.map(Rc::new);
            for sequence in sequences.iter_mut() {
                sequence.course = course.clone();
            }
            if course.is_none() {
                break;
            }
        }
        let in_parts = sequences.iter().any(SequenceLog::is_in_parts);
        for _ in 0..PASSES {
            let steps = all_steps(sequences, Ends::Marks, |log| log.fine.as_ref());
            let from_begin = from_begin(&steps);
            let fine = match in_parts {
                true => Course::by_operation(&from_begin),
                false => Course::fine(&from_begin),
            };
            let fine = fine.or_else(|| repetition.fine(&steps, in_parts));
            let fine = fine.map(Rc::new);
            for sequence in sequences.iter_mut() {
                sequence.fine = fine.clone();
            }
            if fine.is_none() {
                break;
            }
        }
    }

    /// Log of how much more the target does at the place of a block, read as `ends`
    /// says, than on average, as its other runs show. Where that is not known, 0; for a
    /// block that is read from mark to mark, nothing, since what it would add is known
    /// much worse than the others are.
    pub(super) fn ahead(&self, course: &Course, block: &Kept, ends: Ends) -> Option<f64> {
        let between = || match ends {
            Ends::Block => None,
            Ends::Operations => {
                let (found, at) = self.between(block)?;
                Some(at.map(|at| (at, at.operations + found.operations)))
            }
            Ends::Marks => {
                let (from, to) = self.outer_marks(block)?;
                let at = self.counted(block).next()?.from?;
                let first = Place {
                    operations: at.operations + from.0,
                    ..at
                };
                Some(Some((first, at.operations + to.0)))
            }
        };
        let found = between();
        let by_marks = found.is_some();
        let ends_at = found.unwrap_or_else(|| self.ends_at(block));
        // Where in its run a block is that was seen from somewhere within is not known.
        let placed = |from: &Place| from.from_begin || course.is_of_period();
        let known = ends_at.filter(|(from, _)| placed(from));
        if ends == Ends::Marks && !by_marks && self.is_in_parts() && !self.sequence.takes_time {
            let (from, to) = known?;
            return self.starved(course, block, from, to);
        }
        let whole = self.undisturbed.as_deref();
        let whole = whole.is_some_and(|whole| std::ptr::eq(whole, course));
        if whole && ends == Ends::Block && self.is_in_parts() {
            let (from, to) = known?;
            return self.among_operations(course, block, from, to);
        }
        let rate = known.and_then(|(from, to)| course.log_rate_of(from.run, from.operations, to));
        let nothing_done = || ends_at.is_some_and(|(from, to)| to <= from.operations);
        match rate {
            Some(rate) => Some(rate - course.log_rate),
            None if ends == Ends::Marks && !nothing_done() => None,
            None => Some(0.0),
        }
    }

    /// The same of a block of parts of operations, unless what is under way at one of its ends
    /// takes longer than the block: most of that is in other blocks, and slower or faster by
    /// what these are of.
    fn among_operations(&self, course: &Course, block: &Kept, from: Place, to: f64) -> Option<f64> {
        let seconds: f64 = self.counted(block).map(|turn| turn.seconds).sum();
        let takes = |at: f64| {
            let rate = course.log_rate_of(from.run, at.floor(), at.floor() + 1.0)?;
            Some((-rate).exp())
        };
        let most = MOST_AT_ENDS * seconds;
        if takes(from.operations)? > most || takes(to)? > most {
            return None;
        }
        let rate = course.log_rate_of(from.run, from.operations, to)?;
        Some(rate - course.log_rate)
    }

    /// The same of a block in which no two operations were done, as the first one's
    /// other runs show it: where these take so long that two are rarely done in such a
    /// block, it says nothing.
    fn starved(&self, course: &Course, block: &Kept, from: Place, to: f64) -> Option<f64> {
        let (begin, end) = (
            from.operations.floor(),
            to.ceil().max(from.operations + 1.0),
        );
        let rate = course.log_rate_of(from.run, begin, end)?;
        let expected = (end - begin) / rate.exp();
        let seconds: f64 = self.counted(block).map(|turn| turn.seconds).sum();
        (expected < MOST_UNDER_WAY * seconds).then_some(rate - course.log_rate)
    }

    /// Where a block begins and ends, if in one run.
    fn ends_at(&self, block: &Kept) -> Option<(Place, f64)> {
        let mut turns = self.counted(block);
        let first = turns.next();
        let last = turns.last().or(first);
        first.zip(last).and_then(|(first, last)| {
            let (from, to) = (first.from?, last.from?);
            (from.run == to.run).then_some((from, to.operations + last.operations))
        })
    }

    /// The first and the last operation of a block, and when they were done: operations
    /// and seconds since its begin; `None` where it has no two, or is not of one piece.
    pub(super) fn outer_marks(&self, block: &Kept) -> Option<((f64, f64), (f64, f64))> {
        let marks = self.marks(block);
        let (first, last) = (*marks.first()?, *marks.last()?);
        let least = match self.is_in_parts() {
            true => BETWEEN_MARKS * self.counted(block).map(|turn| turn.seconds).sum::<f64>(),
            false => 0.0,
        };
        (last.0 > first.0 && last.1 - first.1 > least).then_some((first, last))
    }

    fn marks(&self, block: &Kept) -> Vec<(f64, f64)> {
        if self.sequence.takes_time || self.periods() == 1 {
            return Vec::new();
        }
        let turns: Vec<&TargetTurn> = self.counted(block).collect();
        let follows = |pair: &[&TargetTurn]| match (pair[0].from, pair[1].from) {
            (Some(one), Some(next)) => {
                let gap = next.operations - one.operations - pair[0].operations;
                one.run == next.run && gap.abs() < 0.5
            }
            _ => false,
        };
        if !turns.windows(2).all(follows) {
            return Vec::new();
        }
        if self.is_in_parts() {
            return known_marks(&turns);
        }
        let done: Vec<(f64, f64)> = turns
            .iter()
            .map(|turn| (turn.seconds, turn.operations))
            .collect();
        marks(&done)
    }

    fn beside(&self) -> impl Iterator<Item = &Kept> {
        let blocks = self.blocks.iter();
        blocks.filter(|block| block.target == TargetState::Running)
    }

    /// Per block beside the target the log of the target's rate at its time and in its arm,
    /// the place taken off as far as `course` is known; not a number where that cannot be
    /// told.
    ///
    /// Arm and time, not the block itself: what it differs by from those around it is of
    /// its place.
    fn paces(&self, ends: Ends, course: Option<&Rc<Course>>) -> Vec<f64> {
        let of_arms = self.paces_of_arms(ends, course);
        let mut paces: Vec<f64> = self.blocks.iter().map(|block| of_arms[block.arm]).collect();
        // Without a course, what differs from block to block is mostly their place.
        let Some(course) = course else { return paces };
        let (read, contrasts) = self.contrasts_by(ends, Some(course));
        // Both in the order in which they were played.
        let mut blocks = self.blocks.iter().zip(&mut paces);
        for ((kept, block), ratio) in read.iter().zip(&contrasts.ratios) {
            let own = blocks.find(|(it, _)| std::ptr::eq(*it, *kept));
            if let (Some((_, pace)), Some(ratio)) = (own, ratio) {
                *pace = block.value - ratio + contrasts.effects[block.arm];
            }
        }
        paces
    }

    /// Per arm the log of the target's rate, its place taken off; not a number for
    /// one without any.
    fn paces_of_arms(&self, ends: Ends, course: Option<&Rc<Course>>) -> Vec<f64> {
        let of = |course: Option<&Rc<Course>>| -> Vec<f64> {
            let mut values: Vec<Vec<f64>> = vec![Vec::new(); self.arms.len()];
            for block in self.beside() {
                let ahead = course.map_or(Some(0.0), |course| self.ahead(course, block, ends));
                let value = self.value(block, ends).zip(ahead);
                let value = value.map(|(value, ahead)| value - ahead);
                values[block.arm].extend(value.filter(|value| value.is_finite()));
            }
            let pace = |values: &Vec<f64>| match values.is_empty() {
                true => f64::NAN,
                false => location(values),
            };
            values.iter().map(pace).collect()
        };
        let mut paces = of(course);
        // What is known may be of other places, and must not keep these from being seen.
        if course.is_some() && paces.iter().any(|pace| pace.is_nan()) {
            for (pace, alone) in paces.iter_mut().zip(of(None)) {
                *pace = if pace.is_nan() { alone } else { *pace };
            }
        }
        paces
    }

    /// All turns of known place, or for [`Ends::Marks`] what lies between two operations,
    /// each as long as it would have been at the pace `usual`.
    fn steps<'s>(
        &'s self,
        paces: &'s [f64],
        usual: f64,
        ends: Ends,
    ) -> impl Iterator<Item = (Place, Step)> + 's {
        let in_parts = self.is_in_parts();
        // Where a source takes the CPU, its share of a turn is not even.
        let blocks = self.blocks.iter().zip(paces);
        let beside = |block: &Kept| block.target == TargetState::Running;
        blocks
            .filter(move |(block, _)| beside(block) && !self.sequence.takes_time)
            .filter(|(_, pace)| pace.is_finite())
            .flat_map(move |(block, pace)| {
                let slower = (pace - usual).exp();
                let marks = match ends {
                    Ends::Marks if !in_parts => self.marks(block),
                    // Turns end at known parts of operations.
                    Ends::Marks | Ends::Block | Ends::Operations => Vec::new(),
                };
                let at = self.counted(block).next().and_then(|turn| turn.from);
                let mut steps: Vec<(Place, Step)> = Vec::new();
                if let (Some(at), false) = (at, marks.is_empty()) {
                    steps.extend(marks.windows(2).map(|pair| {
                        let step = Step {
                            run: at.run,
                            from: at.operations + pair[0].0,
                            to: at.operations + pair[1].0,
                            seconds: (pair[1].1 - pair[0].1) * slower,
                        };
                        (at, step)
                    }));
                } else {
                    steps.extend(self.counted(block).filter_map(|turn| {
                        let from = turn.from?;
                        let step = Step {
                            run: from.run,
                            from: from.operations,
                            to: from.operations + turn.operations,
                            seconds: turn.seconds * slower,
                        };
                        Some((from, step))
                    }));
                }
                steps
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_as_fast_as_the_fastest_at_each_place() {
        // One operation per millisecond; each run has one slow spell.
        let slow = |from: usize| -> Vec<f64> {
            let takes = move |at| {
                if (from..from + 100).contains(&at) {
                    0.002
                } else {
                    0.001
                }
            };
            let times = (0..1_000).scan(0.0, move |now, at| {
                *now += takes(at);
                Some(*now)
            });
            times.collect()
        };
        let took = fastest(&[slow(200), slow(700)]);
        assert_eq!(took.len(), 1_000);
        let all: f64 = took.iter().sum();
        assert!((all - 1.0).abs() < 1e-6, "{all}");
        assert!(fastest(&[]).is_empty() && fastest(&[Vec::new(), slow(3)]).is_empty());
    }
}
