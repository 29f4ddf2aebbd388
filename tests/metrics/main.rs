//! Metrics that look at a target from outside, against targets, servers and
//! probes that misbehave in every way known.

mod automatic;
#[path = "../common/mod.rs"]
mod common;
mod counted;
mod exposed;
mod published;
mod support;
mod told;
mod turns;
