//! Experiments on running workloads, as far as the configuration allows them: when a
//! workload is profiled again, who is paused to find a culprit, and what becomes of
//! the results. At most one runs on the machine at a time, as a child process.
//!
//! | file | what it does |
//! |---|---|
//! | `policy` | who is due, and why not |
//! | `hours` | times of the day |
//! | `memory` | what was done when; survives a restart |
//! | `child` | the process that measures |
//! | `result` | new profiles joined to old ones, culprits |

mod child;
pub(super) mod hours;
mod memory;
mod policy;
mod result;

#[cfg(test)]
pub(super) mod fake;
#[cfg(test)]
mod tests;

use super::board::Board;
use super::config::Config;
use super::store::Store;
use super::store::file_name;
use child::Launch;
use child::Launcher;
use child::Running;
use jostle_host::sys::clock::local_minute;
use jostle_host::sys::clock::rfc3339;
use jostle_host::sys::only_one::OnlyOne;
use jostle_profile::node::Culprits;
use jostle_profile::node::EventKind;
use jostle_profile::node::ExperimentKind;
use jostle_profile::node::NodeState;
use jostle_profile::node::RunningExperiment;
use jostle_profile::node::WorkloadState;
use jostle_profile::reading::Reading;
use memory::Memory;
use memory::Past;
use policy::Plan;
use policy::Watched;
use std::collections::BTreeMap;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;
use std::time::SystemTime;

/// Beyond its budget a child may take so long to prepare and to clean up.
const GRACE: Duration = Duration::from_secs(30);
/// From asking a child to end until it is killed.
const PATIENCE: Duration = Duration::from_secs(2);
/// Least ceiling after floors were reached, percent.
const LEAST_CEILING: f64 = 1.0;

/// Starts and ends experiments; asked after every refresh.
pub struct Experiments {
    config: Config,
    store: Arc<Store>,
    board: Arc<Board>,
    memory: Memory,
    /// Where children write their results.
    directory: PathBuf,
    launcher: Box<dyn Launcher>,
    /// What is remembered of each workload from refresh to refresh.
    watched: BTreeMap<String, Watched>,
    running: Option<Current>,
    lock: PathBuf,
}

/// The experiment that runs.
struct Current {
    plan: Plan,
    target: String,
    since: SystemTime,
    child: Box<dyn Running>,
    out: PathBuf,
    /// When it was asked to end, and why.
    ending: Option<(SystemTime, String)>,
    _only: OnlyOne,
}

impl Experiments {
    /// Takes up what was done before; nothing runs yet.
    pub fn new(
        config: &Config,
        store: Arc<Store>,
        board: Arc<Board>,
        state_directory: PathBuf,
    ) -> Experiments {
        let lock = OnlyOne::usual_path(&state_directory);
        let launcher = Box::new(child::Executable);
        Experiments::with(config, store, board, state_directory, launcher, lock)
    }

    fn with(
        config: &Config,
        store: Arc<Store>,
        board: Arc<Board>,
        state_directory: PathBuf,
        launcher: Box<dyn Launcher>,
        lock: PathBuf,
    ) -> Experiments {
        let directory = state_directory.join("experiments");
        // What an earlier agent left behind.
        let _ = std::fs::remove_dir_all(&directory);
        let memory = Memory::load(state_directory.join("experiments.json"));
        let memory = memory.unwrap_or_else(|(empty, error)| {
            let text = format!("what was done before is forgotten: {error}");
            board.tell(EventKind::Warning, None, text);
            empty
        });
        Experiments {
            config: config.clone(),
            store,
            board,
            memory,
            directory,
            launcher,
            watched: BTreeMap::new(),
            running: None,
            lock,
        }
    }

    /// Other limits from now on; what runs goes on.
    pub fn configure(&mut self, config: &Config) {
        self.config = config.clone();
    }

    /// Ends what is over, starts what is due, and fills in what is known of
    /// experiments.
    pub fn tick(&mut self, now: SystemTime, state: &mut NodeState) {
        for workload in &state.workloads {
            let watched = self.watched.entry(workload.name.clone()).or_default();
            watched.see(workload, &state.load);
        }
        // All that are here are watched, by a name of their own: more, and some are gone.
        if self.watched.len() > state.workloads.len() {
            let here = state.workloads.iter().map(|it| it.name.as_str());
            let here: HashSet<&str> = here.collect();
            self.watched.retain(|name, _| here.contains(name.as_str()));
        }
        self.attend(now, state);
        if self.running.is_none() {
            self.start_next(now, state);
        }
        self.annotate(state);
    }

    /// Fills in the running experiment and the culprits.
    fn annotate(&self, state: &mut NodeState) {
        state.experiment = self.running.as_ref().map(|current| RunningExperiment {
            kind: current.plan.kind,
            workload: current.plan.workload.clone(),
            since: rfc3339(current.since),
            budget_seconds: current.plan.budget.as_secs_f64(),
            max_intensity_percent: current.plan.ceiling,
            progress: current.child.progress(),
        });
        for workload in &mut state.workloads {
            let known = self.memory.of(&workload.name);
            if let Some(culprits) = known.and_then(|past| past.culprits.clone()) {
                workload.culprits = Reading::Value(culprits);
            }
        }
    }

