//! A storage pattern from a recorded trace of block I/O: [`trace`] reads it,
//! [`chain`] counts transitions, [`text`] writes the file that `pattern` reads.

mod chain;
mod text;
pub mod trace;

pub use chain::Features;
pub use chain::Fitted;
pub use chain::fit;
pub use text::toml;
