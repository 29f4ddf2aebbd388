//! The input of one run: nodes, jobs and faults.

use crate::truth::Truth;
use jostle_schedule::App;
use jostle_schedule::Demand;
use jostle_schedule::Node;
use std::sync::Arc;

/// A stretch of a job's work during which it behaves the same.
#[derive(Clone, Debug)]
pub struct JobPhase {
    /// Fraction of its work done when this begins; 0 for the first, ascending.
    pub from: f64,
    /// Index into [`Truth::apps`].
    pub truth: u32,
    /// What profiling says of it: with error, and all that a policy sees.
    pub estimate: Arc<App>,
}

/// A job: an amount of work, not of time.
#[derive(Clone, Debug)]
pub struct Job {
    /// Seconds; jobs stand in order of arrival.
    pub arrival: f64,
    /// Seconds it takes alone on its best platform with the CPUs it asks for.
    pub work_seconds: f64,
    /// At least one.
    pub phases: Vec<JobPhase>,
    pub demand: Demand,
    /// Seconds of profiling and classifying before it can be placed.
    pub profiling_seconds: f64,
    pub priority: u32,
    /// May run on several nodes at once.
    pub spread: bool,
    /// Speed wanted, as a multiple of one CPU of its best platform, for
    /// policies that size; absent where the demand is simply given.
    pub target: Option<f64>,
    /// Index into [`Workload::classes`].
    pub class: u16,
}

/// What breaks, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// A whole node is lost for so many seconds.
    Node { node: u32, seconds: f64 },
    /// One CPU (resource unit) of a node is lost for so many seconds.
    Cpu { node: u32, seconds: f64 },
}

/// Everything that one run is given.
#[derive(Clone, Debug)]
pub struct Workload {
    pub nodes: Vec<Node>,
    pub truth: Truth,
    pub jobs: Vec<Job>,
    /// Seconds and fault, ascending.
    pub faults: Vec<(f64, Fault)>,
    /// Names of classes of jobs, for reports.
    pub classes: Vec<String>,
}
