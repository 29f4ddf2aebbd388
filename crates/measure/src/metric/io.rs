//! `progress:io`: bytes that the target reads and writes per second, as the
//! kernel accounts them to its processes.

use super::Context;
use super::Metric;
use super::begun;
use super::error::Reason;
use super::facts;
use super::pace;
use super::pace::Pace;
use crate::error::Error;
use crate::error::Result;
use crate::workload::Target;
use crate::workload::tree;
use jostle_host::os::stat::ticks_per_second;
use jostle_host::os::text;
use jostle_host::sys::clock::monotonic_ns;
use jostle_profile::Direction;
use jostle_profile::MetricFacts;
use jostle_profile::Resolution;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::time::Duration;
use std::time::Instant;

/// Which bytes count.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bytes {
    name: &'static str,
    /// Of `/proc/PID/io`.
    keys: &'static [&'static str],
    /// Whether only what went to or came from block devices counts, or all that
    /// system calls read and wrote: files, sockets, pipes.
    disk: bool,
}

const fn bytes(name: &'static str, keys: &'static [&'static str], disk: bool) -> Bytes {
    Bytes { name, keys, disk }
}

const ALL: [Bytes; 5] = [
    bytes("progress:io", &["rchar", "wchar"], false),
    bytes("progress:io:read", &["rchar"], false),
    bytes("progress:io:write", &["wchar"], false),
    bytes("progress:io:disk-read", &["read_bytes"], true),
    bytes("progress:io:disk-write", &["write_bytes"], true),
];

impl Bytes {
    /// Of `name`, as the metric is called.
    pub(super) fn parse(name: &str) -> Result<&'static Bytes> {
        ALL.iter().find(|bytes| bytes.name == name).ok_or_else(|| {
            let [others @ .., last] = ALL.map(|bytes| bytes.name);
            Reason::Unknown(format!("{} and {last}", others.join(", "))).wrong(name)
        })
    }
}

/// One process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    pid: i32,
    parent: i32,
    /// Clock ticks since boot.
    start: u64,
    bytes: u64,
    /// Reads and writes; how many make a window.
    calls: u64,
}

#[derive(Clone, Debug, Default)]
struct Snapshot {
    at_ns: u64,
    /// The same moment on the clock of [`Row::start`].
    at_ticks: u64,
    rows: Vec<Row>,
}

/// Bytes and calls between two snapshots; never less than nothing.
///
/// The kernel adds what a child did to its parent's account when the parent
/// waits for it, and forgets it when nobody does. So what a parent grew by may
/// hold what a vanished child had done before the first snapshot: it is taken
/// off again where it fits.
fn growth(from: &Snapshot, to: &Snapshot) -> (u64, u64) {
    let key = |row: &Row| (row.pid, row.start);
    let before: HashMap<_, _> = from.rows.iter().map(|row| (key(row), row)).collect();
    let after: HashMap<_, _> = to.rows.iter().map(|row| (key(row), row)).collect();
    let mut inherited: HashMap<i32, Vec<(u64, u64)>> = HashMap::new();
    for row in from
        .rows
        .iter()
        .filter(|row| !after.contains_key(&key(row)))
    {
        let of = inherited.entry(row.parent).or_default();
        of.push((row.bytes, row.calls));
    }
    let (mut bytes, mut calls) = (0, 0);
    for row in &to.rows {
        let (mut grown, mut called) = match before.get(&key(row)) {
            Some(old) => (
                row.bytes.saturating_sub(old.bytes),
                row.calls.saturating_sub(old.calls),
            ),
            // Started since then: all of it is new. Else it joined, with a past.
            None if row.start + 2 >= from.at_ticks => (row.bytes, row.calls),
            None => (0, 0),
        };
        let mut moved = inherited.remove(&row.pid).unwrap_or_default();
        moved.sort_unstable_by(|a, b| b.cmp(a));
        for (old_bytes, old_calls) in moved {
            if old_bytes <= grown && old_calls <= called {
                grown -= old_bytes;
                called -= old_calls;
            }
        }
        bytes += grown;
        calls += called;
    }
    (bytes, calls)
}

