//! Paragon's greedy server selection.

use super::App;
use super::Cluster;
use super::Comparison;
use super::Deciding;
use super::Decision;
use super::NoPlacement;
use super::NodeReason;
use super::NodeState;
use super::Policy;
use super::Relaxed;
use super::Side;
use super::compare::compare;
use super::decision::RUNNERS_UP;
use super::decision::platform_note;
use super::ibench_l1::most_apart;

/// Conditions looked at before the search stops: about a second.
const DEFAULT_MAX_STEPS: u64 = 50_000_000;

/// Keeps the nodes with D1 ≥ 0, resource by resource in the order of what the
/// application causes most; and D2 ≥ 0, in the order of what it tolerates
/// least; and of the nodes left takes the least ‖D1 + D2‖₁, the tightest fit
/// that hurts nobody (Paragon, section 3.3.2).
///
/// When no node is left, conditions are given up from the latest, least
/// important one backwards, one of D2 and one of D1 in turn, until one is.
/// Paragon stops there; we then take back those that need not have been given
/// up, and of the nodes left first take the one that misses what was given up
/// by the least, as ‖D1 + D2‖₁ cannot tell an overrun from headroom.
///
/// ‖D1 + D2‖₁ is divided by the number of resources known in both directions,
/// so that a node does not look tight because little is known of it. A
/// condition whose D is not known excludes no node.
#[derive(Clone, Copy, Debug)]
pub struct Headroom {
    /// After this many conditions were looked at, the best node so far is taken
    /// and the decision says so. A count and not a time, so that the same input
    /// is placed the same everywhere. Paragon has a timeout of unstated length.
    pub max_steps: u64,
    /// False: an application that fits nowhere without harm is not placed.
    pub relax: bool,
}

impl Default for Headroom {
    fn default() -> Self {
        Headroom {
            max_steps: DEFAULT_MAX_STEPS,
            relax: true,
        }
    }
}

/// D ≥ 0 on one resource.
#[derive(Clone, Debug, PartialEq)]
struct Condition {
    side: Side,
    resource: String,
}

/// A node with room, and by how much it misses each condition.
struct Candidate<'a> {
    state: &'a NodeState,
    comparisons: Vec<Comparison>,
    /// Points below zero per condition; 0 when met or not known.
    shortfalls: Vec<f64>,
    /// Mean |D1 + D2|.
    slack: f64,
}

impl Candidate<'_> {
    fn name(&self) -> &str {
        &self.state.node().name
    }

    fn missed(&self, conditions: &[usize]) -> f64 {
        conditions.iter().map(|index| self.shortfalls[*index]).sum()
    }
}

impl Policy for Headroom {
    fn name(&self) -> &'static str {
        "headroom"
    }

    fn place(&self, app: &App, cluster: &Cluster) -> Result<Decision, NoPlacement> {
        let conditions = conditions(app);
        let all: Vec<usize> = (0..conditions.len()).collect();
        let candidates: Vec<Candidate> = cluster
            .with_room(app)?
            .into_iter()
            .map(|state| candidate(app, state, &conditions))
            .collect();

        let mut search = Search {
            candidates: &candidates,
            steps_left: self.max_steps,
        };
        let (survivors, given_up, finished) = search.run(&conditions);
        if !given_up.is_empty() && !self.relax {
            return Err(refuse(app, cluster, &candidates, &conditions));
        }

        let mut ranked: Vec<&Candidate> = survivors.iter().map(|i| &candidates[*i]).collect();
        ranked.sort_by(|a, b| {
            a.missed(&given_up)
                .total_cmp(&b.missed(&given_up))
                .then(a.slack.total_cmp(&b.slack))
        });
        let chosen = ranked[0];
        let mut others: Vec<&Candidate> = candidates
            .iter()
            .filter(|other| other.name() != chosen.name())
            .collect();
        others.sort_by(|a, b| {
            a.missed(&all)
                .total_cmp(&b.missed(&all))
                .then(a.slack.total_cmp(&b.slack))
        });

        let mut notes: Vec<String> = platform_note(app, chosen.state).into_iter().collect();
        if !finished {
            notes.push(format!(
                "stopped after {} conditions; the best node so far is taken",
                self.max_steps
            ));
        }
        let deciding = if candidates.len() == 1 {
            only_room(chosen.state)
        } else if !given_up.is_empty() {
            by_least_harm(chosen, others[0], &conditions, &given_up)
        } else if let Some(next) = ranked.get(1) {
            by_fit(chosen, next, ranked.len())
        } else {
            by_exclusion(others[0], &conditions)
        };
        Ok(Decision {
            app: app.name().into(),
            policy: self.name(),
            node: chosen.name().into(),
            deciding,
            comparisons: chosen.comparisons.clone(),
            relaxed: given_up
                .iter()
                .filter(|index| chosen.shortfalls[**index] > 0.0)
                .map(|index| Relaxed {
                    resource: conditions[*index].resource.clone(),
                    side: conditions[*index].side,
                    shortfall: chosen.shortfalls[*index],
                })
                .collect(),
            runners_up: others
                .iter()
                .take(RUNNERS_UP)
                .map(|other| NodeReason {
                    node: other.name().into(),
                    why: worst(other, &conditions).unwrap_or_else(|| match other.slack {
                        slack if slack.is_finite() => {
                            format!("mean |D1 + D2| {slack:.1} points")
                        }
                        _ => "nothing to compare".into(),
                    }),
                })
                .collect(),
            notes,
        })
    }
}

