//! CPUs, SMT, caches, NUMA nodes, from sysfs.

use super::Cache;
use super::CacheKind;
use super::LogicalCpu;
use super::NumaNode;
use super::reading;
use crate::os::Error;
use crate::os::ParseError;
use crate::os::cpulist;
use crate::os::sysfs;
use crate::os::text;
use jostle_profile::cpulist::format_list;
use jostle_profile::reading::Reading;
use std::collections::HashSet;
use std::path::Path;

const CPU_DIR: &str = "sys/devices/system/cpu";
const NODE_DIR: &str = "sys/devices/system/node";

/// What sysfs says, and in `notes` what it did not say.
pub(super) struct Topology {
    pub cpus: Vec<LogicalCpu>,
    pub caches: Vec<Cache>,
    pub nodes: Vec<NumaNode>,
    pub notes: Vec<String>,
}

pub(super) fn read(root: &Path) -> Topology {
    let mut notes = Vec::new();
    let online = online(root, &mut notes);
    let nodes = nodes(root, &online, &mut notes);
    let cpus = cpus(root, &online, &nodes, &mut notes);
    let caches = caches(root, &online, &mut notes);
    Topology {
        cpus,
        caches,
        nodes,
        notes,
    }
}

/// Online CPUs by sysfs, else those `/proc/cpuinfo` counts.
fn online(root: &Path, notes: &mut Vec<String>) -> Vec<usize> {
    match cpulist::online(root) {
        Ok(cpus) if !cpus.is_empty() => return cpus,
        Ok(_) => notes.push(format!("/{CPU_DIR}/online is empty")),
        Err(problem) => notes.push(problem.to_string()),
    }
    let mut cpus: Vec<usize> = text::text(root, "proc/cpuinfo")
        .unwrap_or_default()
        .lines()
        .filter_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == "processor").then(|| value.trim().parse().ok())?
        })
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

fn nodes(root: &Path, online: &[usize], notes: &mut Vec<String>) -> Vec<NumaNode> {
    let mut nodes = Vec::new();
    for id in text::numbered(root, NODE_DIR, "node") {
        let dir = format!("{NODE_DIR}/node{id}");
        let cpus = match cpulist::read(root, format!("{dir}/cpulist")) {
            // A node of memory alone has no CPUs; one that is offline is left in.
            Ok(cpus) => cpus
                .into_iter()
                .filter(|cpu| online.contains(cpu))
                .collect(),
            Err(problem) => {
                notes.push(problem.to_string());
                continue;
            }
        };
        let memory = text::parse(root, format!("{dir}/meminfo"), |text| {
            text::meminfo_bytes(text, "MemTotal")
        });
        nodes.push(NumaNode {
            id,
            cpus,
            memory_total_bytes: reading(memory),
        });
    }
    if nodes.is_empty() {
        notes.push(format!(
            "/{NODE_DIR} names no node: taken as a machine without NUMA"
        ));
        nodes.push(NumaNode {
            id: 0,
            cpus: online.to_vec(),
            memory_total_bytes: Reading::unavailable(format!("/{NODE_DIR} names no node")),
        });
    }
    nodes
}

fn cpus(
    root: &Path,
    online: &[usize],
    nodes: &[NumaNode],
    notes: &mut Vec<String>,
) -> Vec<LogicalCpu> {
    let mut unknown = Vec::new();
    let mut example = None;
    let cpus = online
        .iter()
        .map(|&id| {
            let dir = format!("{CPU_DIR}/cpu{id}/topology");
            // The first name is of Linux 5.4 and later; the second works on all.
            let siblings = cpulist::read(root, format!("{dir}/core_cpus_list"))
                .or_else(|_| cpulist::read(root, format!("{dir}/thread_siblings_list")));
            let mut core_siblings = siblings.unwrap_or_else(|problem| {
                unknown.push(id);
                example.get_or_insert(problem);
                vec![id]
            });
            core_siblings.retain(|cpu| online.contains(cpu));
            if !core_siblings.contains(&id) {
                core_siblings = vec![id];
            }
            LogicalCpu {
                id,
                // Arm firmware that does not know says -1, which is no number here.
                package: text::number(root, format!("{dir}/physical_package_id")).unwrap_or(0),
                core: text::number(root, format!("{dir}/core_id")).unwrap_or(id),
                node: nodes
                    .iter()
                    .find(|node| node.cpus.contains(&id))
                    .map_or(0, |node| node.id),
                core_siblings,
            }
        })
        .collect();
    if let Some(problem) = example {
        notes.push(format!(
            "SMT siblings of CPUs {} are not known, each is taken as a core of its own: {problem}",
            format_list(&unknown)
        ));
    }
    cpus
}

fn caches(root: &Path, online: &[usize], notes: &mut Vec<String>) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    // A cache seen from one CPU need not be read again from the CPUs that share
    // it: on a large server that saves thousands of files.
    let mut seen: HashSet<(usize, usize)> = HashSet::new();
    let mut problem = None;
    for &cpu in online {
        for index in text::numbered(root, format!("{CPU_DIR}/cpu{cpu}/cache"), "index") {
            if seen.contains(&(index, cpu)) {
                continue;
            }
            match cache(root, &format!("{CPU_DIR}/cpu{cpu}/cache/index{index}")) {
                Ok(mut cache) => {
                    cache.shared_cpus.retain(|other| online.contains(other));
                    seen.extend(cache.shared_cpus.iter().map(|&other| (index, other)));
                    let known = caches.iter().any(|other| {
                        other.level == cache.level
                            && other.kind == cache.kind
                            && other.shared_cpus == cache.shared_cpus
                    });
                    if !known && cache.shared_cpus.contains(&cpu) {
                        caches.push(cache);
                    }
                }
                Err(why) => {
                    problem.get_or_insert(why);
                }
            }
        }
    }
    if let Some(problem) = problem {
        notes.push(format!("a cache is left out: {problem}"));
    }
    if caches.is_empty() {
        notes.push(format!(
            "the kernel describes no caches in /{CPU_DIR}/cpu*/cache, as some virtual machines do"
        ));
    }
    caches.sort_by_key(|cache| (cache.level, cache.kind as u8, cache.shared_cpus[0]));
    caches
}

fn cache(root: &Path, dir: &str) -> Result<Cache, Error> {
    let kind = text::parse(root, format!("{dir}/type"), |kind| match kind {
        "Data" => Ok(CacheKind::Data),
        "Instruction" => Ok(CacheKind::Instruction),
        "Unified" => Ok(CacheKind::Unified),
        other => Err(ParseError::text(other, "is not a kind of cache")),
    })?;
    let ways = match text::number::<u32>(root, format!("{dir}/ways_of_associativity")) {
        // The kernel writes 0 for a fully associative cache, and some virtual
        // machines write it for everything.
        Ok(0) => Reading::unavailable("the kernel says 0: fully associative or not known"),
        answer => reading(answer),
    };
    Ok(Cache {
        level: text::number(root, format!("{dir}/level"))?,
        kind,
        size_bytes: sysfs::size(root, &format!("{dir}/size"))?,
        ways,
        line_bytes: text::number(root, format!("{dir}/coherency_line_size"))?,
        shared_cpus: cpulist::read(root, format!("{dir}/shared_cpu_list"))?,
    })
}
