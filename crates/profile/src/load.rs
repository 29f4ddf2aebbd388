//! What a profile keeps of the load it was measured under. Pure data.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

/// How the moments of the requests lay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ArrivalsFact {
    Poisson,
    Uniform,
    /// Each request followed the answer to the one before.
    Closed,
}

/// One of the HTTP requests of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RequestFact {
    /// Of all requests.
    pub share_percent: f64,
    pub method: String,
    /// Path and query; `{key}` stands for a number.
    pub path: String,
    pub body_bytes: u64,
}

/// The load a target was under.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LoadFacts {
    /// `redis`, `memcached`, `http`.
    pub url_kind: String,
    /// Where it went, without credentials.
    pub url: String,
    /// Requests intended per second; absent in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<f64>,
    /// Highest rate found that met `slo`; absent when it was not searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_per_second: Option<f64>,
    /// `rate_per_second` as percent of `capacity_per_second`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<f64>,
    /// The latency target of the search, like `p99:1ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<String>,
    /// Time the search took, in addition to the budget; absent where the capacity was
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_search_seconds: Option<f64>,
    pub connections: u64,
    /// Requests under way on one connection at most.
    pub pipeline: u64,
    /// Whether each request had a connection of its own, made when it was due.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub connection_per_request: bool,
    /// Whether requests were sent with HTTP/2.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub http2: bool,
    /// HTTP: what was asked for; empty where it was a GET of `url` alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestFact>,
    pub arrivals: ArrivalsFact,
    /// Different keys asked for; absent where requests name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<u64>,
    /// 0: all keys alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zipf_exponent: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_bytes: Option<u64>,
    /// Share of the requests that read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_percent: Option<f64>,
    pub seed: u64,
    pub timeout_seconds: f64,
    /// How late requests were sent through the generator's own fault, 99th
    /// percentile over all windows; absent in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing_error_p99_us: Option<f64>,
    /// CPU time of the generator, percent of one CPU.
    pub generator_cpu_percent: f64,
    /// CPUs it was seen on.
    pub generator_cpus: Vec<usize>,
}
