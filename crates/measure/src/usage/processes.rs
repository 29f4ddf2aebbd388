//! Sums over the processes of a target.

use super::Read;
use super::Storage;
use jostle_host::os;
use jostle_host::os::proc;
use jostle_host::os::stat::ticks_per_second;
use jostle_host::os::text;
use std::path::Path;

/// More processes than this are not read one by one.
const MOST: usize = 256;
/// How often a sum is begun anew because a process ended while it was taken.
const TRIES: usize = 3;

/// What all processes used so far.
pub(super) struct ByProcess {
    pub cpu_seconds: Read<f64>,
    pub storage: Read<Storage>,
    /// Read and written by system calls, of any kind of file, by those that have not ended.
    pub passed_bytes: Read<f64>,
}

/// CPU time of a process to the nanosecond, where there is a clock of it.
pub(super) type CpuClock = fn(i32) -> Option<u64>;

/// Sums over `processes`, parents first, with what they waited for; with `ours`
/// what we waited for counts too.
pub(super) fn totals(root: &Path, processes: &[i32], ours: bool, clock: CpuClock) -> ByProcess {
    let refuse = |reason: String| ByProcess {
        cpu_seconds: Err(reason.clone()),
        storage: Err(reason.clone()),
        passed_bytes: Err(reason),
    };
    if processes.len() > MOST {
        let count = processes.len();
        return refuse(format!(
            "the target has {count} processes, more than the {MOST} that are read one by one; \
             give its cgroup with --cgroup"
        ));
    }
    if !ours && alive(root, processes).is_empty() {
        return refuse("the target has no process".into());
    }
    // Last: what ends while the others are read shows there.
    let ours = ours.then_some("self");
    ByProcess {
        cpu_seconds: again(root, processes, |alive| {
            cpu_seconds(root, alive, ours, clock)
        }),
        storage: again(root, processes, |alive| bytes(root, alive, ours)),
        passed_bytes: again(root, processes, |alive| passed_bytes(root, alive)),
    }
}

/// What `sum` finds at the first try in which none of `processes` that are there
/// ended.
fn again<T>(
    root: &Path,
    processes: &[i32],
    sum: impl Fn(&[i32]) -> Result<T, os::Error>,
) -> Read<T> {
    let mut found = sum(&alive(root, processes));
    for _ in 1..TRIES {
        match &found {
            Err(os::Error::Absent { .. } | os::Error::Ended { .. }) => {
                found = sum(&alive(root, processes));
            }
            _ => break,
        }
    }
    found.map_err(|error| error.to_string())
}

/// Those of `processes` that somebody has yet to wait for.
pub(super) fn alive(root: &Path, processes: &[i32]) -> Vec<i32> {
    let mut alive = processes.to_vec();
    alive.retain(|pid| text::exists(root, &format!("proc/{pid}")));
    alive
}

fn cpu_seconds(
    root: &Path,
    processes: &[i32],
    ours: Option<&str>,
    clock: CpuClock,
) -> Result<f64, os::Error> {
    let of = |name: &str| {
        let path = format!("/proc/{name}/stat");
        proc::stat_of(root, name).ok_or(os::Error::Ended { path })
    };
    let seconds = |ticks: u64| ticks as f64 / ticks_per_second();
    let mut sum = 0.0;
    for pid in processes {
        let stat = of(&pid.to_string())?;
        let own = clock(*pid).map_or(seconds(stat.used), |ns| ns as f64 / 1e9);
        sum += own + seconds(stat.used_by_ended_children);
    }
    if let Some(ours) = ours {
        // Our own time is not the target's.
        sum += seconds(of(ours)?.used_by_ended_children);
    }
    Ok(sum)
}

fn bytes(root: &Path, processes: &[i32], ours: Option<&str>) -> Result<Storage, os::Error> {
    let (mut read, mut written) = (0.0, 0.0);
    let names = processes.iter().map(i32::to_string);
    for name in names.chain(ours.map(str::to_string)) {
        let [more_read, more_written, cancelled] =
            text::parse(root, format!("proc/{name}/io"), |text| {
                Ok([
                    text::keyed(text, "read_bytes")?,
                    text::keyed(text, "write_bytes")?,
                    text::keyed(text, "cancelled_write_bytes")?,
                ])
            })?;
        read += more_read;
        // Deleted before it reached the disk.
        written += more_written - cancelled;
    }
    Ok(Storage::Bytes { read, written })
}

