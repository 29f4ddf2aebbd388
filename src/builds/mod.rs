//! Which of two builds is faster, measured in one session.
//!
//! Both are started on the same CPU and take turns of milliseconds, in random order,
//! one paused while the other runs: whatever the machine does meanwhile happens to
//! both. Two instances of one build differ by where their memory happens to lie, so
//! both are started many times, and the starts are what the interval is over.

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
