#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod bootstrap;
mod change;
mod course;
mod isotonic;
mod law;
mod noise;
mod period;
mod pool;
mod rank;
mod resample;
mod robust;
mod sequence;
mod signed_rank;
mod states;
mod turns;

pub use bootstrap::*;
pub use change::Difference;
pub use change::Known;
pub use change::holm;
pub use course::Course;
pub use course::Step;
pub use isotonic::*;
pub use noise::Noise;
pub use period::period;
pub use pool::Pooled;
pub use pool::Run;
pub use pool::common_spread;
pub use pool::pool;
pub use rank::ByNumber;
pub use rank::ascending;
pub use rank::descending;
pub use rank::rank_correlation;
pub use rank::ranks;
pub use robust::*;
pub use sequence::Block;
pub use sequence::Contrasts;
pub use sequence::RoughContrasts;
pub use signed_rank::fewest;
pub use signed_rank::paired;
pub use states::States;
pub use turns::Between;
pub use turns::Grain;
pub use turns::between;
pub use turns::block_rate;
pub use turns::marks;
pub use turns::within;
