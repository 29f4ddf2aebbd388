//! What a workload uses, from files that stay open between refreshes.

use super::cycles::Counted;
use super::cycles::Cycles;
use super::cycles::Opener;
use super::discover::Key;
use jostle_host::os;
use jostle_host::os::cgroup;
use jostle_host::os::cgroup::Hierarchies;
use jostle_host::os::here;
use jostle_host::os::proc;
use jostle_host::os::proc::WaitClock;
use jostle_host::os::psi::total_us;
use jostle_host::os::text;
use jostle_host::sys::clock::cpu_ns_of;
use jostle_host::sys::clock::monotonic_ns;
use jostle_measure::workload::Scope;
use jostle_profile::node::WorkloadReadings;
use jostle_profile::reading::Reading;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

/// Threads of one workload whose waiting is read one by one.
const MOST_THREADS: usize = 64;
/// Processes of one workload that are read one by one.
const MOST_PROCESSES: usize = 64;
/// Readings for which a process that shares the host's network is taken to go on so.
const SHARES_FOR: u32 = 10;

/// A value, or why there is none.
type Read<T> = Result<T, String>;

/// An open file of the kernel, read anew every time.
struct Slot(Read<File>);

impl Slot {
    fn open(root: &Path, path: &Path) -> Slot {
        let shown = || text::shown(root, path);
        Slot(File::open(path).map_err(|error| os::Error::of_io(shown(), &error).to_string()))
    }

    fn absent(reason: impl ToString) -> Slot {
        Slot(Err(reason.to_string()))
    }

    /// What `parse` makes of the text.
    fn read<T>(
        &self,
        buffer: &mut Vec<u8>,
        parse: impl FnOnce(&str) -> Result<T, os::ParseError>,
    ) -> Read<T> {
        let file = self.0.as_ref().map_err(String::clone)?;
        let mut length = 0;
        loop {
            if length == buffer.len() {
                buffer.resize(2 * length, 0);
            }
            let read = file.read_at(&mut buffer[length..], length as u64);
            let read = read.map_err(|error| error.to_string())?;
            length += read;
            // These files come in one piece unless they are longer than a page.
            if read == 0 || length < 3072 {
                break;
            }
        }
        let text = std::str::from_utf8(&buffer[..length]).map_err(|error| error.to_string())?;
        parse(text).map_err(|error| error.to_string())
    }
}

/// Totals at one moment, in seconds and bytes.
#[derive(Clone, Debug)]
struct Totals {
    at_ns: u64,
    cpu: Read<f64>,
    /// Read and written.
    disk: Read<[f64; 2]>,
    /// Received and sent.
    network: Read<[f64; 2]>,
    /// Time that threads waited in run queues, by thread.
    waited: Read<HashMap<i32, f64>>,
    /// CPU, memory, I/O.
    pressure: [Read<f64>; 3],
    /// No CPU time was used and nothing waited since the totals before.
    still: bool,
    /// The first process where it shares the host's network, and for how many more
    /// readings that is taken for true.
    on_host: Option<(i32, u32)>,
}

/// Reads one workload.
pub(super) struct Meter {
    what: What,
    before: Option<Totals>,
    cycles: Cycles,
}

enum What {
    Cgroup(Box<Files>),
    /// A process and what descends from it.
    Process {
        pid: i32,
    },
}

impl Counted for What {
    fn scope(&self) -> Scope {
        match self {
            What::Cgroup(files) => Scope::Cgroup(files.directory.clone()),
            What::Process { pid } => Scope::Processes(vec![*pid]),
        }
    }
}

/// The files of a cgroup, in v2 or v1.
struct Files {
    directory: PathBuf,
    cpu: (Slot, CpuUnit),
    memory: Slot,
    io: (Slot, IoFormat),
    pressure: [Slot; 3],
    processes: Slot,
}

#[derive(Clone, Copy)]
enum CpuUnit {
    /// `usage_usec` of `cpu.stat`.
    Stat,
    /// Nanoseconds, alone.
    Nanoseconds,
}

#[derive(Clone, Copy)]
enum IoFormat {
    /// `MAJ:MIN rbytes=N wbytes=N …`.
    Unified,
    /// `MAJ:MIN Read N`.
    Blkio,
}

/// What many meters share.
pub(super) struct Shared {
    hierarchies: Option<Hierarchies>,
    buffer: Vec<u8>,
    /// Network namespace of this program.
    own_network: Option<u64>,
    cycles: Opener,
}

impl Shared {
    pub(super) fn new() -> Shared {
        Shared {
            hierarchies: Hierarchies::here().ok(),
            buffer: vec![0; 4096],
            own_network: network_namespace("self"),
            cycles: Opener::new(),
        }
    }
}

