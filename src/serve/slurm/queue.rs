//! Slurm's jobs and nodes, as `squeue --json` and `sinfo` show them.

use super::hosts;
use super::note::Given;
use super::note::Note;
use super::note::profile_in;
use super::tasks;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// The arguments of `sinfo` that [`nodes`] reads the output of.
pub const SINFO: &[&str] = &["-h", "-N", "-o", "%N|%m|%t|%P|%C"];

/// The arguments of `squeue` that [`jobs`] reads the output of.
pub const SQUEUE: &[&str] = &["--json", "--all"];

/// With more in the admin comment there is no space for a note, bytes.
const LONGEST_OF_OTHERS: usize = 450;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Pending,
    Running,
    /// Has its CPUs and runs nothing on them.
    Resting,
    Ended,
}

/// A job; Slurm shows those that have ended for some minutes.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub id: u64,
    /// Of an array: its number, and those of its tasks that this record stands for.
    pub array: Option<(u64, Vec<u32>)>,
    pub phase: Phase,
    pub nodes: Vec<String>,
    pub cpus: u32,
    pub memory_mb: u64,
    pub partition: String,
    pub priority: f64,
    /// When it may start, in seconds since 1970.
    pub eligible: u64,
    pub excluded: Vec<String>,
    /// Only a place is missing, or we let it wait.
    pub can_start: bool,
    /// Why it is left alone: it asks for what not every node has.
    pub fixed: Option<&'static str>,
    pub profile: Option<String>,
    pub note: Option<Note>,
    /// What somebody else wrote there.
    pub admin_comment: String,
}

/// A node, and whether it takes jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub cpus: u32,
    pub idle_cpus: u32,
    pub memory_mb: u64,
    pub up: bool,
}

/// All nodes, and which belong to which partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    pub nodes: BTreeMap<String, Node>,
    pub partitions: BTreeMap<String, BTreeSet<String>>,
    pub default_partition: Option<String>,
}

impl Job {
    /// Since when we hold it back; `now` where we do not.
    pub fn waits_since(&self, now: u64) -> u64 {
        match self.note.as_ref().map(|note| &note.given) {
            Some(Given::Waiting(since)) => *since,
            _ => now,
        }
    }
}

/// Versions of Slurm write a number as it is, or as an object that says whether
/// it is set.
fn number(value: &Value) -> f64 {
    let set = value.get("set").is_none_or(|set| set == true);
    let inner = value.get("number").unwrap_or(value);
    inner.as_f64().filter(|_| set).unwrap_or(0.0)
}

/// A text, or the first of a list of texts.
fn text(value: &Value) -> &str {
    let first = value.get(0).unwrap_or(value);
    first.as_str().unwrap_or_default()
}

/// Reads `squeue --json`. What is no job is left out.
///
/// # Errors
/// When it is no JSON document with jobs.
pub fn jobs(json: &[u8]) -> Result<Vec<Job>, String> {
    #[derive(Deserialize)]
    struct Document {
        jobs: Vec<Value>,
    }
    let document: Document = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    Ok(document.jobs.iter().filter_map(job).collect())
}

fn job(value: &Value) -> Option<Job> {
    let phase = match text(&value["job_state"]) {
        "PENDING" => Phase::Pending,
        "RUNNING" | "CONFIGURING" => Phase::Running,
        "SUSPENDED" | "COMPLETING" | "STOPPED" => Phase::Resting,
        "" => return None,
        _ => Phase::Ended,
    };
    let note = Note::parse(text(&value["admin_comment"]));
    let named = profile_in(text(&value["comment"])).map(String::from);
    let waits = matches!(&note, Some(note) if matches!(note.given, Given::Waiting(_)));
    let reasons: &[&str] = &["None", "Resources", "Priority", "ReqNodeNotAvail"];
    let reason = text(&value["state_reason"]);
    let memory = number(&value["memory_per_node"]);
    let cpus = number(&value["cpus"]).max(1.0);
    let id = number(&value["job_id"]) as u64;
    Some(Job {
        id,
        array: array(value),
        phase,
        nodes: hosts::expand(text(&value["nodes"])).unwrap_or_default(),
        cpus: cpus as u32,
        memory_mb: match memory > 0.0 {
            true => memory as u64,
            false => (number(&value["memory_per_cpu"]) * cpus) as u64,
        },
        partition: text(&value["partition"]).into(),
        priority: number(&value["priority"]),
        eligible: number(&value["eligible_time"]) as u64,
        excluded: hosts::expand(text(&value["excluded_nodes"])).unwrap_or_default(),
        can_start: reasons.contains(&reason) || waits && reason == "BeginTime",
        fixed: fixed(value, note.as_ref()),
        profile: note.as_ref().map(|note| note.profile.clone()).or(named),
        admin_comment: match &note {
            Some(note) => note.before.clone(),
            None => text(&value["admin_comment"]).into(),
        },
        note,
    })
}

