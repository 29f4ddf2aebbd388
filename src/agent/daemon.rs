//! The loop of the agent: look, read, judge, show; again after every interval.

use super::board::Board;
use super::config::Config;
use super::discover::Discovery;
use super::discover::Found;
use super::discover::Key;
use super::drift::Drifts;
use super::experiments::Experiments;
use super::load::LoadMeter;
use super::meter::Meter;
use super::meter::Shared;
use super::node;
use super::node::Resident;
use super::node::Size;
use super::own::Cost;
use super::own::Lock;
use super::performance;
use super::performance::Watcher;
use super::rules::Rule;
use super::store::Store;
use super::windows::Recorder;
use jostle_host::machine::Machine;
use jostle_host::os::here;
use jostle_host::sys::clock::rfc3339;
use jostle_host::sys::open_files::raise_open_files;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile::MachineFacts;
use jostle_profile::Profile;
use jostle_profile::WarningFacts;
use jostle_profile::node::EventKind;
use jostle_profile::node::FORMAT;
use jostle_profile::node::NodeState;
use jostle_profile::node::ProfileSummary;
use jostle_profile::node::WorkloadState;
use jostle_profile::reading::Reading;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

/// Warnings of one state, at most.
const MOST_WARNINGS: usize = 20;

/// What the outside tells the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Read the configuration again.
    Reload,
    Stop,
}

/// What the loop tells the outside.
pub trait Supervisor {
    /// The first refresh is done.
    fn ready(&mut self) {}
    /// Still going; after every refresh.
    fn alive(&mut self) {}
    /// The configuration anew.
    ///
    /// # Errors
    /// Why it is not usable; the old one stays.
    fn reload(&mut self) -> Result<Config>;
}

/// The agent of one node.
pub struct Daemon {
    config: Config,
    name: String,
    machine: MachineFacts,
    size: Size,
    discovery: Discovery,
    workloads: HashMap<Key, Workload>,
    /// Who was there in the last look.
    found: Rc<Vec<Found>>,
    shared: Shared,
    load: LoadMeter,
    cost: Cost,
    store: Arc<Store>,
    board: Arc<Board>,
    drifts: Drifts,
    experiments: Experiments,
    recorder: Recorder,
    refresh: u64,
    /// Held as long as the agent lives.
    _lock: Lock,
}

/// One workload, from one refresh to the next.
struct Workload {
    found: Found,
    since: String,
    meter: Meter,
    watcher: Option<Watcher>,
    summary: Option<(Arc<Profile>, ProfileSummary)>,
    misses_qos: bool,
}

impl Daemon {
    /// Takes the lock, opens the store and reads the machine; watches nothing yet.
    ///
    /// # Errors
    /// An environment error when another agent runs on this state directory, or when
    /// a directory cannot be made.
    pub fn new(config: Config) -> Result<Daemon> {
        let directory = &config.agent.state_directory;
        let lock = Lock::take(directory)?;
        raise_open_files();
        let profiles = config.profiles();
        let store = Store::open(&profiles, config.agent.history);
        let store = store.map_err(|error| {
            let shown = profiles.display();
            Error::environment(format!("agent.profiles: {shown}: {error}"))
        })?;
        let machine = Machine::detect();
        let size = Size {
            cpus: machine.cpus.len(),
            memory_bytes: machine.memory.total_bytes,
        };
        let named = config.agent.node_name.clone();
        let name = named.or_else(environment_name).unwrap_or_else(host_name);
        let (store, board) = (Arc::new(store), Arc::<Board>::default());
        let experiments =
            Experiments::new(&config, store.clone(), board.clone(), directory.clone());
        Ok(Daemon {
            recorder: Recorder::new(&config.windows, config.windows()),
            experiments,
            drifts: Drifts::default(),
            name,
            size,
            discovery: Discovery::new(here(), &config.workloads),
            workloads: HashMap::new(),
            found: Rc::default(),
            shared: Shared::new(),
            load: LoadMeter::new(&machine),
            machine: machine.facts(),
            cost: Cost::new(),
            store,
            board,
            refresh: 0,
            config,
            _lock: lock,
        })
    }

