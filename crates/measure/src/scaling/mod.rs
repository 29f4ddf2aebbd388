//! How performance grows with CPUs and with copies.
//!
//! The target runs in blocks in random order, each block at one size: with so many
//! CPUs (scale-up: the CPUs that its threads may use are changed while it runs), or
//! as so many copies on CPUs of their own (scale-out: the other copies are stopped).
//! What is done per second of wall time at a size, as a multiple of that at size 1,
//! is the speed-up there.

mod live;
mod measure;
mod plan;
mod session;
mod threads;
mod warning;

pub use measure::Bench;
pub use measure::Measured;
pub use measure::Settings;
pub use measure::measure;
pub use plan::Plan;
pub use plan::Sizes;
pub use session::Request;
pub use session::run;
pub use warning::ScalingWarning;
