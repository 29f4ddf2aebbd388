//! The cost of a context switch after a source has run: it evicts the kernel's data too,
//! so that even a process that uses registers only is slowed.

use super::error::WorkerError;
use super::group::WorkerGroup;
use super::group::WorkerPlan;

use super::slice::Victim;
use crate::sys::control_page::Order;
use crate::sys::probe::cpu_time;
use jostle_profile::Estimate;
use jostle_statistics::paired;
use std::thread::sleep;
use std::time::Duration;

/// Pairs of windows; together with the worker's start they take about a second.
const PAIRS: usize = 24;
const WINDOW: Duration = Duration::from_millis(12);
/// Periods until an order is in force.
const SKIPPED: u32 = 2;

/// The loss of a spinning thread that time-shares its CPU with the source of `plan` at
/// 100 %, as a fraction (0–1) of its speed beside the placebo, with a 95 % interval. The CPU
/// must otherwise be idle. `None` for a source that does not time-share a CPU.
///
/// # Errors
/// When the worker or the thread cannot be started.
pub fn measure(plan: &WorkerPlan) -> Result<Option<Estimate>, WorkerError> {
    let (Some(slices), Some(&cpu)) = (plan.config.slices, plan.placement.cpus.first()) else {
        return Ok(None);
    };
    let mut plan = plan.clone();
    plan.placement.cpus.truncate(1);
    plan.config.environment.cpus.truncate(1);
    let victim = Victim::start(cpu)
        .map_err(|error| WorkerError::Failed(format!("no thread to be its victim: {error}")))?;
    let mut group = WorkerGroup::spawn(plan, Duration::from_secs(5))?;
    let settle = Duration::from_nanos(slices.period_ns) * SKIPPED;
    // Per second of its own CPU time: that of the source's switches is not its loss.
    let refused = |error: std::io::Error| WorkerError::Failed(format!("no CPU time: {error}"));
    let mut clock = cpu_time(victim.id()).map_err(refused)?;
    let mut speed = |order| {
        group.set(order);
        sleep(settle);
        let before = (victim.turns(), clock.read().map_err(refused)?);
        sleep(WINDOW);
        let after = (victim.turns(), clock.read().map_err(refused)?);
        let busy = after.1.saturating_sub(before.1).max(1);
        Ok::<f64, WorkerError>(((after.0 - before.0).max(1) as f64 / busy as f64).ln())
    };
    let mut logs = Vec::new();
    for pair in 0..PAIRS {
        // Each comes first in turn, so that drift cancels.
        let log = match pair.is_multiple_of(2) {
            true => -speed(Order::Control)? + speed(Order::Treat(100.0))?,
            false => speed(Order::Treat(100.0))? - speed(Order::Control)?,
        };
        logs.push(log);
    }
    group.check_exits()?;
    // By ranks: a few windows of a guest run while the host has taken its CPU.
    let Some((middle, [low, high])) = paired(&logs, 0.95) else {
        let fewest = "too few pairs of windows to tell the cost of a switch";
        return Err(WorkerError::Failed(fewest.into()));
    };
    let lost = |log: f64| 1.0 - log.exp();
    Ok(Some(Estimate {
        value: lost(middle),
        ci95: [lost(high), lost(low)],
    }))
}
