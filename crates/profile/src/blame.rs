//! Who slows a workload, as a file: `jostle-blame/1`. Pure data.
//!
//! Candidates were paused for milliseconds at a time, in random order, while the
//! progress of the victim was read. What was only observed is kept apart from what
//! was found by experiment.

use crate::CheckError;
use crate::Estimate;
use crate::LoadError;
use crate::MachineFacts;
use crate::Unknown;
use crate::WarningFacts;
use crate::check::estimate;
use crate::check::finite;
use crate::check::interval;
use crate::check::not_negative;
use crate::check::refuse;
use crate::document;
use crate::file;
use crate::layout;
use crate::pairs::MemberMetric;
use crate::pairs::MemberTarget;
use crate::reading::Reading;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;
use std::io;
use std::path::Path;

/// The format this version writes.
pub const FORMAT: &str = "jostle-blame/1";

/// Who slows one workload on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Blame {
    /// `jostle-blame/1`.
    #[cfg_attr(
        feature = "schema",
        schemars(regex(pattern = r"^jostle-blame/1(\..*)?$"))
    )]
    pub format: String,
    pub tool_version: String,
    /// RFC 3339, UTC.
    pub recorded_at: String,
    pub machine: MachineFacts,
    pub seed: u64,
    pub victim: Victim,
    /// Processes were paused, or why nobody was.
    pub experiment: Reading<Experiment>,
    /// The most guilty first.
    pub candidates: Vec<Candidate>,
    /// Who uses the machine and may not be paused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<Excluded>,
    /// What a reader should know before using the numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<WarningFacts>,
    /// Whether it was interrupted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The workload that somebody slows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Victim {
    pub name: String,
    pub target: MemberTarget,
    /// What its progress was read by, or why nothing could be read.
    pub metric: Reading<MemberMetric>,
    pub observed: VictimUse,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What the victim did while everybody ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct VictimUse {
    /// Time that it was watched for.
    pub seconds: f64,
    #[serde(flatten)]
    pub used: UsedByOne,
    /// Share of the time that its threads waited in run queues, 100 for one thread
    /// that waits all the time (schedstat).
    pub run_queue_delay_percent: Reading<f64>,
    /// Share of the time in which something waited for a CPU: in its own cgroup,
    /// else on the machine (PSI).
    pub psi_cpu_some_percent: Reading<f64>,
    pub psi_memory_some_percent: Reading<f64>,
    pub psi_io_some_percent: Reading<f64>,
    /// Cycles per instruction, where the CPU counts them.
    pub cycles_per_instruction: Reading<f64>,
}

/// What one side used while everybody ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct UsedByOne {
    /// 100 for one CPU.
    pub cpu_percent: f64,
    /// CPUs that it ran on, with its share of its own CPU time, percent.
    pub cpus: Vec<OnCpu>,
    pub disk_read_bytes_per_second: Reading<f64>,
    pub disk_written_bytes_per_second: Reading<f64>,
    pub resident_bytes: Reading<f64>,
    /// Whether it has connections through a network device other than loopback.
    pub talks_over_network: bool,
}

/// One CPU that was used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OnCpu {
    pub cpu: usize,
    pub percent: f64,
}

/// How processes were paused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Experiment {
    pub budget_seconds: f64,
    /// Time from the first pause to the last.
    pub seconds: f64,
    /// Length of a pause.
    pub pause_seconds: f64,
    /// Most of its time that a candidate may stand still.
    pub max_pause_percent: f64,
    /// Slowdown that counts as none.
    pub least_percent: f64,
    /// How the verdicts allow for many candidates: `holm`.
    pub correction: String,
    /// The same with a process that does nothing: what pausing itself seems to do.
    pub placebo: Reading<Effect>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Somebody who may slow the victim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Candidate {
    pub name: String,
    pub target: MemberTarget,
    /// Processes that it has.
    pub processes: u64,
    pub verdict: Verdict,
    /// By experiment, or why not.
    pub effect: Reading<Effect>,
    pub observed: CandidateUse,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What was seen of a candidate while everybody ran: evidence, no proof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CandidateUse {
    #[serde(flatten)]
    pub used: UsedByOne,
    /// What both it and the victim used, the likeliest cause first.
    pub shares: Vec<Shared>,
    /// Correlation of the victim's speed with the candidate's CPU use, from window
    /// to window: negative where the victim is slow while the candidate is busy.
    pub correlation: Reading<Estimate>,
}

/// Something that two programs both used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Shared {
    pub what: SharedWhat,
    /// In words, with the numbers.
    pub evidence: String,
}

/// What can be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SharedWhat {
    /// The time of a logical CPU.
    Cpu,
    /// A physical core, through two logical CPUs of it.
    Core,
    Disk,
    Network,
    /// A last-level cache.
    Llc,
    /// Memory of a NUMA node.
    Memory,
}

