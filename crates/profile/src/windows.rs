//! Labelled windows as CSV, `jostle-windows/1`: what a node and one of its workloads
//! did between two refreshes of an agent, and whether the workload was slow.
//!
//! ```csv
//! # jostle-windows/1
//! time,node,machine,workload,experiment,node_cpu_percent,…,performance,qos,slow
//! 2026-01-01T00:00:10Z,n1,cpu-0123,web,0,87.2,…,0.912,0.95,1
//! ```
//!
//! A field is empty where its value was not available. Readers look columns up by
//! name: a later version may add some.

use crate::node::NodeLoad;
use crate::node::NodeState;
use crate::node::WorkloadReadings;
use crate::node::WorkloadState;
use crate::reading::Reading;

/// The format that this version writes.
pub const FORMAT: &str = "jostle-windows/1";

/// When the window ended, RFC 3339, UTC.
pub const TIME: &str = "time";
/// Name of the node.
pub const NODE: &str = "node";
/// Fingerprint of the machine: equal machines have equal ones.
pub const MACHINE: &str = "machine";
/// Name of the workload on its node.
pub const WORKLOAD: &str = "workload";
/// 1 while an experiment of the agent ran: its sources count as others.
pub const EXPERIMENT: &str = "experiment";
/// Seconds from one reading of the workload to the next.
pub const SECONDS: &str = "window_seconds";
/// Fraction of the workload's usual performance.
pub const PERFORMANCE: &str = "performance";
/// Fraction of it that the workload must keep.
pub const QOS: &str = "qos";
/// 1 where it does not, 0 where it does.
pub const SLOW: &str = "slow";

/// A column and what stands in it.
pub type Quantity<T> = (&'static str, fn(&T) -> Option<f64>);

fn value(reading: &Reading<f64>) -> Option<f64> {
    reading.value().copied()
}

/// Readings of the whole node.
pub const OF_NODE: [Quantity<NodeLoad>; 10] = [
    ("node_cpu_percent", |it| value(&it.cpu_percent)),
    ("node_steal_percent", |it| value(&it.steal_percent)),
    ("node_memory_available_bytes", |it| {
        it.memory_available_bytes.value().map(|bytes| *bytes as f64)
    }),
    ("node_disk_read_bytes_per_second", |it| {
        value(&it.disk_read_bytes_per_second)
    }),
    ("node_disk_written_bytes_per_second", |it| {
        value(&it.disk_written_bytes_per_second)
    }),
    ("node_network_received_bytes_per_second", |it| {
        value(&it.network_received_bytes_per_second)
    }),
    ("node_network_sent_bytes_per_second", |it| {
        value(&it.network_sent_bytes_per_second)
    }),
    ("node_psi_cpu_some_percent", |it| {
        value(&it.psi_cpu_some_percent)
    }),
    ("node_psi_memory_some_percent", |it| {
        value(&it.psi_memory_some_percent)
    }),
    ("node_psi_io_some_percent", |it| {
        value(&it.psi_io_some_percent)
    }),
];

/// Readings of one workload.
pub const OF_WORKLOAD: [Quantity<WorkloadReadings>; 11] = [
    ("workload_cpu_percent", |it| value(&it.cpu_percent)),
    ("workload_run_queue_delay_percent", |it| {
        value(&it.run_queue_delay_percent)
    }),
    ("workload_memory_bytes", |it| value(&it.memory_bytes)),
    ("workload_disk_read_bytes_per_second", |it| {
        value(&it.disk_read_bytes_per_second)
    }),
    ("workload_disk_written_bytes_per_second", |it| {
        value(&it.disk_written_bytes_per_second)
    }),
    ("workload_network_received_bytes_per_second", |it| {
        value(&it.network_received_bytes_per_second)
    }),
    ("workload_network_sent_bytes_per_second", |it| {
        value(&it.network_sent_bytes_per_second)
    }),
    ("workload_psi_cpu_some_percent", |it| {
        value(&it.psi_cpu_some_percent)
    }),
    ("workload_psi_memory_some_percent", |it| {
        value(&it.psi_memory_some_percent)
    }),
    ("workload_psi_io_some_percent", |it| {
        value(&it.psi_io_some_percent)
    }),
    ("workload_cycles_per_instruction", |it| {
        value(&it.cycles_per_instruction)
    }),
];

/// Names of all columns, in the order of [`record`].
pub fn header() -> Vec<&'static str> {
    let mut names = vec![TIME, NODE, MACHINE, WORKLOAD, EXPERIMENT];
    names.extend(OF_NODE.map(|(name, _)| name));
    names.push(SECONDS);
    names.extend(OF_WORKLOAD.map(|(name, _)| name));
    names.extend([PERFORMANCE, QOS, SLOW]);
    names
}

