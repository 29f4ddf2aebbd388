//! Scenarios: what to simulate, as a TOML file. `scripts/scenarios/` holds the
//! papers' ones, with every key explained.
//!
//! A scenario and a seed make a [`Workload`]; every policy is given the same.

mod admission;
mod app;
mod build;
mod check;
mod consolidation;
mod number;
mod raw;
mod source;

#[cfg(test)]
mod tests;

use crate::arrivals::Arrival;
use crate::arrivals::Burst;
use crate::arrivals::Process;
use crate::cloud::CloudScenario;
use crate::consolidation::ConsolidationScenario;
use crate::estimate::ProfilingError;
use crate::hardware::ServerType;
use crate::population::ClassKind;
use crate::population::Member;
use crate::settings::Agents;
use crate::settings::Latency;
use crate::settings::PhaseDetection;
use crate::settings::Settings;
use crate::truth::TruePlatform;
use crate::workload::Workload;
use jostle_profile::Profile;
use jostle_schedule::Node;
use jostle_schedule::admission::ADMISSIONS;
use jostle_schedule::admission::AdmissionOptions;
use serde::Deserialize;
use std::path::Path;
use std::path::PathBuf;
use thiserror::Error;
use toml::Spanned;

/// Why a scenario was refused; names the file, and the line where there is one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{}: {problem}", path.display(), line.map_or(String::new(), |line| format!(", line {line}")))]
pub struct ScenarioError {
    pub path: PathBuf,
    pub line: Option<usize>,
    pub problem: String,
}

/// What a scenario file can be.
#[derive(Clone, Debug)]
pub enum ScenarioFile {
    /// `kind = "jobs"`: jobs come, run and end on a cluster.
    Jobs(Box<Scenario>),
    /// `kind = "cloud"`: machines are rented for a load.
    Cloud(Box<CloudScenario>),
    /// `kind = "consolidation"`: storage on few nodes.
    Consolidation(Box<ConsolidationScenario>),
}

/// Values of the key `kind`.
const KINDS: [&str; 3] = ["jobs", "cloud", "consolidation"];

#[derive(Deserialize)]
struct Head {
    kind: Option<Spanned<String>>,
}

impl ScenarioFile {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, a `kind` that is none, and what the kind's
    /// own reader refuses.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let text = read(path)?;
        let source = source::Source::new(path, &text);
        let head: Head = source.parse()?;
        let kind = head.kind.as_ref().map_or("jobs", |kind| kind.get_ref());
        match kind {
            "jobs" => Scenario::parse(path, &text).map(|it| ScenarioFile::Jobs(Box::new(it))),
            "cloud" => CloudScenario::parse(path, &text)
                .map(|it| ScenarioFile::Cloud(Box::new(it)))
                .map_err(|error| ScenarioError {
                    path: path.into(),
                    line: error.line(),
                    problem: error.problem().into(),
                }),
            "consolidation" => {
                consolidation::parse(&source).map(|it| ScenarioFile::Consolidation(Box::new(it)))
            }
            other => {
                let at = head.kind.as_ref().map(|kind| kind.span().start);
                Err(source.refuse(at, source::unknown("kind", other, KINDS)))
            }
        }
    }
}

/// Names of the admissions that a scenario may use.
pub fn admissions() -> Vec<&'static str> {
    ADMISSIONS.iter().map(|kind| kind.name).collect()
}

fn read(path: &Path) -> Result<String, ScenarioError> {
    std::fs::read_to_string(path).map_err(|error| ScenarioError {
        path: path.into(),
        line: None,
        problem: match error.kind() {
            std::io::ErrorKind::NotFound => "no such file".into(),
            std::io::ErrorKind::InvalidData => "not a TOML file: not UTF-8 text".into(),
            _ => error.to_string(),
        },
    })
}

/// A cluster and the jobs that come to it, checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file's name without its ending.
    pub name: String,
    /// Names of [`POLICIES`](jostle_schedule::POLICIES), in the order given.
    pub policies: Vec<String>,
    /// Names of [`ADMISSIONS`], in the order given; each policy runs behind each.
    pub admissions: Vec<String>,
    admission_options: AdmissionOptions,
    path: PathBuf,
    cluster: ClusterPlan,
    jobs: JobPlan,
    profiling: ProfilingError,
    profiling_seconds: f64,
    /// Standard deviation of ln performance by pair of applications.
    residual_sd: f64,
    faults: Option<FaultPlan>,
    agents: Agents,
    latency: Latency,
    phases: PhaseDetection,
}

