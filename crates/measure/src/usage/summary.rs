//! From totals at both ends of parts of time to rates with intervals.

use super::Io;
use super::Memory;
use super::Read;
use super::Storage;
use super::Totals;
use jostle_host::os::disks::DiskCounts;
use jostle_statistics::student_quantile;
use std::collections::BTreeMap;
use std::time::Duration;

/// With fewer parts than this that lie within a run, those count too in which one ended.
const FEWEST_WITHIN: usize = 5;
/// Fewer parts than this give no interval.
const FEWEST: usize = 3;
/// Counters that went back in more than this share of the parts are no counters.
const MOST_RESETS: f64 = 0.5;

/// Growth of everything in one part of time.
#[derive(Clone, Debug)]
pub struct Part {
    seconds: f64,
    cpu_seconds: Grown,
    storage: Grown2,
    passed_bytes: Grown,
    operations: Grown2,
    devices: BTreeMap<String, Io>,
    disks: BTreeMap<String, DiskCounts>,
    traffic: [Grown; 4],
    lost_disks: Vec<String>,
}

/// Growth of one total, or why it is not known.
type Grown = Result<f64, Unknown>;
/// Read and written.
type Grown2 = [Grown; 2];

#[derive(Clone, Debug, PartialEq)]
enum Unknown {
    /// It went back: started anew meanwhile.
    Reset,
    Because(String),
}

fn grown(from: &Read<f64>, to: &Read<f64>) -> Grown {
    match (from, to) {
        (Ok(from), Ok(to)) if to >= from => Ok(to - from),
        (Ok(_), Ok(_)) => Err(Unknown::Reset),
        (Err(reason), _) | (_, Err(reason)) => Err(Unknown::Because(reason.clone())),
    }
}

/// `field` of two readings.
fn of<T>(from: &Read<T>, to: &Read<T>, field: impl Fn(&T) -> f64) -> Grown {
    let number = |read: &Read<T>| read.as_ref().map(&field).map_err(String::clone);
    grown(&number(from), &number(to))
}

impl Part {
    /// What grew between two readings.
    pub fn between(from: &Totals, to: &Totals) -> Part {
        let mut part = Part {
            seconds: to.at_ns.saturating_sub(from.at_ns) as f64 / 1e9,
            cpu_seconds: grown(&from.cpu_seconds, &to.cpu_seconds),
            storage: [
                of(&from.storage, &to.storage, |it| it.sum(|io| io.read_bytes)),
                of(&from.storage, &to.storage, |it| {
                    it.sum(|io| io.written_bytes)
                }),
            ],
            passed_bytes: grown(&from.passed_bytes, &to.passed_bytes),
            operations: [
                of(&from.storage, &to.storage, |it| it.sum(|io| io.reads)),
                of(&from.storage, &to.storage, |it| it.sum(|io| io.writes)),
            ],
            devices: BTreeMap::new(),
            disks: BTreeMap::new(),
            traffic: [
                of(&from.traffic, &to.traffic, |it| it.received_bytes),
                of(&from.traffic, &to.traffic, |it| it.received_packets),
                of(&from.traffic, &to.traffic, |it| it.sent_bytes),
                of(&from.traffic, &to.traffic, |it| it.sent_packets),
            ],
            lost_disks: Vec::new(),
        };
        if let (Ok(Storage::Devices(from)), Ok(Storage::Devices(to))) = (&from.storage, &to.storage)
        {
            for (name, now) in to {
                let before = from.get(name).copied().unwrap_or_default();
                part.devices.insert(name.clone(), now.since(&before));
            }
        } else if matches!(to.storage, Ok(Storage::Bytes { .. })) {
            let reason = "/proc/PID/io counts bytes only; a cgroup with the io controller counts \
                          operations (--cgroup)";
            part.operations.fill(Err(Unknown::Because(reason.into())));
        }
        if let (Ok(from), Ok(to)) = (&from.disks, &to.disks) {
            for (name, before) in from {
                match to.get(name).and_then(|now| since(now, before)) {
                    Some(grown) => drop(part.disks.insert(name.clone(), grown)),
                    None => part.lost_disks.push(name.clone()),
                }
            }
        }
        part
    }
}

impl Storage {
    fn sum(&self, field: impl Fn(&Io) -> f64) -> f64 {
        match self {
            Storage::Devices(devices) => devices.values().map(field).sum(),
            Storage::Bytes { read, written } => field(&Io {
                read_bytes: *read,
                written_bytes: *written,
                ..Io::default()
            }),
        }
    }
}

