//! What storage I/O looks like, as a Markov chain.
//!
//! States are ranges of the scratch area. Each transition is one I/O: it ends
//! in a range, has a size and a direction, falls anywhere in the range or goes
//! on where the last I/O there ended, and is due some time after the I/O
//! before. Patterns made so from a trace of block I/O have been shown to put
//! the load of the traced application on a disk (extended DiskSpd).

pub use crate::chain::Arrival;
pub use crate::chain::MOST_GAMMA_SPREAD;
pub use crate::chain::MOST_NORMAL_SPREAD;
use crate::chain::stationary;
use serde::Deserialize;
use serde::Serialize;

/// Most states of a pattern.
pub const MOST_STATES: usize = 128;
/// Most transitions of a pattern.
pub const MOST_TRANSITIONS: usize = 2000;
/// Largest request, bytes.
pub const LARGEST_BLOCK: u32 = 16 << 20;
/// Requests are whole multiples of this, the least that disks transfer, bytes.
pub const SECTOR: u32 = 512;

/// A chain: every state can be reached from every other, and the probabilities
/// of the transitions that leave a state sum to 1. Plain data; who reads it
/// from a file checks it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pattern {
    /// Built-in name or file name, for messages.
    pub name: String,
    /// Of the random positions and times.
    pub seed: u64,
    /// The walk starts in the first.
    pub states: Vec<State>,
    pub transitions: Vec<Transition>,
}

/// A range of the scratch area.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub name: String,
    /// Where it begins and ends, percent of the scratch area.
    pub range_percent: [f64; 2],
}

/// One kind of I/O. Written as a list of numbers, so that the largest
/// pattern fits on the command line of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Packed", into = "Packed")]
pub struct Transition {
    /// Index of the state it leaves.
    pub from: usize,
    /// Index of the state it goes to, in whose range the I/O falls.
    pub to: usize,
    /// Of all I/Os that follow one in `from`, the share that are this, 0–1.
    pub probability: f64,
    /// Size of the request, bytes.
    pub block_bytes: u32,
    pub operation: Operation,
    pub access: Access,
    /// Mean time from the I/O before until this one is due, µs. Only relations
    /// between transitions count: intensity scales all of them alike.
    pub inter_arrival_us: f64,
    pub arrival: Arrival,
}

/// From, to, probability, size, what it is ([`Transition::code`]), time, and
/// spread of the time.
type Packed = (usize, usize, f32, u32, u8, f32, f32);

impl Transition {
    /// Law of the times, direction and access as one number.
    fn code(&self) -> u8 {
        let (law, _) = self.arrival.pack();
        let write = u8::from(self.operation == Operation::Write);
        let sequential = u8::from(self.access == Access::Sequential);
        law * 4 + write * 2 + sequential
    }
}

impl TryFrom<Packed> for Transition {
    type Error = String;

    fn try_from(packed: Packed) -> Result<Transition, String> {
        let (from, to, probability, block_bytes, code, us, spread) = packed;
        Ok(Transition {
            from,
            to,
            probability: f64::from(probability),
            block_bytes,
            operation: match code & 2 {
                0 => Operation::Read,
                _ => Operation::Write,
            },
            access: match code & 1 {
                0 => Access::Random,
                _ => Access::Sequential,
            },
            inter_arrival_us: f64::from(us),
            arrival: Arrival::unpack(code / 4, spread)?,
        })
    }
}

impl From<Transition> for Packed {
    fn from(kind: Transition) -> Packed {
        let (_, spread) = kind.arrival.pack();
        (
            kind.from,
            kind.to,
            kind.probability as f32,
            kind.block_bytes,
            kind.code(),
            kind.inter_arrival_us as f32,
            spread,
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    Read,
    Write,
}

/// Where in its range an I/O falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Anywhere, at a multiple of its size.
    Random,
    /// Where the last I/O of this range ended.
    Sequential,
}

impl Pattern {
    /// Reads the whole area in order, at even times.
    pub fn sequential() -> Pattern {
        Pattern::of_one("sequential", SEQUENTIAL_BLOCK, Access::Sequential)
    }

    /// Reads 4 KiB anywhere, at even times.
    pub fn random() -> Pattern {
        Pattern::of_one("random", 4096, Access::Random)
    }

    fn of_one(name: &str, block_bytes: u32, access: Access) -> Pattern {
        Pattern {
            name: name.into(),
            seed: 1,
            states: vec![State {
                name: "all".into(),
                range_percent: [0.0, 100.0],
            }],
            transitions: vec![Transition {
                from: 0,
                to: 0,
                probability: 1.0,
                block_bytes,
                operation: Operation::Read,
                access,
                inter_arrival_us: 100.0,
                arrival: Arrival::Fixed,
            }],
        }
    }

    /// The share of all I/Os that each transition has in the long run.
    pub fn weights(&self) -> Vec<f64> {
        let steps = self.transitions.iter();
        let steps = steps.map(|kind| (kind.from, kind.to, kind.probability));
        let visited = stationary(self.states.len(), steps);
        self.transitions
            .iter()
            .map(|transition| visited[transition.from] * transition.probability)
            .collect()
    }

    /// Mean over all I/Os of something that each transition has.
    pub fn mean(&self, of: impl Fn(&Transition) -> f64) -> f64 {
        let weights = self.weights();
        let each = self.transitions.iter().zip(weights);
        each.map(|(transition, weight)| weight * of(transition))
            .sum()
    }

    /// Real nanoseconds for one µs of the pattern when it is to move so many
    /// sectors a second.
    pub fn stretch(&self, sectors_per_second: f64) -> f64 {
        let sectors = self.mean(|kind| f64::from(kind.block_bytes)) / f64::from(SECTOR);
        sectors / sectors_per_second * 1e9 / self.mean(|kind| kind.inter_arrival_us)
    }

    /// Size of the largest request, bytes.
    pub fn largest_block_bytes(&self) -> u32 {
        let blocks = self.transitions.iter().map(|kind| kind.block_bytes);
        blocks.max().unwrap_or(SECTOR)
    }
}

/// Chosen by measurement: see the documentation of the source.
const SEQUENTIAL_BLOCK: u32 = 512 << 10;

impl Default for Pattern {
    /// [`Pattern::sequential`].
    fn default() -> Self {
        Pattern::sequential()
    }
}
