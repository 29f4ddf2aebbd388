//! Ours: the most predicted performance, for everybody on the node.

mod explain;
mod newcomers;
mod node_view;
mod place;
mod rank;
mod value;
mod views;

use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::cluster::ResidentId;
use crate::explanation::Deciding;
use crate::explanation::ExpectedPerformance;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::MigrationCosts;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use newcomers::RecentNewcomers;
use place::LinearScreen;
use place::PlacementValue;
use place::on_node;
use place::screened_value;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use value::Weights;
use views::NodeViews;

pub use rank::Ranking;
pub use rank::Worth;

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
/// cheap to disturb; one near the line is not. `strict` places nothing where
/// somebody who is expected to keep its QoS is then expected to lose it.
///
/// The price is what the place is worth to others: the mean value that recent
/// newcomers would have had there, as far as the cluster is full. Whoever gains
/// least from a good place leaves it to the rest (comparative advantage). With
/// little load there is no price.
///
/// Where it is known how long the application would run alone
/// ([`PlacementRequest::ideal_seconds`]), a bad place is not taken at once. Placed with a net
/// gain of p (its own performance less what residents lose), it would take 1/p
/// of its ideal time; in a good place, with p = [`GOOD_PLACE`], less. It waits as
/// long as the difference and no longer: the break-even rule of renting or
/// buying, under which waiting in vain costs no more than was to be gained.
/// Meanwhile it is asked again in steps of a twentieth of that.
///
/// Where a speed is wanted ([`PlacementRequest::target`]) and the speed-up by CPUs is known, it
/// asks for the fewest CPUs of one node that reach it, in place of the demand.
///
/// Nodes are looked at in two steps: all are screened by straight lines in place of the
/// curves, and the whole sum is worked out for the 64 that do best. Of more than 1,024
/// candidates, so many are drawn at random: of R, the best is among the best 1 − q of all
/// with probability 1 − q^R (q = 0.99 and R = 1,024: all but 3 in 100,000).
pub struct Jostle {
    weights: Weights,
    strict: bool,
    /// Candidates looked at in one decision; more are sampled.
    most_nodes: usize,
    /// Candidates for which the whole sum is worked out.
    finalists: usize,
    /// How much the price counts when the cluster is full.
    price: f32,
    /// Share of the possible gain for which to wait.
    patience: f64,
    /// Seconds a move is taken to cost before one was observed.
    first_move_seconds: f64,
    views: NodeViews,
    typical: RecentNewcomers,
    rng: ChaCha8Rng,
    merits: Vec<Merit>,
    drawn: Vec<NodeId>,
}

/// How much the price counts when the cluster is full.
const FULL_PRICE: f32 = 0.5;

/// Net gain of a place that is worth taking at once, 0–1.
pub const GOOD_PLACE: f64 = 0.88;

/// Between two questions it waits for this share of the possible gain, and at
/// least so many seconds.
const PAUSE: (f64, f64) = (0.05, 1.0);

/// Least net gain that is told from none.
const LEAST_NET: f64 = 0.1;

/// A candidate and what speaks for it.
#[derive(Clone, Copy, Debug)]
struct Merit {
    score: f32,
    node: NodeId,
    there: PlacementValue,
}

