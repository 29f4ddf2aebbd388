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
#[cfg(test)]
mod tests;

use crate::agenda::Agenda;
use crate::error::WorldError;
use crate::truth::Truth;
use crate::workload::Job;
use interference::points;
use interference::to_steps;
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
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the world did by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum StepKind {
    /// The job has done its work and is gone from these parts.
    Finished(Vec<Part>),
    /// The job behaves as in its next phase from now on.
    PhaseBegan,
    /// A job that was stopped for a move goes on.
    Resumed,
}

/// A step of the world.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub seconds: f64,
    pub job: u32,
    pub what: StepKind,
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
    job: u32,
    /// Which of the job's parts.
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
    /// By job.
    runs: Vec<Option<Box<Run<'a>>>>,
    agenda: Agenda,
    cpus_asked: u64,
}

impl<'a> World<'a> {
    /// `nodes`, up and empty, under `truth`. Refused when the nodes make no
    /// cluster, a node's platform is not in `truth`, or an application lacks a
    /// speed there.
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
            agenda: Agenda::default(),
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

    /// `job`, called `id` from now on (a number that is not much higher than
    /// there are jobs), begins its first phase on `parts`. Its memory is divided
    /// among them as its CPUs are. When a part does not fit, nothing has changed.
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
        assert!(self.running(id).is_none(), "job {id} runs already");
        let parts = self.admit(job, &job.phases[0].estimate, parts)?;
        if id as usize >= self.runs.len() {
            self.runs.resize(id as usize + 1, None);
        }
        self.runs[id as usize] = Some(Box::new(Run {
            id,
            job,
            phase: 0,
            parts,
            work_done: 0.0,
            at: now,
            rate: 0.0,
            stopped_until: None,
            due: f64::INFINITY,
        }));
        self.attach(id);
        self.settle_run(id, now);
        Ok(())
    }

    /// Moves a running job to `parts`, where it goes on after `stop_seconds`;
    /// its profile in the cluster stays what it was. When a part does not fit,
    /// the job runs on where it was.
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
        let estimate = self.estimate(id).expect("the job runs").clone();
        let job = self.run(id).job;
        let before: Vec<Part> = self.parts(id).collect();
        self.detach(id);
        for part in &self.run(id).parts.clone() {
            self.cluster.remove(part.resident);
        }
        let (held, outcome) = match self.admit(job, &estimate, parts) {
            Ok(held) => (held, Ok(())),
            Err(why) => {
                let held = self.admit(job, &estimate, &before);
                (held.expect("it fitted a moment ago"), Err(why))
            }
        };
        let run = self.run_mut(id);
        run.advance(now);
        run.parts = held;
        if outcome.is_ok() {
            run.stopped_until = Some(now + stop_seconds);
        }
        self.attach(id);
        self.settle_run(id, now);
        for part in before {
            self.settle(part.node.index(), now);
        }
        outcome
    }

    /// Gives a running job another profile in the cluster, where it was taken
    /// for another one; its true behaviour does not change.
    pub fn set_estimate(&mut self, id: u32, estimate: &Arc<App>) {
        for resident in self.residents(id).collect::<Vec<_>>() {
            self.cluster.replace(resident, estimate.clone());
        }
    }

    /// The profile under which a running job stands in the cluster.
    pub fn estimate(&self, id: u32) -> Option<&Arc<App>> {
        let resident = self.residents(id).next()?;
        Some(&self.cluster.resident(resident)?.app)
    }

    /// Where a running job is; nothing for one that does not run.
    pub fn parts(&self, id: u32) -> impl Iterator<Item = Part> + '_ {
        let parts = self.running(id).into_iter().flat_map(|run| &run.parts);
        parts.map(|part| part.part)
    }

    /// The residents of the cluster that a running job is.
    pub fn residents(&self, id: u32) -> impl Iterator<Item = ResidentId> + '_ {
        let parts = self.running(id).into_iter().flat_map(|run| &run.parts);
        parts.map(|part| part.resident)
    }

    /// The jobs on `node`, in no order; one with several parts there is told
    /// several times.
    pub fn jobs_on(&self, node: NodeId) -> impl Iterator<Item = u32> + '_ {
        let present = self.sites[node.index()].present.iter();
        present.map(|presence| presence.job)
    }

    /// Seconds of work done by a running job at `now`.
    pub fn work_done(&self, id: u32, now: f64) -> Option<f64> {
        let run = self.running(id)?;
        Some(run.work_done + run.rate * (now - run.at).max(0.0))
    }

    /// The phase a running job is in, from 0.
    pub fn phase(&self, id: u32) -> Option<usize> {
        Some(self.running(id)?.phase)
    }

    /// Points of pressure on each resource of `node`, all of its jobs together,
    /// on its platform's own scale; may pass 100.
    pub fn pressure(&self, node: NodeId) -> Lanes<f32> {
        let site = &self.sites[node.index()];
        let scale = &self.truth.platforms[site.platform as usize].pressure_scale;
        std::array::from_fn(|lane| points(site.caused[lane]) * scale[lane])
    }

    /// Takes `node` out of service; the jobs that ran there, or on it and
    /// others, are gone from where they were.
    pub fn take_down(&mut self, node: NodeId, now: f64) -> Vec<(u32, Vec<Part>)> {
        let jobs: BTreeSet<u32> = self.jobs_on(node).collect();
        let gone = jobs.into_iter().map(|job| (job, self.end(job, now)));
        let gone = gone.collect();
        self.cluster.take_down(node);
        gone
    }

    /// Puts `node` back into service with all its CPUs.
    pub fn bring_up(&mut self, node: NodeId) {
        self.cluster.bring_up(node);
    }

    /// One CPU of `node` breaks. While what runs there asks for more than is
    /// left, the job that has done the least work goes.
    pub fn break_cpu(&mut self, node: NodeId, now: f64) -> Vec<(u32, Vec<Part>)> {
        self.cluster.break_cpu(node);
        let mut gone = Vec::new();
        while self.cluster.cpus_used(node) > u64::from(self.cluster.summary(node).cpus) {
            let done = |job: u32| self.work_done(job, now).unwrap_or(0.0);
            let least = self
                .jobs_on(node)
                .min_by(|a, b| done(*a).total_cmp(&done(*b)).then(a.cmp(b)));
            let Some(job) = least else { break };
            gone.push((job, self.end(job, now)));
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
        let job = self.first_at(node)?;
        let run = self.run_mut(job);
        run.advance(seconds);
        let what = if run.stopped_until.take().is_some() {
            self.settle_run(job, seconds);
            StepKind::Resumed
        } else {
            let (goal, last) = run.goal();
            debug_assert!((run.work_done - goal).abs() <= 1e-6 * goal.max(1.0));
            run.work_done = goal;
            match last {
                true => StepKind::Finished(self.end(job, seconds)),
                false => {
                    self.detach(job);
                    self.run_mut(job).phase += 1;
                    self.attach(job);
                    self.settle_run(job, seconds);
                    StepKind::PhaseBegan
                }
            }
        };
        Some(Step { seconds, job, what })
    }

    fn running(&self, id: u32) -> Option<&Run<'a>> {
        self.runs.get(id as usize)?.as_deref()
    }

    fn run(&self, id: u32) -> &Run<'a> {
        self.running(id).expect("a running job")
    }

    fn run_mut(&mut self, id: u32) -> &mut Run<'a> {
        self.runs[id as usize].as_mut().expect("a running job")
    }

    /// The job of `node` that is due first; among equals that of lower number.
    fn first_at(&self, node: usize) -> Option<u32> {
        let present = self.sites[node].present.iter();
        let runs = present.map(|presence| self.run(presence.job));
        let at_home = runs.filter(|run| run.home() == node);
        let first = at_home.min_by(|a, b| a.due.total_cmp(&b.due).then(a.id.cmp(&b.id)));
        first.map(|run| run.id)
    }

    /// Where job `id` was until now.
    fn end(&mut self, id: u32, now: f64) -> Vec<Part> {
        self.detach(id);
        let run = self.runs[id as usize].take().expect("a running job");
        for part in &run.parts {
            self.cluster.remove(part.resident);
        }
        for part in &run.parts {
            self.settle(part.part.node.index(), now);
        }
        run.parts.iter().map(|part| part.part).collect()
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
            match self.cluster.admit_as(part.node, estimate.clone(), demand) {
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
