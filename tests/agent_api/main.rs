//! The API of the agent, asked over real sockets. The node states are made.
#![cfg(feature = "server")]

#[path = "../common/skip.rs"]
#[allow(dead_code)]
mod skip;

mod answers;
mod bad_input;
mod live;
mod made;
mod sockets;
mod streams;
