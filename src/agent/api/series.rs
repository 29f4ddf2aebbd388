//! The table of what `/metrics` says of the node, its resources and its workloads.
//!
//! Names and units follow the conventions of Prometheus: base units, shares as
//! ratios from 0 to 1. The unit becomes the end of the name.

use jostle_profile::node::NodeResource;
use jostle_profile::node::NodeState;
use jostle_profile::node::WorkloadState;
use jostle_profile::reading::Reading;
use std::time::UNIX_EPOCH;

/// A number of a `T`, or several that differ by one label.
pub struct Series<T: 'static> {
    pub name: &'static str,
    /// Empty for a mere number.
    pub unit: &'static str,
    pub help: &'static str,
    /// Empty where there is but one part.
    pub label: &'static str,
    /// By value of the label; `None` where it is unavailable.
    pub parts: &'static [(&'static str, Read<T>)],
}

pub type Read<T> = fn(&T) -> Option<f64>;

const fn one<T>(
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    parts: &'static [(&'static str, Read<T>)],
) -> Series<T> {
    Series {
        name,
        unit,
        help,
        label: "",
        parts,
    }
}

fn share(percent: &Reading<f64>) -> Option<f64> {
    percent.value().map(|it| it / 100.0)
}

fn bytes(reading: &Reading<u64>) -> Option<f64> {
    reading.value().map(|it| *it as f64)
}

fn value(reading: &Reading<f64>) -> Option<f64> {
    reading.value().copied()
}

fn yes(holds: bool) -> Option<f64> {
    Some(f64::from(u8::from(holds)))
}

const STALLED: &str = "Share of the time in which some task waited for the resource (PSI)";

pub static NODE: &[Series<NodeState>] = &[
    one(
        "node_cpus",
        "",
        "Logical CPUs of the node",
        &[("", |node| Some(node.machine.cpus as f64))],
    ),
    one(
        "node_cpus_used",
        "",
        "CPU time used by everybody, 1 for one CPU",
        &[("", |node| share(&node.load.cpu_percent))],
    ),
    one(
        "node_cpus_stolen",
        "",
        "CPU time that the hypervisor gave to others, 1 for one CPU",
        &[("", |node| share(&node.load.steal_percent))],
    ),
    one(
        "node_memory",
        "bytes",
        "Memory of the node",
        &[("", |node| Some(node.machine.memory_bytes as f64))],
    ),
    one(
        "node_memory_available",
        "bytes",
        "Memory that a newcomer could have without others losing theirs",
        &[("", |node| bytes(&node.load.memory_available_bytes))],
    ),
    Series {
        name: "node_pressure_stalled",
        unit: "ratio",
        help: STALLED,
        label: "resource",
        parts: &[
            ("cpu", |node| share(&node.load.psi_cpu_some_percent)),
            ("memory", |node| share(&node.load.psi_memory_some_percent)),
            ("io", |node| share(&node.load.psi_io_some_percent)),
        ],
    },
    one(
        "node_workloads",
        "",
        "Workloads that match a rule of the configuration",
        &[("", |node| Some(node.workloads.len() as f64))],
    ),
    one(
        "node_warnings",
        "",
        "Warnings about the newest readings",
        &[("", |node| Some(node.warnings.len() as f64))],
    ),
    one(
        "agent_cpus_used",
        "",
        "CPU time of the agent itself, 1 for one CPU, without experiments",
        &[("", |node| share(&node.agent.cpu_percent))],
    ),
    one(
        "agent_resident_memory",
        "bytes",
        "Resident memory of the agent itself",
        &[("", |node| bytes(&node.agent.resident_bytes))],
    ),
    one(
        "agent_refresh_cpu",
        "seconds",
        "CPU time that the last reading of the node took",
        &[("", |node| Some(node.agent.refresh_cpu_seconds))],
    ),
    one(
        "agent_uptime",
        "seconds",
        "Time since the agent was started",
        &[("", |node| Some(node.agent.uptime_seconds))],
    ),
];