impl Io {
    /// What went back counts as nothing here; the sums tell of it.
    fn since(&self, before: &Io) -> Io {
        Io {
            read_bytes: (self.read_bytes - before.read_bytes).max(0.0),
            written_bytes: (self.written_bytes - before.written_bytes).max(0.0),
            reads: (self.reads - before.reads).max(0.0),
            writes: (self.writes - before.writes).max(0.0),
        }
    }
}

/// `None` where a counter went back: another disk of the same name.
fn since(now: &DiskCounts, before: &DiskCounts) -> Option<DiskCounts> {
    let grown = DiskCounts {
        reads: now.reads - before.reads,
        read_bytes: now.read_bytes - before.read_bytes,
        writes: now.writes - before.writes,
        written_bytes: now.written_bytes - before.written_bytes,
        flushes: now
            .flushes
            .zip(before.flushes)
            .map(|(now, before)| now - before),
        busy_seconds: now.busy_seconds - before.busy_seconds,
        waited_seconds: now.waited_seconds - before.waited_seconds,
    };
    let all = [
        grown.reads,
        grown.read_bytes,
        grown.writes,
        grown.written_bytes,
        grown.flushes.unwrap_or(0.0),
        grown.busy_seconds,
        grown.waited_seconds,
    ];
    all.iter().all(|it| *it >= 0.0).then_some(grown)
}

/// A rate or a level and the interval that holds it with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub value: f64,
    pub ci95: [f64; 2],
}

impl Estimate {
    pub(super) fn times(self, factor: f64) -> Estimate {
        Estimate {
            value: self.value * factor,
            ci95: self.ci95.map(|end| end * factor),
        }
    }
}

/// Everything that was read of one target.
#[derive(Clone, Debug, Default)]
pub struct Track {
    pub(super) parts: Vec<Part>,
    /// Those in which a command ended: what came after is none of its time.
    across_ends: Vec<Part>,
    memory: Vec<Memory>,
    /// By name: what each window without interference counted, over how long.
    counted: BTreeMap<String, Vec<(f64, f64)>>,
    /// By name: why a counter cannot be read.
    pub(super) missing: BTreeMap<String, String>,
    pub(super) cpu_source: String,
    pub(super) storage_source: String,
    /// Whether the target has a network namespace of its own.
    pub(super) namespace_apart: bool,
    /// Bytes moved to and from disks at the first and at the latest reading, with the
    /// time in nanoseconds: what lies between, interference too.
    whole: Option<[(u64, Read<f64>); 2]>,
    /// The most that was held beside interference, bytes; 0 before any look.
    most_resident: f64,
}

impl Track {
    /// Adds a part of time.
    pub fn push(&mut self, part: Part) {
        self.parts.push(part);
    }

    /// Adds a part of time in which a command ended, perhaps to be started again: it
    /// counts where there are too few others.
    pub fn push_across_an_end(&mut self, part: Part) {
        self.across_ends.push(part);
    }

    /// No more parts come.
    pub fn finish(&mut self) {
        let ends = std::mem::take(&mut self.across_ends);
        if self.parts.len() < FEWEST_WITHIN {
            self.parts.extend(ends);
        }
    }

    /// Takes notice of `totals`, within a part or between parts.
    pub fn reached(&mut self, totals: &Totals) {
        let bytes = |storage: &Storage| storage.sum(|io| io.read_bytes + io.written_bytes);
        let moved = totals.storage.as_ref().map(bytes).map_err(String::clone);
        let now = (totals.at_ns, moved);
        self.whole = Some(match self.whole.take() {
            Some([first, _]) => [first, now],
            None => [now.clone(), now],
        });
    }

    /// Bytes per second that were moved to and from disks from the first reading to
    /// the last: by the target, and with a command that we start again also by us.
    /// `None` where that was not counted throughout.
    pub fn disk_bytes_per_second(&self) -> Option<f64> {
        let [(from, before), (to, after)] = self.whole.as_ref()?;
        let seconds = to.saturating_sub(*from) as f64 / 1e9;
        let moved = after.as_ref().ok()? - before.as_ref().ok()?;
        (seconds > 0.0 && moved >= 0.0).then(|| moved / seconds)
    }

