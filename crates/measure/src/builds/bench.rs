//! The seam between deciding whose turn it is and letting it run.

use std::fmt;
use thiserror::Error;

/// One of the two builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Old,
    New,
}

impl Side {
    pub const BOTH: [Side; 2] = [Side::Old, Side::New];

    pub fn other(self) -> Side {
        match self {
            Side::Old => Side::New,
            Side::New => Side::Old,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Old => "OLD",
            Side::New => "NEW",
        })
    }
}

/// What a build did in one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turn {
    /// Operations that were counted; of a build that is measured by whole runs, the
    /// runs that ended.
    pub work: f64,
    /// Wall time that it took, without the time in which the other one ran.
    pub seconds: f64,
    /// Whether the instance ended by itself.
    pub ended: bool,
}

/// Why a turn was not played.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BenchError {
    #[error("interrupted")]
    Interrupted,
    /// A build failed, or cannot be paused or read.
    #[error("{side}: {reason}")]
    Failed { side: Side, reason: String },
}

/// Plays turns.
pub trait Bench {
    /// Seconds since some moment.
    fn now(&self) -> f64;

    /// Starts another instance of both builds, `first` first; those before end.
    ///
    /// # Errors
    /// Those of [`BenchError`].
    fn start(&mut self, first: Side) -> Result<(), BenchError>;

    /// Lets one run for a turn while the other is paused.
    ///
    /// # Errors
    /// Those of [`BenchError`]; the turn does not count then.
    fn turn(&mut self, side: Side) -> Result<Turn, BenchError>;
}
