//! What is to happen at a known time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that happens at its time whatever else does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    /// A job is profiled and wants a place.
    Ready(u32),
    /// An agent has decided.
    Decided(u32),
    /// The new behaviour of a job is known: (job, its how-manieth start, phase).
    Detected(u32, u32, usize),
    NodeRepaired(u32),
    CpuRepaired(u32),
    /// An agent's copy of the cluster is brought up to date.
    Sync(u32),
    /// An agent, or its admission, wanted to be asked again.
    Wake(u32),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    seconds: f64,
    sequence: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The earlier is the greater; at one time, what was noted first.
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .seconds
            .total_cmp(&self.seconds)
            .then(other.sequence.cmp(&self.sequence))
    }
}

/// Events in the order of time, then of being noted.
#[derive(Clone, Debug, Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Entry>,
    noted: u64,
}

impl EventQueue {
    /// Notes `event`; one at no finite time never happens.
    pub(super) fn note(&mut self, seconds: f64, event: Event) {
        if seconds.is_finite() {
            self.heap.push(Entry {
                seconds,
                sequence: self.noted,
                event,
            });
            self.noted += 1;
        }
    }

    /// Infinite when nothing is to happen.
    pub(super) fn due(&self) -> f64 {
        self.heap
            .peek()
            .map_or(f64::INFINITY, |entry| entry.seconds)
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|entry| entry.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_first_and_then_by_order_of_noting() {
        let mut queue = EventQueue::default();
        queue.note(2.0, Event::Ready(0));
        queue.note(1.0, Event::Ready(1));
        queue.note(2.0, Event::Ready(2));
        queue.note(f64::INFINITY, Event::Ready(3));
        assert_eq!(queue.due(), 1.0);
        let order: Vec<Event> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [1, 0, 2].map(Event::Ready));
        assert_eq!(queue.due(), f64::INFINITY);
    }
}