/// The number of an array and its tasks in this record.
fn array(value: &Value) -> Option<(u64, Vec<u32>)> {
    let base = number(&value["array_job_id"]) as u64;
    let list = text(&value["array_task_string"]);
    match (base, list) {
        (0, _) => None,
        (_, "") => Some((base, vec![number(&value["array_task_id"]) as u32])),
        _ => tasks::parse(list).map(|tasks| (base, tasks)),
    }
}

fn fixed(value: &Value, note: Option<&Note>) -> Option<&'static str> {
    let given = |key: &str| !text(&value[key]).is_empty();
    let required = text(&value["required_nodes"]);
    let ours = note.is_some_and(|note| note.given == Given::Node(required.into()));
    let one_node = number(&value["max_nodes"]) == 1.0 || number(&value["tasks"]) <= 1.0;
    let others = note.map_or(text(&value["admin_comment"]), |note| &note.before);
    let checks = [
        (
            others.len() > LONGEST_OF_OTHERS,
            "its admin comment is long",
        ),
        (!required.is_empty() && !ours, "it names nodes"),
        (given("features"), "it asks for features"),
        (given("resv_name"), "it asks for a reservation"),
        (given("licenses"), "it asks for licences"),
        (given("tres_per_node"), "it asks for generic resources"),
        (given("tres_per_job"), "it asks for generic resources"),
        (given("tres_per_task"), "it asks for generic resources"),
        (given("tres_per_socket"), "it asks for generic resources"),
        (number(&value["het_job_id"]) > 0.0, "it is heterogeneous"),
        (number(&value["node_count"]) > 1.0, "it takes several nodes"),
        (!one_node, "it may take several nodes"),
        (
            ["none", "user", "mcs"].contains(&text(&value["shared"])),
            "it has its node for itself",
        ),
    ];
    let found = checks.iter().find(|(holds, _)| *holds);
    found.map(|(_, why)| *why)
}

/// Reads `sinfo -N`: a node stands there once for each of its partitions.
pub fn nodes(output: &str) -> Nodes {
    let mut all = Nodes::default();
    for line in output.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let [name, memory, state, partition, cpus] = fields[..] else {
            continue;
        };
        // Allocated, idle, other, all.
        let cpus: Vec<u32> = cpus.split('/').flat_map(str::parse).collect();
        let (&[_, idle_cpus, _, cpus], Ok(memory_mb)) = (&cpus[..], memory.parse()) else {
            continue;
        };
        // A mark behind it says that the node does not answer, sleeps or is
        // reserved. A planned one waits for a larger job, and takes smaller ones.
        let up = ["idle", "mix", "alloc", "comp", "plnd", "mix-", "idle-"].contains(&state);
        let node = Node {
            cpus,
            idle_cpus,
            memory_mb,
            up,
        };
        all.nodes.insert(name.into(), node);
        let plain = partition.trim_end_matches('*');
        if plain != partition {
            all.default_partition = Some(plain.into());
        }
        let members = all.partitions.entry(plain.into()).or_default();
        members.insert(name.into());
    }
    all
}

impl Nodes {
    /// The nodes of the partitions named, separated by commas; those of the default
    /// partition for an empty name.
    pub fn of_partitions(&self, names: &str) -> BTreeSet<&str> {
        let names = match names {
            "" => self.default_partition.as_deref().unwrap_or_default(),
            names => names,
        };
        let members = names
            .split(',')
            .filter_map(|name| self.partitions.get(name));
        members.flatten().map(String::as_str).collect()
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
