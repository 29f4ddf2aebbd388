//! A made-up node, and children that only say that they measured.

use super::child::Launch;
use super::child::Launcher;
use super::child::Running;
use jostle_profile::FloorFacts;
use jostle_profile::FloorReached;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::Status;
use jostle_profile::node::NodeState;
use jostle_profile::node::WorkloadState;
use jostle_profile::reading::Reading;
use serde_json::json;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;

/// A profile with these scores.
pub fn profile(name: &str, scores: &[(&str, f64)]) -> Profile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles/demo-quiet.json");
    let mut profile = jostle_profile::load(&path).unwrap();
    profile.workload.name = name.into();
    profile.metric.name = "progress".into();
    profile.machine.fingerprint = "here".into();
    profile.usage = None;
    profile.resources.clear();
    for (id, score) in scores {
        let mut entry = ResourceEntry::without_numbers(Status::Measured, "");
        entry.tolerated = Some(Score {
            score: *score,
            ci95: [*score, 100.0],
        });
        profile.resources.insert(id.to_string(), entry);
    }
    profile
}

pub fn reached(resource: &str) -> FloorFacts {
    FloorFacts {
        asked: "80%".into(),
        limit: Reading::Value(80.0),
        of_baseline: Reading::Value(0.8),
        rule: Reading::unavailable("made up"),
        reached: Some(FloorReached {
            value: 60.0,
            of_baseline: 0.6,
            resource: Some(resource.into()),
            intensity_percent: Some(12.5),
            at_seconds: 1.0,
            decided_after_seconds: 0.005,
            parked_after_seconds: Reading::Value(0.001),
        }),
    }
}

pub fn workload(name: &str) -> WorkloadState {
    let none = json!({"unavailable": "made up"});
    serde_json::from_value(json!({
        "name": name, "kind": "cgroup", "rule": 0, "target": format!("/{name}"),
        "since": "2026-01-01T00:00:00Z", "may_be_profiled": true, "may_be_paused": false,
        "readings": {
            "seconds": 10.0, "cpu_percent": 50.0, "run_queue_delay_percent": none,
            "memory_bytes": none, "disk_read_bytes_per_second": none,
            "disk_written_bytes_per_second": none, "network_received_bytes_per_second": none,
            "network_sent_bytes_per_second": none, "psi_cpu_some_percent": none,
            "psi_memory_some_percent": none, "psi_io_some_percent": none,
            "cycles_per_instruction": none
        },
        "performance": none, "profile": none, "drift": none, "culprits": none
    }))
    .unwrap()
}

/// A node of four CPUs with these workloads.
pub fn node(workloads: Vec<WorkloadState>) -> NodeState {
    let none = json!({"unavailable": "made up"});
    let mut state: NodeState = serde_json::from_value(json!({
        "format": "jostle-node/1", "tool_version": "0", "name": "n",
        "recorded_at": "2026-01-01T00:00:00Z", "interval_seconds": 10.0, "refresh": 1,
        "machine": {
            "fingerprint": "here", "model": "m", "cpus": 4, "caches": [], "smt": false,
            "virtualized": null, "kernel": "k", "memory_bytes": 1
        },
        "agent": {
            "uptime_seconds": 1.0, "cpu_percent": none, "resident_bytes": none,
            "refresh_cpu_seconds": 0.0
        },
        "load": {
            "cpu_percent": 100.0, "steal_percent": none, "memory_available_bytes": none,
            "psi_cpu_some_percent": none, "psi_memory_some_percent": none,
            "psi_io_some_percent": none
        },
        "resources": {}, "workloads": []
    }))
    .unwrap();
    state.workloads = workloads;
    state
}

/// What a child does.
#[derive(Clone)]
pub enum Act {
    /// Writes this and ends with this code after so many looks.
    Write(Box<Profile>, i32, u32),
    /// Ends with this code and writes nothing.
    Fail(i32),
    /// Goes on until it is asked to end, or killed if it does not even heed that.
    Hang { heeds: bool },
}

/// What happened to the children.
#[derive(Default)]
pub struct Seen {
    pub launched: Vec<Vec<String>>,
    pub running: i32,
    pub most_running: i32,
    pub asked: u32,
    pub killed: u32,
}

#[derive(Clone)]
pub struct Children {
    pub seen: Arc<Mutex<Seen>>,
    /// One after the other; the last again and again.
    pub acts: Arc<Mutex<VecDeque<Act>>>,
}

impl Children {
    pub fn new(acts: impl IntoIterator<Item = Act>) -> Children {
        Children {
            seen: Arc::default(),
            acts: Arc::new(Mutex::new(acts.into_iter().collect())),
        }
    }
}

struct Fake {
    act: Act,
    looks: u32,
    out: PathBuf,
    over: Option<i32>,
    seen: Arc<Mutex<Seen>>,
}

impl Launcher for Children {
    fn launch(&mut self, launch: &Launch) -> io::Result<Box<dyn Running>> {
        let arguments = launch.arguments.iter();
        let arguments: Vec<String> = arguments.map(|it| it.to_string_lossy().into()).collect();
        let out = arguments.iter().position(|it| it == "--out").unwrap();
        let out = PathBuf::from(&arguments[out + 1]);
        let mut acts = self.acts.lock().unwrap();
        let act = match acts.len() {
            1 => acts[0].clone(),
            _ => acts.pop_front().unwrap(),
        };
        let mut seen = self.seen.lock().unwrap();
        seen.launched.push(arguments);
        seen.running += 1;
        seen.most_running = seen.most_running.max(seen.running);
        Ok(Box::new(Fake {
            act,
            looks: 0,
            out,
            over: None,
            seen: self.seen.clone(),
        }))
    }
}

impl Fake {
    fn finish(&mut self, code: i32) {
        if self.over.is_none() {
            self.over = Some(code);
            self.seen.lock().unwrap().running -= 1;
        }
    }
}

impl Running for Fake {
    fn progress(&self) -> String {
        format!("look {}", self.looks)
    }

    fn poll(&mut self) -> Option<i32> {
        self.looks += 1;
        match self.act.clone() {
            Act::Write(profile, code, looks) if self.looks >= looks && self.over.is_none() => {
                jostle_profile::save(&profile, &self.out).unwrap();
                self.finish(code);
            }
            Act::Fail(code) => self.finish(code),
            _ => {}
        }
        self.over
    }

    fn end(&mut self) {
        self.seen.lock().unwrap().asked += 1;
        if !matches!(self.act, Act::Hang { heeds: false }) {
            self.finish(130);
        }
    }

    fn kill(&mut self) {
        self.seen.lock().unwrap().killed += 1;
        self.finish(-9);
    }
}
