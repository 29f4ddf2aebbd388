//! What is worked out once for a node and holds until it changes.

use super::value::ResidentValue;
use super::value::Weights;
use super::value::pressure;
use super::value::resident_under;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::predict::LANES;
use crate::predict::Lanes;

/// A node as it is now.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    pub(super) version: u32,
    pub(super) epoch: u32,
    /// Variance of the pressure of all residents together, squared points.
    pub uncertainty: Lanes<f32>,
    /// The residents in the order of [`Cluster::residents`].
    pub residents: Vec<ResidentValue>,
    /// Value that the residents together lose for each further point of
    /// pressure, taken over the next [`STEP`] points.
    pub harm: Lanes<f32>,
    /// What recent newcomers would have there on average.
    pub typical: f32,
}

/// Points of pressure over which the harm of a little more is taken.
const STEP: f32 = 10.0;

impl NodeView {
    pub fn of(node: NodeId, cluster: &Cluster, weights: &Weights) -> Self {
        let summary = cluster.summary(node);
        let all = pressure(summary);
        let mut view = NodeView {
            version: summary.version,
            ..NodeView::default()
        };
        for (_, resident) in cluster.residents(node) {
            let app = &resident.app;
            let counted = app.counted(summary.shares_cpus);
            for lane in 0..LANES {
                let sd = match counted.contains(lane) {
                    true => app.responses.caused_sd[lane],
                    false => 0.0,
                };
                view.uncertainty[lane] += sd * sd;
            }
        }
        for (_, resident) in cluster.residents(node) {
            let app = &resident.app;
            let now = resident_under(app, summary, &all, &view.uncertainty, weights);
            let counted = app.counted(summary.shares_cpus);
            for curve in &app.responses.curves {
                let lane = curve.lane();
                if counted.contains(lane) {
                    let others = all[lane] - app.responses.caused[lane];
                    let lost = curve.at(others).0 - curve.at(others + STEP).0;
                    view.harm[lane] += now.steepness * lost / STEP;
                }
            }
            view.residents.push(now);
        }
        view
    }
}
