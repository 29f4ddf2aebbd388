//! As many repetitions as there is time for, between a fewest and a most.

use super::press::Watch;
use std::time::Duration;

pub(super) struct Rounds<'a> {
    watch: &'a dyn Watch,
    began: Duration,
    length: Duration,
    fewest: usize,
    most: usize,
    done: usize,
}

impl<'a> Rounds<'a> {
    pub fn new(length: Duration, (fewest, most): (usize, usize), watch: &'a dyn Watch) -> Self {
        Rounds {
            watch,
            began: watch.now(),
            length,
            fewest,
            most,
            done: 0,
        }
    }

    /// Whether another round is to be done: it is counted as begun.
    pub fn another(&mut self) -> bool {
        let spent = self.watch.now().saturating_sub(self.began);
        let expected = spent + spent / self.done.max(1) as u32;
        let go = self.done < self.fewest || self.done < self.most && expected <= self.length;
        self.done += usize::from(go);
        go
    }
}

/// The middle value; of an even number the mean of the two. 0 of none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => 0.0,
        (count, middle) if count % 2 == 1 => values[middle],
        (_, middle) => (values[middle - 1] + values[middle]) / 2.0,
    }
}
