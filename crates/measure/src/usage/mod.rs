//! What the target uses by itself: CPU time, disk, network, memory.
//!
//! Totals are taken at both ends of short parts of time in which nothing
//! interferes with the target; [`summary`] makes rates of them and says how
//! certain these are, [`share`] compares them with the peaks of the sources.
//!
//! A total covers everything that belongs to the target, whatever ended
//! meanwhile: the kernel adds what an ended process used to the process that
//! waited for it, so that nothing is lost or counted twice as long as the sum is
//! taken over all of them at once. For a command that jostle starts again and
//! again, the process that waited is jostle itself.

mod processes;
mod share;
mod summary;

pub use share::Peaks;
pub use share::Probe;
pub use summary::Part;
pub use summary::Track;

use crate::counters::TargetCgroup;
use crate::workload::Scope;
use jostle_host::os::ParseError;
use jostle_host::os::disks;
use jostle_host::os::disks::DiskCounts;
use jostle_host::os::here;
use jostle_host::os::text;
use jostle_host::sys::clock::cpu_ns_of;
use jostle_host::sys::clock::monotonic_ns;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

/// A number, or why there is none.
type Read<T> = Result<T, String>;

/// Bytes and operations on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Io {
    read_bytes: f64,
    written_bytes: f64,
    reads: f64,
    writes: f64,
}

/// What the target has read from and written to disks.
#[derive(Clone, Debug, PartialEq)]
enum Storage {
    /// By device, as its own cgroup has it.
    Devices(BTreeMap<String, Io>),
    /// In bytes, as the kernel counts for each process.
    Bytes { read: f64, written: f64 },
}

/// Bytes and packets through all devices but loopback.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Traffic {
    received_bytes: f64,
    received_packets: f64,
    sent_bytes: f64,
    sent_packets: f64,
}

/// All totals at one moment.
#[derive(Clone, Debug)]
pub struct Totals {
    at_ns: u64,
    cpu_seconds: Read<f64>,
    storage: Read<Storage>,
    /// Read and written by system calls, of any kind of file.
    passed_bytes: Read<f64>,
    disks: Read<BTreeMap<String, DiskCounts>>,
    traffic: Read<Traffic>,
}

/// Memory of the target at one moment, bytes.
#[derive(Clone, Debug)]
pub struct Memory {
    resident_bytes: Read<f64>,
    /// Of its own cgroup: what it read or wrote of files and the kernel keeps.
    page_cache_bytes: Read<f64>,
}

/// Reads what one target uses.
pub struct Meter {
    root: PathBuf,
    scope: Scope,
    /// Whether we started it, and so wait for what ends.
    ours: bool,
    clock: processes::CpuClock,
    cgroup: TargetCgroup,
    /// Where the numbers come from, for the reader of a profile.
    sources: Sources,
}

/// The file of each kind of number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sources {
    cpu: &'static str,
    storage: &'static str,
}

impl Meter {
    /// Of `scope`, a target that we started (`ours`) or attached to.
    pub fn new(root: &Path, scope: &Scope, ours: bool) -> Meter {
        Meter {
            root: root.into(),
            scope: scope.clone(),
            ours,
            // Processes below another root are made up.
            clock: if root == here() { cpu_ns_of } else { |_| None },
            cgroup: TargetCgroup::find(root, Some(scope)),
            sources: Sources {
                cpu: "CPU clock of each process, /proc/PID/stat of ended ones",
                storage: "/proc/PID/io",
            },
        }
    }

    /// Reads another run of the target from now on.
    pub fn follow(&mut self, scope: &Scope) {
        if self.scope != *scope {
            self.scope = scope.clone();
        }
    }

    /// Everything it used so far.
    pub fn totals(&mut self) -> Totals {
        let processes = self.scope.processes();
        let own = self.own_cgroup();
        let cpu = own.then(|| self.cgroup_cpu()).flatten();
        let storage = own.then(|| self.cgroup_io()).flatten();
        if cpu.is_some() {
            self.sources.cpu = "cgroup";
        }
        if storage.is_some() {
            self.sources.storage = "cgroup";
        }
        let at_ns = monotonic_ns();
        let by_process = processes::totals(&self.root, &processes, self.ours, self.clock);
        Totals {
            at_ns,
            cpu_seconds: cpu.unwrap_or(by_process.cpu_seconds),
            storage: storage.unwrap_or(by_process.storage),
            passed_bytes: by_process.passed_bytes,
            disks: disks::counts(&self.root).map_err(|error| error.to_string()),
            traffic: self.traffic(&processes),
        }
    }

    /// Memory that it holds now. Takes the kernel a walk through the page tables
    /// where the target has several processes.
    pub fn memory(&self) -> Memory {
        Memory {
            resident_bytes: processes::resident(&self.root, &self.scope.processes()),
            page_cache_bytes: self.page_cache(),
        }
    }

