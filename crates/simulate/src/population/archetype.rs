//! The resources that programs use, and how performance falls under contention.

use crate::hardware::ServerType;
use crate::random::normal;
use crate::truth::TrueCurve;
use jostle_profile::resource::Resource;
use jostle_schedule::predict::LaneSet;
use jostle_schedule::predict::Lanes;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use std::collections::BTreeMap;

/// The resources that the applications of a population meet on: those that
/// neighbours with CPUs of their own share, and as many as the papers' N = 10.
pub const SHARED: [Resource; 10] = [
    Resource::L2Capacity,
    Resource::L2Bandwidth,
    Resource::LlcCapacity,
    Resource::LlcBandwidth,
    Resource::MemoryCapacity,
    Resource::MemoryBandwidth,
    Resource::Interconnect,
    Resource::StorageCapacity,
    Resource::StorageBandwidth,
    Resource::NetworkBandwidth,
];

/// [`SHARED`] as a set.
pub fn shared() -> LaneSet {
    SHARED
        .map(|resource| resource as usize)
        .into_iter()
        .collect()
}

/// What a program is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Archetype {
    /// How much it lives on each resource, in the order of [`SHARED`], 0–1.
    uses: [f64; SHARED.len()],
    /// Shares of its time alone on cores, caches, memory and devices.
    needs: [f64; 4],
}

