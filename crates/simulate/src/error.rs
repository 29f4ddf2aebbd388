//! Every error of this crate, so that all of their texts can be read here.

use jostle_schedule::ClusterError;
use jostle_schedule::admission::AdmissionError;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use thiserror::Error;

/// Why a world cannot be created or changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WorldError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("node `{node}` is of platform `{platform}`, of which the truth knows nothing")]
    UnknownPlatform { node: String, platform: String },
    #[error("`{app}` has speeds for {given} platforms; there are {platforms}")]
    Speeds {
        app: String,
        given: usize,
        platforms: usize,
    },
    #[error("`{app}` has a speed of 0 or less, or none that is a number, on `{platform}`")]
    Speed { app: String, platform: String },
}

/// Why a run cannot start or go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SimulationError {
    #[error(transparent)]
    World(#[from] WorldError),
    #[error("there are no nodes to run on")]
    NoNodes,
    #[error("no {what} is called `{name}`; there are {known}")]
    Unknown {
        what: &'static str,
        name: String,
        known: String,
    },
    #[error("admission: {0}")]
    Admission(#[from] AdmissionError),
    #[error("{of}: {why}")]
    Settings { of: &'static str, why: &'static str },
    #[error("job {job}: {why}")]
    Job { job: usize, why: &'static str },
    #[error("fault {fault}: {why}")]
    Fault { fault: usize, why: &'static str },
    #[error("policy `{policy}` put job {job} where it may not go: {why}")]
    BadChoice {
        policy: &'static str,
        job: u32,
        why: BadPlacement,
    },
    #[error(
        "nothing can happen any more after {seconds} s; jobs that still wait for a place: {}",
        listed(waiting)
    )]
    Stuck { seconds: u64, waiting: Vec<u32> },
}

/// How a policy's decision breaks the rules.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadPlacement {
    #[error("there is no part")]
    NoPart,
    #[error("{0} is not allowed")]
    NotAllowed(String),
    #[error("{0} is named twice")]
    NamedTwice(String),
    #[error("{node} {lacks}")]
    Lacks { node: String, lacks: String },
    #[error("it queues nowhere")]
    NoQueue,
    #[error("{0} is too small to queue at")]
    TooSmall(String),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// The first few job numbers.
fn listed(jobs: &[u32]) -> String {
    const MOST: usize = 20;
    let mut text: Vec<String> = jobs.iter().take(MOST).map(u32::to_string).collect();
    if jobs.len() > MOST {
        text.push("…".into());
    }
    text.join(", ")
}

/// Why a scenario or a trace was refused; names the file, and line and key where there are
/// some.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{}{}{problem}", path.display(), place(*line, key.as_deref()))]
pub struct ScenarioError {
    pub path: PathBuf,
    /// Counted from 1.
    pub line: Option<usize>,
    /// Path of the key in the file, as `nodes[0].count`.
    pub key: Option<String>,
    pub problem: Box<Problem>,
}

impl ScenarioError {
    /// Of the file as a whole.
    pub(crate) fn new(path: &Path, problem: Problem) -> Self {
        ScenarioError {
            path: path.into(),
            line: None,
            key: None,
            problem: Box::new(problem),
        }
    }
}

fn place(line: Option<usize>, key: Option<&str>) -> String {
    let line = line.map(|line| format!(", line {line}"));
    let key = key.map(|key| format!("key `{key}`: "));
    line.unwrap_or_default() + ": " + &key.unwrap_or_default()
}

/// A key of a scenario that has a value which makes no sense.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("key `{key}`: {problem}")]
pub struct InvalidKey {
    /// Path of the key in the file, as `nodes[0].count`.
    pub key: String,
    pub problem: Problem,
}

impl InvalidKey {
    pub(crate) fn new(key: impl Into<String>, problem: Problem) -> Self {
        InvalidKey {
            key: key.into(),
            problem,
        }
    }
}

/// What is wrong with a scenario or one of its keys, and what to write instead.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Problem {
    #[error("no such file")]
    NoFile,
    #[error("not UTF-8 text")]
    NotText,
    #[error("{0}")]
    Unreadable(String),
    #[error("{0}")]
    Toml(String),
    #[error(transparent)]
    Trace(#[from] Box<ScenarioError>),
    #[error("`{0}` has more than the columns seconds,app")]
    TraceColumns(String),
    #[error("`{0}` does not begin with seconds; write for example 12.5,app")]
    TraceSeconds(String),
    #[error("arrival at {0} s is negative; time begins at 0")]
    TraceNegative(f64),
    #[error("arrival at {seconds} s is before that of line {line}; sort the trace by time")]
    TraceBackwards { seconds: f64, line: usize },
    #[error("holds no arrival; write lines of seconds,app")]
    TraceEmpty,
    #[error("{0}: holds no profile (*.json); record one with `jostle profile --out`")]
    NoProfile(String),
    #[error(transparent)]
    World(#[from] WorldError),
    #[error("is empty; {0}")]
    Empty(String),
    #[error("is missing; {0}")]
    Missing(&'static str),
    #[error("is {value}; write {expected}")]
    OutOfRange { value: String, expected: String },
    #[error("{value} is not within {least} … {most}")]
    NotWithin {
        value: String,
        least: f64,
        most: f64,
    },
    #[error(
        "{least} is above {most}, or one of them not above 0; write two numbers above 0, the lower one first"
    )]
    Interval { least: f64, most: f64 },
    #[error("there is no `{name}`; {hint} are {known}")]
    Unknown {
        name: String,
        hint: String,
        known: String,
    },
    #[error("`{0}` is named twice")]
    NamedTwice(String),
    #[error("`{name}` is already used on line {line}; give each {of} a name of its own")]
    AlreadyUsed {
        name: String,
        line: usize,
        of: &'static str,
    },
    #[error("two nodes are called `{0}`; give each node a name of its own")]
    TwoNodes(String),
    #[error("{0} is not a name; write \"none\", or a list of names")]
    NoName(String),
    #[error(
        "wrangler learns from labelled windows; add a table [wrangler] with windows = \"FILE.csv\", which jostle simulate SCENARIO --windows FILE.csv writes"
    )]
    NoWindows,
    #[error("is {0}; write at least 0.5 and below 1, or \"tuned\"")]
    Confidence(String),
    #[error("holds no node; write [cluster] with hardware = one of {0}, or add [[node]] tables")]
    NoNode(String),
    #[error("no node is of platform `{0}`")]
    UnusedPlatform(String),
    #[error("process `{process}` has none; it takes {takes}")]
    ProcessTakes { process: String, takes: String },
    #[error("process `{process}` needs the key `{key}`")]
    ProcessNeeds { process: String, key: &'static str },
    #[error("says the same as `mean_seconds`; keep one")]
    TwoMeans,
    #[error("is {after}, but only {jobs} jobs come")]
    BurstTooLate { after: usize, jobs: usize },
    #[error("work is either median_seconds and sigma, or least_seconds and most_seconds")]
    Work,
    #[error("{least} is above most_seconds = {most}")]
    WorkInterval { least: f64, most: f64 },
    #[error("{0} is not above {1}; fractions ascend")]
    NotAscending(f64, f64),
    #[error("with `{0}` the two add up to more than 100")]
    MoreThanAll(&'static str),
    #[error("those of all classes add up to {0}, not to 100")]
    NotAll(f64),
    #[error("no application is called `{0}`")]
    NoApplication(String),
    #[error(
        "`{resource}` is not shared by applications with CPUs of their own; those that are: {shared}"
    )]
    NotShared { resource: String, shared: String },
    #[error("needs `at`: the fraction of the work at which it happens")]
    ThenWithoutAt,
    #[error("needs `then`: the app that this one turns into")]
    AtWithoutThen,
    #[error("the phases of `{0}` run in a circle; let one of them be the last")]
    PhaseCircle(String),
    #[error(
        "`{next}` begins at {at} of the work, before the phase that leads to it at {before}; fractions are of the whole work and ascend"
    )]
    PhaseOrder { next: String, at: f64, before: f64 },
    #[error("holds fewer than two points; write [[minutes, vcpus], [minutes, vcpus], …]")]
    FewPoints,
    #[error("its minutes have to begin at 0 and to ascend")]
    Minutes,
    #[error("`{name}` is not known; write {known}")]
    NotKnown { name: String, known: String },
    #[error("all are 0; weigh at least one of {0}")]
    NoWeight(String),
    #[error("{count} is above {most}")]
    TooMany { count: usize, most: usize },
    #[error("there are no {0}; give at least one")]
    None(&'static str),
    #[error("{instances} instances need a node each to start from, and there are {nodes}")]
    FewNodes { instances: usize, nodes: usize },
    #[error("{0} does not divide a day; use for example 10, 30 or 60")]
    DividesNoDay(usize),
    #[error(
        "{drawn} intervals of all instances are more than {most}; simulate fewer days, longer intervals or fewer instances"
    )]
    TooManyIntervals { drawn: usize, most: usize },
}

impl Problem {
    pub(crate) fn out_of_range(value: impl ToString, expected: impl Into<String>) -> Self {
        Problem::OutOfRange {
            value: value.to_string(),
            expected: expected.into(),
        }
    }

    /// There is no `name`; there are `known`.
    pub(crate) fn unknown<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let likeness = known.iter().map(|known| strsim::jaro_winkler(name, known));
        let alike = likeness
            .zip(&known)
            .filter(|(likeness, _)| *likeness > 0.75);
        let nearest = alike.max_by(|a, b| a.0.total_cmp(&b.0));
        let name = name.to_string();
        let hint = nearest.map(|(_, nearest)| format!("did you mean `{nearest}`? There"));
        let hint = hint.unwrap_or("there".into());
        let known = known.join(", ");
        Problem::Unknown { name, hint, known }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Problem::NoFile,
            io::ErrorKind::InvalidData => Problem::NotText,
            _ => Problem::Unreadable(error.to_string()),
        }
    }
}
