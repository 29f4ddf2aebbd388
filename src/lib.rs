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
//! | [`validate`] | is the instrument true? every source against itself and all others |
//! | [`blame`] | who slows a program, by pausing the others for milliseconds |
//! | [`scaling`] | how performance grows with CPUs and with copies |
//! | [`builds`] | which of two builds is faster, in turns of milliseconds on one CPU
//! | [`pairs`] | what programs cost each other that really run side by side |
//! | [`experiment`] | arms, windows, estimates, the search for `t` and `c` |
//! | [`metric`] | how the target's performance is read |
//! | [`counters`] | hardware, software, pressure, procfs and resctrl readings |
//! | [`usage`] | what the target uses by itself: CPU, disk, network, memory, as shares of the peaks |
//! | [`workload`] | what is profiled: a command, a process, a cgroup, a demo |
//! | [`calibrate`] | sizes by access time, peaks, settle times, reporter curves of this machine |
//! | [`inject`] | workers: spawn, place, pace, watch |
//! | `http` | what every server of jostle shares: listening, limits, TLS, tokens; and a client |
//! | [`sink`] | the remote end of the network source |
//! | [`machine`] | topology, caches, limits, and the file of what calibration found |
//! | [`os`] | what the kernel tells: proc, mounts, cgroups, pressure, sysfs; every reader on a root path |
//! | [`warning`] | every warning and its text |
//! | [`console`] | standard error, written without a panic |
//! | [`sys`] | the only unsafe code outside `jostle-kernels` |
//!
//! Below them, in crates of their own that know nothing of measuring:
//! `jostle-profile` (the sensitivity vector and the resources),
//! `jostle-compare` (what differs between profiles, and several runs as one),
//! `jostle-schedule` (prediction and placement), `jostle-simulate` (a cluster
//! in discrete events), `jostle-load` (the load generator), `jostle-statistics`
//! (location, intervals, monotone regression); and `jostle-kernels`, which runs
//! inside a worker.
//!
//! Imports run downwards: `cli` → `agent`, `serve`, `report` → `validate` → `blame`, `scaling`, `builds` → `pairs` →
//! `experiment`, `calibrate` → `metric`, `counters` → `workload`, `inject` → `machine` →
//! `sys`, `os`. What `calibrate` finds reaches `experiment` as data of `machine`
//! only.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod agent;
pub mod blame;
pub mod builds;
pub mod calibrate;
pub mod cli;
pub mod console;
pub mod counters;
pub mod error;
pub mod experiment;
#[cfg(all(feature = "server", any(test, feature = "fuzzing")))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "server")]
pub mod http;
pub mod inject;
pub mod machine;
pub mod metric;
mod near;
pub mod os;
pub mod pairs;
pub mod report;
pub mod scaling;
pub mod serve;
pub mod sink;
#[allow(unsafe_code)]
pub mod sys;
pub mod usage;
pub mod validate;
pub mod warning;
pub mod workload;

#[cfg(test)]
#[path = "../tests/common/skip.rs"]
mod skip;
