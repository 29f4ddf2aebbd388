//! Arms, windows, estimates, the search for `t` and `c`.
//!
//! Everything here runs on an [`executor::Executor`]: the live one switches
//! real workers, the mock one answers from a seeded response model on a
//! virtual clock, so that the statistics are tested against known truth.

pub mod bootstrap;
pub mod design;
pub mod executor;
pub mod isotonic;
pub mod live;
pub mod mock;
pub mod outcome;
pub mod record;
pub mod run;
pub mod search;
pub mod session;
pub mod stats;
