//! When something next happens: on each node, and at times that are known.

use std::collections::BTreeMap;

/// A tournament over nodes: the earliest time is read at once, and a change of
/// one node's time costs a walk from its leaf to the root. Unlike a heap with
/// outdated entries it does not grow when times are predicted anew.
#[derive(Clone, Debug)]
pub struct Agenda {
    /// Times of the leaves; infinite where nothing is due.
    times: Vec<f64>,
    /// Winner of each inner place, 1 = the root; leaves stand behind.
    winners: Vec<u32>,
    /// Leaves there is room for, a power of two.
    leaves: usize,
}

impl Agenda {
    pub fn new(nodes: usize) -> Self {
        let leaves = nodes.next_power_of_two().max(2);
        let mut agenda = Agenda {
            times: vec![f64::INFINITY; leaves],
            winners: vec![0; leaves],
            leaves,
        };
        agenda.rebuild();
        agenda
    }

    fn rebuild(&mut self) {
        for place in (1..self.leaves).rev() {
            self.winners[place] = self.winner(place);
        }
    }

    /// Makes room for at least `nodes`.
    pub fn grow(&mut self, nodes: usize) {
        if nodes > self.leaves {
            self.leaves = nodes.next_power_of_two();
            self.times.resize(self.leaves, f64::INFINITY);
            self.winners = vec![0; self.leaves];
            self.rebuild();
        }
    }

    fn contender(&self, place: usize) -> u32 {
        match place.checked_sub(self.leaves) {
            Some(leaf) => leaf as u32,
            None => self.winners[place],
        }
    }

    /// The earlier of the two below `place`; the lower one when both are due
    /// at once.
    fn winner(&self, place: usize) -> u32 {
        let (left, right) = (self.contender(2 * place), self.contender(2 * place + 1));
        if self.times[right as usize] < self.times[left as usize] {
            right
        } else {
            left
        }
    }

    /// `node` is due at `time`; infinity for never.
    pub fn set(&mut self, node: usize, time: f64) {
        self.times[node] = time;
        let mut place = (node + self.leaves) / 2;
        while place > 0 {
            self.winners[place] = self.winner(place);
            place /= 2;
        }
    }

    /// The earliest time and its node; infinite when nothing is due.
    pub fn first(&self) -> (f64, usize) {
        let node = self.winners[1] as usize;
        (self.times[node], node)
    }
}

/// Events at known times: the earliest first, and of one time what was noted
/// first.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    /// By time, then by how many were noted before.
    events: BTreeMap<(i64, u64), E>,
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

/// Numbers in the order of [`f64::total_cmp`] from the bits of a time, and the
/// other way round.
fn in_order(bits: i64) -> i64 {
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

impl<E> EventQueue<E> {
    /// Notes `event`; one at no finite time never happens.
    pub fn note(&mut self, seconds: f64, event: E) {
        if seconds.is_finite() {
            let at = in_order(seconds.to_bits() as i64);
            self.events.insert((at, self.noted), event);
            self.noted += 1;
        }
    }

    /// Infinite when nothing is to happen.
    pub fn due(&self) -> f64 {
        let first = self.events.first_key_value();
        first.map_or(f64::INFINITY, |((at, _), _)| {
            f64::from_bits(in_order(*at) as u64)
        })
    }

    pub fn pop(&mut self) -> Option<E> {
        self.events.pop_first().map(|(_, event)| event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_due_at_first() {
        for nodes in [0, 1, 2, 3, 9] {
            assert_eq!(Agenda::new(nodes).first().0, f64::INFINITY);
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
            let mut agenda = Agenda::new(5);
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