impl Meter {
    pub(super) fn new(key: &Key, shared: &Shared) -> Meter {
        let what = match key {
            Key::Process(pid, _) => What::Process { pid: *pid },
            Key::Cgroup(directory, _) => What::Cgroup(Box::new(Files::open(directory, shared))),
        };
        Meter {
            what,
            before: None,
            cycles: Cycles::default(),
        }
    }

    /// What was used since the call before; rates are unavailable the first time.
    /// `is_leaf`: no other cgroup lies inside.
    pub(super) fn read(&mut self, is_leaf: bool, shared: &mut Shared) -> WorkloadReadings {
        let now = self.totals(is_leaf, shared);
        let memory = match &self.what {
            What::Cgroup(files) => files
                .memory
                .read(&mut shared.buffer, |text| text::count(text.trim())),
            What::Process { pid } => resident(&family(*pid)),
        };
        let first = || "it was read once so far".to_string();
        let before = self.before.take();
        let seconds = before
            .as_ref()
            .map_or(0.0, |it| (now.at_ns - it.at_ns) as f64 / 1e9);
        let since = |of: &dyn Fn(&Totals) -> Read<f64>| -> Reading<f64> {
            let before = before.as_ref().ok_or_else(first).and_then(of);
            let grown = before.and_then(|before| Ok(of(&now)? - before));
            let rate = grown.and_then(|grown| match grown >= 0.0 && seconds > 0.0 {
                true => Ok(grown / seconds),
                false => Err("its counter went back".to_string()),
            });
            rate.into()
        };
        let percent = |reading: Reading<f64>| reading.map(|share| 100.0 * share);
        let pressure = |index: usize| percent(since(&|it| it.pressure[index].clone()));
        let [disk_read, disk_written] =
            [0, 1].map(|at| since(&|it| it.disk.clone().map(|it| it[at])));
        let [received, sent] = [0, 1].map(|at| since(&|it| it.network.clone().map(|it| it[at])));
        let waited = before.as_ref().ok_or_else(first).and_then(|before| {
            let before = before.waited.as_ref().map_err(String::clone)?;
            let now = now.waited.as_ref().map_err(String::clone)?;
            let of_both = now
                .iter()
                .filter_map(|(tid, now)| Some((now - before.get(tid)?).max(0.0)));
            Ok(100.0 * of_both.sum::<f64>() / seconds)
        });
        let stood = |before: &Totals| before.cpu.is_ok() && before.cpu == now.cpu;
        let ran = !before.as_ref().is_some_and(stood);
        let cycles = self.cycles.read(&self.what, ran, &shared.cycles);
        let readings = WorkloadReadings {
            seconds,
            cpu_percent: percent(since(&|it| it.cpu.clone())),
            run_queue_delay_percent: waited.into(),
            memory_bytes: memory.into(),
            disk_read_bytes_per_second: disk_read,
            disk_written_bytes_per_second: disk_written,
            network_received_bytes_per_second: received,
            network_sent_bytes_per_second: sent,
            psi_cpu_some_percent: pressure(0),
            psi_memory_some_percent: pressure(1),
            psi_io_some_percent: pressure(2),
            cycles_per_instruction: cycles.into(),
        };
        self.before = Some(now);
        readings
    }

    fn totals(&self, is_leaf: bool, shared: &mut Shared) -> Totals {
        match &self.what {
            What::Cgroup(files) => files.totals(is_leaf, self.before.as_ref(), shared),
            What::Process { pid } => {
                let processes = family(*pid);
                let reason = "the kernel counts it for cgroups only".to_string();
                Totals {
                    at_ns: monotonic_ns(),
                    cpu: cpu_of(&processes, *pid),
                    disk: disk_of(&processes),
                    network: match processes.first() {
                        Some(first) if shares_network(*first, shared.own_network) => {
                            Err(ON_HOST.into())
                        }
                        _ => network_bytes(&processes),
                    },
                    waited: waited(&processes),
                    pressure: [Err(reason.clone()), Err(reason.clone()), Err(reason)],
                    still: false,
                    on_host: None,
                }
            }
        }
    }
}

