//! One strategy on one load.

use super::load::Jobs;
use super::population::PLATFORM;
use super::population::Population;
use super::scenario::CloudScenario;
use super::scenario::GREEDY;
use crate::agenda::EventQueue;
use crate::error::InvalidKey;
use crate::random;
use crate::workload::Job;
use crate::world::Step;
use crate::world::StepKind;
use crate::world::World;
use jostle_schedule::App;
use jostle_schedule::Decision;
use jostle_schedule::FULL_SCALE;
use jostle_schedule::Node;
use jostle_schedule::NodeId;
use jostle_schedule::NodeSet;
use jostle_schedule::Part;
use jostle_schedule::PlacementRequest;
use jostle_schedule::Policy;
use jostle_schedule::PolicyOptions;
use jostle_schedule::policy_kind;
use jostle_schedule::predict::LANES;
use jostle_schedule::provision::Bill;
use jostle_schedule::provision::Dynamic;
use jostle_schedule::provision::LARGEST;
use jostle_schedule::provision::Mapper;
use jostle_schedule::provision::Mapping;
use jostle_schedule::provision::QualityHistory;
use jostle_schedule::provision::Releases;
use jostle_schedule::provision::SIZES;
use jostle_schedule::provision::Situation;
use jostle_schedule::provision::Strategy;
use jostle_schedule::provision::Target;
use jostle_schedule::provision::quality_left;
use jostle_schedule::provision::quality_needed;
use jostle_schedule::to_points;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What became of one job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub class: u16,
    pub work: f64,
    pub arrived: f64,
    pub started: f64,
    pub finished: f64,
    pub qos: f64,
}

/// What one strategy did.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub strategy: Strategy,
    pub with_profiles: bool,
    pub jobs: Vec<Done>,
    pub bill: Bill,
    pub makespan: f64,
    pub reserved_instances: u32,
    /// vCPU-seconds in use on the reserved side.
    pub reserved_busy: f64,
    /// On-demand instances rented in all, and the most at once.
    pub rented: usize,
    pub most_at_once: usize,
    /// Instance-seconds on demand.
    pub on_demand_seconds: f64,
    /// Released at once for bad performance.
    pub poor: usize,
    /// Jobs that waited for the reserved side.
    pub queued: usize,
}

/// The queue and the soft limit are looked at every so many seconds.
const TICK_SECONDS: f64 = 10.0;

/// At most so many of the queue are tried when something comes free.
const DEPTH: usize = 32;

/// Instances of every size looked at before the scenario begins.
const KNOWN_BEFORE: usize = 32;

/// What happens outside the world.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// An on-demand instance is there.
    Ready(usize),
    /// An instance has been idle for as long as it may, if nothing has happened
    /// to it since.
    Expired(usize, u32),
    Tick,
}

/// An on-demand instance.
#[derive(Clone, Debug, Default)]
struct Instance {
    /// Place in [`SIZES`].
    size: usize,
    /// `None` until it is there.
    node: Option<NodeId>,
    /// Jobs that wait for it to be there.
    bound: Vec<u32>,
    /// Jobs on it.
    running: usize,
    /// Since when it is paid for.
    since: f64,
    /// Its last job met its QoS.
    well: bool,
    /// How often a job has left it.
    idle: u32,
    /// `None` for a whole machine and before it is there.
    co_tenants: Option<usize>,
}

struct Simulation<'a> {
    scenario: &'a CloudScenario,
    population: &'a Population,
    jobs: &'a [Job],
    /// By size; co-tenants have a number there.
    tenants: &'a [Vec<Job>],
    /// `None` for the greedy search.
    policy: Option<Box<dyn Policy>>,
    world: World<'a>,
    /// The first nodes of the world.
    reserved: Arc<[NodeId]>,
    reserved_used: u32,
    mapper: Mapper,
    /// Where a hybrid maps jobs by its load.
    dynamic: Option<Dynamic>,
    instances: Vec<Instance>,
    /// Those that are not released, in order of renting.
    live: BTreeSet<usize>,
    /// Instance by node, after the reserved ones.
    instance_of: Vec<usize>,
    /// By size.
    quality: [QualityHistory; SIZES.len()],
    releases: [Releases; SIZES.len()],
    queue: Vec<u32>,
    events: EventQueue<Event>,
    started: Vec<f64>,
    rng: ChaCha8Rng,
    now: f64,
    record: Record,
}

