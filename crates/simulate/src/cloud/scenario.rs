//! The scenario file of a cloud.

use jostle_schedule::POLICIES;
use jostle_schedule::policy_kind;
use jostle_schedule::provision::Dynamic;
use jostle_schedule::provision::Mapping;
use jostle_schedule::provision::Prices;
use jostle_schedule::provision::Retention;
use jostle_schedule::provision::SIZES;
use jostle_schedule::provision::Strategy;
use jostle_schedule::provision::mapping;
use serde::Deserialize;
use serde::Serialize;
use std::path::Path;
use std::path::PathBuf;
use thiserror::Error;

/// How long an on-demand instance takes to appear: uniform over the usual
/// range, or, with a small chance, over the late one. The default has the usual
/// 12–19 s of the paper and its 95th percentile of two minutes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpinUp {
    pub usual_seconds: [f64; 2],
    pub late_share: f64,
    pub late_seconds: [f64; 2],
}

impl Default for SpinUp {
    fn default() -> Self {
        SpinUp {
            usual_seconds: [12.0, 19.0],
            // Half of the late tenth takes more than 120 s.
            late_share: 0.1,
            late_seconds: [19.0, 221.0],
        }
    }
}

impl SpinUp {
    pub(super) fn mean(&self) -> f64 {
        let middle = |[from, to]: [f64; 2]| 0.5 * (from + to);
        (1.0 - self.late_share) * middle(self.usual_seconds)
            + self.late_share * middle(self.late_seconds)
    }
}

/// What strangers do on the machines that small instances are slices of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct External {
    /// Their load as a share of the machine, on average (paper: 0.25).
    pub mean: f64,
    /// It is drawn anew within mean ± this (paper: 0.10).
    pub swing: f64,
    /// Every so many seconds.
    pub period_seconds: f64,
    /// Points of pressure on each shared resource per percent of load, on the
    /// smallest slice; a slice of n vCPUs feels (16 − n)/15 of it (ours: the
    /// paper says no more than that small instances suffer and full ones hardly).
    pub points_per_percent: f64,
}

impl Default for External {
    fn default() -> Self {
        External {
            mean: 0.25,
            swing: 0.10,
            period_seconds: 60.0,
            points_per_percent: 1.6,
        }
    }
}

/// Only `cloud`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Cloud,
}

/// A load and everything about the cloud that serves it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CloudScenario {
    pub kind: Kind,
    /// For reports.
    pub name: String,
    /// Minutes and vCPUs that are to be busy then, straight in between; jobs
    /// arrive until the last minute.
    pub load: Vec<[f64; 2]>,
    pub strategies: Vec<Strategy>,
    /// Run with profiles, without, or both.
    pub with_profiles: Vec<bool>,
    /// How hybrids divide jobs: P1 … P7 or dynamic.
    pub mapping: String,
    pub dynamic: Dynamic,
    pub prices: Prices,
    pub retention: Retention,
    pub spin_up: SpinUp,
    pub external: External,
    /// SR reserves the peak and this share of it more (paper: 0.10–0.15).
    pub overprovision: f64,
    /// With profiles: `greedy` for the least predicted overrun, or the name of
    /// a policy. Without, it is always `least-loaded`.
    pub placement: String,
    /// `greedy` rents another on-demand machine rather than overrun what is
    /// tolerated by more than this, in points summed over resources and jobs.
    pub overrun_points: f64,
    /// Mean minutes of a job by itself, and the sigma of its lognormal
    /// distribution.
    pub job_minutes: f64,
    pub job_sigma: f64,
    /// Share of the load, in vCPUs, that batch jobs make; services the rest.
    pub batch_share: f64,
    /// Relative frequency of jobs of 1, 2, 4, 8 and 16 vCPUs.
    pub batch_sizes: [f64; 5],
    pub service_sizes: [f64; 5],
    /// Fraction of its undisturbed performance that a job must keep.
    pub qos: f64,
    /// Mean absolute error of profiled scores, in points.
    pub estimation_error_points: f64,
    /// Standard deviation of ln performance by pair of jobs over what their
    /// curves say.
    pub residual_sd: f64,
}

