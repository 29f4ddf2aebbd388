//! What a node is worth to a newcomer, and what its coming costs the residents.

use super::node_view::NodeView;
use super::value::POINTS;
use super::value::ResidentValue;
use super::value::Weights;
use super::value::pressure;
use super::value::resident_under;
use super::value::valued;
use crate::app::App;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::cluster::ResidentId;
use crate::cluster::summary::NodeSummary;
use crate::predict::GRID;
use crate::predict::GRID_STEP;
use crate::predict::LANES;
use crate::predict::Lanes;
use crate::predict::performance;
use crate::predict::quick_exp;

/// An application's curves as straight lines from a knee on: what screening
/// many nodes makes do with.
#[derive(Clone, Debug)]
pub struct LinearScreen {
    knee: Lanes<f32>,
    /// ln performance lost per point beyond the knee.
    slope: Lanes<f32>,
    caused: Lanes<f32>,
}

/// Where a curve has lost so much in ln is its knee.
const KNEE_LOSS: f32 = 0.02;

impl LinearScreen {
    pub fn of(app: &App) -> Self {
        let mut hinges = LinearScreen {
            knee: [100.0; LANES],
            slope: [0.0; LANES],
            caused: std::array::from_fn(|lane| app.caused[lane] as f32 * POINTS),
        };
        for curve in &app.responses.curves {
            let (lane, whole) = (curve.lane(), -curve.at(100.0).0);
            let before = (0..GRID)
                .map(|step| step as f32 * GRID_STEP)
                .take_while(|points| -curve.at(*points).0 <= KNEE_LOSS)
                .last()
                .unwrap_or(0.0)
                .min(96.0);
            let lost = -curve.at(before).0;
            hinges.knee[lane] = before;
            hinges.slope[lane] = (whole - lost) / (100.0 - before);
        }
        hinges
    }

    /// About what the newcomer gets on the node of `row`, and takes from those
    /// there.
    #[inline]
    pub fn screen(&self, summary: &NodeSummary, view: &NodeView) -> (f32, f32) {
        let (mut ln, mut harm) = (0.0f32, 0.0f32);
        for lane in 0..LANES {
            let pressure = (summary.caused[lane] as f32 * POINTS).min(100.0);
            ln -= self.slope[lane] * (pressure - self.knee[lane]).max(0.0);
            harm += self.caused[lane] * view.harm[lane];
        }
        (ln, harm)
    }
}

/// Value by [`LinearScreen::screen`] alone: performance, and the QoS as a slope
/// around its line.
#[inline]
pub fn screened_value(app: &App, summary: &NodeSummary, ln: f32, weights: &Weights) -> f32 {
    let ln = ln + app.platform_ln(summary.platform);
    let chance = (0.5 + (ln - app.qos_ln) * 8.0).clamp(0.0, 1.0);
    quick_exp(ln) + weights.qos * chance
}

/// The newcomer beside those who are there.
#[inline]
pub fn newcomer(
    app: &App,
    summary: &NodeSummary,
    view: &NodeView,
    weights: &Weights,
) -> ResidentValue {
    let counted = app.counted(summary.shares_cpus);
    let expected = performance(
        &app.responses,
        &pressure(summary),
        &view.uncertainty,
        counted,
    );
    valued(app, app.platform_ln(summary.platform), expected, weights)
}

/// What the newcomer's coming costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlacementValue {
    /// The newcomer's own value.
    pub own: f32,
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
    view: &NodeView,
    weights: &Weights,
) -> PlacementValue {
    let summary = cluster.summary(node);
    let own = newcomer(app, summary, view, weights);
    let mut there = PlacementValue {
        own: own.value,
        harm: 0.0,
        lost: 0.0,
        performance: own.performance,
        breaks: !own.keeps,
    };
    let added = app.caused_on(summary.shares_cpus);
    if summary.residents == 0 || added.is_empty() {
        return there;
    }
    let mut with = pressure(summary);
    let mut uncertainty = view.uncertainty;
    for lane in added.iter() {
        with[lane] += app.caused[lane] as f32 * POINTS;
        let sd = app.responses.caused_sd[lane];
        uncertainty[lane] += sd * sd;
    }
    for ((_, resident), before) in cluster.residents(node).zip(&view.residents) {
        let after = resident_under(&resident.app, summary, &with, &uncertainty, weights);
        there.harm += (before.value - after.value).max(0.0);
        there.lost += (before.performance - after.performance).max(0.0);
        there.breaks |= before.keeps && !after.keeps;
    }
    there
}

/// Performance that its leaving would cost: its own, less what its neighbours
/// gain.
pub fn leaving(id: ResidentId, cluster: &Cluster, weights: &Weights) -> f32 {
    let Some(resident) = cluster.resident(id) else {
        return 0.0;
    };
    let summary = cluster.summary(resident.node);
    let view = NodeView::of(resident.node, cluster, weights);
    let mut without = pressure(summary);
    let mut uncertainty = view.uncertainty;
    let app = &resident.app;
    for lane in app.caused_on(summary.shares_cpus).iter() {
        without[lane] -= app.caused[lane] as f32 * POINTS;
        let sd = app.responses.caused_sd[lane];
        uncertainty[lane] = (uncertainty[lane] - sd * sd).max(0.0);
    }
    let mut sum = 0.0;
    for ((other, neighbour), before) in cluster.residents(resident.node).zip(&view.residents) {
        sum += match other == id {
            true => before.performance,
            false => {
                let after =
                    resident_under(&neighbour.app, summary, &without, &uncertainty, weights);
                before.performance - after.performance
            }
        };
    }
    sum
}
