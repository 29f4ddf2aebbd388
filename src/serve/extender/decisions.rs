//! What was decided, and why; the last thousand are kept.

use serde::Serialize;
use std::collections::VecDeque;

/// Decisions that are kept.
const MOST: usize = 1000;
/// Reasons that are kept of each.
const MOST_REASONS: usize = 5;

/// What the scheduler asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    #[default]
    Filter,
    Prioritize,
}

impl Verb {
    pub fn name(self) -> &'static str {
        match self {
            Verb::Filter => "filter",
            Verb::Prioritize => "prioritize",
        }
    }
}

/// One answer to the scheduler.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Decision {
    /// Ascending since the start.
    pub id: u64,
    /// RFC 3339, UTC.
    pub at: String,
    pub verb: Verb,
    /// `NAMESPACE/NAME`.
    pub pod: String,
    /// As its annotation says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    pub profiles_version: String,
    /// How many were offered, and of how many nothing is known.
    pub nodes: usize,
    pub unknown_nodes: usize,
    pub refused: usize,
    /// The one with the best score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Expected performance of the pod there, fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_performance: Option<f64>,
    /// The resource that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    pub why: String,
    pub reasons: Vec<NodeReason>,
    /// Time since the API server was heard of; absent before the first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server_age_seconds: Option<f64>,
    pub took_seconds: f64,
}

/// What is said of one node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeReason {
    pub node: String,
    pub why: String,
}

impl Decision {
    /// Keeps the first few.
    pub fn reason(&mut self, node: &str, why: &str) {
        if self.reasons.len() < MOST_REASONS {
            self.reasons.push(NodeReason {
                node: node.into(),
                why: why.into(),
            });
        }
    }
}

/// The newest decisions.
#[derive(Default)]
pub struct Decisions {
    kept: VecDeque<Decision>,
    last: u64,
}

impl Decisions {
    pub fn add(&mut self, mut decision: Decision) {
        self.last += 1;
        decision.id = self.last;
        let Decision { pod, node, why, .. } = &decision;
        let (verb, refused) = (decision.verb.name(), decision.refused);
        match node {
            Some(node) => tracing::info!("{verb} {pod}: best on {node}: {why}"),
            None => tracing::info!(refused, "{verb} {pod}: {why}"),
        }
        self.kept.push_back(decision);
        if self.kept.len() > MOST {
            self.kept.pop_front();
        }
    }

    /// Those after number `after`, oldest first.
    pub fn after(&self, after: u64) -> Vec<Decision> {
        let newer = self.kept.iter().filter(|it| it.id > after);
        newer.cloned().collect()
    }
}
