//! The sensitivity vector as a file: `jostle-profile/1`.
//!
//! Pure data. This module knows nothing of measuring, so that a scheduler can
//! use it alone. Percentages run 0–100; performance is a fraction of the
//! target's own baseline; units stand in key names; absent is absent, never 0.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod blame;
mod check;
pub mod cpulist;
pub mod curve;
pub mod document;
mod file;
mod floor;
pub mod json;
pub mod layout;
mod load;
mod mechanism;
mod merged;
pub mod node;
pub mod pairs;
pub mod provision;
pub mod prune;
pub mod reading;
mod readings;
pub mod regular;
pub mod resource;
pub mod rows;
mod scaling;
#[cfg(feature = "schema")]
mod schema;
pub mod summary;
mod switch;
mod together;
mod unique;
mod unseen;
mod usage;
mod warning;
pub mod windows;

pub use check::CheckError;
pub use check::check;
pub use file::LoadError;
pub use file::load;
pub use file::load_dir;
pub use file::parse;
pub use file::save;
pub use file::to_value;
pub use floor::FloorFacts;
pub use floor::FloorReached;
pub use load::ArrivalsFact;
pub use load::LoadFacts;
pub use load::RequestFact;
pub use mechanism::CounterFacts;
pub use mechanism::CounterPair;
pub use mechanism::Phase;
pub use mechanism::PhasePerformance;
pub use merged::MergedFacts;
pub use merged::MergedRun;
pub use readings::PairReading;
pub use readings::Readings;
pub use scaling::ScalingCurve;
pub use scaling::ScalingFacts;
pub use scaling::ScalingPoint;
pub use scaling::Speedup;
pub use scaling::SpeedupStatus;
#[cfg(feature = "schema")]
pub use schema::blame_schema;
#[cfg(feature = "schema")]
pub use schema::node_schema;
#[cfg(feature = "schema")]
pub use schema::pairs_schema;
#[cfg(feature = "schema")]
pub use schema::provision_schema;
#[cfg(feature = "schema")]
pub use schema::schema;
pub use switch::SchedulerFacts;
pub use switch::Sourced;
pub use switch::Switch;
pub use switch::SwitchAt;
pub use together::Interaction;
pub use together::Together;
pub use unseen::CacheSharing;
pub use unseen::LastLevelCache;
pub use unseen::PrivateCacheHeld;
pub use unseen::UnseenNeighbour;
pub use usage::Usage;
pub use usage::UsedBy;
pub use usage::UsedQuantity;
pub use usage::UsedShare;
pub use warning::WarningFacts;

use crate::reading::Reading;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The format this version writes.
pub const FORMAT: &str = "jostle-profile/1";

/// Keys this version does not know, kept on rewrite.
pub type Unknown = BTreeMap<String, Value>;

/// Both halves of a sensitivity vector, and everything needed to doubt it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Profile {
    /// `jostle-profile/1`.
    #[cfg_attr(
        feature = "schema",
        schemars(regex(pattern = r"^jostle-profile/1(\..*)?$"))
    )]
    pub format: String,
    /// True when the measurement was cut short and only what was learned until
    /// then is in this file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    pub workload: Workload,
    pub machine: MachineFacts,
    pub metric: MetricFacts,
    pub qos: Qos,
    pub conditions: Conditions,
    /// One entry per resource id.
    #[serde(deserialize_with = "unique::deserialize")]
    pub resources: BTreeMap<String, ResourceEntry>,
    /// What pairs of sources cost at once, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<Together>,
    /// What the target used by itself; absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// How performance grows with CPUs and with copies, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<ScalingFacts>,
    /// The runs that this profile was merged from; absent where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<MergedFacts>,
    /// What had been read when the measurement was cut short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readings: Option<Readings>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What was profiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Workload {
    pub name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Where it was profiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MachineFacts {
    /// Changes when CPU, caches, kernel, allowed CPUs or hypervisor change.
    pub fingerprint: String,
    pub model: String,
    /// Logical CPUs the tool was allowed to use.
    pub cpus: usize,
    pub caches: Vec<CacheFacts>,
    pub smt: bool,
    pub virtualized: Option<String>,
    pub kernel: String,
    pub memory_bytes: u64,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// One cache, as the machine reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CacheFacts {
    /// `L1d`, `L1i`, `L2`, `L3`.
    pub name: String,
    pub size_bytes: u64,
    /// How many logical CPUs share it.
    pub shared_by_cpus: usize,
}

/// Which way the metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Higher,
    Lower,
}

/// How finely in time performance can be read, finest first. It decides how
/// short the blocks of an arm may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Resolution {
    /// A page or the kernel counts, so that a load or one short system call
    /// tells the count at any instant: also at both ends of each turn that the
    /// target gets on a CPU.
    Turn,
    /// Each answer of the target to the load that is sent carries its own time.
    Request,
    /// Known only when the target prints, or when somebody asks it, which costs
    /// a look at files, a page over http or a command: each reading is about the
    /// interval since the one before.
    Print,
    /// One reading per run of a command from start to end.
    Run,
}

