//! One source by itself: does it do what it is asked?

use super::READY;
use super::Session;
use super::line;
use super::report::Level;
use super::report::Linearity;
use super::report::Strength;
use crate::error::Error;
use crate::error::Result;
use crate::warning::Warning;
use jostle_host::inject::WorkerError;
use jostle_host::inject::WorkerGroup;
use jostle_host::inject::peak::find_peak;
use jostle_host::inject::plan::plan_alone;
use jostle_host::inject::worker::Slices;
use jostle_host::sys::control_page::Order;
use jostle_profile::resource::Intensity;
use jostle_profile::resource::Resource;
use jostle_profile::resource::SwitchCost;
use jostle_statistics::median;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use std::thread::sleep;
use std::time::Duration;

/// Of each level. A median of three is a neighbour's as soon as it meets two.
pub(super) const REPETITIONS: usize = 5;
const QUICK_REPETITIONS: usize = 3;
/// Longest wait for an intensity to be in force.
const PATIENCE: Duration = Duration::from_secs(20);
/// Alone there is no target whose caches must find their state.
const LONGEST_SETTLE: Duration = Duration::from_millis(80);
/// Parts of a window.
const PARTS: u32 = 5;
const LONGEST_WINDOW: Duration = Duration::from_millis(250);
const SHORTEST_WINDOW: Duration = Duration::from_millis(25);

pub(super) type Measured = std::result::Result<(Linearity, Strength), String>;

/// Linearity and strength of one source alone, in about `budget`.
pub(super) fn alone(
    session: &Session<'_>,
    resource: Resource,
    slices: Slices,
    budget: Duration,
    rng: &mut ChaCha8Rng,
) -> Result<Measured> {
    let limits = session.limits();
    let plan = match plan_alone(session.machine, resource, None, &limits, slices) {
        Ok(plan) => session.bounded(plan),
        Err(refusal) => return Ok(Err(refusal.reason().to_string())),
    };
    let timing = resource.row().timing;
    let calibration = session.request.calibration.as_ref();
    let started = WorkerGroup::spawn(plan, READY).and_then(|mut group| {
        let peak = find_peak(&mut group, calibration, timing.peak.max(budget / 10))?;
        Ok((group, peak))
    });
    let (mut group, peak) = match started {
        Ok(started) => started,
        Err(error) => return Ok(Err(error.into())),
    };
    let (step, repetitions) = match session.request.quick {
        true => (25.0, QUICK_REPETITIONS),
        false => (10.0, REPETITIONS),
    };
    let levels = levels(step);
    let order = order(levels.len(), repetitions, rng);
    let settle = timing.settle.min(LONGEST_SETTLE);
    let window = (budget.mul_f64(0.8) / order.len() as u32)
        .saturating_sub(settle)
        .clamp(SHORTEST_WINDOW, LONGEST_WINDOW);

    let mut achieved = vec![Vec::new(); levels.len()];
    let gauge = Gauge::of(&group);
    let basis = match (peak.calibrated, calibration) {
        (Some(true), Some(known)) => format!("peak calibrated {}", known.recorded_at),
        (Some(_), _) => "peak measured at the start".to_string(),
        (None, _) => full_scale_basis(resource).to_string(),
    };
    let Some(full_scale) = group.full_scale() else {
        return Ok(Err("what 100 % stands for is not known".into()));
    };
    for index in order {
        session.check()?;
        let stop = || session.interrupted();
        match gauge.read(&mut group, levels[index], settle, window, &stop) {
            Ok(value) => achieved[index].push(value / full_scale * 100.0),
            Err(WorkerError::Stopped) => {
                return Err(Error::Interrupted("; the sources are gone".into()));
            }
            Err(error) => return Ok(Err(error.to_string())),
        }
    }
    let row = resource.row();
    let mut linearity = linearity(&levels, achieved, row.measured_by);
    let full = linearity.levels.last();
    let percent = full.map_or(f64::NAN, |level| level.median_percent);
    let strength = Strength {
        achieved: percent / 100.0 * full_scale,
        full_scale,
        unit: row.pressure_unit.to_string(),
        percent,
        basis,
    };
    linearity.remark = (peak.change).map(|change| Warning::from(change).to_string());
    Ok(Ok((linearity, strength)))
}

