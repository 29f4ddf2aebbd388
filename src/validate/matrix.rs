//! Every source against every other.

use super::Progress;
use super::READY;
use super::Session;
use super::report::Bars;
use super::report::Effect;
use super::report::Size;
use crate::error::Result;
use crate::inject::Snapshot;
use crate::inject::WorkerError;
use crate::inject::WorkerGroup;
use crate::inject::plan::plan;
use crate::inject::plan::plan_alone;
use crate::inject::worker::Slices;
use crate::sys::control_page::Order;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Intensity;
use jostle_profile::resource::Resource;
use jostle_profile::resource::SwitchCost;
use jostle_statistics::Bootstrap;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use std::thread::sleep;
use std::time::Duration;

/// Resamples per interval.
const RESAMPLES: usize = 400;
/// Pairs below which no verdict falls.
const VERDICT_PAIRS: usize = 4;
/// Pairs before an effect counts as resolved.
const LEAST_PAIRS: usize = 6;
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest settle time between arms: no victim here has a page cache.
const LONGEST_SETTLE: Duration = Duration::from_millis(80);
const SHORTEST_SETTLE: Duration = Duration::from_millis(3);
const LONGEST_WINDOW: Duration = Duration::from_millis(60);
/// Rounds of two pairs in one visit.
const ROUNDS: usize = 2;
const QUICK_WINDOW: Duration = Duration::from_millis(10);
/// Passes from one visit to the next of sources that take long to switch.
const EXPENSIVE_EVERY: usize = 4;

struct Cell {
    source: usize,
    victim: usize,
    /// Log of victim's performance under treatment ÷ placebo, in time order.
    log_ratios: Vec<f64>,
}

fn resource(group: &WorkerGroup) -> Resource {
    group.plan.spec.resource
}