    /// Whether the target is a whole cgroup: one that it merely happens to be
    /// alone in may be left or joined at any time.
    fn own_cgroup(&self) -> bool {
        matches!(self.scope, Scope::Cgroup(_))
    }

    /// Text of a file of its cgroup with the v1 `controller`, v2 where that is
    /// empty.
    fn of_cgroup(&self, controller: &'static str, file: &str) -> Read<String> {
        let directory = self.cgroup.of(controller).map_err(|why| why.to_string())?;
        text::text(&self.root, directory.join(file)).map_err(|why| why.to_string())
    }

    /// `None` where its cgroup does not count CPU time.
    fn cgroup_cpu(&self) -> Option<Read<f64>> {
        let unified = self.of_cgroup("", "cpu.stat");
        let microseconds = unified.ok().map(|text| text::keyed(&text, "usage_usec"));
        if let Some(Ok(microseconds)) = microseconds {
            return Some(Ok(microseconds / 1e6));
        }
        let nanoseconds = self.of_cgroup("cpuacct", "cpuacct.usage").ok()?;
        Some(text::count(&nanoseconds).map_or_else(|why| Err(why.to_string()), |it| Ok(it / 1e9)))
    }

    /// `None` where its cgroup does not count I/O.
    fn cgroup_io(&self) -> Option<Read<Storage>> {
        let named = |found: BTreeMap<String, Io>| {
            let named = found.into_iter().map(|(number, io)| {
                let name = disks::name_of(&self.root, &number);
                (name.unwrap_or(number), io)
            });
            Storage::Devices(named.collect())
        };
        if let Ok(text) = self.of_cgroup("", "io.stat") {
            return Some(io_stat(&text).map(named).map_err(|why| why.to_string()));
        }
        let file = |name: &str| {
            let file = format!("blkio.throttle.{name}_recursive");
            self.of_cgroup("blkio", &file).ok()
        };
        let (bytes, operations) = (file("io_service_bytes")?, file("io_serviced")?);
        let found = blkio(&bytes, &operations);
        Some(found.map(named).map_err(|why| why.to_string()))
    }

    fn page_cache(&self) -> Read<f64> {
        let unified = self.of_cgroup("", "memory.stat");
        if let Ok(text) = &unified
            && let Ok(bytes) = text::keyed(text, "file")
        {
            return Ok(bytes);
        }
        let text = self.of_cgroup("memory", "memory.stat")?;
        text::keyed(&text, "total_cache").map_err(|why| why.to_string())
    }

    /// Of the target's network namespace; between two runs of a command of ours.
    fn traffic(&self, processes: &[i32]) -> Read<Traffic> {
        let alive = processes::alive(&self.root, processes);
        let file = match alive.first() {
            Some(pid) => format!("proc/{pid}/net/dev"),
            None if self.ours => "proc/self/net/dev".into(),
            None => return Err("the target has no process".into()),
        };
        text::parse(&self.root, file, net_dev).map_err(|why| why.to_string())
    }

    /// Whether the target has another network namespace than we have.
    fn namespace_apart(&self) -> bool {
        let link = |process: &str| {
            let path = self.root.join(format!("proc/{process}/ns/net"));
            std::fs::read_link(path).ok()
        };
        let first = self.scope.processes().first().map(i32::to_string);
        let target = first.and_then(|pid| link(&pid));
        matches!((target, link("self")), (Some(target), Some(own)) if target != own)
    }
}

/// `8:0 rbytes=1 wbytes=2 rios=3 wios=4 …`, a line per device.
fn io_stat(text: &str) -> Result<BTreeMap<String, Io>, ParseError> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(number) = words.next() else {
            continue;
        };
        let mut io = Io::default();
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            let place = match key {
                "rbytes" => &mut io.read_bytes,
                "wbytes" => &mut io.written_bytes,
                "rios" => &mut io.reads,
                "wios" => &mut io.writes,
                _ => continue,
            };
            *place = text::count(value)?;
        }
        found.insert(number.to_string(), io);
    }
    Ok(found)
}

/// `8:0 Read 1`, a line per device and direction, in bytes and in operations.
fn blkio(bytes: &str, operations: &str) -> Result<BTreeMap<String, Io>, ParseError> {
    let mut found: BTreeMap<String, Io> = BTreeMap::new();
    for (text, of_bytes) in [(bytes, true), (operations, false)] {
        for line in text.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let [number, direction, value] = words[..] else {
                continue;
            };
            let io = found.entry(number.to_string()).or_default();
            let place = match (direction, of_bytes) {
                ("Read", true) => &mut io.read_bytes,
                ("Write", true) => &mut io.written_bytes,
                ("Read", false) => &mut io.reads,
                ("Write", false) => &mut io.writes,
                _ => continue,
            };
            *place = text::count(value)?;
        }
    }
    Ok(found)
}

