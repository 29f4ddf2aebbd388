//! Why nothing can be inferred.

use thiserror::Error;

/// What a table cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    #[error("column {column} of {columns} does not exist; columns are counted from 0")]
    NoColumn { column: usize, columns: usize },
    #[error("row {row} has column {column} twice")]
    Twice { row: usize, column: usize },
    #[error("row {row}, column {column} {problem}")]
    Entry {
        row: usize,
        column: usize,
        problem: String,
    },
}

/// Why a profile was not completed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClassifyError {
    #[error("there is no profile to learn from")]
    NoProfile,
    #[error("{count} applications to learn from; at least {needed} are needed")]
    TooFew { count: usize, needed: usize },
    #[error(
        "{measured} measured numbers to infer from; at least {needed} are needed: profile the program on two resources or more"
    )]
    TooLittle { measured: usize, needed: usize },
    #[error(
        "profiles of several machines: {0}; scores do not compare across machines unless --mix-machines says so"
    )]
    Machines(String),
    #[error(
        "what was measured is unlike every one of the {0} applications to learn from; measure the rest instead"
    )]
    UnlikeAny(usize),
    #[error(transparent)]
    Table(#[from] TableError),
}