    /// Memory that the target may use within `time`, bytes: what it holds, at most as far as it
    /// was seen, and what it passes to the kernel and back meanwhile. `None` where one of them
    /// was not read.
    pub fn touched_within(&self, time: Duration) -> Option<f64> {
        let held = self.memory.iter();
        let held = held.filter_map(|memory| memory.resident_bytes.as_ref().ok());
        let held = held.fold(self.most_resident, |most, held| most.max(*held));
        let parts = self.parts.iter();
        let passed =
            parts.filter_map(|part| Some((part.seconds, *part.passed_bytes.as_ref().ok()?)));
        let (seconds, passed) = passed.fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        let known = held > 0.0 && seconds > 0.0;
        known.then(|| held + passed / seconds * time.as_secs_f64())
    }

    /// Most flushes per second of `disk`, by whomever, without interference (upper end
    /// of the interval); `None` where it does not count them.
    pub fn flushes_per_second(&self, disk: &str) -> Option<f64> {
        let rate = self.of_disk(disk, |disk| disk.flushes);
        rate.ok().map(|rate| rate.ci95[1])
    }

    /// Adds what the target holds beside interference.
    pub fn note_disturbed(&mut self, meter: &super::Meter) {
        if let Ok(bytes) = meter.memory().resident_bytes {
            self.most_resident = self.most_resident.max(bytes);
        }
    }

    /// Adds what is known once at the end of a part.
    pub fn note(&mut self, meter: &super::Meter) {
        self.memory.push(meter.memory());
        self.cpu_source = meter.sources.cpu.to_string();
        self.storage_source = meter.sources.storage.to_string();
        self.namespace_apart = meter.namespace_apart();
    }

    /// Adds the reading of a counter over `seconds` without interference.
    pub fn count(&mut self, name: &str, value: f64, seconds: f64) {
        let readings = self.counted.entry(name.to_string()).or_default();
        readings.push((seconds, value * seconds));
    }

    /// Keeps why a counter cannot be read.
    pub fn cannot_count(&mut self, name: &str, reason: &str) {
        self.missing.insert(name.to_string(), reason.to_string());
    }

    /// All time that was read.
    pub fn seconds(&self) -> f64 {
        self.parts.iter().fold(0.0, |sum, part| sum + part.seconds)
    }

    pub(super) fn cpu(&self) -> Read<Estimate> {
        self.rate(|part| part.cpu_seconds.clone())
    }

    /// Read and written, bytes per second.
    pub(super) fn storage(&self) -> [Read<Estimate>; 2] {
        [0, 1].map(|way| self.rate(|part| part.storage[way].clone()))
    }

    /// Both together.
    pub(super) fn storage_both(&self) -> Read<Estimate> {
        self.rate(|part| {
            let [read, written] = part.storage.clone();
            Ok(read? + written?)
        })
    }

    /// Reads and writes per second.
    pub(super) fn operations(&self) -> [Read<Estimate>; 2] {
        [0, 1].map(|way| self.rate(|part| part.operations[way].clone()))
    }

    /// Received bytes and packets, sent bytes and packets per second.
    pub(super) fn traffic(&self) -> [Read<Estimate>; 4] {
        [0, 1, 2, 3].map(|way| self.rate(|part| part.traffic[way].clone()))
    }

    /// A rate of what everybody did on the disk `name`.
    pub(super) fn of_disk(
        &self,
        name: &str,
        field: impl Fn(&DiskCounts) -> Option<f64>,
    ) -> Read<Estimate> {
        self.rate(|part| {
            let disk = part.disks.get(name);
            let found = disk.and_then(&field);
            found.ok_or_else(|| {
                let gone = part.lost_disks.iter().any(|lost| lost == name);
                Unknown::Because(match gone {
                    true => format!("{name} disappeared while the target was measured"),
                    false => format!("/proc/diskstats does not count this for {name}"),
                })
            })
        })
    }

