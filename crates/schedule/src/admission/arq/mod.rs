//! ARQ: admission by resource quality, with a queue per class.

mod busy;
mod pools;

use self::busy::BusyTimes;
use self::pools::Pools;
use super::control::Admission;
use super::control::Admitted;
use super::control::Waiter;
use crate::app::App;
use crate::app::Demand;
use crate::app::to_points;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::cluster::node_set::NodeSet;
use std::cmp::Ordering;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::HashMap;

/// What may be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArqOptions {
    /// Classes of resource quality; ten is where more no longer helps (ARQ,
    /// section 6.5).
    pub queues: usize,
    /// Shortest first within a class; who has used up its window still goes
    /// before everybody else.
    pub sjf: bool,
    /// Higher [`Waiter::priority`] first, within a class and among those whose
    /// window is used up.
    pub priorities: bool,
    /// Share of the ideal run time that waiting and classifying may take.
    pub window: f64,
    /// Ranges of quality lie between the least and the most seen so far, not
    /// between 0 and what is possible: applications press few resources hard,
    /// so that all of them would be of the lowest classes otherwise.
    pub relative: bool,
    /// A job that has waited this multiple of its ideal run time beyond its
    /// window gets a node kept free for it.
    pub patience: f64,
}

impl Default for ArqOptions {
    fn default() -> Self {
        ArqOptions {
            queues: 10,
            sjf: false,
            priorities: false,
            window: 0.05,
            relative: true,
            patience: 1.0,
        }
    }
}

/// Patience with a job whose ideal run time nobody knows.
const UNKNOWN_PATIENCE_SECONDS: f64 = 600.0;

/// Only so many of those whose window is used up are looked at after one
/// change, from the front.
const DEPTH: usize = 128;

/// Seconds, ordered as [`f64::total_cmp`] does.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seconds(f64);

impl Eq for Seconds {}

impl Ord for Seconds {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Seconds {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Q of an application: mean of what it causes over the resources that count
/// and are known, in points; `None` when there is none.
fn caused(app: &App) -> Option<f64> {
    let known = app.caused_on(false);
    let sum: i64 = known.iter().map(|lane| i64::from(app.caused[lane])).sum();
    (!known.is_empty()).then(|| to_points(1) * sum as f64 / f64::from(known.len()))
}

/// Who goes first: priority, then length or deadline, then order of arrival.
type Rank = (Reverse<u32>, Seconds, u64);

#[derive(Clone, Debug)]
struct Waiting {
    demand: Demand,
    queue: usize,
    /// Its place in its queue, and among the overdue once its window is over.
    rank: Rank,
    overdue_rank: Rank,
    arrived: f64,
    /// Seconds it may wait: window × ideal time − overhead, at least 0.
    window: f64,
    /// (1 + window) × ideal time − overhead, the S of the paper.
    deadline: f64,
    /// Seconds of waiting after which a node is kept free for it.
    patience: f64,
    /// The state in which it was last refused.
    refused_in: Option<u64>,
}

/// Admission control by resource quality (dissertation, chapter 6).
///
/// An application's class is the range of its `Q = Σ c` over the resources that
/// count and are known, divided by what they could sum up to; a server's is
/// that of `Σ t` of its residents, likewise; both are stretched over the values
/// seen so far, unless [`ArqOptions::relative`] is off. The head of a class's queue takes
/// a server with room out of the pool of that class. When there is none:
///
/// 1. up: a server of the nearest better pool with room, if nobody waits in
///    any queue from there down to its own;
/// 2. down: a server of the nearest worse pool with room, from the switch
///    point on, see below;
/// 3. when its window is over, `wait + P = 0.05 CT`, any server with room,
///    before everybody whose window is not.
///
/// # The switch point
///
/// It waits in its own queue `i` as long as that promises more than a server
/// of the pool `j` below, that is while
///
/// ```text
/// max over t of (S − w − t) · Q_i · Pr_i[t]  >  (S − w) · Q_j · Pr_j[0]
/// ```
///
/// for `w` already waited, `t` up to the end of the window, Q in the middle of
/// the class's range and `Pr_j[0] = 1`, as that server is free now.
/// `Pr[t] = 1 − (1 − F(t))^n` is the probability that one of the pool's `n`
/// busy servers is freed within `t`, with `F` the distribution of what is left
/// of a busy time when one looks at a random moment, taken from the last busy
/// times of that pool.
///
/// # Where this differs from the paper
///
/// - The paper goes to the queue *directly* above or below; pools may have no
///   server with room at all, so that here the nearest pool with room counts.
///   Else an empty cluster, all of it in the best pool, would serve nobody else.
/// - The paper fits a normal distribution to busy times and does not say how
///   `Pr` comes from it; here the observed times themselves are used.
/// - `S` is a deadline (it includes the run), although it is called slack
///   there; it is used as printed.
/// - A job whose ideal time is not known has no window and does not wait for
///   quality. A pool without history promises nothing.
/// - A job that waits long past its window gets the next suitable node kept
///   free of others, so that none starves behind smaller ones.
#[derive(Clone, Debug)]
pub struct Arq {
    options: ArqOptions,
    jobs: HashMap<u64, Waiting>,
    queues: Vec<BTreeMap<Rank, u64>>,
    /// Ends of windows of those in queues.
    windows: BTreeMap<(Seconds, u64), u64>,
    /// Those whose window is over.
    overdue: BTreeMap<Rank, u64>,
    /// When patience with the waiting ends, all of them.
    patience: BTreeMap<(Seconds, u64), u64>,
    pools: Pools,
    /// Highest Q of an application seen so far, in points.
    most_caused: f64,
    busy: Vec<BusyTimes>,
    /// Pool and start of those that run, per node.
    running: HashMap<u64, Vec<(usize, f64)>>,
    /// The job that a node is kept free for.
    held: Option<(u64, NodeId)>,
    arrivals: u64,
    /// Grows with every change that may turn a refusal into a place.
    state: u64,
    wake: Option<f64>,
}

impl Default for Arq {
    fn default() -> Self {
        Arq::new(ArqOptions::default())
    }
}

impl Arq {
    /// With nobody waiting; fewer than one queue counts as one.
    pub fn new(options: ArqOptions) -> Self {
        let queues = options.queues.clamp(1, 100);
        Arq {
            options,
            jobs: HashMap::new(),
            queues: vec![BTreeMap::new(); queues],
            windows: BTreeMap::new(),
            overdue: BTreeMap::new(),
            patience: BTreeMap::new(),
            pools: Pools::new(queues, options.relative),
            most_caused: 0.0,
            busy: vec![BusyTimes::default(); queues],
            running: HashMap::new(),
            held: None,
            arrivals: 0,
            state: 0,
            wake: None,
        }
    }

