//! The API of the agent, asked over real sockets. The node states are made.
#![cfg(feature = "server")]

#[path = "../common/skip.rs"]
mod skip;

mod answers;
mod bad_input;
mod dashboard;
mod description;
mod live;
mod made;
mod metrics;
mod sockets;
mod streams;
#[cfg(feature = "tls")]
mod tls;
