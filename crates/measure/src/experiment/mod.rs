//! Arms, windows, estimates, the search for `t` and `c`.
//!
//! Everything here runs on an [`executor::Executor`]: the live one switches
//! real workers; that of the tests answers from a seeded response model on a
//! virtual clock, so that the statistics are tested against known truth.
//!
//! From the outside in: [`run::measure`] shares the budget among the halves of
//! all subjects; [`search`] decides what one half wants measured next and when
//! it knows enough; [`design`] measures one pair of windows;
//! [`jostle_statistics`] turns pairs into estimates; [`outcome`] is what comes
//! out.

mod arrived;
mod bounds;
mod carry_over;
mod checkpoint;
mod counting;
pub mod demos;
mod departures;
pub mod design;
pub mod executor;
pub mod floor;
mod judge;
mod levels;
pub mod live;
mod log;
mod mechanism;
pub mod outcome;
mod phases;
pub mod place;
pub mod plan;
mod queue;
pub mod record;
pub mod resume;
pub mod run;
pub mod search;
mod sequences;
pub mod session;
pub mod settings;
mod sources;
mod thread_watch;
mod trial;
mod unseen;