fn passed_bytes(root: &Path, processes: &[i32]) -> Result<f64, os::Error> {
    let mut sum = 0.0;
    for pid in processes {
        sum += text::parse(root, format!("proc/{pid}/io"), |text| {
            Ok(text::keyed(text, "rchar")? + text::keyed(text, "wchar")?)
        })?;
    }
    Ok(sum)
}

/// Memory that the processes hold; what several of them share counts once for a
/// single process, and in parts for several.
pub(super) fn resident(root: &Path, processes: &[i32]) -> Read<f64> {
    let bytes = |pid: i32, file: &str, key: &str| {
        let path = format!("proc/{pid}/{file}");
        let kib = text::parse(root, path, |text| text::keyed(text, key));
        kib.map(|kib| kib * 1024.0)
    };
    match &alive(root, processes)[..] {
        [] => Err("the target has no process".into()),
        [pid] => bytes(*pid, "status", "VmRSS").map_err(|error| error.to_string()),
        several if several.len() > MOST => Err(format!(
            "the target has {} processes, more than the {MOST} that are read one by one",
            several.len()
        )),
        several => {
            let mut sum = 0.0;
            for pid in several {
                match bytes(*pid, "smaps_rollup", "Pss") {
                    Ok(held) => sum += held,
                    // Ended, or about to.
                    Err(os::Error::Absent { .. } | os::Error::Ended { .. }) => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
            Ok(sum)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_host::os::fake::tree;

    fn stat(own: u64, children: u64) -> String {
        format!(
            "1 (x y) S 1 2 3 0 -1 64 0 5 0 0 {own} 0 {children} 0 20 0 1 0 99 0 0 0 0 0 0 0 0 0 0 \
             0 0 0 0 0 17 6 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        )
    }

    fn io(read: u64, written: u64) -> String {
        format!("read_bytes: {read}\nwrite_bytes: {written}\ncancelled_write_bytes: 0\n")
    }

    #[test]
    fn what_ended_children_used_is_counted_once() {
        let alive = tree(&[
            ("proc/7/stat", &stat(100, 0)),
            ("proc/8/stat", &stat(30, 0)),
            ("proc/7/io", &io(10, 0)),
            ("proc/8/io", &io(5, 2)),
        ]);
        let ended = tree(&[("proc/7/stat", &stat(100, 30)), ("proc/7/io", &io(15, 2))]);
        let before = totals(alive.path(), &[7, 8], false, |_| None);
        let after = totals(ended.path(), &[7], false, |_| None);
        assert_eq!(before.cpu_seconds, after.cpu_seconds);
        assert_eq!(before.cpu_seconds, Ok(130.0 / ticks_per_second()));
        assert_eq!(before.storage, after.storage);
    }

    #[test]
    fn what_we_waited_for_belongs_to_a_command_of_ours() {
        let root = tree(&[
            ("proc/self/stat", &stat(1000, 30)),
            ("proc/self/io", &io(15, 2)),
        ]);
        let between_runs = totals(root.path(), &[], true, |_| None);
        assert_eq!(between_runs.cpu_seconds, Ok(30.0 / ticks_per_second()));
        assert!(
            totals(root.path(), &[], false, |_| None)
                .cpu_seconds
                .is_err()
        );
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let root = tree(&[
            ("proc/7/stat", &stat(1, 0)),
            ("proc/7/io", "read_bytes: x\n"),
        ]);
        let found = totals(root.path(), &[7], false, |_| Some(1));
        assert_eq!(found.cpu_seconds, Ok(1e-9));
        let why = found.storage.unwrap_err();
        assert!(why.contains("/proc/7/io"), "{why}");
        assert!(totals(root.path(), &[8], false, |_| None).storage.is_err());
        let many: Vec<i32> = (1..=300).collect();
        let why = totals(root.path(), &many, false, |_| None)
            .cpu_seconds
            .unwrap_err();
        assert!(why.contains("--cgroup"), "{why}");
    }

    #[test]
    fn shared_memory_is_split_between_processes() {
        let root = tree(&[
            ("proc/7/status", "Name:\tx\nVmRSS:\t  2048 kB\n"),
            (
                "proc/7/smaps_rollup",
                "00-ff ---p\nRss: 2048 kB\nPss: 1024 kB\n",
            ),
            (
                "proc/8/smaps_rollup",
                "00-ff ---p\nRss: 2048 kB\nPss: 512 kB\n",
            ),
        ]);
        assert_eq!(resident(root.path(), &[7]), Ok(2048.0 * 1024.0));
        assert_eq!(resident(root.path(), &[7, 8]), Ok(1536.0 * 1024.0));
        assert!(resident(root.path(), &[]).is_err());
    }
}
