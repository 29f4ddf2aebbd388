//! The stream's answers in words.

use super::answers::MOST_NAMED;
use super::state::Job;
use super::state::Stream;
use crate::cluster::NodeId;
use crate::policy::Choice;
use crate::policy::PlacementRequest;
use crate::policy::Waiting;
use crate::sizing;
use serde_json::Value;
use serde_json::json;

impl Stream {
    pub(super) fn why_waiting(&self, request: &PlacementRequest, waiting: Waiting) -> String {
        let lead = match waiting {
            Waiting::NoRoom => "no node has the room now",
            Waiting::Never => "no node could take it, even up and empty",
            Waiting::ForBetter => "waiting promises more than what is free now",
        };
        let reasons = self.cluster.ids().take(MOST_NAMED).map(|node| {
            let lacks = self.cluster.lacks(node, request.demand);
            let why = lacks.unwrap_or_else(|| self.policy.unused(request, &self.cluster, node));
            format!("{}: {why}", self.cluster.name(node))
        });
        let reasons: Vec<String> = reasons.collect();
        let more = self.cluster.len() - reasons.len();
        match (reasons.is_empty(), more) {
            (true, _) => format!("{lead}: there are no nodes"),
            (false, 0) => format!("{lead}: {}", reasons.join("; ")),
            (false, more) => format!("{lead}: {}; and {more} more", reasons.join("; ")),
        }
    }

    /// A decision before it is carried out: all of it, or what a scheduler
    /// would log.
    pub(super) fn explained(&self, job: &Job, choice: &Choice) -> Value {
        let request = self.request(job);
        if self.explain {
            let decision = self.policy.explain(&request, &self.cluster, choice);
            return serde_json::to_value(decision).unwrap_or(Value::Null);
        }
        let name = |node: NodeId| self.cluster.name(node);
        let mut words = json!({
            "policy": self.policy.name(),
            "deciding": self.policy.why(&request, &self.cluster, choice),
        });
        if !matches!(choice.parts[..], [part] if part.cpus == job.app.cpus()) {
            let parts = choice.parts.iter();
            let parts = parts.map(|part| json!({"node": name(part.node), "cpus": part.cpus}));
            words["parts"] = parts.collect();
        }
        let policy = &self.policy;
        let size = sizing::reason(
            policy.name(),
            policy.sizes(),
            request.target,
            request.app.scaling(),
            &choice.sizes(),
        );
        if let Some(size) = size {
            words["size"] = json!(size);
        }
        if !choice.relaxed.is_empty() {
            let relaxed = choice.relaxed.iter().map(
                |(direction, lane)| json!({"resource": crate::predict::resource_id(*lane), "side": direction}),
            );
            words["relaxed"] = relaxed.collect();
        }
        if !choice.notes.is_empty() {
            words["notes"] = json!(choice.notes);
        }
        words
    }

    pub(super) fn state(&self) -> Value {
        let nodes = self.cluster.ids().map(|id| {
            let (node, summary) = (self.cluster.node(id), self.cluster.summary(id));
            let mut residents: Vec<_> = self.cluster.residents(id).collect();
            residents.sort_by_key(|(resident, _)| *resident);
            let residents = residents.into_iter().map(|(resident, what)| {
                json!({
                    "id": self.by_resident.get(&resident),
                    "app": what.app.name(),
                    "cpus": what.demand.cpus,
                    "memory_bytes": what.demand.memory_bytes,
                })
            });
            json!({
                "name": node.name,
                "up": summary.up,
                "platform": node.platform,
                "cpus": node.cpus,
                "cpus_free": summary.free_cpus,
                "memory_bytes": node.memory_bytes,
                "memory_free_bytes": summary.free_memory,
                "residents": residents.collect::<Value>(),
            })
        });
        json!({
            "answer": "state",
            "nodes": nodes.collect::<Value>(),
            "waiting": self.waiting.values().map(|waiter| &waiter.id).collect::<Vec<_>>(),
        })
    }
}
