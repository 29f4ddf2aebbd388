//! Turns on the real machine.

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
    fn instance(&mut self, side: Side) -> &mut Instance {
        &mut self.sides[usize::from(side == Side::New)]
    }
}

impl Bench for LiveBench {
    fn now(&self) -> f64 {
        monotonic_ns() as f64 / 1e9
    }

    fn start(&mut self, first: Side) -> Result<(), BenchError> {
        let warm_up = self.lengths.warm_up;
        for side in [first, first.other()] {
            let instance = self.instance(side);
            match instance.metric.is_some() {
                true => instance.start(warm_up)?,
                false => instance.prepare(),
            }
        }
        Ok(())
    }

    fn turn(&mut self, side: Side) -> Result<Turn, BenchError> {
        let Lengths { skip, turn, .. } = self.lengths;
        let instance = self.instance(side);
        match instance.metric.is_some() {
            true => instance.counted_turn(skip, turn),
            false => instance.run_turn(turn),
        }
    }
}