/// Measures passes over all cells, in random order, until the budget is spent
/// or every cell is resolved.
pub fn measure(
    session: &Session<'_>,
    slices: Slices,
    rng: &mut ChaCha8Rng,
    progress: Progress<'_>,
) -> Result<Vec<Effect>> {
    progress(session.spent(), "starting every source twice");
    let mut victims = parties(session, slices, Role::Victim)?;
    let mut sources = parties(session, slices, Role::Source)?;
    let cell = |index| Cell {
        source: index / victims.len(),
        victim: index % victims.len(),
        log_ratios: Vec::new(),
    };
    let mut cells: Vec<Cell> = (0..sources.len() * victims.len()).map(cell).collect();
    let mut lost: Vec<usize> = Vec::new();
    let bar = Bars::default().cross_talk_percent;
    for pass in 0.. {
        let mut order: Vec<usize> = (0..cells.len())
            .filter(|&index| {
                let cell = &cells[index];
                let row = resource(&sources[cell.source]).row();
                let expensive = row.switch_cost == SwitchCost::FillsMemory;
                (!expensive || pass % EXPENSIVE_EVERY == 0)
                    && !lost.contains(&index)
                    && (cell.log_ratios.len() < LEAST_PAIRS
                        || effect(cell, &sources, &victims, bar, rng).size == Size::Unresolved)
            })
            .collect();
        if order.is_empty() && pass % EXPENSIVE_EVERY == 0 {
            break;
        }
        order.shuffle(rng);
        for index in order {
            session.check()?;
            if session.left().is_zero() {
                break;
            }
            let cell = &mut cells[index];
            let (source, victim) = (&mut sources[cell.source], &mut victims[cell.victim]);
            let what = format!("{} on {}", resource(source), resource(victim));
            progress(session.spent(), &what);
            match visit(session, source, victim, slices, rng) {
                Ok(ratios) => cell.log_ratios.extend(ratios),
                // Without its workers a source has no more cells.
                Err(_) if session.interrupted() => session.check()?,
                Err(_) => lost.push(index),
            }
        }
        if session.left().is_zero() {
            break;
        }
    }
    Ok(cells
        .iter()
        .filter(|cell| !cell.log_ratios.is_empty())
        .map(|cell| effect(cell, &sources, &victims, bar, rng))
        .collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// On the target's CPU, as fast as it can.
    Victim,
    /// Where it runs beside a target on that CPU.
    Source,
}

/// Starts all sources in a role; those that cannot are left out: the report
/// says why where it speaks of them.
fn parties(session: &Session<'_>, slices: Slices, role: Role) -> Result<Vec<WorkerGroup>> {
    let mut parties = Vec::new();
    for &resource in &session.request.resources {
        session.check()?;
        let limits = session.limits();
        let target = [session.target];
        let planned = match role {
            Role::Victim if resource.row().domain == Domain::LogicalCpu => continue,
            Role::Victim => plan_alone(session.machine, resource, Some(&target), &limits, slices),
            Role::Source => plan(session.machine, resource, &target, &limits, slices),
        };
        let Ok(plan) = planned else { continue };
        let Ok(mut group) = WorkerGroup::spawn(session.bounded(plan), READY) else {
            continue;
        };
        if group.calibrate_peak(resource.row().timing.peak).is_ok() {
            parties.push(group);
        }
    }
    Ok(parties)
}

/// Pairs of placebo and treatment, in random order, while the victim runs
/// at full strength.
fn visit(
    session: &Session<'_>,
    source: &mut WorkerGroup,
    victim: &mut WorkerGroup,
    slices: Slices,
    rng: &mut ChaCha8Rng,
) -> std::result::Result<Vec<f64>, WorkerError> {
    let period = Duration::from_nanos(slices.period_ns);
    // The victim goes on as it is; only the source has to find its state.
    let [timing, victims] = [&*source, &*victim].map(|group| resource(group).row().timing);
    let settle = timing.settle.min(LONGEST_SETTLE);
    let settle = settle.max(SHORTEST_SETTLE).max(period * 4);
    let (longest, rounds) = match session.request.quick {
        true => (QUICK_WINDOW.max(period * 10), 1),
        false => (LONGEST_WINDOW, ROUNDS),
    };
    let window = timing.window.max(victims.window).min(longest);
    let stop = || session.interrupted();
    let command = victim.set(Order::Treat(100.0));
    let outcome = victim
        .wait_applied(command, PATIENCE, &stop)
        .and_then(|()| {
            let mut read = |order| -> std::result::Result<f64, WorkerError> {
                let command = source.set(order);
                source.wait_applied(command, PATIENCE, &stop)?;
                sleep(settle);
                let from = victim.snapshot();
                sleep(window);
                let to = victim.snapshot();
                victim.check_exits()?;
                source.check_exits()?;
                Ok(performance(victim, &from, &to))
            };
            let (placebo, treatment) = (Order::Control, Order::Treat(100.0));
            let mut ratios: Vec<f64> = Vec::new();
            for _ in 0..rounds {
                // One pair each way round, so that a drift cancels.
                let first = rng.random::<bool>();
                let (outer, inner) = match first {
                    true => (placebo, treatment),
                    false => (treatment, placebo),
                };
                let speeds = [read(outer)?, read(inner)?, read(inner)?, read(outer)?];
                ratios.extend([(0, 1), (3, 2)].map(|(a, b)| match first {
                    true => (speeds[b] / speeds[a]).ln(),
                    false => (speeds[a] / speeds[b]).ln(),
                }));
            }
            ratios.retain(|ratio| ratio.is_finite());
            Ok(ratios)
        });
    source.set(Order::Park);
    victim.set(Order::Park);
    outcome
}

/// What a victim gets done: its operations per second; of one that mostly
/// rests, per second at work.
fn performance(group: &WorkerGroup, from: &Snapshot, to: &Snapshot) -> f64 {
    let spec = group.plan.spec;
    let operations = (to.operations - from.operations) as f64;
    let clock = match spec.pause_ns > 0 && spec.intensity() == Intensity::Footprint {
        true => to.active_ns - from.active_ns,
        false => to.at_ns - from.at_ns,
    };
    operations / clock.max(1) as f64
}

fn effect(
    cell: &Cell,
    sources: &[WorkerGroup],
    victims: &[WorkerGroup],
    bar: f64,
    rng: &mut ChaCha8Rng,
) -> Effect {
    let bootstrap = Bootstrap::of(&cell.log_ratios, RESAMPLES, rng);
    let lost = |log_ratio: f64| (1.0 - log_ratio.exp()) * 100.0;
    let [low, high] = bootstrap.interval95();
    let ci95 = [lost(high), lost(low)];
    let source = resource(&sources[cell.source]);
    let victim = resource(&victims[cell.victim]);
    // Two pairs may agree by chance.
    let size = match cell.log_ratios.len() >= VERDICT_PAIRS {
        true => size(ci95, bar),
        false => Size::Unresolved,
    };
    Effect {
        source: source.to_string(),
        victim: victim.to_string(),
        pairs: cell.log_ratios.len(),
        loss_percent: lost(bootstrap.location),
        ci95,
        size,
        explanation: (source != victim && size != Size::Small)
            .then(|| source.explains_cost_to(victim).map(str::to_string))
            .flatten(),
    }
}

/// Judges an interval of a loss, percent, by the bar.
fn size(ci95: [f64; 2], bar: f64) -> Size {
    match ci95 {
        [low, high] if low > -bar && high < bar => Size::Small,
        [low, high] if low >= bar || high <= -bar => Size::Large,
        _ => Size::Unresolved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_decides() {
        assert_eq!(size([-1.0, 4.9], 5.0), Size::Small);
        assert_eq!(size([5.0, 9.0], 5.0), Size::Large);
        assert_eq!(size([-20.0, -6.0], 5.0), Size::Large, "a gain is an effect");
        assert_eq!(size([3.0, 7.0], 5.0), Size::Unresolved);
        assert_eq!(size([-30.0, 2.0], 5.0), Size::Unresolved);
    }
}