/// The sum over all devices but loopback; no device at all is no traffic.
fn net_dev(text: &str) -> Result<Traffic, ParseError> {
    let mut sum = Traffic::default();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(':') else {
            continue;
        };
        if name.trim() == "lo" {
            continue;
        }
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |place: usize| text::count(words.get(place).unwrap_or(&""));
        sum.received_bytes += number(0)?;
        sum.received_packets += number(1)?;
        sum.sent_bytes += number(8)?;
        sum.sent_packets += number(9)?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_host::os::fake::tree;

    const MOUNTS: &str = "\
        26 24 0:24 / /cg/cpuacct rw - cgroup cgroup rw,cpuacct\n\
        27 24 0:25 / /cg/blkio rw - cgroup cgroup rw,blkio\n\
        28 24 0:26 / /cg/unified rw - cgroup2 cgroup2 rw\n";
    const DISKS: &str = "8 0 sda 1 0 2 0 1 0 2 0 0 1 1\n";

    fn meter(root: &Path, directory: &str) -> Meter {
        Meter::new(root, &Scope::Cgroup(root.join(directory)), false)
    }

    #[test]
    fn a_cgroup_of_v2_counts_by_device() {
        let root = tree(&[
            ("proc/self/mountinfo", MOUNTS),
            ("proc/diskstats", DISKS),
            ("cg/unified/web/cgroup.procs", "7\n"),
            ("cg/unified/web/cpu.stat", "usage_usec 2500000\n"),
            (
                "cg/unified/web/io.stat",
                "8:0 rbytes=4096 wbytes=7 rios=1 wios=2 dbytes=0 dios=0\n9:9 rbytes=1\n",
            ),
            ("cg/unified/web/memory.stat", "anon 5\nfile 8192\n"),
            (
                "proc/7/net/dev",
                "x\ny\n lo: 9 9 0 0 0 0 0 0 9 9\neth0: 1 2 0 0 0 0 0 0 3 4\n",
            ),
        ]);
        let mut meter = meter(root.path(), "cg/unified/web");
        let totals = meter.totals();
        assert_eq!(totals.cpu_seconds, Ok(2.5));
        let Ok(Storage::Devices(devices)) = totals.storage else {
            panic!("not by device");
        };
        assert_eq!(devices["sda"].read_bytes, 4096.0);
        assert_eq!(devices["sda"].writes, 2.0);
        assert_eq!(devices["9:9"].read_bytes, 1.0);
        assert_eq!(meter.memory().page_cache_bytes, Ok(8192.0));
        let traffic = totals.traffic.unwrap();
        assert_eq!((traffic.received_bytes, traffic.sent_packets), (1.0, 4.0));
    }

    #[test]
    fn a_cgroup_without_the_io_controller_is_read_by_process() {
        let root = tree(&[
            ("proc/self/mountinfo", MOUNTS),
            ("cg/unified/web/cgroup.procs", "7\n"),
            ("cg/unified/web/cpu.stat", "usage_usec 1000000\n"),
            (
                "proc/7/io",
                "read_bytes: 10\nwrite_bytes: 20\ncancelled_write_bytes: 5\n",
            ),
        ]);
        let mut meter = meter(root.path(), "cg/unified/web");
        let totals = meter.totals();
        let bytes = Storage::Bytes {
            read: 10.0,
            written: 15.0,
        };
        assert_eq!(totals.storage, Ok(bytes));
        assert_eq!(totals.cpu_seconds, Ok(1.0));
        assert_eq!(meter.sources.storage, "/proc/PID/io");
        assert!(totals.disks.unwrap_err().contains("/proc/diskstats"));
    }

    #[test]
    fn a_cgroup_of_v1() {
        let root = tree(&[
            ("proc/self/mountinfo", MOUNTS),
            ("proc/diskstats", DISKS),
            ("cg/cpuacct/web/cgroup.procs", "7\n"),
            ("cg/blkio/web/cgroup.procs", "7\n"),
            ("cg/cpuacct/web/cpuacct.usage", "1500000000\n"),
            (
                "cg/blkio/web/blkio.throttle.io_service_bytes_recursive",
                "8:0 Read 10\n8:0 Write 4\n8:0 Sync 9\nTotal 14\n",
            ),
            (
                "cg/blkio/web/blkio.throttle.io_serviced_recursive",
                "8:0 Read 2\nTotal 2\n",
            ),
        ]);
        let mut meter = meter(root.path(), "cg/cpuacct/web");
        let totals = meter.totals();
        assert_eq!(totals.cpu_seconds, Ok(1.5));
        let Ok(Storage::Devices(devices)) = totals.storage else {
            panic!("not by device");
        };
        assert_eq!(
            (devices["sda"].reads, devices["sda"].written_bytes),
            (2.0, 4.0)
        );
        let why = meter.memory().page_cache_bytes.unwrap_err();
        assert!(why.contains("memory"), "{why}");
    }
}
