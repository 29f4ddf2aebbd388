//! Processes and threads, from `/proc/PID`.

use super::Error;
use super::stat::ticks_per_second;
use super::text;
use super::text::Text;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `PF_KTHREAD` of `/proc/PID/stat`.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// The part of `/proc/PID/stat` needed here. Not read by the `procfs` crate, which panics
/// on lines that it does not expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub state: char,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// `PF_*` bits.
    pub flags: u32,
    /// Clock ticks since boot.
    pub start: u64,
    /// CPU time used so far, clock ticks.
    pub used: u64,
    /// CPU time of the children that it has waited for, and of theirs.
    pub used_by_ended_children: u64,
    /// CPU that it runs on, or ran on last.
    pub cpu: Option<usize>,
    /// Minor faults of the children that it has waited for.
    pub faults_of_ended_children: u64,
}

impl Stat {
    /// True for a process that has ended, reaped or not.
    pub fn ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    pub fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// True while it runs or waits for a CPU.
    pub fn runs(&self) -> bool {
        self.state == 'R'
    }

    /// True when every thread is held by a stop signal or a tracer.
    pub fn stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// The numbers stand behind the name, which may hold anything but is the last thing
    /// in parentheses (proc_pid_stat(5)).
    fn parse(line: &[u8]) -> Option<Stat> {
        let end = line.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(line.get(end + 1..)?).ok()?;
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Counted from 1 as in the manual, where the state is 3.
        let word = |field: usize| words.get(field - 3).copied();
        fn number<T: std::str::FromStr>(word: Option<&str>) -> Option<T> {
            word?.parse().ok()
        }
        let count = |field| number::<u64>(word(field));
        let of_children = |field| number::<i64>(word(field)).map(|it| it.max(0) as u64);
        Some(Stat {
            state: word(3)?.chars().next()?,
            parent: number(word(4))?,
            group: number(word(5))?,
            session: number(word(6))?,
            flags: number(word(9))?,
            start: count(22)?,
            used: count(14)?.saturating_add(count(15)?),
            used_by_ended_children: of_children(16)?.saturating_add(of_children(17)?),
            cpu: number(word(39)),
            faults_of_ended_children: count(11)?,
        })
    }
}

/// `None` when the process is gone.
pub fn stat(root: &Path, pid: i32) -> Option<Stat> {
    stat_of(root, &pid.to_string())
}

/// As [`stat`], of a process id or `self`.
pub fn stat_of(root: &Path, process: &str) -> Option<Stat> {
    Stat::parse(&fs::read(root.join(format!("proc/{process}/stat"))).ok()?)
}

/// `None` when the thread is gone.
pub fn thread_stat(root: &Path, pid: i32, tid: i32) -> Option<Stat> {
    Stat::parse(&fs::read(root.join(format!("proc/{pid}/task/{tid}/stat"))).ok()?)
}

/// Nanoseconds for which a thread was ready and had no CPU; `None` where the kernel does not
/// count that.
pub fn thread_waited_ns(root: &Path, pid: i32, tid: i32) -> Option<u64> {
    WaitClock::open(root, pid, tid).ok()?.read_ns()
}

/// The waiting of one thread, to be read often.
pub struct WaitClock(Text);

impl WaitClock {
    /// # Errors
    ///
    /// When the thread is gone, or the kernel keeps no such file.
    pub fn open(root: &Path, pid: i32, tid: i32) -> Result<WaitClock, Error> {
        let text = Text::open(root, format!("proc/{pid}/task/{tid}/schedstat"))?;
        Ok(WaitClock(text.only_first(128)))
    }

