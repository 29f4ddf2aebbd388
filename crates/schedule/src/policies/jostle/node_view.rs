//! What is worked out once for a node and holds until it changes.

use super::typical::Typical;
use super::value::Valued;
use super::value::Weights;
use super::value::pressure;
use super::value::resident_under;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::predict::LANES;
use crate::predict::Lanes;

/// A node as it is now.
#[derive(Clone, Debug, Default)]
pub struct View {
    version: u32,
    epoch: u32,
    /// Variance of the pressure of all residents together, squared points.
    pub uncertainty: Lanes<f32>,
    /// The residents in the order of [`Cluster::residents`].
    pub residents: Vec<Valued>,
    /// Value that the residents together lose for each further point of
    /// pressure, taken over the next [`STEP`] points.
    pub harm: Lanes<f32>,
    /// What recent newcomers would have there on average.
    pub typical: f32,
}

/// Points of pressure over which the harm of a little more is taken.
const STEP: f32 = 10.0;

impl View {
    pub fn of(node: NodeId, cluster: &Cluster, weights: &Weights) -> Self {
        let row = cluster.row(node);
        let all = pressure(row);
        let mut view = View {
            version: row.version,
            ..View::default()
        };
        for (_, resident) in cluster.residents(node) {
            let app = &resident.app;
            let counted = app.counted(row.shares_cpus);
            for lane in 0..LANES {
                let sd = match counted.contains(lane) {
                    true => app.responses().caused_sd()[lane],
                    false => 0.0,
                };
                view.uncertainty[lane] += sd * sd;
            }
        }
        for (_, resident) in cluster.residents(node) {
            let app = &resident.app;
            let now = resident_under(app, row, &all, &view.uncertainty, weights);
            let counted = app.counted(row.shares_cpus);
            for curve in app.responses().curves() {
                let lane = curve.lane();
                if counted.contains(lane) {
                    let others = all[lane] - app.responses().caused()[lane];
                    let lost = curve.at(others).0 - curve.at(others + STEP).0;
                    view.harm[lane] += now.steepness * lost / STEP;
                }
            }
            view.residents.push(now);
        }
        view
    }
}

/// The views of one cluster, brought up to date when asked for.
#[derive(Clone, Debug, Default)]
pub struct Views {
    views: Vec<Option<Box<View>>>,
}

impl Views {
    /// The view of `node`, made anew when it or what is typical has changed.
    pub fn of(
        &mut self,
        node: NodeId,
        cluster: &Cluster,
        weights: &Weights,
        typical: &Typical,
    ) -> &View {
        if node.index() >= self.views.len() {
            self.views.resize(cluster.len(), None);
        }
        let slot = &mut self.views[node.index()];
        let version = cluster.row(node).version;
        if slot.as_ref().is_none_or(|view| view.version != version) {
            let mut view = View::of(node, cluster, weights);
            view.typical = typical.at(cluster.row(node), &view, weights);
            view.epoch = typical.epoch();
            *slot = Some(Box::new(view));
        }
        let view = slot.get_or_insert_with(Box::default);
        if view.epoch != typical.epoch() {
            view.typical = typical.at(cluster.row(node), view, weights);
            view.epoch = typical.epoch();
        }
        view
    }

    /// The view of a node that was asked for in this decision.
    pub fn get(&self, node: NodeId) -> &View {
        static NONE: std::sync::LazyLock<View> = std::sync::LazyLock::new(View::default);
        match self.views.get(node.index()) {
            Some(Some(view)) => view,
            _ => &NONE,
        }
    }
}
