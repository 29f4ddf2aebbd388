//! Detection on made-up machines.

use super::fake::Tree;
use super::*;

impl Machine {
    /// Reads the machine that `<root>/proc` and `<root>/sys` describe, and
    /// nothing else: no CPUID, no system call about the machine at hand.
    fn detect_at(root: &Path) -> Machine {
        Machine::read(root, identity::allowed_cpus(root), |_| Ok(()))
    }
}

const GIB: u64 = 1 << 30;

#[test]
fn a_virtual_machine_without_smt() {
    let tree = Tree::virtual_machine();
    let machine = Machine::detect_at(tree.path());
    assert_eq!(machine.notes, [] as [String; 0]);
    assert_eq!(machine.model, "Test Processor");
    assert_eq!(machine.kernel, "6.1.0-test");
    assert_eq!(machine.hypervisor.as_deref(), Some("unnamed hypervisor"));
    assert_eq!(machine.allowed_cpus, [0, 1]);
    assert!(!machine.smt());
    assert_eq!(machine.core_siblings(1), [1]);
    assert_eq!(machine.core_siblings(7), [] as [usize; 0]);
    assert_eq!(machine.caches.len(), 7);
    assert_eq!(machine.l1d(1).unwrap().size_bytes, 48 << 10);
    assert_eq!(machine.l1d(1).unwrap().ways, Reading::Value(12));
    assert_eq!(
        machine
            .cache(0, 1, CacheKind::Instruction)
            .unwrap()
            .size_bytes,
        64 << 10
    );
    assert_eq!(machine.l2_group(1), [1]);
    assert_eq!(machine.llc(0).unwrap().size_bytes, 480 << 20);
    assert_eq!(machine.llc_group(0), [0, 1]);
    assert!(machine.llc(9).is_none());
    assert_eq!(machine.node_cpus(0), [0, 1]);
    assert_eq!(machine.node_of(1), Some(0));
    assert_eq!(
        machine.transparent_huge_pages,
        Reading::Value("madvise".into())
    );
    let no_pmu = machine.pmu.reason().unwrap();
    assert!(no_pmu.contains("only msr, software"), "{no_pmu}");

    let cgroup = &machine.cgroup;
    assert_eq!(cgroup.version, Reading::Value("hybrid".into()));
    assert_eq!(cgroup.path, Reading::Value("/job/a".into()));
    assert_eq!(cgroup.memory_limit_bytes, Reading::unavailable("no limit"));
    assert_eq!(cgroup.memory_used_bytes, Reading::Value(600_000));
    assert_eq!(cgroup.cpu_quota, Reading::unavailable("no limit"));
    let (bytes, words) = machine.memory_headroom_bytes();
    assert_eq!(bytes, 3 * GIB);
    assert!(words.contains("machine"), "{words}");
}

#[test]
fn a_server_with_smt_and_two_nodes() {
    let tree = Tree::server();
    let machine = Machine::detect_at(tree.path());
    assert!(machine.smt());
    assert_eq!(machine.hypervisor, None);
    assert_eq!(machine.core_siblings(9), [1, 9]);
    assert_eq!(machine.cpu(12).unwrap().package, 1);
    // 8 cores with L1d, L1i, L2 each, and 2 L3.
    assert_eq!(machine.caches.len(), 26);
    assert_eq!(machine.l2_group(9), [1, 9]);
    assert_eq!(machine.l2(9).unwrap().ways.value(), None);
    assert_eq!(machine.llc_group(13), [4, 5, 6, 7, 12, 13, 14, 15]);
    assert_eq!(machine.llc(13).unwrap().size_bytes, 32 << 20);
    assert_eq!(machine.node_of(13), Some(1));
    assert_eq!(machine.node_cpus(0), [0, 1, 2, 3, 8, 9, 10, 11]);
    assert_eq!(
        machine.numa_nodes[1].memory_total_bytes,
        Reading::Value(64 * GIB)
    );
    assert_eq!(machine.pmu, Reading::Value("cpu".into()));

    let facts = machine.facts();
    assert_eq!(facts.cpus, 16);
    assert!(facts.smt);
    let names: Vec<(&str, usize)> = facts
        .caches
        .iter()
        .map(|cache| (cache.name.as_str(), cache.shared_by_cpus))
        .collect();
    assert_eq!(names, [("L1d", 2), ("L1i", 2), ("L2", 2), ("L3", 8)]);
}

