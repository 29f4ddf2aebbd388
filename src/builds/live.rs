//! Turns on the real machine.

use super::awake::Awake;
use super::bench::Bench;
use super::bench::BenchError;
use super::bench::Side;
use super::bench::Turn;
use super::side::Instance;
use crate::sys::clock::monotonic_ns;
use std::time::Duration;

pub(super) struct LiveBench {
    pub(super) sides: [Instance; 2],
    pub(super) lengths: Lengths,
    pub(super) awake: Awake,
}

/// How long things last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    /// After the first progress of an instance.
    pub(super) warm_up: Duration,
    /// At the beginning of a turn, while caches are filled again.
    pub(super) skip: Duration,
    /// The part of a turn that counts.
    pub(super) turn: Duration,
}

impl LiveBench {
    fn instance(&mut self, side: Side) -> (&mut Instance, &Awake) {
        let instance = &mut self.sides[usize::from(side == Side::New)];
        (instance, &self.awake)
    }
}

impl Bench for LiveBench {
    fn now(&self) -> f64 {
        monotonic_ns() as f64 / 1e9
    }

    fn start(&mut self, first: Side) -> Result<(), BenchError> {
        let warm_up = self.lengths.warm_up;
        for side in [first, first.other()] {
            let (instance, awake) = self.instance(side);
            awake.spin();
            match instance.metric.is_some() {
                true => instance.start(warm_up)?,
                false => instance.prepare(),
            }
        }
        Ok(())
    }

    fn turn(&mut self, side: Side) -> Result<Turn, BenchError> {
        let Lengths { skip, turn, .. } = self.lengths;
        let (instance, awake) = self.instance(side);
        let turn = match instance.metric.is_some() {
            true => instance.counted_turn(awake, skip, turn),
            false => instance.run_turn(awake, turn),
        };
        awake.spin();
        turn
    }
}
