//! What a scenario says, checked.

use super::keys::Keys;
use crate::arrivals::Arrival;
use crate::arrivals::Process;
use crate::hardware::ServerType;
use crate::population::ClassKind;
use crate::population::Member;
use crate::truth::TruePlatform;
use jostle_profile::Profile;
use jostle_schedule::Node;
use jostle_schedule::admission::AdmissionOptions;
use std::collections::BTreeMap;
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
