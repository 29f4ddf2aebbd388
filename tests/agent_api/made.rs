//! Node states that nobody measured, to serve.
#![allow(dead_code)]

use jostle_profile::Estimate;
use jostle_profile::MachineFacts;
use jostle_profile::WarningFacts;
use jostle_profile::blame::Verdict;
use jostle_profile::node::AgentCost;
use jostle_profile::node::Culprit;
use jostle_profile::node::Culprits;
use jostle_profile::node::DriftState;
use jostle_profile::node::ExperimentKind;
use jostle_profile::node::FORMAT;
use jostle_profile::node::LeastTolerated;
use jostle_profile::node::NodeLoad;
use jostle_profile::node::NodeResource;
use jostle_profile::node::NodeState;
use jostle_profile::node::Performance;
use jostle_profile::node::ProfileSummary;
use jostle_profile::node::RunningExperiment;
use jostle_profile::node::WorkloadKind;
use jostle_profile::node::WorkloadReadings;
use jostle_profile::node::WorkloadState;
use jostle_profile::reading::Reading;
use jostle_profile::reading::Reading::Value;
use std::collections::BTreeMap;

const AT: &str = "2026-11-23T06:30:00Z";

/// A node whose numbers move with `refresh`. The first workloads have the profiles
/// `redis`, `gzip` and `sqlite`; the others none.
pub fn node(workloads: usize, refresh: u64) -> NodeState {
    let mut all: Vec<WorkloadState> = (0..workloads).map(|at| workload(at, refresh)).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    NodeState {
        format: FORMAT.into(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        name: "node-7".into(),
        recorded_at: AT.into(),
        interval_seconds: 10.0,
        refresh,
        machine: MachineFacts {
            fingerprint: "6f1d20c8a1b2".into(),
            model: "Example CPU @ 2.0 GHz".into(),
            cpus: 16,
            caches: Vec::new(),
            smt: true,
            virtualized: None,
            kernel: "6.12.0".into(),
            memory_bytes: 64 << 30,
            unknown: BTreeMap::new(),
        },
        agent: AgentCost {
            uptime_seconds: 10.0 * refresh as f64,
            cpu_percent: Value(0.21),
            resident_bytes: Value(14_680_064),
            refresh_cpu_seconds: 0.0042,
        },
        load: NodeLoad {
            cpu_percent: Value(412.0 + wave(refresh, 3) * 60.0),
            steal_percent: Value(0.4),
            memory_available_bytes: Value(38 << 30),
            disk_read_bytes_per_second: Value(2.1e6),
            disk_written_bytes_per_second: Value(5.4e6),
            network_received_bytes_per_second: Value(1.2e7),
            network_sent_bytes_per_second: Value(3.3e7),
            psi_cpu_some_percent: Value(3.1),
            psi_memory_some_percent: Value(0.0),
            psi_io_some_percent: Value(1.2),
        },
        resources: resources(),
        workloads: all,
        experiment: refresh.is_multiple_of(2).then(|| RunningExperiment {
            kind: ExperimentKind::Profile,
            workload: "redis.service".into(),
            since: AT.into(),
            budget_seconds: 30.0,
            max_intensity_percent: Some(25.0),
            progress: "llc-capacity at 12.5 %: window 14 of 40".into(),
        }),
        warnings: vec![WarningFacts {
            code: "steal".into(),
            message: "the hypervisor took 4 % of the CPU time".into(),
            fields: BTreeMap::new(),
        }],
        unknown: BTreeMap::new(),
    }
}

fn wave(refresh: u64, period: u64) -> f64 {
    (refresh as f64 / period as f64).sin()
}

fn resources() -> BTreeMap<String, NodeResource> {
    let known = |used: f64, caused: f64, least: f64, who: &str| NodeResource {
        used_percent: Value(used),
        caused: Value(caused),
        least_tolerated: Value(LeastTolerated {
            score: least,
            workload: who.into(),
        }),
        headroom: Value(least - caused * 0.6),
        residents_without_score: 1,
    };
    let mut resources = BTreeMap::from([
        ("cpu-time".into(), known(44.0, 61.0, 40.0, "redis.service")),
        ("l1d".into(), known(12.0, 18.0, 88.0, "gzip")),
        (
            "l2-capacity".into(),
            known(20.0, 31.0, 72.0, "redis.service"),
        ),
        (
            "llc-capacity".into(),
            known(63.0, 74.0, 31.0, "redis.service"),
        ),
        ("memory-bandwidth".into(), known(28.0, 35.0, 66.0, "gzip")),
        ("storage-bandwidth".into(), known(9.0, 14.0, 93.0, "sqlite")),
    ]);
    let nobody = "no resident has a score of it";
    resources.insert(
        "network-bandwidth".into(),
        NodeResource {
            used_percent: Reading::unavailable("no peak is known"),
            caused: Reading::unavailable(nobody),
            least_tolerated: Reading::unavailable(nobody),
            headroom: Reading::unavailable(nobody),
            residents_without_score: 3,
        },
    );
    resources
}

/// A name that a page must not take for markup.
const MARKUP: &str = "a<img src=x onerror=alert(1)>";

const NAMES: &[(&str, WorkloadKind, Option<&str>)] = &[
    ("redis.service", WorkloadKind::Unit, Some("redis")),
    ("gzip", WorkloadKind::Process, Some("gzip")),
    ("shop/checkout-7f9c", WorkloadKind::Pod, Some("sqlite")),
    ("nightly-build", WorkloadKind::Container, None),
    (MARKUP, WorkloadKind::Cgroup, None),
];

fn workload(at: usize, refresh: u64) -> WorkloadState {
    let (name, kind, profile) = match NAMES.get(at) {
        Some((name, kind, profile)) => ((*name).to_string(), *kind, *profile),
        None => (format!("batch-{at:03}"), WorkloadKind::Cgroup, None),
    };
    let seed = at as f64;
    let relative = 0.96 + 0.05 * wave(refresh + at as u64, 4) - 0.08 * f64::from(at as u32 % 2);
    let performance = Performance {
        metric: "redis-info".into(),
        unit: "requests/s".into(),
        value: 51_200.0 * relative,
        baseline: Value(51_200.0),
        relative: Value(relative),
        qos_threshold: 0.9,
        meets_qos: Value(relative >= 0.9),
    };
    let culprits = Culprits {
        recorded_at: AT.into(),
        by_experiment: true,
        suspects: vec![Culprit {
            name: "nightly-build".into(),
            verdict: Verdict::Slows,
            slowed_percent: Value(Estimate {
                value: 7.4,
                ci95: [4.1, 10.8],
            }),
            shares: vec!["last-level cache".into()],
        }],
    };
    let no_profile = "never profiled: [profiling] is off";
    WorkloadState {
        target: format!("system.slice/{name}"),
        name,
        kind,
        rule: 0,
        labels: BTreeMap::from([("app".to_string(), "shop".to_string())]),
        since: AT.into(),
        may_be_profiled: at == 0,
        may_be_paused: at == 3,
        readings: WorkloadReadings {
            seconds: 10.0,
            cpu_percent: Value(80.0 + 8.0 * wave(refresh + at as u64, 5) - seed.min(60.0)),
            run_queue_delay_percent: Value(1.5),
            memory_bytes: Value(268_435_456.0 + seed * 1_048_576.0),
            disk_read_bytes_per_second: Value(0.0),
            disk_written_bytes_per_second: Value(18_400.0),
            network_received_bytes_per_second: Reading::unavailable("shares the host's network"),
            network_sent_bytes_per_second: Reading::unavailable("shares the host's network"),
            psi_cpu_some_percent: Value(2.0 + wave(refresh, 7)),
            psi_memory_some_percent: Value(0.0),
            psi_io_some_percent: Value(0.3),
            cycles_per_instruction: Reading::unavailable("no hardware counters"),
        },
        performance: match at {
            0 | 1 => Value(performance),
            _ => Reading::unavailable("no metric is configured"),
        },
        profile: match profile {
            Some(name) => Value(summary(name)),
            None => Reading::unavailable(no_profile),
        },
        drift: match at {
            0 => Value(DriftState {
                drifted: false,
                reason: String::new(),
                windows: refresh,
            }),
            1 => Value(DriftState {
                drifted: true,
                reason: "uses 2.3 times the CPU time of its profile since 06:12".into(),
                windows: refresh,
            }),
            _ => Reading::unavailable(no_profile),
        },
        culprits: match at {
            0 => Value(culprits),
            _ => Reading::unavailable("no experiment was done"),
        },
        unknown: BTreeMap::new(),
    }
}

fn summary(name: &str) -> ProfileSummary {
    let scores = |base: f64| {
        let ids = [
            "cpu-time",
            "l1d",
            "l2-capacity",
            "llc-capacity",
            "memory-bandwidth",
        ];
        let ids = ids.into_iter().enumerate();
        ids.map(|(at, id)| (id.to_string(), (base + 17.0 * at as f64) % 100.0))
            .collect()
    };
    ProfileSummary {
        name: name.into(),
        recorded_at: AT.into(),
        of_this_machine: name != "sqlite",
        tolerated: scores(40.0),
        caused: scores(12.0),
        used_percent: BTreeMap::from([("cpu-time".to_string(), 44.0)]),
    }
}
