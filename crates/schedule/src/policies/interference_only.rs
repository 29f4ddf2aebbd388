//! Paragon without its step on platforms.

use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::Deciding;
use crate::policy::Answer;
use crate::policy::Ask;
use crate::policy::Choice;
use crate::policy::Policy;
use crate::search::greedy::Greedy;
use crate::search::greedy::Search;
use crate::search::greedy::fit_in_words;
use crate::search::greedy::what_decided;

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

    fn choose(&mut self, ask: &Ask, cluster: &Cluster) -> Answer {
        self.search.run(ask, cluster, false)
    }

    fn why(&self, ask: &Ask, cluster: &Cluster, choice: &Choice) -> Deciding {
        what_decided(ask, cluster, choice, false)
    }

    fn runner_up(&self, ask: &Ask, cluster: &Cluster, node: NodeId) -> String {
        fit_in_words(ask.app, cluster, node)
    }
}
