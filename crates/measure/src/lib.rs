#![doc = include_str!("../README.md")]
//!
//! | module | what lives there |
//! |---|---|
//! | [`validate`] | is the instrument true? every source against itself and all others |
//! | [`blame`] | who slows a program, by pausing the others for milliseconds |
//! | [`scaling`] | how performance grows with CPUs and with copies |
//! | [`builds`] | which of two builds is faster, in turns of milliseconds on one CPU |
//! | [`pairs`] | what programs cost each other that really run side by side |
//! | [`experiment`] | arms, windows, estimates, the search for `t` and `c` |
//! | [`metric`] | how the target's performance is read |
//! | [`counters`] | hardware, software, pressure, procfs and resctrl readings |
//! | [`usage`] | what the target uses by itself: CPU, disk, network, memory, as shares of the peaks |
//! | [`workload`] | what is profiled: a command, a process, a cgroup, a demo |
//! | [`calibrate`] | sizes by access time, peaks, settle times, reporter curves of this machine |
//! | [`warning`] | every warning and its text |
//! | [`console`] | standard error, written without a panic |
//!
//! Imports run downwards: `validate` → `blame`, `scaling`, `builds` → `pairs` → `experiment`,
//! `calibrate` → `metric`, `counters` → `workload`. What `calibrate` finds reaches
//! `experiment` as data of `jostle_host::machine` only.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod blame;
pub mod builds;
pub mod calibrate;
pub mod console;
pub mod counters;
pub mod error;
pub mod experiment;
pub mod metric;
pub mod near;
pub mod pairs;
pub mod scaling;
pub mod usage;
pub mod validate;
pub mod warning;
pub mod workload;

#[cfg(test)]
#[path = "../../../tests/common/skip.rs"]
mod skip;
