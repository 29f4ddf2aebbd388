//! Ours: the most predicted performance, for everybody on the node.

mod node_view;
mod typical;
mod value;
mod words;

use super::Answer;
use super::App;
use super::Ask;
use super::Choice;
use super::Cluster;
use super::Deciding;
use super::Decision;
use super::MigrationCosts;
use super::NodeId;
use super::Part;
use super::Policy;
use super::RUNNERS_UP;
use super::ResidentId;
use node_view::Views;
use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use typical::Typical;
use value::Weights;
use value::on_node;

/// Chooses the node where the sum of what is gained and lost is greatest:
///
/// ```text
/// value(newcomer there) − Σ over residents (value without it − value with it) − price(node)
/// value(x) = E[performance of x] + w · P(x keeps its QoS)
/// ```
///
/// Performance is that of [`predict`](crate::predict), the product of the whole
/// sensitivity curves at the pressure of the others, times the platform's speed
/// for it; entries that are uncertain enter with their variance, and so does
/// the pressure. An application whose QoS is safe by far, or lost by far, is
/// cheap to disturb; one near the line is dear. `strict` places nothing where
/// somebody who is expected to keep its QoS is then expected to lose it.
///
/// The price is what the place is worth to others: the mean value that recent
/// newcomers would have had there, as far as the cluster is full. Whoever gains
/// least from a good place leaves it to the rest (comparative advantage). With
/// little load there is no price.
///
/// Nodes are looked at in two steps. What the newcomer alone would have there
/// bounds the sum from above, as no resident gains; then residents are looked
/// at from the highest bound downwards until no bound is above the best sum.
/// Of more than [`Jostle::most_nodes`] candidates, so many are drawn at random:
/// with R of them the best is among the best 1 − q of all with probability
/// 1 − q^R (q = 0.99 and R = 1,024: all but 3 in 100,000).
pub struct Jostle {
    weights: Weights,
    strict: bool,
    /// Candidates looked at in one decision; more are sampled.
    most_nodes: usize,
    /// How much the price counts when the cluster is full.
    price: f32,
    /// Seconds a move is taken to cost before one was observed.
    first_move_seconds: f64,
    views: Views,
    typical: Typical,
    rng: ChaCha8Rng,
    bounds: Vec<(f32, NodeId)>,
    sampled: Vec<NodeId>,
}

/// Best looked at first, and a few more, so that runners-up are real ones.
const AT_LEAST: usize = RUNNERS_UP + 1;

impl Jostle {
    /// With the defaults; `seed` matters only where nodes are sampled.
    pub fn new(seed: u64, strict: bool) -> Self {
        Jostle {
            weights: Weights::default(),
            strict,
            most_nodes: 1024,
            price: 1.0,
            first_move_seconds: 30.0,
            views: Views::default(),
            typical: Typical::default(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            bounds: Vec::new(),
            sampled: Vec::new(),
        }
    }

    /// Looks at no more than `nodes` in one decision (at least 1).
    pub fn with_most_nodes(mut self, nodes: usize) -> Self {
        self.most_nodes = nodes.max(1);
        self
    }

    /// The price of a place, as a share of what it is worth to others when the
    /// cluster is full (0 = none).
    pub fn with_price(mut self, price: f64) -> Self {
        self.price = price as f32;
        self
    }

    /// What keeping the QoS counts beside performance.
    pub fn with_qos_weight(mut self, weight: f64) -> Self {
        self.weights.qos = weight as f32;
        self
    }

    /// The candidates with their bounds, best first. Says whether they were
    /// sampled.
    fn bound_all(&mut self, ask: &Ask, cluster: &Cluster) -> bool {
        let mut candidates = std::mem::take(&mut self.sampled);
        candidates.clear();
        let sampled = self.candidates(ask, cluster, &mut candidates);
        let price = self.price * self.typical.scarcity(cluster);
        self.bounds.clear();
        for node in &candidates {
            let view = self.views.of(*node, cluster, &self.weights, &self.typical);
            let own = value::newcomer(ask.app, cluster.row(*node), view, &self.weights);
            self.bounds.push((own.value - price * view.typical, *node));
        }
        self.sampled = candidates;
        self.bounds
            .sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        sampled
    }

    fn candidates(&mut self, ask: &Ask, cluster: &Cluster, into: &mut Vec<NodeId>) -> bool {
        let open = cluster.open();
        if open.len() <= self.most_nodes {
            ask.candidates(cluster, |node| into.push(node));
            return false;
        }
        // Empty nodes of one kind are alike; the rest is drawn, each at most
        // a few times in vain, so that a full cluster costs no more.
        for alike in cluster.empty_by_kind() {
            let allowed = |node: &&NodeId| ask.allowed.is_none_or(|set| set.contains(**node));
            if let Some(first) = alike.iter().take(64).filter(allowed).min()
                && cluster.fits(*first, ask.demand)
            {
                into.push(*first);
            }
        }
        let most = into.len() + self.most_nodes;
        for _ in 0..2 * self.most_nodes {
            let node = open[self.rng.random_range(0..open.len())];
            if ask.may_use(cluster, node) {
                into.push(node);
                if into.len() >= most {
                    break;
                }
            }
        }
        into.sort_unstable();
        into.dedup();
        if into.is_empty() {
            ask.candidates(cluster, |node| into.push(node));
        }
        true
    }
}

impl Policy for Jostle {
    fn name(&self) -> &'static str {
        "jostle"
    }

