//! One run from end to end, with schedulers by name or as given.

use super::Engine;
use super::Start;
use crate::Outcome;
use crate::Settings;
use crate::SimulationError;
use crate::Timing;
use crate::Workload;
use crate::error::check;
use jostle_schedule::POLICIES;
use jostle_schedule::Policy;
use jostle_schedule::PolicyOptions;
use jostle_schedule::admission::ADMISSIONS;
use jostle_schedule::admission::Admission;
use jostle_schedule::admission::AdmissionOptions;
use jostle_schedule::admission::admission_kind;
use jostle_schedule::policy_kind;
use std::time::Instant;

/// What an agent is made of.
pub type Scheduler = (Box<dyn Policy>, Box<dyn Admission>);

/// Runs `workload` once, with the policy and the admission that `settings`
/// name.
///
/// # Errors
///
/// When the workload or the settings make no sense, an admission cannot be
/// made as it is told, a policy breaks the rules, or jobs wait for a place that
/// nothing can give them any more.
pub fn run(workload: &Workload, settings: &Settings) -> Result<(Outcome, Timing), SimulationError> {
    let (outcome, timing, _) = observe(workload, settings, &mut schedulers(settings)?, false)?;
    Ok((outcome, timing))
}

/// Makes agents as `settings` say, each with the seed it is given.
///
/// # Errors
///
/// A policy or an admission that there is not.
pub(crate) fn schedulers(
    settings: &Settings,
) -> Result<impl FnMut(u64) -> Result<Scheduler, SimulationError>, SimulationError> {
    let policy = policy_kind(&settings.policy).ok_or_else(|| {
        let known: Vec<_> = POLICIES.iter().map(|kind| kind.name).collect();
        SimulationError::UnknownPolicy {
            name: settings.policy.clone(),
            known: known.join(", "),
        }
    })?;
    let admission = admission_kind(&settings.admission).ok_or_else(|| {
        let known: Vec<_> = ADMISSIONS.iter().map(|kind| kind.name).collect();
        SimulationError::UnknownAdmission {
            name: settings.admission.clone(),
            known: known.join(", "),
        }
    })?;
    Ok(move |seed| {
        let options = AdmissionOptions {
            seed,
            ..settings.admission_options.clone()
        };
        let made = (policy.make)(&PolicyOptions {
            seed,
            strict: false,
        });
        Ok((made, (admission.make)(&options)?))
    })
}

/// Runs `workload` once with agents made by `scheduler`, which is given a seed
/// for each; names in `settings` are only noted.
///
/// # Errors
///
/// As [`run`].
pub fn run_with(
    workload: &Workload,
    settings: &Settings,
    scheduler: &mut dyn FnMut(u64) -> Scheduler,
) -> Result<(Outcome, Timing), SimulationError> {
    let mut scheduler = |seed| Ok(scheduler(seed));
    let (outcome, timing, _) = observe(workload, settings, &mut scheduler, false)?;
    Ok((outcome, timing))
}

/// [`run_with`], and what was read at every start if `starts` are wanted.
pub(crate) fn observe(
    workload: &Workload,
    settings: &Settings,
    scheduler: &mut dyn FnMut(u64) -> Result<Scheduler, SimulationError>,
    starts: bool,
) -> Result<(Outcome, Timing, Vec<Start>), SimulationError> {
    let began = Instant::now();
    check(workload, settings)?;
    let mut engine = Engine::new(workload, settings, scheduler)?;
    engine.starts = starts.then(Vec::new);
    engine.conduct()?;
    let timing = Timing {
        decision_p50_seconds: engine.stopwatch.percentile(0.5),
        decision_p99_seconds: engine.stopwatch.percentile(0.99),
        decisions_seconds: engine.stopwatch.total_seconds(),
        total_seconds: began.elapsed().as_secs_f64(),
    };
    let starts = engine.starts.take().unwrap_or_default();
    Ok((engine.outcome(), timing, starts))
}