impl Default for CloudScenario {
    fn default() -> Self {
        CloudScenario {
            kind: Kind::Cloud,
            name: "cloud".into(),
            load: Vec::new(),
            strategies: Strategy::ALL.to_vec(),
            with_profiles: vec![true, false],
            mapping: "dynamic".into(),
            dynamic: Dynamic::default(),
            prices: Prices::default(),
            retention: Retention::default(),
            spin_up: SpinUp::default(),
            external: External::default(),
            overprovision: 0.125,
            placement: GREEDY.into(),
            overrun_points: 10.0,
            job_minutes: 8.1,
            job_sigma: 0.5,
            batch_share: 0.6,
            // 1.55 vCPUs for batch and 4.2 for services: with 58 % of the load
            // batch, four batch jobs to a service and a job a second at 854
            // vCPUs, as in the paper's Table 8.2.
            batch_sizes: [0.65, 0.25, 0.10, 0.0, 0.0],
            service_sizes: [0.0, 0.3, 0.5, 0.2, 0.0],
            qos: 0.95,
            estimation_error_points: 5.0,
            residual_sd: 0.02,
        }
    }
}

pub(super) const GREEDY: &str = "greedy";

/// Why a scenario cannot be run: the file and line where they are known, the
/// key, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{problem}", place(path, line))]
pub struct CloudError {
    path: Option<PathBuf>,
    line: Option<usize>,
    key: Option<&'static str>,
    problem: String,
}

fn place(path: &Option<PathBuf>, line: &Option<usize>) -> String {
    match (path, line) {
        (Some(path), Some(line)) => format!("{}, line {line}: ", path.display()),
        (Some(path), None) => format!("{}: ", path.display()),
        (None, _) => String::new(),
    }
}

impl CloudError {
    /// Line of the file, from 1; absent where no line is to blame.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The key, and what to write, without the place.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    pub(super) fn of(key: &'static str, problem: impl AsRef<str>) -> Self {
        CloudError {
            path: None,
            line: None,
            key: Some(key),
            problem: format!("key `{key}`: {}", problem.as_ref()),
        }
    }

    /// The same with the line on which its key stands in the file.
    #[must_use]
    pub fn within(mut self, path: &Path, text: &str) -> Self {
        let key = self.key.and_then(|key| key.rsplit('.').next());
        let line = key.and_then(|key| {
            text.lines().position(|line| {
                let name = line.trim_start().strip_prefix(key);
                name.is_some_and(|rest| rest.trim_start().starts_with('='))
            })
        });
        self.line = line.map(|line| line + 1);
        self.path = Some(path.into());
        self
    }
}

impl CloudScenario {
    /// Reads a scenario file.
    ///
    /// # Errors
    ///
    /// As [`Self::parse`], and when it cannot be read.
    pub fn load(path: &Path) -> Result<Self, CloudError> {
        let text = std::fs::read_to_string(path).map_err(|error| CloudError {
            path: Some(path.into()),
            line: None,
            key: None,
            problem: error.to_string(),
        })?;
        CloudScenario::parse(path, &text)
    }

