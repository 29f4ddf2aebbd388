//! The seam between deciding who is paused and pausing.

use thiserror::Error;

/// Who is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// A process of ours that does nothing.
    Placebo,
    Candidate(usize),
}

/// What the victim did between two looks at it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// In the unit of its metric, times a second.
    pub work: f64,
    pub seconds: f64,
    /// CPU time that it had, and time that its threads waited for a CPU; `None`
    /// where they cannot be read.
    pub cpu_seconds: Option<f64>,
    pub waited_seconds: Option<f64>,
}

impl Window {
    /// Both together.
    pub fn and(self, other: Window) -> Window {
        let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        Window {
            work: self.work + other.work,
            seconds: self.seconds + other.seconds,
            cpu_seconds: sum(self.cpu_seconds, other.cpu_seconds),
            waited_seconds: sum(self.waited_seconds, other.waited_seconds),
        }
    }
}

/// How far back from the order to stand still a window reaches, in lengths of a
/// pause; the last is all the time since the pause before was over.
pub const REACHES: [f64; 3] = [1.0, 4.0, f64::INFINITY];

/// One pause.
#[derive(Clone, Debug, PartialEq)]
pub struct Pause {
    /// What the victim did before, while everybody ran: by [`REACHES`]. All end
    /// when the order is given.
    pub before: [Window; REACHES.len()],
    /// Both halves of the time in which the candidate stood still.
    pub paused: [Window; 2],
    /// From the order to stand still until it did, and of the order to go on.
    pub stop_seconds: f64,
    pub resume_seconds: f64,
    /// From the order to stand still until the order to go on was carried out.
    pub held_seconds: f64,
    /// Whether the victim ended meanwhile and was started again: nothing counts
    /// but the time that somebody was held.
    pub spoiled: bool,
}

/// Why a pause did not happen.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BenchError {
    #[error("interrupted")]
    Interrupted,
    #[error("{0}")]
    VictimEnded(String),
    /// The candidate is gone.
    #[error("{0}")]
    Ended(String),
    /// The candidate runs on and cannot be paused.
    #[error("{0}")]
    NotPaused(String),
}

/// Pauses, and reads the victim.
pub trait Bench {
    /// Seconds since some moment.
    fn now(&self) -> f64;

    /// Lets everybody run for `gap` seconds, then pauses `arm` for `pause` seconds.
    ///
    /// # Errors
    /// Those of [`BenchError`]; nobody stands still then.
    fn play(&mut self, arm: Arm, gap: f64, pause: f64) -> Result<Pause, BenchError>;
}
