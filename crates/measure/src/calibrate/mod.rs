//! Measures a machine: sizes of caches by access time, the length of turns, and for
//! every source of interference its peak, how long a switch takes to settle, and what
//! it loses beside a second copy of itself. All of it decides something later: how
//! much `llc-capacity` covers, how long a walk over a free cache takes, how long turns
//! and blocks are, what an intensity stands for, and to which intensity a target is
//! equivalent.
//!
//! [`knees`] finds sizes; [`peaks`] and [`reporter`] measure one source through the
//! seam of [`press`]. All share one budget: with less time there are fewer
//! repetitions, and what could not be measured carries the reason.

pub mod knees;
pub mod peaks;
pub mod press;
pub mod reporter;
mod rounds;
mod source;

pub use press::Slot;
pub use press::Stop;
pub use press::Watch;
pub use source::dry_run;

use jostle_host::inject::plan::Limits;
use jostle_host::inject::slice;
use jostle_host::inject::worker::Slices;
use jostle_host::machine::Machine;
use jostle_host::machine::calibration;
use jostle_host::machine::calibration::Calibration;
use jostle_host::machine::calibration::FORMAT;
use jostle_host::machine::calibration::SlicePeriod;
use jostle_host::machine::calibration::Source;
use jostle_host::sys::clock::rfc3339;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Resource;
use std::collections::BTreeMap;
use std::time::Duration;
use std::time::SystemTime;

/// Time for everything unless told otherwise.
pub const BUDGET: Duration = Duration::from_secs(45);
/// Less is not enough to measure anything.
pub const LEAST_BUDGET: Duration = Duration::from_secs(5);
/// Longest wait, beyond the budget, for CPUs of a virtual machine that share a last-level
/// cache at times.
const PATIENCE: Duration = Duration::from_secs(10);
/// Share of the budget.
const SIZES_SHARE: f64 = 0.15;

/// What to calibrate, and within which limits.
pub struct Request<'a> {
    pub machine: &'a Machine,
    pub resources: &'a [Resource],
    /// What one source may take; at times two run.
    pub limits: Limits,
    pub budget: Duration,
    /// Of the same machine.
    pub earlier: Option<&'a Calibration>,
}

/// Calibrates. What cannot be measured is a reason in the result.
///
/// # Errors
/// Only [`Stop::Interrupted`], or in words when there is no CPU to run on.
pub fn calibrate(request: &Request, watch: &dyn Watch) -> Result<Calibration, Stop> {
    let machine = request.machine;
    let cpu = machine
        .quietest_cpu()
        .ok_or_else(|| Stop::Failed("no CPU is allowed to this process".to_string()))?;
    let started = SystemTime::now();
    let began = watch.now();
    let mut sizes = knees::sizes(
        machine,
        cpu,
        request.limits.memory_bytes,
        request.budget.mul_f64(SIZES_SHARE),
        watch,
    )?;
    if let Some(earlier) = request.earlier {
        calibration::keep_best(&mut sizes, earlier);
    }
    let request = &Request {
        limits: Limits {
            llc_bytes: calibration::llc_bytes(&sizes),
            ..request.limits.clone()
        },
        ..*request
    };
    let slices = reading(slice_period(request, cpu, watch))?;
    let seconds = slices.value().map(|slices| slices.period_seconds);
    let period = seconds.map_or(slice::PERIODS[0], Duration::from_secs_f64);
    let mut resources = BTreeMap::new();
    let mut patience = PATIENCE;
    for (index, &resource) in request.resources.iter().enumerate() {
        watch.say(resource.id())?;
        let end = began + request.budget + (PATIENCE - patience);
        let left = end.saturating_sub(watch.now());
        let entry = match left.is_zero() {
            true => Source::without_numbers(
                resource,
                &format!(
                    "not measured: the budget of {:.0} s was spent before its turn; give more \
                     with --budget",
                    request.budget.as_secs_f64()
                ),
            ),
            false => {
                let slot = left / (request.resources.len() - index) as u32;
                source::measure(request, resource, cpu, period, slot, &mut patience, watch)?
            }
        };
        resources.insert(resource.id().to_string(), entry);
    }
    Ok(Calibration {
        format: FORMAT.to_string(),
        fingerprint: machine.fingerprint(),
        model: machine.model.clone(),
        recorded_at: rfc3339(started),
        tool_version: env!("CARGO_PKG_VERSION").to_string(),
        duration_seconds: (watch.now() - began).as_secs_f64(),
        budget_seconds: request.budget.as_secs_f64(),
        sizes,
        slices,
        resources,
        unknown: Default::default(),
    })
}

/// The period at which the placebo costs no more than its share.
fn slice_period(request: &Request, cpu: usize, watch: &dyn Watch) -> Result<SlicePeriod, Stop> {
    watch.say("slice period")?;
    let share = Slices::DEFAULT_SHARE;
    let choice = slice::calibrate(request.machine, cpu, share, &request.limits)?;
    Ok(SlicePeriod {
        period_seconds: choice.period.as_secs_f64(),
        share_percent: share * 100.0,
        victim_percent: choice.victim_share * 100.0,
        within_tolerance: choice.within_tolerance,
    })
}

/// What failed becomes a reason; what was interrupted ends everything.
fn reading<T>(result: Result<T, Stop>) -> Result<Reading<T>, Stop> {
    match result {
        Ok(value) => Ok(Reading::Value(value)),
        Err(Stop::Failed(reason)) => Ok(Reading::unavailable(reason)),
        Err(Stop::Interrupted) => Err(Stop::Interrupted),
    }
}
