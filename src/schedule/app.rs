//! An application to place: its scores and what it asks for.

use crate::profile::PlacementMode;
use crate::profile::Profile;
use crate::profile::Status;
use std::collections::BTreeMap;

/// Fixed-point steps per point of the 0–100 scale.
pub(super) const STEPS_PER_POINT: f64 = 1e6;

/// What a profile knows of one resource. Scores are kept as whole millionths of
/// a point: sums of them are exact, so adding and removing a resident leaves a
/// node's aggregates precisely as they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub(super) tolerated: Option<i64>,
    pub(super) caused: Option<i64>,
    /// Why a score is missing, in words; used only when one is.
    pub(super) missing: String,
    /// Measured while taking turns on one CPU.
    pub(super) same_cpu: bool,
}

impl Term {
    /// Highest intensity tolerated, 0–100.
    pub fn tolerated(&self) -> Option<f64> {
        self.tolerated.map(points)
    }

    /// How much the application causes, 0–100.
    pub fn caused(&self) -> Option<f64> {
        self.caused.map(points)
    }
}

pub(super) fn points(steps: i64) -> f64 {
    steps as f64 / STEPS_PER_POINT
}

/// An application: the scores of its profile, and its demand.
#[derive(Clone, Debug, PartialEq)]
pub struct App {
    name: String,
    /// CPUs it asks for, at least 1.
    cpus: u32,
    memory_bytes: u64,
    /// CPU model the profile was measured on.
    measured_on: String,
    terms: BTreeMap<String, Term>,
}

impl App {
    /// Takes the scores out of `profile`. Asks for 1 CPU and no memory.
    pub fn new(profile: &Profile) -> Self {
        let terms = profile
            .resources
            .iter()
            .map(|(id, entry)| {
                let steps = |score: f64| (score.clamp(0.0, 100.0) * STEPS_PER_POINT).round() as i64;
                let status = match entry.status {
                    Status::Measured => "measured without this score",
                    Status::Inferred => "inferred without this score",
                    Status::NotShared => "not shared where it was measured",
                    Status::Unavailable => "unavailable",
                    Status::Unresolved => "unresolved",
                };
                let term = Term {
                    tolerated: entry.tolerated.map(|score| steps(score.score)),
                    caused: entry.caused.map(|score| steps(score.score)),
                    missing: match &entry.reason {
                        Some(reason) => format!("{status}: {reason}"),
                        None => status.into(),
                    },
                    same_cpu: entry
                        .placement
                        .as_ref()
                        .is_some_and(|placement| placement.mode == PlacementMode::SameCpu),
                };
                (id.clone(), term)
            })
            .collect();
        App {
            name: profile.workload.name.clone(),
            cpus: 1,
            memory_bytes: 0,
            measured_on: profile.machine.model.clone(),
            terms,
        }
    }

    /// The same with another demand; `cpus` below 1 counts as 1.
    pub fn with_demand(mut self, cpus: u32, memory_bytes: u64) -> Self {
        self.cpus = cpus.max(1);
        self.memory_bytes = memory_bytes;
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    pub fn measured_on(&self) -> &str {
        &self.measured_on
    }

    /// What the profile knows per resource id.
    pub fn terms(&self) -> &BTreeMap<String, Term> {
        &self.terms
    }
}
