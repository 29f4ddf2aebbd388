//! What the other runs of a command did at the place where a block found it.

use super::Kept;
use super::SequenceLog;
use crate::experiment::executor::TargetState;
use jostle_statistics::Course;
use jostle_statistics::Step;
use jostle_statistics::location;
use std::rc::Rc;

/// How often the course is found anew with what the arms cost, as it shows then.
const PASSES: usize = 2;

impl SequenceLog {
    /// Tells all `sequences` the course of the target's runs, as far as they have
    /// seen it.
    pub(in crate::experiment) fn follow_course(sequences: &mut [SequenceLog]) {
        for _ in 0..PASSES {
            let paces: Vec<Vec<f64>> = sequences.iter().map(SequenceLog::paces).collect();
            let all: Vec<f64> = paces.iter().flatten().copied().collect();
            let usual = location(
                &all.into_iter()
                    .filter(|pace| pace.is_finite())
                    .collect::<Vec<f64>>(),
            );
            let steps: Vec<Step> = sequences
                .iter()
                .zip(&paces)
                .flat_map(|(sequence, paces)| sequence.steps(paces, usual))
                .collect();
            let course = Course::of(&steps).map(Rc::new);
            for sequence in sequences.iter_mut() {
                sequence.course = course.clone();
            }
            if course.is_none() {
                return;
            }
        }
    }

    /// Log of how much more the target does at the place of a block than on average,
    /// as its other runs show; 0 where that is not known.
    pub(super) fn ahead(&self, course: &Course, block: &Kept) -> f64 {
        let mut turns = self.counted(block);
        let first = turns.next();
        let last = turns.last().or(first);
        let ends = first.zip(last).and_then(|(first, last)| {
            let (from, to) = (first.from?, last.from?);
            (from.run == to.run).then_some((from, to.operations + last.operations))
        });
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
            let ahead = ahead.map_or(0.0, |course| self.ahead(course, block));
            let value = self.value(block).map(|value| value - ahead);
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
    fn steps<'s>(&'s self, paces: &'s [f64], usual: f64) -> impl Iterator<Item = Step> + 's {
        // Where a source takes the CPU, its share of a turn is not even.
        let blocks = self.beside().filter(|_| !self.sequence.takes_time);
        blocks
            .filter(|block| paces[block.arm].is_finite())
            .flat_map(move |block| {
                let slower = (paces[block.arm] - usual).exp();
                self.counted(block).filter_map(move |turn| {
                    let from = turn.from?;
                    Some(Step {
                        run: from.run,
                        from: from.operations,
                        to: from.operations + turn.operations,
                        seconds: turn.seconds * slower,
                    })
                })
            })
    }
}