    /// Looks after the child.
    fn attend(&mut self, now: SystemTime, state: &NodeState) {
        let Some(current) = &mut self.running else {
            return;
        };
        if let Some(code) = current.child.poll() {
            let current = self.running.take().expect("just looked at");
            self.conclude(now, current, code, state);
            return;
        }
        let elapsed = now.duration_since(current.since).unwrap_or_default();
        let same =
            |it: &WorkloadState| it.name == current.plan.workload && it.target == current.target;
        if let Some((asked, _)) = &current.ending {
            if now.duration_since(*asked).unwrap_or_default() >= PATIENCE {
                current.child.kill();
            }
            return;
        }
        let why = if !state.workloads.iter().any(same) {
            "the workload is gone".to_string()
        } else if elapsed > current.plan.budget + GRACE {
            format!("it did not end after {} s", elapsed.as_secs())
        } else {
            return;
        };
        current.child.end();
        current.ending = Some((now, why));
    }

    fn start_next(&mut self, now: SystemTime, state: &NodeState) {
        let plan = policy::next(
            &self.config,
            &self.memory,
            &self.watched,
            state,
            now,
            local_minute(now),
        );
        let Some(plan) = plan else {
            return;
        };
        // Somebody else measures: later.
        let Some(only) = OnlyOne::try_take(&self.lock) else {
            return;
        };
        if let Err(error) = self.start(now, &plan, state, only) {
            // Counts as done, or it would be tried at every refresh.
            self.note_start(now, &plan);
            let text = format!("an experiment could not be started: {error}");
            self.board
                .tell(EventKind::Warning, Some(&plan.workload), text);
        }
    }

    fn start(
        &mut self,
        now: SystemTime,
        plan: &Plan,
        state: &NodeState,
        only: OnlyOne,
    ) -> std::io::Result<()> {
        let workload = state.workloads.iter().find(|it| it.name == plan.workload);
        let Some(workload) = workload else {
            return Ok(());
        };
        std::fs::create_dir_all(&self.directory)?;
        let out = self.directory.join("result.json");
        let _ = std::fs::remove_file(&out);
        let arguments = self.arguments(plan, workload, state, &out);
        let child = self.launcher.launch(&Launch {
            arguments,
            directory: self.directory.clone(),
        })?;
        self.note_start(now, plan);
        let what = match plan.ceiling {
            Some(most) => format!("profiling, at most {most:.0} % intensity"),
            None => "looking for who slows it".to_string(),
        };
        let text = format!("{what}: {}", plan.because);
        self.board
            .tell(EventKind::ExperimentStarted, Some(&plan.workload), text);
        self.running = Some(Current {
            plan: plan.clone(),
            target: workload.target.clone(),
            since: now,
            child,
            out,
            ending: None,
            _only: only,
        });
        Ok(())
    }

    /// A restart in the middle must not forget that it was begun.
    fn note_start(&mut self, now: SystemTime, plan: &Plan) {
        let first = self.config.profiling.first_intensity;
        let budget = plan.budget.as_secs_f64();
        let past = self.memory.of_mut(&plan.workload, first);
        match plan.kind {
            ExperimentKind::Profile => past.begin_profile(now, budget),
            ExperimentKind::Blame => past.blamed_at = Some(memory::seconds(now)),
        }
        self.save();
    }

    fn save(&self) {
        if let Err(error) = self.memory.save() {
            let text = format!("what was done could not be written down: {error}");
            self.board.tell(EventKind::Warning, None, text);
        }
    }

    fn arguments(
        &self,
        plan: &Plan,
        workload: &WorkloadState,
        state: &NodeState,
        out: &std::path::Path,
    ) -> Vec<OsString> {
        let rule = self.config.workloads.get(workload.rule as usize);
        let mut all: Vec<OsString> = Vec::new();
        let mut add = |flag: &str, value: String| all.extend([flag.into(), value.into()]);
        match workload.target.strip_prefix("pid:") {
            Some(pid) => add("--pid", pid.into()),
            None => add("--cgroup", workload.target.clone()),
        }
        if let Some(metric) = rule.and_then(|rule| rule.metric.clone()) {
            add("--metric", metric);
        }
        add("--budget", format!("{}ms", plan.budget.as_millis()));
        let (profiling, blame) = (&self.config.profiling, &self.config.blame);
        match plan.kind {
            ExperimentKind::Profile => {
                add("--floor", format!("{}%", profiling.floor * 100.0));
                let ceiling = plan.ceiling.unwrap_or(profiling.first_intensity);
                add("--max-intensity", ceiling.to_string());
                let qos = rule.map_or(0.95, |rule| rule.qos.min(0.999));
                add("--qos", (qos * 100.0).to_string());
                add("--name", workload.name.clone());
                if !profiling.resources.is_empty() {
                    add("--resources", profiling.resources.join(","));
                }
            }
            ExperimentKind::Blame => {
                add("--pause", format!("{}us", blame.pause.as_micros()));
                add("--max-pause", blame.max_pause_percent.to_string());
                for name in &blame.protect {
                    add("--protect", name.clone());
                }
                for name in &plan.candidates {
                    let found = state.workloads.iter().find(|it| it.name == *name);
                    match found.map(|it| &it.target) {
                        Some(target) if target.starts_with("pid:") => {
                            add("--candidate", target.clone());
                        }
                        Some(target) => add("--candidate", format!("cgroup:{target}")),
                        None => {}
                    }
                }
            }
        }
        all.extend(["--out".into(), out.into()]);
        let command = match plan.kind {
            ExperimentKind::Profile => "profile",
            ExperimentKind::Blame => "blame",
        };
        all.insert(0, command.into());
        all
    }

