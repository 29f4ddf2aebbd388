//! What a stream knows, and what each event does to it.

use super::answers::Placed;
use super::answers::some_of;
use super::event::Arrival;
use super::event::Event;
use super::event::NodeUp;
use super::event::What;
use crate::app::App;
use crate::app::Demand;
use crate::cluster::Cluster;
use crate::cluster::Node;
use crate::cluster::NodeId;
use crate::cluster::ResidentId;
use crate::error::StreamError;
use crate::nodes_file::AppDemand;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::MigrationCosts;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;

/// How long an application is taken to run on when nobody says.
const SECONDS_LEFT: f64 = 3600.0;

/// A job, placed or waiting.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Order of arrival.
    pub(super) number: u64,
    pub(super) app: Arc<App>,
    pub(super) demand: Demand,
    pub(super) spread: bool,
    pub(super) target: Option<f64>,
    pub(super) seconds: Option<f64>,
    /// When it came, on the caller's clock.
    pub(super) since: f64,
    /// Where it runs; empty while it waits.
    pub(super) parts: Vec<ResidentId>,
    /// Where it waits for the first to have room (late binding).
    pub(super) queued_at: Vec<NodeId>,
}

/// What tells at a glance whether a job that waits is worth a try.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) id: String,
    pub(super) demand: Demand,
    /// The policy may split or size it, so that its demand need not fit whole.
    pub(super) flexible: bool,
}

/// The state behind a stream of events.
pub struct Stream {
    pub(super) cluster: Cluster,
    pub(super) policy: Box<dyn Policy>,
    pub(super) explain: bool,
    pub(super) apps: BTreeMap<String, Arc<App>>,
    pub(super) demands: BTreeMap<String, AppDemand>,
    pub(super) jobs: BTreeMap<String, Job>,
    pub(super) by_resident: HashMap<ResidentId, String>,
    /// Waiting jobs by number.
    pub(super) waiting: BTreeMap<u64, Waiter>,
    pub(super) costs: MigrationCosts,
    pub(super) arrived: u64,
    pub(super) now: f64,
    pub(super) line: u64,
}

/// Why a job is not placed now.
struct Held(String);

impl Stream {
    /// A stream over `cluster`. What runs there already becomes jobs called
    /// `NODE/APP/1`, `NODE/APP/2` …. With `explain` every decision carries both
    /// directions of every resource.
    pub fn new(cluster: Cluster, policy: Box<dyn Policy>, explain: bool) -> Self {
        let mut stream = Stream {
            policy,
            explain,
            apps: BTreeMap::new(),
            demands: BTreeMap::new(),
            jobs: BTreeMap::new(),
            by_resident: HashMap::new(),
            waiting: BTreeMap::new(),
            costs: MigrationCosts::default(),
            arrived: 0,
            now: 0.0,
            line: 0,
            cluster,
        };
        for node in stream.cluster.ids() {
            let mut residents: Vec<_> = stream.cluster.residents(node).collect();
            residents.sort_by_key(|(id, _)| *id);
            let mut count: BTreeMap<&str, usize> = BTreeMap::new();
            for (resident, what) in residents {
                let number = count.entry(what.app.name()).or_default();
                *number += 1;
                let name = stream.cluster.name(node);
                let id = format!("{name}/{}/{number}", what.app.name());
                stream.arrived += 1;
                stream.by_resident.insert(resident, id.clone());
                let job = Job {
                    number: stream.arrived,
                    app: what.app.clone(),
                    demand: what.demand,
                    spread: false,
                    target: None,
                    seconds: None,
                    since: 0.0,
                    parts: vec![resident],
                    queued_at: Vec::new(),
                };
                stream.jobs.insert(id, job);
            }
        }
        stream
    }

    /// The same with applications that events may name.
    pub fn with_apps(mut self, apps: impl IntoIterator<Item = Arc<App>>) -> Self {
        let named = |app: Arc<App>| (app.name().to_string(), app);
        self.apps.extend(apps.into_iter().map(named));
        self
    }

