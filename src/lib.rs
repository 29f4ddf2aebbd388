//! Jostle measures how much interference an application *tolerates* and how
//! much it *causes*, resource by resource, on the machine it really runs on.
//!
//! # The floor plan
//!
//! | module | what lives there |
//! |---|---|
//! | [`cli`] | one file per subcommand: its arguments and its `run()` |
//! | [`report`] | tables for people |
//! | [`simulate`] | a cluster in discrete events, with a truth that no policy sees |
//! | [`schedule`] | cluster state and placement, one file per policy; admission; what to rent |
//! | [`predict`] | what applications that share a machine do to each other, from their profiles |
//! | [`validate`] | is the instrument true? every source against itself and all others |
//! | [`experiment`] | arms, windows, estimates, the search for `t` and `c` |
//! | [`metric`] | how the target's performance is read |
//! | [`load`] | requests for services at a given rate, and how long the answers take |
//! | [`counters`] | hardware, software, pressure, procfs and resctrl readings |
//! | [`target`] | what is profiled: a command, a process, a demo |
//! | [`calibrate`] | sizes by access time, peaks, settle times, reporter curves of this machine |
//! | [`inject`] | workers: spawn, place, pace, watch |
//! | [`machine`] | topology, caches, limits, and the file of what calibration found |
//! | [`profile`] | pure data: the sensitivity vector, its schema, load and save |
//! | [`sink`] | the remote end of the network source |
//! | [`resource`], [`reading`] | the words everybody shares |
//! | [`document`] | JSON files: read with care, replaced in one step |
//! | [`sys`] | the only unsafe code outside `jostle-kernels` |
//!
//! Imports run downwards: `cli` → `report`, `simulate` → `schedule` → `predict` →
//! `profile`; and `cli` → `experiment`, `calibrate` → `metric` → `load`,
//! `counters` → `target`, `inject` → `machine` → `sys`.
//! What `calibrate` finds reaches `experiment` as data of `machine` only.
//! `profile`, `predict`, `schedule` and `simulate` import nothing that measures:
//! only each other, downwards, and `resource`, `reading` and `document`. So a
//! scheduler author can use them without a single source of interference.
#![deny(unsafe_code)]

pub mod calibrate;
pub mod cli;
pub mod counters;
pub mod document;
pub mod error;
pub mod experiment;
pub mod inject;
pub mod load;
pub mod machine;
pub mod metric;
pub mod predict;
pub mod profile;
pub mod reading;
pub mod report;
pub mod resource;
pub mod schedule;
pub mod simulate;
pub mod sink;
#[allow(unsafe_code)]
pub mod sys;
pub mod target;
pub mod validate;