/// Nodes, and the types that stand behind their platform names.
#[derive(Clone, Debug)]
struct ClusterPlan {
    nodes: Vec<Node>,
    /// One for each platform name of `nodes`.
    types: Vec<NodeType>,
}

#[derive(Clone, Debug)]
struct NodeType {
    /// As nodes name it; `None` for nodes that do not say theirs.
    name: Option<String>,
    hardware: ServerType,
    truth: TruePlatform,
}

#[derive(Clone, Debug)]
struct JobPlan {
    count: usize,
    priority: f64,
    arrivals: Arrivals,
    burst: Option<Burst>,
    work: Work,
    sources: Vec<Source>,
    phases: Option<PhasePlan>,
    reservations: Option<Reservations>,
}

#[derive(Clone, Debug)]
enum Arrivals {
    Process(Process),
    Trace(Vec<Arrival>),
}

/// How long jobs take alone on their best platform.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Lognormal { median: f64, sigma: f64 },
    Uniform { least: f64, most: f64 },
}

/// Where the applications of a share of the jobs come from.
#[derive(Clone, Debug)]
struct Source {
    class: String,
    percent: f64,
    pool: Pool,
    work: Option<Work>,
    spread: bool,
}

#[derive(Clone, Debug)]
enum Pool {
    Synthetic(&'static ClassKind),
    Recorded(Vec<Profile>),
    Given(Vec<GivenApp>),
}

/// An application written out in the scenario.
#[derive(Clone, Debug)]
struct GivenApp {
    member: Member,
    /// Speed by platform name; 1 elsewhere.
    speed: Vec<(String, f64)>,
    work: Option<f64>,
    /// The application of the same pool that it turns into, and when.
    then: Option<(usize, f64)>,
}

#[derive(Clone, Debug)]
struct PhasePlan {
    /// Share of the jobs.
    share: f64,
    /// Fractions of the work, ascending.
    at: Vec<f64>,
    to: PhaseKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PhaseKind {
    /// To a high memory load and back, in turn.
    MemoryLoad,
    /// To another application of the same class each time.
    Another,
}

#[derive(Clone, Copy, Debug)]
struct FaultPlan {
    /// Per node and second.
    nodes: f64,
    /// Per CPU and second.
    cpus: f64,
    repair_seconds: f64,
}

/// How far what users ask for is from what they need.
#[derive(Clone, Copy, Debug)]
struct Reservations {
    over: f64,
    over_factor: f64,
    under: f64,
    under_factor: f64,
}

impl Scenario {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    ///
    /// When it cannot be read or [`Self::parse`] refuses it.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        Self::parse(path, &read(path)?)
    }

    /// Checks `text`; `path` is for messages, and files that it names are
    /// looked for beside it.
    ///
    /// # Errors
    ///
    /// TOML that is not well formed; a key that is unknown, missing or of the
    /// wrong type; numbers out of range; names that nothing has or that two
    /// things have; no node or no job; phases that run in a circle or lead to
    /// nobody; traces and profiles that cannot be read.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScenarioError> {
        let source = source::Source::new(path, text);
        check::checked(&source, source.parse()?)
    }

    /// What one run is given: equal for equal seeds.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] when what was drawn cannot be run, as when no
    /// application is left to draw.
    pub fn workload(&self, seed: u64) -> Result<Workload, ScenarioError> {
        build::workload(self, seed)
    }

    /// Whether the admission called `name` has all that it needs here.
    ///
    /// # Errors
    ///
    /// Wrangler without windows to learn from.
    pub fn check_admission(&self, name: &str) -> Result<(), ScenarioError> {
        match name == "wrangler" && self.admission_options.wrangler_csv.is_none() {
            true => Err(ScenarioError {
                path: self.path.clone(),
                line: None,
                problem: admission::NO_WINDOWS.into(),
            }),
            false => Ok(()),
        }
    }

    /// How one run is conducted.
    pub fn settings(&self, policy: &str, admission: &str, seed: u64) -> Settings {
        Settings {
            policy: policy.into(),
            admission: admission.into(),
            admission_options: self.admission_options.clone(),
            seed,
            agents: self.agents.clone(),
            latency: self.latency,
            phases: self.phases,
        }
    }
}