struct Search<'a> {
    candidates: &'a [Candidate<'a>],
    steps_left: u64,
}

impl Search<'_> {
    /// The nodes left, the conditions given up for that, and whether the steps
    /// sufficed.
    fn run(&mut self, conditions: &[Condition]) -> (Vec<usize>, Vec<usize>, bool) {
        let order = giving_up_order(conditions);
        for level in 0..=order.len() {
            let (dropped, kept) = order.split_at(level);
            match self.meeting(kept) {
                Some(left) if left.is_empty() => {}
                Some(left) => return self.take_back(left, dropped, kept),
                None => break,
            }
        }
        ((0..self.candidates.len()).collect(), order, false)
    }

    /// Enforces again what was given up without need, most important first.
    fn take_back(
        &mut self,
        mut left: Vec<usize>,
        dropped: &[usize],
        kept: &[usize],
    ) -> (Vec<usize>, Vec<usize>, bool) {
        let mut enforced = kept.to_vec();
        let mut given_up = Vec::new();
        for condition in dropped.iter().rev() {
            enforced.push(*condition);
            match self.meeting(&enforced) {
                Some(still) if !still.is_empty() => left = still,
                Some(_) => {
                    enforced.pop();
                    given_up.push(*condition);
                }
                None => {
                    enforced.pop();
                    given_up = dropped
                        .iter()
                        .filter(|condition| !enforced.contains(condition))
                        .copied()
                        .collect();
                    return (left, given_up, false);
                }
            }
        }
        (left, given_up, true)
    }

    /// The candidates that meet all of `conditions`; `None` when out of steps.
    /// Filtering by D1 and by D2 one after the other leaves the intersection of
    /// the two sets.
    fn meeting(&mut self, conditions: &[usize]) -> Option<Vec<usize>> {
        let mut left: Vec<usize> = (0..self.candidates.len()).collect();
        for condition in conditions {
            self.steps_left = self.steps_left.checked_sub(left.len() as u64)?;
            left.retain(|index| self.candidates[*index].shortfalls[*condition] <= 0.0);
        }
        Some(left)
    }
}

/// D1 by decreasing `c_app`, then D2 by increasing `t_app`.
fn conditions(app: &App) -> Vec<Condition> {
    let ordered = |side: Side, key: &dyn Fn(&super::Term) -> Option<f64>| {
        let mut scored: Vec<(f64, &String)> = app
            .terms()
            .iter()
            .filter_map(|(id, term)| Some((key(term)?, id)))
            .collect();
        scored.sort_by(|a, b| a.0.total_cmp(&b.0));
        scored
            .into_iter()
            .map(|(_, id)| Condition {
                side,
                resource: id.clone(),
            })
            .collect::<Vec<_>>()
    };
    let mut conditions = ordered(Side::D1, &|term| term.caused().map(|c| -c));
    conditions.extend(ordered(Side::D2, &|term| term.tolerated()));
    conditions
}

/// From the last backwards, one of D2 and one of D1 in turn.
fn giving_up_order(conditions: &[Condition]) -> Vec<usize> {
    let of = |side: Side| {
        (0..conditions.len())
            .rev()
            .filter(move |index| conditions[*index].side == side)
    };
    let (mut d2, mut d1) = (of(Side::D2), of(Side::D1));
    let mut order = Vec::with_capacity(conditions.len());
    while order.len() < conditions.len() {
        order.extend(d2.next());
        order.extend(d1.next());
    }
    order
}

fn candidate<'a>(app: &App, state: &'a NodeState, conditions: &[Condition]) -> Candidate<'a> {
    let comparisons = compare(app, state);
    let shortfalls = conditions
        .iter()
        .map(|condition| {
            let d = d(&comparisons, condition).unwrap_or(0.0);
            (-d).max(0.0)
        })
        .collect();
    let slacks: Vec<f64> = comparisons.iter().filter_map(Comparison::slack).collect();
    Candidate {
        state,
        shortfalls,
        // Nothing known: the loosest fit there is, so that it comes last.
        slack: if slacks.is_empty() {
            f64::INFINITY
        } else {
            slacks.iter().sum::<f64>() / slacks.len() as f64
        },
        comparisons,
    }
}

