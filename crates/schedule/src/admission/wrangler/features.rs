//! What of a node's readings is learned from: what the others do there.
//!
//! A model is asked before the workload starts, so that it can only use what a node
//! reads without the workload. Of quantities that add up, that is what is left when
//! the workload's own share is taken off. Others are left out: time stolen by the
//! hypervisor and waiting (PSI) are counted only while something wants to run, and
//! grow with the workload itself.

use crate::admission::control::NodeReadings;
use jostle_profile::node::NodeState;
use jostle_profile::windows;

/// One feature of windows that an agent wrote.
pub(super) struct Feature {
    pub name: &'static str,
    pub node: &'static str,
    pub workload: &'static str,
    /// The reading is what is left, not what is used: memory is reported as available.
    inverted: bool,
}

pub(super) const FEATURES: [Feature; 6] = [
    feature(
        "cpu_percent",
        "node_cpu_percent",
        "workload_cpu_percent",
        false,
    ),
    feature(
        "memory_used_bytes",
        "node_memory_available_bytes",
        "workload_memory_bytes",
        true,
    ),
    feature(
        "disk_read_bytes_per_second",
        "node_disk_read_bytes_per_second",
        "workload_disk_read_bytes_per_second",
        false,
    ),
    feature(
        "disk_written_bytes_per_second",
        "node_disk_written_bytes_per_second",
        "workload_disk_written_bytes_per_second",
        false,
    ),
    feature(
        "network_received_bytes_per_second",
        "node_network_received_bytes_per_second",
        "workload_network_received_bytes_per_second",
        false,
    ),
    feature(
        "network_sent_bytes_per_second",
        "node_network_sent_bytes_per_second",
        "workload_network_sent_bytes_per_second",
        false,
    ),
];

const fn feature(
    name: &'static str,
    node: &'static str,
    workload: &'static str,
    inverted: bool,
) -> Feature {
    Feature {
        name,
        node,
        workload,
        inverted,
    }
}

impl Feature {
    /// What the others do, of what the node and the workload read; not a number where
    /// one of them is missing.
    pub(super) fn of_others(&self, node: Option<f64>, workload: Option<f64>) -> f32 {
        match (node, workload) {
            (Some(available), Some(own)) if self.inverted => -(available + own) as f32,
            (Some(all), Some(own)) => (all - own).max(0.0) as f32,
            _ => f32::NAN,
        }
    }
}

/// The value of the feature `name` on a node where the workload does not run yet.
pub(super) fn before_start(name: &str, readings: &NodeReadings) -> f32 {
    let read = |name: &str| readings.get(name).copied().flatten();
    let known = FEATURES.iter().find(|feature| feature.name == name);
    match known.filter(|feature| readings.contains_key(feature.node)) {
        Some(feature) => feature.of_others(read(feature.node), Some(0.0)),
        None => read(name).map_or(f32::NAN, |value| value as f32),
    }
}

/// What an agent says of its node, as readings.
pub fn node_readings(state: &NodeState) -> NodeReadings {
    let of = |(name, of): windows::Quantity<_>| (name.to_string(), of(&state.load));
    windows::OF_NODE.map(of).into()
}

/// The class of causes that a feature belongs to: those of Wrangler, and caches.
pub(super) fn class(feature: &str) -> &'static str {
    const CLASSES: [(&str, &[&str]); 6] = [
        ("network", &["network"]),
        ("disk", &["disk", "storage"]),
        ("cache", &["l1", "l2", "llc", "cache", "tlb", "prefetch"]),
        ("memory", &["memory", "interconnect"]),
        ("core", &["int", "fp", "vector", "branch"]),
        ("cpu", &["cpu"]),
    ];
    let holds = |(_, words): &&(&str, &[&str])| words.iter().any(|word| feature.contains(word));
    CLASSES
        .iter()
        .find(holds)
        .map_or("system", |(class, _)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_profile::resource::Resource;

    #[test]
    fn the_workloads_own_share_is_taken_off() {
        let cpu = &FEATURES[0];
        assert_eq!(cpu.of_others(Some(150.0), Some(100.0)), 50.0);
        assert_eq!(cpu.of_others(Some(99.0), Some(100.0)), 0.0);
        assert!(cpu.of_others(Some(99.0), None).is_nan());
        let memory = &FEATURES[1];
        let more = memory.of_others(Some(1e9), Some(1e8));
        assert!(more > memory.of_others(Some(2e9), Some(1e8)));
        let readings = NodeReadings::from([("node_memory_available_bytes".into(), Some(1.1e9))]);
        assert_eq!(before_start("memory_used_bytes", &readings), more);
        assert!(before_start("cpu_percent", &readings).is_nan());
        let plain = NodeReadings::from([("llc-capacity".into(), Some(0.5))]);
        assert_eq!(before_start("llc-capacity", &plain), 0.5);
    }

    #[test]
    fn every_column_exists_and_every_feature_has_a_class() {
        let header = windows::header();
        for feature in &FEATURES {
            assert!(header.contains(&feature.node) && header.contains(&feature.workload));
            assert_ne!(class(feature.name), "system");
        }
        for resource in Resource::ALL {
            assert_ne!(class(resource.id()), "system", "{}", resource.id());
        }
    }
}