    /// The same with what applications described in events ask for, by name,
    /// unless the event says otherwise.
    pub fn with_demands(mut self, demands: BTreeMap<String, AppDemand>) -> Self {
        self.demands = demands;
        self
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The answers to one line, each a JSON object without a line's end; none
    /// to a blank line. A line that is refused changes nothing.
    pub fn handle(&mut self, line: &str) -> Vec<String> {
        self.line += 1;
        if line.trim().is_empty() {
            return Vec::new();
        }
        match super::event::parse(line).and_then(|(event, at)| self.take(event, at)) {
            Ok(answers) => answers.iter().map(Value::to_string).collect(),
            Err(error) => vec![self.error(&error.to_string())],
        }
    }

    /// The answer to a line that cannot even be read.
    pub(super) fn refuse(&mut self, message: &str) -> Vec<String> {
        self.line += 1;
        vec![self.error(message)]
    }

    fn error(&self, message: &str) -> String {
        json!({"answer": "error", "line": self.line, "message": message}).to_string()
    }

    fn take(&mut self, event: Event, at: Option<f64>) -> Result<Vec<Value>, StreamError> {
        let now = at.unwrap_or(self.now);
        if now < self.now {
            return Err(StreamError::key(
                "at",
                format!(
                    "is {now}, and it was {} before; time does not run back",
                    self.now
                ),
            ));
        }
        let later = now > self.now;
        let before = std::mem::replace(&mut self.now, now);
        let state = matches!(event, Event::State);
        let done = match event {
            Event::Arrive(arrival) => self.arrive(*arrival),
            Event::Depart { id } => self.depart(&id),
            Event::NodeUp(node) => self.node_up(node),
            Event::NodeDown { name } => self.node_down(&name),
            Event::ProfileChanged {
                id,
                what,
                seconds_left,
            } => self.profile_changed(&id, what, seconds_left),
            Event::MoveCost { seconds } => {
                self.costs.seconds.push(seconds);
                Ok((vec![json!({"answer": "noted"})], false))
            }
            Event::State => Ok((vec![self.state()], false)),
        };
        let (mut answers, room) = done.inspect_err(|_| self.now = before)?;
        if room || (later && !state) {
            answers.extend(self.retry());
        }
        Ok(answers)
    }

    fn arrive(&mut self, arrival: Arrival) -> Result<(Vec<Value>, bool), StreamError> {
        let id = arrival.id;
        if self.jobs.contains_key(&id) {
            return Err(StreamError::key(
                "id",
                format!("`{id}` is here already; every job has an id of its own"),
            ));
        }
        let app = self.app(arrival.what)?;
        let demand = Demand {
            cpus: arrival.cpus.unwrap_or(app.cpus()),
            memory_bytes: arrival.memory_bytes.unwrap_or(app.memory_bytes()),
        };
        self.arrived += 1;
        let job = Job {
            number: self.arrived,
            app,
            demand,
            spread: arrival.spread,
            target: arrival.target,
            seconds: arrival.seconds,
            since: self.now,
            parts: Vec::new(),
            queued_at: Vec::new(),
        };
        self.waiting.insert(job.number, job.waiter(&id));
        self.jobs.insert(id.clone(), job);
        Ok((vec![self.place(&id, None)], false))
    }

    fn depart(&mut self, id: &str) -> Result<(Vec<Value>, bool), StreamError> {
        let job = self.jobs.remove(id).ok_or_else(|| no_job(id))?;
        self.waiting.remove(&job.number);
        self.leave(&job.parts);
        Ok((vec![json!({"answer": "departed", "id": id})], true))
    }

    fn node_up(&mut self, up: NodeUp) -> Result<(Vec<Value>, bool), StreamError> {
        let name = up.name.clone();
        match self.cluster.id(&name) {
            Some(node) => self.back(node, &up)?,
            None => {
                let missing = |key| StreamError::NewNode(key);
                let node = Node {
                    name: up.name,
                    cpus: up.cpus.ok_or_else(|| missing("cpus"))?,
                    memory_bytes: up.memory_bytes.ok_or_else(|| missing("memory"))?,
                    platform: up.platform,
                    shares_cpus: up.shares_cpus.unwrap_or(false),
                };
                let node = self.cluster.add_node(node)?;
                self.changed(node);
            }
        }
        Ok((vec![json!({"answer": "node-up", "name": name})], true))
    }

    /// A known node is back, as large as it was.
    fn back(&mut self, node: NodeId, up: &NodeUp) -> Result<(), StreamError> {
        let was = self.cluster.node(node);
        if self.cluster.summary(node).up {
            return Err(StreamError::key(
                "name",
                format!("node `{}` is up already", was.name),
            ));
        }
        let other = [
            ("cpus", up.cpus.is_some_and(|cpus| cpus != was.cpus)),
            (
                "memory",
                up.memory_bytes.is_some_and(|it| it != was.memory_bytes),
            ),
            (
                "platform",
                up.platform.is_some() && up.platform != was.platform,
            ),
            (
                "shares_cpus",
                up.shares_cpus.is_some_and(|it| it != was.shares_cpus),
            ),
        ];
        if let Some((key, _)) = other.iter().find(|(_, other)| *other) {
            return Err(StreamError::key(
                *key,
                format!(
                    "node `{}` had another; it comes back as it was, or under a new name",
                    was.name
                ),
            ));
        }
        self.cluster.bring_up(node);
        self.changed(node);
        Ok(())
    }

    fn node_down(&mut self, name: &str) -> Result<(Vec<Value>, bool), StreamError> {
        let node = self.cluster.id(name).ok_or_else(|| {
            let known = self.cluster.ids().map(|node| self.cluster.name(node));
            StreamError::key(
                "name",
                format!("no node is called `{name}`; known: {}", some_of(known)),
            )
        })?;
        if !self.cluster.summary(node).up {
            return Err(StreamError::key(
                "name",
                format!("node `{name}` is down already"),
            ));
        }
        let mut displaced: BTreeMap<u64, String> = BTreeMap::new();
        for (resident, _) in self.cluster.take_down(node) {
            if let Some(id) = self.by_resident.remove(&resident)
                && let Some(job) = self.jobs.get(&id)
            {
                displaced.insert(job.number, id);
            }
        }
        self.changed(node);
        let mut answers =
            vec![json!({"answer": "node-down", "displaced": displaced.len(), "name": name})];
        // The shares of a spread application elsewhere go with it: first all of
        // them, so that every one sees the room there really is.
        for (number, id) in &displaced {
            let Some(job) = self.jobs.get_mut(id) else {
                continue;
            };
            let parts = std::mem::take(&mut job.parts);
            self.waiting.insert(*number, job.waiter(id));
            self.leave(&parts);
        }
        for id in displaced.values() {
            answers.push(self.place(id, Some(name)));
        }
        Ok((answers, false))
    }

    fn profile_changed(
        &mut self,
        id: &str,
        what: What,
        seconds_left: Option<f64>,
    ) -> Result<(Vec<Value>, bool), StreamError> {
        if !self.jobs.contains_key(id) {
            return Err(no_job(id));
        }
        let app = self.app(what)?;
        let job = self.jobs.get_mut(id).ok_or_else(|| no_job(id))?;
        job.app = app.clone();
        let parts = job.parts.clone();
        for part in &parts {
            self.cluster.replace(*part, app.clone());
            if let Some(node) = self.cluster.resident(*part).map(|resident| resident.node) {
                self.changed(node);
            }
        }
        let mut answers = vec![json!({"answer": "profile-changed", "id": id})];
        if let [resident] = parts[..] {
            let left = seconds_left.unwrap_or(SECONDS_LEFT);
            let choice = self
                .policy
                .reconsider(resident, &self.cluster, left, &self.costs);
            answers.extend(choice.and_then(|choice| self.move_to(id, resident, &choice)));
        }
        Ok((answers, true))
    }

    /// Moves a job that runs in one part; `None`, and nothing has changed, when
    /// the choice is to stay or does not fit.
    fn move_to(&mut self, id: &str, resident: ResidentId, choice: &Choice) -> Option<Value> {
        let from = self.cluster.resident(resident)?.node;
        if matches!(choice.parts[..], [part] if part.node == from) {
            return None;
        }
        let decision = self.explained(self.jobs.get(id)?, choice);
        let parts = self.start(id, choice)?;
        self.leave(&[resident]);
        self.jobs.get_mut(id)?.parts = parts;
        Some(json!({
            "answer": "moved",
            "decision": decision,
            "from": self.cluster.name(from),
            "id": id,
            "node": self.cluster.name(choice.node()),
        }))
    }

    /// Tries every waiting job once, in the order of arrival, and answers for
    /// those that found a place.
    fn retry(&mut self) -> Vec<Value> {
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
            match self.attempt(&id) {
                Ok(placed) => {
                    self.waiting.remove(&number);
                    answers.push(placed.answer(&id, None));
                }
                Err(Held(_)) if !queues => {
                    refused.insert(kind);
                }
                Err(Held(_)) => {}
            }
        }
        answers
    }

