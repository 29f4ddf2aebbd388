//! Two rings in memory shared with a worker that plays a sequence: the blocks
//! it is to play, and the turns it has seen. Neither side wakes the other.

use super::control_page::Command;
use super::control_page::Order;
use super::control_page::Plain;
use super::shape::AtomicU64;
use super::shape::BLOCKS;
use super::shape::TURNS;
use super::shared::Shared;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::Release;

/// One block of a sequence: one source at one level for so many periods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedBlock {
    /// Which of the worker's sources, counted from 0; below 2^16.
    pub source: usize,
    pub order: Order,
    /// CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// At least 1, below 2^16: slices where the worker takes turns, else
    /// readings.
    pub periods: u32,
    /// Below 2^32.
    pub period_ns: u64,
    /// Whether the source never rests, so that the scheduler alone decides whose
    /// turn it is.
    pub busy: bool,
}

/// A reading of the target's progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    pub operations: u64,
    pub busy_ns: u64,
}

/// One slice, and the target's progress at both ends of it. What the target
/// did between two slices is the difference from one turn to the next. In a busy
/// block: one turn of the target, and its progress at both ends of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Number of the block since the start of the tape.
    pub block: u64,
    /// Which of the block's periods it was, counted from 0.
    pub position: u32,
    pub begin: Mark,
    pub end: Mark,
    /// What the source did in the slice: operations, CPU time, what it holds.
    pub operations: u64,
    pub active_ns: u64,
    pub held: u64,
}

const WORDS: usize = 10;

impl Turn {
    fn words(self) -> [u64; WORDS] {
        [
            self.block << 16 | u64::from(self.position),
            self.begin.at_ns,
            self.begin.operations,
            self.begin.busy_ns,
            self.end.at_ns,
            self.end.operations,
            self.end.busy_ns,
            self.operations,
            self.active_ns,
            self.held,
        ]
    }

    fn of(words: [u64; WORDS]) -> Turn {
        let mark = |first: usize| Mark {
            at_ns: words[first],
            operations: words[first + 1],
            busy_ns: words[first + 2],
        };
        Turn {
            block: words[0] >> 16,
            position: words[0] as u32 & 0xffff,
            begin: mark(1),
            end: mark(4),
            operations: words[7],
            active_ns: words[8],
            held: words[9],
        }
    }
}

/// The rings. All counts only grow.
#[repr(C, align(4096))]
pub struct Tape {
    // Written by the profiler.
    planned: AtomicU64,
    read: AtomicU64,
    /// Blocks below this number are not to be played any more.
    cancelled: AtomicU64,
    /// Number of the last handover.
    handed: AtomicU64,
    _profiler: [u64; 4],
    // Written by the worker.
    played: AtomicU64,
    written: AtomicU64,
    lost: AtomicU64,
    /// The last handover that is in force, and whether not all of it can be
    /// read.
    taken: AtomicU64,
    blind: AtomicU64,
    _worker: [u64; 3],
    blocks: [[AtomicU64; 4]; BLOCKS],
    turns: [[AtomicU64; WORDS]; TURNS],
}

// SAFETY: atomics and unread padding only, `repr(C)`, and zero is valid.
unsafe impl Shared for Tape {}

/// As a new page is.
impl Default for Tape {
    fn default() -> Tape {
        fn zero<const N: usize>() -> [AtomicU64; N] {
            std::array::from_fn(|_| AtomicU64::new(0))
        }
        let [planned, read, cancelled, handed] = zero();
        let [played, written, lost, taken, blind] = zero();
        Tape {
            planned,
            read,
            cancelled,
            handed,
            _profiler: [0; 4],
            played,
            written,
            lost,
            taken,
            blind,
            _worker: [0; 3],
            blocks: std::array::from_fn(|_| zero()),
            turns: std::array::from_fn(|_| zero()),
        }
    }
}

impl Tape {
    /// Plans `block`; its number, or `None` while the ring is full.
    pub fn plan(&self, block: PlannedBlock) -> Option<u64> {
        let number = self.planned.load(Relaxed);
        if number - self.played.load(Acquire) >= BLOCKS as u64 {
            return None;
        }
        let command = Command::new(block.order, number as u32);
        let shape = (block.source as u64) << 48 | u64::from(block.periods) << 32 | block.period_ns;
        let slot = &self.blocks[number as usize % BLOCKS];
        slot[0].store((Command::TO_WORD)(command), Relaxed);
        slot[1].store(shape, Relaxed);
        slot[2].store(block.begin_ns, Relaxed);
        slot[3].store(u64::from(block.busy), Relaxed);
        self.planned.store(number + 1, Release);
        Some(number)
    }

    /// The block to play next, and its number.
    pub fn next(&self) -> Option<(u64, PlannedBlock)> {
        let number = self.played.load(Relaxed);
        if number >= self.planned.load(Acquire) {
            return None;
        }
        let slot = &self.blocks[number as usize % BLOCKS];
        let shape = slot[1].load(Relaxed);
        let block = PlannedBlock {
            source: (shape >> 48) as usize,
            order: (Command::FROM_WORD)(slot[0].load(Relaxed)).order(),
            begin_ns: slot[2].load(Relaxed),
            periods: (shape >> 32) as u32 & 0xffff,
            period_ns: shape & 0xffff_ffff,
            busy: slot[3].load(Relaxed) != 0,
        };
        Some((number, block))
    }