#[test]
fn people_read_it() {
    let tree = Tree::server();
    let text = Machine::detect_at(tree.path()).to_string();
    for part in [
        "16 online (0-15), all allowed; 8 cores in 2 packages",
        "2 threads per core (for example CPUs 0,8)",
        "2, shared by CPUs 0-3,8-11 | 4-7,12-15",
        "node 1: CPUs 4-7,12-15, 64 GiB",
        "128 GiB, 120 GiB available, 1 MiB swap",
    ] {
        assert!(text.contains(part), "'{part}' is missing from:\n{text}");
    }
}

#[test]
fn a_restricted_mask_is_kept_to() {
    let tree = Tree::server();
    // CPU 99 is in the mask but not online.
    tree.write("proc/self/status", "Cpus_allowed_list:\t2,5-6,99\n");
    let machine = Machine::detect_at(tree.path());
    assert_eq!(machine.allowed_cpus, [2, 5, 6]);
    let text = machine.to_string();
    assert!(text.contains("3 allowed (2,5-6)"), "{text}");
}

#[test]
fn a_v1_container_with_a_memory_limit() {
    let tree = Tree::virtual_machine();
    // The container sees the host's path, and a mount that begins at its cgroup.
    tree.write(
        "proc/self/cgroup",
        "4:memory:/docker/c1\n1:cpu,cpuacct:/docker/c1\n",
    );
    tree.write(
        "proc/self/mountinfo",
        "35 31 0:32 /docker/c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
         36 31 0:33 /docker/c1 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
    );
    let memory = "sys/fs/cgroup/memory";
    tree.write(&format!("{memory}/memory.limit_in_bytes"), "1073741824\n");
    tree.write(&format!("{memory}/memory.usage_in_bytes"), "268435456\n");
    tree.write(
        &format!("{memory}/memory.stat"),
        "inactive_file 9\ntotal_inactive_file 134217728\n",
    );
    tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
    tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    let machine = Machine::detect_at(tree.path());
    let cgroup = &machine.cgroup;
    assert_eq!(cgroup.version, Reading::Value("v1".into()));
    assert_eq!(cgroup.path, Reading::Value("/".into()));
    assert_eq!(cgroup.memory_limit_bytes, Reading::Value(GIB));
    assert_eq!(cgroup.memory_used_bytes, Reading::Value(GIB / 8));
    assert_eq!(cgroup.cpu_quota, Reading::Value(1.5));
    let (bytes, words) = machine.memory_headroom_bytes();
    assert_eq!(bytes, GIB / 8 * 7);
    assert!(words.contains("/sys/fs/cgroup/memory"), "{words}");
    assert_eq!(available_memory_bytes_at(tree.path()).unwrap(), bytes);
}

