#![doc = include_str!("../README.md")]
//!
//! | module | what lives there |
//! |---|---|
//! | [`inject`] | workers: spawn, place, pace, watch |
//! | [`machine`] | topology, caches, limits, and the file of what calibration found |
//! | [`os`] | what the kernel tells: proc, mounts, cgroups, pressure, sysfs; every reader on a root path |
//! | [`sys`] | the only unsafe code outside `jostle-kernels` |
//!
//! Imports run downwards: `inject` → `machine` → `sys`, `os`.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod inject;
pub mod machine;
pub mod os;
#[allow(unsafe_code)]
pub mod sys;

#[cfg(test)]
#[path = "../../../tests/common/skip.rs"]
mod skip;