    /// Says that the block from [`Tape::next`] was played.
    pub fn done(&self) {
        self.played.fetch_add(1, Release);
    }

    /// Blocks planned so far are not played, or not to their end.
    pub fn cancel(&self) {
        self.cancelled.store(self.planned.load(Relaxed), Release);
    }

    /// Whether block `number` was cancelled.
    pub fn is_cancelled(&self, number: u64) -> bool {
        number < self.cancelled.load(Acquire)
    }

    /// How many blocks were played.
    pub fn played(&self) -> u64 {
        self.played.load(Acquire)
    }

    /// Whether nothing was planned after block `number`.
    pub fn is_last(&self, number: u64) -> bool {
        number + 1 >= self.planned.load(Acquire)
    }

    /// Whether everything planned was played.
    pub fn is_over(&self) -> bool {
        self.played() >= self.planned.load(Relaxed)
    }

    /// Writes `turn` down; counts it as lost where nobody read the earlier ones.
    pub fn write(&self, turn: Turn) {
        let number = self.written.load(Relaxed);
        if number - self.read.load(Acquire) >= TURNS as u64 {
            self.lost.fetch_add(1, Relaxed);
            return;
        }
        let slot = &self.turns[number as usize % TURNS];
        for (slot, word) in slot.iter().zip(turn.words()) {
            slot.store(word, Relaxed);
        }
        self.written.store(number + 1, Release);
    }

    /// Takes the turns written since the last call.
    pub fn take(&self) -> Vec<Turn> {
        let (from, to) = (self.read.load(Relaxed), self.written.load(Acquire));
        let turns = (from..to)
            .map(|number| {
                let slot = &self.turns[number as usize % TURNS];
                Turn::of(std::array::from_fn(|word| slot[word].load(Relaxed)))
            })
            .collect();
        self.read.store(to, Release);
        turns
    }

    /// Turns that found no place.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Number of the last handover, 0 before the first.
    pub fn handed(&self) -> u64 {
        self.handed.load(Acquire)
    }

    /// Says that handover `call` (of [`super::handover`]) is there to be taken.
    pub fn hand(&self, call: u64) {
        self.handed.store(call, Release);
    }

    /// Says that `call` is being read from now on, or that not all of it can
    /// be.
    pub fn taken(&self, call: u64, all: bool) {
        self.blind.store(u64::from(!all), Relaxed);
        self.taken.store(call, Release);
    }

    /// Whether what was handed over last is being read; `None` while the worker
    /// has not looked.
    pub fn sees(&self) -> Option<bool> {
        let looked = self.taken.load(Acquire) == self.handed.load(Relaxed);
        looked.then(|| self.blind.load(Relaxed) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::shared::SharedPage;

    fn block(source: usize, order: Order) -> PlannedBlock {
        PlannedBlock {
            source,
            order,
            begin_ns: 1 << 60,
            periods: 8,
            period_ns: 500_000,
            busy: source == 3,
        }
    }

    #[test]
    fn blocks_come_out_as_they_went_in() {
        let tape: SharedPage<Tape> = SharedPage::create("test").unwrap();
        assert_eq!(tape.next(), None);
        for index in 0..BLOCKS {
            let planned = block(index % 7, Order::Treat(index as f64 / 16.0));
            assert_eq!(tape.plan(planned), Some(index as u64));
        }
        let one = block(3, Order::Control);
        assert_eq!(tape.plan(one), None, "the ring is full");
        assert_eq!(tape.next(), Some((0, block(0, Order::Treat(0.0)))));
        tape.done();
        assert_eq!(tape.plan(one), Some(BLOCKS as u64));
        assert_eq!(tape.next(), Some((1, block(1, Order::Treat(1.0 / 16.0)))));
        assert!(!tape.is_over() && !tape.is_cancelled(1));
        tape.cancel();
        while let Some((number, _)) = tape.next() {
            assert!(tape.is_cancelled(number) && !tape.is_over());
            assert_eq!(tape.is_last(number), number == BLOCKS as u64);
            tape.done();
        }
        assert!(tape.is_over());
    }

    #[test]
    fn turns_come_out_as_they_went_in_and_the_rest_is_counted() {
        let tape: SharedPage<Tape> = SharedPage::create("test").unwrap();
        let mark = |at_ns| Mark {
            at_ns,
            operations: at_ns + 1,
            busy_ns: at_ns + 2,
        };
        let turn = Turn {
            block: 5,
            position: 7,
            begin: mark(10),
            end: mark(20),
            operations: 1,
            active_ns: 2,
            held: 9,
        };
        for _ in 0..TURNS + 3 {
            tape.write(turn);
        }
        assert_eq!(tape.lost(), 3);
        let turns = tape.take();
        assert_eq!(turns.len(), TURNS);
        assert!(turns.iter().all(|read| *read == turn));
        assert_eq!(tape.take(), []);
    }

    #[test]
    fn what_was_handed_over_last_counts() {
        let tape: SharedPage<Tape> = SharedPage::create("test").unwrap();
        tape.hand(1);
        assert_eq!((tape.handed(), tape.sees()), (1, None));
        tape.taken(1, false);
        assert_eq!(tape.sees(), Some(false));
        tape.hand(2);
        assert_eq!(tape.sees(), None);
        tape.taken(2, true);
        assert_eq!(tape.sees(), Some(true));
    }
}
