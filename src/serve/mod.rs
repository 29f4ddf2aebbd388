//! What schedulers talk to.

pub mod events;
#[cfg(feature = "server")]
pub mod extender;
pub mod journal;
pub mod line;
pub mod listen;
pub mod server;
pub mod slurm;