    /// The class of `app`, 0 = least demanding.
    pub fn class(&self, app: &App) -> usize {
        let points = match caused(app) {
            // Nothing is known of what it needs: the best there is.
            None => 100.0,
            Some(points) if self.options.relative && self.most_caused > 0.0 => {
                100.0 * points / self.most_caused
            }
            Some(points) => points,
        };
        self.pools.range(points)
    }

    /// Middle of the range of a class, 0–1.
    fn quality(&self, class: usize) -> f64 {
        (class as f64 + 0.5) / self.queues.len() as f64
    }

    fn forget(&mut self, job: u64) {
        if let Some(waiting) = self.jobs.remove(&job) {
            self.queues[waiting.queue].remove(&waiting.rank);
            let order = waiting.rank.2;
            let end = Seconds(waiting.arrived + waiting.window);
            self.windows.remove(&(end, order));
            self.overdue.remove(&waiting.overdue_rank);
            let patience = Seconds(waiting.arrived + waiting.patience);
            self.patience.remove(&(patience, order));
        }
        if self.held.is_some_and(|(holder, _)| holder == job) {
            self.held = None;
        }
    }

    /// Moves those whose window is over to the overdue.
    fn expire(&mut self, now: f64) {
        while let Some(first) = self.windows.first_entry() {
            if first.key().0.0 > now {
                break;
            }
            let job = first.remove();
            if let Some(waiting) = self.jobs.get_mut(&job) {
                waiting.refused_in = None;
                self.queues[waiting.queue].remove(&waiting.rank);
                self.overdue.insert(waiting.overdue_rank, job);
            }
        }
    }

    /// Keeps a node free for the one that has waited longest beyond patience:
    /// of those that could take it, the one with most CPUs free.
    fn hold(&mut self, now: f64, cluster: &Cluster) {
        let could = |node: NodeId, demand: Demand| cluster.could_fit(node, demand);
        if let Some((job, node)) = self.held {
            match self.jobs.get(&job) {
                Some(waiting) if could(node, waiting.demand) => return,
                _ => self.held = None,
            }
        }
        let late = self.patience.range(..=(Seconds(now), u64::MAX));
        self.held = late.take(DEPTH).find_map(|(_, job)| {
            let demand = self.jobs[job].demand;
            let node = cluster
                .ids()
                .filter(|node| could(*node, demand))
                .max_by_key(|node| (cluster.summary(*node).free_cpus, Reverse(*node)))?;
            Some((*job, node))
        });
    }