impl Resolution {
    /// What can be read when, in a few words.
    pub fn explain(self) -> &'static str {
        match self {
            Resolution::Turn => "turn: can be read at any instant",
            Resolution::Request => "request: every answer has its own time",
            Resolution::Print => "print: known from one reading to the next",
            Resolution::Run => "run: one reading per run",
        }
    }
}

/// How the target's performance was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MetricFacts {
    /// As given to `--metric`.
    pub name: String,
    pub unit: String,
    pub direction: Direction,
    /// Why this metric: asked for, or picked because …
    pub chosen_because: String,
    /// What one window of this metric holds, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_rule: Option<String>,
    /// How finely in time it could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// What reading it costs the target, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// What was sent to the target meanwhile, where we sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadFacts>,
    /// Undisturbed level in `unit`, with its 95 % interval.
    pub baseline: Option<Estimate>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A number and the interval that holds it with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Estimate {
    pub value: f64,
    pub ci95: [f64; 2],
}

/// When performance counts as kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Qos {
    /// Fraction of the baseline, 0.95 unless told otherwise.
    pub threshold: f64,
}

/// The state of the machine and the settings while measuring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Conditions {
    /// RFC 3339, UTC.
    pub recorded_at: String,
    pub duration_seconds: f64,
    pub tool_version: String,
    pub seed: u64,
    /// Wall-clock budget the measurement was given.
    pub budget_seconds: f64,
    /// True for `--quick`: wider intervals.
    pub quick: bool,
    /// Coefficient of variation of undisturbed windows, percent.
    pub noise_percent: Option<f64>,
    /// Share of CPU time the hypervisor took while measuring, percent.
    pub steal_percent: Reading<f64>,
    /// Windows dropped because of steal or failure.
    pub windows_dropped: u64,
    pub windows_kept: u64,
    /// Smallest loss, percent of baseline, that the first resource's windows
    /// could have told from noise.
    pub smallest_detectable_percent: Option<f64>,
    /// Highest intensity that any source was allowed, percent; absent where all
    /// of them were. Scores that reach it are bounds: nothing is known beyond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 100.0)))]
    pub max_intensity_percent: Option<f64>,
    /// Performance below which every source stops; absent where none was asked
    /// for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<FloorFacts>,
    /// Slice period of same-CPU workers.
    pub slice_period_seconds: Option<f64>,
    /// Share of the CPU a same-CPU worker takes, percent.
    pub slice_share_percent: Option<f64>,
    /// How the scheduler shares a CPU between busy processes; absent where no
    /// source time-shares the target's CPU, and in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<SchedulerFacts>,
    /// Where the peaks come from that intensity refers to: the machine file of
    /// some moment, or measured at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peaks_from: Option<String>,
    /// CPUs the target was given, or was found running on.
    pub target_cpus: Vec<usize>,
    /// Why these CPUs; absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cpus_because: Option<String>,
    /// The profiler's own CPU use while measuring, percent of one CPU.
    pub profiler_cpu_percent: Option<f64>,
    /// Every counter that was to be sampled beside the metric: what it is, or
    /// why it could not be read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, Reading<CounterFacts>>,
    /// Stretches of time in which the undisturbed target ran at levels of its
    /// own, in order; empty when its level held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// What neighbours that this machine does not show had of its cores while
    /// measuring; absent where it cannot be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen_neighbours: Vec<UnseenNeighbour>,
    /// How long the target shared a last-level cache with sources on other CPUs that
    /// are said to share it; absent where that was not looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cache_sharing: Vec<CacheSharing>,
    /// How much of the time others, whom this machine does not show, had the cache
    /// that only the target's core has; absent where that was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_cache: Option<PrivateCacheHeld>,
    /// How much of the last-level cache there was, beside others whom this machine does not
    /// show; absent where that was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_level_cache: Option<LastLevelCache>,
    /// What a reader should know before believing the numbers, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// The same for programs; absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<WarningFacts>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Where an entry's numbers come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Measured,
    Inferred,
    NotShared,
    #[default]
    Unavailable,
    Unresolved,
}

impl Status {
    /// As in the file.
    pub fn name(self) -> &'static str {
        match self {
            Status::Measured => "measured",
            Status::Inferred => "inferred",
            Status::NotShared => "not-shared",
            Status::Unavailable => "unavailable",
            Status::Unresolved => "unresolved",
        }
    }
}

/// How target and worker came to share the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PlacementMode {
    SmtSibling,
    SameCpu,
    SharedL2,
    SharedLlc,
    SameNuma,
    Device,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Placement {
    pub mode: PlacementMode,
    /// CPUs the workers ran on.
    pub cpus: Vec<usize>,
}

