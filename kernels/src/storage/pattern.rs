//! What storage I/O looks like, as a Markov chain.
//!
//! States are ranges of the scratch area. Each transition is one I/O: it ends
//! in a range, has a size and a direction, falls anywhere in the range or goes
//! on where the last I/O there ended, and is due some time after the I/O
//! before. Patterns made so from a trace of block I/O have been shown to put
//! the load of the traced application on a disk (extended DiskSpd).

use serde::Deserialize;
use serde::Serialize;

/// Most states of a pattern.
pub const MOST_STATES: usize = 128;
/// Most transitions of a pattern.
pub const MOST_TRANSITIONS: usize = 512;
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

/// One kind of I/O.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// How times between I/Os are spread around their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    #[default]
    Fixed,
    Exponential,
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
        let visited = self.stationary();
        self.transitions
            .iter()
            .map(|transition| visited[transition.from] * transition.probability)
            .collect()
    }

    /// The share of all I/Os that each state has in the long run, by the
    /// elimination of Grassmann, Taksar and Heyman, which subtracts nothing and
    /// so loses no digits.
    fn stationary(&self) -> Vec<f64> {
        let count = self.states.len();
        let mut chain = vec![vec![0.0; count]; count];
        for transition in &self.transitions {
            chain[transition.from][transition.to] += transition.probability;
        }
        for last in (1..count).rev() {
            let back: f64 = chain[last][..last].iter().sum();
            for from in 0..last {
                chain[from][last] /= back;
                for to in 0..last {
                    chain[from][to] += chain[from][last] * chain[last][to];
                }
            }
        }
        let mut visited = vec![1.0; count];
        for state in 1..count {
            visited[state] = (0..state)
                .map(|from| visited[from] * chain[from][state])
                .sum();
        }
        let all: f64 = visited.iter().sum();
        visited.iter().map(|visits| visits / all).collect()
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
