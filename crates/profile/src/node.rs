//! What an agent knows of its node, as a document: `jostle-node/1`. Pure data.
//!
//! Everything is as of one refresh. What could not be read is unavailable with its
//! reason.

use crate::MachineFacts;
use crate::Unknown;
use crate::WarningFacts;
use crate::document;
use crate::document::DocumentError;
use crate::reading::Reading;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeMap;

/// The format this version writes.
pub const FORMAT: &str = "jostle-node/1";

/// One node, as its agent sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct NodeState {
    /// `jostle-node/1`.
    #[cfg_attr(
        feature = "schema",
        schemars(regex(pattern = r"^jostle-node/1(\..*)?$"))
    )]
    pub format: String,
    pub tool_version: String,
    /// Name of the node: its host name unless configured.
    pub name: String,
    /// When this was read, RFC 3339, UTC.
    pub recorded_at: String,
    /// Time from one refresh to the next.
    pub interval_seconds: f64,
    /// Counts refreshes since the agent was started.
    pub refresh: u64,
    pub machine: MachineFacts,
    pub agent: AgentCost,
    pub load: NodeLoad,
    /// By resource id: pressure and headroom.
    pub resources: BTreeMap<String, NodeResource>,
    /// Sorted by name.
    pub workloads: Vec<WorkloadState>,
    /// The experiment that runs at this moment; absent when none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<RunningExperiment>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<WarningFacts>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Reads a node's document from the bytes of its file.
///
/// # Errors
/// Those of [`document::parse`].
pub fn parse(bytes: &[u8]) -> Result<NodeState, DocumentError> {
    document::parse(bytes, FORMAT, "jostle node document")
}

/// What the agent itself costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AgentCost {
    pub uptime_seconds: f64,
    /// CPU time of the agent since the refresh before, 100 for one CPU; experiments
    /// are processes of their own and not included.
    pub cpu_percent: Reading<f64>,
    pub resident_bytes: Reading<u64>,
    /// CPU time of the last refresh.
    pub refresh_cpu_seconds: f64,
}

/// The whole machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct NodeLoad {
    /// CPU time used by everybody, 100 for one CPU.
    pub cpu_percent: Reading<f64>,
    /// CPU time the hypervisor gave to others, 100 for one CPU.
    pub steal_percent: Reading<f64>,
    pub memory_available_bytes: Reading<u64>,
    /// Over all disks.
    #[serde(default = "not_told")]
    pub disk_read_bytes_per_second: Reading<f64>,
    #[serde(default = "not_told")]
    pub disk_written_bytes_per_second: Reading<f64>,
    /// Over all network devices but loopback.
    #[serde(default = "not_told")]
    pub network_received_bytes_per_second: Reading<f64>,
    #[serde(default = "not_told")]
    pub network_sent_bytes_per_second: Reading<f64>,
    /// Share of the time in which some task waited (PSI).
    pub psi_cpu_some_percent: Reading<f64>,
    pub psi_memory_some_percent: Reading<f64>,
    pub psi_io_some_percent: Reading<f64>,
}

fn not_told() -> Reading<f64> {
    Reading::unavailable("the agent that wrote this does not read it")
}

/// One resource of the node, over all residents with a profile. Scores are on the
/// scale of profiles, 0 to 100.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct NodeResource {
    /// Sum of what the residents use of the resource's peak, percent: from their
    /// current readings where the resource has a reading, else from their profiles.
    pub used_percent: Reading<f64>,
    /// Sum of the pressure that the residents cause; may exceed 100.
    pub caused: Reading<f64>,
    /// The resident that tolerates least.
    pub least_tolerated: Reading<LeastTolerated>,
    /// Pressure that a newcomer may cause before the first resident misses its QoS:
    /// the least over residents of what it tolerates less what all others cause.
    /// Negative where somebody misses it already.
    pub headroom: Reading<f64>,
    /// Residents whose profile has no score of this resource, in either direction;
    /// the numbers above do not include them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub residents_without_score: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The resident that tolerates least.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LeastTolerated {
    pub score: f64,
    pub workload: String,
}

