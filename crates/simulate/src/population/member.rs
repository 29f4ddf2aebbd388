//! Applications: synthetic ones, drawn class by class, and those of profiles.

use super::archetype;
use super::archetype::Program;
use super::archetype::shared;
use super::class::ClassKind;
use crate::error::Problem;
use crate::hardware::ServerType;
use crate::truth::TrueApp;
use crate::truth::TrueCurve;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::resource::Resource;
use jostle_schedule::App;
use jostle_schedule::Demand;
use jostle_schedule::Scaling;
use jostle_schedule::predict::LANES;
use jostle_schedule::predict::LaneSet;
use jostle_schedule::predict::Lanes;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use std::path::Path;

/// Share of undisturbed performance to be kept (the papers' 5 %).
const QOS: f32 = 0.95;
/// CPUs and nodes up to which speed-ups are known.
const MOST_CPUS: u32 = 32;
const MOST_NODES: u32 = 16;
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

/// The profiles in `dir`, by the order of file names; at least one, and not two
/// of one workload.
pub fn load_profiles(dir: &Path) -> Result<Vec<Profile>, Problem> {
    let profiles = profile::load_dir(dir);
    let profiles = profiles.map_err(|error| Problem::Unreadable(error.to_string()))?;
    match profiles.is_empty() {
        true => Err(Problem::NoProfile(dir.display().to_string())),
        false => Ok(profiles.into_iter().map(|(_, profile)| profile).collect()),
    }
}

/// The applications of `profiles` as if their curves and scores were the truth. On a
/// resource of which a profile says nothing, which profiling cannot see here either, the
/// application is as another of them, drawn by chance; on one that no profile knows, none
/// of them meet. Speeds by platform are those of synthetic programs.
pub fn recorded(profiles: &[Profile], types: &[ServerType], rng: &mut ChaCha8Rng) -> Vec<Member> {
    let apps: Vec<App> = profiles.iter().map(App::new).collect();
    let member = |(profile, own): (&Profile, &App)| {
        let mut others: Vec<&App> = apps.iter().collect();
        others.shuffle(rng);
        let told = |knows: fn(&App) -> LaneSet, lane: usize| {
            let mut tellers = std::iter::once(own).chain(others.iter().copied());
            tellers.find(|app| knows(app).contains(lane))
        };
        let mut curves = Vec::new();
        let mut caused: Lanes<f32> = [0.0; LANES];
        for (lane, caused) in caused.iter_mut().enumerate() {
            let like = told(tolerates, lane).map(|app| app.responses.curves.iter());
            if let Some(curve) = like.and_then(|mut it| it.find(|curve| curve.lane() == lane)) {
                curves.push(TrueCurve::new(lane, |x| {
                    f64::from(curve.at(x as f32).0).exp()
                }));
            }
            *caused = told(causes, lane).map_or(0.0, |app| app.responses.caused[lane]);
        }
        let program = Program::draw(&archetype::SERVICE, rng);
        Member {
            app: TrueApp {
                name: profile.workload.name.clone(),
                curves,
                caused,
                speed: archetype::speeds(std::slice::from_ref(&program), types, rng),
                qos: profile.qos.threshold as f32,
                scaling: Scaling::amdahl(0.1, MOST_CPUS, MOST_NODES),
            },
            demand: Demand {
                cpus: (profile.conditions.target_cpus.len().max(1)) as u32,
                memory_bytes: 0,
            },
            profiled: tolerates(own).and(causes(own)),
        }
    };
    profiles.iter().zip(&apps).map(member).collect()
}

/// The resources that `app` meets others on with CPUs of its own, and of which its
/// profile knows what pressure costs it …
fn tolerates(app: &App) -> LaneSet {
    app.responses.known.and(app.counted(false))
}

/// … and with what it presses.
fn causes(app: &App) -> LaneSet {
    app.responses.caused_known.and(app.counted(false))
}
