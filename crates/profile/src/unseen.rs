//! What other guests, whom a virtual machine does not show, had of its caches and cores.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

/// Whether virtual CPUs that are said to share a last-level cache did, as the time of
/// a cache line between them tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CacheSharing {
    /// Resources whose blocks were played on such CPUs.
    pub resources: Vec<String>,
    /// Share of the time in which they shared it.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 100.0)))]
    pub shared_percent: f64,
    /// Whether curves and scores are of that time alone.
    pub of_shared_time: bool,
    /// What a line took there and back while they shared it, and while they did not,
    /// median, nanoseconds; absent where there was no such time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_ns: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart_ns: Option<f64>,
}

/// Whether the second-level cache of the target's core was there for it, as the time of
/// an access over part of it tells, against one in the first-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PrivateCacheHeld {
    /// Share of the looks in which others had a large part of it.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 100.0)))]
    pub held_percent: f64,
    pub looks: u64,
    /// An access in the first-level cache, median, nanoseconds.
    pub near_ns: f64,
    /// An access over part of the second-level cache, median, nanoseconds.
    pub access_ns: f64,
}

/// Somebody on the same core that this machine does not show, as the speed of
/// sources that need nothing but its execution units tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct UnseenNeighbour {
    /// Resources whose blocks were told apart by it.
    pub resources: Vec<String>,
    /// Share of the time in which the sources were slower than usual by 6 % or
    /// more.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 100.0)))]
    pub held_percent: f64,
    /// By how much they were slower then, median.
    pub slowed_percent: f64,
}

/// What an access in the last-level cache takes: the longer, the less of that cache is left
/// by others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LastLevelCache {
    /// Dependent accesses to three fifths of the size that the machine reports, median of
    /// the looks before and after, nanoseconds per access.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0)))]
    pub access_ns: f64,
    /// The least that a calibration of this machine saw; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0)))]
    pub free_ns: Option<f64>,
    /// Share of a part of that cache that was still there 30 ms after it had been read, median
    /// of the looks. The part is eight times the second-level cache, at most a quarter of the
    /// last. Absent where that is less than four times the second-level cache, where memory is
    /// hardly slower, or where a program cannot remove lines from caches to see how slow it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 100.0)))]
    pub kept_percent: Option<f64>,
    pub looks: u64,
}
