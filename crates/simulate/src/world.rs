//! The true state of a cluster: how fast every job really goes.
//!
//! A job's rate is work (seconds alone on the best platform with the CPUs it
//! asks for) per second. With `s` a part's share of the job's CPUs:
//!
//! ```text
//! rate = Σ over parts  s × speed(platform) / best speed
//!                        × speed-up(CPUs given) / speed-up(CPUs asked for)
//!                        × exp(min(0, Σ curves ln P(min(100, scale × Σ c of the others))
//!                                     + Σ residuals of the others))
//! ```
//!
//! A job spread over nodes causes its pressure in proportion to its CPUs on
//! each. `cpu-time` applies no pressure on a node whose applications have CPUs
//! of their own.

pub(crate) mod counters;
mod interference;
mod steps;
#[cfg(test)]
mod tests;

use crate::agenda::Agenda;
use crate::error::WorldError;
use crate::truth::Truth;
use crate::workload::Job;
use jostle_profile::resource::Resource;
use jostle_schedule::App;
use jostle_schedule::Cluster;
use jostle_schedule::ClusterError;
use jostle_schedule::Node;
use jostle_schedule::NodeId;
use jostle_schedule::Part;
use jostle_schedule::ResidentId;
use jostle_schedule::predict::LANES;
use jostle_schedule::predict::Lanes;
use std::sync::Arc;
use steps::points;
use steps::to_steps;

/// What the world did by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// The job has done its work and is gone.
    Finished,
    /// The job behaves as in its next phase from now on.
    PhaseBegan,
    /// A job that was stopped for a move goes on.
    Resumed,
}

/// A job that no longer runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Departure {
    /// Where it ran, in the order of its parts.
    pub parts: Vec<Part>,
    /// Seconds of work done.
    pub work_done: f64,
}

/// A step of the world.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub seconds: f64,
    pub job: u32,
    pub what: StepKind,
    /// What a finished job left.
    pub left: Option<Departure>,
}

/// What is computed once of a true application.
#[derive(Clone, Debug)]
struct Facts {
    caused: Lanes<i32>,
    best_speed: f64,
}

/// A part of a job at a node.
#[derive(Clone, Debug)]
struct Presence {
    run: u32,
    /// Which of the run's parts.
    part: u32,
    /// Index into the true applications.
    app: u32,
    caused: Lanes<i32>,
    /// Sum over the others, in steps.
    residual: i64,
}

/// The true state of a node.
#[derive(Clone, Debug)]
struct Site {
    /// Index into the true platforms.
    platform: u32,
    /// The resource index that applies no pressure here; [`LANES`] when there is
    /// none.
    unshared_lane: usize,
    caused: Lanes<i32>,
    present: Vec<Presence>,
}

#[derive(Clone, Debug)]
struct RunPart {
    part: Part,
    resident: ResidentId,
    /// Share × speed × speed-up.
    weight: f64,
    /// What interference leaves of it, 0–1.
    kept: f64,
}

/// A job that runs.
#[derive(Clone, Debug)]
struct Run<'a> {
    id: u32,
    job: &'a Job,
    phase: usize,
    parts: Vec<RunPart>,
    work_done: f64,
    /// Seconds to which `work_done` is valid.
    at: f64,
    rate: f64,
    stopped_until: Option<f64>,
    /// Seconds at which something happens to it next.
    due: f64,
}

impl Run<'_> {
    fn home(&self) -> usize {
        self.parts[0].part.node.index()
    }

    fn advance(&mut self, now: f64) {
        if now > self.at {
            self.work_done += self.rate * (now - self.at);
            self.at = now;
        }
    }

    /// The work at which the next phase begins, or the end of it.
    fn goal(&self) -> (f64, bool) {
        match self.job.phases.get(self.phase + 1) {
            Some(next) if next.from < 1.0 => (next.from * self.job.work_seconds, false),
            _ => (self.job.work_seconds, true),
        }
    }

    fn predict(&mut self) {
        if let Some(until) = self.stopped_until {
            self.rate = 0.0;
            self.due = until;
            return;
        }
        self.rate = self.parts.iter().map(|part| part.weight * part.kept).sum();
        self.due = self.at + (self.goal().0 - self.work_done).max(0.0) / self.rate;
    }
}