    pub fn board(&self) -> &Arc<Board> {
        &self.board
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Refreshes until told to stop.
    pub fn run(&mut self, orders: &Receiver<Order>, supervisor: &mut dyn Supervisor) {
        let text = format!("the agent of {} was started", self.name);
        self.board.tell(EventKind::AgentStarted, None, text);
        let mut next = Instant::now();
        loop {
            self.refresh();
            if self.refresh == 1 {
                supervisor.ready();
            }
            supervisor.alive();
            next += self.config.agent.interval;
            // After a suspended night, one refresh and not hundreds.
            next = next.max(Instant::now());
            loop {
                let left = next.saturating_duration_since(Instant::now());
                match orders.recv_timeout(left) {
                    Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => {
                        self.experiments.stop();
                        return;
                    }
                    Ok(Order::Reload) => match supervisor.reload() {
                        Ok(config) => self.configure(config),
                        Err(error) => {
                            let text = format!("the old configuration stays: {error}");
                            self.board.tell(EventKind::Warning, None, text);
                        }
                    },
                    Err(RecvTimeoutError::Timeout) => break,
                }
            }
        }
    }

    /// Other rules and limits from now on. Directories stay until a restart.
    fn configure(&mut self, config: Config) {
        let (old, new) = (&self.config.agent, &config.agent);
        if old.state_directory != new.state_directory || self.config.profiles() != config.profiles()
        {
            let text = "agent.state_directory and agent.profiles change with a restart only";
            self.board.tell(EventKind::Warning, None, text);
        }
        if self.config.report != config.report {
            let text = "[report] changes with a restart only";
            self.board.tell(EventKind::Warning, None, text);
        }
        self.discovery.set_rules(&config.workloads);
        // Met anew, as the new rules name them.
        self.workloads.clear();
        self.found = Rc::default();
        self.experiments.configure(&config);
        self.recorder = Recorder::new(&config.windows, config.windows());
        self.config = config;
        let text = "the configuration was read again";
        self.board
            .tell(EventKind::ConfigurationReloaded, None, text);
    }

    /// Looks at everything once and shows the state.
    pub fn refresh(&mut self) {
        let began = self.cost.begin();
        self.refresh += 1;
        if let Err(error) = self.store.refresh() {
            let text = format!("{}: {error}", self.store.directory().display());
            tracing::warn!("{text}");
        }
        self.meet();
        let workloads = self.read();
        let residents: Vec<Resident> = workloads.iter().map(resident).collect();
        let mut state = NodeState {
            format: FORMAT.into(),
            tool_version: env!("CARGO_PKG_VERSION").into(),
            name: self.name.clone(),
            recorded_at: rfc3339(SystemTime::now()),
            interval_seconds: self.config.agent.interval.as_secs_f64(),
            refresh: self.refresh,
            machine: self.machine.clone(),
            load: self.load.read(),
            resources: node::resources(&residents, self.size),
            agent: self.cost.unknown(),
            workloads,
            experiment: None,
            warnings: self.warnings(),
            unknown: Default::default(),
        };
        self.experiments.tick(SystemTime::now(), &mut state);
        if let Some(problem) = self.recorder.see(&state) {
            self.board.tell(EventKind::Warning, None, problem);
        }
        // Last, so that all of the above counts.
        state.agent = self.cost.end(began);
        self.board.publish(state);
    }

    /// Files in the store that are no profiles; windows that cannot be written.
    fn warnings(&self) -> Vec<WarningFacts> {
        let broken = self.store.broken().into_iter().take(MOST_WARNINGS);
        let warning = |(path, problem): (PathBuf, String)| WarningFacts {
            code: "broken-profile".into(),
            message: format!("{}: {problem}", path.display()),
            fields: BTreeMap::new(),
        };
        let unwritten = self.recorder.problem().map(|problem| WarningFacts {
            code: "windows-not-written".into(),
            message: problem.into(),
            fields: BTreeMap::new(),
        });
        broken.map(warning).chain(unwritten).collect()
    }

    /// Finds out who came and who went.
    fn meet(&mut self) {
        let found = self.discovery.look();
        for text in self.discovery.warnings() {
            self.board.tell(EventKind::Warning, None, text);
        }
        if Rc::ptr_eq(&found, &self.found) {
            return;
        }
        self.found = found.clone();
        let here: HashSet<&Key> = found.iter().map(|it| &it.key).collect();
        let gone = self.workloads.keys().filter(|key| !here.contains(key));
        let gone: Vec<Key> = gone.cloned().collect();
        for key in gone {
            if let Some(workload) = self.workloads.remove(&key) {
                let name = &workload.found.name;
                let text = format!("{name} is gone");
                self.board
                    .tell(EventKind::WorkloadVanished, Some(name), text);
            }
        }
        let names = self.workloads.values().map(|it| it.found.name.clone());
        let mut taken: HashSet<String> = names.collect();
        for it in found.iter() {
            let mut it = it.clone();
            match self.workloads.get_mut(&it.key) {
                // It keeps its number, whoever of the same name comes and goes.
                Some(known) => {
                    it.name = std::mem::take(&mut known.found.name);
                    known.found = it;
                }
                None => {
                    it.name = unique(&it.name, &taken);
                    taken.insert(it.name.clone());
                    self.welcome(it);
                }
            }
        }
    }

    fn welcome(&mut self, found: Found) {
        let text = format!("{} appeared ({})", found.name, shown(&found.key));
        self.board
            .tell(EventKind::WorkloadAppeared, Some(&found.name), text);
        let workload = Workload {
            since: rfc3339(SystemTime::now()),
            meter: Meter::new(&found.key, &self.shared),
            watcher: None,
            summary: None,
            misses_qos: false,
            found,
        };
        self.workloads.insert(workload.found.key.clone(), workload);
    }

    /// Every workload as it is now, by name.
    fn read(&mut self) -> Vec<WorkloadState> {
        let mut states = Vec::with_capacity(self.workloads.len());
        let mut workloads: Vec<&mut Workload> = self.workloads.values_mut().collect();
        // Before they are read: states are large.
        workloads.sort_unstable_by(|a, b| a.found.name.cmp(&b.found.name));
        for workload in workloads {
            let Some(rule) = self.config.workloads.get(workload.found.rule) else {
                continue;
            };
            let interval = self.config.agent.interval.min(Duration::from_secs(10));
            workload.watch(rule, interval);
            let stored = &rule.stored_name(&workload.found.name);
            let profile = self.store.get(stored);
            let summary = workload.summary(stored, profile.clone(), &self.machine.fingerprint);
            let mut state = workload.state(rule, summary, profile.as_deref(), &mut self.shared);
            self.drifts.see(&mut state, profile);
            workload.tell_qos(&state, &self.board);
            states.push(state);
        }
        self.drifts.keep(&states);
        states
    }
}

impl Workload {
    /// Reads its metric from now on, if it has one.
    fn watch(&mut self, rule: &Rule, interval: Duration) {
        if let (None, Some(metric)) = (&self.watcher, &rule.metric) {
            let target = performance::target(&self.found.key, &self.found.name);
            self.watcher = Some(Watcher::start(target, metric, interval));
        }
    }