/// A program that computes and little else.
pub const COMPUTE: Archetype = Archetype {
    uses: [0.3, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    needs: [0.85, 0.1, 0.05, 0.0],
};
/// A working set that just fits the last-level cache.
pub const CACHE: Archetype = Archetype {
    uses: [0.4, 0.15, 0.95, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    needs: [0.55, 0.3, 0.15, 0.0],
};
/// Streams through memory.
pub const BANDWIDTH: Archetype = Archetype {
    uses: [0.0, 0.0, 0.15, 0.45, 0.0, 0.95, 0.0, 0.0, 0.0, 0.0],
    needs: [0.5, 0.1, 0.4, 0.0],
};
/// Threads that pass data to each other.
pub const SHARING: Archetype = Archetype {
    uses: [0.15, 0.0, 0.35, 0.15, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0],
    needs: [0.6, 0.2, 0.2, 0.0],
};
/// Reads and writes files.
pub const STORAGE: Archetype = Archetype {
    uses: [0.0, 0.0, 0.0, 0.0, 0.15, 0.0, 0.0, 0.6, 0.95, 0.0],
    needs: [0.4, 0.05, 0.1, 0.45],
};
/// Large tables in memory, filled from files.
pub const MINING: Archetype = Archetype {
    uses: [0.0, 0.0, 0.15, 0.0, 0.85, 0.35, 0.0, 0.0, 0.35, 0.0],
    needs: [0.5, 0.15, 0.2, 0.15],
};
/// Moves data over the network.
pub const NETWORK: Archetype = Archetype {
    uses: [0.0, 0.0, 0.0, 0.0, 0.0, 0.15, 0.2, 0.0, 0.0, 0.95],
    needs: [0.5, 0.1, 0.1, 0.3],
};
/// Answers requests within microseconds.
pub const SERVICE: Archetype = Archetype {
    uses: [0.25, 0.0, 0.75, 0.15, 0.15, 0.2, 0.0, 0.0, 0.0, 0.7],
    needs: [0.6, 0.2, 0.1, 0.1],
};

/// Uses below this neither hurt nor are felt.
const NEGLIGIBLE: f64 = 0.1;
/// Points of pressure on the reference server that full use by one CPU causes.
const CAUSED_BY_FULL_USE: f64 = 26.0;
/// Correlation of what a program tolerates and causes on one resource, beyond
/// what its archetype says of both.
const CORRELATION: f64 = 0.5;
/// Spread (sigma of a lognormal) of programs of one archetype.
const SPREAD: f64 = 0.4;
/// Spread of speeds by family of servers, and within a family.
const FAMILY_SPREAD: f64 = 0.1;
const TYPE_SPREAD: f64 = 0.015;

/// How performance falls with pressure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// Nothing until `knee`, then all at once.
    Cliff {
        knee: f64,
        width: f64,
    },
    /// Slowly, fast around `half`, slowly: x^n / (x^n + half^n).
    Hill {
        half: f64,
        power: f64,
    },
    /// Fast at first, then less and less.
    Saturating {
        scale: f64,
    },
    Straight,
}

impl Shape {
    /// Share of the whole loss at `x` points, 0 at 0 and near 1 at 100.
    fn share(self, x: f64) -> f64 {
        match self {
            Shape::Cliff { knee, width } => {
                let logistic = |x: f64| 1.0 / (1.0 + (-(x - knee) / width).exp());
                (logistic(x) - logistic(0.0)) / (logistic(100.0) - logistic(0.0))
            }
            Shape::Hill { half, power } => {
                let hill = |x: f64| x.powf(power) / (x.powf(power) + half.powf(power));
                hill(x) / hill(100.0)
            }
            Shape::Saturating { scale } => {
                (1.0 - (-x / scale).exp()) / (1.0 - (-100.0 / scale).exp())
            }
            Shape::Straight => x / 100.0,
        }
    }
}

/// One program as it really is.
#[derive(Clone, Debug)]
pub struct Program {
    /// Per lane: share of performance lost at full pressure, and how it falls.
    losses: Vec<(usize, f64, Shape)>,
    /// Points on the reference server.
    pub caused: Lanes<f64>,
    needs: [f64; 4],
}

impl Program {
    /// A program of `archetype`.
    pub fn draw(archetype: &Archetype, rng: &mut ChaCha8Rng) -> Self {
        let mut program = Program {
            losses: Vec::new(),
            caused: Lanes::default(),
            needs: archetype.needs,
        };
        for (resource, uses) in SHARED.into_iter().zip(archetype.uses) {
            let lane = resource as usize;
            let (a, b) = (normal(rng), normal(rng));
            let other = CORRELATION * a + (1.0 - CORRELATION * CORRELATION).sqrt() * b;
            let sensitivity = uses * (SPREAD * a).exp();
            let use_of_it = uses * (SPREAD * other).exp();
            let shape = draw_shape(sensitivity.min(1.0), rng);
            if sensitivity >= NEGLIGIBLE {
                let loss = (0.7 * sensitivity.powf(0.8)).min(0.8);
                program.losses.push((lane, loss, shape));
            }
            if use_of_it >= NEGLIGIBLE {
                program.caused[lane] = (CAUSED_BY_FULL_USE * use_of_it).min(60.0);
            }
        }
        program
    }

    /// Performance, 0–1, at `x` points of pressure on `lane`.
    pub fn performance(&self, lane: usize, x: f64) -> f64 {
        let found = self.losses.iter().find(|(at, ..)| *at == lane);
        found.map_or(1.0, |(_, loss, shape)| 1.0 - loss * shape.share(x))
    }

    /// Resources on which it loses.
    pub fn bends(&self) -> LaneSet {
        self.losses.iter().map(|(lane, ..)| *lane).collect()
    }

    /// Time it takes alone on a server of `kind`, against an ideal one.
    pub fn time_on(&self, kind: &ServerType) -> f64 {
        let [core, cache, memory, device] = self.needs;
        core / kind.core_speed
            + cache * (24.0 / kind.llc_mib).powf(0.04)
            + memory * (64.0 / kind.memory_gbs).powf(0.04)
            + device / kind.io_speed
    }
}

fn draw_shape(sensitivity: f64, rng: &mut ChaCha8Rng) -> Shape {
    let knee = (72.0 - 45.0 * sensitivity + 10.0 * normal(rng)).clamp(12.0, 90.0);
    match rng.random_range(0..100) {
        0..35 => Shape::Cliff {
            knee,
            width: rng.random_range(3.0..6.0),
        },
        35..70 => Shape::Hill {
            half: knee,
            power: rng.random_range(2.0..4.0),
        },
        70..85 => Shape::Saturating {
            scale: rng.random_range(30.0..60.0),
        },
        _ => Shape::Straight,
    }
}

/// The curves of programs that run together as one application and share its
/// CPUs alike: the mean of their performance.
pub fn curves(programs: &[Program]) -> Vec<TrueCurve> {
    let bends = programs.iter().map(Program::bends);
    let mean = |lane: usize, x: f64| {
        let each = programs.iter().map(|program| program.performance(lane, x));
        each.sum::<f64>() / programs.len() as f64
    };
    let curve = |lane| TrueCurve::new(lane, |x| mean(lane, x));
    let bends = bends.fold(LaneSet::EMPTY, LaneSet::or);
    bends.iter().map(curve).collect()
}

/// Speed on each of `types`, the best = 1. Besides what the hardware says, each
/// family and type suits a program more or less, by chance.
pub fn speeds(programs: &[Program], types: &[ServerType], rng: &mut ChaCha8Rng) -> Vec<f32> {
    let mut families: BTreeMap<&str, f64> = BTreeMap::new();
    let mut speeds = Vec::with_capacity(types.len());
    for kind in types {
        let family = families.entry(kind.family);
        let family = *family.or_insert_with(|| FAMILY_SPREAD * normal(rng));
        let time: f64 = programs.iter().map(|program| program.time_on(kind)).sum();
        let chance = (family + TYPE_SPREAD * normal(rng)).exp();
        speeds.push(chance * programs.len() as f64 / time);
    }
    let best = speeds.iter().copied().fold(f64::MIN, f64::max);
    speeds.iter().map(|speed| (speed / best) as f32).collect()
}