    /// Places a job that waits, or says why not; it then goes on waiting.
    fn place(&mut self, id: &str, from: Option<&str>) -> Value {
        match self.attempt(id) {
            Ok(placed) => {
                if let Some(job) = self.jobs.get(id) {
                    self.waiting.remove(&job.number);
                }
                placed.answer(id, from)
            }
            Err(Held(why)) => {
                let mut answer = json!({"answer": "waiting", "id": id, "why": why});
                if let Some(from) = from {
                    answer["from"] = json!(from);
                }
                answer
            }
        }
    }

    fn attempt(&mut self, id: &str) -> Result<Placed, Held> {
        let Some(job) = self.jobs.get(id).cloned() else {
            return Err(Held("it has left".into()));
        };
        let request = self.request(&job);
        let up = |node: &&NodeId| self.cluster.summary(**node).up;
        let answer = match job.queued_at.iter().any(|node| up(&node)) {
            true => match job
                .queued_at
                .iter()
                .find(|n| request.may_use(&self.cluster, **n))
            {
                Some(node) => Decision::place(*node, &request),
                None => Decision::QueueAt(job.queued_at.clone()),
            },
            false => self.policy.choose(&request, &self.cluster),
        };
        let choice = match answer {
            Decision::Place(choice) => choice,
            Decision::QueueAt(nodes) => {
                let names = nodes.iter().map(|node| self.cluster.name(*node));
                let why = format!("the first of {} to have room takes it", some_of(names));
                if let Some(job) = self.jobs.get_mut(id) {
                    job.queued_at = nodes;
                }
                return Err(Held(why));
            }
            Decision::Wait(waiting, _) => return Err(Held(self.why_waiting(&request, waiting))),
        };
        let decision = self.explained(&job, &choice);
        let Some(parts) = self.start(id, &choice) else {
            return Err(Held(format!(
                "{} chose {}, which has no room for it",
                self.policy.name(),
                self.cluster.name(choice.node())
            )));
        };
        if let Some(job) = self.jobs.get_mut(id) {
            job.parts = parts;
            job.queued_at.clear();
        }
        Ok(Placed {
            node: self.cluster.name(choice.node()).into(),
            decision,
        })
    }

