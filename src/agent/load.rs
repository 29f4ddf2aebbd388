//! What the whole machine does.

use jostle_host::machine::Machine;
use jostle_host::os::disks;
use jostle_host::os::here;
use jostle_host::os::network;
use jostle_host::os::psi::total_us;
use jostle_host::os::stat;
use jostle_host::os::text;
use jostle_host::os::text::Text;
use jostle_host::sys::clock::monotonic_ns;
use jostle_profile::node::NodeLoad;
use jostle_profile::reading::Reading;

/// A value, or why there is none.
type Read = Result<f64, String>;

/// Totals since boot.
#[derive(Clone)]
struct Totals {
    /// Seconds: busy, stolen, and waited for CPU, memory, I/O.
    seconds: [Read; 5],
    /// Bytes: read and written by disks, received and sent by network devices.
    bytes: [Read; 4],
}

pub(super) struct LoadMeter {
    cpus: Vec<usize>,
    stat: Result<Text, String>,
    pressure: [Result<Text, String>; 3],
    network: Result<Text, String>,
    before: Option<(u64, Totals)>,
}

fn open(path: &str) -> Result<Text, String> {
    Text::open(here(), path).map_err(|error| error.to_string())
}

impl LoadMeter {
    pub(super) fn new(machine: &Machine) -> LoadMeter {
        let cpus: Vec<usize> = machine.cpus.iter().map(|cpu| cpu.id).collect();
        let bytes = stat::bytes_of(&cpus);
        LoadMeter {
            stat: open("proc/stat").map(|text| text.only_first(bytes)),
            pressure: ["cpu", "memory", "io"].map(|it| open(&format!("proc/pressure/{it}"))),
            network: open("proc/net/dev"),
            cpus,
            before: None,
        }
    }

    /// Since the call before; rates are unavailable the first time.
    pub(super) fn read(&mut self) -> NodeLoad {
        let now = (monotonic_ns(), self.totals());
        let before = self.before.replace(now.clone());
        let rate = |of: &dyn Fn(&Totals) -> Read| -> Reading<f64> {
            let Some((since, before)) = &before else {
                return Reading::unavailable("it was read once so far");
            };
            let seconds = (now.0 - since) as f64 / 1e9;
            let grown = |before: f64| Ok((of(&now.1)? - before).max(0.0) / seconds);
            of(before).and_then(grown).into()
        };
        let percent = |index: usize| {
            let share = rate(&|it| it.seconds[index].clone());
            share.map(|share| 100.0 * share)
        };
        let bytes = |index: usize| rate(&|it| it.bytes[index].clone());
        let available = text::parse(here(), "proc/meminfo", |text| {
            text::meminfo_bytes(text, "MemAvailable")
        });
        NodeLoad {
            cpu_percent: percent(0),
            steal_percent: percent(1),
            memory_available_bytes: available.map_err(|error| error.to_string()).into(),
            disk_read_bytes_per_second: bytes(0),
            disk_written_bytes_per_second: bytes(1),
            network_received_bytes_per_second: bytes(2),
            network_sent_bytes_per_second: bytes(3),
            psi_cpu_some_percent: percent(2),
            psi_memory_some_percent: percent(3),
            psi_io_some_percent: percent(4),
        }
    }

    fn totals(&mut self) -> Totals {
        let cpus = &self.cpus;
        let ticks = match &mut self.stat {
            Ok(text) => text
                .parse(|text| stat::ticks(text, cpus))
                .map_err(|it| it.to_string()),
            Err(reason) => Err(reason.clone()),
        };
        let second = stat::ticks_per_second();
        let mut waited = self.pressure.iter_mut().map(|file| match file {
            Ok(text) => {
                let total = text.parse(|text| total_us(text, "some"));
                total.map(|it| it / 1e6).map_err(|it| it.to_string())
            }
            Err(reason) => Err(reason.clone()),
        });
        let mut next = || waited.next().expect("three files");
        let waited = [next(), next(), next()];
        let [cpu, memory, io] = waited;
        let part = |of: fn(&stat::Ticks) -> f64| ticks.as_ref().map(of).map_err(String::clone);
        let seconds = [
            part(|it| it.busy).map(|it| it / second),
            part(|it| it.stolen).map(|it| it / second),
            cpu,
            memory,
            io,
        ];
        Totals {
            seconds,
            bytes: self.bytes(),
        }
    }

    fn bytes(&mut self) -> [Read; 4] {
        let disk = disks::total_bytes(here()).map_err(|it| it.to_string());
        let network = self.network.as_mut().map_err(|reason| reason.clone());
        let network = network.and_then(|text| {
            let mut sum = [0.0; 2];
            let read = text.parse(|text| network::bytes(text, &mut sum));
            read.map(|()| sum).map_err(|it| it.to_string())
        });
        let [read, written] = [0, 1].map(|at| disk.clone().map(|it| it[at]));
        let [received, sent] = [0, 1].map(|at| network.clone().map(|it| it[at]));
        [read, written, received, sent]
    }
}
