//! Paragon without its step on platforms.

use super::Answer;
use super::Ask;
use super::Choice;
use super::Cluster;
use super::Deciding;
use super::NodeId;
use super::Policy;
use super::greedy::Greedy;
use super::greedy::Search;
use super::greedy::fit_in_words;
use super::greedy::what_decided;

/// [`Paragon`](super::Paragon) that does not look at platforms (the baseline
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