impl Files {
    fn open(directory: &Path, shared: &Shared) -> Files {
        let root = here();
        let counterpart = |controller: &str| -> Read<PathBuf> {
            let hierarchies = shared
                .hierarchies
                .as_ref()
                .ok_or("no cgroups are mounted")?;
            let found = hierarchies.counterpart(directory, controller);
            let missing = || match controller {
                "" => "cgroup v2 is not mounted".to_string(),
                _ => format!("the cgroup v1 controller '{controller}' is not mounted"),
            };
            found
                .map_err(|error| error.to_string())?
                .ok_or_else(missing)
        };
        let unified = counterpart("");
        let of_unified = |file: &str| match &unified {
            Ok(directory) => Slot::open(root, &directory.join(file)),
            Err(reason) => Slot::absent(reason),
        };
        // The first of v2 and v1 that is there; the reason of v2 where none is.
        let either = |new: Slot, controller: &str, file: &str| match new.0 {
            Ok(_) => (new, true),
            Err(_) => match counterpart(controller) {
                Ok(directory) => (Slot::open(root, &directory.join(file)), false),
                Err(_) => (new, true),
            },
        };
        let (cpu, new) = either(of_unified("cpu.stat"), "cpuacct", "cpuacct.usage");
        let unit = if new {
            CpuUnit::Stat
        } else {
            CpuUnit::Nanoseconds
        };
        let blkio = "blkio.throttle.io_service_bytes_recursive";
        let (io, new) = either(of_unified("io.stat"), "blkio", blkio);
        let format = if new {
            IoFormat::Unified
        } else {
            IoFormat::Blkio
        };
        let (memory, _) = either(
            of_unified("memory.current"),
            "memory",
            "memory.usage_in_bytes",
        );
        Files {
            directory: directory.into(),
            cpu: (cpu, unit),
            memory,
            io: (io, format),
            pressure: ["cpu", "memory", "io"].map(|it| of_unified(&format!("{it}.pressure"))),
            processes: Slot::open(root, &directory.join("cgroup.procs")),
        }
    }

    fn totals(&self, is_leaf: bool, before: Option<&Totals>, shared: &mut Shared) -> Totals {
        let buffer = &mut shared.buffer;
        let at_ns = monotonic_ns();
        let cpu = self.cpu_seconds(buffer);
        let mut waited_for = |at: usize| {
            let total = self.pressure[at].read(buffer, |text| total_us(text, "some"));
            total.map(|microseconds| microseconds / 1e6)
        };
        let same = |a: &Read<f64>, b: &Read<f64>| a.is_ok() && a == b;
        let idle = before.filter(|it| same(&it.cpu, &cpu));
        // Only what runs can begin to wait for memory or I/O.
        let still = idle.filter(|it| it.still);
        let cpu_pressure = waited_for(0);
        let pressure = match still {
            Some(it) => [cpu_pressure, it.pressure[1].clone(), it.pressure[2].clone()],
            None => [cpu_pressure, waited_for(1), waited_for(2)],
        };
        let still = idle.is_some_and(|it| (1..3).all(|at| same(&it.pressure[at], &pressure[at])));
        let (io, format) = &self.io;
        let disk = io.read(buffer, |text| Ok(io_bytes(text, *format)));
        // Where nothing ran and nothing waited for a CPU, no thread's share of it
        // needs to be read.
        let quiet = idle.filter(|it| same(&it.pressure[0], &pressure[0]));
        let mut on_host = before.and_then(|it| it.on_host);
        let (network, waited) = match quiet {
            Some(before) if before.network.is_err() => {
                (before.network.clone(), before.waited.clone())
            }
            _ => match self.processes(is_leaf, buffer) {
                Ok(processes) => {
                    let first = processes.first().copied();
                    let still = |it: &(i32, u32)| Some(it.0) == first && it.1 > 0;
                    on_host = match on_host.filter(still) {
                        Some((pid, left)) => Some((pid, left - 1)),
                        None => first
                            .filter(|pid| shares_network(*pid, shared.own_network))
                            .map(|pid| (pid, SHARES_FOR)),
                    };
                    let network = match on_host {
                        Some(_) => Err(ON_HOST.into()),
                        None => network_bytes(&processes),
                    };
                    (network, waited(&processes))
                }
                Err(reason) => (Err(reason.clone()), Err(reason)),
            },
        };
        Totals {
            at_ns,
            cpu,
            disk,
            network,
            waited,
            pressure,
            still,
            on_host,
        }
    }

    fn processes(&self, is_leaf: bool, buffer: &mut Vec<u8>) -> Read<Vec<i32>> {
        if !is_leaf {
            return cgroup::processes(&self.directory).map_err(|error| error.to_string());
        }
        let lines = |text: &str| Ok(text.lines().filter_map(|line| line.parse().ok()).collect());
        self.processes.read(buffer, lines)
    }

    fn cpu_seconds(&self, buffer: &mut Vec<u8>) -> Read<f64> {
        let (slot, unit) = &self.cpu;
        match unit {
            CpuUnit::Stat => slot.read(buffer, |text| Ok(text::keyed(text, "usage_usec")? / 1e6)),
            CpuUnit::Nanoseconds => slot.read(buffer, |text| Ok(text::count(text.trim())? / 1e9)),
        }
    }
}

