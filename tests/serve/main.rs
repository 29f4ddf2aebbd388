//! `jostle serve`: one cluster for several clients, over sockets that misbehave.

#[path = "../common/mod.rs"]
mod common;

mod clients;
mod restart;
mod server;