    /// `nodes` without the one that is kept free for another than `job`.
    fn without_held(&self, job: u64, mut nodes: NodeSet) -> NodeSet {
        if let Some((holder, node)) = self.held
            && holder != job
        {
            nodes.remove(node);
        }
        nodes
    }

    /// Whether one of `nodes` that is not kept free for another has the room.
    fn has_room(
        &self,
        job: u64,
        cluster: &Cluster,
        mut nodes: impl Iterator<Item = NodeId>,
    ) -> bool {
        let kept = self.held.filter(|(holder, _)| *holder != job);
        let demand = self.jobs[&job].demand;
        nodes.any(|node| kept.is_none_or(|(_, held)| held != node) && cluster.fits(node, demand))
    }

    /// What waiting on in `class` promises per second that is left of the
    /// deadline, to be compared with the quality of a server that is free.
    fn promise(&self, class: usize, waiting: &Waiting, waited: f64) -> f64 {
        const STEPS: usize = 16;
        let left = (waiting.window - waited).max(0.0);
        let until = waiting.deadline - waited;
        if until <= 0.0 {
            return 0.0;
        }
        let servers = self.pools.count(class);
        let best = (1..=STEPS)
            .map(|step| {
                let t = left * step as f64 / STEPS as f64;
                (until - t).max(0.0) / until * self.busy[class].any_freed_within(t, servers)
            })
            .fold(0.0, f64::max);
        best * self.quality(class)
    }

    /// Seconds of waiting after which a free server of class `below` is worth
    /// more than waiting on in its own.
    fn switch_point(&self, waiting: &Waiting, below: usize) -> f64 {
        let worth = self.quality(below);
        let stays = |waited: f64| self.promise(waiting.queue, waiting, waited) > worth;
        if !stays(0.0) {
            return 0.0;
        }
        // What is promised only falls as the window closes.
        let (mut stay, mut switch) = (0.0, waiting.window);
        for _ in 0..24 {
            let middle = 0.5 * (stay + switch);
            if stays(middle) {
                stay = middle;
            } else {
                switch = middle;
            }
        }
        switch
    }

    fn offer_overdue(&self, cluster: &Cluster) -> Option<Admitted> {
        // What did not fit rules out what asks for no less.
        let mut too_much: Vec<Demand> = Vec::new();
        let fresh = |job: &u64| self.jobs[job].refused_in != Some(self.state);
        let held = self.held.map(|(job, _)| job).filter(fresh);
        let held = held.filter(|job| self.overdue.contains_key(&self.jobs[job].overdue_rank));
        let others = self.overdue.values().copied().take(DEPTH).filter(fresh);
        for job in held.into_iter().chain(others) {
            let demand = self.jobs[&job].demand;
            let holds = held == Some(job);
            if !holds
                && too_much
                    .iter()
                    .any(|no| demand.cpus >= no.cpus && demand.memory_bytes >= no.memory_bytes)
            {
                continue;
            }
            let empty = cluster.empty_by_kind().flatten();
            if self.has_room(job, cluster, cluster.open().iter().chain(empty).copied()) {
                let kept = self.held.filter(|(holder, _)| *holder != job);
                let allowed = kept.map(|_| self.without_held(job, cluster.ids().collect()));
                return Some(Admitted { job, allowed });
            }
            if !holds {
                too_much.push(demand);
            }
        }
        None
    }

    /// What the head of `class` may have at `now`; else when that may change
    /// by time alone.
    fn offer_head(
        &self,
        class: usize,
        now: f64,
        cluster: &Cluster,
    ) -> (Option<Admitted>, Option<f64>) {
        let Some(job) = self.queues[class].values().next().copied() else {
            return (None, None);
        };
        let waiting = &self.jobs[&job];
        if waiting.refused_in == Some(self.state) {
            return (None, None);
        }
        let in_pool = |pool: usize| {
            Some(Admitted {
                job,
                allowed: Some(self.without_held(job, self.pools.members(pool).clone())),
            })
        };
        let room = |pool: usize| self.has_room(job, cluster, self.pools.members(pool).iter());
        if room(class) {
            return (in_pool(class), None);
        }
        let above = class + 1..self.queues.len();
        let mut unwanted = above.take_while(|above| self.queues[*above].is_empty());
        if let Some(above) = unwanted.find(|above| room(*above)) {
            return (in_pool(above), None);
        }
        let Some(below) = (0..class).rev().find(|below| room(*below)) else {
            return (None, None);
        };
        let at = waiting.arrived + self.switch_point(waiting, below);
        if at <= now {
            (in_pool(below), None)
        } else {
            (None, Some(at))
        }
    }
}

impl Admission for Arq {
    fn name(&self) -> &'static str {
        "arq"
    }

