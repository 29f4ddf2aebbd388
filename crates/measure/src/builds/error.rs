//! Why two builds cannot be compared, and what to do.

use super::bench::Side;
use crate::error::Error;
use std::time::Duration;
use thiserror::Error as ThisError;

#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub(super) enum BuildError {
    #[error(
        "{0} publishes its progress (JOSTLE_PROGRESS) and {other} does not, so their counts cannot be \
         compared: let both publish it, or give --metric runs if both end by themselves",
        other = .0.other()
    )]
    OnePublishes(Side),
    #[error(
        "{0} ends by itself and {other} was still running after {seconds:.1} s: give two commands \
         that do the same, or a longer --budget if both end",
        other = .0.other(),
        seconds = .1.as_secs_f64()
    )]
    OneEnds(Side, Duration),
    #[error(
        "OLD and NEW do not end soon, publish no progress, and no function was found to count \
         ({0}): publish progress (docs/progress.md), name what to count with \
         --metric progress:uprobe:BINARY:SYMBOL, or compare commands that end by themselves"
    )]
    NothingCounted(String),
    #[error(
        "the function that tells the speed of OLD has no name in {0}, so NEW cannot be searched \
         for it: keep the symbols (no strip), publish progress (docs/progress.md), or name one \
         with --metric progress:uprobe:BINARY:SYMBOL"
    )]
    NoSymbol(String),
    #[error(
        "--metric {0} is no count that grows while a build runs; use progress, progress:shm, \
         progress:auto, progress:uprobe:…, progress:tracepoint:… or runs"
    )]
    NoCount(String),
    #[error(
        "OLD or NEW ends before its first turn is over: give it more to do, or compare whole runs \
         with --metric runs"
    )]
    EndsAtOnce,
    #[error("the time was over before both builds had {what}: give a longer --budget", what = if *.0 { "ended once" } else { "taken a turn" })]
    NoTime(bool),
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Error {
        match error {
            BuildError::NothingCounted(_) => Error::environment(error),
            _ => Error::request(error),
        }
    }
}

impl Side {
    /// The error, with the build that it is about.
    pub(super) fn named(self, error: Error) -> Error {
        match error {
            Error::Request(reason) => Error::Request(format!("{self}: {reason}")),
            Error::Environment(reason) => Error::Environment(format!("{self}: {reason}")),
            error => error,
        }
    }
}
