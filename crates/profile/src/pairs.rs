//! Real co-locations as a file: `jostle-pairs/1`. Pure data.
//!
//! Each group holds applications that ran together and apart in turns, and the
//! share of its speed that each of them kept.

use crate::CheckError;
use crate::Direction;
use crate::Estimate;
use crate::LastLevelCache;
use crate::LoadError;
use crate::MachineFacts;
use crate::Unknown;
use crate::WarningFacts;
use crate::check::estimate;
use crate::check::interval;
use crate::check::not_negative;
use crate::check::refuse;
use crate::document;
use crate::file;
use crate::layout;
use crate::reading::Reading;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::Path;

/// The format this version writes.
pub const FORMAT: &str = "jostle-pairs/1";

/// What applications cost each other on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Pairs {
    /// `jostle-pairs/1`.
    #[cfg_attr(
        feature = "schema",
        schemars(regex(pattern = r"^jostle-pairs/1(\..*)?$"))
    )]
    pub format: String,
    pub tool_version: String,
    /// RFC 3339, UTC: when the last group was measured.
    pub recorded_at: String,
    pub machine: MachineFacts,
    pub seed: u64,
    pub settings: Settings,
    pub groups: Vec<Group>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How the groups were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Settings {
    /// Time that a group was given for its blocks.
    pub budget_seconds: f64,
    /// Half-width of the intervals at which a group ends early, as a fraction of
    /// the speed apart.
    pub half_width: f64,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Applications that ran together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Group {
    pub placement: GroupPlacement,
    /// Two or more.
    pub members: Vec<Member>,
    /// CPUs to which the machine's disks send their interrupts, where that is a
    /// part of all CPUs: what a disk does for one member costs whoever is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_interrupt_cpus: Option<Vec<usize>>,
    /// Time from the first block to the last.
    pub seconds: f64,
    /// Whether two members on virtual CPUs of their own shared the last-level cache that
    /// these are said to share; absent where that was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_sharing: Option<GroupCacheSharing>,
    /// How much of the last-level cache there was, beside others whom this machine does not
    /// show; absent where that was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_level_cache: Option<LastLevelCache>,
    /// What a reader should know before using the numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<WarningFacts>,
    /// RFC 3339, UTC; absent where the whole document was measured at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_at: Option<String>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How long two members shared a last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct GroupCacheSharing {
    /// Share of the blocks together.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 100.0)))]
    pub shared_percent: f64,
    /// Whether the performances are of that time alone.
    pub of_shared_time: bool,
}

/// Which CPUs the members of a group had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GroupPlacement {
    /// All members time-share the same CPUs.
    SameCpu,
    /// Each member has CPUs of its own, under one last-level cache.
    SameLlc,
    /// Each member has CPUs of its own, as far from each other as the machine
    /// allows.
    OwnCpus,
}

impl GroupPlacement {
    pub const ALL: [GroupPlacement; 3] = [
        GroupPlacement::SameCpu,
        GroupPlacement::SameLlc,
        GroupPlacement::OwnCpus,
    ];

    /// As in the file.
    pub fn name(self) -> &'static str {
        match self {
            GroupPlacement::SameCpu => "same-cpu",
            GroupPlacement::SameLlc => "same-llc",
            GroupPlacement::OwnCpus => "own-cpus",
        }
    }
}

impl fmt::Display for GroupPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One application of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Member {
    /// Its name: that of the file of its profile, without the ending, where it
    /// has one.
    pub app: String,
    pub target: MemberTarget,
    /// What its speed was read by, or why nothing could be read.
    pub metric: Reading<MemberMetric>,
    /// Logical CPUs it was given, or was found allowed to use.
    pub cpus: Vec<usize>,
    /// How much of its speed it kept beside the others, or why that is unknown.
    pub performance: Reading<Performance>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What a member is; exactly one of the keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MemberTarget {
    /// Program and arguments of a command that was started.
    Command(Vec<String>),
    /// A process that was running.
    Pid(i32),
    /// The path of a cgroup.
    Cgroup(String),
}

/// How a member's speed was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MemberMetric {
    /// As given to `--metric`.
    pub name: String,
    pub unit: String,
    pub better: Direction,
}

/// How much of its speed a member kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Performance {
    /// Speed together as a fraction of the speed apart, with the same CPUs and
    /// the others stopped. Above 1 where it was measured so.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0)))]
    pub value: f64,
    pub ci95: [f64; 2],
    /// Blocks that the value rests on, together and apart.
    pub blocks: u64,
    pub status: PerformanceStatus,
    /// Speed apart in the unit of the metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<Estimate>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Whether the value can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PerformanceStatus {
    /// The interval is narrow enough to tell what the neighbours cost.
    Measured,
    /// The interval is wide; the budget ended first.
    Unresolved,
}

/// Numbers must be finite and on their scales, intervals ordered, groups of two
/// or more members with different names.
///
/// # Errors
/// The path of the first offending key, what it holds and what it may hold.
pub fn check(pairs: &Pairs) -> Result<(), CheckError> {
    let settings = &pairs.settings;
    not_negative("settings.budget_seconds", settings.budget_seconds)?;
    not_negative("settings.half_width", settings.half_width)?;
    for (index, group) in pairs.groups.iter().enumerate() {
        let key = |rest: &str| format!("groups[{index}].{rest}");
        not_negative(&key("seconds"), group.seconds)?;
        if group.members.len() < 2 {
            let problem = format!("holds {}; a group has two or more", group.members.len());
            return refuse(&key("members"), problem);
        }
        let mut names = BTreeSet::new();
        for (at, member) in group.members.iter().enumerate() {
            let key = |rest: &str| key(&format!("members[{at}].{rest}"));
            if member.app.trim().is_empty() {
                return refuse(&key("app"), "is empty; a member needs a name");
            }
            if !names.insert(&member.app) {
                let problem = format!("`{}` is the name of two members", member.app);
                return refuse(&key("app"), problem);
            }
            let Reading::Value(performance) = &member.performance else {
                continue;
            };
            let key = |rest: &str| key(&format!("performance.{rest}"));
            not_negative(&key("value"), performance.value)?;
            interval(&key("ci95"), performance.ci95)?;
            if let Some(apart) = &performance.apart {
                estimate(&key("apart"), apart)?;
            }
        }
    }
    Ok(())
}

/// Reads one document and checks it. Keys this version does not know are kept.
///
/// # Errors
/// When the file cannot be read, is not JSON, is no `jostle-pairs/1`, or holds
/// what [`check`] refuses; names the file and the key.
pub fn load(path: &Path) -> Result<Pairs, LoadError> {
    let pairs: Pairs = file::document(path, FORMAT, "file of jostle pairs")?;
    check(&pairs).map_err(|error| LoadError::new(path, error))?;
    Ok(pairs)
}

/// Writes `pairs` so that a reader sees the old file or the new one, never half
/// of it.
///
/// # Errors
/// `InvalidData` when [`check`] refuses it; otherwise what the file system
/// answered.
pub fn save(pairs: &Pairs, path: &Path) -> io::Result<()> {
    check(pairs).map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem))?;
    document::replace(path, layout::json(pairs)?.as_bytes())
}