    /// Bytes that everybody moved on each disk, per second.
    pub(super) fn disk_bytes(&self) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for part in &self.parts {
            for (name, disk) in &part.disks {
                *sums.entry(name.clone()).or_default() += disk.read_bytes + disk.written_bytes;
            }
        }
        self.per_second(sums)
    }

    /// Bytes that the target moved on each device, per second, where its cgroup
    /// tells.
    pub(super) fn device_bytes(&self) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for part in &self.parts {
            for (name, io) in &part.devices {
                *sums.entry(name.clone()).or_default() += io.read_bytes + io.written_bytes;
            }
        }
        self.per_second(sums)
    }

    fn per_second(&self, mut sums: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
        let seconds = self.seconds().max(1e-9);
        for sum in sums.values_mut() {
            *sum /= seconds;
        }
        sums
    }

    pub(super) fn resident(&self) -> Read<Estimate> {
        self.level(|memory| &memory.resident_bytes)
    }

    pub(super) fn page_cache(&self) -> Read<Estimate> {
        self.level(|memory| &memory.page_cache_bytes)
    }

    fn level(&self, of: impl Fn(&Memory) -> &Read<f64>) -> Read<Estimate> {
        let levels = self.memory.iter().map(|memory| match of(memory) {
            Ok(level) => Ok((1.0, *level)),
            Err(reason) => Err(Unknown::Because(reason.clone())),
        });
        estimate(levels.collect())
    }

    /// The mean of a counter's readings.
    pub(super) fn counted(&self, name: &str) -> Option<Read<Estimate>> {
        let readings = self.counted.get(name)?;
        Some(estimate(readings.iter().map(|it| Ok(*it)).collect()))
    }

    fn rate(&self, growth: impl Fn(&Part) -> Grown) -> Read<Estimate> {
        let parts = self.parts.iter();
        estimate(
            parts
                .map(|part| Ok((part.seconds, growth(part)?)))
                .collect(),
        )
    }
}

/// Sum of the seconds' growth over their sum, from pairs of seconds and growth.
fn estimate(parts: Vec<Result<(f64, f64), Unknown>>) -> Read<Estimate> {
    let all = parts.len();
    let mut known = Vec::with_capacity(all);
    let (mut resets, mut reason) = (0, None);
    for part in parts {
        match part {
            Ok(part) => known.push(part),
            Err(Unknown::Reset) => resets += 1,
            Err(Unknown::Because(why)) => reason = reason.or(Some(why)),
        }
    }
    if resets as f64 > MOST_RESETS * all as f64 {
        return Err(format!(
            "the counter went back in {resets} of {all} readings: it is started anew all the time"
        ));
    }
    if known.len() < FEWEST {
        return Err(reason.unwrap_or_else(|| {
            format!(
                "only {} parts of time without interference could be read; a longer --budget \
                 gives more",
                known.len()
            )
        }));
    }
    let seconds: f64 = known.iter().map(|part| part.0).sum();
    let growth: f64 = known.iter().map(|part| part.1).sum();
    if seconds <= 0.0 {
        return Err("no time passed between two readings".into());
    }
    let value = growth / seconds;
    // Neighbouring parts that resemble each other tell less than their number.
    let half = half_width(&known, value).max(half_width(&in_pairs(&known), value));
    Ok(Estimate {
        value,
        ci95: [(value - half).max(0.0), value + half],
    })
}

/// Of the ratio of two sums, by Student's law.
fn half_width(parts: &[(f64, f64)], ratio: f64) -> f64 {
    if parts.len() < FEWEST {
        return 0.0;
    }
    let n = parts.len() as f64;
    let seconds: f64 = parts.iter().map(|part| part.0).sum();
    let squares = parts.iter().map(|part| (part.1 - ratio * part.0).powi(2));
    let error = (n / (n - 1.0) * squares.sum::<f64>()).sqrt() / seconds;
    student_quantile(0.975, n - 1.0) * error
}

