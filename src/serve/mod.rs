//! What schedulers talk to.

pub mod events;
pub mod journal;
pub mod line;
pub mod listen;
pub mod server;
