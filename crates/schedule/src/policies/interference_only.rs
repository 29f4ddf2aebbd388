//! Paragon without its step on platforms.

use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::Deciding;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use crate::search::greedy::Greedy;
use crate::search::greedy::Search;
use crate::search::greedy::deciding;
use crate::search::greedy::describe_fit;

/// [`Paragon`](crate::Paragon) that does not look at platforms (the baseline
/// NH, "no heterogeneity", of its evaluation): D1 ≥ 0, D2 ≥ 0, the same giving
/// up, then the least ‖D1 + D2‖₁.
#[derive(Clone, Debug, Default)]
pub struct InterferenceOnly {
    search: Search,
}

impl InterferenceOnly {
    pub fn new(options: Greedy) -> Self {
        InterferenceOnly {
            search: Search::new(options),
        }
    }
}

impl Policy for InterferenceOnly {
    fn name(&self) -> &'static str {
        "interference-only"
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        self.search.run(request, cluster, false)
    }

    fn why(&self, request: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        deciding(request, cluster, choice, false)
    }

    fn runner_up(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        describe_fit(request.app, cluster, node)
    }
}
