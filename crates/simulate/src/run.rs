//! One run from end to end, with schedulers by name or as given.

use crate::engine;
use crate::engine::Scheduler;
use crate::error::SimulationError;
use crate::outcome::Outcome;
use crate::outcome::Timing;
use crate::settings::Settings;
use crate::workload::Workload;
use jostle_schedule::POLICIES;
use jostle_schedule::PolicyOptions;
use jostle_schedule::admission::ADMISSIONS;
use jostle_schedule::admission::AdmissionOptions;
use jostle_schedule::admission::admission_kind;
use jostle_schedule::policy_kind;

/// Runs `workload` once, with the policy and the admission that `settings`
/// name.
///
/// # Errors
///
/// When the workload or the settings make no sense, an admission cannot be
/// made as it is told, a policy breaks the rules, or jobs wait for a place that
/// nothing can give them any more.
pub fn run(workload: &Workload, settings: &Settings) -> Result<(Outcome, Timing), SimulationError> {
    let (outcome, timing, _) = engine::run(workload, settings, &mut schedulers(settings)?, false)?;
    Ok((outcome, timing))
}

/// Makes agents as `settings` say, each with the seed it is given.
pub(crate) fn schedulers(
    settings: &Settings,
) -> Result<impl FnMut(u64) -> Result<Scheduler, SimulationError>, SimulationError> {
    let unknown = |what, name: &str, known: Vec<&str>| SimulationError::Unknown {
        what,
        name: name.into(),
        known: known.join(", "),
    };
    let policy = policy_kind(&settings.policy).ok_or_else(|| {
        let known = POLICIES.iter().map(|kind| kind.name).collect();
        unknown("policy", &settings.policy, known)
    })?;
    let admission = admission_kind(&settings.admission).ok_or_else(|| {
        let known = ADMISSIONS.iter().map(|kind| kind.name).collect();
        unknown("admission", &settings.admission, known)
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
    let (outcome, timing, _) = engine::run(workload, settings, &mut scheduler, false)?;
    Ok((outcome, timing))
}
