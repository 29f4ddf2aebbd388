//! What a place is worth to an application, and what it costs the others.

use crate::app::App;
use crate::cluster::summary::NodeSummary;
use crate::predict::Company;
use crate::predict::Expected;
use crate::predict::performance;

/// What counts how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// The chance to keep the QoS, beside performance.
    pub qos: f32,
    /// Variance of ln performance that no profile explains: pairs differ from
    /// what their curves say.
    pub unexplained: f32,
}

impl Default for Weights {
    fn default() -> Self {
        Weights {
            qos: 1.0,
            unexplained: 0.02 * 0.02,
        }
    }
}

/// An application at one place.
#[derive(Clone, Copy, Debug)]
pub struct ResidentValue {
    pub value: f32,
    /// Fraction of its undisturbed performance on its best platform.
    pub performance: f32,
    /// Chance to keep its QoS.
    pub chance: f32,
    /// It is more likely than not to keep its QoS.
    pub keeps: bool,
    /// Change of value with ln performance.
    pub steepness: f32,
}

#[inline]
pub fn valued(app: &App, ln_platform: f32, expected: Expected, weights: &Weights) -> ResidentValue {
    let there = Expected {
        ln: expected.ln + ln_platform,
        variance: expected.variance + weights.unexplained,
    };
    let performance = there.quick_performance();
    let chance = there.chance_of(app.qos_ln);
    ResidentValue {
        value: performance + weights.qos * chance,
        performance,
        chance,
        keeps: chance >= 0.5,
        steepness: performance
            + weights.qos * 1.702 * chance * (1.0 - chance) / (there.variance + 1e-8).sqrt(),
    }
}

/// A resident of the node of `summary` among `company`, which it is one of.
#[inline]
pub fn resident_among(
    app: &App,
    summary: &NodeSummary,
    company: &Company,
    weights: &Weights,
) -> ResidentValue {
    let counted = app.counted(summary.shares_cpus);
    let pressure = company.around(&app.responses, counted);
    let expected = performance(&app.responses, &pressure, counted);
    valued(app, app.platform_ln(summary.platform), expected, weights)
}
