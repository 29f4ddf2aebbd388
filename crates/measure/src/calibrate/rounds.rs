//! As many repetitions as there is time for, between a fewest and a most.

use super::press::Slot;
use super::press::Watch;
use std::time::Duration;

pub(super) struct Rounds<'a> {
    watch: &'a dyn Watch,
    began: Duration,
    length: Duration,
    /// Fewest and most.
    range: (usize, usize),
    done: usize,
}

impl<'a> Rounds<'a> {
    pub fn of(slot: Slot<'a>, range: (usize, usize)) -> Self {
        Rounds::new(slot.length, range, slot.watch)
    }

    pub fn new(length: Duration, range: (usize, usize), watch: &'a dyn Watch) -> Self {
        Rounds {
            watch,
            began: watch.now(),
            length,
            range,
            done: 0,
        }
    }

    /// Takes no account of `waited`.
    pub fn excuse(&mut self, waited: Duration) {
        self.began += waited;
    }

    /// Whether another round is to be done: it is counted as begun.
    pub fn another(&mut self) -> bool {
        let spent = self.watch.now().saturating_sub(self.began);
        let expected = spent + spent / self.done.max(1) as u32;
        let (fewest, most) = self.range;
        let go = self.done < fewest || self.done < most && expected <= self.length;
        self.done += usize::from(go);
        go
    }
}
