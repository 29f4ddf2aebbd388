//! Sampling with guarantees, and waiting when nothing good is free.

mod admission;
mod buckets;
mod encode;
mod history;
mod lsh;
mod sample;
#[cfg(test)]
mod tests;

pub use buckets::unit_quality;
pub use encode::Matching;
pub use encode::encode;
pub use encode::intensity;
pub use encode::normalize;
pub use encode::quality;
pub use sample::quality_under_load;

use self::admission::Verdict;
use self::admission::Waiters;
use self::buckets::Buckets;
use crate::app::App;
use crate::app::to_points;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::cluster::PlatformId;
use crate::cluster::summary::NodeSummary;
use crate::compare::below_zero;
use crate::compare::overrun;
use crate::explanation::Deciding;
use crate::policies::paragon_sampled::sample_size;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::Part;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use crate::predict::LANES;
use crate::predict::Lanes;
use crate::predict::resource_id;
use crate::search::ranking::Ranking;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// What can be set of [`Tarcil`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TarcilOptions {
    pub matching: Matching,
    /// Sorting forgets which resource is which; with this a node's score is
    /// divided by 1 + o/10, with o the points by which D1 and D2 are below zero
    /// there, all resources together.
    pub check_directions: bool,
    /// Samples per unit needed while all units are free …
    pub least_samples: usize,
    /// … and at most (Tarcil, section 7.4.2).
    pub most_samples: usize,
    /// Chance of missing the quality that `least_samples` promise; the samples
    /// grow so that it stays the same while fewer units are free.
    pub p: f64,
    /// Hold a job back when fewer suitable units than this are free for each
    /// that it needs (the paper only says "close to").
    pub margin: f64,
    pub admission: bool,
}

impl Default for TarcilOptions {
    fn default() -> Self {
        TarcilOptions {
            matching: Matching::Corrected,
            check_directions: true,
            least_samples: 8,
            most_samples: 32,
            p: 0.01,
            margin: 2.0,
            admission: true,
        }
    }
}

/// Tarcil (dissertation, chapter 7). A job's pressures become one number, its
/// target T_W; what a resource unit bears from its neighbours likewise becomes
/// its quality U_H. Of R units drawn at random from the free ones for each unit
/// needed, the best match is taken: the best of R has rank quality x^R, however
/// large the cluster.
///
/// - The score is `s·(1 + Q)/2`: `Q` the match and `s` the speed on the unit's
///   platform over the best speed, where it is not known the mean of those known
///   (1 when none is). So a unit that matches in nothing on the best platform is
///   worth one that matches fully on a platform of half the speed; a plain
///   product would not tell platforms apart for a job that causes nothing, whose
///   match on an empty node is 0.
/// - R grows as units become scarce, as if busy units were drawn as well (the
///   paper's formula): with `q` the quality that `least_samples` reach at `p`,
///   and `f` the free share, `R = ⌈ln p / ln(1 − (1 − q)·f)⌉`, at most
///   `most_samples`. As only free units are drawn, the guarantee among those is
///   kept with room to spare.
/// - A job that must stay on one node counts as one draw a unit on a node with
///   room for all of it, and up to R draws are made for each of its CPUs to
///   find R such. One that may spread takes the best of its R·m units.
/// - When no draw has room, a walk over some nodes from a random place follows,
///   which on small clusters is all of them; then the job queues at the best
///   two of some nodes drawn at random, busy or not (late binding), or waits for
///   room while too little has become free for admission to judge.
#[derive(Debug)]
pub struct Tarcil {
    options: TarcilOptions,
    /// The quality that `least_samples` reach at `p`.
    q: f64,
    rng: ChaCha8Rng,
    buckets: Buckets,
    waiters: Waiters,
}

/// Nodes looked at when the sample had no room.
const WALK: usize = 256;

/// Draws for one decision, however many units it needs.
const MOST_DRAWS: usize = 1024;

/// Nodes fetched together, so that their memory is waited for only once.
const BATCH: usize = 32;

/// Points of overrun that halve a score.
const OVERRUN_POINTS: f64 = 10.0;

/// A job in the terms of this policy, and where it may go.
struct Job<'a> {
    request: &'a PlacementRequest<'a>,
    cluster: &'a Cluster,
    /// Samples for each unit needed.
    samples: usize,
    /// Target quality T_W, where CPUs are its own and where they are shared;
    /// filled in when first asked for.
    target: [Option<f64>; 2],
    best_speed: f64,
    usual_speed: f64,
}