/// One window: the fields of `workload` in `state`. None where the workload was read
/// once so far, which makes no window.
pub fn record(state: &NodeState, workload: &WorkloadState) -> Option<Vec<String>> {
    let readings = &workload.readings;
    if readings.seconds <= 0.0 {
        return None;
    }
    let performance = workload.performance.value();
    let relative = performance.and_then(|it| value(&it.relative));
    let slow = slow(workload).map(|slow| f64::from(u8::from(slow)));
    let experiment = f64::from(u8::from(state.experiment.is_some()));
    let mut fields = vec![
        state.recorded_at.clone(),
        state.name.clone(),
        state.machine.fingerprint.clone(),
        workload.name.clone(),
        field(Some(experiment)),
    ];
    fields.extend(OF_NODE.map(|(_, of)| field(of(&state.load))));
    fields.push(field(Some(readings.seconds)));
    fields.extend(OF_WORKLOAD.map(|(_, of)| field(of(readings))));
    fields.extend([relative, performance.map(|it| it.qos_threshold), slow].map(field));
    Some(fields)
}

/// Whether `workload` misses its QoS; none where that is not known.
pub fn slow(workload: &WorkloadState) -> Option<bool> {
    let performance = workload.performance.value()?;
    performance.meets_qos.value().map(|meets| !meets)
}

/// To four digits behind the point; empty where there is none.
fn field(value: Option<f64>) -> String {
    let finite = value.filter(|value| value.is_finite());
    finite.map_or_else(String::new, |value| {
        ((value * 1e4).round() / 1e4).to_string()
    })
}

/// What a reader makes of the first line of a file of windows.
///
/// # Errors
/// Which format it is instead, and what to do.
pub fn check_format(line: &str) -> Result<(), String> {
    let format = line.trim_start_matches('#').trim();
    if format == FORMAT || format.starts_with(&format!("{FORMAT}.")) {
        return Ok(());
    }
    Err(match format.strip_prefix("jostle-windows/") {
        Some(version) => format!(
            "the format is jostle-windows/{version}; this version reads {FORMAT}, \
             a newer jostle is needed"
        ),
        None => format!("the format is '{format}', not {FORMAT}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_columns_are_unique_and_have_units() {
        let mut names = header();
        let readings = OF_NODE
            .iter()
            .map(|it| it.0)
            .chain(OF_WORKLOAD.iter().map(|it| it.0));
        for name in readings {
            let unit = ["_percent", "_bytes", "_per_second", "_per_instruction"];
            assert!(unit.iter().any(|unit| name.ends_with(unit)), "{name}");
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn numbers_that_are_none_are_empty() {
        assert_eq!(field(None), "");
        assert_eq!(field(Some(f64::NAN)), "");
        assert_eq!(field(Some(f64::INFINITY)), "");
        assert_eq!(field(Some(0.0)), "0");
        assert_eq!(field(Some(12.345_678)), "12.3457");
        assert_eq!(field(Some(1.5e15)), "1500000000000000");
    }

    #[test]
    fn other_formats_are_named() {
        assert_eq!(check_format("# jostle-windows/1"), Ok(()));
        assert_eq!(check_format("#jostle-windows/1.4"), Ok(()));
        let newer = check_format("# jostle-windows/2").unwrap_err();
        assert!(newer.contains("newer jostle"), "{newer}");
        assert!(check_format("# other").unwrap_err().contains("'other'"));
    }
}
