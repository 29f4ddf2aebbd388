//! What is worked out once for a node and holds until it changes.

use super::value::ResidentValue;
use super::value::Weights;
use super::value::resident_among;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::predict::Company;
use crate::predict::Lanes;

/// A node as it is now.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    pub(super) version: u32,
    pub(super) epoch: u32,
    /// All residents together.
    pub company: Company,
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
        let members = cluster.residents(node).map(|(_, resident)| {
            let app = &resident.app;
            (app.responses.as_ref(), app.counted(summary.shares_cpus))
        });
        let mut view = NodeView {
            version: summary.version,
            company: Company::of(members),
            ..NodeView::default()
        };
        for (_, resident) in cluster.residents(node) {
            let app = &resident.app;
            let now = resident_among(app, summary, &view.company, weights);
            let counted = app.counted(summary.shares_cpus);
            for curve in &app.responses.curves {
                let lane = curve.lane();
                if counted.contains(lane) {
                    let others = view.company.points()[lane] - app.responses.caused[lane];
                    let lost = curve.at(others).0 - curve.at(others + STEP).0;
                    view.harm[lane] += now.steepness * lost / STEP;
                }
            }
            view.residents.push(now);
        }
        view
    }
}
