#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod builds;
mod change;
mod compare;
mod conditions;
mod counters;
pub mod gate;
mod known;
mod longer;
mod merge;
mod spread;
mod verdict;

pub use change::Change;
pub use change::CounterChange;
pub use change::Outcome;
pub use change::Quantity;
pub use change::ResourceChange;
pub use compare::Comparison;
pub use compare::MARGIN;
pub use compare::NotCompared;
pub use compare::Settings;
pub use compare::Side;
pub use compare::compare;
pub use conditions::Notice;
pub use longer::More;
pub use merge::MergeError;
pub use merge::merge;
pub use verdict::Verdict;
pub use verdict::Word;

use thiserror::Error;

/// Why two profiles cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompareError {
    #[error("{}; --anyway compares them nevertheless", .0.join("; "))]
    Unlike(Vec<String>),
    #[error("no resource was measured in both: {old} was measured on {of_old}, {new} on {of_new}")]
    NothingInCommon {
        old: String,
        new: String,
        of_old: String,
        of_new: String,
    },
}
