//! Sums in whole steps: what was added is taken away exactly.

use crate::truth::Truth;

/// Pressure is summed in whole steps, so that a job which leaves takes away
/// exactly what it brought.
const STEPS: f64 = 1024.0;

/// More than this no application causes; a thousand such make a sum that fits.
const MOST_POINTS: f64 = 1000.0;

/// Likewise residuals (ln performance).
pub(super) const RESIDUAL_STEPS: f32 = 16_777_216.0;

pub(super) fn to_steps(points: f64) -> i32 {
    (points.clamp(0.0, MOST_POINTS) * STEPS).round() as i32
}

pub(super) fn points(steps: i32) -> f32 {
    (f64::from(steps) / STEPS) as f32
}

pub(super) fn residual_steps(truth: &Truth, app: u32, other: u32) -> i64 {
    (truth.residual(app, other) * RESIDUAL_STEPS) as i64
}