pub static RESOURCES: &[Series<NodeResource>] = &[
    one(
        "node_resource_used",
        "ratio",
        "Share of the peak of a resource that all residents use",
        &[("", |resource| share(&resource.used_percent))],
    ),
    one(
        "node_resource_caused",
        "ratio",
        "Pressure that all residents cause on a resource, 1 for a source of interference at full \
         intensity; may exceed 1",
        &[("", |resource| share(&resource.caused))],
    ),
    one(
        "node_resource_tolerated",
        "ratio",
        "Pressure that the resident tolerates which tolerates least",
        &[("", |resource| {
            resource.least_tolerated.value().map(|it| it.score / 100.0)
        })],
    ),
    one(
        "node_resource_headroom",
        "ratio",
        "Pressure that a newcomer may cause before the first resident misses its QoS; negative \
         where one misses it already",
        &[("", |resource| share(&resource.headroom))],
    ),
    one(
        "node_resource_residents_without_score",
        "",
        "Residents whose profile has no score of a resource, so that its numbers do not include them",
        &[("", |resource| Some(resource.residents_without_score as f64))],
    ),
];

pub static WORKLOADS: &[Series<WorkloadState>] = &[
    one(
        "workload_cpus_used",
        "",
        "CPU time used by a workload, 1 for one CPU",
        &[("", |it| share(&it.readings.cpu_percent))],
    ),
    one(
        "workload_threads_waiting",
        "",
        "Threads of a workload that waited for a CPU, on average",
        &[("", |it| share(&it.readings.run_queue_delay_percent))],
    ),
    one(
        "workload_memory",
        "bytes",
        "Memory that a workload takes",
        &[("", |it| value(&it.readings.memory_bytes))],
    ),
    Series {
        name: "workload_disk",
        unit: "bytes_per_second",
        help: "Disk traffic of a workload",
        label: "direction",
        parts: &[
            ("read", |it| value(&it.readings.disk_read_bytes_per_second)),
            ("written", |it| {
                value(&it.readings.disk_written_bytes_per_second)
            }),
        ],
    },
    Series {
        name: "workload_network",
        unit: "bytes_per_second",
        help: "Network traffic of a workload",
        label: "direction",
        parts: &[
            ("received", |it| {
                value(&it.readings.network_received_bytes_per_second)
            }),
            ("sent", |it| {
                value(&it.readings.network_sent_bytes_per_second)
            }),
        ],
    },
    Series {
        name: "workload_pressure_stalled",
        unit: "ratio",
        help: STALLED,
        label: "resource",
        parts: &[
            ("cpu", |it| share(&it.readings.psi_cpu_some_percent)),
            ("memory", |it| share(&it.readings.psi_memory_some_percent)),
            ("io", |it| share(&it.readings.psi_io_some_percent)),
        ],
    },
    one(
        "workload_cycles_per_instruction",
        "",
        "CPU cycles per instruction of a workload",
        &[("", |it| value(&it.readings.cycles_per_instruction))],
    ),
    one(
        "workload_relative_performance",
        "ratio",
        "Performance of a workload by its own metric over what is usual; below 1 it is slower",
        &[("", |it| value(&it.performance.value()?.relative))],
    ),
    one(
        "workload_qos_threshold",
        "ratio",
        "Share of its usual performance that a workload must keep",
        &[("", |it| Some(it.performance.value()?.qos_threshold))],
    ),
    one(
        "workload_meets_qos",
        "",
        "Whether a workload keeps the performance that it must keep, 1 for yes",
        &[("", |it| yes(*it.performance.value()?.meets_qos.value()?))],
    ),
    one(
        "workload_profiled",
        "",
        "Whether a workload has a profile, 1 for yes",
        &[("", |it| yes(it.profile.value().is_some()))],
    ),
    one(
        "workload_profile_recorded_timestamp",
        "seconds",
        "When the profile of a workload was recorded, since 1970",
        &[("", |it| {
            let text = &it.profile.value()?.recorded_at;
            let moment = humantime::parse_rfc3339(text).ok()?;
            let since = moment.duration_since(UNIX_EPOCH).ok()?;
            Some(since.as_secs_f64())
        })],
    ),
    one(
        "workload_drifted",
        "",
        "Whether a workload no longer does what was profiled, 1 for yes",
        &[("", |it| yes(it.drift.value()?.drifted))],
    ),
];
