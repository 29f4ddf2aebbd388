//! Turns on the real machine.

use super::awake::Awake;
use super::bench::Bench;
use super::bench::BenchError;
use super::bench::Side;
use super::bench::Turn;
use super::side::Instance;
use crate::workload::CommandSpec;
use jostle_host::sys::clock::monotonic_ns;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use std::time::Duration;

pub(super) struct LiveBench {
    pub(super) sides: [Instance; 2],
    pub(super) lengths: Lengths,
    pub(super) awake: Awake,
    pub(super) commands: [CommandSpec; 2],
    /// Decides who is started by what.
    pub(super) rng: ChaCha8Rng,
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
    /// Whatever stays from start to start (a descriptor, an environment) must not belong
    /// to one of the builds: at random they change places.
    fn deal(&mut self) {
        let [old, new] = &mut self.sides;
        if self.rng.random::<bool>() {
            std::mem::swap(&mut old.target, &mut new.target);
        }
        let [old_command, new_command] = self.commands.clone();
        old.target.run_next(old_command);
        new.target.run_next(new_command);
    }

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
        self.deal();
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