#[test]
fn a_v2_container_inside_another() {
    let tree = Tree::server();
    let pod = "sys/fs/cgroup/pod";
    tree.write(&format!("{pod}/memory.max"), "8589934592\n");
    tree.write(&format!("{pod}/memory.high"), "max\n");
    tree.write(&format!("{pod}/memory.current"), "8053063680\n");
    tree.write(&format!("{pod}/memory.stat"), "anon 1\ninactive_file 0\n");
    tree.write(&format!("{pod}/cpu.max"), "250000 100000\n");
    tree.write(&format!("{pod}/app/memory.max"), "4294967296\n");
    tree.write(&format!("{pod}/app/memory.current"), "1073741824\n");
    tree.write(&format!("{pod}/app/memory.stat"), "inactive_file 0\n");
    tree.write(&format!("{pod}/app/cpu.max"), "max 100000\n");
    let machine = Machine::detect_at(tree.path());
    let cgroup = &machine.cgroup;
    assert_eq!(cgroup.version, Reading::Value("v2".into()));
    assert_eq!(cgroup.path, Reading::Value("/pod/app".into()));
    assert_eq!(cgroup.memory_limit_bytes, Reading::Value(4 * GIB));
    assert_eq!(cgroup.memory_used_bytes, Reading::Value(GIB));
    // The pod is wider but nearly full.
    assert_eq!(cgroup.memory_headroom_bytes, Reading::Value(GIB / 2));
    assert_eq!(
        cgroup.memory_bound_by.as_deref(),
        Some("/sys/fs/cgroup/pod")
    );
    assert_eq!(cgroup.cpu_quota, Reading::Value(2.5));

    tree.write(&format!("{pod}/app/memory.high"), "1610612736\n");
    let machine = Machine::detect_at(tree.path());
    assert_eq!(
        machine.cgroup.memory_limit_bytes,
        Reading::Value(GIB / 2 * 3)
    );
}

#[test]
fn nothing_may_be_taken_under_a_limit_of_unknown_use() {
    let tree = Tree::server();
    tree.write("sys/fs/cgroup/pod/memory.max", "8589934592\n");
    let (bytes, words) = Machine::detect_at(tree.path()).memory_headroom_bytes();
    assert_eq!(bytes, 0);
    assert!(words.contains("memory.current"), "{words}");
    assert!(available_memory_bytes_at(tree.path()).is_err());
}

#[test]
fn a_v2_root_has_no_limit_and_a_bare_child_no_controller() {
    let tree = Tree::server();
    tree.write("proc/self/cgroup", "0::/\n");
    let limit = Machine::detect_at(tree.path()).cgroup.memory_limit_bytes;
    assert_eq!(limit, Reading::unavailable("no limit"));
    tree.write("proc/self/cgroup", "0::/pod/app\n");
    let limit = Machine::detect_at(tree.path()).cgroup.memory_limit_bytes;
    assert!(limit.reason().unwrap().contains("not enabled"));
}

#[test]
fn a_path_outside_the_mount_falls_back_to_the_mount_point() {
    let tree = Tree::server();
    tree.write("proc/self/cgroup", "0::/../../other\n");
    tree.write("sys/fs/cgroup/memory.max", "2147483648\n");
    tree.write("sys/fs/cgroup/memory.current", "1073741824\n");
    let cgroup = Machine::detect_at(tree.path()).cgroup;
    assert_eq!(cgroup.path, Reading::Value("/".into()));
    assert_eq!(cgroup.memory_headroom_bytes, Reading::Value(GIB));
}

#[test]
fn a_machine_that_tells_nothing_is_still_described() {
    let tree = Tree::new();
    let machine = Machine::detect_at(tree.path());
    assert_eq!(machine.cpus, []);
    assert!(!machine.notes.is_empty());
    assert_eq!(machine.memory_headroom_bytes().0, 0);
    assert!(machine.cgroup.version.reason().is_some());
    assert!(machine.pmu.reason().is_some());
    assert!(available_memory_bytes_at(tree.path()).is_err());
    assert!(machine.to_string().contains("not known"));
}

#[test]
fn missing_caches_are_a_note_and_not_a_guess() {
    let tree = Tree::virtual_machine();
    for cpu in 0..2 {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/cache");
        std::fs::remove_dir_all(tree.path().join(dir)).unwrap();
    }
    let machine = Machine::detect_at(tree.path());
    assert_eq!(machine.caches, []);
    assert!(machine.l1d(0).is_none());
    assert_eq!(machine.llc_group(0), [] as [usize; 0]);
    assert!(
        machine.notes[0].contains("no caches"),
        "{:?}",
        machine.notes
    );
}