/// Bytes read and written, over all devices. Devices that hold others (a volume on a
/// disk) count beside them in v1 only where the kernel accounts both.
fn io_bytes(text: &str, format: IoFormat) -> [f64; 2] {
    let number = |word: Option<&str>| word.and_then(|it| it.parse().ok()).unwrap_or(0.0);
    let mut sum = [0.0; 2];
    for line in text.lines() {
        match format {
            IoFormat::Unified => {
                for word in line.split(' ') {
                    match word.split_once('=') {
                        Some(("rbytes", bytes)) => sum[0] += number(Some(bytes)),
                        Some(("wbytes", bytes)) => sum[1] += number(Some(bytes)),
                        _ => {}
                    }
                }
            }
            IoFormat::Blkio => {
                let mut words = line.split(' ').skip(1);
                match words.next() {
                    Some("Read") => sum[0] += number(words.next()),
                    Some("Write") => sum[1] += number(words.next()),
                    _ => {}
                }
            }
        }
    }
    sum
}

/// A process and all that descends from it.
fn family(pid: i32) -> Vec<i32> {
    jostle_measure::workload::tree::with_descendants(&[pid])
}

/// CPU seconds of living processes, and of the ended ones that they waited for.
fn cpu_of(processes: &[i32], first: i32) -> Read<f64> {
    if proc::stat(here(), first).is_none_or(|stat| stat.ended()) {
        return Err("the process has ended".into());
    }
    let of = |pid: &i32| {
        let stat = proc::stat(here(), *pid)?;
        let ended = stat.used_by_ended_children as f64 / os::stat::ticks_per_second();
        Some(cpu_ns_of(*pid)? as f64 / 1e9 + ended)
    };
    Ok(processes.iter().filter_map(of).sum())
}

