//! Whether a workload and settings describe something that can run.

use crate::error::SimulationError;
use crate::settings::Settings;
use crate::workload::Fault;
use crate::workload::Workload;

/// The first thing in `workload` or `settings` that makes a run impossible.
pub fn check(workload: &Workload, settings: &Settings) -> Result<(), SimulationError> {
    if workload.nodes.is_empty() {
        return Err(SimulationError::NoNodes);
    }
    check_settings(settings)?;
    let mut before = f64::NEG_INFINITY;
    for (job, it) in workload.jobs.iter().enumerate() {
        let apps = workload.truth.apps.len();
        let why = if !it.arrival.is_finite() || it.arrival < before {
            "jobs have to stand in order of arrival, at finite seconds"
        } else if !(it.work_seconds.is_finite() && it.work_seconds > 0.0) {
            "its work has to be above 0 seconds and finite"
        } else if !(it.profiling_seconds.is_finite() && it.profiling_seconds >= 0.0) {
            "its seconds of profiling have to be 0 or more and finite"
        } else if it.demand.cpus == 0 {
            "it asks for no CPU; 1 is the least"
        } else if it.phases.first().is_none_or(|first| first.from != 0.0) {
            "its first phase has to begin at 0"
        } else if !it.phases.is_sorted_by(|a, b| a.from < b.from) {
            "its phases have to begin one after the other"
        } else if it.phases.iter().any(|phase| phase.truth as usize >= apps) {
            "one of its phases is of an application that the truth does not have"
        } else {
            before = it.arrival;
            continue;
        };
        return Err(SimulationError::Job { job, why });
    }
    let mut before = f64::NEG_INFINITY;
    for (fault, (at, it)) in workload.faults.iter().enumerate() {
        let (Fault::Node { node, seconds } | Fault::Cpu { node, seconds }) = it;
        let why = if !at.is_finite() || *at < before {
            "faults have to stand in order of time, at finite seconds"
        } else if *node as usize >= workload.nodes.len() {
            "there is no such node"
        } else if seconds.is_nan() || *seconds <= 0.0 {
            "its repair has to take more than 0 seconds"
        } else {
            before = *at;
            continue;
        };
        return Err(SimulationError::Fault { fault, why });
    }
    Ok(())
}

fn check_settings(settings: &Settings) -> Result<(), SimulationError> {
    let fine = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
    let [least, most] = settings.agents.sync_seconds;
    let (latency, phases) = (&settings.latency, &settings.phases);
    let median = phases.migration_median_seconds;
    let of_phases = [phases.delay_seconds, median, phases.migration_sigma];
    let (of, why) = if !(1..=10_000).contains(&settings.agents.count) {
        ("agents", "`count` has to be 1 to 10000")
    } else if !(least > 0.0 && least <= most && most.is_finite()) {
        let why = "`sync_seconds` has to be two finite numbers above 0, the lower one first";
        ("agents", why)
    } else if !fine(latency.base_seconds) || !fine(latency.per_examined_seconds) {
        ("latency", "seconds have to be 0 or more and finite")
    } else if !(0.0..=1.0).contains(&phases.chance) {
        ("phases", "`chance` has to be within 0–1")
    } else if !of_phases.into_iter().all(fine) {
        (
            "phases",
            "seconds and sigma have to be 0 or more and finite",
        )
    } else {
        return Ok(());
    };
    Err(SimulationError::Settings { of, why })
}
