//! Draws by which equal seeds give equal runs.

use rand::Rng;
use rand::RngExt;

/// A draw of the normal distribution (Box and Muller's transformation).
pub(crate) fn standard_normal(rng: &mut impl Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}