fn in_pairs(parts: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let sum = |pair: &[(f64, f64)]| {
        let seconds = pair.iter().map(|part| part.0).sum();
        (seconds, pair.iter().map(|part| part.1).sum())
    };
    parts.chunks(2).map(sum).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::usage::Traffic;

    /// What stood at second `at`.
    pub fn totals(at: f64, cpu: f64, read: f64, disks: &[(&str, f64)]) -> Totals {
        let disks = disks.iter().map(|(name, bytes)| {
            let counts = DiskCounts {
                read_bytes: *bytes,
                reads: bytes / 4096.0,
                busy_seconds: at / 2.0,
                waited_seconds: at,
                ..DiskCounts::default()
            };
            (name.to_string(), counts)
        });
        Totals {
            at_ns: (at * 1e9) as u64,
            cpu_seconds: Ok(cpu),
            storage: Ok(Storage::Bytes { read, written: 0.0 }),
            passed_bytes: Ok(2.0 * read),
            disks: Ok(disks.collect()),
            traffic: Ok(Traffic::default()),
        }
    }

    pub fn track(all: &[Totals]) -> Track {
        let mut track = Track::default();
        for pair in all.windows(2) {
            track.push(Part::between(&pair[0], &pair[1]));
        }
        track
    }

    #[test]
    fn what_a_target_touches_is_what_it_holds_and_passes() {
        let mut track = track(&[totals(0.0, 0.0, 0.0, &[]), totals(2.0, 1.0, 5e6, &[])]);
        let tenth = Duration::from_millis(100);
        assert_eq!(
            track.touched_within(tenth),
            None,
            "nobody looked at its memory"
        );
        track.most_resident = 3e6;
        // 10 MB in 2 s by system calls.
        let touched = track.touched_within(tenth).unwrap();
        assert!((touched - 3.5e6).abs() < 1.0, "{touched}");
        track.parts.clear();
        assert_eq!(track.touched_within(tenth), None);
    }

    #[test]
    fn a_steady_use_has_a_narrow_interval() {
        let at = |second: usize| totals(second as f64, 0.3 * second as f64, 0.0, &[]);
        let cpu = track(&(0..8).map(at).collect::<Vec<_>>()).cpu().unwrap();
        assert!((cpu.value - 0.3).abs() < 1e-9, "{cpu:?}");
        assert!(cpu.ci95[1] - cpu.ci95[0] < 1e-6, "{cpu:?}");
    }

    #[test]
    fn bursts_widen_the_interval() {
        let bursts = [0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0];
        let at = |(second, cpu): (usize, &f64)| totals(second as f64, *cpu, 0.0, &[]);
        let all: Vec<Totals> = bursts.iter().enumerate().map(at).collect();
        let cpu = track(&all).cpu().unwrap();
        assert!((cpu.value - 0.375).abs() < 1e-9);
        assert!(cpu.ci95[0] < 0.1 && cpu.ci95[1] > 0.65, "{cpu:?}");
    }

    #[test]
    fn a_counter_that_goes_back_now_and_then_leaves_a_part_out() {
        let mut cpu = [0.0, 1.0, 2.0, 0.5, 1.5, 2.5];
        let read = |cpu: &[f64]| {
            let at = |(second, cpu): (usize, &f64)| totals(second as f64, *cpu, 0.0, &[]);
            track(&cpu.iter().enumerate().map(at).collect::<Vec<_>>()).cpu()
        };
        assert_eq!(read(&cpu).unwrap().value, 1.0);
        cpu = [3.0, 2.0, 1.0, 0.5, 1.5, 0.5];
        assert!(read(&cpu).unwrap_err().contains("started anew"));
    }

    #[test]
    fn the_time_after_a_command_has_ended_is_none_of_its_own() {
        let read = |within: usize| {
            let mut track = track(
                &(0..=within)
                    .map(|second| totals(second as f64, second as f64, 0.0, &[]))
                    .collect::<Vec<_>>(),
            );
            // It ended after a fifth of each of these.
            for _ in 0..4 {
                let [from, to] =
                    [(0.0, 0.0), (1.0, 0.2)].map(|(at, cpu)| totals(at, cpu, 0.0, &[]));
                track.push_across_an_end(Part::between(&from, &to));
            }
            track.finish();
            track.cpu().unwrap().value
        };
        assert_eq!(read(FEWEST_WITHIN), 1.0);
        // Runs as short as a part: the whole time says more than nothing.
        assert!((read(1) - 0.36).abs() < 1e-9);
    }

    #[test]
    fn too_few_parts_give_no_number() {
        let at = |second: usize| totals(second as f64, second as f64, 0.0, &[]);
        let why = track(&(0..3).map(at).collect::<Vec<_>>()).cpu();
        assert!(why.unwrap_err().contains("--budget"));
    }

    #[test]
    fn a_disk_that_disappears_is_named() {
        let mut all: Vec<Totals> = (0..6)
            .map(|second| totals(second as f64, 0.0, 0.0, &[("sda", second as f64)]))
            .collect();
        let ops = |track: &Track| track.of_disk("sda", |disk| Some(disk.read_bytes));
        assert_eq!(ops(&track(&all)).unwrap().value, 1.0);
        for totals in &mut all[2..] {
            totals.disks = Ok(BTreeMap::new());
        }
        let why = ops(&track(&all)).unwrap_err();
        assert!(why.contains("disappeared"), "{why}");
    }
}
