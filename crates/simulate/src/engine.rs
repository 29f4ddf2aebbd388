//! The order of events: who arrives, is placed, ends, changes, breaks.
//!
//! Events of one moment happen in the order: what jobs do by themselves, what
//! was noted for that time, faults, arrivals. After each, every agent that is
//! not busy asks its admission for the next job until there is none. A decision
//! is made on what the agent sees when it begins, keeps the agent busy for its
//! latency, and holds from then on if the cluster still has the room.

mod agent;
mod decide;
mod faults;
mod meter;
mod phases;
mod stopwatch;
#[cfg(test)]
mod tests;

use crate::agenda::EventQueue;
use crate::error::SimulationError;
use crate::outcome::JobRecord;
use crate::outcome::Outcome;
use crate::outcome::Timing;
use crate::random::stream;
use crate::settings::Settings;
use crate::validate::check;
use crate::workload::Workload;
use crate::world::StepKind;
use crate::world::World;
use agent::Agent;
use jostle_schedule::MigrationCosts;
use jostle_schedule::NodeId;
use jostle_schedule::Part;
use jostle_schedule::Policy;
use jostle_schedule::admission::Admission;
use jostle_schedule::admission::Waiter;
use meter::Level;
use meter::Meter;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use std::collections::VecDeque;
use std::time::Instant;
use stopwatch::Stopwatch;

/// A policy and an admission: what one agent is made of.
pub type Scheduler = (Box<dyn Policy>, Box<dyn Admission>);

/// So many events in a row without any progress, with nothing running and
/// nothing to come, mean that there will be none.
const MOST_WITHOUT_PROGRESS: u64 = 10_000;

/// A wish to wait for less is taken for this, so that time goes on.
const LEAST_WAIT_SECONDS: f64 = 1e-3;

/// A start, and what could be read on its node just before.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) job: u32,
    pub(crate) seconds: f64,
    pub(crate) node: NodeId,
    pub(crate) counters: Vec<f32>,
}

/// Something that happens at its time whatever else does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// A job is profiled and wants a place.
    Ready(u32),
    /// An agent has decided.
    Decided(u32),
    /// The new behaviour of a job is known: (job, its how-manieth start, phase).
    Detected(u32, u32, usize),
    NodeRepaired(u32),
    CpuRepaired(u32),
    /// An agent's copy of the cluster is brought up to date.
    Sync(u32),
    /// An agent, or its admission, wanted to be asked again.
    Wake(u32),
}

/// How far a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Not there, or being profiled.
    #[default]
    Coming,
    /// With its admission, or being decided on.
    Waiting,
    /// At nodes, for the first to have room.
    Queued,
    Running,
    Done,
    Never,
}

/// What is kept of a job.
#[derive(Clone, Debug, Default)]
struct Progress {
    state: State,
    agent: u32,
    /// Seconds of its first start; infinite before.
    started: f64,
    finished: f64,
    /// How often it was started.
    starts: u32,
    /// The phase whose profile the cluster has.
    known_phase: usize,
    restarts: u32,
    migrations: u32,
    /// The epoch in which it was last refused, and how often in it.
    refused: (u64, u32),
    /// Where it waits when queued.
    queued_at: Vec<NodeId>,
}

struct Engine<'a> {
    workload: &'a Workload,
    settings: &'a Settings,
    world: World<'a>,
    now: f64,
    events: EventQueue<Event>,
    next_arrival: usize,
    next_fault: usize,
    agents: Vec<Agent>,
    jobs: Vec<Progress>,
    /// Jobs not yet done, nor found to fit nowhere.
    left: usize,
    waiting: u32,
    running: u32,
    /// Jobs dealt to agents so far.
    assigned: usize,
    /// Jobs that wait at each node, first come first.
    queues: Vec<VecDeque<u32>>,
    /// Faults of each node not yet repaired: of the whole, of its CPUs.
    down: Vec<u32>,
    broken: Vec<u32>,
    repairs_to_come: usize,
    cpus_up: u64,
    meter: Meter,
    last_end: f64,
    without_progress: u64,
    costs: MigrationCosts,
    phase_draws: ChaCha8Rng,
    sync_draws: ChaCha8Rng,
    noise: ChaCha8Rng,
    stopwatch: Stopwatch,
    starts: Option<Vec<Start>>,
    /// Its counts grow as the run goes on.
    outcome: Outcome,
}

