//! Paragon's greedy server selection.

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

/// Keeps the nodes with D1 ≥ 0, resource by resource in the order of what the
/// application causes most, and of those with D2 ≥ 0, in the order of what it
/// tolerates least; of the nodes in both sets keeps the best platform type for
/// the application, interference before platform; and takes the least
/// ‖D1 + D2‖₁, the tightest fit that violates no QoS target (Paragon, section 3.3.2).
///
/// When no node is left, conditions are given up from the latest, least
/// important one backwards, one of D2 and one of D1 in turn, until one is.
/// [`Greedy`] says what else may be wanted then, and when to stop. Paragon does
/// not say whether D1 or D2 yields first.
///
/// A condition whose D is not known excludes no node. A platform on which the
/// application's speed is not known is kept beside the best. ‖D1 + D2‖₁ is
/// divided by the number of resources known in both directions; a node where
/// there are none comes last.
///
/// Takes O(nodes with room · resources), not O(nodes · resources²): each node
/// is looked at once, for where the giving up would have had to stop for it.
///
/// Without its step on platforms it is `interference-only`, the baseline NH
/// ("no heterogeneity") of Paragon's evaluation.
#[derive(Clone, Debug)]
pub struct Paragon {
    search: Search,
    by_platform: bool,
}

impl Default for Paragon {
    fn default() -> Self {
        Paragon::new(Greedy::default())
    }
}

impl Paragon {
    pub fn new(options: Greedy) -> Self {
        Paragon {
            search: Search::new(options),
            by_platform: true,
        }
    }

    /// The policy `interference-only`: does not look at platforms.
    pub fn without_platforms(options: Greedy) -> Self {
        Paragon {
            by_platform: false,
            ..Paragon::new(options)
        }
    }
}

impl Policy for Paragon {
    fn name(&self) -> &'static str {
        match self.by_platform {
            true => "paragon",
            false => "interference-only",
        }
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        self.search.run(request, cluster, self.by_platform)
    }

    fn why(&self, request: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        deciding(request, cluster, choice, self.by_platform)
    }

    fn runner_up(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        describe_fit(request.app, cluster, node)
    }
}