fn find<'a>(comparisons: &'a [Comparison], resource: &str) -> Option<&'a Comparison> {
    comparisons.iter().find(|c| c.resource == resource)
}

fn d(comparisons: &[Comparison], condition: &Condition) -> Option<f64> {
    let comparison = find(comparisons, &condition.resource)?;
    match condition.side {
        Side::D1 => comparison.d1,
        Side::D2 => comparison.d2,
    }
}

/// One missed condition (D below zero) in words.
fn in_words(candidate: &Candidate, condition: &Condition) -> String {
    let resource = &condition.resource;
    let Some(comparison) = find(&candidate.comparisons, resource) else {
        return format!("{resource} is not known");
    };
    let say = |score: Option<f64>| score.map_or("–".into(), |score| format!("{score:.0}"));
    let missed = -d(&candidate.comparisons, condition).unwrap_or(0.0);
    match condition.side {
        Side::D1 => format!(
            "its residents tolerate {} of {resource}, the newcomer causes {} (D1 −{missed:.0})",
            say(comparison.node_tolerates),
            say(comparison.app_causes)
        ),
        Side::D2 => format!(
            "its residents cause {} of {resource}, the newcomer tolerates {} (D2 −{missed:.0})",
            say(comparison.node_causes),
            say(comparison.app_tolerates)
        ),
    }
}

/// The condition missed by the most, in words.
fn worst(candidate: &Candidate, conditions: &[Condition]) -> Option<String> {
    worst_index(candidate).map(|index| in_words(candidate, &conditions[index]))
}

fn worst_index(candidate: &Candidate) -> Option<usize> {
    (0..candidate.shortfalls.len())
        .filter(|index| candidate.shortfalls[*index] > 0.0)
        .max_by(|a, b| candidate.shortfalls[*a].total_cmp(&candidate.shortfalls[*b]))
}

pub(super) fn only_room(state: &NodeState) -> Deciding {
    Deciding {
        resource: None,
        why: format!(
            "{} is the only node with the CPUs and the memory",
            state.node().name
        ),
    }
}

fn by_exclusion(rival: &Candidate, conditions: &[Condition]) -> Deciding {
    let index = worst_index(rival);
    Deciding {
        resource: index.map(|index| conditions[index].resource.clone()),
        why: format!(
            "the only node with headroom everywhere; the next best is {}, but {}",
            rival.name(),
            worst(rival, conditions).unwrap_or_default()
        ),
    }
}

fn by_fit(chosen: &Candidate, next: &Candidate, of: usize) -> Deciding {
    if chosen.slack == next.slack {
        return Deciding {
            resource: None,
            why: format!(
                "{} fits as well; the first in the file is taken",
                next.name()
            ),
        };
    }
    let resource = most_apart(&chosen.comparisons, &next.comparisons, Comparison::slack);
    let theirs = if next.slack.is_finite() {
        format!("{:.1}", next.slack)
    } else {
        "nothing to compare".into()
    };
    let mut why = format!(
        "tightest fit of {of} nodes with headroom: mean |D1 + D2| {:.1} points, {theirs} on {}",
        chosen.slack,
        next.name()
    );
    if let Some(resource) = &resource {
        why.push_str(&format!("; they differ most on {resource}"));
    }
    Deciding { resource, why }
}

fn by_least_harm(
    chosen: &Candidate,
    next: &Candidate,
    conditions: &[Condition],
    given_up: &[usize],
) -> Deciding {
    let index = given_up
        .iter()
        .copied()
        .max_by(|a, b| chosen.shortfalls[*a].total_cmp(&chosen.shortfalls[*b]));
    // Only a search that was stopped gives up what the chosen node meets.
    let Some(index) = index.filter(|index| chosen.shortfalls[*index] > 0.0) else {
        return Deciding {
            resource: None,
            why: "the best of the nodes examined before the search was stopped".into(),
        };
    };
    let mut why = format!(
        "no node has headroom everywhere; {} misses by the least: {}",
        chosen.name(),
        in_words(chosen, &conditions[index])
    );
    if let Some(other) = worst(next, conditions) {
        why.push_str(&format!("; on {} {other}", next.name()));
    }
    Deciding {
        resource: Some(conditions[index].resource.clone()),
        why,
    }
}

fn refuse(
    app: &App,
    cluster: &Cluster,
    candidates: &[Candidate],
    conditions: &[Condition],
) -> NoPlacement {
    let why = |state: &NodeState| {
        state
            .lacks(app)
            .or_else(|| {
                let candidate = candidates
                    .iter()
                    .find(|candidate| candidate.name() == state.node().name)?;
                worst(candidate, conditions)
            })
            .unwrap_or_else(|| "not examined: the step limit was reached".into())
    };
    NoPlacement {
        app: app.name().into(),
        nodes: cluster
            .nodes()
            .iter()
            .map(|state| NodeReason {
                node: state.node().name.clone(),
                why: why(state),
            })
            .collect(),
    }
}
