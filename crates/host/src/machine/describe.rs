//! A machine in words, for people.

use super::Cache;
use super::Machine;
use super::limits::NO_LIMIT;
use jostle_profile::cpulist::format_list;
use jostle_profile::reading::Reading;
use std::collections::BTreeSet;
use std::fmt;

const LABEL_WIDTH: usize = 13;

/// Bytes in the largest binary unit that keeps the number above 1: `2 MiB`,
/// `23.5 GiB`.
pub fn format_bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut number = bytes as f64;
    let mut unit = 0;
    while number >= 1024.0 && unit + 1 < units.len() {
        number /= 1024.0;
        unit += 1;
    }
    match number.fract() == 0.0 {
        true => format!("{number:.0} {}", units[unit]),
        false => format!("{number:.1} {}", units[unit]),
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let next = format!("\n{:LABEL_WIDTH$}", "");
        let mut line = |label: &str, text: String| writeln!(f, "{label:<LABEL_WIDTH$}{text}");
        line(
            "CPU",
            format!("{} ({}, {})", self.model, self.vendor, self.architecture),
        )?;
        line("CPUs", cpus(self))?;
        line("SMT", smt(self))?;
        line("Caches", caches(self).join(&next))?;
        line("NUMA", nodes(self).join(&next))?;
        line("Memory", memory(self))?;
        line("Cgroup", cgroup(self).join(&next))?;
        let (headroom, bound) = self.memory_headroom_bytes();
        line(
            "Headroom",
            format!("{}, bound by the {bound}", format_bytes(headroom)),
        )?;
        line("Kernel", self.kernel.clone())?;
        line(
            "Hypervisor",
            match &self.hypervisor {
                Some(name) => format!(
                    "{name}; topology and caches are as it tells, and guests unseen from here may share them"
                ),
                None => "none".to_string(),
            },
        )?;
        line("PMU", or_none(&self.pmu))?;
        line(
            "perf_event",
            match &self.perf_event_paranoid {
                Reading::Value(level) => format!("paranoid level {level}"),
                Reading::Unavailable { unavailable } => format!("not readable: {unavailable}"),
            },
        )?;
        line("Huge pages", or_none(&self.transparent_huge_pages))?;
        line("Fingerprint", self.fingerprint())?;
        for note in &self.notes {
            line("Note", note.clone())?;
        }
        Ok(())
    }
}

fn or_none(reading: &Reading<String>) -> String {
    match reading {
        Reading::Value(value) => value.clone(),
        Reading::Unavailable { unavailable } => format!("none: {unavailable}"),
    }
}

fn plural(count: usize, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    }
}

fn cpus(machine: &Machine) -> String {
    let online: Vec<usize> = machine.cpus.iter().map(|cpu| cpu.id).collect();
    let allowed = match machine.allowed_cpus == online {
        true => "all allowed".to_string(),
        false => format!(
            "{} allowed ({})",
            machine.allowed_cpus.len(),
            format_list(&machine.allowed_cpus)
        ),
    };
    let cores: BTreeSet<&[usize]> = machine
        .cpus
        .iter()
        .map(|cpu| cpu.core_siblings.as_slice())
        .collect();
    let packages: BTreeSet<usize> = machine.cpus.iter().map(|cpu| cpu.package).collect();
    format!(
        "{} online ({}), {allowed}; {} in {}",
        online.len(),
        format_list(&online),
        plural(cores.len(), "core"),
        plural(packages.len(), "package"),
    )
}

fn smt(machine: &Machine) -> String {
    let most = machine.cpus.iter().map(|cpu| cpu.core_siblings.len()).max();
    match most {
        Some(threads) if threads > 1 => {
            let example = machine
                .cpus
                .iter()
                .find(|cpu| cpu.core_siblings.len() == threads)
                .map(|cpu| format_list(&cpu.core_siblings));
            format!(
                "{threads} threads per core (for example CPUs {})",
                example.unwrap_or_default()
            )
        }
        _ => "none: one thread per core".to_string(),
    }
}