/// Runs `workload` once with one scheduler per agent, made by `scheduler` from a
/// seed; records counters at every start if `starts` are wanted.
pub(crate) fn run(
    workload: &Workload,
    settings: &Settings,
    scheduler: &mut dyn FnMut(u64) -> Result<Scheduler, SimulationError>,
    starts: bool,
) -> Result<(Outcome, Timing, Vec<Start>), SimulationError> {
    let began = Instant::now();
    check(workload, settings)?;
    let mut engine = Engine::new(workload, settings, scheduler)?;
    engine.starts = starts.then(Vec::new);
    while engine.left > 0 {
        engine.next_event()?;
    }
    let timing = Timing {
        decision_p50_seconds: engine.stopwatch.percentile(0.5),
        decision_p99_seconds: engine.stopwatch.percentile(0.99),
        decisions_seconds: engine.stopwatch.total_seconds(),
        total_seconds: began.elapsed().as_secs_f64(),
    };
    let starts = engine.starts.take().unwrap_or_default();
    Ok((engine.outcome(), timing, starts))
}

fn nodes_of(parts: &[Part]) -> Vec<NodeId> {
    parts.iter().map(|part| part.node).collect()
}

impl<'a> Engine<'a> {
    fn new(
        workload: &'a Workload,
        settings: &'a Settings,
        scheduler: &mut dyn FnMut(u64) -> Result<Scheduler, SimulationError>,
    ) -> Result<Self, SimulationError> {
        let world = World::new(&workload.truth, &workload.nodes)?;
        let count = settings.agents.count;
        let mut agents = Vec::with_capacity(count);
        for index in 0..count as u64 {
            let seed = settings.seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let (policy, admission) = scheduler(seed)?;
            let copy = (count > 1).then(|| world.cluster().clone());
            agents.push(Agent::new(policy, admission, copy));
        }
        let coming = Progress {
            started: f64::INFINITY,
            ..Progress::default()
        };
        let nodes = workload.nodes.len();
        let first = workload.jobs.first().map_or(0.0, |job| job.arrival);
        let mut engine = Engine {
            workload,
            settings,
            now: first.min(0.0),
            events: EventQueue::default(),
            next_arrival: 0,
            next_fault: 0,
            agents,
            jobs: vec![coming; workload.jobs.len()],
            left: workload.jobs.len(),
            waiting: 0,
            running: 0,
            assigned: 0,
            queues: vec![VecDeque::new(); nodes],
            down: vec![0; nodes],
            broken: vec![0; nodes],
            repairs_to_come: 0,
            cpus_up: workload.nodes.iter().map(|n| u64::from(n.cpus)).sum(),
            meter: Meter::new(first),
            last_end: first,
            without_progress: 0,
            costs: MigrationCosts::default(),
            phase_draws: stream(settings.seed, 1),
            sync_draws: stream(settings.seed, 2),
            noise: stream(settings.seed, 3),
            stopwatch: Stopwatch::default(),
            starts: None,
            outcome: Outcome::default(),
            world,
        };
        if count > 1 {
            for agent in 0..count as u32 {
                engine.note_sync(agent);
            }
        }
        Ok(engine)
    }

    fn next_event(&mut self) -> Result<(), SimulationError> {
        let arrival = self.workload.jobs.get(self.next_arrival);
        let arrival = arrival.map_or(f64::INFINITY, |job| job.arrival);
        let fault = self.workload.faults.get(self.next_fault);
        let fault = fault.map_or(f64::INFINITY, |(seconds, _)| *seconds);
        let (own, noted) = (self.world.due(), self.events.due());
        let next = own.min(noted).min(fault).min(arrival);
        let stuck = self.without_progress > MOST_WITHOUT_PROGRESS && self.is_idle();
        if next == f64::INFINITY || stuck {
            return self.give_up();
        }
        self.pass_time(next.max(self.now));
        self.outcome.events += 1;
        self.without_progress += 1;
        if own <= next {
            self.job_does_something();
        } else if noted <= next {
            self.noted_event()?;
        } else if fault <= next {
            self.fault();
        } else {
            self.arrival();
        }
        (0..self.agents.len()).try_for_each(|agent| self.consult(agent))
    }

