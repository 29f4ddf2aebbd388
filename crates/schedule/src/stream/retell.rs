//! The state of a stream as the events that lead to it, so that a server can
//! write it to a file and read it again.
//!
//! Policies draw at random and learn, so that the same events need not have the
//! same answers twice. An event is therefore kept together with the places that
//! jobs were given.

use super::state::Job;
use super::state::Places;
use super::state::Stream;
use crate::cluster::NodeId;
use crate::policy::Choice;
use crate::policy::Part;
use crate::policy::PlacementRequest;
use jostle_profile::Profile;
use jostle_profile::to_value;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An event that was accepted, and where it placed jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    pub event: Value,
    #[serde(default, skip_serializing_if = "Places::is_empty")]
    pub places: Places,
}

impl Stream {
    /// The same, able to [`retell`](Self::retell): it keeps the profiles that
    /// events describe. Call it before the first event.
    pub fn that_can_retell(mut self) -> Self {
        let initial = self.jobs.iter();
        self.first_jobs = initial
            .map(|(id, job)| (id.clone(), (job.parts.clone(), job.app.clone())))
            .collect();
        self.first_nodes = self.cluster.len();
        self.keeps_profiles = true;
        self
    }

    /// Where the job called `id` runs; empty while it waits.
    pub fn places(&self, id: &str) -> Vec<(String, u32)> {
        let parts = self.jobs.get(id).map_or(&[][..], |job| &job.parts);
        let residents = parts.iter().filter_map(|part| self.cluster.resident(*part));
        residents
            .map(|it| (self.cluster.name(it.node).to_string(), it.demand.cpus))
            .collect()
    }

    /// How many jobs run or wait.
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Handles an event again. Jobs get the places they had then, and the
    /// policy is not asked.
    pub fn replay(&mut self, recorded: &Recorded) -> Vec<String> {
        self.recorded = Some(recorded.places.clone());
        let answers = self.handle(&recorded.event.to_string());
        self.recorded = None;
        answers
    }

    /// Events that lead from the nodes and jobs that this stream started with
    /// to its present state.
    pub fn retell(&self) -> Vec<Recorded> {
        let up_again = self.cluster.ids().skip(self.first_nodes);
        let mut events: Vec<Value> = up_again.map(|node| self.node_up_event(node)).collect();
        let changed = self.first_jobs.keys();
        let changed =
            changed.filter(|id| !self.jobs.get(*id).is_some_and(|it| self.as_first(id, it)));
        events.extend(changed.map(|id| json!({"event": "depart", "id": id})));
        let costs = self.costs.seconds.iter();
        events.extend(costs.map(|seconds| json!({"event": "move-cost", "seconds": seconds})));
        let mut told: Vec<Recorded> = events.into_iter().map(Recorded::without_places).collect();

        let mut jobs: Vec<_> = self.jobs.iter().collect();
        jobs.retain(|(id, job)| !self.as_first(id, job));
        jobs.sort_by_key(|(_, job)| job.number);
        told.extend(jobs.into_iter().map(|(id, job)| Recorded {
            event: arrive_event(id, job),
            places: BTreeMap::from([(id.clone(), self.places(id))]),
        }));

        let down = self.cluster.ids();
        let down = down.filter(|node| !self.cluster.summary(*node).up);
        told.extend(down.map(|node| {
            let name = self.cluster.name(node);
            Recorded::without_places(json!({"event": "node-down", "name": name}))
        }));
        told.push(Recorded::without_places(
            json!({"event": "state", "at": self.now}),
        ));
        told
    }

    /// Whether a job is what and where it was when the stream started.
    fn as_first(&self, id: &str, job: &Job) -> bool {
        let first = self.first_jobs.get(id);
        first.is_some_and(|(parts, app)| *parts == job.parts && Arc::ptr_eq(app, &job.app))
    }

    fn node_up_event(&self, node: NodeId) -> Value {
        let node = self.cluster.node(node);
        let mut event = json!({
            "event": "node-up",
            "name": node.name,
            "cpus": node.cpus,
            "memory": bytes(node.memory_bytes),
            "shares_cpus": node.shares_cpus,
        });
        if let Some(platform) = &node.platform {
            event["platform"] = json!(platform);
        }
        event
    }

    /// The recorded place of the job called `id`, while events are replayed.
    pub(super) fn recorded_choice(&self, id: &str, request: &PlacementRequest) -> Option<Choice> {
        let places = self.recorded.as_ref()?.get(id)?;
        let part = |(name, cpus): &(String, u32)| {
            let node = self.cluster.id(name)?;
            Some(Part { node, cpus: *cpus })
        };
        let parts: Option<Vec<Part>> = places.iter().map(part).collect();
        let parts = parts.filter(|parts| !parts.is_empty())?;
        Some(Choice {
            parts: parts.clone(),
            ..Choice::on(parts[0].node, request)
        })
    }

    /// What [`retell`](Self::retell) needs of a profile that came with an event.
    pub(super) fn kept(&self, profile: Option<&Profile>) -> Option<Arc<Profile>> {
        let profile = profile.filter(|_| self.keeps_profiles)?;
        Some(Arc::new(profile.clone()))
    }
}

impl Recorded {
    fn without_places(event: Value) -> Self {
        let places = Places::new();
        Recorded { event, places }
    }
}

fn arrive_event(id: &str, job: &Job) -> Value {
    let mut event = json!({
        "event": "arrive",
        "id": id,
        "app": job.app.name(),
        "cpus": job.demand.cpus,
        "memory": bytes(job.demand.memory_bytes),
        "spread": job.spread,
        "at": job.since,
    });
    let optional = [
        ("profile", job.profile.as_deref().map(to_value)),
        ("target", job.target.map(Value::from)),
        ("seconds", job.seconds.map(Value::from)),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            event[key] = value;
        }
    }
    event
}

fn bytes(count: u64) -> String {
    format!("{count}B")
}
