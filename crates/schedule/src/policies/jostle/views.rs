//! The views of all nodes, brought up to date when asked for.

use super::newcomers::RecentNewcomers;
use super::node_view::NodeView;
use super::value::Weights;
use crate::cluster::Cluster;
use crate::cluster::NodeId;

/// The views of one cluster, brought up to date when asked for.
#[derive(Clone, Debug, Default)]
pub struct NodeViews {
    views: Vec<Option<Box<NodeView>>>,
}

impl NodeViews {
    /// The view of `node`, made anew when it or what is typical has changed.
    pub fn of(
        &mut self,
        node: NodeId,
        cluster: &Cluster,
        weights: &Weights,
        typical: &RecentNewcomers,
    ) -> &NodeView {
        if node.index() >= self.views.len() {
            self.views.resize(cluster.len(), None);
        }
        let slot = &mut self.views[node.index()];
        let version = cluster.summary(node).version;
        if slot.as_ref().is_none_or(|view| view.version != version) {
            let mut view = NodeView::of(node, cluster, weights);
            view.typical = typical.at(cluster.summary(node), &view, weights);
            view.epoch = typical.epoch();
            *slot = Some(Box::new(view));
        }
        let view = slot.get_or_insert_with(Box::default);
        if view.epoch != typical.epoch() {
            view.typical = typical.at(cluster.summary(node), view, weights);
            view.epoch = typical.epoch();
        }
        view
    }

    /// The view of a node that was asked for in this decision.
    pub fn get(&self, node: NodeId) -> &NodeView {
        static NONE: std::sync::LazyLock<NodeView> = std::sync::LazyLock::new(NodeView::default);
        match self.views.get(node.index()) {
            Some(Some(view)) => view,
            _ => &NONE,
        }
    }
}
