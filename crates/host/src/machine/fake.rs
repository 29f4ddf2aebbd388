//! Made-up machines for tests: as trees of files, and as plain values.

use super::*;
use std::fs;
use std::path::Path;

/// A temporary directory standing in for `/`.
pub struct Tree(tempfile::TempDir);

impl Default for Tree {
    fn default() -> Tree {
        Tree::new()
    }
}

impl Tree {
    pub fn new() -> Tree {
        Tree(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn cpu(&self, id: usize, package: usize, core: usize, siblings: &str) {
        let dir = format!("sys/devices/system/cpu/cpu{id}/topology");
        self.write(
            &format!("{dir}/physical_package_id"),
            &format!("{package}\n"),
        );
        self.write(&format!("{dir}/core_id"), &format!("{core}\n"));
        self.write(
            &format!("{dir}/thread_siblings_list"),
            &format!("{siblings}\n"),
        );
    }

    /// `facts`: level, type, size, ways, shared CPUs.
    fn cache(&self, cpu: usize, index: usize, facts: [&str; 5]) {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
        let names = [
            "level",
            "type",
            "size",
            "ways_of_associativity",
            "shared_cpu_list",
        ];
        for (name, fact) in names.iter().zip(facts) {
            self.write(&format!("{dir}/{name}"), &format!("{fact}\n"));
        }
        self.write(&format!("{dir}/coherency_line_size"), "64\n");
    }

    fn common(&self, online: &str) {
        self.write("sys/devices/system/cpu/online", &format!("{online}\n"));
        let status = format!("Name:\tx\nCpus_allowed_list:\t{online}\n");
        self.write("proc/self/status", &status);
        self.write("proc/sys/kernel/osrelease", "6.1.0-test\n");
        self.write("proc/sys/kernel/perf_event_paranoid", "2\n");
        self.write(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        );
    }

    /// A virtual machine: 2 CPUs without SMT, one L3, v1 cgroups beside an empty
    /// v2 one, no PMU.
    pub fn virtual_machine() -> Tree {
        let tree = Tree::new();
        tree.common("0-1");
        for cpu in 0..2 {
            let own = cpu.to_string();
            tree.cpu(cpu, 0, cpu, &own);
            tree.cache(cpu, 0, ["1", "Data", "48K", "12", &own]);
            tree.cache(cpu, 1, ["1", "Instruction", "64K", "16", &own]);
            tree.cache(cpu, 2, ["2", "Unified", "2048K", "16", &own]);
            tree.cache(cpu, 3, ["3", "Unified", "491520K", "16", "0-1"]);
        }
        tree.write("sys/devices/system/node/node0/cpulist", "0-1\n");
        tree.write(
            "sys/devices/system/node/node0/meminfo",
            "Node 0 MemTotal:       4194304 kB\n",
        );
        tree.write(
            "proc/meminfo",
            "MemTotal: 4194304 kB\nMemFree: 1048576 kB\nMemAvailable: 3145728 kB\nSwapTotal: 0 kB\n",
        );
        tree.write(
            "proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Test Processor\n\
             flags\t\t: fpu hypervisor avx\n\nprocessor\t: 1\n",
        );
        tree.write("sys/bus/event_source/devices/software/type", "1\n");
        tree.write("sys/bus/event_source/devices/msr/type", "2\n");
        tree.write(
            "proc/self/cgroup",
            "4:memory:/job/a\n3:cpuset:/\n2:cpuacct:/\n1:cpu:/\n0::/\n",
        );
        tree.write(
            "proc/self/mountinfo",
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
             32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
             33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n\
             35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        );
        let memory = "sys/fs/cgroup/memory";
        for dir in ["", "/job", "/job/a"] {
            let limit = format!("{memory}{dir}/memory.limit_in_bytes");
            tree.write(&limit, "9223372036854771712\n");
            let usage = format!("{memory}{dir}/memory.usage_in_bytes");
            tree.write(&usage, "1000000\n");
            let stat = format!("{memory}{dir}/memory.stat");
            tree.write(&stat, "inactive_file 1\ntotal_inactive_file 400000\n");
        }
        tree.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
        tree.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
        tree.write("sys/fs/cgroup/unified/cgroup.controllers", "hugetlb\n");
        tree
    }

    /// Bare metal: 2 packages of 4 cores with 2 threads each, 2 NUMA nodes, an
    /// L3 for each package, v2 cgroups, a PMU.
    pub fn server() -> Tree {
        let tree = Tree::new();
        tree.common("0-15");
        for cpu in 0..16 {
            let core = cpu % 8;
            let package = core / 4;
            let siblings = format!("{core},{}", core + 8);
            let llc = ["0-3,8-11", "4-7,12-15"][package];
            tree.cpu(cpu, package, core % 4, &siblings);
            tree.cache(cpu, 0, ["1", "Data", "32K", "8", &siblings]);
            tree.cache(cpu, 1, ["1", "Instruction", "32K", "8", &siblings]);
            tree.cache(cpu, 2, ["2", "Unified", "1024K", "0", &siblings]);
            tree.cache(cpu, 3, ["3", "Unified", "32M", "16", llc]);
        }
        for (node, cpus) in ["0-3,8-11", "4-7,12-15"].iter().enumerate() {
            let dir = format!("sys/devices/system/node/node{node}");
            tree.write(&format!("{dir}/cpulist"), &format!("{cpus}\n"));
            let meminfo = format!("Node {node} MemTotal:       67108864 kB\n");
            tree.write(&format!("{dir}/meminfo"), &meminfo);
        }
        tree.write(
            "proc/meminfo",
            "MemTotal: 134217728 kB\nMemAvailable: 125829120 kB\nSwapTotal: 1024 kB\n",
        );
        tree.write(
            "proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: Server Processor\nflags\t: fpu\n",
        );
        tree.write("sys/bus/event_source/devices/cpu/type", "4\n");
        tree.write("proc/self/cgroup", "0::/pod/app\n");
        tree.write(
            "proc/self/mountinfo",
            "41 31 0:38 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
        );
        tree
    }
}

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
            memory_headroom_bytes: Reading::unavailable("no limit"),
            memory_bound_by: None,
            cpu_quota: Reading::unavailable("no limit"),
        },
        hypervisor: None,
        notes: Vec::new(),
        kernel: "6.0".into(),
        perf_event_paranoid: Reading::Value(2),
        tlb_entries: Reading::Value(1536),
        pmu: Reading::unavailable("fake"),
        transparent_huge_pages: Reading::Value("madvise".into()),
    }
}
