//! What the kernel and other people's programs write: `/proc`, `/sys`, cgroups, ELF.

use super::finite;
use jostle_host::os::cgroup;
use jostle_host::os::cpulist;
use jostle_host::os::disks;
use jostle_host::os::interrupts;
use jostle_host::os::mounts;
use jostle_host::os::network;
use jostle_host::os::proc;
use jostle_host::os::psi;
use jostle_host::os::sched;
use jostle_host::os::stat;
use jostle_host::os::sysfs;
use jostle_host::os::text;
use jostle_measure::metric::fuzzing as metric;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A tree of files, one of which each input replaces.
fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let parent = match memory.is_dir() {
            true => memory.to_path_buf(),
            false => std::env::temp_dir(),
        };
        let root = parent.join(format!("jostle-fuzzing-{}", std::process::id()));
        for directory in [
            "proc/7/task/7",
            "proc/7/net",
            "proc/self",
            "proc/sys/kernel",
            "sys/block/vda",
        ] {
            fs::create_dir_all(root.join(directory)).expect("a directory for files");
        }
        root
    })
}

type Reader = (&'static str, fn(&Path));

/// Files, and what reads them.
const READERS: [Reader; 12] = [
    ("proc/7/stat", |root| {
        if let Some(stat) = proc::stat(root, 7) {
            assert!(!stat.ended() || !stat.runs());
        }
    }),
    ("proc/uptime", |root| {
        finite::check("the uptime", &proc::uptime_ticks(root));
    }),
    ("proc/7/cmdline", |root| drop(proc::command_line(root, 7))),
    ("proc/7/environ", |root| {
        drop(proc::environment(root, 7, "A"))
    }),
    ("proc/7/task/7/children", |root| {
        drop(proc::children(root, 7))
    }),
    ("proc/interrupts", |root| {
        stat::interrupts(root);
        interrupts::of_disks(root, &[0]);
    }),
    ("proc/diskstats", |root| {
        finite::check("counts of disks", &disks::counts(root));
        disks::name_of(root, "8:0");
    }),
    ("proc/self/mountinfo", |root| {
        if let Ok(mounts) = mounts::read(root) {
            let _ = mounts.iter().filter(|it| mounts::is_read_only(it)).count();
        }
        let _ = cgroup::Hierarchies::below(root);
    }),
    ("proc/7/cgroup", |root| {
        let mounts = "25 24 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        fs::write(root.join("proc/self/mountinfo"), mounts).expect("a file");
        let hierarchies = cgroup::Hierarchies::below(root);
        let _ = hierarchies.map(|it| it.of_process("7", ""));
    }),
    ("proc/sys/kernel/sched_min_granularity_ns", |root| {
        finite::check("the slice", &sched::base_slice(root, 4));
    }),
    ("sys/devices/system/cpu/online", |root| {
        drop(cpulist::online(root))
    }),
    ("sys/size", |root| {
        let _ = sysfs::size(root, "sys/size");
        let _ = sysfs::choice(root, "sys/size");
        let _ = sysfs::flag(root, "sys/size");
    }),
];

/// The first byte chooses the file.
pub fn kernel(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let (path, read) = READERS[usize::from(*choice) % READERS.len()];
    let path = root().join(path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).expect("a directory");
    }
    fs::write(&path, bytes).expect("a file");
    read(root());
    let text = String::from_utf8_lossy(bytes);
    lines(&text);
}

/// What reads text that was read by others.
fn lines(text: &str) {
    finite::check("ticks", &stat::ticks(text, &[0]));
    finite::check("pressure", &psi::total_us(text, "some"));
    let mut sum = [0.0; 2];
    if network::bytes(text, &mut sum).is_ok() {
        finite::check("bytes", &sum);
    }
    finite::check("a count", &text::keyed(text, "rchar"));
    let _ = text::meminfo_bytes(text, "MemTotal");
    let _ = cpulist::parse(text);
    metric::maps(text);
}

/// An ELF file: a program or a library that somebody else has built.
pub fn elf(data: &[u8]) {
    metric::elf(data);
}
