//! What programs cost each other that really run side by side.
//!
//! The members of a group are started, or attached to, and run in blocks in random
//! order: *together*, when all of them run, and *apart*, when one runs and the
//! others are stopped. What a member does per second of wall time together, as a
//! fraction of what it does apart, is its performance.

pub mod allot;
mod bench;
mod estimate;
mod live;
mod measure;
mod member;
pub mod place;
mod session;
mod warning;

pub use bench::Arm;
pub use bench::Bench;
pub use bench::BenchError;
pub use bench::Block;
pub use bench::Did;
pub use estimate::Estimated;
pub use estimate::Sample;
pub use estimate::estimate;
pub(crate) use live::Foreign;
pub(crate) use live::LiveBench;
pub use measure::Measured;
pub use measure::Settings;
pub use measure::measure;
pub(crate) use member::Member;
pub use session::GroupRequest;
pub use session::MemberRequest;
pub use session::Request;
pub use session::groups;
pub use session::run;
pub use warning::PairWarning;