/// By how many points the tolerances of `newcomer` and `residents` would be
/// overrun in all if they ran together; what is not known is not counted.
fn overrun<'a>(newcomer: &'a App, residents: impl Iterator<Item = &'a App> + Clone) -> f64 {
    let everybody = residents.chain(std::iter::once(newcomer));
    let mut pressure = [0i32; LANES];
    for app in everybody.clone() {
        for (sum, own) in pressure.iter_mut().zip(&app.caused) {
            *sum += own;
        }
    }
    let mut over = 0i64;
    for app in everybody {
        for lane in app.tolerated_on(false).iter() {
            let others = (pressure[lane] - app.caused[lane]).min(FULL_SCALE);
            over += i64::from((others - app.tolerated[lane]).max(0));
        }
    }
    over as f64 * to_points(1)
}

pub(super) fn run(
    scenario: &CloudScenario,
    population: &Population,
    jobs: &Jobs,
    strategy: Strategy,
    with_profiles: bool,
    seed: u64,
) -> Result<Record, InvalidKey> {
    let (least, peak) = scenario.span();
    let count = strategy.reserved_instances(least, peak, scenario.overprovision);
    let node = |n: u32| node(format!("reserved-{n}"), LARGEST);
    let nodes: Vec<Node> = (0..count).map(node).collect();
    let world = World::new(&population.truth, &nodes)
        .map_err(|error| InvalidKey::new("load", error.into()))?;
    let policy = match (with_profiles, scenario.placement.as_str()) {
        (true, GREEDY) => None,
        (true, name) => policy_kind(name),
        (false, _) => policy_kind("least-loaded"),
    };
    let options = PolicyOptions {
        seed,
        ..PolicyOptions::default()
    };
    let mapping = scenario.mapping()?;
    let jobs_of_run = match with_profiles {
        true => &jobs.profiled,
        false => &jobs.bare,
    };
    let simulation = Simulation {
        scenario,
        population,
        jobs: jobs_of_run,
        tenants: &jobs.tenants,
        policy: policy.map(|kind| (kind.make)(&options)),
        reserved: world.ids().into(),
        reserved_used: 0,
        world,
        mapper: Mapper::new(mapping, seed),
        dynamic: match mapping {
            Mapping::Dynamic(dynamic) if strategy.is_hybrid() => Some(dynamic),
            _ => None,
        },
        instances: Vec::new(),
        live: BTreeSet::new(),
        instance_of: Vec::new(),
        quality: Default::default(),
        releases: Default::default(),
        queue: Vec::new(),
        events: EventQueue::default(),
        started: vec![f64::NAN; jobs_of_run.len()],
        rng: random::stream(seed, 3),
        now: 0.0,
        record: Record {
            strategy,
            with_profiles,
            jobs: Vec::with_capacity(jobs_of_run.len()),
            bill: Bill::reserved(u64::from(count) * u64::from(LARGEST)),
            makespan: 0.0,
            reserved_instances: count,
            reserved_busy: 0.0,
            rented: 0,
            most_at_once: 0,
            on_demand_seconds: 0.0,
            poor: 0,
            queued: 0,
        },
    };
    Ok(simulation.finish())
}

fn node(name: String, cpus: u32) -> Node {
    Node {
        name,
        cpus,
        memory_bytes: 0,
        platform: Some(PLATFORM.into()),
        shares_cpus: false,
    }
}

impl<'a> Simulation<'a> {
    fn finish(mut self) -> Record {
        for size in 0..SIZES.len() {
            for _ in 0..KNOWN_BEFORE {
                let co_tenants = &self.tenants[size][self.co_tenants(size)];
                let at = self.rng.random_range(0..co_tenants.phases.len());
                self.observe_quality(size, co_tenants.phases[at].truth);
            }
        }
        self.events.note(0.0, Event::Tick);
        let mut arrivals = 0;
        while self.record.jobs.len() < self.jobs.len() {
            let arrival = self.jobs.get(arrivals);
            let arrival = arrival.map_or(f64::INFINITY, |job| job.arrival);
            let (due, event) = (self.world.due(), self.events.due());
            if due <= arrival && due <= event {
                let Some(step) = self.world.step() else { break };
                self.now = step.seconds;
                self.handle_step(step);
            } else if arrival <= event {
                self.now = arrival;
                self.arrive(arrivals as u32);
                arrivals += 1;
            } else if let Some(what) = self.events.pop() {
                self.now = event;
                self.event(what);
            }
        }
        for instance in self.live.clone() {
            self.release(instance);
        }
        self.record.makespan = self.now;
        self.record
    }

