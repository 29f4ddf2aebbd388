//! Synthetic applications, drawn class by class.

use super::archetype;
use super::archetype::Program;
use super::archetype::shared;
use super::class::ClassKind;
use crate::hardware::ServerType;
use crate::truth::TrueApp;
use crate::truth::TrueCurve;
use jostle_profile::resource::Resource;
use jostle_schedule::Demand;
use jostle_schedule::Scaling;
use jostle_schedule::predict::LANES;
use jostle_schedule::predict::LaneSet;
use jostle_schedule::predict::Lanes;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;

/// Share of undisturbed performance to be kept (the papers' 5 %).
const QOS: f32 = 0.95;
/// CPUs and nodes up to which speed-ups are known.
pub(super) const MOST_CPUS: u32 = 32;
pub(super) const MOST_NODES: u32 = 16;
/// How what several CPUs cause grows with their number: threads of one
/// application share data.
const CAUSED_BY_CPUS: f64 = 0.7;

/// One application of a pool.
#[derive(Clone, Debug)]
pub struct Member {
    pub app: TrueApp,
    pub demand: Demand,
    /// Resources of which profiling can say something.
    pub profiled: LaneSet,
}

/// An application of class `kind` on a cluster of `types`.
pub fn draw(name: String, kind: &ClassKind, types: &[ServerType], rng: &mut ChaCha8Rng) -> Member {
    let programs: Vec<Program> = (0..kind.programs)
        .map(|_| Program::draw(pick(kind.archetypes, rng), rng))
        .collect();
    let cpus = *pick(kind.cpus, rng);
    let threads = (f64::from(cpus) / programs.len() as f64).powf(CAUSED_BY_CPUS);
    let mut caused: Lanes<f32> = [0.0; LANES];
    for (lane, caused) in caused.iter_mut().enumerate() {
        let sum: f64 = programs.iter().map(|program| program.caused[lane]).sum();
        *caused = (sum * threads).min(100.0) as f32;
    }
    let [least, most] = kind.memory_mib;
    let memory_mib = rng.random_range(least..=most);
    let [serial, nearly_all] = kind.serial;
    let serial = serial + (nearly_all - serial) * rng.random::<f64>();
    let scaling = match kind.programs {
        1 => Scaling::amdahl(serial, MOST_CPUS, MOST_NODES),
        // Programs that have nothing to do with each other: one CPU for each.
        several => Scaling::new(vec![(several as f64, several as f64)], Vec::new()),
    };
    Member {
        app: TrueApp {
            name,
            curves: archetype::curves(&programs),
            caused,
            speed: archetype::speeds(&programs, types, rng),
            qos: QOS,
            scaling,
        },
        demand: Demand {
            cpus,
            memory_bytes: memory_mib << 20,
        },
        profiled: shared(),
    }
}

/// The pool of class `kind`: as many applications as the paper has.
pub fn pool(kind: &ClassKind, types: &[ServerType], rng: &mut ChaCha8Rng) -> Vec<Member> {
    (1..=kind.pool)
        .map(|number| draw(format!("{}-{number}", kind.name), kind, types, rng))
        .collect()
}

/// One of `shares` by its percent.
fn pick<'a, T>(shares: &'a [(T, u32)], rng: &mut ChaCha8Rng) -> &'a T {
    let all: u32 = shares.iter().map(|(_, percent)| percent).sum();
    let mut at = rng.random_range(0..all);
    for (value, percent) in shares {
        if at < *percent {
            return value;
        }
        at -= percent;
    }
    unreachable!("`at` is below the sum of all")
}

/// Resources that make up the load on memory.
const MEMORY: [Resource; 4] = [
    Resource::LlcCapacity,
    Resource::LlcBandwidth,
    Resource::MemoryCapacity,
    Resource::MemoryBandwidth,
];
/// With a high memory load an application causes so many times its pressure
/// there, and this many points more; and feels that of others so many times.
const HIGH_LOAD_CAUSED: f32 = 1.5;
const HIGH_LOAD_ADDED: f32 = 8.0;
const HIGH_LOAD_FELT: f64 = 1.4;

/// `app` under a high memory load: it presses harder on caches and memory, and
/// feels the others' pressure on them more.
pub fn under_memory_load(app: &TrueApp) -> TrueApp {
    let memory = MEMORY.map(|resource| resource as usize);
    let memory: LaneSet = memory.into_iter().collect();
    let mut high = app.clone();
    high.name = format!("{} (memory load high)", app.name);
    for lane in memory.iter() {
        high.caused[lane] = (app.caused[lane] * HIGH_LOAD_CAUSED + HIGH_LOAD_ADDED).min(100.0);
    }
    for curve in &mut high.curves {
        if memory.contains(curve.lane()) {
            let felt = |x: f64| f64::from(curve.at((x * HIGH_LOAD_FELT) as f32)).exp();
            *curve = TrueCurve::new(curve.lane(), felt);
        }
    }
    high
}

/// Where `app` really reaches the loss its QoS allows on `lane`: points, `None`
/// when it never does.
pub fn tolerated(app: &TrueApp, lane: usize) -> Option<f64> {
    let curve = app.curves.iter().find(|curve| curve.lane() == lane)?;
    let limit = app.qos.ln();
    let above = (0..=100).find(|x| curve.at(*x as f32) <= limit)?;
    if above == 0 {
        return Some(0.0);
    }
    let (a, b) = (curve.at((above - 1) as f32), curve.at(above as f32));
    Some(f64::from(above - 1) + f64::from((a - limit) / (a - b)))
}
