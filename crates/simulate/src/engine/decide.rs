//! Agents decide.

use super::Engine;
use super::Event;
use super::agent::Pending;
use crate::error::BadPlacement;
use crate::error::SimulationError;
use jostle_schedule::Cluster;
use jostle_schedule::Decision;
use jostle_schedule::NodeId;
use jostle_schedule::NodeSet;
use jostle_schedule::PlacementRequest;

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
