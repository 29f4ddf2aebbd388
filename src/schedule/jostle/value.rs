//! What a place is worth to an application, and what it costs the others.

use super::node_view::View;
use crate::predict::Expected;
use crate::predict::LANES;
use crate::predict::LaneSet;
use crate::predict::Lanes;
use crate::predict::Responses;
use crate::predict::performance;
use crate::schedule::App;
use crate::schedule::Cluster;
use crate::schedule::NodeId;
use crate::schedule::PlatformId;
use crate::schedule::ResidentId;
use crate::schedule::Row;

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
pub struct Valued {
    pub value: f32,
    /// Fraction of its undisturbed performance on its best platform.
    pub performance: f32,
    /// It is more likely than not to keep its QoS.
    pub keeps: bool,
}

/// ln of the speed of `app` on `platform` over its best; 0 where not known.
#[inline]
pub fn platform_ln(app: &App, platform: PlatformId) -> f32 {
    match (app.speed_on(platform), app.best_speed()) {
        (Some(here), Some(best)) if here > 0.0 => (here / best).ln().min(0.0),
        _ => 0.0,
    }
}

#[inline]
pub fn valued(app: &App, ln_platform: f32, expected: Expected, weights: &Weights) -> Valued {
    let there = Expected {
        ln: expected.ln + ln_platform,
        variance: expected.variance + weights.unexplained,
    };
    let performance = there.ln.exp();
    let chance = there.chance_of(app.qos().ln());
    Valued {
        value: performance + weights.qos * chance,
        performance,
        keeps: chance >= 0.5,
    }
}

const POINTS: f32 = 1.0 / crate::schedule::STEPS_PER_POINT as f32;

/// The pressure of everybody on the node of `row`, in points.
#[inline]
pub fn pressure(row: &Row) -> Lanes<f32> {
    std::array::from_fn(|lane| row.caused[lane] as f32 * POINTS)
}

/// The newcomer beside those who are there.
#[inline]
pub fn newcomer(app: &App, row: &Row, view: &View, weights: &Weights) -> Valued {
    let counted = app.counted(row.shares_cpus);
    let expected = performance(app.responses(), &pressure(row), &view.uncertainty, counted);
    valued(app, platform_ln(app, row.platform), expected, weights)
}

/// What the newcomer's coming costs.
#[derive(Clone, Copy, Debug)]
pub struct There {
    /// Value lost by the residents, 0 or more.
    pub harm: f32,
    /// Performance lost by the residents together.
    pub lost: f32,
    /// The newcomer's own performance.
    pub performance: f32,
    /// Somebody who was to keep its QoS is then expected to lose it.
    pub breaks: bool,
}

/// `app` on `node`, beside all who are there.
pub fn on_node(
    app: &App,
    cluster: &Cluster,
    node: NodeId,
    view: &View,
    weights: &Weights,
) -> There {
    let row = cluster.row(node);
    let own = newcomer(app, row, view, weights);
    let mut there = There {
        harm: 0.0,
        lost: 0.0,
        performance: own.performance,
        breaks: !own.keeps,
    };
    let added = app.caused_known().and(app.counted(row.shares_cpus));
    if row.residents == 0 || added.is_empty() {
        return there;
    }
    let mut with = pressure(row);
    let mut uncertainty = view.uncertainty;
    for lane in added.iter() {
        with[lane] += app.caused()[lane] as f32 * POINTS;
        let sd = app.responses().caused_sd()[lane];
        uncertainty[lane] += sd * sd;
    }
    for ((_, resident), before) in cluster.residents(node).zip(&view.residents) {
        let after = resident_under(&resident.app, row, &with, &uncertainty, weights);
        there.harm += (before.value - after.value).max(0.0);
        there.lost += (before.performance - after.performance).max(0.0);
        there.breaks |= before.keeps && !after.keeps;
    }
    there
}

/// A resident under the pressure of all, its own part taken out.
#[inline]
pub fn resident_under(
    app: &App,
    row: &Row,
    all: &Lanes<f32>,
    uncertainty: &Lanes<f32>,
    weights: &Weights,
) -> Valued {
    let counted = app.counted(row.shares_cpus);
    let expected = beside(app, app.responses(), all, uncertainty, counted);
    valued(app, platform_ln(app, row.platform), expected, weights)
}

#[inline]
pub fn beside(
    app: &App,
    responses: &Responses,
    all: &Lanes<f32>,
    uncertainty: &Lanes<f32>,
    counted: LaneSet,
) -> Expected {
    let mut others = [0.0; LANES];
    let mut doubt = [0.0; LANES];
    for lane in 0..LANES {
        let sd = responses.caused_sd()[lane];
        others[lane] = (all[lane] - app.caused()[lane] as f32 * POINTS).max(0.0);
        doubt[lane] = (uncertainty[lane] - sd * sd).max(0.0);
    }
    performance(responses, &others, &doubt, counted)
}

/// Performance that its leaving would cost: its own, less what its neighbours
/// gain.
pub fn leaving(id: ResidentId, cluster: &Cluster, weights: &Weights) -> f32 {
    let Some(resident) = cluster.resident(id) else {
        return 0.0;
    };
    let row = cluster.row(resident.node);
    let view = View::of(resident.node, cluster, weights);
    let mut without = pressure(row);
    let mut uncertainty = view.uncertainty;
    let app = &resident.app;
    for lane in app.caused_known().and(app.counted(row.shares_cpus)).iter() {
        without[lane] -= app.caused()[lane] as f32 * POINTS;
        let sd = app.responses().caused_sd()[lane];
        uncertainty[lane] = (uncertainty[lane] - sd * sd).max(0.0);
    }
    let mut sum = 0.0;
    for ((other, neighbour), before) in cluster.residents(resident.node).zip(&view.residents) {
        sum += match other == id {
            true => before.performance,
            false => {
                let after = resident_under(&neighbour.app, row, &without, &uncertainty, weights);
                before.performance - after.performance
            }
        };
    }
    sum
}