    pub(super) fn request<'a>(&self, job: &'a Job) -> PlacementRequest<'a> {
        PlacementRequest {
            demand: job.demand,
            now: self.now,
            waited_seconds: self.now - job.since,
            ideal_seconds: job.seconds,
            spread: job.spread,
            target: job.target,
            ..PlacementRequest::of(&job.app)
        }
    }

    /// Starts every part of `choice`; `None`, and nothing has changed, when one
    /// does not fit.
    fn start(&mut self, id: &str, choice: &Choice) -> Option<Vec<ResidentId>> {
        let job = self.jobs.get(id)?;
        let started = choice.start(&mut self.cluster, &job.app, job.demand).ok()?;
        for resident in &started {
            self.by_resident.insert(*resident, id.into());
        }
        for part in &choice.parts {
            self.changed(part.node);
        }
        Some(started)
    }

    fn leave(&mut self, parts: &[ResidentId]) {
        for part in parts {
            self.by_resident.remove(part);
            if let Some(left) = self.cluster.remove(*part) {
                self.changed(left.node);
            }
        }
    }

    fn changed(&mut self, node: NodeId) {
        self.policy.changed(&self.cluster, node, self.now);
    }

    fn app(&mut self, what: What) -> Result<Arc<App>, StreamError> {
        match what {
            What::Known(name) => self.apps.get(&name).cloned().ok_or_else(|| {
                let known = self.apps.keys().map(String::as_str);
                StreamError::key(
                    "app",
                    format!(
                        "no profile of `{name}`; send it as `profile`, or start with --apps. Known: {}",
                        some_of(known)
                    ),
                )
            }),
            What::Described(profile) => {
                let app = App::new(&profile);
                let demand = self.demands.get(app.name());
                let app = match demand {
                    Some(demand) => demand.applied(app, &mut self.cluster)?,
                    None => app,
                };
                Ok(Arc::new(app))
            }
        }
    }
}

impl Job {
    fn waiter(&self, id: &str) -> Waiter {
        Waiter {
            id: id.into(),
            demand: self.demand,
            flexible: self.spread || self.target.is_some(),
        }
    }
}

fn no_job(id: &str) -> StreamError {
    StreamError::key("id", format!("no job is called `{id}`"))
}

#[cfg(test)]
mod tests;