    fn arrive(&mut self, waiter: Waiter, now: f64) {
        self.forget(waiter.job);
        self.arrivals += 1;
        let order = self.arrivals;
        let priority = Reverse(match self.options.priorities {
            true => waiter.priority,
            false => 0,
        });
        let ideal = waiter.ideal_seconds.filter(|ideal| ideal.is_finite());
        let share = self.options.window;
        let window = ideal.map_or(0.0, |ideal| share * ideal - waiter.overhead_seconds);
        let window = window.max(0.0);
        self.most_caused = caused(&waiter.app).unwrap_or(0.0).max(self.most_caused);
        let queue = self.class(&waiter.app);
        let length = match self.options.sjf {
            true => ideal.unwrap_or(f64::INFINITY),
            false => 0.0,
        };
        let patience = match ideal {
            Some(ideal) => window + self.options.patience * ideal,
            None => UNKNOWN_PATIENCE_SECONDS,
        };
        let waiting = Waiting {
            demand: waiter.demand,
            queue,
            rank: (priority, Seconds(length), order),
            overdue_rank: (priority, Seconds(now + window), order),
            arrived: now,
            window,
            deadline: ideal.map_or(0.0, |ideal| (1.0 + share) * ideal - waiter.overhead_seconds),
            patience,
            refused_in: None,
        };
        self.queues[queue].insert(waiting.rank, waiter.job);
        self.windows
            .insert((Seconds(now + window), order), waiter.job);
        self.patience
            .insert((Seconds(now + patience), order), waiter.job);
        self.jobs.insert(waiter.job, waiting);
    }

    fn next(&mut self, now: f64, cluster: &Cluster) -> Option<Admitted> {
        if self.pools.follow(cluster) {
            self.state += 1;
        }
        self.expire(now);
        self.hold(now, cluster);
        self.wake = None;
        if let Some(admitted) = self.offer_overdue(cluster) {
            return Some(admitted);
        }
        let mut wake = self.windows.first_key_value().map(|(end, _)| end.0.0);
        for class in (0..self.queues.len()).rev() {
            let (admitted, later) = self.offer_head(class, now, cluster);
            if admitted.is_some() {
                return admitted;
            }
            wake = wake.into_iter().chain(later).reduce(f64::min);
        }
        // Patience that ends holds a node, which frees none at once.
        self.wake = wake;
        None
    }

    fn started(&mut self, job: u64, nodes: &[NodeId], now: f64, cluster: &Cluster) {
        self.forget(job);
        let pools = nodes.iter().map(|node| self.pools.pool_of(*node));
        let since = pools.map(|pool| (pool, now)).collect();
        self.running.insert(job, since);
        self.pools.update(nodes, cluster);
    }

    fn refused(&mut self, job: u64, _now: f64) {
        let state = self.state;
        if let Some(waiting) = self.jobs.get_mut(&job) {
            waiting.refused_in = Some(state);
        }
    }

    fn ended(&mut self, job: u64, nodes: &[NodeId], now: f64, cluster: &Cluster) {
        self.forget(job);
        for (pool, since) in self.running.remove(&job).unwrap_or_default() {
            self.busy[pool].observe(now - since);
        }
        self.pools.update(nodes, cluster);
        self.state += 1;
    }

    fn changed(&mut self, _now: f64) {
        self.state += 1;
    }

    fn why(&self, job: u64, now: f64) -> Option<String> {
        let waiting = self.jobs.get(&job)?;
        let end = waiting.arrived + waiting.window;
        if end <= now {
            return Some("arq: it takes any server with room; its window is over".into());
        }
        let queue = &self.queues[waiting.queue];
        let ahead = queue.range(..waiting.rank).count();
        Some(format!(
            "arq: class {} of {}, {ahead} ahead of it; it takes any server from {end:.0} s on",
            waiting.queue + 1,
            self.queues.len()
        ))
    }

    fn reads_counters(&self) -> bool {
        false
    }

    fn wake_at(&self) -> Option<f64> {
        self.wake
    }

    fn waiting(&self) -> usize {
        self.jobs.len()
    }
}

#[cfg(test)]
mod tests;