impl Jostle {
    /// With the defaults; `seed` matters only where nodes are sampled.
    pub fn new(seed: u64, strict: bool) -> Self {
        Jostle {
            weights: Weights::default(),
            strict,
            most_nodes: 1024,
            finalists: 64,
            price: FULL_PRICE,
            first_move_seconds: 30.0,
            patience: 1.0,
            views: NodeViews::default(),
            typical: RecentNewcomers::default(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            merits: Vec::new(),
            drawn: Vec::new(),
        }
    }

    /// Fills `self.merits` with the finalists, best first by the whole sum.
    /// Says how many candidates there were and whether they were drawn.
    fn rank(
        &mut self,
        request: &PlacementRequest,
        cluster: &Cluster,
        except: Option<NodeId>,
    ) -> (usize, bool) {
        let mut candidates = std::mem::take(&mut self.drawn);
        candidates.clear();
        let drawn = self.candidates(request, cluster, &mut candidates);
        candidates.retain(|node| Some(*node) != except);
        let price = self.price * self.typical.scarcity(cluster);
        self.merits.clear();
        let hinges = (candidates.len() > self.finalists).then(|| LinearScreen::of(request.app));
        for node in &candidates {
            let summary = cluster.summary(*node);
            let view = self.views.of(*node, cluster, &self.weights, &self.typical);
            let merit = match &hinges {
                None => 0.0,
                Some(hinges) => {
                    let (ln, harm) = hinges.screen(view);
                    let own = screened_value(request.app, summary, ln, &self.weights);
                    own - harm - price * view.typical
                }
            };
            self.merits.push(Merit {
                score: merit,
                node: *node,
                there: PlacementValue::default(),
            });
        }
        let best_first =
            |a: &Merit, b: &Merit| b.score.total_cmp(&a.score).then(a.node.cmp(&b.node));
        if hinges.is_some() {
            self.merits
                .select_nth_unstable_by(self.finalists - 1, best_first);
            self.merits.truncate(self.finalists);
        }
        for merit in &mut self.merits {
            let view = self.views.get(merit.node);
            merit.there = on_node(request.app, cluster, merit.node, view, &self.weights);
            merit.score = merit.there.own - merit.there.harm - price * view.typical;
        }
        self.merits.sort_unstable_by(best_first);
        let seen = candidates.len();
        self.drawn = candidates;
        (seen, drawn)
    }

    /// Until when to wait for a better place than `there`, if that may pay.
    fn better_to_wait(&self, request: &PlacementRequest, there: &PlacementValue) -> Option<f64> {
        let ideal = request.ideal_seconds?;
        let net = f64::from(there.performance - there.lost).max(LEAST_NET);
        let gain = 1.0 / net - 1.0 / GOOD_PLACE;
        let left = self.patience * gain * ideal - request.waited_seconds;
        let pause = (PAUSE.0 * gain * ideal).max(PAUSE.1);
        (left > 0.0).then_some(request.now + left.min(pause))
    }

    fn candidates(
        &mut self,
        request: &PlacementRequest,
        cluster: &Cluster,
        into: &mut Vec<NodeId>,
    ) -> bool {
        let open = cluster.open();
        if open.len() <= self.most_nodes {
            request.candidates(cluster, |node| into.push(node));
            return false;
        }
        // Empty nodes of one kind are alike; the rest is drawn, each at most
        // a few times in vain, so that a full cluster costs no more.
        for alike in cluster.empty_by_kind() {
            let allowed = |node: &&NodeId| request.allowed.is_none_or(|set| set.contains(**node));
            if let Some(first) = alike.iter().take(64).filter(allowed).min()
                && cluster.fits(*first, request.demand)
            {
                into.push(*first);
            }
        }
        let most = into.len() + self.most_nodes;
        for _ in 0..2 * self.most_nodes {
            let node = open[self.rng.random_range(0..open.len())];
            if request.may_use(cluster, node) {
                into.push(node);
                if into.len() >= most {
                    break;
                }
            }
        }
        into.sort_unstable();
        into.dedup();
        if into.is_empty() {
            request.candidates(cluster, |node| into.push(node));
        }
        true
    }
}

impl Policy for Jostle {
    fn name(&self) -> &'static str {
        "jostle"
    }

    fn sizes(&self) -> bool {
        true
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        self.typical.note(request.app);
        let request = &sized(request, cluster);
        let (seen, drawn) = self.rank(request, cluster, None);
        if self.strict {
            self.merits.retain(|merit| !merit.there.breaks);
        }
        let Some(best) = self.merits.first() else {
            return match seen {
                0 => Decision::no_room(request, cluster),
                _ => Decision::Wait(crate::policy::Waiting::ForBetter, None),
            };
        };
        if let Some(until) = self.better_to_wait(request, &best.there) {
            return Decision::Wait(crate::policy::Waiting::ForBetter, Some(until));
        }
        let others = self.merits[1..].iter().map(|merit| merit.node);
        let mut choice = Choice::on(best.node, request).with_runners_up(others);
        if let Some(cpus) = enough(request, f64::from(best.there.performance)) {
            choice.parts[0].cpus = cpus.min(cluster.summary(best.node).free_cpus);
        }
        choice.score = f64::from(best.score);
        choice.examined = seen as u32;
        if drawn {
            choice
                .notes
                .push("of many nodes, a random sample was looked at");
        }
        Decision::Place(choice)
    }

