//! The seam between deciding which members run and running them.

use thiserror::Error;

/// Which members run in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// All of them.
    Together,
    /// This one; the others are stopped.
    Apart(usize),
    /// The first so many of them; the others are stopped.
    First(usize),
}

impl Arm {
    pub fn runs(self, member: usize) -> bool {
        match self {
            Arm::Together => true,
            Arm::Apart(only) => only == member,
            Arm::First(count) => member < count,
        }
    }
}

/// What a member did in a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Did {
    /// In the unit of its metric, times a second.
    pub work: f64,
    /// Wall time that it took.
    pub seconds: f64,
    /// The run of a command that is started again and again, and how much of it
    /// was done before, where that is known.
    pub place: Option<(u32, f64)>,
    /// Whether it ended and was started again meanwhile.
    pub restarted: bool,
}

/// One block.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Its middle, seconds.
    pub at: f64,
    /// By member: `None` for one that did not run or cannot be read.
    pub did: Vec<Option<Did>>,
    /// Whether members on CPUs of their own shared a last-level cache; `None` where that is
    /// not known, does not change, or changed meanwhile.
    pub shares_cache: Option<bool>,
}

/// Why a block was not played to its end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BenchError {
    #[error("interrupted")]
    Interrupted,
    /// The member is gone.
    #[error("{reason}")]
    Ended { member: usize, reason: String },
    /// The member runs on and cannot be stopped.
    #[error("{reason}")]
    NotPaused { member: usize, reason: String },
}

/// Plays blocks.
pub trait Bench {
    /// Seconds since some moment.
    fn now(&self) -> f64;

    /// Sets the members going or still, waits until what was before no longer
    /// counts, and reads those that run.
    ///
    /// # Errors
    /// Those of [`BenchError`]; nothing of the block counts then.
    fn play(&mut self, arm: Arm) -> Result<Block, BenchError>;

    /// Waits while members that are said to share a cache do not, at most `longest`
    /// seconds; how long it waited.
    fn wait_for_cache(&mut self, _longest: f64) -> f64 {
        0.0
    }
}