    fn pass_time(&mut self, now: f64) {
        let level = Level {
            cpus_asked: self.world.cpus_asked(),
            cpus_up: self.cpus_up,
            running: self.running,
            waiting: self.waiting,
        };
        self.meter.until(now, level);
        self.now = now;
    }

    /// Nothing runs, comes, breaks or is repaired: only agents themselves can
    /// still do something.
    fn is_idle(&self) -> bool {
        self.running == 0
            && self.next_arrival == self.jobs.len()
            && self.next_fault == self.workload.faults.len()
            && self.repairs_to_come == 0
    }

    /// Nothing can happen any more. Jobs that could only have been spread, and
    /// were not, fit nowhere; that any other waits is an error.
    fn give_up(&mut self) -> Result<(), SimulationError> {
        let waiting: Vec<u32> = (0u32..)
            .zip(&self.jobs)
            .filter(|(_, job)| !matches!(job.state, State::Done | State::Never))
            .map(|(job, _)| job)
            .collect();
        let fits = |job: &u32| {
            let demand = self.workload.jobs[*job as usize].demand;
            self.world.cluster().could_ever_fit(demand)
        };
        if waiting.is_empty() || waiting.iter().any(fits) {
            return Err(SimulationError::Stuck {
                seconds: self.now.max(0.0) as u64,
                waiting,
            });
        }
        waiting.into_iter().for_each(|job| self.fits_nowhere(job));
        Ok(())
    }

    fn arrival(&mut self) {
        let job = self.next_arrival as u32;
        self.next_arrival += 1;
        self.without_progress = 0;
        self.waiting += 1;
        let profiling = self.workload.jobs[job as usize].profiling_seconds;
        if profiling > 0.0 {
            self.events.note(self.now + profiling, Event::Ready(job));
        } else {
            self.ready(job);
        }
    }

    /// A profiled job is dealt to an agent.
    fn ready(&mut self, job: u32) {
        self.without_progress = 0;
        self.jobs[job as usize].agent = (self.assigned % self.agents.len()) as u32;
        self.assigned += 1;
        let it = &self.workload.jobs[job as usize];
        let sized = it.spread || it.target.is_some();
        if !sized && !self.world.cluster().could_ever_fit(it.demand) {
            self.fits_nowhere(job);
        } else {
            self.ask_for_place(job);
        }
    }

    fn fits_nowhere(&mut self, job: u32) {
        self.jobs[job as usize].state = State::Never;
        self.left -= 1;
        self.waiting -= 1;
    }

    /// A job joins those that wait for its agent.
    fn ask_for_place(&mut self, job: u32) {
        let it = &self.workload.jobs[job as usize];
        let progress = &mut self.jobs[job as usize];
        progress.state = State::Waiting;
        progress.refused = (0, 0);
        let agent = &mut self.agents[progress.agent as usize];
        let waiter = Waiter {
            job: u64::from(job),
            app: it.phases[0].estimate.clone(),
            demand: it.demand,
            ideal_seconds: Some(it.work_seconds),
            overhead_seconds: it.profiling_seconds,
            priority: it.priority,
        };
        agent.admission.arrive(waiter, self.now);
        agent.may_offer = true;
    }

    fn job_does_something(&mut self) {
        let Some(step) = self.world.step() else {
            return;
        };
        match step.what {
            StepKind::Finished(parts) => self.finished(step.job, &parts),
            StepKind::PhaseBegan => self.phase_began(step.job),
            StepKind::Resumed => {}
        }
    }

    fn finished(&mut self, job: u32, parts: &[Part]) {
        let progress = &mut self.jobs[job as usize];
        progress.state = State::Done;
        progress.finished = self.now;
        self.left -= 1;
        self.running -= 1;
        self.last_end = self.now;
        self.outcome.utilization = self.meter.utilization();
        self.has_left(job, parts);
    }

