//! Machines that exist only in tests.

use super::*;

/// One package of `cores` cores with `threads` threads each: logical CPU n,
/// n + cores, … share core n. 48 KiB L1d and 2 MiB L2 per core, one LLC of
/// 32 MiB, 16 GiB of memory in one node; everything is allowed.
pub fn cores(cores: usize, threads: usize) -> Machine {
    let all: Vec<usize> = (0..cores * threads).collect();
    let siblings = |cpu: usize| -> Vec<usize> {
        (0..threads)
            .map(|thread| cpu % cores + thread * cores)
            .collect()
    };
    let cache = |level, kind, size_bytes, shared_cpus| Cache {
        level,
        kind,
        size_bytes,
        ways: Reading::unavailable("not part of this fake machine"),
        line_bytes: 64,
        shared_cpus,
    };
    let mut caches = Vec::new();
    for core in 0..cores {
        caches.push(cache(1, CacheKind::Data, 48 << 10, siblings(core)));
        caches.push(cache(2, CacheKind::Unified, 2 << 20, siblings(core)));
    }
    caches.push(cache(3, CacheKind::Unified, 32 << 20, all.clone()));
    Machine {
        model: "fake".into(),
        vendor: "fake".into(),
        architecture: "x86_64".into(),
        cpus: all
            .iter()
            .map(|&id| LogicalCpu {
                id,
                package: 0,
                core: id % cores,
                node: 0,
                core_siblings: siblings(id),
            })
            .collect(),
        allowed_cpus: all.clone(),
        caches,
        numa_nodes: vec![NumaNode {
            id: 0,
            cpus: all,
            memory_total_bytes: Reading::Value(16 << 30),
        }],
        memory: Memory {
            total_bytes: 16 << 30,
            available_bytes: 15 << 30,
            swap_total_bytes: 0,
        },
        cgroup: Cgroup {
            version: Reading::unavailable("fake"),
            path: Reading::unavailable("fake"),
            memory_limit_bytes: Reading::unavailable("no limit"),
            memory_used_bytes: Reading::unavailable("fake"),
            cpu_quota: Reading::unavailable("no limit"),
        },
        hypervisor: None,
        kernel: "6.0".into(),
        perf_event_paranoid: Reading::Value(2),
        pmu: Reading::unavailable("fake"),
        transparent_huge_pages: Reading::Value("madvise".into()),
    }
}
