//! Classes of applications in the papers' pools.

use super::archetype::Archetype;
use super::archetype::BANDWIDTH;
use super::archetype::CACHE;
use super::archetype::COMPUTE;
use super::archetype::MINING;
use super::archetype::NETWORK;
use super::archetype::SERVICE;
use super::archetype::SHARING;
use super::archetype::STORAGE;

/// A class of applications, and how those of it are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassKind {
    /// The name used in scenarios and reports.
    pub name: &'static str,
    pub summary: &'static str,
    /// How many different applications the pool holds.
    pub pool: usize,
    /// Archetypes and their shares in percent.
    pub(super) archetypes: &'static [(Archetype, u32)],
    /// CPUs asked for and their shares in percent.
    pub(super) cpus: &'static [(u32, u32)],
    /// Memory asked for per application, in MiB: least and most.
    pub(super) memory_mib: [u64; 2],
    /// Share of the work that is not parallel: least and most.
    pub(super) serial: [f64; 2],
    /// Programs that make up one application.
    pub(super) programs: usize,
}

/// Every class there is. Pool sizes of the first four: dissertation, section
/// 3.4; CPUs of multithreaded and later classes, memory and archetypes are ours.
pub const CLASSES: &[ClassKind] = &[
    ClassKind {
        name: "single-threaded",
        summary: "SPEC CPU2006: one CPU",
        pool: 29,
        archetypes: &[(COMPUTE, 40), (CACHE, 30), (BANDWIDTH, 30)],
        cpus: &[(1, 100)],
        memory_mib: [256, 1536],
        serial: [0.9, 1.0],
        programs: 1,
    },
    ClassKind {
        name: "multithreaded",
        summary: "PARSEC, SPLASH-2, BioParallel, MineBench, SPECjbb: 2 or 4 CPUs",
        pool: 22,
        archetypes: &[(COMPUTE, 25), (CACHE, 20), (BANDWIDTH, 20), (SHARING, 35)],
        cpus: &[(2, 60), (4, 40)],
        memory_mib: [512, 3072],
        serial: [0.02, 0.2],
        programs: 1,
    },
    ClassKind {
        name: "mixes",
        summary: "four single-threaded programs together: 4 CPUs",
        pool: 350,
        archetypes: &[(COMPUTE, 40), (CACHE, 30), (BANDWIDTH, 30)],
        cpus: &[(4, 100)],
        memory_mib: [1024, 6144],
        serial: [0.0, 0.0],
        programs: 4,
    },
    ClassKind {
        name: "io",
        summary: "data mining in Hadoop and Matlab on one node: 1 or 2 CPUs",
        pool: 25,
        archetypes: &[(STORAGE, 45), (MINING, 35), (NETWORK, 20)],
        cpus: &[(1, 50), (2, 50)],
        memory_mib: [512, 3072],
        serial: [0.05, 0.3],
        programs: 1,
    },
    ClassKind {
        name: "services",
        summary: "latency-critical: memcached, Cassandra; 2 or 4 CPUs",
        pool: 20,
        archetypes: &[(SERVICE, 80), (NETWORK, 20)],
        cpus: &[(2, 50), (4, 50)],
        memory_mib: [1024, 6144],
        serial: [0.01, 0.05],
        programs: 1,
    },
    ClassKind {
        name: "short-tasks",
        summary: "Spark and Storm tasks: one CPU",
        pool: 20,
        archetypes: &[(COMPUTE, 30), (MINING, 40), (NETWORK, 30)],
        cpus: &[(1, 100)],
        memory_mib: [256, 1024],
        serial: [0.9, 1.0],
        programs: 1,
    },
];

/// The class called `name`.
pub fn class(name: &str) -> Option<&'static ClassKind> {
    CLASSES.iter().find(|class| class.name == name)
}