impl PlacementMode {
    /// As in the file.
    pub fn name(self) -> &'static str {
        match self {
            PlacementMode::SmtSibling => "smt-sibling",
            PlacementMode::SameCpu => "same-cpu",
            PlacementMode::SharedL2 => "shared-l2",
            PlacementMode::SharedLlc => "shared-llc",
            PlacementMode::SameNuma => "same-numa",
            PlacementMode::Device => "device",
        }
    }
}

/// A position on the 0–100 scale with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Score {
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 100.0)))]
    pub score: f64,
    pub ci95: [f64; 2],
}

/// Performance at one intensity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CurvePoint {
    /// Intensity that arrived, percent.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 100.0)))]
    pub intensity: f64,
    /// Intensity that was asked for, where the source fell short of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 100.0)))]
    pub requested: Option<f64>,
    /// Fraction of the same thing's performance under control (curve) or alone
    /// (probe curve).
    pub performance: f64,
    pub ci95: [f64; 2],
    /// Pressure the workers achieved, in the resource's unit, summed over them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<f64>,
    /// Treated windows behind this point.
    pub windows: u64,
}

/// The most the resource could cost here, from timings and not from windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PhysicalBound {
    pub loss_percent: f64,
    /// How it was computed, in words with numbers.
    pub basis: String,
}

/// Where inferred numbers come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct InferredFrom {
    /// The keys of the entry that were inferred: `tolerated`, `caused`, `curve`
    /// (its point at 100, of which no window was measured).
    pub what: Vec<String>,
    /// How: the method's name.
    pub method: String,
    /// Other applications that it was learned from.
    pub applications: u64,
    /// Measured numbers of this application that it was inferred from.
    pub measured: u64,
}

/// Both halves for one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ResourceEntry {
    pub status: Status,
    /// Why the status is not `measured`, or what limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Highest intensity at which the target still meets its QoS; 100 = never
    /// violated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerated: Option<Score>,
    /// 100 − the highest intensity at which the source itself keeps 95 % of
    /// its own alone-performance beside the target; 0 = undisturbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caused: Option<Score>,
    /// What of this entry was not measured but inferred from other applications;
    /// absent where all was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inferred: Option<InferredFrom>,
    /// Intensity of a second copy of the source that would cost the source at
    /// 100 % as much as the target does; 100 = at least the whole copy. Needs a
    /// calibrated machine; absent where not even the whole copy costs it much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 100.0)))]
    pub equivalent_intensity: Option<f64>,
    /// True when a loss beyond the QoS threshold was shown at some intensity,
    /// with the chance of any false alarm over all resources of the profile
    /// held under 5 %. False when such a loss was ruled out. Absent when
    /// neither could be told, or nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitive: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<CurvePoint>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probe_curve: Vec<CurvePoint>,
    /// Target performance beside the placebo as a fraction of undisturbed: the
    /// cost of sharing a CPU, which is not blamed on this resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing_cost: Option<Estimate>,
    /// What a switch to the source and back costs, or why that was not measured;
    /// absent for sources that do not time-share the target's CPU, and in files
    /// of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<Reading<Switch>>,
    /// Target performance at 100 % over all the time, where the curve and the
    /// scores are of the time without an unseen neighbour, or of a shared cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixture: Option<Estimate>,
    /// Unit of `pressure` in the curves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure_unit: Option<String>,
    /// The pressure that 100 % stands for, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_scale_pressure: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_bound: Option<PhysicalBound>,
    /// The most the target can cost the source, by what it was read to use of the
    /// resource; where that decided `caused`, which probing left open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caused_bound: Option<PhysicalBound>,
    /// Counters that moved between control and treat: the mechanism. `ipc` is
    /// here whether or not it moved.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, Reading<CounterPair>>,
    /// Counters that were read and not seen to move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters_steady: Vec<String>,
    /// Performance at the highest intensity in each phase of the target, if its
    /// phases lose different amounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhasePerformance>,
    /// What a reader should know before believing this entry, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// The same for programs; absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<WarningFacts>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Conditions {
    /// Adds a warning, as a sentence and for programs.
    pub fn warn(&mut self, warning: WarningFacts) {
        self.doubts.push(warning.message.clone());
        self.warnings.push(warning);
    }
}

impl ResourceEntry {
    /// Adds a warning, as a sentence and for programs.
    pub fn warn(&mut self, warning: WarningFacts) {
        self.doubts.push(warning.message.clone());
        self.warnings.push(warning);
    }

    /// An entry without numbers.
    pub fn without_numbers(status: Status, reason: impl Into<String>) -> Self {
        ResourceEntry {
            status,
            reason: Some(reason.into()),
            ..ResourceEntry::default()
        }
    }
}
