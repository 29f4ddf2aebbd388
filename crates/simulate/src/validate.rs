//! Whether a workload and settings describe something that can run.

use crate::error::SimulationError;
use crate::settings::Settings;
use crate::workload::Fault;
use crate::workload::Workload;

/// # Errors
///
/// The first thing in `workload` or `settings` that makes a run impossible.
pub fn check(workload: &Workload, settings: &Settings) -> Result<(), SimulationError> {
    if workload.nodes.is_empty() {
        return Err(SimulationError::NoNodes);
    }
    check_settings(settings)?;
    let mut before = f64::NEG_INFINITY;
    for (job, it) in workload.jobs.iter().enumerate() {
        let wrong = |why| Err(SimulationError::Job { job, why });
        if !it.arrival.is_finite() || it.arrival < before {
            return wrong("jobs have to stand in order of arrival, at finite seconds");
        }
        before = it.arrival;
        if !(it.work_seconds.is_finite() && it.work_seconds > 0.0) {
            return wrong("its work has to be above 0 seconds and finite");
        }
        if !(it.profiling_seconds.is_finite() && it.profiling_seconds >= 0.0) {
            return wrong("its seconds of profiling have to be 0 or more and finite");
        }
        if it.demand.cpus == 0 {
            return wrong("it asks for no CPU; 1 is the least");
        }
        if it.phases.first().is_none_or(|first| first.from != 0.0) {
            return wrong("its first phase has to begin at 0");
        }
        if !it.phases.is_sorted_by(|a, b| a.from < b.from) {
            return wrong("its phases have to begin one after the other");
        }
        let apps = workload.truth.apps.len();
        if it.phases.iter().any(|phase| phase.truth as usize >= apps) {
            return wrong("one of its phases is of an application that the truth does not have");
        }
    }
    let mut before = f64::NEG_INFINITY;
    for (fault, (seconds, it)) in workload.faults.iter().enumerate() {
        let wrong = |why| Err(SimulationError::Fault { fault, why });
        if !seconds.is_finite() || *seconds < before {
            return wrong("faults have to stand in order of time, at finite seconds");
        }
        before = *seconds;
        let (Fault::Node { node, seconds } | Fault::Cpu { node, seconds }) = it;
        if *node as usize >= workload.nodes.len() {
            return wrong("there is no such node");
        }
        if seconds.is_nan() || *seconds <= 0.0 {
            return wrong("its repair has to take more than 0 seconds");
        }
    }
    Ok(())
}

fn check_settings(settings: &Settings) -> Result<(), SimulationError> {
    let [least, most] = settings.agents.sync_seconds;
    if settings.agents.count == 0 || settings.agents.count > 10_000 {
        return Err(SimulationError::Agents("`count` has to be 1 to 10000"));
    }
    if !(least > 0.0 && least <= most && most.is_finite()) {
        return Err(SimulationError::Agents(
            "`sync_seconds` has to be two finite numbers above 0, the lower one first",
        ));
    }
    let fine = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
    let latency = &settings.latency;
    if !fine(latency.base_seconds) || !fine(latency.per_examined_seconds) {
        return Err(SimulationError::Latency(
            "seconds have to be 0 or more and finite",
        ));
    }
    let phases = &settings.phases;
    if !(0.0..=1.0).contains(&phases.chance) {
        return Err(SimulationError::Phases("`chance` has to be within 0–1"));
    }
    let others = [
        phases.delay_seconds,
        phases.migration_median_seconds,
        phases.migration_sigma,
    ];
    if !others.into_iter().all(fine) {
        return Err(SimulationError::Phases(
            "seconds and sigma have to be 0 or more and finite",
        ));
    }
    Ok(())
}
