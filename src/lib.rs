//! Jostle measures how much interference an application *tolerates* and how
//! much it *causes*, resource by resource, on the machine it really runs on.
//!
//! # The floor plan
//!
//! | module | what lives there |
//! |---|---|
//! | `fuzzing` | what a fuzzer calls: one function per kind of input from elsewhere |
//! | [`cli`] | one file per subcommand: its arguments and its `run()` |
//! | [`agent`] | the daemon of a node: workloads, their profiles, the node's state, API |
//! | [`serve`] | what schedulers talk to: events over a socket, the extender of Kubernetes |
//! | [`report`] | tables and plots for people |
//! | `http` | what every server of jostle shares: listening, limits, TLS, tokens; and a client |
//! | [`sink`] | the remote end of the network source |
//!
//! Below them, in crates of their own: `jostle-measure` (the measurements: what is profiled,
//! how it is read, experiments and what they find), `jostle-host` (the machine, what its
//! kernel tells, and the workers that press on it) and `jostle-kernels`, which runs inside a
//! worker. And those that know nothing of measuring: `jostle-profile` (the sensitivity vector
//! and the resources), `jostle-compare` (what differs between profiles, and several runs as
//! one), `jostle-schedule` (prediction and placement), `jostle-simulate` (a cluster in
//! discrete events), `jostle-load` (the load generator), `jostle-statistics` (location,
//! intervals, monotone regression).
//!
//! Imports run downwards: `cli` → `agent`, `serve`, `report` → `sink`, `http` →
//! `jostle-measure` → `jostle-host` → `jostle-kernels`.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod agent;
pub mod cli;
#[cfg(all(feature = "server", any(test, feature = "fuzzing")))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "server")]
pub mod http;
pub mod report;
pub mod serve;
pub mod sink;

#[cfg(test)]
#[path = "../tests/common/skip.rs"]
mod skip;