/// The sum of `keys` in the text of `/proc/PID/io`.
fn sum(text: &str, keys: &[&str]) -> Option<u64> {
    let values = keys.iter().map(|key| text::value(text, key));
    values.map(|value| value?.parse::<u64>().ok()).sum()
}

pub(super) struct Io {
    bytes: &'static Bytes,
    because: String,
    pace: Pace,
    processes: usize,
    start: Option<Snapshot>,
}

impl Io {
    pub(super) fn new(
        bytes: &'static Bytes,
        because: &str,
        context: &Context,
        target: &mut Target,
    ) -> Result<Io> {
        let mut metric = Io {
            bytes,
            because: because.into(),
            pace: Pace::default(),
            processes: 0,
            start: None,
        };
        let mut last = metric.snapshot(target)?;
        let (mut all_calls, mut moved_at) = (0, None);
        let begin = Instant::now();
        metric.pace = pace::watch(target, context, |target| {
            target.check_alive()?;
            let now = metric.snapshot(target)?;
            let (bytes, calls) = growth(&last, &now);
            last = now;
            all_calls += calls;
            if bytes > 0 {
                moved_at = Some(Instant::now());
            }
            Ok(all_calls as f64)
        })?;
        metric.processes = last.rows.len();
        // What a program reads while it starts is not its work.
        let still = moved_at.is_none_or(|moved: Instant| moved.elapsed() > begin.elapsed() / 2);
        if still {
            return Err(Error::request(format!(
                "--metric {}: the target moved no such bytes for {:.1} s; is it under load? {}",
                bytes.name,
                moved_at.unwrap_or(begin).elapsed().as_secs_f64(),
                match bytes.disk {
                    true =>
                        "what the page cache answers does not reach the disk: progress:io counts it",
                    false => "a program that works in memory needs another metric",
                }
            )));
        }
        Ok(metric)
    }

    fn snapshot(&self, target: &mut Target) -> Result<Snapshot> {
        let mut snapshot = Snapshot {
            at_ns: monotonic_ns(),
            at_ticks: ticks_since_boot(),
            rows: Vec::new(),
        };
        for pid in target.scope().processes() {
            let Some(stat) = tree::stat(pid) else {
                continue;
            };
            let file = format!("/proc/{pid}/io");
            let text = match std::fs::read_to_string(&file) {
                Ok(text) => text,
                Err(error) if error.kind() == ErrorKind::PermissionDenied && !stat.ended() => {
                    return Err(self.unavailable(Reason::IoForbidden(file)));
                }
                Err(error) if error.kind() == ErrorKind::NotFound && tree::stat(pid).is_some() => {
                    return Err(self.unavailable(Reason::IoUnaccounted));
                }
                // It ended meanwhile.
                Err(_) => continue,
            };
            let bytes = sum(&text, self.bytes.keys);
            let calls = sum(&text, &["syscr", "syscw"]);
            let (Some(bytes), Some(calls)) = (bytes, calls) else {
                let keys = self.bytes.keys.join(" or ");
                return Err(self.unavailable(Reason::IoKeys { file, keys }));
            };
            snapshot.rows.push(Row {
                pid,
                parent: stat.parent,
                start: stat.start,
                bytes,
                calls,
            });
        }
        match snapshot.rows.is_empty() {
            true => {
                target.check_alive()?;
                Err(self.unavailable(Reason::NoProcess))
            }
            false => Ok(snapshot),
        }
    }

    fn unavailable(&self, reason: Reason) -> Error {
        reason.failed(self.bytes.name)
    }
}

fn ticks_since_boot() -> u64 {
    let uptime = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME);
    uptime.map_or(0, |time| {
        (std::time::Duration::from(time).as_secs_f64() * ticks_per_second()) as u64
    })
}

