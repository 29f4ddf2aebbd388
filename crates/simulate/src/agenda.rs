//! When something next happens: on each node, and at times that are known.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// When each node is due next. Unlike a queue of events it does not grow when
/// times are predicted anew.
#[derive(Clone, Debug, Default)]
pub struct Agenda {
    /// By node; infinite where nothing is due.
    times: Vec<f64>,
    /// Those that are due, by time and number.
    due: BTreeSet<(i64, usize)>,
}

impl Agenda {
    /// Makes room for at least `nodes`.
    pub fn grow(&mut self, nodes: usize) {
        self.times
            .resize(nodes.max(self.times.len()), f64::INFINITY);
    }

    /// `node` is due at `time`; infinity for never.
    pub fn set(&mut self, node: usize, time: f64) {
        let before = std::mem::replace(&mut self.times[node], time);
        if before != time {
            self.due.remove(&(in_order(before), node));
            if time < f64::INFINITY {
                self.due.insert((in_order(time), node));
            }
        }
    }

    /// The earliest time and its node, the lowest of several; infinite when
    /// nothing is due.
    pub fn first(&self) -> (f64, usize) {
        let first = self.due.first();
        first.map_or((f64::INFINITY, 0), |(_, node)| (self.times[*node], *node))
    }
}

/// Events at known times: the earliest first, and of one time what was noted
/// first.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    /// By time, then by how many were noted before; with the time.
    events: BTreeMap<(i64, u64), (f64, E)>,
    noted: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue {
            events: BTreeMap::new(),
            noted: 0,
        }
    }
}

/// A number that is in the order of [`f64::total_cmp`].
fn in_order(seconds: f64) -> i64 {
    let bits = seconds.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

impl<E> EventQueue<E> {
    /// Notes `event`; one at no finite time never happens.
    pub fn note(&mut self, seconds: f64, event: E) {
        if seconds.is_finite() {
            let key = (in_order(seconds), self.noted);
            self.events.insert(key, (seconds, event));
            self.noted += 1;
        }
    }

    /// Infinite when nothing is to happen.
    pub fn due(&self) -> f64 {
        let first = self.events.first_key_value();
        first.map_or(f64::INFINITY, |(_, (seconds, _))| *seconds)
    }

    pub fn pop(&mut self) -> Option<E> {
        self.events.pop_first().map(|(_, (_, event))| event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_due_at_first() {
        for nodes in [0, 1, 2, 3, 9] {
            let mut agenda = Agenda::default();
            agenda.grow(nodes);
            assert_eq!(agenda.first().0, f64::INFINITY);
        }
    }

    #[test]
    fn earlier_first_and_then_by_order_of_noting() {
        let mut queue = EventQueue::default();
        queue.note(2.0, 0);
        queue.note(1.0, 1);
        queue.note(2.0, 2);
        queue.note(f64::INFINITY, 4);
        queue.note(-1.0, 3);
        assert_eq!(queue.due(), -1.0);
        let order: Vec<i32> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [3, 1, 0, 2]);
        assert_eq!(queue.due(), f64::INFINITY);
    }

    proptest! {
        #[test]
        fn the_first_is_the_least_of_all(
            sets in prop::collection::vec((0usize..13, 0u32..20), 1..80),
        ) {
            let mut agenda = Agenda::default();
            agenda.grow(5);
            agenda.grow(13);
            let mut plain = [f64::INFINITY; 13];
            for (node, time) in sets {
                let time = if time == 0 { f64::INFINITY } else { f64::from(time) };
                agenda.set(node, time);
                plain[node] = time;
                let least = plain.iter().copied().fold(f64::INFINITY, f64::min);
                prop_assert_eq!(agenda.first().0, least);
                if least.is_finite() {
                    let lowest = plain.iter().position(|time| *time == least);
                    prop_assert_eq!(Some(agenda.first().1), lowest);
                }
            }
        }
    }
}