    fn reconsider(
        &mut self,
        resident: ResidentId,
        cluster: &Cluster,
        seconds_left: f64,
        costs: &MigrationCosts,
    ) -> Option<Choice> {
        let now = cluster.resident(resident)?;
        let request = PlacementRequest {
            demand: now.demand,
            ..PlacementRequest::of(&now.app)
        };
        // What everybody there loses when it leaves, itself included.
        let leaving = place::leaving(resident, cluster, &self.weights);
        let (seen, _) = self.rank(&request, cluster, Some(now.node));
        let best = self.merits.first()?;
        // Performance gained by everybody together, over what is left of its
        // run, in seconds of undisturbed work.
        let gained = f64::from(best.there.performance - best.there.lost - leaving) * seconds_left;
        let cost = costs.p95().unwrap_or(self.first_move_seconds);
        (gained > cost).then(|| Choice {
            score: gained,
            examined: seen as u32,
            ..Choice::on(best.node, &request)
        })
    }

    fn why(&self, request: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        explain::why(request.app, cluster, choice, &self.weights)
    }

    fn runner_up(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        explain::at(request.app, cluster, node, &self.weights)
    }

    fn expected(
        &self,
        request: &PlacementRequest,
        cluster: &Cluster,
        node: NodeId,
    ) -> Option<ExpectedPerformance> {
        Some(explain::expected(request.app, cluster, node))
    }
}

/// The fewest CPUs of one node with which the wanted speed is reached, where
/// `kept` is what platform and neighbours leave of performance; where it is out
/// of reach, the fewest that are nearly as fast as any. `None` where no speed is
/// wanted or the speed-up is not known.
fn enough(request: &PlacementRequest, kept: f64) -> Option<u32> {
    let (target, scaling) = (request.target?, request.app.scaling()?);
    let most = NEAR_BEST * scaling.by_cpus(f64::from(MOST_CPUS));
    let wanted = (target / kept.max(0.01)).min(most) * (1.0 - 1e-9);
    (1..=MOST_CPUS).find(|cpus| scaling.by_cpus(f64::from(*cpus)) >= wanted)
}

/// More CPUs of one node than this are not asked for by sizing.
const MOST_CPUS: u32 = 1024;

/// So near to the highest speed is as good as it.
const NEAR_BEST: f64 = 0.9;

/// A job takes this share of the CPUs that it needs rather than wait for all.
const LEAST_CPU_SHARE: f64 = 0.5;

/// What sizing takes platform and neighbours to leave before it knows the node.
const USUAL_PERFORMANCE: f64 = 0.9;

/// The same, asking for as many CPUs as its wanted speed needs, if that is
/// known, and no more than the largest node has.
fn sized<'a>(request: &PlacementRequest<'a>, cluster: &Cluster) -> PlacementRequest<'a> {
    let mut sized = *request;
    if let Some(cpus) = enough(request, USUAL_PERFORMANCE) {
        let memory = request.demand.memory_bytes;
        let roomy = cluster
            .summaries()
            .iter()
            .filter(|summary| summary.free_memory >= memory);
        let free = roomy.map(|summary| summary.free_cpus).max().unwrap_or(0);
        let least = (LEAST_CPU_SHARE * f64::from(cpus)).ceil() as u32;
        sized.demand.cpus = if free >= least { cpus.min(free) } else { cpus };
        while sized.demand.cpus > 1 && !cluster.could_ever_fit(sized.demand) {
            sized.demand.cpus -= 1;
        }
    }
    sized
}

#[cfg(test)]
mod tests;