    /// Nanoseconds so far, as [`thread_waited_ns`].
    pub fn read_ns(&mut self) -> Option<u64> {
        let text = self.0.read().ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

/// Clock ticks since boot, as [`Stat::start`] counts them.
pub fn uptime_ticks(root: &Path) -> Option<f64> {
    let text = text::text(root, "proc/uptime").ok()?;
    let seconds: f64 = text.split(' ').next()?.parse().ok()?;
    seconds.is_finite().then_some(seconds * ticks_per_second())
}

/// Every process that we can see, ascending.
pub fn processes(root: &Path) -> Vec<i32> {
    text::numbered(root, "proc", "")
}

/// Thread ids of a process, ascending; empty when it is gone.
pub fn threads(root: &Path, pid: i32) -> Vec<i32> {
    let directory = format!("proc/{pid}/task");
    // A link for each thread beside the directory's own two: cheaper than a listing.
    let links = std::fs::metadata(root.join(&directory)).map(|facts| facts.nlink());
    match links {
        Ok(3) => vec![pid],
        Ok(_) => text::numbered(root, directory, ""),
        Err(_) => Vec::new(),
    }
}

/// Children of a process; `None` where the kernel does not list them, which
/// needs a build option.
pub fn children(root: &Path, pid: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    for thread in threads(root, pid) {
        match text::text(root, format!("proc/{pid}/task/{thread}/children")) {
            Ok(text) => children.extend(
                text.split_ascii_whitespace()
                    .filter_map(|word| word.parse::<i32>().ok()),
            ),
            // The thread may have ended; a living one without the file means
            // that the kernel does not list children.
            Err(_) if stat(root, pid).is_none() => return Some(children),
            Err(_) => return None,
        }
    }
    Some(children)
}

/// The command line of a process; empty when it is gone.
pub fn command_line(root: &Path, pid: i32) -> Vec<String> {
    let line = words(root, pid, "cmdline");
    line.into_iter().filter(|word| !word.is_empty()).collect()
}

/// The value of `name` in the environment a process was started with.
pub fn environment(root: &Path, pid: i32, name: &str) -> Option<String> {
    let entries = words(root, pid, "environ").into_iter();
    let mut values = entries.filter_map(|entry| {
        let value = entry.strip_prefix(name)?.strip_prefix('=')?;
        Some(value.to_string())
    });
    values.next()
}

fn words(root: &Path, pid: i32, file: &str) -> Vec<String> {
    fs::read(root.join(format!("proc/{pid}/{file}")))
        .unwrap_or_default()
        .split(|&byte| byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fake::tree;
    use super::*;

    const LINE: &str = "S 1 2 3 0 -1 64 0 5 0 0 7 4 2 3 20 0 1 0 99 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 \
                        17 6 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

    #[test]
    fn names_may_hold_anything() {
        let mut line = b"7 (a) Z (\xff) ".to_vec();
        line.extend(LINE.as_bytes());
        let stat = Stat::parse(&line).unwrap();
        assert_eq!(
            (stat.state, stat.parent, stat.group, stat.session),
            ('S', 1, 2, 3)
        );
        assert_eq!((stat.flags, stat.start), (64, 99));
        assert_eq!((stat.used, stat.cpu), (11, Some(6)));
        assert_eq!(stat.faults_of_ended_children, 5);
        assert_eq!(stat.used_by_ended_children, 5);
        for broken in ["", "1 (x)", "1 (x) ", "1 (x) S", "1 (x) S x 2 3"] {
            assert_eq!(Stat::parse(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn what_a_thread_waited_is_read_where_it_is_counted() {
        let root = tree(&[
            ("proc/7/task/7/schedstat", "120 4500 3\n"),
            ("proc/7/task/8/schedstat", "120\n"),
        ]);
        assert_eq!(thread_waited_ns(root.path(), 7, 7), Some(4_500));
        assert_eq!(thread_waited_ns(root.path(), 7, 8), None);
        assert_eq!(thread_waited_ns(root.path(), 7, 9), None);
    }

    #[test]
    fn lines_that_nobody_expects_are_no_panic() {
        for line in [
            &b"7\xff(a) S 1 2 3"[..],
            b"7 (a)",
            b")",
            b"7 (a) \xff 1 2 3",
            b"(a) S -1 -1 -1 0 -1 64 0 5 0 0 18446744073709551615 1 -5 3 20",
        ] {
            assert_eq!(Stat::parse(line), None, "{line:?}");
        }
        let most = u64::MAX.to_string();
        let line = format!(
            "7 (a) S 1 2 3 0 -1 64 0 5 0 0 {most} 4 {0} {0} 20 0 1 0 99 0\n",
            i64::MAX
        );
        let stat = Stat::parse(line.as_bytes()).unwrap();
        assert_eq!((stat.used, stat.cpu), (u64::MAX, None));
        assert_eq!(stat.used_by_ended_children, u64::MAX - 1);
    }

    #[test]
    fn processes_below_a_root() {
        let root = tree(&[
            ("proc/7/stat", &format!("7 (x) {LINE}")),
            ("proc/7/task/7/stat", ""),
            ("proc/7/task/9/children", "11 12 "),
            ("proc/7/cmdline", "a\0b c\0\0"),
            ("proc/7/environ", "AB=1\0A=two\0"),
            ("proc/meminfo", ""),
        ]);
        let root = root.path();
        assert_eq!(processes(root), [7]);
        assert_eq!(threads(root, 7), [7, 9]);
        assert_eq!(children(root, 7), None);
        assert_eq!(stat(root, 7).unwrap().parent, 1);
        assert_eq!(command_line(root, 7), ["a", "b c"]);
        assert_eq!(environment(root, 7, "A").as_deref(), Some("two"));
        assert_eq!(environment(root, 7, "B"), None);
        assert_eq!(stat(root, 8), None);
    }
}