impl Metric for Io {
    fn facts(&self) -> MetricFacts {
        let unit = "bytes per second";
        facts(self.bytes.name, unit, Direction::Higher, &self.because)
    }

    fn natural_window(&self) -> Option<Duration> {
        self.pace.window()
    }

    fn window_rule(&self) -> String {
        format!(
            "growth of {} over all processes of the target, per second of wall time; at least {} reads and writes in a window",
            self.bytes.keys.join(" + "),
            pace::ENOUGH
        )
    }

    fn resolution(&self) -> Resolution {
        Resolution::Print
    }

    fn cost(&self) -> String {
        format!(
            "nothing in the target; at each end of a window one read of /proc/PID/io and /proc/PID/stat for each of its processes ({} at the start)",
            self.processes
        )
    }

    fn begin(&mut self, target: &mut Target) -> Result<()> {
        target.check_alive()?;
        self.start = Some(self.snapshot(target)?);
        Ok(())
    }

    fn end(&mut self, target: &mut Target) -> Result<f64> {
        let start = begun(&mut self.start, self.bytes.name)?;
        let now = self.snapshot(target)?;
        target.check_alive()?;
        let seconds = now.at_ns.saturating_sub(start.at_ns).max(1) as f64 / 1e9;
        Ok(growth(&start, &now).0 as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: i32, parent: i32, start: u64, bytes: u64) -> Row {
        Row {
            pid,
            parent,
            start,
            bytes,
            calls: bytes / 10,
        }
    }

    fn at(at_ticks: u64, rows: &[Row]) -> Snapshot {
        Snapshot {
            at_ns: at_ticks * 10_000_000,
            at_ticks,
            rows: rows.to_vec(),
        }
    }

    #[test]
    fn accounts_are_read() {
        let text = "rchar: 100\nwchar: 50\nsyscr: 3\nsyscw: 4\nread_bytes: 0\nwrite_bytes: 4096\n";
        assert_eq!(sum(text, &["rchar", "wchar"]), Some(150));
        assert_eq!(sum(text, &["write_bytes"]), Some(4096));
        assert_eq!(sum(text, &["nothing"]), None);
        assert_eq!(sum("rchar: x\n", &["rchar"]), None);
    }

    #[test]
    fn children_that_end_take_nothing_back() {
        let from = at(1000, &[row(1, 0, 10, 500), row(2, 1, 20, 3000)]);
        // The child did 200 more; its parent waited for it and did 50 itself.
        let reaped = at(2000, &[row(1, 0, 10, 500 + 3200 + 50)]);
        assert_eq!(growth(&from, &reaped).0, 250);
        // Nobody waited: what it did last is lost, but nothing goes backwards.
        let lost = at(2000, &[row(1, 0, 10, 550)]);
        assert_eq!(growth(&from, &lost).0, 50);
        assert_eq!(growth(&from, &at(2000, &[])).0, 0);
    }

    #[test]
    fn newcomers_bring_only_what_is_new() {
        let from = at(1000, &[row(1, 0, 10, 500)]);
        let to = at(
            2000,
            &[row(1, 0, 10, 600), row(3, 1, 1500, 70), row(4, 9, 20, 9000)],
        );
        assert_eq!(growth(&from, &to).0, 170);
        // The same number, another process.
        let reused = at(2000, &[row(1, 0, 1200, 40)]);
        assert_eq!(growth(&from, &reused).0, 40);
    }

    #[test]
    fn kinds_are_parsed() {
        assert_eq!(
            Bytes::parse("progress:io").unwrap().keys,
            ["rchar", "wchar"]
        );
        assert_eq!(Bytes::parse("progress:io:disk-read").unwrap(), &ALL[3]);
        let error = Bytes::parse("progress:io:reads").unwrap_err();
        assert!(error.to_string().contains("progress:io:read"), "{error}");
    }
}
