//! Everything that this crate refuses, and why.

use std::path::PathBuf;
use thiserror::Error;

/// Why the cluster did not change as asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClusterError {
    #[error("two nodes are called `{0}`")]
    DuplicateNode(String),
    #[error("node `{0}` has no CPU")]
    NoCpu(String),
    #[error("no node is called `{0}`")]
    UnknownNode(String),
    #[error("node `{0}` is down")]
    Down(String),
    #[error("there are more than {0} platform types")]
    Platforms(usize),
    #[error("node `{node}`: the cluster would have more than {MOST_NODES} nodes")]
    TooManyNodes { node: String },
    #[error("node `{node}`: the cluster would have more than {MOST_CPUS_IN_ALL} CPUs")]
    TooManyCpus { node: String },
    #[error("node `{node}` cannot take `{app}`: {lacks}")]
    NoRoom {
        node: String,
        app: String,
        lacks: String,
    },
}

/// Why a nodes file was refused; names the file, and the line where there is one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{}: {problem}", path.display(), line.map_or(String::new(), |line| format!(", line {line}")))]
pub struct NodesFileError {
    pub path: PathBuf,
    pub line: Option<usize>,
    pub problem: String,
}

/// A number that no count of CPUs can be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("is {0}; write a whole number of CPUs, 1 or more and at most {MOST_CPUS}")]
pub(crate) struct CpusError(pub i64);

/// No node has more CPUs: beyond any machine there is, and few enough for the
/// sums over a node's residents to stay within their range.
pub const MOST_CPUS: u32 = 16_384;

/// No cluster has more nodes or CPUs: beyond any there is, and few enough for the
/// numbers of nodes and units, and for memory (16 bytes a CPU).
pub const MOST_NODES: usize = 1_000_000;
pub const MOST_CPUS_IN_ALL: usize = 1 << 24;

/// Why a text is no amount of memory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MemoryError {
    #[error("`{0}` is not a size; write for example \"64GiB\"")]
    NotASize(String),
    #[error("`{0}` is negative; memory is 0 or more")]
    Negative(String),
    #[error("`{0}` has no unit; write for example \"{0}GiB\"")]
    NoUnit(String),
    #[error("`{0}` is not a unit of memory; use B, KB, MB, GB, TB, KiB, MiB, GiB, TiB or PiB")]
    UnknownUnit(String),
    #[error("`{0}` is more than can be counted in bytes")]
    TooMuch(String),
}

/// Why an admission could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AdmissionError {
    #[error("{0} queues; ARQ takes 1 to 100")]
    Queues(usize),
    #[error(transparent)]
    Training(#[from] TrainingError),
}

/// Why nothing could be learned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TrainingError {
    #[error("cannot read {file}: {why}")]
    Read { file: String, why: String },
    #[error("{file}: {what}")]
    Windows { file: String, what: String },
    #[error("{file}:{line}: {what}")]
    Line {
        file: String,
        line: usize,
        what: String,
    },
    #[error("the confidence is {0}; it has to be at least 0.5 and below 1")]
    Confidence(String),
}

/// Why a line of a [`Stream`](crate::Stream) was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    #[error("not a JSON object; write for example {{\"event\":\"state\"}}")]
    NotAnObject,
    #[error("{0}")]
    Json(String),
    #[error("no event is called `{event}`; there are {known}")]
    UnknownEvent { event: String, known: String },
    #[error("key `{key}` is missing; `{event}` needs it")]
    Missing { key: String, event: String },
    #[error("key `app` is missing; `{0}` needs `app` or `profile`")]
    NoApp(String),
    #[error("key `{0}` is missing; a new node needs it")]
    NewNode(&'static str),
    /// A key with a value that cannot be, or cannot be now.
    #[error("key `{key}`: {problem}")]
    Key { key: String, problem: String },
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

impl StreamError {
    pub(crate) fn key(key: impl Into<String>, problem: impl ToString) -> Self {
        StreamError::Key {
            key: key.into(),
            problem: problem.to_string(),
        }
    }
}

/// What p or q cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum SampleSizeError {
    #[error("{name} must be between 0 and 1 (both excluded), not {value}")]
    NotAChance { name: &'static str, value: f64 },
    #[error(
        "p = {p} with q = {q} needs {needed:.0} draws; at most {} are possible",
        u32::MAX
    )]
    TooMany { p: f64, q: f64, needed: f64 },
}