/// What the victim gains while a candidate stands still.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Effect {
    /// Share of its speed that the victim loses to the candidate, percent: 50 where
    /// it is twice as fast while the candidate is paused.
    pub slowed_percent: Estimate,
    /// The same as a gain: 100 where the victim is twice as fast.
    pub gain_percent: Estimate,
    /// Of `slowed_percent`, with 95 % confidence for all candidates at once.
    pub family95: [f64; 2],
    /// Of the second half of the pauses alone: higher where the victim was still
    /// recovering when the pause ended.
    pub late_slowed_percent: Option<Estimate>,
    pub pauses: u64,
    /// Share of the experiment in which it stood still.
    pub paused_percent: f64,
    /// Medians of the time from the order to stand still until it did, and of the
    /// order to go on; neither is a part of what was compared.
    pub stop_seconds: f64,
    pub resume_seconds: f64,
    /// What became of the victim's time.
    pub time: Reading<TimeSplit>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Where the victim's time went: beside the candidate, and while it was paused.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TimeSplit {
    /// On a CPU, 100 for one CPU.
    pub cpu_percent: PausedAndNot,
    /// Waiting in run queues, 100 for one thread.
    pub waiting_percent: PausedAndNot,
    /// Speed per second of CPU time that the victim loses, percent: what is not
    /// explained by CPU time that it did not get.
    pub slowed_per_cpu_second_percent: f64,
}

/// One number beside the running candidate and beside the paused one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PausedAndNot {
    pub running: f64,
    pub paused: f64,
}

/// What the experiment says of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It slows the victim, certainly by more than the least that counts.
    Slows,
    /// The victim is slower while it is paused: it may work for the victim.
    Helps,
    /// No slowdown was shown; `family95` says how large one could be.
    NotShown,
    /// It was not paused, or too rarely.
    NotTried,
}

/// Somebody who was left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Excluded {
    pub name: String,
    pub pid: i32,
    pub reason: String,
}

/// Numbers must be finite and on their scales, intervals ordered.
///
/// # Errors
/// The path of the first offending key, what it holds and what it may hold.
pub fn check(blame: &Blame) -> Result<(), CheckError> {
    if blame.victim.name.trim().is_empty() {
        return refuse("victim.name", "is empty; a workload needs a name");
    }
    not_negative("victim.observed.seconds", blame.victim.observed.seconds)?;
    if let Reading::Value(experiment) = &blame.experiment {
        not_negative("experiment.seconds", experiment.seconds)?;
        not_negative("experiment.pause_seconds", experiment.pause_seconds)?;
        not_negative("experiment.least_percent", experiment.least_percent)?;
        if let Reading::Value(effect) = &experiment.placebo {
            check_effect("experiment.placebo", effect)?;
        }
    }
    for (index, candidate) in blame.candidates.iter().enumerate() {
        let key = |rest: &str| format!("candidates[{index}].{rest}");
        if candidate.name.trim().is_empty() {
            return refuse(&key("name"), "is empty; a candidate needs a name");
        }
        let cpu = candidate.observed.used.cpu_percent;
        not_negative(&key("observed.cpu_percent"), cpu)?;
        if let Reading::Value(correlation) = &candidate.observed.correlation {
            estimate(&key("observed.correlation"), correlation)?;
        }
        match &candidate.effect {
            Reading::Value(effect) => check_effect(&key("effect"), effect)?,
            Reading::Unavailable { .. } if candidate.verdict != Verdict::NotTried => {
                return refuse(&key("verdict"), "is a verdict without an effect");
            }
            Reading::Unavailable { .. } => {}
        }
    }
    Ok(())
}

fn check_effect(key: &str, effect: &Effect) -> Result<(), CheckError> {
    let key = |rest: &str| format!("{key}.{rest}");
    estimate(&key("slowed_percent"), &effect.slowed_percent)?;
    estimate(&key("gain_percent"), &effect.gain_percent)?;
    interval(&key("family95"), effect.family95)?;
    if let Some(late) = &effect.late_slowed_percent {
        estimate(&key("late_slowed_percent"), late)?;
    }
    not_negative(&key("paused_percent"), effect.paused_percent)?;
    if let Reading::Value(time) = &effect.time {
        let per_cpu = time.slowed_per_cpu_second_percent;
        finite(&key("time.slowed_per_cpu_second_percent"), per_cpu)?;
    }
    Ok(())
}

/// Reads one document and checks it. Keys this version does not know are kept.
///
/// # Errors
/// When the file cannot be read, is not JSON, is no `jostle-blame/1`, or holds
/// what [`check`] refuses; names the file and the key.
pub fn load(path: &Path) -> Result<Blame, LoadError> {
    let blame: Blame = file::document(path, FORMAT, "file of jostle blame")?;
    check(&blame).map_err(|error| LoadError::new(path, error))?;
    Ok(blame)
}

/// Writes `blame` so that a reader sees the old file or the new one, never half
/// of it.
///
/// # Errors
/// `InvalidData` when [`check`] refuses it; otherwise what the file system
/// answered.
pub fn save(blame: &Blame, path: &Path) -> io::Result<()> {
    check(blame).map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem))?;
    document::replace(path, layout::json(blame)?.as_bytes())
}
