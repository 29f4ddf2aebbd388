//! What a policy answers.

use crate::compare::Comparison;
use serde::Serialize;
use thiserror::Error;

/// Which of the two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Direction {
    /// Do the residents tolerate the newcomer?
    D1,
    /// Does the newcomer tolerate the residents?
    D2,
}

/// What tipped the balance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Deciding {
    /// Resource id, `cpus`, `memory` or `platform`; absent when nothing told nodes apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    pub why: String,
}

impl Deciding {
    /// `resource` decided.
    pub fn by(resource: &str, why: impl Into<String>) -> Self {
        Deciding {
            resource: Some(resource.into()),
            why: why.into(),
        }
    }

    /// No single resource did.
    pub fn because(why: impl Into<String>) -> Self {
        Deciding {
            resource: None,
            why: why.into(),
        }
    }
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A condition that no node met together with the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Relaxed {
    pub resource: String,
    #[serde(rename = "side")]
    pub direction: Direction,
    /// By how many points the chosen node misses it.
    pub shortfall: f64,
}

/// A node, and why it was not the one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeReason {
    pub node: String,
    pub why: String,
}

/// A share of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartReason {
    pub node: String,
    pub cpus: u32,
}

/// The size that was chosen for a speed that was wanted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeReason {
    /// Speed wanted, as a multiple of that on one CPU.
    pub target: f64,
    /// CPUs, of all parts together.
    pub cpus: u32,
    pub nodes: u32,
    /// Speed that the curve gives so many CPUs, without neighbours and on the best
    /// platform; absent where there is no curve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    pub why: String,
}

/// What is predicted for the newcomer and for whom it would hurt most.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExpectedPerformance {
    pub performance: f64,
    pub ci95: [f64; 2],
    /// The resident that is expected to lose the most by it, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_hurt: Option<MostAffected>,
}

/// A resident, and its performance before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MostAffected {
    pub app: String,
    pub before: f64,
    pub after: f64,
}

/// Where an application goes, and why there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    pub app: String,
    pub policy: &'static str,
    pub node: String,
    /// Every node and the CPUs there, when it is more than one node or not the
    /// usual demand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartReason>,
    /// Where a speed is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<SizeReason>,
    /// Performance expected of it there, fraction of undisturbed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<ExpectedPerformance>,
    pub deciding: Deciding,
    /// On the chosen node, before the application is there.
    pub comparisons: Vec<Comparison>,
    /// Empty when every condition of the policy is met.
    pub relaxed: Vec<Relaxed>,
    /// The next best, best first, at most three.
    pub runners_up: Vec<NodeReason>,
    pub notes: Vec<String>,
}

/// No node can take the application.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize)]
#[error("no node can take `{app}`{}: {}", if *never { ", even when empty" } else { "" }, join(nodes))]
pub struct NoPlacement {
    pub app: String,
    /// True when no node could take it even if it were up and empty.
    pub never: bool,
    /// Every node and why not.
    pub nodes: Vec<NodeReason>,
}

fn join(nodes: &[NodeReason]) -> String {
    if nodes.is_empty() {
        return "there are no nodes".into();
    }
    let reasons: Vec<String> = nodes
        .iter()
        .map(|reason| format!("{}: {}", reason.node, reason.why))
        .collect();
    reasons.join("; ")
}

/// At most this many runners-up are told.
pub const RUNNERS_UP: usize = 3;
