//! The one function that says what pressure costs.

use super::lanes::LaneSet;
use super::lanes::Lanes;
use super::responses::Responses;

/// What is believed of a performance: the logarithm of the fraction of the
/// undisturbed level, and its variance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expected {
    pub ln: f32,
    pub variance: f32,
}

impl Expected {
    /// Fraction of the undisturbed performance, 0–1.
    pub fn performance(self) -> f64 {
        f64::from(self.ln).exp()
    }

    /// 95 % interval of the same, within 0–1.
    pub fn ci95(self) -> [f64; 2] {
        let half = 1.96 * f64::from(self.variance).sqrt();
        let ln = f64::from(self.ln);
        [(ln - half).exp(), (ln + half).exp().min(1.0)]
    }

    /// Chance that performance is at least `threshold` (fraction), by a
    /// logistic stand-in for the normal distribution function
    /// (Φ(z) ≈ 1/(1 + e^(−1.702 z)), within 0.0095).
    pub fn chance_of(self, threshold_ln: f32) -> f32 {
        let z = (self.ln - threshold_ln) / (self.variance + 1e-8).sqrt();
        1.0 / (1.0 + (-1.702 * z).exp())
    }
}

/// Performance under `pressure`: the product over the `counted` resources of
/// the sensitivity curve at that pressure, held within 100 points.
///
/// `pressure` and its variance `uncertainty` are per resource, in points and
/// squared points: the sum of what everybody else causes. Every prediction of
/// this library comes through here.
#[inline]
pub fn performance(
    responses: &Responses,
    pressure: &Lanes<f32>,
    uncertainty: &Lanes<f32>,
    counted: LaneSet,
) -> Expected {
    let mut expected = Expected::default();
    for curve in &responses.curves {
        let lane = curve.lane();
        if counted.contains(lane) {
            let (ln, variance, slope) = curve.at(pressure[lane]);
            expected.ln += ln;
            expected.variance += variance + slope * slope * uncertainty[lane];
        }
    }
    expected
}
