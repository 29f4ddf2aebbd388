//! `jostle serve`: one cluster for several clients, over sockets that misbehave.

#[path = "../common/mod.rs"]
mod common;

mod admission;
mod clients;
mod docs;
mod restart;
mod server;