#[test]
fn garbage_is_named_and_not_believed() {
    let tree = Tree::virtual_machine();
    let cpu = "sys/devices/system/cpu/cpu1";
    tree.write(&format!("{cpu}/cache/index2/size"), "lots\n");
    tree.write(&format!("{cpu}/topology/thread_siblings_list"), "x-y\n");
    tree.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "??\n");
    tree.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
    tree.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "0\n");
    tree.write("proc/meminfo", "MemTotal: 1 kB\nMemFree: 12 kB\n");
    tree.write("proc/sys/kernel/perf_event_paranoid", "\u{fffd}\n");
    tree.write("sys/kernel/mm/transparent_hugepage/enabled", "always\n");
    let machine = Machine::detect_at(tree.path());
    assert!(machine.l2(0).is_some());
    assert!(machine.l2(1).is_none());
    assert_eq!(machine.core_siblings(1), [1]);
    let notes = machine.notes.join("\n");
    assert!(notes.contains("cpu1/cache/index2/size: 'lots'"), "{notes}");
    assert!(notes.contains("SMT siblings of CPUs 1 "), "{notes}");
    assert!(notes.contains("SwapTotal"), "{notes}");
    assert_eq!(machine.memory.available_bytes, 12 * 1024);
    let limit = machine.cgroup.memory_limit_bytes;
    assert!(limit.reason().unwrap().contains("'??'"), "{limit:?}");
    let quota = machine.cgroup.cpu_quota;
    assert!(quota.reason().unwrap().contains("not a CPU quota"));
    assert!(machine.perf_event_paranoid.reason().is_some());
    assert!(machine.transparent_huge_pages.reason().is_some());
}

#[test]
fn a_pmu_that_does_not_count_gives_its_reason() {
    let tree = Tree::server();
    let refused = Machine::read(tree.path(), Ok(vec![0]), |paranoid| {
        Err(format!("level {paranoid}"))
    });
    assert_eq!(refused.pmu, Reading::unavailable("level 2"));
    tree.write("sys/bus/event_source/devices/armv8_pmuv3_0/type", "8\n");
    let both = Machine::detect_at(tree.path());
    assert_eq!(both.pmu, Reading::Value("armv8_pmuv3_0+cpu".into()));
}

#[test]
fn arm_names_come_from_numbers() {
    let tree = Tree::server();
    tree.write(
        "proc/cpuinfo",
        "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
    );
    let machine = Machine::detect_at(tree.path());
    assert_eq!(
        (machine.vendor.as_str(), machine.model.as_str()),
        ("Arm", "Neoverse N1")
    );
}

#[test]
fn fingerprints_last_and_tell_machines_apart() {
    assert_eq!(fnv1a_64(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(fnv1a_64(b"a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(fnv1a_64(b"foobar"), 0x8594_4171_f739_67e8);
    let tree = Tree::virtual_machine();
    let print = || Machine::detect_at(tree.path()).fingerprint();
    let first = print();
    assert_eq!(first.len(), 16);
    tree.write("proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 5 kB\n");
    assert_eq!(print(), first, "memory in use is no part of it");
    tree.write("proc/sys/kernel/osrelease", "6.2.0\n");
    let other_kernel = print();
    assert_ne!(other_kernel, first);
    tree.write("proc/self/status", "Cpus_allowed_list: 1\n");
    assert_ne!(print(), other_kernel);
    assert_ne!(
        Machine::detect_at(Tree::server().path()).fingerprint(),
        first
    );
}

#[test]
fn this_machine_is_read() {
    let machine = Machine::detect();
    assert!(!machine.allowed_cpus.is_empty());
    assert!(machine.memory.total_bytes > 0);
    assert_eq!(machine.fingerprint(), Machine::detect().fingerprint());
    assert!(available_memory_bytes().unwrap() > 0);
}

#[test]
fn bytes_for_people() {
    assert_eq!(format_bytes(48 << 10), "48 KiB");
    assert_eq!(format_bytes(480 << 20), "480 MiB");
    assert_eq!(format_bytes(GIB / 2 * 3), "1.5 GiB");
    assert_eq!(format_bytes(12), "12 B");
}