    fn choose(&mut self, ask: &Ask, cluster: &Cluster) -> Answer {
        self.typical.note(ask.app);
        let sampled = self.bound_all(ask, cluster);
        let mut best: [Option<(f32, NodeId)>; RUNNERS_UP + 1] = [None; RUNNERS_UP + 1];
        let mut looked = 0;
        for (bound, node) in &self.bounds {
            let enough = looked >= AT_LEAST && best[0].is_some_and(|(score, _)| score >= *bound);
            if enough {
                break;
            }
            looked += 1;
            let view = self.views.get(*node);
            let there = on_node(ask.app, cluster, *node, view, &self.weights);
            if self.strict && there.breaks {
                continue;
            }
            let mut held = Some((bound - there.harm, *node));
            for place in &mut best {
                let better = match (held, *place) {
                    (Some(a), Some(b)) => a.0 > b.0 || (a.0 == b.0 && a.1 < b.1),
                    (held, _) => held.is_some(),
                };
                if better {
                    std::mem::swap(&mut held, place);
                }
            }
        }
        let Some((score, node)) = best[0] else {
            return match self.bounds.is_empty() {
                true => Answer::no_room(ask, cluster),
                false => Answer::Wait(super::Waiting::ForBetter, None),
            };
        };
        let mut choice = Choice::on(node, ask);
        choice.score = f64::from(score);
        choice.examined = self.bounds.len() as u32;
        for (place, other) in choice.runners_up.iter_mut().zip(&best[1..]) {
            *place = other.map(|(_, node)| node);
        }
        if sampled {
            choice
                .notes
                .push("of many nodes, a random sample was looked at");
        }
        Answer::Place(choice)
    }

    fn reconsider(
        &mut self,
        resident: ResidentId,
        cluster: &Cluster,
        seconds_left: f64,
        costs: &MigrationCosts,
    ) -> Option<Choice> {
        let now = cluster.resident(resident)?;
        let ask = Ask {
            demand: now.demand,
            ..Ask::of(&now.app)
        };
        // What everybody there gains when it leaves, itself aside.
        let leaving = value::leaving(resident, cluster, &self.weights);
        self.bound_all(&ask, cluster);
        let mut best: Option<(f32, f32, NodeId)> = None;
        for (bound, node) in self.bounds.iter().take(64) {
            if *node == now.node {
                continue;
            }
            if best.is_some_and(|(score, _, _)| score >= *bound) {
                break;
            }
            let view = self.views.get(*node);
            let there = on_node(&now.app, cluster, *node, view, &self.weights);
            let score = bound - there.harm;
            if best.is_none_or(|(most, _, _)| score > most) {
                best = Some((score, there.performance - there.lost, *node));
            }
        }
        let (_, there, node) = best?;
        // Performance gained by everybody together, over what is left of its
        // run, in seconds of undisturbed work.
        let gained = f64::from(there - leaving) * seconds_left;
        let cost = costs.p95().unwrap_or(self.first_move_seconds);
        (gained > cost).then(|| Choice {
            parts: vec![Part {
                node,
                cpus: ask.demand.cpus,
            }],
            score: gained,
            examined: self.bounds.len() as u32,
            ..Choice::default()
        })
    }

    fn why(&self, ask: &Ask, cluster: &Cluster, choice: &Choice) -> Deciding {
        words::why(ask.app, cluster, choice, &self.weights)
    }

    fn runner_up(&self, ask: &Ask, cluster: &Cluster, node: NodeId) -> String {
        words::at(ask.app, cluster, node, &self.weights)
    }

    fn explain(&self, ask: &Ask, cluster: &Cluster, choice: &Choice) -> Decision {
        let mut decision = super::policy::explained(self, ask, cluster, choice);
        decision.expected = Some(words::expected(ask.app, cluster, choice.node()));
        decision
    }
}

/// Kept here so that its tests may reach every part.
pub(super) type SharedApp = Arc<App>;

#[cfg(test)]
mod tests;