impl<'a> Job<'a> {
    fn of(request: &'a PlacementRequest<'a>, cluster: &'a Cluster, samples: usize) -> Self {
        let platforms = 0..cluster.platforms().len();
        let speeds: Vec<f64> = platforms
            .filter_map(|platform| request.app.speed_on(PlatformId::nth(platform)))
            .map(f64::from)
            .collect();
        let best_speed = request.app.best_speed().map_or(1.0, f64::from).max(1e-9);
        Job {
            request,
            cluster,
            samples,
            target: [None; 2],
            best_speed,
            usual_speed: match speeds.len() {
                0 => 1.0,
                known => speeds.iter().sum::<f64>() / known as f64 / best_speed,
            },
        }
    }

    fn target(&mut self, shares_cpus: bool) -> f64 {
        *self.target[usize::from(shares_cpus)]
            .get_or_insert_with(|| target(self.request.app, shares_cpus))
    }

    fn speed(&self, platform: PlatformId) -> f64 {
        match self.request.app.speed_on(platform) {
            Some(speed) => f64::from(speed) / self.best_speed,
            None => self.usual_speed,
        }
    }

    /// Units to draw: the samples for all of its CPUs.
    fn draws(&self) -> usize {
        (self.samples * self.request.demand.cpus as usize).clamp(self.samples, MOST_DRAWS)
    }
}

/// Target quality of `app`, T_W: its pressures as one number, 0–1 (Tarcil,
/// equation 7.2).
pub fn target(app: &App, shares_cpus: bool) -> f64 {
    let mut points: Lanes<f32> = [0.0; LANES];
    for lane in app.caused_on(shares_cpus).iter() {
        points[lane] = to_points(app.caused[lane]) as f32;
    }
    intensity(&points)
}

/// Points by which all directions that are below zero are so together.
fn overrun_points(app: &App, summary: &NodeSummary) -> f64 {
    overrun(app, summary) as f64 * to_points(1)
}

impl Tarcil {
    pub fn new(seed: u64) -> Self {
        Tarcil::with_options(seed, TarcilOptions::default())
    }

    pub fn with_options(seed: u64, options: TarcilOptions) -> Self {
        let p = options.p.clamp(1e-12, 1.0 - 1e-12);
        Tarcil {
            options,
            q: p.powf(1.0 / options.least_samples.max(1) as f64),
            rng: ChaCha8Rng::seed_from_u64(seed),
            buckets: Buckets::new(seed),
            waiters: Waiters::default(),
        }
    }

    /// Samples for each unit needed, with `free` of `units` units free.
    pub fn samples(&self, free: f64, units: f64) -> usize {
        let least = self.options.least_samples.max(1);
        let wanted_free = (1.0 - self.q) * free;
        let q = quality_under_load(wanted_free, units.max(1.0));
        let most = self.options.most_samples.max(least);
        sample_size(self.options.p, q).map_or(most, |size| (size as usize).clamp(least, most))
    }

    /// Its score on `node`; `None` when that is below `least`, so that the
    /// resources are compared only where the rest is good enough.
    fn score(&mut self, job: &mut Job, node: NodeId, least: f64) -> Option<f64> {
        let summary = job.cluster.summary(node);
        let unit = self.buckets.quality(job.cluster, node, job.request.now);
        let quality = quality(job.target(summary.shares_cpus), unit, self.options.matching);
        let mut score = job.speed(summary.platform) * (1.0 + quality) / 2.0;
        if score >= least && self.options.check_directions {
            score /= 1.0 + overrun_points(job.request.app, summary) / OVERRUN_POINTS;
        }
        (score >= least).then_some(score)
    }

    /// Scores `node` and offers it to `ranking`, unless it is there.
    fn rank(&mut self, job: &mut Job, node: NodeId, ranking: &mut Ranking<1>) {
        let known = ranking.best().any(|(_, known)| known == node);
        let least = ranking.least().map_or(0.0, |[score]| score);
        match self.score(job, node, least) {
            Some(score) if !known => ranking.offer(node, [score]),
            _ => ranking.skip(),
        }
    }

    /// The nodes of `count` free units drawn at random, in batches; until
    /// `look` has had enough.
    fn draw(
        &mut self,
        cluster: &Cluster,
        count: usize,
        mut look: impl FnMut(&mut Self, NodeId) -> bool,
    ) {
        let units = cluster.units();
        if units.is_empty() {
            return;
        }
        let mut left = count;
        while left > 0 {
            let mut drawn = [NodeId(0); BATCH];
            let batch = left.min(BATCH);
            for node in &mut drawn[..batch] {
                let place = self.rng.random_range(0..units.len());
                if let Some(found) = units.node_at(place) {
                    *node = found;
                }
            }
            // Nothing depends on these reads, so that their misses overlap.
            let mut touched = 0;
            for node in &drawn[..batch] {
                touched ^= cluster.summary(*node).free_cpus ^ self.buckets.touch(*node);
            }
            std::hint::black_box(touched);
            for node in &drawn[..batch] {
                if !look(self, *node) {
                    return;
                }
            }
            left -= batch;
        }
    }

