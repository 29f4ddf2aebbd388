//! The whole program, as a person runs it: wrong requests, targets that
//! misbehave, ends of every kind, and what is left afterwards. One test at a
//! time: see [`support::Place`].

#[path = "../common/mod.rs"]
mod common;
mod physical;
mod requests;
mod resume;
mod support;
mod targets_and_ends;
mod validate;
