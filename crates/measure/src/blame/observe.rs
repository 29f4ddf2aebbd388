//! What victim and candidates do while everybody runs: evidence that needs nobody
//! to be paused, and proves nothing.

use super::clocks::Clocks;
use super::suspects::Counts;
use super::suspects::Suspect;
use super::suspects::resident;
use crate::counters::CoreCounts;
use crate::error::Error;
use crate::error::Result;
use crate::pairs::Member;
use crate::workload::Scope;
use crate::workload::activity::Activity;
use jostle_host::os::connections;
use jostle_host::os::disks;
use jostle_host::os::here;
use jostle_host::os::psi;
use jostle_host::os::text;
use jostle_host::sys::clock::monotonic_ns;
use jostle_profile::Estimate;
use jostle_profile::blame::OnCpu;
use jostle_profile::blame::UsedByOne;
use jostle_profile::blame::VictimUse;
use jostle_profile::reading::Reading;
use jostle_statistics::rank_correlation;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// One window.
const WINDOW: Duration = Duration::from_millis(40);
/// Share of the own CPU time below which a CPU is not listed.
const RARELY: f64 = 0.02;
/// Windows from which on a correlation says something.
const ENOUGH: usize = 20;

/// What was seen of everybody.
pub(super) struct Observed {
    pub(super) victim: VictimUse,
    /// Of each suspect: what it used, and how that goes with the victim's speed.
    pub(super) suspects: Vec<(UsedByOne, Reading<Estimate>)>,
    /// Disks that did something, with bytes per second.
    pub(super) disks: Vec<(String, f64)>,
}

/// One side over time.
struct Side {
    processes: Vec<i32>,
    first: HashMap<i32, Counts>,
    /// CPU seconds in each window.
    windows: Vec<f64>,
    last_cpu: f64,
    activity: Activity,
}

impl Side {
    fn new(processes: Vec<i32>) -> Side {
        let counts = processes
            .iter()
            .filter_map(|pid| Some((*pid, Counts::of(*pid)?)));
        let mut side = Side {
            first: counts.collect(),
            processes,
            windows: Vec::new(),
            last_cpu: 0.0,
            activity: Activity::default(),
        };
        side.last_cpu = side.cpu();
        side
    }

    fn cpu(&self) -> f64 {
        let counts = self.processes.iter().filter_map(|pid| Counts::of(*pid));
        counts.map(|counts| counts.cpu_seconds).sum()
    }

    fn window(&mut self) {
        let cpu = self.cpu();
        self.windows.push((cpu - self.last_cpu).max(0.0));
        self.last_cpu = cpu;
        self.activity.add_look(&self.processes);
    }

    fn used(&self, seconds: f64) -> UsedByOne {
        let now: Vec<(Counts, Counts)> = self
            .processes
            .iter()
            .filter_map(|pid| Some((self.first.get(pid).copied()?, Counts::of(*pid)?)))
            .collect();
        let cpu: f64 = self.windows.iter().sum();
        let bytes = |which: usize| {
            let parts = now.iter().map(|(before, after)| {
                Some((after.bytes?[which] - before.bytes?[which]).max(0.0) / seconds)
            });
            let sum: Option<f64> = parts.sum();
            Reading::from(sum.ok_or_else(|| "/proc/PID/io: not allowed".to_string()))
        };
        let held = self.processes.iter().filter_map(|pid| resident(*pid));
        let cpus = self.activity.cpus().into_iter();
        let cpus = cpus.filter(|(_, share)| *share >= RARELY);
        UsedByOne {
            cpu_percent: 100.0 * cpu / seconds,
            cpus: cpus
                .map(|(cpu, share)| OnCpu {
                    cpu,
                    percent: 100.0 * share,
                })
                .collect(),
            disk_read_bytes_per_second: bytes(0),
            disk_written_bytes_per_second: bytes(1),
            resident_bytes: Reading::Value(held.sum()),
            talks_over_network: connections::talks_to_others(here(), &self.processes),
        }
    }
}

