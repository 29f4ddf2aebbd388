//! Patterns from recordings. A storage pattern from a trace of block I/O:
//! [`trace`] reads it, [`chain`] counts transitions. A network pattern from a
//! capture: [`capture`] reads it, [`messages`] counts. [`text`] writes the files
//! that `pattern` and `traffic` read.

pub mod capture;
mod chain;
mod law;
pub mod messages;
mod text;
pub mod trace;

pub use chain::Features;
pub use chain::Fitted;
pub use chain::fit;
pub use text::toml;
pub use text::traffic_toml;