    fn summary(
        &mut self,
        stored: &str,
        profile: Option<Arc<Profile>>,
        fingerprint: &str,
    ) -> Reading<ProfileSummary> {
        let Some(profile) = profile else {
            self.summary = None;
            return Reading::unavailable(format!("the store has no profile '{stored}'"));
        };
        let known = self
            .summary
            .as_ref()
            .is_some_and(|(of, _)| Arc::ptr_eq(of, &profile));
        if !known {
            let summary = node::summary(stored, &profile, fingerprint);
            self.summary = Some((profile, summary));
        }
        let (_, summary) = self.summary.as_ref().expect("just made");
        Reading::Value(summary.clone())
    }

    fn state(
        &mut self,
        rule: &Rule,
        summary: Reading<ProfileSummary>,
        profile: Option<&Profile>,
        shared: &mut Shared,
    ) -> WorkloadState {
        let performance = match &self.watcher {
            Some(watcher) => watcher.latest(rule, profile),
            None => Reading::unavailable("its rule names no metric"),
        };
        let found = &self.found;
        WorkloadState {
            name: found.name.clone(),
            kind: found.kind,
            rule: found.rule as u64,
            target: shown(&found.key),
            labels: found.labels.clone(),
            since: self.since.clone(),
            may_be_profiled: rule.profile && !found.holds_us,
            may_be_paused: rule.pause && !found.holds_us,
            readings: self.meter.read(found.is_leaf, shared),
            performance,
            profile: summary,
            drift: Reading::unavailable("not compared"),
            culprits: Reading::unavailable("no experiment was done"),
            unknown: Default::default(),
        }
    }

    /// Tells when it begins or ceases to miss its QoS.
    fn tell_qos(&mut self, state: &WorkloadState, board: &Board) {
        let Some(performance) = state.performance.value() else {
            return;
        };
        let (Some(meets), Some(relative)) =
            (performance.meets_qos.value(), performance.relative.value())
        else {
            return;
        };
        if self.misses_qos != *meets {
            return;
        }
        self.misses_qos = !meets;
        let kind = if *meets {
            EventKind::QosMet
        } else {
            EventKind::QosMissed
        };
        let text = format!(
            "{} runs at {:.0} % of its usual speed; {:.0} % are to be kept",
            state.name,
            100.0 * relative,
            100.0 * performance.qos_threshold
        );
        board.tell(kind, Some(&state.name), text);
    }
}

fn resident(state: &WorkloadState) -> Resident<'_> {
    Resident {
        name: &state.name,
        profile: state.profile.value(),
        readings: &state.readings,
    }
}

/// `name`, with a number where it is `taken`.
fn unique(name: &str, taken: &HashSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut all = std::iter::once(name.to_string()).chain(numbered);
    let free = all.find(|it| !taken.contains(it));
    free.expect("numbers do not end")
}

/// As in [`WorkloadState::target`].
fn shown(key: &Key) -> String {
    match key {
        Key::Cgroup(directory, _) => directory.display().to_string(),
        Key::Process(pid, _) => format!("pid:{pid}"),
    }
}

/// In a pod, where the host name is that of the pod.
fn environment_name() -> Option<String> {
    let name = std::env::var("JOSTLE_NODE_NAME").ok();
    name.filter(|it| !it.is_empty())
}

fn host_name() -> String {
    let name = jostle_host::os::text::text(here(), "proc/sys/kernel/hostname");
    name.unwrap_or_else(|_| "localhost".into())
}
