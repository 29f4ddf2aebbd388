//! Commits: decisions take effect, or conflict with others.

use super::Engine;
use super::Start;
use super::State;
use super::agent::Pending;
use super::agent::has_room;
use super::nodes_of;
use crate::error::SimulationError;
use jostle_schedule::Decision;
use jostle_schedule::NodeId;
use jostle_schedule::NodeSet;
use jostle_schedule::Part;
use jostle_schedule::Waiting;

impl Engine<'_> {
    /// What an agent decided holds from now on.
    pub(super) fn commit(&mut self, index: usize) -> Result<(), SimulationError> {
        let Some(Pending {
            job,
            allowed,
            decision,
            epoch,
        }) = self.agents[index].pending.take()
        else {
            return Ok(());
        };
        match decision {
            Decision::Place(choice) => self.place(index, job, allowed, &choice.parts),
            Decision::QueueAt(nodes) => {
                self.queue_at(index, job, nodes, epoch);
                Ok(())
            }
            Decision::Wait(waiting, until) => {
                self.wait(index, job, allowed.is_some(), waiting, until);
                if self.jobs[job as usize].state == State::Never {
                    return Ok(());
                }
                match until {
                    Some(until) if waiting == Waiting::ForBetter && until > self.now => {
                        self.postponed(index, job, until, epoch);
                    }
                    _ => self.refused(index, job, epoch),
                }
                Ok(())
            }
        }
    }

    fn place(
        &mut self,
        index: usize,
        job: u32,
        allowed: Option<NodeSet>,
        parts: &[Part],
    ) -> Result<(), SimulationError> {
        if self.start(job, parts) {
            return Ok(());
        }
        // Another agent committed first, or a node failed: refresh the view and
        // decide again.
        if self.agents[index].copy.is_some() {
            self.outcome.conflicts += 1;
        }
        let agent = &mut self.agents[index];
        if agent.update_view(&nodes_of(parts), self.world.cluster(), self.now) {
            agent.cluster_changed(self.now);
        }
        self.decide(index, job, allowed)
    }

    /// Starts `job` on `parts` if the cluster has the room.
    fn start(&mut self, job: u32, parts: &[Part]) -> bool {
        let starts = self.starts.as_ref().map(|_| Start {
            job,
            seconds: self.now,
            node: parts[0].node,
            counters: self.world.counters(parts[0].node, &mut self.noise),
        });
        let it = &self.workload.jobs[job as usize];
        if self.world.start(job, it, parts, self.now).is_err() {
            return false;
        }
        if let (Some(all), Some(start)) = (&mut self.starts, starts) {
            all.push(start);
        }
        let progress = &mut self.jobs[job as usize];
        progress.state = State::Running;
        progress.started = progress.started.min(self.now);
        progress.starts += 1;
        progress.known_phase = 0;
        self.waiting -= 1;
        self.running += 1;
        self.without_progress = 0;
        let agent = &mut self.agents[progress.agent as usize];
        let nodes = nodes_of(parts);
        agent.update_view(&nodes, self.world.cluster(), self.now);
        agent.started(job, &nodes, self.now, self.world.cluster());
        agent.may_offer = true;
        true
    }

    /// The job waits at `nodes`, unless one has room at once (late binding).
    fn queue_at(&mut self, index: usize, job: u32, mut nodes: Vec<NodeId>, epoch: u64) {
        let cluster = self.world.cluster();
        nodes.retain(|node| cluster.summary(*node).up);
        if nodes.is_empty() {
            self.refused(index, job, epoch);
            return;
        }
        let agent = &mut self.agents[index];
        agent.started(job, &[], self.now, cluster);
        let cpus = self.workload.jobs[job as usize].demand.cpus;
        for node in &nodes {
            if self.start(job, &[Part { node: *node, cpus }]) {
                return;
            }
        }
        for node in &nodes {
            self.queues[node.index()].push_back(job);
        }
        let progress = &mut self.jobs[job as usize];
        progress.state = State::Queued;
        progress.queued_at = nodes;
    }

    /// Starts who waits at `node` and has room there now, first come first.
    pub(super) fn start_queued(&mut self, node: NodeId) {
        let mut at = 0;
        while let Some(job) = self.queues[node.index()].get(at).copied() {
            let demand = self.workload.jobs[job as usize].demand;
            let cpus = demand.cpus;
            if self.world.cluster().fits(node, demand) && self.start(job, &[Part { node, cpus }]) {
                self.leave_queues(job);
            } else {
                at += 1;
            }
        }
    }

    /// The job waits at nodes no longer.
    fn leave_queues(&mut self, job: u32) {
        for node in std::mem::take(&mut self.jobs[job as usize].queued_at) {
            self.queues[node.index()].retain(|queued| *queued != job);
        }
    }

    /// Nobody waits at `node` any more; those who wait nowhere else ask again.
    pub(super) fn clear_queue(&mut self, node: NodeId) {
        for job in std::mem::take(&mut self.queues[node.index()]) {
            let progress = &mut self.jobs[job as usize];
            progress.queued_at.retain(|other| *other != node);
            if progress.queued_at.is_empty() {
                let agent = &mut self.agents[progress.agent as usize];
                agent.ended(job, &[], self.now, self.world.cluster());
                self.ask_for_place(job);
            }
        }
    }

    fn wait(
        &mut self,
        index: usize,
        job: u32,
        somewhere_only: bool,
        waiting: Waiting,
        until: Option<f64>,
    ) {
        let it = &self.workload.jobs[job as usize];
        let agent = &mut self.agents[index];
        let actual = self.world.cluster();
        let nowhere = !somewhere_only || !agent.view(actual).could_ever_fit(it.demand);
        if waiting == Waiting::Never && nowhere {
            agent.ended(job, &[], self.now, actual);
            self.fits_nowhere(job);
            return;
        }
        let for_all = waiting == Waiting::NoRoom && !somewhere_only && !it.spread;
        if for_all && !has_room(agent.view(actual), it.demand) {
            agent.no_room.push(it.demand);
        }
        if let Some(seconds) = until {
            agent.wake_at(seconds, self.now, index, &mut self.events);
        }
    }
}