    /// A child has ended.
    fn conclude(&mut self, now: SystemTime, current: Current, code: i32, state: &NodeState) {
        let name = &current.plan.workload;
        let took = now.duration_since(current.since).unwrap_or_default();
        let first = self.config.profiling.first_intensity;
        self.memory
            .of_mut(name, first)
            .ended(took.as_secs_f64(), current.plan.kind);
        let said = match current.plan.kind {
            _ if current.ending.is_some() => {
                let (_, why) = current.ending.clone().expect("just seen");
                Err(why)
            }
            ExperimentKind::Profile => self.keep_profile(&current, code, state),
            ExperimentKind::Blame => self.keep_culprits(&current, code),
        };
        match said {
            Ok((kind, text)) => self.board.tell(kind, Some(name), text),
            Err(why) => {
                self.memory.of_mut(name, first).failed = true;
                let last = current.child.progress();
                let text = match last.is_empty() {
                    true => format!("the experiment failed: {why}"),
                    false => format!("the experiment failed: {why}; its last words: {last}"),
                };
                self.board
                    .tell(EventKind::ExperimentEnded, Some(name), text);
            }
        }
        let _ = std::fs::remove_file(&current.out);
        self.save();
    }

    fn keep_profile(
        &mut self,
        current: &Current,
        code: i32,
        state: &NodeState,
    ) -> Result<(EventKind, String), String> {
        let name = &current.plan.workload;
        if code != 0 && code != 1 {
            return Err(format!("exit code {code}"));
        }
        let new = jostle_profile::load(&current.out).map_err(|error| error.to_string())?;
        let reached = new.conditions.floor.clone().and_then(|floor| floor.reached);
        if code == 1 && reached.is_none() {
            return Err("it ended early".into());
        }
        let workload = state.workloads.iter().find(|it| it.name == *name);
        let rule = workload.and_then(|it| self.config.workloads.get(it.rule as usize));
        let stored = match rule {
            Some(rule) => rule.stored_name(name),
            None => file_name(name),
        };
        let before = self.store.get(&stored);
        let merged = result::merge(before.as_deref(), new, current.plan.old_holds);
        self.store
            .put(&stored, merged)
            .map_err(|error| format!("the profile could not be kept: {error}"))?;
        let (first, most) = (
            self.config.profiling.first_intensity,
            self.config.profiling.max_intensity,
        );
        let past: &mut Past = self.memory.of_mut(name, first);
        past.failed = false;
        let used = current.plan.ceiling.unwrap_or(first);
        Ok(match reached {
            None => {
                past.ceiling = (2.0 * used).min(most);
                past.reached_floor = false;
                let text = format!("profiled up to {used:.0} % intensity; the floor was kept");
                (EventKind::ExperimentEnded, text)
            }
            Some(reached) => {
                past.ceiling = (used / 2.0).max(LEAST_CEILING);
                past.reached_floor = true;
                let source = match (&reached.resource, reached.intensity_percent) {
                    (Some(resource), Some(percent)) => {
                        format!(" beside {resource} at {percent:.0} %")
                    }
                    _ => String::new(),
                };
                let text = format!(
                    "performance fell to {:.0} % of its baseline{source}; every source was parked",
                    100.0 * reached.of_baseline
                );
                (EventKind::FloorReached, text)
            }
        })
    }

    fn keep_culprits(
        &mut self,
        current: &Current,
        code: i32,
    ) -> Result<(EventKind, String), String> {
        if code != 0 {
            return Err(format!("exit code {code}"));
        }
        let found = jostle_profile::blame::load(&current.out);
        let found = found.map_err(|error| error.to_string())?;
        let culprits: Culprits = result::culprits(&found);
        let said = result::say(&culprits);
        let first = self.config.profiling.first_intensity;
        let past = self.memory.of_mut(&current.plan.workload, first);
        past.culprits = Some(culprits);
        Ok(match said {
            Some(text) => (EventKind::CulpritFound, text),
            None => {
                let text = "nobody was shown to slow it".to_string();
                (EventKind::ExperimentEnded, text)
            }
        })
    }

    /// Ends what runs, within two seconds.
    pub fn stop(&mut self) {
        let Some(mut current) = self.running.take() else {
            return;
        };
        current.child.end();
        let steps = PATIENCE.as_millis() / 20;
        for _ in 0..steps {
            if current.child.poll().is_some() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        current.child.kill();
    }
}

impl Drop for Experiments {
    fn drop(&mut self) {
        self.stop();
    }
}