    /// Tells everybody that `job` is gone from `parts`, where there is room now.
    fn has_left(&mut self, job: u32, parts: &[Part]) {
        self.without_progress = 0;
        let nodes = nodes_of(parts);
        let agent = &mut self.agents[self.jobs[job as usize].agent as usize];
        agent.update_view(&nodes, self.world.cluster(), self.now);
        agent.ended(job, &nodes, self.now, self.world.cluster());
        for node in nodes {
            self.start_queued(node);
        }
    }

    fn noted_event(&mut self) -> Result<(), SimulationError> {
        match self.events.pop() {
            Some(Event::Ready(job)) => self.ready(job),
            Some(Event::Decided(agent)) => self.commit(agent as usize)?,
            Some(Event::Detected(job, start, phase)) => self.detected(job, start, phase)?,
            Some(Event::NodeRepaired(node)) => self.node_repaired(node as usize),
            Some(Event::CpuRepaired(node)) => self.cpu_repaired(node as usize),
            Some(Event::Sync(agent)) => self.sync(agent),
            Some(Event::Wake(agent)) => {
                let agent = &mut self.agents[agent as usize];
                if agent.wakes(self.now) {
                    agent.cluster_changed(self.now);
                }
            }
            None => {}
        }
        Ok(())
    }

    fn note_sync(&mut self, agent: u32) {
        let [least, most] = self.settings.agents.sync_seconds;
        let after = least + (most - least) * self.sync_draws.random::<f64>();
        self.events.note(self.now + after, Event::Sync(agent));
    }

    /// Nothing new was seen while all is idle: nothing will be before an agent
    /// wakes up, however long a policy wants to wait for something better.
    fn note_sync_at_wake(&mut self, agent: u32) {
        let wakes = self.agents.iter().map(|agent| agent.wake);
        let first = wakes.fold(f64::INFINITY, f64::min);
        match first > self.now && first < f64::INFINITY {
            true => self.events.note(first, Event::Sync(agent)),
            false => self.note_sync(agent),
        }
    }

    /// Brings an agent's whole copy up to date.
    fn sync(&mut self, index: u32) {
        let agent = &mut self.agents[index as usize];
        let news = agent.update_view(self.world.ids(), self.world.cluster(), self.now);
        if news {
            agent.cluster_changed(self.now);
        }
        let deciding = self.agents.iter().any(|agent| agent.pending.is_some());
        if news || deciding || !self.is_idle() {
            self.note_sync(index);
        } else {
            self.note_sync_at_wake(index);
        }
    }

    /// The outcome of the run.
    fn outcome(self) -> Outcome {
        let (mut jobs, mut never) = (Vec::new(), Vec::new());
        for (index, (it, progress)) in self.workload.jobs.iter().zip(&self.jobs).enumerate() {
            if progress.state == State::Never {
                never.push(index as u32);
                continue;
            }
            let app = &self.workload.truth.apps[it.phases[0].truth as usize];
            // Who reaches a target can do no more for its owner than reach it.
            let asked = app.scaling.by_cpus(f64::from(it.demand.cpus));
            let (ideal, most) = match it.target {
                Some(target) => (it.work_seconds * asked / target, 1.0),
                None => (it.work_seconds, f64::INFINITY),
            };
            jobs.push(JobRecord {
                job: index as u32,
                class: it.class,
                arrival: it.arrival,
                started: progress.started,
                finished: progress.finished,
                queued_seconds: (progress.started - it.arrival - it.profiling_seconds).max(0.0),
                ideal_seconds: ideal,
                performance: (ideal / (progress.finished - progress.started)).min(most),
                with_waiting: (ideal / (progress.finished - it.arrival)).min(most),
                qos: f64::from(app.qos),
                restarts: progress.restarts,
                migrations: progress.migrations,
            });
        }
        let first = self.workload.jobs.first().map_or(0.0, |job| job.arrival);
        Outcome {
            policy: self.settings.policy.clone(),
            admission: self.settings.admission.clone(),
            seed: self.settings.seed,
            jobs,
            never,
            makespan_seconds: self.last_end - first,
            samples: self.meter.into_samples(),
            ..self.outcome
        }
    }
}
