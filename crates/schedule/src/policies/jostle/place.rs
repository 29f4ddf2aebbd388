//! What a node is worth to a newcomer, and what its coming costs the residents.

use super::node_view::NodeView;
use super::value::ResidentValue;
use super::value::Weights;
use super::value::resident_among;
use super::value::valued;
use crate::app::App;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::cluster::ResidentId;
use crate::cluster::summary::NodeSummary;
use crate::predict::Company;
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
            caused: app.responses.caused,
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

    /// About what the newcomer gets on the node of `view`, and takes from those
    /// there.
    #[inline]
    pub fn screen(&self, view: &NodeView) -> (f32, f32) {
        let (mut ln, mut harm) = (0.0f32, 0.0f32);
        for lane in 0..LANES {
            let pressure = view.company.points()[lane].min(100.0);
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
    let pressure = view.company.before(&app.responses, counted);
    let expected = performance(&app.responses, &pressure, counted);
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
    /// The least chance to keep the QoS, of the newcomer and of the residents that
    /// are to keep it now.
    pub least_chance: f32,
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
        least_chance: own.chance,
    };
    let counted = app.counted(summary.shares_cpus);
    if summary.residents == 0 || !app.responses.presses_on(counted) {
        return there;
    }
    let with = view.company.with(&app.responses, counted);
    for ((_, resident), before) in cluster.residents(node).zip(&view.residents) {
        let after = resident_among(&resident.app, summary, &with, weights);
        there.harm += (before.value - after.value).max(0.0);
        there.lost += (before.performance - after.performance).max(0.0);
        there.breaks |= before.keeps && !after.keeps;
        if before.keeps {
            there.least_chance = there.least_chance.min(after.chance);
        }
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
    let others = cluster.residents(resident.node);
    let others = others.filter(|(other, _)| *other != id);
    let without = Company::of(others.map(|(_, resident)| {
        let app = &resident.app;
        (app.responses.as_ref(), app.counted(summary.shares_cpus))
    }));
    let mut sum = 0.0;
    for ((other, neighbour), before) in cluster.residents(resident.node).zip(&view.residents) {
        sum += match other == id {
            true => before.performance,
            false => {
                let after = resident_among(&neighbour.app, summary, &without, weights);
                before.performance - after.performance
            }
        };
    }
    sum
}
