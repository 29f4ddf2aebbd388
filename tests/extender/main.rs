//! `jostle extender` as a process, with an API server that is played and with agents
//! that are real.
#![cfg(feature = "server")]

#[path = "../common/mod.rs"]
mod common;

mod agent;
mod agents;
mod api_server;
mod bad_input;
mod live;
mod recorded;
mod replicas;
mod sources;
#[cfg(feature = "tls")]
mod tls;
