//! What a target did at the same place in its other runs, or in other repetitions of
//! what it repeats.

use super::Ends;
use super::Kept;
use super::SequenceLog;
use crate::experiment::executor::Place;
use crate::experiment::executor::TargetState;
use jostle_statistics::Course;
use jostle_statistics::Step;
use jostle_statistics::location;
use jostle_statistics::period;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The repetition of a target is looked for again when it has been read for so many
/// times as long.
const SEARCHED_AGAIN: f64 = 1.5;

/// How often the course is found anew with what the arms cost, as it shows then.
const PASSES: usize = 2;

/// What a target that does not end repeats.
#[derive(Default)]
pub(in crate::experiment) struct Repetition {
    /// Operations of one repetition.
    period: Option<f64>,
    /// Time in which it was looked for, in seconds of the target.
    searched: f64,
}

impl Repetition {
    /// How fast the longest run is at each place of what it repeats.
    fn course(&mut self, steps: &[(Place, Step)]) -> Option<Course> {
        let mut seconds: BTreeMap<u32, f64> = BTreeMap::new();
        for (place, step) in steps {
            *seconds.entry(place.run).or_default() += step.seconds;
        }
        let (&longest, &seen) = seconds.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        let own = steps.iter().filter(|(place, _)| place.run == longest);
        let mut own: Vec<Step> = own.map(|(_, step)| *step).collect();
        own.sort_by(|a, b| a.from.total_cmp(&b.from));
        if seen >= SEARCHED_AGAIN * self.searched {
            (self.period, self.searched) = (period(&own), seen);
        }
        Course::folded(&own, self.period?)
    }
}

impl SequenceLog {
    /// Tells all `sequences` the course of the target's runs, or of what it repeats, as
    /// far as they have seen it.
    pub(in crate::experiment) fn follow_course(
        sequences: &mut [SequenceLog],
        repetition: &mut Repetition,
    ) {
        for _ in 0..PASSES {
            let paces: Vec<Vec<f64>> = sequences.iter().map(SequenceLog::paces).collect();
            let all: Vec<f64> = paces.iter().flatten().copied().collect();
            let usual = location(
                &all.into_iter()
                    .filter(|pace| pace.is_finite())
                    .collect::<Vec<f64>>(),
            );
            let steps: Vec<(Place, Step)> = sequences
                .iter()
                .zip(&paces)
                .flat_map(|(sequence, paces)| sequence.steps(paces, usual))
                .collect();
            let from_begin = steps.iter().filter(|(place, _)| place.from_begin);
            let from_begin: Vec<Step> = from_begin.map(|(_, step)| *step).collect();
            let course = Course::of(&from_begin).or_else(|| repetition.course(&steps));
            let course = course.map(Rc::new);
            for sequence in sequences.iter_mut() {
                sequence.course = course.clone();
            }
            if course.is_none() {
                return;
            }
        }
    }

    /// Log of how much more the target does at the place of a block, read as `ends`
    /// says, than on average, as its other runs show; 0 where that is not known.
    pub(super) fn ahead(&self, course: &Course, block: &Kept, ends: Ends) -> f64 {
        let between = || match ends {
            Ends::Block => None,
            Ends::Operations => self.between(block),
        };
        let ends = match between() {
            Some((found, at)) => at.map(|at| (at, at.operations + found.operations)),
            None => {
                let mut turns = self.counted(block);
                let first = turns.next();
                let last = turns.last().or(first);
                first.zip(last).and_then(|(first, last)| {
                    let (from, to) = (first.from?, last.from?);
                    (from.run == to.run).then_some((from, to.operations + last.operations))
                })
            }
        };
        let rate = ends.and_then(|(from, to)| course.log_rate_of(from.run, from.operations, to));
        rate.map_or(0.0, |rate| rate - course.log_rate)
    }

    fn beside(&self) -> impl Iterator<Item = &Kept> {
        let blocks = self.blocks.iter();
        blocks.filter(|block| block.target == TargetState::Running)
    }

    /// Per arm the log of the target's rate, its place taken off; not a number for
    /// one without any.
    fn paces(&self) -> Vec<f64> {
        let mut values: Vec<Vec<f64>> = vec![Vec::new(); self.arms.len()];
        for block in self.beside() {
            let ahead = self.course.as_ref();
            let ahead = ahead.map_or(0.0, |course| self.ahead(course, block, Ends::Block));
            let value = self.value(block, Ends::Block).map(|value| value - ahead);
            values[block.arm].extend(value.filter(|value| value.is_finite()));
        }
        let pace = |values: &Vec<f64>| match values.is_empty() {
            true => f64::NAN,
            false => location(values),
        };
        values.iter().map(pace).collect()
    }

    /// All turns of known place, each as long as it would have been at the pace
    /// `usual`.
    fn steps<'s>(
        &'s self,
        paces: &'s [f64],
        usual: f64,
    ) -> impl Iterator<Item = (Place, Step)> + 's {
        // Where a source takes the CPU, its share of a turn is not even.
        let blocks = self.beside().filter(|_| !self.sequence.takes_time);
        blocks
            .filter(|block| paces[block.arm].is_finite())
            .flat_map(move |block| {
                let slower = (paces[block.arm] - usual).exp();
                self.counted(block).filter_map(move |turn| {
                    let from = turn.from?;
                    let step = Step {
                        run: from.run,
                        from: from.operations,
                        to: from.operations + turn.operations,
                        seconds: turn.seconds * slower,
                    };
                    Some((from, step))
                })
            })
    }
}