/// Something that runs on the node and matched a rule of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct WorkloadState {
    /// Unique on the node.
    pub name: String,
    pub kind: WorkloadKind,
    /// Index of the rule that matched, from 0 in the order of the configuration.
    pub rule: u64,
    /// Path of its cgroup below the hierarchy, or `pid:NUMBER`.
    pub target: String,
    /// Labels of its container or pod, where the engine keeps them on disk.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When the agent first saw it, RFC 3339, UTC.
    pub since: String,
    /// Whether sources of interference may run beside it.
    pub may_be_profiled: bool,
    /// Whether it may be paused for milliseconds to see whom it slows.
    pub may_be_paused: bool,
    pub readings: WorkloadReadings,
    /// How fast it runs by its own metric, or why that is not known.
    pub performance: Reading<Performance>,
    /// Its entry in the profile store, or why it has none.
    pub profile: Reading<ProfileSummary>,
    /// Whether it still does what was profiled, or why that cannot be told.
    pub drift: Reading<DriftState>,
    /// Who slows it, by the last experiment, or why none was done.
    pub culprits: Reading<Culprits>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What kind of thing a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    Cgroup,
    Unit,
    Container,
    Pod,
    Process,
}

/// What a workload used since the refresh before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct WorkloadReadings {
    /// Time between the two readings.
    pub seconds: f64,
    /// 100 for one CPU.
    pub cpu_percent: Reading<f64>,
    /// Time its threads waited for a CPU, 100 for one thread that waits all the time.
    pub run_queue_delay_percent: Reading<f64>,
    pub memory_bytes: Reading<f64>,
    pub disk_read_bytes_per_second: Reading<f64>,
    pub disk_written_bytes_per_second: Reading<f64>,
    pub network_received_bytes_per_second: Reading<f64>,
    pub network_sent_bytes_per_second: Reading<f64>,
    /// Share of the time in which some task of it waited (PSI).
    pub psi_cpu_some_percent: Reading<f64>,
    pub psi_memory_some_percent: Reading<f64>,
    pub psi_io_some_percent: Reading<f64>,
    pub cycles_per_instruction: Reading<f64>,
}

/// How fast a workload runs, by its own metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Performance {
    pub metric: String,
    pub unit: String,
    pub value: f64,
    /// What is usual: that of its profile, or of the configuration.
    pub baseline: Reading<f64>,
    /// `value` over `baseline`, inverted for latencies: 1 is as usual, lower is
    /// slower.
    pub relative: Reading<f64>,
    /// Fraction of `baseline` that it must keep.
    pub qos_threshold: f64,
    /// Whether it does.
    pub meets_qos: Reading<bool>,
}

/// The newest profile of a workload in the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProfileSummary {
    /// Name in the store, as in `/v1/profiles/NAME`.
    pub name: String,
    /// RFC 3339, UTC.
    pub recorded_at: String,
    /// Whether it was recorded on a machine like this one.
    pub of_this_machine: bool,
    /// By resource id: tolerated pressure, 0 to 100; absent where unknown.
    pub tolerated: BTreeMap<String, f64>,
    pub caused: BTreeMap<String, f64>,
    /// Share of the resource's peak that it uses, percent.
    pub used_percent: BTreeMap<String, f64>,
}

/// Whether a profile still describes its workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct DriftState {
    pub drifted: bool,
    /// In words: what changed since when; empty while nothing did.
    pub reason: String,
    /// Refreshes that were compared with the profile.
    pub windows: u64,
}

/// Who slows a workload, by experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Culprits {
    /// RFC 3339, UTC.
    pub recorded_at: String,
    /// Whether somebody was paused; otherwise the numbers are correlations only.
    pub by_experiment: bool,
    /// The most guilty first.
    pub suspects: Vec<Culprit>,
}

/// One suspect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Culprit {
    pub name: String,
    pub verdict: crate::blame::Verdict,
    /// Share of its speed that the workload loses to it, percent, with its 95 %
    /// interval for all suspects at once.
    pub slowed_percent: Reading<crate::Estimate>,
    /// Likely cause in words; empty where nothing is shared that could be seen.
    pub shares: Vec<String>,
}

/// An experiment that runs at this moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunningExperiment {
    pub kind: ExperimentKind,
    pub workload: String,
    /// RFC 3339, UTC.
    pub since: String,
    pub budget_seconds: f64,
    /// Highest intensity it may use, percent; absent for a blame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_intensity_percent: Option<f64>,
    /// The last line it told.
    pub progress: String,
}

/// What an experiment does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ExperimentKind {
    Profile,
    Blame,
}

/// Something that happened on the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Event {
    /// Ascending since the agent was started.
    pub id: u64,
    /// RFC 3339, UTC.
    pub at: String,
    pub kind: EventKind,
    /// Absent where it concerns the whole node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// In words.
    pub text: String,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    AgentStarted,
    ConfigurationReloaded,
    WorkloadAppeared,
    WorkloadVanished,
    QosMissed,
    QosMet,
    Drifted,
    ExperimentStarted,
    ExperimentEnded,
    /// An experiment was cut short because its workload fell below the QoS floor.
    FloorReached,
    CulpritFound,
    Warning,
}
