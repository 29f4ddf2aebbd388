//! Agents decide; decisions take effect, or conflict with others.

use super::Engine;
use super::Event;
use super::Start;
use super::State;
use super::agent::Pending;
use super::agent::has_room;
use super::nodes_of;
use crate::error::BadPlacement;
use crate::error::SimulationError;
use jostle_schedule::Cluster;
use jostle_schedule::Decision;
use jostle_schedule::NodeId;
use jostle_schedule::NodeSet;
use jostle_schedule::Part;
use jostle_schedule::PlacementRequest;
use jostle_schedule::Waiting;

/// An admission may send a policy's choice back so often.
const VETOES: u32 = 3;

/// And offer a job so often, each time for other nodes, before something has
/// changed; more would not end.
const OFFERS: u32 = 16;

impl Engine<'_> {
    /// Lets an idle agent begin its next decision.
    pub(super) fn consult(&mut self, index: usize) -> Result<(), SimulationError> {
        while self.agents[index].may_offer && self.agents[index].pending.is_none() {
            let agent = &mut self.agents[index];
            let seen = agent.copy.as_ref().unwrap_or(self.world.cluster());
            let offer = agent.admission.next(self.now, seen);
            let Some(offer) = offer.filter(|offer| {
                let (epoch, times) = self.jobs[offer.job as usize].refused;
                epoch != agent.epoch || times < OFFERS
            }) else {
                agent.may_offer = false;
                if let Some(seconds) = agent.admission.wake_at() {
                    agent.wake_at(seconds, self.now, index, &mut self.events);
                }
                return Ok(());
            };
            let job = offer.job as u32;
            let it = &self.workload.jobs[offer.job as usize];
            if offer.allowed.is_none() && !it.spread && agent.is_known_full(it.demand) {
                let epoch = agent.epoch;
                self.refused(index, job, epoch);
            } else {
                self.decide(index, job, offer.allowed)?;
            }
        }
        Ok(())
    }

    /// There was no place for `job` in that epoch; what has changed since then
    /// may help it.
    pub(super) fn refused(&mut self, index: usize, job: u32, epoch: u64) {
        let agent = &mut self.agents[index];
        let refused = &mut self.jobs[job as usize].refused;
        let times = if refused.0 == epoch { refused.1 } else { 0 };
        *refused = (epoch, times + 1);
        agent.admission.refused(u64::from(job), self.now);
        agent.offer_if_changed_since(epoch, self.now);
    }

    /// The policy wants to be asked about `job` at `until` again and not before.
    pub(super) fn postponed(&mut self, index: usize, job: u32, until: f64, epoch: u64) {
        let agent = &mut self.agents[index];
        agent.admission.postponed(u64::from(job), until, self.now);
        agent.offer_if_changed_since(epoch, self.now);
    }

    /// The agent decides about `job`, and is busy until it has.
    pub(super) fn decide(
        &mut self,
        index: usize,
        job: u32,
        allowed: Option<NodeSet>,
    ) -> Result<(), SimulationError> {
        let it = &self.workload.jobs[job as usize];
        let (mut examined, mut vetoes, mut vetoed) = (0, 0, None);
        let mut narrowed = allowed.clone();
        let decision = loop {
            let request = PlacementRequest {
                app: &it.phases[0].estimate,
                demand: it.demand,
                allowed: narrowed.as_ref(),
                now: self.now,
                waited_seconds: self.now - it.arrival - it.profiling_seconds,
                ideal_seconds: Some(it.work_seconds),
                spread: it.spread,
                target: it.target,
            };
            let agent = &mut self.agents[index];
            let seen = agent.copy.as_ref().unwrap_or(self.world.cluster());
            let policy = &mut agent.policy;
            let decision = self.stopwatch.time(|| policy.choose(&request, seen));
            let policy = policy.name();
            check_decision(&decision, &request, seen)
                .map_err(|why| SimulationError::BadChoice { policy, job, why })?;
            match decision {
                Decision::Place(choice) => {
                    examined += choice.examined;
                    let node = choice.node();
                    let counters = match agent.admission.reads_counters() {
                        true => self.world.counters(node, &mut self.noise),
                        false => Vec::new(),
                    };
                    let admission = &mut agent.admission;
                    let stands = admission.accept(u64::from(job), node, &counters, self.now);
                    if stands || vetoes == VETOES {
                        break Decision::Place(choice);
                    }
                    vetoes += 1;
                    let all = || self.world.ids().iter().copied().collect();
                    narrowed.get_or_insert_with(all).remove(node);
                    vetoed = Some(choice);
                }
                Decision::QueueAt(nodes) => {
                    examined += nodes.len() as u32;
                    break Decision::QueueAt(nodes);
                }
                // Only what was vetoed has room: the last choice stands.
                wait => match vetoed.take() {
                    Some(choice) => break Decision::Place(choice),
                    None => break wait,
                },
            }
        };
        self.outcome.decisions += 1;
        let latency = &self.settings.latency;
        let busy = latency.base_seconds + latency.per_examined_seconds * f64::from(examined);
        let decided = Event::Decided(index as u32);
        self.events.note(self.now + busy, decided);
        let agent = &mut self.agents[index];
        agent.pending = Some(Pending {
            job,
            allowed,
            decision,
            epoch: agent.epoch,
        });
        Ok(())
    }
}

/// Why an answer breaks the rules.
fn check_decision(
    decision: &Decision,
    request: &PlacementRequest,
    cluster: &Cluster,
) -> Result<(), BadPlacement> {
    let name = |node: NodeId| cluster.name(node).to_string();
    let allowed = |node: NodeId| match request.allowed.is_none_or(|set| set.contains(node)) {
        true => Ok(()),
        false => Err(BadPlacement::NotAllowed(name(node))),
    };
    match decision {
        Decision::Place(choice) => {
            if choice.parts.is_empty() {
                return Err(BadPlacement::NoPart);
            }
            for (at, part) in choice.parts.iter().enumerate() {
                allowed(part.node)?;
                let mut before = choice.parts[..at].iter();
                if before.any(|other| other.node == part.node) {
                    return Err(BadPlacement::NamedTwice(name(part.node)));
                }
                let demand = part.demand(&choice.parts, request.demand);
                if let Some(lacks) = cluster.lacks(part.node, demand) {
                    let (node, lacks) = (name(part.node), lacks.to_string());
                    return Err(BadPlacement::Lacks { node, lacks });
                }
            }
            Ok(())
        }
        Decision::QueueAt(nodes) if nodes.is_empty() => Err(BadPlacement::NoQueue),
        Decision::QueueAt(nodes) => nodes.iter().try_for_each(|node| {
            let (it, demand) = (cluster.node(*node), request.demand);
            match it.cpus >= demand.cpus && it.memory_bytes >= demand.memory_bytes {
                true => allowed(*node),
                false => Err(BadPlacement::TooSmall(it.name.clone())),
            }
        }),
        Decision::Wait(..) => Ok(()),
    }
}

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
