//! What a scenario says, checked.

use crate::arrivals::Arrival;
use crate::arrivals::Burst;
use crate::arrivals::Process;
use crate::estimate::Profiling;
use crate::hardware::ServerType;
use crate::number;
use crate::population::ClassKind;
use crate::population::Member;
use crate::settings::Agents;
use crate::settings::Latency;
use crate::settings::PhaseDetection;
use crate::truth::TruePlatform;
use jostle_profile::Profile;
use jostle_schedule::Node;
use jostle_schedule::admission::AdmissionOptions;
use serde::Deserialize;
use std::path::PathBuf;

/// A cluster and the jobs that come to it, checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file's name without its ending.
    pub name: String,
    /// Names of [`POLICIES`](jostle_schedule::POLICIES), in the order given.
    pub policies: Vec<String>,
    /// Names of [`ADMISSIONS`](jostle_schedule::admission::ADMISSIONS), in the
    /// order given; each policy runs behind each.
    pub admissions: Vec<String>,
    pub(super) admission_options: AdmissionOptions,
    pub(super) path: PathBuf,
    pub(super) cluster: ClusterPlan,
    pub(super) jobs: JobPlan,
    pub(super) profiling: Profiling,
    /// Standard deviation of ln performance by pair of applications.
    pub(super) residual_sd: f64,
    pub(super) faults: Option<FaultPlan>,
    pub(super) agents: Agents,
    pub(super) latency: Latency,
    pub(super) phases: PhaseDetection,
}

/// Nodes, and the types that their platform names refer to.
#[derive(Clone, Debug, Default)]
pub struct ClusterPlan {
    pub nodes: Vec<Node>,
    /// One for each platform name of `nodes`.
    pub types: Vec<NodeType>,
}

#[derive(Clone, Debug)]
pub struct NodeType {
    /// As nodes name it; `None` for nodes that do not name theirs.
    pub name: Option<String>,
    pub hardware: ServerType,
    pub truth: TruePlatform,
}

#[derive(Clone, Debug)]
pub struct JobPlan {
    pub count: usize,
    /// Share of the jobs that have priority.
    pub priority: f64,
    pub arrivals: Arrivals,
    pub burst: Option<Burst>,
    pub work: Work,
    pub sources: Vec<Source>,
    pub phases: Option<PhasePlan>,
    pub reservations: Option<Reservations>,
}

#[derive(Clone, Debug)]
pub enum Arrivals {
    Process(Process),
    Trace(Vec<Arrival>),
}

/// Seconds that jobs take alone on their best platform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    Lognormal { median: f64, sigma: f64 },
    Uniform { least: f64, most: f64 },
}

/// Where the applications of a share of the jobs come from.
#[derive(Clone, Debug)]
pub struct Source {
    pub class: String,
    pub percent: f64,
    pub pool: Pool,
    pub work: Option<Work>,
    pub spread: bool,
}

#[derive(Clone, Debug)]
pub enum Pool {
    Synthetic(&'static ClassKind),
    Recorded(Vec<Profile>),
    Given(Vec<GivenApp>),
}

/// An application written out in the scenario.
#[derive(Clone, Debug)]
pub struct GivenApp {
    pub member: Member,
    /// Speed by platform name; 1 elsewhere.
    pub speed: Vec<(String, f64)>,
    pub work: Option<f64>,
    /// The application of the same pool that it turns into, and when.
    pub then: Option<(usize, f64)>,
}

/// Phases that jobs go through.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhasePlan {
    /// Share of the jobs.
    #[serde(rename = "percent", deserialize_with = "number::percent")]
    pub share: f64,
    /// Fractions of the work, ascending.
    pub at: Vec<f64>,
    pub to: PhaseKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseKind {
    /// To a high memory load and back, in turn.
    MemoryLoad,
    /// To another application of the same class each time.
    Another,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultPlan {
    /// Per node and second.
    #[serde(
        rename = "nodes_per_hour",
        default,
        deserialize_with = "number::per_hour"
    )]
    pub nodes: f64,
    /// Per CPU and second.
    #[serde(
        rename = "cpus_per_hour",
        default,
        deserialize_with = "number::per_hour"
    )]
    pub cpus: f64,
    #[serde(deserialize_with = "number::positive")]
    pub repair_seconds: f64,
}

/// How far what users ask for is from what they need.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reservations {
    /// Share of the jobs that ask for too much.
    #[serde(rename = "over_percent", deserialize_with = "number::percent")]
    pub over: f64,
    #[serde(deserialize_with = "number::factor")]
    pub over_factor: f64,
    /// Share of the jobs that ask for too little.
    #[serde(rename = "under_percent", deserialize_with = "number::percent")]
    pub under: f64,
    #[serde(deserialize_with = "number::factor")]
    pub under_factor: f64,
}
