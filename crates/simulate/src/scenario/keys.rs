//! A scenario as it stands in the file, and checked.

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
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Value;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// Read before everything else.
    #[serde(rename = "kind")]
    pub _kind: Option<IgnoredAny>,
    pub policies: Option<Vec<String>>,
    pub admission: Option<Value>,
    #[serde(default)]
    pub arq: ArqKeys,
    pub wrangler: Option<WranglerKeys>,
    pub cluster: Option<ClusterKeys>,
    #[serde(default)]
    pub node: Vec<NodeKeys>,
    #[serde(default)]
    pub platform: Vec<PlatformKeys>,
    pub jobs: JobKeys,
    pub arrivals: ArrivalKeys,
    pub burst: Option<Burst>,
    pub work: Option<WorkKeys>,
    #[serde(default)]
    pub class: Vec<ClassKeys>,
    pub population: Option<PopulationKeys>,
    #[serde(default)]
    pub app: Vec<AppKeys>,
    #[serde(default)]
    pub profiling: Profiling,
    pub phases: Option<PhasePlan>,
    pub faults: Option<FaultPlan>,
    pub reservations: Option<Reservations>,
    #[serde(default)]
    pub agents: Agents,
    #[serde(default)]
    pub latency: Latency,
    #[serde(default)]
    pub migration: PhaseDetection,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArqKeys {
    #[serde(deserialize_with = "number::some_count")]
    pub queues: Option<usize>,
    pub sjf: Option<bool>,
    pub priorities: Option<bool>,
    pub relative: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WranglerKeys {
    pub windows: String,
    pub confidence: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterKeys {
    pub hardware: String,
    #[serde(default, deserialize_with = "number::some_count")]
    pub servers: Option<usize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeKeys {
    pub name: String,
    #[serde(deserialize_with = "number::count")]
    pub cpus: u32,
    #[serde(rename = "memory", deserialize_with = "number::memory")]
    pub memory_bytes: u64,
    pub platform: Option<String>,
    #[serde(default = "one", deserialize_with = "number::count")]
    pub count: usize,
}

fn one<N: From<u8>>() -> N {
    N::from(1)
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformKeys {
    pub name: String,
    #[serde(default, deserialize_with = "number::some_positive")]
    pub core_speed: Option<f64>,
    #[serde(default, deserialize_with = "number::some_positive")]
    pub pressure: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobKeys {
    #[serde(default, deserialize_with = "number::some_count")]
    pub count: Option<usize>,
    /// Standard deviation of ln performance by pair of applications.
    #[serde(rename = "residual_percent", default = "residual")]
    #[serde(deserialize_with = "number::percent")]
    pub residual: f64,
    /// Share of the jobs that have priority.
    #[serde(rename = "priority_percent", default)]
    #[serde(deserialize_with = "number::percent")]
    pub priority: f64,
}

fn residual() -> f64 {
    0.02
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrivalKeys {
    pub process: String,
    #[serde(default, deserialize_with = "number::some_not_negative")]
    pub mean_seconds: Option<f64>,
    #[serde(default, deserialize_with = "number::some_not_negative")]
    pub sd_seconds: Option<f64>,
    #[serde(default, deserialize_with = "number::some_positive")]
    pub per_second: Option<f64>,
    pub file: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkKeys {
    #[serde(deserialize_with = "number::some_positive")]
    pub median_seconds: Option<f64>,
    #[serde(deserialize_with = "number::some_not_negative")]
    pub sigma: Option<f64>,
    #[serde(deserialize_with = "number::some_positive")]
    pub least_seconds: Option<f64>,
    #[serde(deserialize_with = "number::some_positive")]
    pub most_seconds: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassKeys {
    pub name: String,
    #[serde(deserialize_with = "number::percentage")]
    pub percent: f64,
    pub work: Option<WorkKeys>,
    #[serde(default)]
    pub spread: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PopulationKeys {
    pub profiles: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppKeys {
    pub name: String,
    #[serde(default = "one", deserialize_with = "number::count")]
    pub cpus: u32,
    #[serde(rename = "memory", default, deserialize_with = "number::memory")]
    pub memory_bytes: u64,
    #[serde(default = "qos", deserialize_with = "number::fraction")]
    pub qos: f64,
    #[serde(default, deserialize_with = "number::some_positive")]
    pub work_seconds: Option<f64>,
    #[serde(default)]
    pub tolerates: BTreeMap<String, f64>,
    #[serde(default)]
    pub causes: BTreeMap<String, f64>,
    #[serde(default)]
    pub speed: BTreeMap<String, f64>,
    #[serde(default = "serial", deserialize_with = "number::percent")]
    pub serial: f64,
    pub then: Option<String>,
    #[serde(default, deserialize_with = "number::some_fraction")]
    pub at: Option<f64>,
}

fn qos() -> f64 {
    0.95
}

fn serial() -> f64 {
    0.1
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
    #[serde(rename = "nodes_per_hour", default)]
    #[serde(deserialize_with = "number::per_hour")]
    pub nodes: f64,
    /// Per CPU and second.
    #[serde(rename = "cpus_per_hour", default)]
    #[serde(deserialize_with = "number::per_hour")]
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
    /// How many jobs come, without those of the burst.
    pub(super) count: usize,
    pub(super) arrivals: Arrivals,
    pub(super) work: Work,
    pub(super) sources: Vec<Source>,
    /// All that holds as it stands in the file.
    pub(super) keys: Keys,
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
    pub speed: BTreeMap<String, f64>,
    pub work: Option<f64>,
    /// The application of the same pool that it turns into, and when.
    pub then: Option<(usize, f64)>,
}