    fn on_one_node(&mut self, job: &mut Job) -> Decision {
        let (request, cluster) = (job.request, job.cluster);
        let mut ranking = Ranking::default();
        let mut looked_at = 0;
        self.draw(cluster, job.draws(), |policy, node| {
            looked_at += 1;
            if request.may_use(cluster, node) {
                policy.rank(job, node, &mut ranking);
            }
            (ranking.seen() as usize) < job.samples
        });
        if ranking.seen() == 0 {
            looked_at += self.walk(request, cluster, |policy, node| {
                policy.rank(job, node, &mut ranking);
            });
        }
        if ranking.seen() == 0 {
            return self.late(job);
        }
        let mut answer = ranking.answer(request, cluster);
        if let Decision::Place(choice) = &mut answer {
            choice.examined = looked_at;
        }
        answer
    }

    /// At most [`WALK`] nodes from a random place on, those with room; how many
    /// were passed.
    fn walk(
        &mut self,
        request: &PlacementRequest,
        cluster: &Cluster,
        mut look: impl FnMut(&mut Self, NodeId),
    ) -> u32 {
        let open = cluster.open();
        let mut passed = 0;
        let mut pass = |policy: &mut Self, node: NodeId| {
            passed += 1;
            if request.may_use(cluster, node) {
                look(policy, node);
            }
        };
        if let Some(allowed) = request.allowed {
            for node in allowed.iter().take(WALK) {
                pass(self, node);
            }
            return passed;
        }
        if !open.is_empty() {
            let from = self.rng.random_range(0..open.len());
            for step in 0..open.len().min(WALK) {
                pass(self, open[(from + step) % open.len()]);
            }
        }
        for alike in cluster.empty_by_kind() {
            if let Some(node) = alike.iter().min_by_key(|node| **node) {
                pass(self, *node);
            }
        }
        passed
    }

    /// Units of the job spread over nodes: the best of those drawn.
    fn over_nodes(&mut self, job: &mut Job) -> Decision {
        let (request, cluster) = (job.request, job.cluster);
        let one = request.with_cpus(1);
        // Node, its score, and how many of its units were drawn.
        let mut drawn: Vec<(NodeId, f64, u32)> = Vec::new();
        let draws = job.draws();
        let mut nodes = Vec::with_capacity(draws);
        self.draw(cluster, draws, |_, node| {
            nodes.push(node);
            true
        });
        nodes.sort_unstable();
        for alike in nodes.chunk_by(|a, b| a == b) {
            if one.may_use(cluster, alike[0]) {
                let score = self.score(job, alike[0], 0.0).unwrap_or(0.0);
                drawn.push((alike[0], score, alike.len() as u32));
            }
        }
        drawn.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        // First the units that were drawn, then their neighbours.
        let mut parts: Vec<Part> = Vec::new();
        let mut missing = request.demand.cpus;
        let mut weighed = 0.0;
        for round in 0..2 {
            for (at, (node, score, times)) in drawn.iter().enumerate() {
                let free = cluster.summary(*node).free_cpus;
                let cpus = match round {
                    0 => free.min(*times).min(missing),
                    _ => (free - parts[at].cpus).min(missing),
                };
                match round {
                    0 => parts.push(Part { node: *node, cpus }),
                    _ => parts[at].cpus += cpus,
                }
                weighed += score * f64::from(cpus);
                missing -= cpus;
            }
        }
        if missing > 0 {
            return match self.on_one_node(job) {
                Decision::QueueAt(_) => Decision::no_room(&one, cluster),
                answer => answer,
            };
        }
        parts.retain(|part| part.cpus > 0);
        let unused = drawn.iter().map(|(node, ..)| *node);
        let unused = unused.filter(|node| parts.iter().all(|part| part.node != *node));
        let choice = Choice::default().with_runners_up(unused);
        Decision::Place(Choice {
            parts,
            examined: draws as u32,
            score: weighed / f64::from(request.demand.cpus),
            ..choice
        })
    }

    /// Queues at the best two of some nodes drawn at random, busy or not, that
    /// could take it once they are free; of an eighth of the nodes at most, so
    /// that on a small cluster not everybody queues at the same two.
    fn late(&mut self, job: &mut Job) -> Decision {
        let (request, cluster) = (job.request, job.cluster);
        let mut ranking = Ranking::<1>::default();
        for _ in 0..job.samples.min(cluster.len().div_ceil(8)).max(2) {
            let Some(node) = could_fit_at_random(&mut self.rng, request, cluster) else {
                break;
            };
            self.rank(job, node, &mut ranking);
        }
        let nodes = ranking.best().map(|(_, node)| node).take(2).collect();
        Decision::queue_at(nodes, request, cluster)
    }
}

