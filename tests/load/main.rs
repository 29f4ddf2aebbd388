//! Loads: what is reported of a server is what the server did.

mod command;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "tls")]
mod http;
#[cfg(feature = "http2")]
mod http2;
mod real;
mod servers;
#[allow(dead_code, reason = "the fakes of the crate use the rest")]
#[path = "../../crates/load/tests/fakes/support.rs"]
mod support;
