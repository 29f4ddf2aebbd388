//! One try at a place: the policy chooses, the admission may veto.

use super::answers::some_of;
use super::state::Job;
use super::state::Stream;
use super::state::Waiter;
use crate::admission::Verdict;
use crate::cluster::NodeId;
use crate::cluster::node_set::NodeSet;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::PlacementRequest;
use serde_json::Value;
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;

impl Stream {
    /// Tries every waiting job once, in the order of arrival, and answers for
    /// those that found a place.
    pub(super) fn retry(&mut self) -> Vec<Value> {
        let free = |of: fn(&crate::cluster::summary::NodeSummary) -> u64| {
            let up = self.cluster.summaries().iter().filter(|summary| summary.up);
            up.map(of).max().unwrap_or(0)
        };
        let cpus = free(|summary| u64::from(summary.free_cpus));
        let memory = free(|summary| summary.free_memory);
        let worth = |waiter: &Waiter| {
            waiter.flexible
                || u64::from(waiter.demand.cpus) <= cpus && waiter.demand.memory_bytes <= memory
        };
        let candidates: Vec<(u64, String)> = self
            .waiting
            .iter()
            .filter(|(_, waiter)| worth(waiter))
            .map(|(number, waiter)| (*number, waiter.id.clone()))
            .collect();
        // What was refused once in this round is refused to its equals.
        let mut refused = HashSet::new();
        let mut answers = Vec::new();
        for (number, id) in candidates {
            let Some(job) = self.jobs.get(&id) else {
                continue;
            };
            let kind = (
                Arc::as_ptr(&job.app),
                job.demand.cpus,
                job.demand.memory_bytes,
                job.spread,
                job.target.map(f64::to_bits),
                job.seconds.map(f64::to_bits),
            );
            // One that queues at nodes of its own has no equals.
            let queues = !job.queued_at.is_empty();
            if !queues && refused.contains(&kind) {
                continue;
            }
            match self.attempt(&id, None) {
                Ok(placed) => {
                    self.waiting.remove(&number);
                    answers.push(placed);
                }
                Err(_) if !queues => {
                    refused.insert(kind);
                }
                Err(_) => {}
            }
        }
        answers
    }

    /// Places a job that waits, or says why not; it then goes on waiting.
    pub(super) fn place(&mut self, id: &str) -> Value {
        match self.attempt(id, None) {
            Ok(placed) => {
                if let Some(job) = self.jobs.get(id) {
                    self.waiting.remove(&job.number);
                }
                placed
            }
            Err(why) => waiting(id, &why),
        }
    }

    /// The answer that places a job on nodes that are `allowed`, or why it has to wait.
    pub(super) fn attempt(
        &mut self,
        id: &str,
        mut allowed: Option<NodeSet>,
    ) -> Result<Value, String> {
        let Some(job) = self.jobs.get(id).cloned() else {
            return Err("it has left".into());
        };
        let mut vetoed: Vec<String> = Vec::new();
        let (choice, admitted) = loop {
            let choice = match self.choose(id, &job, allowed.as_ref()) {
                Ok(choice) => choice,
                Err(why) if vetoed.is_empty() => return Err(why),
                Err(_) => return Err(format!("vetoed: {}", vetoed.join("; "))),
            };
            match self.judged(&job, &choice) {
                Some((node, verdict)) if !verdict.admitted => {
                    let every = || self.cluster.ids().collect();
                    allowed.get_or_insert_with(every).remove(node);
                    vetoed.push(format!("{}: {}", self.cluster.name(node), verdict.words));
                    // It waits for one of the nodes that were drawn for it.
                    if !job.queued_at.is_empty() {
                        return Err(format!("vetoed: {}", vetoed.join("; ")));
                    }
                }
                said => break (choice, said.map(|(_, verdict)| verdict.words)),
            }
        };
        let mut decision = self.explained(&job, &choice);
        if let Some(words) = admitted {
            decision["admission"] = json!(words);
        }
        let Some(parts) = self.start(id, &choice) else {
            let (policy, node) = (self.policy.name(), self.cluster.name(choice.node()));
            return Err(format!("{policy} chose {node}, which has no room for it"));
        };
        if let Some(job) = self.jobs.get_mut(id) {
            job.parts = parts;
            job.queued_at.clear();
        }
        self.gate.forget_job(job.number);
        Ok(json!({
            "answer": "placed",
            "decision": decision,
            "id": id,
            "node": self.cluster.name(choice.node()),
        }))
    }

    /// What the admission says of a start on nodes, where it looks at them. What was
    /// answered once stands: nothing is said while events are replayed.
    pub(super) fn judged(&mut self, job: &Job, choice: &Choice) -> Option<(NodeId, Verdict)> {
        if self.recorded.is_some() {
            return None;
        }
        let (number, app) = (job.number, job.app.name());
        self.gate
            .judge(number, app, choice, &self.cluster, self.now)
    }

    /// What the policy chooses among the nodes that are `allowed`, or why it has to wait.
    fn choose(&mut self, id: &str, job: &Job, allowed: Option<&NodeSet>) -> Result<Choice, String> {
        let request = PlacementRequest {
            allowed,
            ..self.request(job)
        };
        if self.recorded.is_some() {
            let choice = self.recorded_choice(id, &request);
            return choice.ok_or_else(|| "it waited when this was recorded".into());
        }
        let queued_at = &job.queued_at;
        let up = |node: &NodeId| self.cluster.summary(*node).up;
        let room = |node: &&NodeId| request.may_use(&self.cluster, **node);
        let answer = match queued_at.iter().any(up) {
            true => match queued_at.iter().find(room) {
                Some(node) => Decision::place(*node, &request),
                None => Decision::QueueAt(queued_at.clone()),
            },
            false => self.policy.choose(&request, &self.cluster),
        };
        match answer {
            Decision::Place(choice) => Ok(choice),
            Decision::QueueAt(nodes) => {
                let names = nodes.iter().map(|node| self.cluster.name(*node));
                let why = format!("the first of {} to have room takes it", some_of(names));
                if let Some(job) = self.jobs.get_mut(id) {
                    job.queued_at = nodes;
                }
                Err(why)
            }
            Decision::Wait(waiting, _) => Err(self.why_waiting(&request, waiting)),
        }
    }
}

/// It waits, and why.
pub(super) fn waiting(id: &str, why: &str) -> Value {
    json!({"answer": "waiting", "id": id, "why": why})
}
