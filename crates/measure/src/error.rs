//! Errors a person sees, and the exit code each kind earns.

use std::fmt::Display;
use thiserror::Error;

/// Why a command did not do what was asked. The message of `Request` names the
/// flag or file and the fix; that of `Environment` names what is missing.
#[derive(Debug, Error)]
pub enum Error {
    /// A gate or a QoS condition failed: exit code 1.
    #[error("{0}")]
    Gate(String),
    /// The request is wrong: exit code 2.
    #[error("{0}")]
    Request(String),
    /// This machine or environment cannot do it: exit code 3.
    #[error("{0}")]
    Environment(String),
    /// Interrupted by the user, after cleaning up: exit code 130.
    #[error("interrupted{0}")]
    Interrupted(String),
}

impl Error {
    pub fn request(message: impl Display) -> Self {
        Error::Request(message.to_string())
    }

    pub fn environment(message: impl Display) -> Self {
        Error::Environment(message.to_string())
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Gate(_) => 1,
            Error::Request(_) => 2,
            Error::Environment(_) => 3,
            Error::Interrupted(_) => 130,
        }
    }
}

impl From<jostle_load::Error> for Error {
    fn from(error: jostle_load::Error) -> Self {
        use jostle_load::ErrorKind;
        match (error.kind(), error) {
            // What `Target::check_alive` said.
            (_, jostle_load::Error::NotAlive(source)) => match source.downcast::<Error>() {
                Ok(error) => *error,
                Err(other) => Error::Environment(other.to_string()),
            },
            (_, jostle_load::Error::Interrupted(when)) => Error::Interrupted(format!(" {when}")),
            (ErrorKind::Request, error) => Error::Request(error.to_string()),
            (_, error) => Error::Environment(error.to_string()),
        }
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
