//! Recorded noise (see fixtures/noise/README.md) and sequences made of it.

use jostle_statistics::Block;
use jostle_statistics::Grain;
use jostle_statistics::below;
use jostle_statistics::block_rate;
use jostle_statistics::location;
use rand::rngs::ChaCha8Rng;
use std::path::Path;

pub const NAMES: [&str; 5] = [
    "chase-40KiB",
    "chase-1300KiB",
    "chase-16MiB",
    "kv",
    "l2-capacity",
];
pub const LEVELS: [f64; 5] = [20.0, 40.0, 60.0, 80.0, 100.0];

/// Turns hold thousands of operations.
const WHOLE: Grain = Grain {
    operations: 1.0,
    rest: 0.0,
};

/// Turns of the target between two slices of the placebo.
pub struct Recording {
    /// Seconds, operations.
    turns: Vec<(f64, f64)>,
    slice_seconds: f64,
}

pub fn read(name: &'static str) -> Recording {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/noise");
    let bytes = std::fs::read(folder.join(format!("{name}.noise"))).unwrap();
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let words: Vec<&str> = head.split(' ').collect();
    let [
        "noise",
        "unit_ns",
        ns,
        "unit_count",
        count,
        "slice_ns",
        slice,
    ] = words[..]
    else {
        panic!("{name}: {head}");
    };
    let number = |text: &str| text.parse::<f64>().unwrap();
    let (ns, count) = (number(ns), number(count));
    let turns = bytes[end + 1..].chunks_exact(4).map(|pair| {
        let turn = f64::from(u16::from_le_bytes([pair[0], pair[1]]));
        let done = f64::from(u16::from_le_bytes([pair[2], pair[3]]));
        (turn * ns / 1e9, done * count)
    });
    Recording {
        turns: turns.collect(),
        slice_seconds: number(slice) / 1e9,
    }
}

/// A sequence to be made of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Each with an arm per level.
    pub sources: usize,
    pub controls: usize,
    pub turns: usize,
    /// Share of the blocks that steal all but a twentieth of the target's time.
    pub stolen: f64,
}

impl Plan {
    pub fn of(sources: usize, turns: usize) -> Plan {
        Plan {
            sources,
            controls: (sources / 2).clamp(4, 8),
            turns,
            stolen: 0.0,
        }
    }

    pub fn arms(&self) -> usize {
        1 + self.sources * LEVELS.len()
    }

    /// Per arm its log ratio: source s keeps all up to a level, then falls to
    /// `1 - loss(s)` at 100.
    pub fn truth(&self, loss: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut truth = vec![0.0];
        for source in 0..self.sources {
            let bend = 20.0 * (source % 3) as f64;
            for level in LEVELS {
                let share = (level - bend).max(0.0) / (100.0 - bend);
                truth.push((1.0 - loss(source) * share).ln());
            }
        }
        truth
    }

    /// `seconds` of `noise` from a random moment, with the effects of random arms.
    pub fn sequence(
        &self,
        noise: &Recording,
        seconds: f64,
        truth: &[f64],
        rng: &mut ChaCha8Rng,
    ) -> Vec<Block> {
        let period: f64 = 0.0005;
        let length = (seconds / period) as usize;
        let start = below(rng, noise.turns.len() - length);
        let mut blocks = Vec::new();
        let mut order: Vec<usize> = Vec::new();
        let (mut stratum, mut at) = (0, 0.0);
        // What is left of the arm before is not counted.
        let skip = self.turns / 4;
        for turns in noise.turns[start..start + length].chunks_exact(self.turns) {
            if order.is_empty() {
                order = (1..truth.len()).collect();
                order.extend(std::iter::repeat_n(0, self.controls));
                shuffle(&mut order, rng);
                stratum += 1;
            }
            let arm = order.pop().unwrap();
            let all: f64 = turns.iter().map(|turn| turn.0 + noise.slice_seconds).sum();
            let stolen = (below(rng, 1000) as f64) < 1000.0 * self.stolen;
            if let Some(value) = block_rate(&turns[skip..], WHOLE) {
                blocks.push(Block {
                    at: at + 0.5 * all,
                    stratum,
                    arm,
                    value: value + truth[arm] + if stolen { 0.05f64.ln() } else { 0.0 },
                });
            }
            at += all;
        }
        blocks
    }
}

pub fn shuffle(order: &mut [usize], rng: &mut ChaCha8Rng) {
    for i in (1..order.len()).rev() {
        order.swap(i, below(rng, i + 1));
    }
}

/// Effects as the differences from the mean of the nearest control before and after.
pub fn nearest(blocks: &[Block], arms: usize) -> Vec<Option<f64>> {
    let controls: Vec<usize> = (0..blocks.len()).filter(|k| blocks[*k].arm == 0).collect();
    let mut ratios = vec![Vec::new(); arms];
    for (k, block) in blocks.iter().enumerate() {
        let next = controls.partition_point(|c| *c < k);
        let near = [next.checked_sub(1), Some(next)];
        let near = near.iter().filter_map(|c| controls.get((*c)?));
        let near: Vec<f64> = near.map(|c| blocks[*c].value).collect();
        if !near.is_empty() {
            ratios[block.arm].push(block.value - near.iter().sum::<f64>() / near.len() as f64);
        }
    }
    let of = ratios.iter().map(|r| (!r.is_empty()).then(|| location(r)));
    of.collect()
}