/// A cluster as policies see it, together with the ground truth.
#[derive(Clone, Debug)]
pub struct World<'a> {
    truth: &'a Truth,
    facts: Vec<Facts>,
    cluster: Cluster,
    ids: Vec<NodeId>,
    sites: Vec<Site>,
    runs: Vec<Option<Run<'a>>>,
    vacant: Vec<u32>,
    /// Place in `runs` + 1 by job; 0 for one that does not run.
    by_job: Vec<u32>,
    agenda: Agenda,
    cpus_asked: u64,
}

impl<'a> World<'a> {
    /// `nodes`, up and empty, under `truth`.
    ///
    /// # Errors
    ///
    /// When the nodes make no cluster, a node's platform is not in `truth`, or
    /// an application lacks a speed there.
    pub fn new(truth: &'a Truth, nodes: &[Node]) -> Result<Self, WorldError> {
        let facts = truth.apps.iter().map(|app| {
            let best = app.speed.iter().copied().fold(0.0, f32::max);
            Facts {
                caused: app.caused.map(|points| to_steps(f64::from(points))),
                best_speed: f64::from(best),
            }
        });
        let mut world = World {
            truth,
            facts: facts.collect(),
            cluster: Cluster::default(),
            ids: Vec::with_capacity(nodes.len()),
            sites: Vec::with_capacity(nodes.len()),
            runs: Vec::new(),
            vacant: Vec::new(),
            by_job: Vec::new(),
            agenda: Agenda::new(nodes.len()),
            cpus_asked: 0,
        };
        for app in &truth.apps {
            if app.speed.len() != truth.platforms.len() {
                return Err(WorldError::Speeds {
                    app: app.name.clone(),
                    given: app.speed.len(),
                    platforms: truth.platforms.len(),
                });
            }
            for (speed, platform) in app.speed.iter().zip(&truth.platforms) {
                if !(speed.is_finite() && *speed > 0.0) {
                    return Err(WorldError::Speed {
                        app: app.name.clone(),
                        platform: platform.name.clone(),
                    });
                }
            }
        }
        for node in nodes {
            world.add_node(node.clone())?;
        }
        Ok(world)
    }

