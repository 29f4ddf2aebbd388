//! What schedulers talk to.

#[cfg(feature = "server")]
pub mod extender;