/// A node that is up, may be used, and is large enough for `ask` when empty,
/// drawn with equal chances; `None` when some tries did not find one.
pub(crate) fn could_fit_at_random(
    rng: &mut ChaCha8Rng,
    request: &PlacementRequest,
    cluster: &Cluster,
) -> Option<NodeId> {
    const TRIES: usize = 64;
    let large_enough = |node: NodeId| {
        cluster.could_fit(node, request.demand)
            && request.allowed.is_none_or(|allowed| allowed.contains(node))
    };
    if cluster.is_empty() {
        return None;
    }
    for _ in 0..TRIES {
        let node = NodeId(rng.random_range(0..cluster.len() as u32));
        if large_enough(node) {
            return Some(node);
        }
    }
    // Few are: look from a random one on, for a while.
    let from = rng.random_range(0..cluster.len());
    (0..cluster.len().min(4096))
        .map(|step| NodeId(((from + step) % cluster.len()) as u32))
        .find(|node| large_enough(*node))
}

impl Policy for Tarcil {
    fn name(&self) -> &'static str {
        "tarcil"
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        let spread = request.spread && request.demand.cpus > 1;
        if !spread && !cluster.could_ever_fit(request.demand) {
            return Decision::no_room(request, cluster);
        }
        self.buckets.sync(cluster, request.now);
        let mut verdict = Verdict::Go;
        if self.options.admission {
            let margin = self.options.margin;
            let (buckets, waiters) = (&mut self.buckets, &mut self.waiters);
            verdict = admission::hold(request, cluster, buckets, waiters, margin);
            if let Verdict::WaitUntil(until) = verdict {
                return Decision::Wait(crate::policy::Waiting::ForBetter, Some(until));
            }
        }
        let samples = self.samples(cluster.units().len() as f64, self.buckets.units() as f64);
        let mut job = Job::of(request, cluster, samples);
        let answer = match spread {
            true => self.over_nodes(&mut job),
            false => self.on_one_node(&mut job),
        };
        match answer {
            // Queues at nodes are for those who have waited in vain.
            Decision::QueueAt(_) if verdict == Verdict::Unknown => {
                return Decision::Wait(crate::policy::Waiting::NoRoom, None);
            }
            Decision::Place(_) | Decision::QueueAt(_) => self.waiters.forget(request.app),
            Decision::Wait(..) => {}
        }
        answer
    }

    fn changed(&mut self, cluster: &Cluster, node: NodeId, now: f64) {
        self.buckets.changed(cluster, node, now);
    }

    fn why(&self, request: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        let node = choice.node();
        let summary = cluster.summary(node);
        let contended = contended(cluster, node);
        let target = target(request.app, summary.shares_cpus);
        let mut why = format!(
            "the best of {} units drawn: score {:.3} (unit quality {:.3}, target {target:.3})",
            choice.examined,
            choice.score,
            unit_quality(cluster, node),
        );
        let (d1, d2) = below_zero(request.app, summary);
        let worst = d1.or(d2).iter().max_by_key(|lane| {
            let d1 = request.app.caused[*lane] - summary.tolerated[*lane];
            let d2 = summary.caused[*lane] - request.app.tolerated[*lane];
            d1.max(d2)
        });
        if let Some(lane) = worst {
            why.push_str(&format!(
                "; {:.1} points beyond what is tolerated, most of it on {}",
                overrun_points(request.app, summary),
                resource_id(lane)
            ));
        }
        Deciding {
            resource: worst.or(contended).map(|lane| resource_id(lane).into()),
            why,
        }
    }

    fn runner_up(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        let summary = cluster.summary(node);
        let unit = unit_quality(cluster, node);
        let target = target(request.app, summary.shares_cpus);
        let mut said = format!(
            "match {:.3} (unit quality {unit:.3})",
            quality(target, unit, self.options.matching)
        );
        let overrun = overrun_points(request.app, summary);
        if overrun > 0.0 {
            said.push_str(&format!(", {overrun:.1} points beyond what is tolerated"));
        }
        said
    }

    fn unused(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        let said = self.runner_up(request, cluster, node);
        format!("held back for a better unit, or not among those drawn; {said}")
    }
}

/// The resource on which units of `node` are disturbed most.
fn contended(cluster: &Cluster, node: NodeId) -> Option<usize> {
    let by_units = cluster.caused_by_units(node);
    let lane = (0..LANES).max_by_key(|lane| by_units[*lane])?;
    (by_units[lane] > 0).then_some(lane)
}