    /// Checks `text`; `path` is for messages.
    ///
    /// # Errors
    ///
    /// TOML that is not well formed, a key that is unknown or of the wrong
    /// type, and what [`Self::check`] refuses; with the line.
    pub fn parse(path: &Path, text: &str) -> Result<Self, CloudError> {
        let scenario: CloudScenario = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| {
                let before = text.as_bytes().get(..span.start).unwrap_or_default();
                1 + before.iter().filter(|byte| **byte == b'\n').count()
            });
            CloudError {
                path: Some(path.into()),
                line,
                key: None,
                problem: error.message().trim_end().replace('\n', "; "),
            }
        })?;
        scenario.check().map_err(|error| error.within(path, text))?;
        Ok(scenario)
    }

    /// Whether it can be run.
    ///
    /// # Errors
    ///
    /// The first key whose value makes no sense.
    pub fn check(&self) -> Result<(), CloudError> {
        let number = |key: &'static str, value: f64, least: f64, most: f64| {
            let inside = value >= least && value <= most;
            let range = match most == f64::MAX {
                true => format!("{least} or more"),
                false => format!("from {least} to {most}"),
            };
            match inside {
                true => Ok(()),
                false => Err(CloudError::of(
                    key,
                    format!("is {value}; write a number {range}"),
                )),
            }
        };
        let any = f64::MAX;
        if self.load.len() < 2 {
            return Err(CloudError::of(
                "load",
                "holds fewer than two points; write [[minutes, vcpus], [minutes, vcpus], …]",
            ));
        }
        for [_, cpus] in &self.load {
            number("load", *cpus, 1.0, 1e6)?;
        }
        if self.load[0][0] != 0.0 || !self.load.is_sorted_by(|a, b| a[0] < b[0]) {
            return Err(CloudError::of(
                "load",
                "its minutes have to begin at 0 and to ascend",
            ));
        }
        number("load", self.load[self.load.len() - 1][0], 1.0, 10_000.0)?;
        if self.strategies.is_empty() {
            let names = Strategy::ALL.map(Strategy::name).join(", ");
            return Err(CloudError::of(
                "strategies",
                format!("is empty; name some of {names}"),
            ));
        }
        if self.with_profiles.is_empty() {
            return Err(CloudError::of(
                "with_profiles",
                "is empty; write [true], [false] or [true, false]",
            ));
        }
        self.mapping()?;
        if self.placement != GREEDY && policy_kind(&self.placement).is_none() {
            let names: Vec<&str> = POLICIES.iter().map(|kind| kind.name).collect();
            return Err(CloudError::of(
                "placement",
                format!(
                    "`{}` is not known; write {GREEDY} or one of {}",
                    self.placement,
                    names.join(", ")
                ),
            ));
        }
        number("overprovision", self.overprovision, 0.0, 10.0)?;
        number("overrun_points", self.overrun_points, 0.0, any)?;
        number("job_minutes", self.job_minutes, 0.01, 10_000.0)?;
        number("job_sigma", self.job_sigma, 0.0, 3.0)?;
        number("batch_share", self.batch_share, 0.0, 1.0)?;
        number("qos", self.qos, 0.01, 1.0)?;
        number(
            "estimation_error_points",
            self.estimation_error_points,
            0.0,
            50.0,
        )?;
        number("residual_sd", self.residual_sd, 0.0, 1.0)?;
        for (key, weights) in [
            ("batch_sizes", &self.batch_sizes),
            ("service_sizes", &self.service_sizes),
        ] {
            for weight in weights {
                number(key, *weight, 0.0, 1e6)?;
            }
            if weights.iter().sum::<f64>() <= 0.0 {
                return Err(CloudError::of(
                    key,
                    format!("all are 0; weigh at least one of {SIZES:?}"),
                ));
            }
        }
        number(
            "prices.on_demand_ratio",
            self.prices.on_demand_ratio,
            0.001,
            1e6,
        )?;
        number("retention.spin_ups", self.retention.spin_ups, 0.0, 1e6)?;
        number("spin_up.late_share", self.spin_up.late_share, 0.0, 1.0)?;
        for (key, [from, to]) in [
            ("spin_up.usual_seconds", self.spin_up.usual_seconds),
            ("spin_up.late_seconds", self.spin_up.late_seconds),
        ] {
            number(key, from, 0.0, 86_400.0)?;
            number(key, to, from, 86_400.0)?;
        }
        number("external.mean", self.external.mean, 0.0, 1.0)?;
        number("external.swing", self.external.swing, 0.0, 1.0)?;
        number(
            "external.period_seconds",
            self.external.period_seconds,
            1.0,
            86_400.0,
        )?;
        number(
            "external.points_per_percent",
            self.external.points_per_percent,
            0.0,
            100.0,
        )?;
        let limits = &self.dynamic;
        number(
            "dynamic.first_soft_limit",
            limits.first_soft_limit,
            0.0,
            1.0,
        )?;
        number(
            "dynamic.least_soft_limit",
            limits.least_soft_limit,
            0.0,
            1.0,
        )?;
        number(
            "dynamic.hard_limit",
            limits.hard_limit,
            limits.first_soft_limit,
            1.0,
        )?;
        number("dynamic.period_seconds", limits.period_seconds, 0.1, any)?;
        number("dynamic.fall_per_queued", limits.fall_per_queued, 0.0, 1.0)?;
        number("dynamic.rise_when_idle", limits.rise_when_idle, 0.0, 1.0)?;
        number(
            "dynamic.share_of_instances",
            limits.share_of_instances,
            0.0,
            1.0,
        )
    }

    pub(super) fn mapping(&self) -> Result<Mapping, CloudError> {
        mapping(&self.mapping, self.dynamic).ok_or_else(|| {
            CloudError::of(
                "mapping",
                format!("`{}` is not known; write dynamic or P1 to P7", self.mapping),
            )
        })
    }

    /// Least and most vCPUs of the load.
    pub(super) fn span(&self) -> (f64, f64) {
        let cpus = || self.load.iter().map(|[_, cpus]| *cpus);
        (
            cpus().fold(f64::INFINITY, f64::min),
            cpus().fold(0.0, f64::max),
        )
    }
}