    /// A further node, up and empty.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn add_node(&mut self, node: Node) -> Result<NodeId, WorldError> {
        let name = node.platform.as_deref().unwrap_or_default();
        let known = self.truth.platforms.iter().position(|p| p.name == name);
        let platform = known.ok_or_else(|| WorldError::UnknownPlatform {
            node: node.name.clone(),
            platform: name.into(),
        })?;
        let unshared_lane = match node.shares_cpus {
            true => LANES,
            false => Resource::CpuTime as usize,
        };
        let id = self.cluster.add_node(node)?;
        self.ids.push(id);
        self.sites.push(Site {
            platform: platform as u32,
            unshared_lane,
            caused: [0; LANES],
            present: Vec::new(),
        });
        self.agenda.grow(self.sites.len());
        Ok(id)
    }

    /// What policies see.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Every node in the order of adding.
    pub fn ids(&self) -> &[NodeId] {
        &self.ids
    }

    /// CPUs asked for by everything that runs.
    pub fn cpus_asked(&self) -> u64 {
        self.cpus_asked
    }

    /// `job`, called `id` from now on, begins its first phase on `parts`.
    /// Its memory is divided among them as its CPUs are.
    ///
    /// # Errors
    ///
    /// When a part does not fit; nothing has changed then.
    ///
    /// # Panics
    ///
    /// When `id` runs already, when there is no part, and when a phase names an
    /// application that the truth does not have.
    pub fn start(
        &mut self,
        id: u32,
        job: &'a Job,
        parts: &[Part],
        now: f64,
    ) -> Result<(), ClusterError> {
        assert!(!self.runs(id), "job {id} runs already");
        let parts = self.admit(job, &job.phases[0].estimate, parts)?;
        let run = Run {
            id,
            job,
            phase: 0,
            parts,
            work_done: 0.0,
            at: now,
            rate: 0.0,
            stopped_until: None,
            due: f64::INFINITY,
        };
        let place = match self.vacant.pop() {
            Some(place) => place,
            None => {
                self.runs.push(None);
                (self.runs.len() - 1) as u32
            }
        };
        if id as usize >= self.by_job.len() {
            self.by_job.resize(id as usize + 1, 0);
        }
        self.by_job[id as usize] = place + 1;
        self.runs[place as usize] = Some(run);
        self.attach(place);
        self.settle_run(place, now);
        Ok(())
    }

    /// Whether job `id` runs.
    pub fn runs(&self, id: u32) -> bool {
        self.place(id).is_some()
    }

    /// Takes a running job away before its end: it loses what it has done.
    /// `None` when it does not run.
    pub fn evict(&mut self, id: u32, now: f64) -> Option<Departure> {
        let place = self.place(id)?;
        Some(self.end(place, now))
    }

    /// Moves a running job to `parts`, where it goes on after `stop_seconds`;
    /// its profile in the cluster stays what it was.
    ///
    /// # Errors
    ///
    /// When a part does not fit; the job runs on where it was then.
    ///
    /// # Panics
    ///
    /// When the job does not run or there is no part.
    pub fn migrate(
        &mut self,
        id: u32,
        parts: &[Part],
        stop_seconds: f64,
        now: f64,
    ) -> Result<(), ClusterError> {
        let place = self.place(id).expect("the job runs");
        let estimate = self.estimate(id).expect("the job runs").clone();
        let job = self.run(place).job;
        let before: Vec<Part> = self.parts(id).collect();
        self.detach(place);
        for part in &self.run(place).parts.clone() {
            self.cluster.remove(part.resident);
        }
        let (held, outcome) = match self.admit(job, &estimate, parts) {
            Ok(held) => (held, Ok(())),
            Err(why) => {
                let held = self.admit(job, &estimate, &before);
                (held.expect("it fitted a moment ago"), Err(why))
            }
        };
        let run = self.run_mut(place);
        run.advance(now);
        run.parts = held;
        if outcome.is_ok() {
            run.stopped_until = Some(now + stop_seconds);
        }
        self.attach(place);
        self.settle_run(place, now);
        for part in before {
            self.settle(part.node.index(), now);
        }
        outcome
    }

    /// Gives a running job another profile in the cluster, where it was taken
    /// for another one; its true behaviour does not change.
    pub fn set_estimate(&mut self, id: u32, estimate: &Arc<App>) {
        let Some(place) = self.place(id) else { return };
        let parts = self.runs[place as usize].iter().flat_map(|run| &run.parts);
        for part in parts {
            self.cluster.replace(part.resident, estimate.clone());
        }
    }

    /// The profile under which a running job stands in the cluster.
    pub fn estimate(&self, id: u32) -> Option<&Arc<App>> {
        let resident = self.run(self.place(id)?).parts[0].resident;
        Some(&self.cluster.resident(resident)?.app)
    }

    /// Where a running job is; nothing for one that does not run.
    pub fn parts(&self, id: u32) -> impl Iterator<Item = Part> + '_ {
        let run = self.place(id).map(|place| self.run(place));
        run.into_iter()
            .flat_map(|run| run.parts.iter().map(|part| part.part))
    }

    /// The residents of the cluster that a running job is.
    pub fn residents(&self, id: u32) -> impl Iterator<Item = ResidentId> + '_ {
        let run = self.place(id).map(|place| self.run(place));
        run.into_iter()
            .flat_map(|run| run.parts.iter().map(|part| part.resident))
    }

    /// The jobs on `node`, in no order; one with several parts there is told
    /// several times.
    pub fn jobs_on(&self, node: NodeId) -> impl Iterator<Item = u32> + '_ {
        let present = self.sites[node.index()].present.iter();
        present.map(|presence| self.run(presence.run).id)
    }

    /// Seconds of work done by a running job at `now`.
    pub fn work_done(&self, id: u32, now: f64) -> Option<f64> {
        let run = self.run(self.place(id)?);
        Some(run.work_done + run.rate * (now - run.at).max(0.0))
    }

    /// The phase a running job is in, from 0.
    pub fn phase(&self, id: u32) -> Option<usize> {
        Some(self.run(self.place(id)?).phase)
    }

    /// Points of pressure on each resource of `node`, all of its jobs together,
    /// on its platform's own scale; may pass 100.
    pub fn pressure(&self, node: NodeId) -> Lanes<f32> {
        let site = &self.sites[node.index()];
        let scale = &self.truth.platforms[site.platform as usize].pressure_scale;
        std::array::from_fn(|lane| points(site.caused[lane]) * scale[lane])
    }

    /// Takes `node` out of service; the jobs that ran there, or on it and
    /// others, are gone.
    pub fn take_down(&mut self, node: NodeId, now: f64) -> Vec<(u32, Departure)> {
        let mut jobs: Vec<u32> = self.jobs_on(node).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let gone = jobs
            .into_iter()
            .filter_map(|job| Some((job, self.evict(job, now)?)))
            .collect();
        self.cluster.take_down(node);
        gone
    }

    /// Puts `node` back into service with all its CPUs.
    pub fn bring_up(&mut self, node: NodeId) {
        self.cluster.bring_up(node);
    }

    /// One CPU of `node` breaks. While what runs there asks for more than is
    /// left, the job that has done the least work goes.
    pub fn break_cpu(&mut self, node: NodeId, now: f64) -> Vec<(u32, Departure)> {
        self.cluster.break_cpu(node);
        let mut gone = Vec::new();
        while self.cluster.cpus_used(node) > u64::from(self.cluster.summary(node).cpus) {
            let done = |job: u32| self.work_done(job, now).unwrap_or(0.0);
            let least = self
                .jobs_on(node)
                .min_by(|a, b| done(*a).total_cmp(&done(*b)).then(a.cmp(b)));
            let Some(job) = least else { break };
            gone.extend(self.evict(job, now).map(|left| (job, left)));
        }
        gone
    }

    /// One broken CPU of `node` works again.
    pub fn repair_cpu(&mut self, node: NodeId) {
        self.cluster.repair_cpu(node);
    }

    /// When the world next does something by itself; infinite when nothing
    /// runs.
    pub fn due(&self) -> f64 {
        self.agenda.first().0
    }

    /// Does what is due next; `None` when nothing runs.
    pub fn step(&mut self) -> Option<Step> {
        let (seconds, node) = self.agenda.first();
        if seconds.is_infinite() {
            return None;
        }
        let place = self.first_at(node)?;
        let run = self.run_mut(place);
        let job = run.id;
        run.advance(seconds);
        let step = |what, left| Step {
            seconds,
            job,
            what,
            left,
        };
        if run.stopped_until.take().is_some() {
            self.settle_run(place, seconds);
            return Some(step(StepKind::Resumed, None));
        }
        let (goal, last) = run.goal();
        debug_assert!((run.work_done - goal).abs() <= 1e-6 * goal.max(1.0));
        run.work_done = goal;
        if last {
            let left = self.end(place, seconds);
            return Some(step(StepKind::Finished, Some(left)));
        }
        self.detach(place);
        self.run_mut(place).phase += 1;
        self.attach(place);
        self.settle_run(place, seconds);
        Some(step(StepKind::PhaseBegan, None))
    }

    fn place(&self, id: u32) -> Option<u32> {
        self.by_job.get(id as usize)?.checked_sub(1)
    }

    fn run(&self, place: u32) -> &Run<'a> {
        self.runs[place as usize].as_ref().expect("a running job")
    }

    fn run_mut(&mut self, place: u32) -> &mut Run<'a> {
        self.runs[place as usize].as_mut().expect("a running job")
    }

    /// The job of `node` that is due first; among equals that of lower number.
    fn first_at(&self, node: usize) -> Option<u32> {
        let at_home = self.sites[node].present.iter().filter_map(|presence| {
            let run = self.run(presence.run);
            (run.home() == node).then_some((run.due, run.id, presence.run))
        });
        let first = at_home.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
        Some(first.2)
    }

    fn end(&mut self, place: u32, now: f64) -> Departure {
        self.detach(place);
        let mut run = self.runs[place as usize].take().expect("a running job");
        run.advance(now);
        self.vacant.push(place);
        self.by_job[run.id as usize] = 0;
        for part in &run.parts {
            self.cluster.remove(part.resident);
        }
        for part in &run.parts {
            self.settle(part.part.node.index(), now);
        }
        Departure {
            parts: run.parts.iter().map(|part| part.part).collect(),
            work_done: run.work_done,
        }
    }

    /// Room in the cluster for every part, or for none.
    fn admit(
        &mut self,
        job: &Job,
        estimate: &Arc<App>,
        parts: &[Part],
    ) -> Result<Vec<RunPart>, ClusterError> {
        assert!(!parts.is_empty(), "a job runs somewhere");
        let mut held: Vec<RunPart> = Vec::with_capacity(parts.len());
        for part in parts {
            let demand = part.demand(parts, job.demand);
            let admitted = self.cluster.admit_as(part.node, estimate.clone(), demand);
            match admitted {
                Ok(resident) => held.push(RunPart {
                    part: *part,
                    resident,
                    weight: 0.0,
                    kept: 1.0,
                }),
                Err(why) => {
                    for part in &held {
                        self.cluster.remove(part.resident);
                    }
                    return Err(why);
                }
            }
        }
        Ok(held)
    }
}
