//! A scenario as it stands in the file.

use super::number::Count;
use super::number::Fraction;
use super::number::NotNegative;
use super::number::Percent;
use super::number::Positive;
use crate::settings::Latency;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    /// Read before everything else.
    #[serde(default, rename = "kind")]
    pub _kind: Option<String>,
    pub policies: Option<Spanned<Vec<Spanned<String>>>>,
    pub admission: Option<Spanned<toml::Value>>,
    pub arq: Option<RawArq>,
    pub wrangler: Option<RawWrangler>,
    pub cluster: Option<RawCluster>,
    #[serde(default)]
    pub node: Vec<RawNode>,
    #[serde(default)]
    pub platform: Vec<RawPlatform>,
    pub jobs: RawJobs,
    pub arrivals: RawArrivals,
    pub burst: Option<RawBurst>,
    pub work: Option<RawWork>,
    #[serde(default)]
    pub class: Vec<RawClass>,
    pub population: Option<RawPopulation>,
    #[serde(default)]
    pub app: Vec<RawApp>,
    #[serde(default)]
    pub profiling: RawProfiling,
    pub phases: Option<RawPhases>,
    pub faults: Option<RawFaults>,
    pub reservations: Option<RawReservations>,
    #[serde(default)]
    pub agents: RawAgents,
    #[serde(default)]
    pub latency: RawLatency,
    #[serde(default)]
    pub migration: RawMigration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawArq {
    pub queues: Option<Spanned<Count>>,
    pub sjf: Option<bool>,
    pub priorities: Option<bool>,
    pub relative: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawWrangler {
    pub windows: Spanned<String>,
    pub confidence: Option<Spanned<toml::Value>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawCluster {
    pub hardware: Spanned<String>,
    pub servers: Option<Count>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawNode {
    pub name: Spanned<String>,
    pub cpus: Count,
    pub memory: Spanned<String>,
    pub platform: Option<Spanned<String>>,
    pub count: Option<Count>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawPlatform {
    pub name: Spanned<String>,
    pub core_speed: Option<Positive>,
    pub pressure: Option<Positive>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawJobs {
    pub count: Option<Count>,
    pub residual_percent: Option<Percent>,
    pub priority_percent: Option<Percent>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawArrivals {
    pub process: Spanned<String>,
    pub mean_seconds: Option<Spanned<NotNegative>>,
    pub sd_seconds: Option<Spanned<NotNegative>>,
    pub per_second: Option<Spanned<Positive>>,
    pub file: Option<Spanned<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawBurst {
    pub after: Spanned<Count>,
    pub jobs: Count,
    pub gap_seconds: NotNegative,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawWork {
    pub median_seconds: Option<Spanned<Positive>>,
    pub sigma: Option<Spanned<NotNegative>>,
    pub least_seconds: Option<Spanned<Positive>>,
    pub most_seconds: Option<Spanned<Positive>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawClass {
    pub name: Spanned<String>,
    pub percent: Spanned<Percent>,
    pub work: Option<RawWork>,
    #[serde(default)]
    pub spread: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawPopulation {
    pub profiles: Spanned<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawApp {
    pub name: Spanned<String>,
    pub cpus: Option<Count>,
    pub memory: Option<Spanned<String>>,
    pub qos: Option<Fraction>,
    pub work_seconds: Option<Positive>,
    #[serde(default)]
    pub tolerates: BTreeMap<String, Spanned<Percent>>,
    #[serde(default)]
    pub causes: BTreeMap<String, Spanned<Percent>>,
    #[serde(default)]
    pub speed: BTreeMap<String, Spanned<Positive>>,
    pub serial: Option<Percent>,
    pub then: Option<Spanned<String>>,
    pub at: Option<Fraction>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawProfiling {
    pub seconds: Option<NotNegative>,
    pub error_points: Option<NotNegative>,
    pub curve_percent: Option<Percent>,
    pub inferred_percent: Option<Spanned<Percent>>,
    pub missing_percent: Option<Percent>,
    pub speed_percent: Option<Percent>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawPhases {
    pub percent: Percent,
    pub at: Vec<Spanned<Fraction>>,
    pub to: Spanned<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawFaults {
    #[serde(default)]
    pub nodes_per_hour: NotNegative,
    #[serde(default)]
    pub cpus_per_hour: NotNegative,
    pub repair_seconds: Positive,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawReservations {
    pub over_percent: Spanned<Percent>,
    pub over_factor: Positive,
    pub under_percent: Percent,
    pub under_factor: Positive,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawAgents {
    pub count: Option<Count>,
    pub sync_seconds: Option<Spanned<[Positive; 2]>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawLatency {
    pub base_seconds: NotNegative,
    pub per_examined_seconds: NotNegative,
}

impl Default for RawLatency {
    fn default() -> Self {
        let usual = Latency::default();
        RawLatency {
            base_seconds: NotNegative(usual.base_seconds),
            per_examined_seconds: NotNegative(usual.per_examined_seconds),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawMigration {
    pub allowed: Option<bool>,
    pub noticed_percent: Option<Percent>,
    pub delay_seconds: Option<NotNegative>,
    pub median_seconds: Option<Positive>,
    pub sigma: Option<NotNegative>,
}