fn disk_of(processes: &[i32]) -> Read<[f64; 2]> {
    let mut sum = [0.0; 2];
    for pid in processes {
        let read = text::parse(here(), format!("proc/{pid}/io"), |text| {
            Ok([
                text::keyed(text, "read_bytes")?,
                text::keyed(text, "write_bytes")?,
            ])
        });
        match read {
            Ok([read, written]) => {
                sum[0] += read;
                sum[1] += written;
            }
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(sum)
}

fn resident(processes: &[i32]) -> Read<f64> {
    let of = |pid: &i32| {
        let kib = text::parse(here(), format!("proc/{pid}/status"), |text| {
            text::keyed(text, "VmRSS")
        });
        Some(kib.ok()? * 1024.0)
    };
    let found: Vec<f64> = processes.iter().filter_map(of).collect();
    match found.is_empty() {
        true => Err("the process has ended".into()),
        false => Ok(found.iter().sum()),
    }
}

/// Seconds that each thread waited for a CPU so far.
fn waited(processes: &[i32]) -> Read<HashMap<i32, f64>> {
    if processes.len() > MOST_PROCESSES {
        let count = processes.len();
        return Err(format!("{count} processes are too many to read one by one"));
    }
    let mut found = HashMap::new();
    for &pid in processes {
        for tid in proc::threads(here(), pid) {
            if found.len() == MOST_THREADS {
                return Err(format!(
                    "more than {MOST_THREADS} threads are too many to read one by one"
                ));
            }
            let mut clock = match WaitClock::open(here(), pid, tid) {
                Ok(clock) => clock,
                // It ended.
                Err(_) if proc::thread_stat(here(), pid, tid).is_none() => continue,
                Err(error) => return Err(error.to_string()),
            };
            let waited = match clock.read_ns() {
                Some(waited) => waited,
                None if proc::thread_stat(here(), pid, tid).is_none() => continue,
                None => return Err("schedstat: the kernel does not count waiting".to_string()),
            };
            found.insert(tid, waited as f64 / 1e9);
        }
    }
    Ok(found)
}

fn network_namespace(process: &str) -> Option<u64> {
    let facts = std::fs::metadata(format!("/proc/{process}/ns/net"));
    facts.ok().map(|facts| facts.ino())
}

const ON_HOST: &str = "it shares the network of the host, which counts for all together";

/// Whether a process is in the network namespace `own`, or in one that cannot be told.
fn shares_network(pid: i32, own: Option<u64>) -> bool {
    let namespace = network_namespace(&pid.to_string());
    namespace.is_none() || namespace == own
}

/// Bytes received and sent in the network namespace of the processes, all devices but
/// loopback.
fn network_bytes(processes: &[i32]) -> Read<[f64; 2]> {
    let first = processes.first().ok_or("it has no process")?;
    let path = format!("proc/{first}/net/dev");
    let text = text::text(here(), path).map_err(|error| error.to_string())?;
    let mut sum = [0.0; 2];
    for line in text.lines().skip(2) {
        let Some((name, counts)) = line.split_once(':') else {
            continue;
        };
        if name.trim() == "lo" {
            continue;
        }
        let counts: Vec<f64> = counts
            .split_ascii_whitespace()
            .filter_map(|it| it.parse().ok())
            .collect();
        if let (Some(received), Some(sent)) = (counts.first(), counts.get(8)) {
            sum[0] += received;
            sum[1] += sent;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_both_versions() {
        let new = "254:0 rbytes=4096 wbytes=8192 rios=1 wios=2\n8:0 rbytes=1 wbytes=2\n";
        assert_eq!(io_bytes(new, IoFormat::Unified), [4097.0, 8194.0]);
        let old = "254:0 Read 100\n254:0 Write 50\n254:0 Total 150\nTotal 150\n";
        assert_eq!(io_bytes(old, IoFormat::Blkio), [100.0, 50.0]);
        assert_eq!(io_bytes("", IoFormat::Unified), [0.0, 0.0]);
    }

    #[test]
    fn who_shares_the_hosts_network_is_asked_again_after_some_readings() {
        let directory = tempfile::tempdir().unwrap();
        let at = |file: &str| directory.path().join(file);
        std::fs::write(at("cgroup.procs"), format!("{}\n", std::process::id())).unwrap();
        let absent = || Slot::absent("none");
        let files = Files {
            directory: directory.path().into(),
            cpu: (absent(), CpuUnit::Stat),
            memory: absent(),
            io: (absent(), IoFormat::Unified),
            pressure: [absent(), absent(), absent()],
            processes: Slot::open(directory.path(), &at("cgroup.procs")),
        };
        let mut shared = Shared {
            hierarchies: None,
            buffer: vec![0; 4096],
            own_network: network_namespace("self"),
            cycles: Opener::new(),
        };
        let first = files.totals(true, None, &mut shared);
        assert_eq!(first.network, Err(ON_HOST.to_string()));
        // As if it had gone to a network of its own.
        shared.own_network = None;
        let mut last = first;
        for _ in 0..SHARES_FOR {
            last = files.totals(true, Some(&last), &mut shared);
            assert!(last.network.is_err());
        }
        assert!(files.totals(true, Some(&last), &mut shared).network.is_ok());
    }

    #[test]
    fn what_does_not_run_does_not_begin_to_wait() {
        let directory = tempfile::tempdir().unwrap();
        let at = |file: &str| directory.path().join(file);
        let write = |file: &str, text: &str| std::fs::write(at(file), text).unwrap();
        let waited = |file: &str, total: u64| write(file, &format!("some avg10=0 total={total}\n"));
        write("cpu.stat", "usage_usec 7\n");
        write("cgroup.procs", "");
        for file in ["cpu.pressure", "memory.pressure", "io.pressure"] {
            waited(file, 5);
        }
        let open = |file: &str| Slot::open(directory.path(), &at(file));
        let files = Files {
            directory: directory.path().into(),
            cpu: (open("cpu.stat"), CpuUnit::Stat),
            memory: Slot::absent("none"),
            io: (Slot::absent("none"), IoFormat::Unified),
            pressure: ["cpu", "memory", "io"].map(|it| open(&format!("{it}.pressure"))),
            processes: open("cgroup.procs"),
        };
        let mut shared = Shared {
            hierarchies: None,
            buffer: vec![0; 4096],
            own_network: None,
            cycles: Opener::new(),
        };
        let mut read = |before: Option<&Totals>| files.totals(true, before, &mut shared);
        let memory = |totals: &Totals| totals.pressure[1].clone().unwrap() * 1e6;
        let first = read(None);
        assert!(!first.still);
        // It waits while nothing runs: it began to before.
        waited("memory.pressure", 6);
        let second = read(Some(&first));
        assert_eq!((second.still, memory(&second)), (false, 6.0));
        let third = read(Some(&second));
        assert!(third.still);
        // Not looked at, as nothing ran that could begin to wait.
        waited("memory.pressure", 9);
        let fourth = read(Some(&third));
        assert_eq!((fourth.still, memory(&fourth)), (true, 6.0));
        write("cpu.stat", "usage_usec 8\n");
        let fifth = read(Some(&fourth));
        assert_eq!((fifth.still, memory(&fifth)), (false, 9.0));
    }
}
