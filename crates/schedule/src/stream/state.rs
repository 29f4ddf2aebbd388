//! What a stream knows, and what each event does to it.

use super::answers::some_of;
use super::event::Event;
use super::event::check_profile;
use crate::admission::Gate;
use crate::app::App;
use crate::app::Demand;
use crate::cluster::Cluster;
use crate::cluster::Node;
use crate::cluster::NodeId;
use crate::cluster::ResidentId;
use crate::error::StreamError;
use crate::nodes_file::AppDemand;
use crate::policy::Choice;
use crate::policy::MigrationCosts;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use jostle_profile::Profile;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;

/// How long an application is taken to run on when nobody says.
const SECONDS_LEFT: f64 = 3600.0;

/// Most jobs of a stream, and most of them that wait: each change of the cluster looks
/// at all who wait.
const MOST_JOBS: usize = 1_000_000;
const MOST_WAITING: usize = 100_000;

/// A job, placed or waiting.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Order of arrival.
    pub(super) number: u64,
    pub(super) app: Arc<App>,
    /// As its event described it, where the stream keeps that.
    pub(super) profile: Option<Arc<Profile>>,
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

/// Jobs by id, each with the names of its nodes and the CPUs it has there.
pub type Places = BTreeMap<String, Vec<(String, u32)>>;

/// The state behind a stream of events.
pub struct Stream {
    pub(super) cluster: Cluster,
    pub(super) policy: Box<dyn Policy>,
    pub(super) gate: Gate,
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
    /// Places to give instead of asking the policy, while events are replayed.
    pub(super) recorded: Option<Places>,
    /// What it started with, to be left out when its state is retold.
    pub(super) first_jobs: BTreeMap<String, (Vec<ResidentId>, Arc<App>)>,
    pub(super) first_nodes: usize,
    pub(super) keeps_profiles: bool,
}

/// The answers to an event, and whether it made room.
pub(super) type Answered = Result<(Vec<Value>, bool), StreamError>;

type Handler = fn(&mut Stream, Event) -> Answered;

/// The events, the keys that each may have beside `event` and `at`, and what is
/// done.
const EVENTS: [(&str, &[&str], Handler); 8] = [
    (
        "arrive",
        &[
            "id", "app", "profile", "cpus", "memory", "spread", "target", "seconds",
        ],
        Stream::arrive,
    ),
    ("depart", &["id"], Stream::depart),
    (
        "node-up",
        &["name", "cpus", "memory", "platform", "shares_cpus"],
        Stream::node_up,
    ),
    ("node-down", &["name"], Stream::node_down),
    (
        "profile-changed",
        &["id", "app", "profile", "seconds_left"],
        Stream::profile_changed,
    ),
    ("move-cost", &["seconds"], Stream::move_cost),
    (
        "node-reading",
        &["name", "readings", "state"],
        Stream::node_reading,
    ),
    ("state", &[], |stream, _| Ok((vec![stream.state()], false))),
];