/// Watches everybody for `length`.
///
/// # Errors
/// When the victim ends, or on an interruption.
pub(super) fn watch(
    victim: &mut Member,
    suspects: &[Suspect],
    length: Duration,
    interrupt: &AtomicBool,
) -> Result<Observed> {
    let scope = victim.target().scope();
    let mut own = Side::new(scope.processes());
    let mut others: Vec<Side> = suspects
        .iter()
        .map(|it| Side::new(it.processes()))
        .collect();
    let mut clocks = Clocks::of(victim.target());
    let waited = clocks.read().waited_ns;
    let pressure = Pressure::of(&scope);
    let stalls = pressure.read();
    let disks_before = disks::counts(here()).unwrap_or_default();
    let cycles = CoreCounts::open(&scope, &victim.target().cpus().unwrap_or_default());
    let cycles = cycles.map(|mut counts| (counts.read(), counts));
    let began = monotonic_ns();
    let mut rates = Vec::new();
    let mut count = counted(victim)?;
    let mut at = began;
    while monotonic_ns() - began < length.as_nanos() as u64 {
        if interrupt.load(Relaxed) {
            return Err(Error::Interrupted(String::new()));
        }
        std::thread::sleep(WINDOW);
        let restarted = victim.keep_running().map_err(Error::environment)?;
        let (now, next) = (monotonic_ns(), counted(victim)?);
        let rate = match (count, next) {
            (Some(before), Some(after)) if !restarted => {
                Some(after.saturating_sub(before) as f64 / (now - at) as f64)
            }
            _ => None,
        };
        rates.push(rate);
        own.window();
        others.iter_mut().for_each(Side::window);
        if restarted {
            own = Side::new(victim.target().scope().processes());
            clocks = Clocks::default();
        }
        (at, count) = (now, next);
    }
    let seconds = (monotonic_ns() - began) as f64 / 1e9;
    let waited = clocks.read().waited_ns.zip(waited);
    let delay = waited.map(|(after, before)| after.saturating_sub(before) as f64 / 1e9);
    let per = |seconds_of: f64| 100.0 * seconds_of / seconds;
    let [cpu, memory, io] = pressure.since(&stalls, seconds);
    let disks_after = disks::counts(here()).unwrap_or_default();
    let disks = disks_after.iter().filter_map(|(name, after)| {
        let before = disks_before.get(name)?;
        let bytes = |it: &disks::DiskCounts| it.read_bytes + it.written_bytes;
        let busy = (bytes(after) - bytes(before)) / seconds;
        (busy > 0.0).then(|| (name.clone(), busy))
    });
    Ok(Observed {
        victim: VictimUse {
            seconds,
            used: own.used(seconds),
            run_queue_delay_percent: delay
                .map(per)
                .ok_or_else(|| "schedstat of its threads cannot be read".to_string())
                .into(),
            psi_cpu_some_percent: cpu,
            psi_memory_some_percent: memory,
            psi_io_some_percent: io,
            cycles_per_instruction: match cycles {
                Err(reason) => Reading::unavailable(reason.to_string()),
                Ok((before, mut counts)) => {
                    let did = counts.read().since(&before);
                    match did.instructions > 0.0 && did.cycles > 0.0 {
                        true => Reading::Value(did.cycles / did.instructions),
                        false => Reading::unavailable("it ran no instruction meanwhile"),
                    }
                }
            },
        },
        suspects: others
            .iter()
            .map(|side| (side.used(seconds), correlation(&rates, &side.windows)))
            .collect(),
        disks: disks.collect(),
    })
}

fn counted(victim: &mut Member) -> Result<Option<u64>> {
    victim.count().map_err(Error::environment)
}

/// Where the pressure on the victim is read.
struct Pressure {
    files: [PathBuf; 3],
}

impl Pressure {
    /// Of its own cgroup (v2), else of the machine.
    fn of(scope: &Scope) -> Pressure {
        let resources = ["cpu", "memory", "io"];
        if let Scope::Cgroup(directory) = scope {
            let files = resources.map(|it| directory.join(format!("{it}.pressure")));
            if files.iter().all(|file| file.exists()) {
                return Pressure { files };
            }
        }
        Pressure {
            files: resources.map(|it| PathBuf::from(format!("proc/pressure/{it}"))),
        }
    }

    fn read(&self) -> [Result<f64, String>; 3] {
        [0, 1, 2].map(|at| {
            let total = text::parse(here(), &self.files[at], |text| psi::total_us(text, "some"));
            total.map_err(|error| error.to_string())
        })
    }

    fn since(&self, before: &[Result<f64, String>; 3], seconds: f64) -> [Reading<f64>; 3] {
        let after = self.read();
        [0, 1, 2].map(|at| match (&before[at], &after[at]) {
            (Ok(before), Ok(after)) => Reading::Value((after - before) / 1e4 / seconds),
            (Err(reason), _) | (_, Err(reason)) => Reading::unavailable(reason.clone()),
        })
    }
}

/// Of ranks, with an interval by Fisher's transformation.
fn correlation(rates: &[Option<f64>], used: &[f64]) -> Reading<Estimate> {
    let both = rates.iter().zip(used);
    let both: Vec<(f64, f64)> = both
        .filter_map(|(rate, used)| Some(((*rate)?, *used)))
        .collect();
    if both.len() < ENOUGH {
        return Reading::unavailable("the victim's speed is not known in enough windows");
    }
    let Some(value) = rank_correlation(&both) else {
        return Reading::unavailable("its CPU use or the victim's speed never changed");
    };
    let value = value.clamp(-0.9999, 0.9999);
    let n = both.len() as f64;
    let reach = 1.96 * (1.06 / (n - 3.0)).sqrt();
    let end = |by: f64| (value.atanh() + by).tanh();
    Reading::Value(Estimate {
        value,
        ci95: [end(-reach), end(reach)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_victim_that_is_slow_while_another_is_busy_correlates() {
        let used: Vec<f64> = (0..60).map(|at| f64::from(at * 7 % 13)).collect();
        let rates: Vec<Option<f64>> = used.iter().map(|used| Some(100.0 - used)).collect();
        let found = correlation(&rates, &used);
        assert!(found.value().unwrap().ci95[1] < -0.99, "{found:?}");
        let other: Vec<f64> = (0..60).map(|at| f64::from(at * 31 % 17)).collect();
        let [low, high] = correlation(&rates, &other).value().unwrap().ci95;
        assert!(low < 0.0 && high > 0.0);
        assert!(correlation(&rates, &[1.0; 60]).reason().is_some());
        assert!(correlation(&rates[..5], &used).reason().is_some());
    }
}
