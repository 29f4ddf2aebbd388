//! What can go wrong with a load, by who can mend it.

use thiserror::Error;

/// Why there is no load. The message of `Request` names the flag and the fix;
/// that of `Environment` names what is missing.
#[derive(Debug, Error)]
pub enum Error {
    /// The request is wrong.
    #[error("{0}")]
    Request(String),
    /// The machine or the server cannot do it.
    #[error("{0}")]
    Environment(String),
    /// Interrupted by the user.
    #[error("interrupted{0}")]
    Interrupted(String),
}

impl Error {
    pub fn request(message: impl Into<String>) -> Self {
        Error::Request(message.into())
    }

    pub fn environment(message: impl Into<String>) -> Self {
        Error::Environment(message.into())
    }
}

pub type Result<T> = std::result::Result<T, Error>;