impl Stream {
    /// A stream over `cluster`. What runs there already becomes jobs called
    /// `NODE/APP/1`, `NODE/APP/2` …. With `explain` every decision carries both
    /// directions of every resource.
    pub fn new(cluster: Cluster, policy: Box<dyn Policy>, explain: bool) -> Self {
        let mut stream = Stream {
            policy,
            gate: Gate::default(),
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
            recorded: None,
            first_jobs: BTreeMap::new(),
            first_nodes: 0,
            keeps_profiles: false,
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
                    profile: None,
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

    /// The same with an admission in front of every start.
    pub fn with_gate(mut self, gate: Gate) -> Self {
        self.gate = gate;
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
        match super::event::parse(line).and_then(|event| self.take(event)) {
            Ok(answers) => answers.iter().map(Value::to_string).collect(),
            Err(error) => vec![self.error(&error.to_string())],
        }
    }

    /// The answers to `line`, which is the `number`th of its client.
    pub fn handle_numbered(&mut self, number: u64, line: &str) -> Vec<String> {
        self.line = number.saturating_sub(1);
        self.handle(line)
    }

    /// The answer to the `number`th line of a client, which cannot be read.
    pub fn refuse_numbered(&mut self, number: u64, message: &str) -> Vec<String> {
        self.line = number.saturating_sub(1);
        self.refuse(message)
    }

    /// The answer to a line that cannot even be read.
    pub(super) fn refuse(&mut self, message: &str) -> Vec<String> {
        self.line += 1;
        vec![self.error(message)]
    }

    fn error(&self, message: &str) -> String {
        json!({"answer": "error", "line": self.line, "message": message}).to_string()
    }

    fn take(&mut self, event: Event) -> Result<Vec<Value>, StreamError> {
        let row = EVENTS.iter().find(|(name, ..)| *name == event.event);
        let Some((name, keys, handle)) = row else {
            return Err(StreamError::UnknownEvent {
                event: event.event,
                known: EVENTS.map(|(name, ..)| name).join(", "),
            });
        };
        event.check(keys)?;
        let now = event.at.unwrap_or(self.now);
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
        let done = handle(self, event);
        let (mut answers, room) = done.inspect_err(|_| self.now = before)?;
        if room || (later && *name != "state") {
            answers.extend(self.offer_again());
        }
        Ok(answers)
    }

    fn arrive(&mut self, event: Event) -> Answered {
        let (id, cpus, memory) = (event.id()?, event.cpus()?, event.memory_bytes()?);
        if self.jobs.contains_key(&id) {
            return Err(StreamError::key(
                "id",
                format!("`{id}` is here already; every job has an id of its own"),
            ));
        }
        if self.jobs.len() >= MOST_JOBS {
            let problem = format!(
                "`{id}` would be job {}; at most {MOST_JOBS} run and wait",
                MOST_JOBS + 1
            );
            return Err(StreamError::key("id", problem));
        }
        if self.waiting.len() >= MOST_WAITING {
            let problem =
                format!("{MOST_WAITING} jobs wait already, as many as may; send it again later");
            return Err(StreamError::key("id", problem));
        }
        let (spread, target, seconds) = (event.spread, event.target, event.seconds);
        let profile = self.kept(event.profile.as_deref());
        let app = self.app(event)?;
        let usual = self.demands.get(app.name());
        let target = target.or(usual.and_then(|usual| usual.target));
        let spread = spread.unwrap_or(usual.is_some_and(|usual| usual.spread));
        let demand = Demand {
            cpus: cpus.unwrap_or(app.cpus()),
            memory_bytes: memory.unwrap_or(app.memory_bytes()),
        };
        self.arrived += 1;
        let job = Job {
            number: self.arrived,
            app,
            profile,
            demand,
            spread,
            target,
            seconds,
            since: self.now,
            parts: Vec::new(),
            queued_at: Vec::new(),
        };
        self.waiting.insert(job.number, job.waiter(&id));
        self.jobs.insert(id.clone(), job);
        Ok((self.place_all(&[id], None), false))
    }

    fn move_cost(&mut self, event: Event) -> Answered {
        let seconds = event.seconds.ok_or_else(|| event.missing("seconds"))?;
        self.costs.add(seconds);
        Ok((vec![json!({"answer": "noted"})], false))
    }

    fn depart(&mut self, event: Event) -> Answered {
        let id = event.id()?;
        let job = self.jobs.remove(&id).ok_or_else(|| no_job(&id))?;
        self.waiting.remove(&job.number);
        let nodes = self.leave(&job.parts);
        self.gate.forget_job(job.number);
        if let Some(queue) = self.gate.queue() {
            queue.ended(job.number, &nodes, self.now, &self.cluster);
        }
        Ok((vec![json!({"answer": "departed", "id": id})], true))
    }

    fn node_up(&mut self, event: Event) -> Answered {
        let name = event.name()?;
        let (cpus, memory) = (event.cpus()?, event.memory_bytes()?);
        match self.cluster.id(&name) {
            Some(node) => self.back(node, &event, cpus, memory)?,
            None => {
                let node = self.cluster.add_node(Node {
                    name: name.clone(),
                    cpus: cpus.ok_or(StreamError::NewNode("cpus"))?,
                    memory_bytes: memory.ok_or(StreamError::NewNode("memory"))?,
                    platform: event.platform,
                    shares_cpus: event.shares_cpus.unwrap_or(false),
                })?;
                self.changed(node);
            }
        }
        Ok((vec![json!({"answer": "node-up", "name": name})], true))
    }

    /// A known node is back, as large as it was.
    fn back(
        &mut self,
        node: NodeId,
        up: &Event,
        cpus: Option<u32>,
        memory: Option<u64>,
    ) -> Result<(), StreamError> {
        let was = self.cluster.node(node);
        if self.cluster.summary(node).up {
            let problem = format!("node `{}` is up already", was.name);
            return Err(StreamError::key("name", problem));
        }
        let platform = up.platform.is_none() || up.platform == was.platform;
        let shares = up.shares_cpus.is_none_or(|it| it == was.shares_cpus);
        let same = [
            ("cpus", cpus.is_none_or(|it| it == was.cpus)),
            ("memory", memory.is_none_or(|it| it == was.memory_bytes)),
            ("platform", platform),
            ("shares_cpus", shares),
        ];
        if let Some((key, _)) = same.iter().find(|(_, same)| !same) {
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

    fn node_down(&mut self, event: Event) -> Answered {
        let name = event.name()?;
        let node = self.cluster.id(&name).ok_or_else(|| {
            let known = self.cluster.ids().map(|node| self.cluster.name(node));
            StreamError::key(
                "name",
                format!("no node is called `{name}`; known: {}", some_of(known)),
            )
        })?;
        if !self.cluster.summary(node).up {
            let problem = format!("node `{name}` is down already");
            return Err(StreamError::key("name", problem));
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
        self.gate.forget_node(&name);
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
            let mut nodes = self.leave(&parts);
            nodes.push(node);
            if let Some(queue) = self.gate.queue() {
                queue.ended(*number, &nodes, self.now, &self.cluster);
            }
        }
        let ids: Vec<String> = displaced.into_values().collect();
        answers.extend(self.place_all(&ids, Some(&name)));
        Ok((answers, false))
    }

    fn profile_changed(&mut self, event: Event) -> Answered {
        let (id, seconds_left) = (event.id()?, event.seconds_left);
        if !self.jobs.contains_key(&id) {
            return Err(no_job(&id));
        }
        let profile = self.kept(event.profile.as_deref());
        let app = self.app(event)?;
        let job = self.jobs.get_mut(&id).ok_or_else(|| no_job(&id))?;
        job.app = app.clone();
        job.profile = profile;
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
            let choice = match self.recorded {
                Some(_) => self.jobs.get(&id).and_then(|job| {
                    let request = self.request(job);
                    self.recorded_choice(&id, &request)
                }),
                None => self
                    .policy
                    .reconsider(resident, &self.cluster, left, &self.costs),
            };
            answers.extend(choice.and_then(|choice| self.move_to(&id, resident, &choice)));
        }
        Ok((answers, true))
    }

    /// Moves a job that runs in one part; `None`, and nothing has changed, when
    /// the choice is to stay, does not fit or is vetoed.
    fn move_to(&mut self, id: &str, resident: ResidentId, choice: &Choice) -> Option<Value> {
        let from = self.cluster.resident(resident)?.node;
        if matches!(choice.parts[..], [part] if part.node == from) {
            return None;
        }
        let job = self.jobs.get(id)?.clone();
        let said = self.judged(&job, choice);
        if said.is_some_and(|(_, verdict)| !verdict.admitted) {
            return None;
        }
        let decision = self.explained(&job, choice);
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
    pub(super) fn start(&mut self, id: &str, choice: &Choice) -> Option<Vec<ResidentId>> {
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

    /// Ends these parts, and says where they ran.
    fn leave(&mut self, parts: &[ResidentId]) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        for part in parts {
            self.by_resident.remove(part);
            if let Some(left) = self.cluster.remove(*part) {
                self.changed(left.node);
                nodes.push(left.node);
            }
        }
        nodes
    }

    fn changed(&mut self, node: NodeId) {
        self.policy.changed(&self.cluster, node, self.now);
    }

    fn app(&mut self, event: Event) -> Result<Arc<App>, StreamError> {
        let Some(mut profile) = event.profile else {
            let Some(name) = event.app else {
                return Err(StreamError::NoApp(event.event));
            };
            return self.apps.get(&name).cloned().ok_or_else(|| {
                let known = some_of(self.apps.keys().map(String::as_str));
                StreamError::key(
                    "app",
                    format!(
                        "no profile of `{name}`; send it as `profile`, or start with --apps. Known: {known}"
                    ),
                )
            });
        };
        // The name under which the caller knows it.
        if let Some(app) = event.app {
            profile.workload.name = app;
        }
        check_profile(&profile)?;
        let app = App::new(&profile);
        Ok(Arc::new(match self.demands.get(app.name()) {
            Some(demand) => demand.applied(app, &mut self.cluster)?,
            None => app,
        }))
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