    fn job(&self, job: u32) -> &'a Job {
        &self.jobs[job as usize]
    }

    fn event(&mut self, what: Event) {
        match what {
            Event::Ready(instance) => self.ready(instance),
            Event::Expired(instance, idle) => {
                let state = &self.instances[instance];
                if state.running == 0 && state.idle == idle && self.live.contains(&instance) {
                    self.release(instance);
                }
            }
            Event::Tick => {
                self.mapper.follow(self.now, self.queue.len());
                self.drain();
                self.rent_for_late();
                self.events.note(self.now + TICK_SECONDS, Event::Tick);
            }
        }
    }

    fn arrive(&mut self, job: u32) {
        let strategy = self.record.strategy;
        let size = strategy.on_demand_size(self.job(job).demand.cpus);
        let target = match (strategy, size) {
            (Strategy::StaticReserved, _) | (_, None) => Target::Reserved,
            (Strategy::OnDemandFull | Strategy::OnDemandMixed, _) => Target::OnDemand,
            (_, Some(size)) => self.mapper.target(&self.situation(self.job(job), size)),
        };
        match (target, size) {
            (Target::OnDemand, Some(size)) => self.on_demand(job, size),
            (Target::OnDemandLarge, _) => self.on_demand(job, LARGEST),
            (Target::Reserved, _) if self.start_reserved(job) => {}
            _ => {
                self.record.queued += 1;
                self.queue.push(job);
            }
        }
    }

    fn reserved_cpus(&self) -> u32 {
        self.reserved.len() as u32 * LARGEST
    }

    fn situation(&self, job: &Job, size: u32) -> Situation {
        let needs = || quality_needed(&job.phases[0].estimate);
        let share = self.scenario.dynamic.share_of_instances;
        let total = self.reserved_cpus().max(1);
        let releases = &self.releases[place(job.demand.cpus)];
        Situation {
            needs: self.record.with_profiles.then(needs).flatten(),
            on_demand_reaches: self.quality[place(size)].reached_by(share),
            reserved_utilization: f64::from(self.reserved_used) / f64::from(total),
            expected_wait: releases.expected_wait(self.queue.len()),
            large_spin_up: self.scenario.spin_up.mean(),
        }
    }

    /// Where `job` goes among `nodes`, and by how many points that would
    /// overrun what is tolerated; `None` when there is no room, or the policy
    /// would rather wait.
    fn best(&mut self, job: u32, nodes: impl Iterator<Item = NodeId>) -> Option<(NodeId, f64)> {
        let job = self.job(job);
        let cluster = self.world.cluster();
        let app = &job.phases[0].estimate;
        let nodes = nodes.filter(|node| cluster.fits(*node, job.demand));
        let over = |node: NodeId| {
            let residents = cluster.residents(node);
            overrun(app, residents.map(|(_, resident)| resident.app.as_ref()))
        };
        if let Some(policy) = &mut self.policy {
            let allowed: NodeSet = nodes.collect();
            let request = PlacementRequest {
                allowed: Some(&allowed),
                now: self.now,
                ..PlacementRequest::of(app)
            };
            return match policy.choose(&request, cluster) {
                Decision::Place(choice) => Some((choice.node(), over(choice.node()))),
                Decision::QueueAt(_) | Decision::Wait(..) => None,
            };
        }
        // The least overrun; of those the emptiest where all are paid for
        // anyway, and the fullest on demand, so that others can go.
        let rank = |node: NodeId| {
            let free = i64::from(cluster.summary(node).free_cpus);
            let on_demand = node.index() >= self.reserved.len();
            if on_demand { free } else { -free }
        };
        nodes
            .map(|node| (node, over(node), rank(node)))
            .min_by(|a, b| a.1.total_cmp(&b.1).then(a.2.cmp(&b.2)).then(a.0.cmp(&b.0)))
            .map(|(node, over, _)| (node, over))
    }

    fn start(&mut self, job: u32, node: NodeId) -> bool {
        let it = self.job(job);
        let cpus = it.demand.cpus;
        let started = self.world.start(job, it, &[Part { node, cpus }], self.now);
        if started.is_ok() {
            self.started[job as usize] = self.now;
        }
        started.is_ok()
    }

    fn start_reserved(&mut self, job: u32) -> bool {
        let nodes = self.reserved.clone();
        let best = self.best(job, nodes.iter().copied());
        let started = best.is_some_and(|(node, _)| self.start(job, node));
        if started {
            self.reserved_used += self.job(job).demand.cpus;
        }
        started
    }

    /// Gives `job` an on-demand instance of `size` vCPUs: one that is there,
    /// one that is on its way, or a new one.
    fn on_demand(&mut self, job: u32, size: u32) {
        let size = place(size);
        let live = self.live.iter().map(|at| &self.instances[*at]);
        let there: Vec<NodeId> = live
            .filter(|instance| instance.size == size && (instance.well || instance.running > 0))
            .filter_map(|instance| instance.node)
            .collect();
        let limit = self.scenario.overrun_points;
        if let Some((node, over)) = self.best(job, there.into_iter())
            && over <= limit
            && self.start(job, node)
        {
            let instance = self.instance_of[node.index() - self.reserved.len()];
            self.instances[instance].running += 1;
            return;
        }
        let it = self.job(job);
        let on_its_way = self.live.iter().copied().find(|at| {
            let instance = &self.instances[*at];
            let bound = instance.bound.iter().map(|job| self.job(*job));
            let asked: u32 = bound.clone().map(|job| job.demand.cpus).sum();
            let estimates = bound.map(|job| job.phases[0].estimate.as_ref());
            instance.node.is_none()
                && instance.size == size
                && asked + it.demand.cpus <= SIZES[size]
                && overrun(&it.phases[0].estimate, estimates) <= limit
        });
        let instance = on_its_way.unwrap_or_else(|| self.rent(size));
        self.instances[instance].bound.push(job);
    }

    fn rent(&mut self, size: usize) -> usize {
        let spin_up = &self.scenario.spin_up;
        let [from, to] = match self.rng.random::<f64>() < spin_up.late_share {
            true => spin_up.late_seconds,
            false => spin_up.usual_seconds,
        };
        let since = self.now + (from + (to - from) * self.rng.random::<f64>());
        let instance = self.instances.len();
        self.instances.push(Instance {
            size,
            since,
            well: true,
            ..Instance::default()
        });
        self.live.insert(instance);
        self.record.rented += 1;
        self.record.most_at_once = self.record.most_at_once.max(self.live.len());
        self.events.note(since, Event::Ready(instance));
        instance
    }

    /// The co-tenants of a new instance, by number in the list of its size.
    fn co_tenants(&mut self, size: usize) -> usize {
        self.rng.random_range(0..self.tenants[size].len())
    }

    /// Notes the quality of an instance beside co-tenants `truth`, as seen with
    /// an error of up to 5 points.
    fn observe_quality(&mut self, size: usize, truth: u32) {
        let mut pressure = *self.population.caused(truth);
        for points in pressure.iter_mut().filter(|points| **points > 0.0) {
            *points += self.rng.random_range(-5.0..5.0);
        }
        self.quality[size].observe(quality_left(&pressure));
    }

    /// The number under which the co-tenants of `instance` run in the world.
    fn co_tenant_id(&self, instance: usize) -> u32 {
        (self.jobs.len() + instance) as u32
    }

    fn ready(&mut self, instance: usize) {
        let size = self.instances[instance].size;
        let whole = SIZES[size] == LARGEST;
        // The co-tenants take a vCPU of their own.
        let cpus = SIZES[size] + u32::from(!whole);
        let added = self
            .world
            .add_node(node(format!("on-demand-{instance}"), cpus));
        let Ok(node) = added else {
            unreachable!("names are counted and the platform is that of the truth")
        };
        self.instance_of.push(instance);
        self.instances[instance].node = Some(node);
        if whole {
            self.quality[size].observe(1.0);
        } else {
            let number = self.co_tenants(size);
            let co_tenants = &self.tenants[size][number];
            self.instances[instance].co_tenants = Some(number);
            let here = self.co_tenant_id(instance);
            let part = [Part { node, cpus: 1 }];
            let started = self.world.start(here, co_tenants, &part, self.now);
            debug_assert!(started.is_ok(), "the node is new and empty");
            self.observe_quality(size, co_tenants.phases[0].truth);
        }
        for job in std::mem::take(&mut self.instances[instance].bound) {
            let started = self.start(job, node);
            debug_assert!(started, "what was bound to it fits");
            self.instances[instance].running += 1;
        }
    }

    /// Gives an instance back.
    fn release(&mut self, instance: usize) {
        self.live.remove(&instance);
        let state = &self.instances[instance];
        let held = (self.now - state.since).max(0.0);
        self.record.on_demand_seconds += held;
        let prices = &self.scenario.prices;
        self.record
            .bill
            .use_on_demand(SIZES[state.size], held, prices);
        if let Some(node) = state.node {
            self.world.take_down(node, self.now);
        }
    }

    fn handle_step(&mut self, step: Step) {
        let StepKind::Finished(parts) = step.what else {
            return;
        };
        let Some(job) = self.jobs.get(step.job as usize) else {
            return;
        };
        let started = self.started[step.job as usize];
        let done = Done {
            class: job.class,
            work: job.work_seconds,
            arrived: job.arrival,
            started,
            finished: self.now,
            qos: f64::from(job.phases[0].estimate.qos()),
        };
        self.record.jobs.push(done);
        let node = parts[0].node;
        if let Some(at) = node.index().checked_sub(self.reserved.len()) {
            let satisfied = done.work / (self.now - started) >= done.qos;
            return self.left(self.instance_of[at], satisfied);
        }
        let cpus = job.demand.cpus;
        self.reserved_used -= cpus;
        self.record.reserved_busy += f64::from(cpus) * (self.now - started);
        for (size, releases) in SIZES.iter().zip(&mut self.releases) {
            if *size <= cpus {
                releases.observe(self.now);
            }
        }
        self.drain();
    }

    /// Starts those of the queue that find room on the reserved side, in order.
    fn drain(&mut self) {
        let limit = self.dynamic.map_or(1.0, |dynamic| dynamic.hard_limit);
        let most = limit * f64::from(self.reserved_cpus());
        let mut at = 0;
        for _ in 0..DEPTH {
            if at >= self.queue.len() || f64::from(self.reserved_used) >= most {
                break;
            }
            match self.start_reserved(self.queue[at]) {
                true => drop(self.queue.remove(at)),
                false => at += 1,
            }
        }
    }

    /// Those of the queue who are now expected to wait for longer than a whole
    /// machine takes to appear get one.
    fn rent_for_late(&mut self) {
        let mut ahead = 0;
        while self.dynamic.is_some() && ahead < self.queue.len() {
            let job = self.queue[ahead];
            let wait = self.releases[place(self.job(job).demand.cpus)].expected_wait(ahead);
            if wait.is_some_and(|wait| wait > self.scenario.spin_up.mean()) {
                self.queue.remove(ahead);
                self.on_demand(job, LARGEST);
            } else {
                ahead += 1;
            }
        }
    }

    /// A job has left an on-demand instance, `satisfied` or not.
    fn left(&mut self, instance: usize, satisfied: bool) {
        let state = &mut self.instances[instance];
        state.running -= 1;
        state.well = satisfied;
        state.idle += 1;
        let (size, idle, running) = (state.size, state.idle, state.running);
        let co_tenants = state.co_tenants;
        match (co_tenants, self.world.phase(self.co_tenant_id(instance))) {
            (Some(co_tenants), Some(phase)) => {
                let truth = self.tenants[size][co_tenants].phases[phase].truth;
                self.observe_quality(size, truth);
            }
            _ => self.quality[size].observe(1.0),
        }
        if running > 0 {
            return;
        }
        self.record.poor += usize::from(!satisfied);
        let spin_up = self.scenario.spin_up.mean();
        let until = self.scenario.retention.until(self.now, spin_up, satisfied);
        if until <= self.now {
            self.release(instance);
        } else {
            self.events.note(until, Event::Expired(instance, idle));
        }
    }
}

fn place(size: u32) -> usize {
    let at = SIZES.iter().position(|offered| *offered >= size);
    at.unwrap_or(SIZES.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_schedule::predict::Responses;

    #[test]
    fn overrun_by_hand() {
        let app = |tolerated: f64, caused: f64| {
            let mut app = App::bare("a", Responses::default());
            app.set_scores(10, Some(tolerated), Some(caused));
            app
        };
        let residents = [app(50.0, 30.0), app(20.0, 25.0)];
        // Pressure 30 + 25 + 10. The first feels 35 of 50; the second 40 of 20;
        // the newcomer 55 of 40.
        assert_eq!(overrun(&app(40.0, 10.0), residents.iter()), 35.0);
        assert_eq!(overrun(&app(40.0, 10.0), [].iter()), 0.0);
        let unknown = App::bare("b", Responses::default());
        assert_eq!(overrun(&unknown, residents.iter()), 10.0, "what was there");
    }

    #[test]
    fn places_of_sizes() {
        assert_eq!([1, 2, 3, 8, 9, 16, 99].map(place), [0, 1, 2, 3, 4, 4, 4]);
    }
}
