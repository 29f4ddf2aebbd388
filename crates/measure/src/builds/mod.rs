//! Which of two builds is faster, measured in one session.
//!
//! Both are started on the same CPU and alternate every few milliseconds in random
//! order; one is paused while the other runs, so that changes of the machine affect both
//! alike. Two instances of one build differ by their memory layout, so both are started
//! many times, and the interval is computed over the starts.

mod awake;
mod bench;
mod choose;
mod error;
mod live;
mod measure;
mod session;
mod side;
mod warning;

pub use bench::Bench;
pub use bench::BenchError;
pub use bench::Side;
pub use bench::Turn;
pub use measure::Measured;
pub use measure::Method;
pub use measure::Settings;
pub use measure::measure;
pub use session::Request;
pub use session::run;
pub use warning::BuildWarning;
