//! What `jostle provision` answers, as a document: `jostle-provision/1`. Pure data.
//!
//! A copy of a mix is one instance of each of its applications, or as many as the mix
//! says. Performance is a fraction of what the application reaches alone on the same
//! machine.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

/// The format this version writes.
pub const FORMAT: &str = "jostle-provision/1";

/// How many copies of each mix fit on each machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Provision {
    /// `jostle-provision/1`.
    #[cfg_attr(
        feature = "schema",
        schemars(regex(pattern = r"^jostle-provision/1(\..*)?$"))
    )]
    pub format: String,
    pub tool_version: String,
    /// Whether applications time-share CPUs; otherwise each has its own.
    pub shares_cpus: bool,
    /// How much more of a resource one step is.
    pub step_percent: f64,
    /// The mix that was given; without one each application by itself.
    pub mixes: Vec<MixFit>,
}

/// One mix on every machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MixFit {
    pub name: String,
    pub applications: Vec<MixMember>,
    /// Most copies first.
    pub machines: Vec<MachineFit>,
}

/// One application of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MixMember {
    pub name: String,
    /// Instances in one copy of the mix.
    pub count: u32,
    /// CPUs that each instance has.
    pub cpus: u32,
    /// Memory that each instance needs; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Fraction of its performance to keep.
    pub qos: f64,
}

/// One mix on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MachineFit {
    pub machine: String,
    pub model: String,
    pub cpus: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// From 1; machines of which the interval of copies reaches the estimate of the
    /// best share its rank.
    pub rank: u32,
    pub basis: Basis,
    pub copies: Copies,
    /// Why not one copy more.
    pub limit: Limit,
    /// Each application at that many copies; one copy where none fits.
    pub performance: Vec<MemberPerformance>,
    /// The resource that saturates first comes first.
    pub saturation: Vec<Saturation>,
    /// What one step more of each resource buys, most first; empty without a mix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// What a reader should know before believing the numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What the numbers rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// All profiles were recorded on this machine.
    Recorded,
    /// Pressures were scaled by the measured peaks of both machines.
    Scaled,
}

/// How many copies keep the QoS of every application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Copies {
    /// By the expected performance.
    pub estimate: u32,
    /// By the lower ends of the 95 % intervals, and by the upper ends.
    pub low: u32,
    pub high: u32,
}

/// What one copy more would violate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "by", rename_all = "lowercase")]
pub enum Limit {
    Cpus,
    Memory,
    Qos {
        application: String,
        /// What costs it the most; absent where nothing is known to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource: Option<String>,
    },
    /// More were not tried.
    Search,
}

/// One application at a number of copies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MemberPerformance {
    pub application: String,
    /// Of the instance that is worst off.
    pub performance: f64,
    pub ci95: [f64; 2],
    /// The chance (0–1) that it keeps its QoS.
    pub chance_of_qos: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_costly: Option<String>,
}

/// How much of a resource the copies take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Saturation {
    /// Resource id; `cpu-time` and `memory-capacity` for CPUs and memory.
    pub resource: String,
    /// Percent of what the machine has, at the estimated number of copies.
    pub percent: f64,
    /// Copies at which it reaches 100 %.
    pub saturates_at_copies: f64,
    /// A part of it is what other profiles have, not measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
}

/// What one step more of a resource buys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Step {
    pub resource: String,
    /// Copies that fit then.
    pub copies: u32,
    /// Least performance of any application at the number of copies without the
    /// step, and what the step adds to it.
    pub worst_performance: f64,
    pub gain: f64,
    /// The curves were read beyond what was measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub extrapolated: bool,
}