/// Intensities from 0 to 100, `step` apart.
pub(super) fn levels(step: f64) -> Vec<f64> {
    (0..)
        .map(|index| f64::from(index) * step)
        .take_while(|level| *level <= 100.0)
        .collect()
}

/// Indices of `count` levels in random order, each `repetitions` times.
pub(super) fn order(count: usize, repetitions: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..repetitions).flat_map(|_| 0..count).collect();
    order.shuffle(rng);
    order
}

/// Judges `achieved`, percent, per level and repetition.
pub(super) fn linearity(levels: &[f64], achieved: Vec<Vec<f64>>, measured_by: &str) -> Linearity {
    let levels: Vec<Level> = levels
        .iter()
        .zip(achieved)
        .map(|(&intensity_percent, achieved_percent)| Level {
            intensity_percent,
            median_percent: median(&mut achieved_percent.clone()),
            achieved_percent,
        })
        .collect();
    let medians: Vec<(f64, f64)> = levels
        .iter()
        .map(|level| (level.intensity_percent, level.median_percent))
        .collect();
    let mut spreads: Vec<f64> = levels.iter().map(spread).collect();
    let line = line::fit(&medians);
    Linearity {
        measured_by: measured_by.to_string(),
        levels,
        r_squared: line.r_squared,
        slope: line.slope,
        worst_deviation_points: line.worst,
        worst_at_percent: line.worst_at,
        repeat_spread_points: median(&mut spreads),
        remark: None,
    }
}

/// Largest − smallest repetition.
fn spread(level: &Level) -> f64 {
    let values = || level.achieved_percent.iter().copied();
    values().fold(f64::NEG_INFINITY, f64::max) - values().fold(f64::INFINITY, f64::min)
}

/// Where the full scale of a source without a peak comes from.
fn full_scale_basis(resource: Resource) -> &'static str {
    let row = resource.row();
    match (row.intensity, row.switch_cost) {
        (Intensity::Share, _) => "all of the CPU's time",
        (_, SwitchCost::FillsMemory) => "memory it was given",
        _ => "size of its structure",
    }
}

/// How what a source achieves is learned: by the group's own pressure, which is
/// operations or CPU time over the window, or what the source says it holds; for
/// one that fills memory by what the kernel says is resident.
struct Gauge {
    /// The worker, and the bytes that it needs itself.
    resident: Option<(u32, f64)>,
}

impl Gauge {
    fn of(group: &WorkerGroup) -> Gauge {
        let fills = group.plan.spec.resource.row().switch_cost == SwitchCost::FillsMemory;
        let pid = group.pids().first().copied().unwrap_or(0);
        let resident = fills.then(|| (pid, resident_bytes(pid).unwrap_or(0.0)));
        Gauge { resident }
    }

    /// Sets `level`, waits, and reads what is achieved, in the resource's unit.
    fn read(
        &self,
        group: &mut WorkerGroup,
        level: f64,
        settle: Duration,
        window: Duration,
        stop: &dyn Fn() -> bool,
    ) -> std::result::Result<f64, WorkerError> {
        let command = group.set(Order::Treat(level));
        group.wait_applied(command, PATIENCE, stop)?;
        sleep(settle);
        // The middle of several parts: a neighbour that takes the CPU or the
        // memory for some milliseconds is no property of the dial.
        let mut parts = Vec::new();
        let mut from = group.snapshot();
        for _ in 0..PARTS {
            sleep(window / PARTS);
            let to = group.snapshot();
            parts.push(group.pressure(&from, &to));
            from = to;
        }
        group.check_exits()?;
        match self.resident {
            Some((pid, idle_bytes)) => Ok((resident_bytes(pid)? - idle_bytes).max(0.0)),
            None => Ok(median(&mut parts)),
        }
    }
}

/// Resident set of a process, bytes.
fn resident_bytes(pid: u32) -> std::result::Result<f64, String> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))
        .and_then(|kilobytes| kilobytes.parse::<f64>().ok())
        .map(|kilobytes| kilobytes * 1024.0)
        .ok_or_else(|| format!("{path}: no readable VmRSS"))
}
