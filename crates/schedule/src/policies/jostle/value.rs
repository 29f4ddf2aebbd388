//! What a place is worth to an application, and what it costs the others.

use crate::app::App;
use crate::cluster::summary::NodeSummary;
use crate::predict::Expected;
use crate::predict::LANES;
use crate::predict::LaneSet;
use crate::predict::Lanes;
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
        keeps: chance >= 0.5,
        steepness: performance
            + weights.qos * 1.702 * chance * (1.0 - chance) / (there.variance + 1e-8).sqrt(),
    }
}

pub(super) const POINTS: f32 = 1.0 / crate::app::STEPS_PER_POINT as f32;

/// The pressure of everybody on the node of `row`, in points.
#[inline]
pub fn pressure(summary: &NodeSummary) -> Lanes<f32> {
    std::array::from_fn(|lane| summary.caused[lane] as f32 * POINTS)
}

/// A resident under the pressure of all, its own part taken out.
#[inline]
pub fn resident_under(
    app: &App,
    summary: &NodeSummary,
    all: &Lanes<f32>,
    uncertainty: &Lanes<f32>,
    weights: &Weights,
) -> ResidentValue {
    let counted = app.counted(summary.shares_cpus);
    let expected = beside(app, all, uncertainty, counted);
    valued(app, app.platform_ln(summary.platform), expected, weights)
}

#[inline]
pub fn beside(app: &App, all: &Lanes<f32>, uncertainty: &Lanes<f32>, counted: LaneSet) -> Expected {
    let mut others = [0.0; LANES];
    let mut doubt = [0.0; LANES];
    for lane in 0..LANES {
        let sd = app.responses.caused_sd[lane];
        others[lane] = (all[lane] - app.caused[lane] as f32 * POINTS).max(0.0);
        doubt[lane] = (uncertainty[lane] - sd * sd).max(0.0);
    }
    performance(&app.responses, &others, &doubt, counted)
}
