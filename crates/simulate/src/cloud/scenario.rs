//! The scenario file of a cloud.

use crate::error::InvalidKey;
use crate::error::Problem;
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
use serde::de::IgnoredAny;

/// How long an on-demand instance takes to appear: uniform over the usual
/// range, or, with a small chance, over the late one. The default has the usual
/// 12–19 s of the paper and its 95th percentile of two minutes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
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

/// What co-tenants do on the machines that small instances are slices of.
#[derive(Clone, Debug, PartialEq, Deserialize)]
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

/// A load and everything about the cloud that serves it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CloudScenario {
    /// Read before everything else.
    pub kind: IgnoredAny,
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
            kind: IgnoredAny,
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

impl CloudScenario {
    /// Whether it can be run.
    ///
    /// # Errors
    ///
    /// The first key whose value makes no sense.
    pub fn check(&self) -> Result<(), InvalidKey> {
        let wrong = |key: &str, problem| Err(InvalidKey::new(key, problem));
        if self.load.len() < 2 {
            return wrong("load", Problem::FewPoints);
        }
        for [_, cpus] in &self.load {
            number("load", *cpus, 1.0, 1e6)?;
        }
        if self.load[0][0] != 0.0 || !self.load.is_sorted_by(|a, b| a[0] < b[0]) {
            return wrong("load", Problem::Minutes);
        }
        if self.strategies.is_empty() {
            let names = Strategy::ALL.map(Strategy::name).join(", ");
            let problem = Problem::Empty(format!("name some of {names}"));
            return wrong("strategies", problem);
        }
        if self.with_profiles.is_empty() {
            let fix = "write [true], [false] or [true, false]";
            return wrong("with_profiles", Problem::Empty(fix.into()));
        }
        self.mapping()?;
        if self.placement != GREEDY && policy_kind(&self.placement).is_none() {
            let names: Vec<&str> = POLICIES.iter().map(|kind| kind.name).collect();
            let problem = Problem::NotKnown {
                name: self.placement.clone(),
                known: format!("{GREEDY} or one of {}", names.join(", ")),
            };
            return wrong("placement", problem);
        }
        for (key, weights) in [
            ("batch_sizes", &self.batch_sizes),
            ("service_sizes", &self.service_sizes),
        ] {
            for weight in weights {
                number(key, *weight, 0.0, 1e6)?;
            }
            if weights.iter().sum::<f64>() <= 0.0 {
                return wrong(key, Problem::NoWeight(format!("{SIZES:?}")));
            }
        }
        let (late, usual) = (self.spin_up.late_seconds, self.spin_up.usual_seconds);
        let (external, dynamic) = (&self.external, &self.dynamic);
        for (key, share) in [
            ("batch_share", self.batch_share),
            ("residual_sd", self.residual_sd),
            ("spin_up.late_share", self.spin_up.late_share),
            ("external.mean", external.mean),
            ("external.swing", external.swing),
            ("dynamic.first_soft_limit", dynamic.first_soft_limit),
            ("dynamic.least_soft_limit", dynamic.least_soft_limit),
            ("dynamic.fall_per_queued", dynamic.fall_per_queued),
            ("dynamic.rise_when_idle", dynamic.rise_when_idle),
            ("dynamic.share_of_instances", dynamic.share_of_instances),
        ] {
            number(key, share, 0.0, 1.0)?;
        }
        let any = f64::MAX;
        let on_demand_ratio = self.prices.on_demand_ratio;
        let soft = dynamic.first_soft_limit;
        let (error, points) = (self.estimation_error_points, external.points_per_percent);
        for (key, value, least, most) in [
            ("load", self.load[self.load.len() - 1][0], 1.0, 10_000.0),
            ("overprovision", self.overprovision, 0.0, 10.0),
            ("overrun_points", self.overrun_points, 0.0, any),
            ("job_minutes", self.job_minutes, 0.01, 10_000.0),
            ("job_sigma", self.job_sigma, 0.0, 3.0),
            ("qos", self.qos, 0.01, 1.0),
            ("estimation_error_points", error, 0.0, 50.0),
            ("prices.on_demand_ratio", on_demand_ratio, 0.001, 1e6),
            ("retention.spin_ups", self.retention.spin_ups, 0.0, 1e6),
            ("spin_up.usual_seconds", usual[0], 0.0, DAY),
            ("spin_up.usual_seconds", usual[1], usual[0], DAY),
            ("spin_up.late_seconds", late[0], 0.0, DAY),
            ("spin_up.late_seconds", late[1], late[0], DAY),
            ("external.period_seconds", external.period_seconds, 1.0, DAY),
            ("external.points_per_percent", points, 0.0, 100.0),
            ("dynamic.hard_limit", dynamic.hard_limit, soft, 1.0),
            ("dynamic.period_seconds", dynamic.period_seconds, 0.1, any),
        ] {
            number(key, value, least, most)?;
        }
        Ok(())
    }

    pub(super) fn mapping(&self) -> Result<Mapping, InvalidKey> {
        mapping(&self.mapping, self.dynamic).ok_or_else(|| {
            let problem = Problem::NotKnown {
                name: self.mapping.clone(),
                known: "dynamic or P1 to P7".into(),
            };
            InvalidKey::new("mapping", problem)
        })
    }

    /// Least and most vCPUs of the load.
    pub(super) fn span(&self) -> (f64, f64) {
        let cpus = || self.load.iter().map(|[_, cpus]| *cpus);
        let least = cpus().fold(f64::INFINITY, f64::min);
        (least, cpus().fold(0.0, f64::max))
    }
}

/// Seconds.
const DAY: f64 = 86_400.0;

fn number(key: &str, value: f64, least: f64, most: f64) -> Result<(), InvalidKey> {
    if value >= least && value <= most {
        return Ok(());
    }
    let expected = match most == f64::MAX {
        true => format!("a number {least} or more"),
        false => format!("a number from {least} to {most}"),
    };
    Err(InvalidKey::new(key, Problem::out_of_range(value, expected)))
}