/// One line for each kind of cache; instances that only differ in their CPUs
/// share a line.
fn caches(machine: &Machine) -> Vec<String> {
    let same = |a: &Cache, b: &Cache| {
        (a.level, a.kind, a.size_bytes, &a.ways, a.line_bytes)
            == (b.level, b.kind, b.size_bytes, &b.ways, b.line_bytes)
    };
    let mut groups: Vec<Vec<&Cache>> = Vec::new();
    for cache in &machine.caches {
        match groups.iter_mut().find(|group| same(group[0], cache)) {
            Some(group) => group.push(cache),
            None => groups.push(vec![cache]),
        }
    }
    if groups.is_empty() {
        return vec!["not known".to_string()];
    }
    groups
        .iter()
        .map(|group| {
            let cache = group[0];
            let ways = match &cache.ways {
                Reading::Value(ways) => format!("{ways} ways"),
                Reading::Unavailable { .. } => "ways ?".to_string(),
            };
            format!(
                "{:<4}{:>9}  {ways:>7}  {} B lines  {}",
                cache.name(),
                format_bytes(cache.size_bytes),
                cache.line_bytes,
                sharing(group),
            )
        })
        .collect()
}

fn sharing(group: &[&Cache]) -> String {
    if group.iter().all(|cache| cache.shared_cpus.len() == 1) {
        return match group.len() {
            1 => format!("for CPU {} alone", group[0].shared_cpus[0]),
            count => format!("{count}, one for each CPU"),
        };
    }
    let mut lists: Vec<String> = group
        .iter()
        .take(8)
        .map(|cache| format_list(&cache.shared_cpus))
        .collect();
    if group.len() > lists.len() {
        lists.push("…".to_string());
    }
    match group.len() {
        1 => format!("shared by CPUs {}", lists[0]),
        count => format!("{count}, shared by CPUs {}", lists.join(" | ")),
    }
}

fn nodes(machine: &Machine) -> Vec<String> {
    let nodes = machine.numa_nodes.iter().map(|node| {
        let cpus = match node.cpus.is_empty() {
            true => "no CPUs".to_string(),
            false => format!("CPUs {}", format_list(&node.cpus)),
        };
        let memory = match &node.memory_total_bytes {
            Reading::Value(bytes) => format_bytes(*bytes),
            Reading::Unavailable { .. } => "memory not known".to_string(),
        };
        format!("node {}: {cpus}, {memory}", node.id)
    });
    nodes.collect()
}

fn memory(machine: &Machine) -> String {
    let memory = &machine.memory;
    let swap = match memory.swap_total_bytes {
        0 => "no swap".to_string(),
        bytes => format!("{} swap", format_bytes(bytes)),
    };
    format!(
        "{}, {} available, {swap}",
        format_bytes(memory.total_bytes),
        format_bytes(memory.available_bytes)
    )
}

fn cgroup(machine: &Machine) -> Vec<String> {
    let cgroup = &machine.cgroup;
    let version = match &cgroup.version {
        Reading::Value(version) => version,
        Reading::Unavailable { unavailable } => return vec![format!("none: {unavailable}")],
    };
    let path = match &cgroup.path {
        Reading::Value(path) => path.clone(),
        Reading::Unavailable { unavailable } => format!("unknown: {unavailable}"),
    };
    let used = match &cgroup.memory_used_bytes {
        Reading::Value(bytes) => format!("{} used", format_bytes(*bytes)),
        Reading::Unavailable { .. } => "use not known".to_string(),
    };
    let limit = match &cgroup.memory_limit_bytes {
        Reading::Value(bytes) => format!("memory limit {}", format_bytes(*bytes)),
        Reading::Unavailable { unavailable } => no_limit("memory limit", unavailable),
    };
    let quota = match &cgroup.cpu_quota {
        Reading::Value(cpus) => format!("CPU quota {cpus:.2} CPUs"),
        Reading::Unavailable { unavailable } => no_limit("CPU quota", unavailable),
    };
    vec![
        format!("{version}, {path}"),
        format!("{limit}, {used}; {quota}"),
    ]
}

fn no_limit(what: &str, reason: &str) -> String {
    match reason {
        NO_LIMIT => format!("no {what}"),
        _ => format!("{what} not known: {reason}"),
    }
}
