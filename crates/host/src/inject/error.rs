//! Why a source did not do what it was ordered.

use crate::inject::placement::Refusal;
use std::time::Duration;
use thiserror::Error;

/// Why workers are not in the state that was ordered.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum WorkerError {
    /// The caller's `stop` said so.
    #[error("stopped")]
    Stopped,
    #[error("its worker did not reach the intensity within {:.1} s", .0.as_secs_f64())]
    Late(Duration),
    /// A worker ended or hangs.
    #[error("{0}")]
    Failed(String),
}

impl From<Refusal> for WorkerError {
    fn from(refusal: Refusal) -> Self {
        WorkerError::Failed(refusal.to_string())
    }
}

impl From<WorkerError> for String {
    fn from(error: WorkerError) -> Self {
        error.to_string()
    }
}

impl From<String> for WorkerError {
    fn from(reason: String) -> Self {
        WorkerError::Failed(reason)
    }
}
