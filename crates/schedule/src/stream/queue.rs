//! Who is tried next: in the order of arrival, or in that of an admission.

use super::attempt::waiting;
use super::state::Job;
use super::state::Stream;
use crate::admission::Waiter;
use crate::cluster::NodeId;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeMap;

impl Stream {
    /// Answers for jobs that have come to wait, with the node that they come `from`
    /// where there is one; and for those whom an admission places before them.
    pub(super) fn place_all(&mut self, ids: &[String], from: Option<&str>) -> Vec<Value> {
        let mut own: BTreeMap<&str, Value> = BTreeMap::new();
        let mut others = Vec::new();
        if self.gate.queue().is_none() {
            own = ids.iter().map(|id| (id.as_str(), self.place(id))).collect();
        } else {
            for id in ids {
                self.enqueue(id);
            }
            let (placed, mut refused) = self.drain();
            for answer in placed {
                let is_own = |id: &&String| answer["id"] == id.as_str();
                match ids.iter().find(is_own) {
                    Some(id) => _ = own.insert(id, answer),
                    None => others.push(answer),
                }
            }
            for id in ids
                .iter()
                .filter(|id| !own.contains_key(id.as_str()))
                .collect::<Vec<_>>()
            {
                let number = self.jobs.get(id).map_or(0, |job| job.number);
                let because = [refused.remove(&number), self.gate.why(number, self.now)];
                let because: Vec<String> = because.into_iter().flatten().collect();
                own.insert(id, waiting(id, &because.join("; ")));
            }
        }
        let answers = ids.iter().filter_map(|id| own.remove(id.as_str()));
        let answers = answers.map(|mut answer| {
            if let Some(from) = from {
                answer["from"] = json!(from);
            }
            answer
        });
        answers.chain(others).collect()
    }

    /// After a change: answers for those that now have a place.
    pub(super) fn offer_again(&mut self) -> Vec<Value> {
        match self.gate.queue() {
            None => self.retry(),
            Some(queue) => {
                queue.changed(self.now);
                self.drain().0
            }
        }
    }

    fn enqueue(&mut self, id: &str) {
        let Some(job) = self.jobs.get(id) else {
            return;
        };
        let waiter = waiter(job);
        if let Some(queue) = self.gate.queue() {
            queue.arrive(waiter, self.now);
        }
    }

    /// Tries whom the admission names until it names nobody: answers for the placed,
    /// and why others were not, by number.
    fn drain(&mut self) -> (Vec<Value>, BTreeMap<u64, String>) {
        if let Some(recorded) = &self.recorded {
            let ids: Vec<String> = recorded.keys().cloned().collect();
            return (self.start_again(&ids), BTreeMap::new());
        }
        let (mut placed, mut refused) = (Vec::new(), BTreeMap::new());
        // Every offer is refused at most once before something changes, and every
        // start is a change.
        let mut offers = (self.waiting.len() + 1) * (self.waiting.len() + 16);
        while offers > 0
            && let Some(queue) = self.gate.queue()
            && let Some(offer) = queue.next(self.now, &self.cluster)
        {
            offers -= 1;
            let job = offer.job;
            let Some(id) = self.waiting.get(&job).map(|waiter| waiter.id.clone()) else {
                queue.ended(job, &[], self.now, &self.cluster);
                continue;
            };
            let answer = self.attempt(&id, offer.allowed);
            let nodes = self.nodes_of(&id);
            let Some(queue) = self.gate.queue() else {
                break;
            };
            match answer {
                Ok(answer) => {
                    queue.started(job, &nodes, self.now, &self.cluster);
                    self.waiting.remove(&job);
                    placed.push(answer);
                }
                Err(why) => {
                    queue.refused(job, self.now);
                    refused.insert(job, why);
                }
            }
        }
        (placed, refused)
    }

    /// Places those that an event which is replayed placed, whoever is next now, and
    /// tells the admission.
    fn start_again(&mut self, ids: &[String]) -> Vec<Value> {
        if let Some(queue) = self.gate.queue() {
            // It learns of the nodes; whom it would offer does not matter.
            queue.next(self.now, &self.cluster);
        }
        let mut placed = Vec::new();
        for id in ids {
            let waits = self.jobs.get(id).filter(|job| job.parts.is_empty());
            let Some(number) = waits.map(|job| job.number) else {
                continue;
            };
            let Ok(answer) = self.attempt(id, None) else {
                continue;
            };
            let nodes = self.nodes_of(id);
            if let Some(queue) = self.gate.queue() {
                queue.started(number, &nodes, self.now, &self.cluster);
            }
            self.waiting.remove(&number);
            placed.push(answer);
        }
        placed
    }

    fn nodes_of(&self, id: &str) -> Vec<NodeId> {
        let parts = self.jobs.get(id).map_or(&[][..], |job| &job.parts);
        let nodes = parts.iter().filter_map(|part| self.cluster.resident(*part));
        nodes.map(|resident| resident.node).collect()
    }
}

fn waiter(job: &Job) -> Waiter {
    Waiter {
        job: job.number,
        app: job.app.clone(),
        demand: job.demand,
        ideal_seconds: job.seconds,
        overhead_seconds: 0.0,
        priority: 0,
    }
}
