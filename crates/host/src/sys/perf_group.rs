//! Groups of perf events: one leader with the others attached, all counting
//! over the same stretches of time, read together by one system call.

use super::handover::Layout;
use nix::errno::Errno;
use perf_event::Builder;
use perf_event::Counter;
use perf_event::ReadFormat;
use perf_event::events::Software;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;

/// Words before the values: their number, and the times.
const HEAD: usize = 3;
/// Most events of one group.
pub const MAX_EVENTS: usize = 8;

/// So often a group is opened again whose leader has moved: each time a few
/// microseconds, in which a program that forks all the time seldom forks.
const MOVES: usize = 20;

/// What to count, in the kernel's numbers: `type`, `config`, … of
/// `perf_event_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventConfig {
    pub kind: u32,
    pub config: u64,
    pub config1: u64,
    pub config2: u64,
    pub config3: u64,
}

impl EventConfig {
    pub const fn new(kind: u32, config: u64) -> EventConfig {
        EventConfig {
            kind,
            config,
            config1: 0,
            config2: 0,
            config3: 0,
        }
    }

    pub const fn hardware(config: u64) -> EventConfig {
        EventConfig::new(0, config)
    }

    pub const fn software(config: u64) -> EventConfig {
        EventConfig::new(1, config)
    }

    pub const fn tracepoint(id: u64) -> EventConfig {
        EventConfig::new(2, id)
    }

    /// Read misses of a cache: 0 L1d, 1 L1i, 2 last level, 3 dTLB, 4 iTLB.
    pub const fn read_misses(cache: u64) -> EventConfig {
        EventConfig::new(3, cache | 1 << 16)
    }

    /// A number of the CPU's own event table.
    pub const fn raw(config: u64) -> EventConfig {
        EventConfig::new(4, config)
    }
}

/// Whose events are counted.
#[derive(Clone, Copy, Debug)]
pub enum PerfTarget<'a> {
    /// The calling thread alone.
    CallingThread,
    /// This thread, wherever it runs, and every thread and process that it
    /// starts from now on, also after it has ended.
    Thread(i32),
    /// Whoever of the cgroup with this open directory runs on this CPU.
    Cgroup(&'a File, usize),
    /// Whoever runs on this CPU.
    Cpu(usize),
}

/// The first event of a group that could not be opened, and why.
#[derive(Debug)]
pub struct OpenError {
    pub index: usize,
    pub error: io::Error,
}

/// Nanoseconds since a group was opened. Of a thread, only those count in which
/// it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub enabled_ns: u64,
    /// Of those, the ones in which the group was on the CPU's registers.
    pub running_ns: u64,
}

/// An open group, which counts until it is dropped.
pub struct Group {
    leader: Counter,
    /// Kept open: closing one removes it from the group.
    _members: Vec<Counter>,
}

impl Group {
    /// Counts `events` (1 to [`MAX_EVENTS`]) from now on, in user mode and, with
    /// `kernel`, inside the kernel.
    ///
    /// # Errors
    /// Which event the kernel refused, and how.
    pub fn open(
        events: &[EventConfig],
        target: PerfTarget,
        kernel: bool,
    ) -> Result<Group, OpenError> {
        // A thread and the child that it has just forked swap their counters
        // when one follows the other on a CPU. The next member is then refused
        // with EINVAL or ENODEV: it would stand beside a leader who has moved.
        let moved = |failed: &OpenError| {
            matches!(target, PerfTarget::Thread(_))
                && failed.index > 0
                && matches!(
                    failed.error.raw_os_error(),
                    Some(libc::EINVAL | libc::ENODEV)
                )
        };
        let mut opened = Group::open_once(events, target, kernel);
        for _ in 0..MOVES {
            match &opened {
                Err(failed) if moved(failed) => {
                    opened = Group::open_once(events, target, kernel);
                }
                _ => break,
            }
        }
        opened
    }

    fn open_once(
        events: &[EventConfig],
        target: PerfTarget,
        kernel: bool,
    ) -> Result<Group, OpenError> {
        assert!((1..=MAX_EVENTS).contains(&events.len()));
        let failed = |index| move |error| OpenError { index, error };
        let mut leader = builder(events[0], target, kernel)
            .enabled(false)
            .build()
            .map_err(failed(0))?;
        let mut members = Vec::with_capacity(events.len() - 1);
        for (index, event) in events.iter().enumerate().skip(1) {
            let member = builder(*event, target, kernel)
                .enabled(true)
                .build_with_group(&mut leader)
                .map_err(failed(index))?;
            members.push(member);
        }
        leader.enable().map_err(failed(0))?;
        Ok(Group {
            leader,
            _members: members,
        })
    }

    /// Number of events, which is that of descriptors too.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        1 + self._members.len()
    }

    /// The counts since opening, in the order of opening, with what their
    /// threads' and processes' descendants counted.
    ///
    /// # Errors
    /// What the kernel said; `values` is then left as it is.
    pub fn read(&self, values: &mut [u64; MAX_EVENTS]) -> io::Result<Times> {
        let mut buffer = [0u64; HEAD + 2 * MAX_EVENTS];
        // SAFETY: the descriptor is open for as long as `self` lives, and the
        // kernel writes at most the given number of bytes into `buffer`, any
        // content of which is valid.
        let read = unsafe {
            libc::read(
                self.leader.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                size_of_val(&buffer),
            )
        };
        let read = Errno::result(read)?;
        let count = self.len();
        if read as usize != (HEAD + 2 * count) * size_of::<u64>() || buffer[0] != count as u64 {
            return Err(io::Error::other(format!(
                "a group of {count} answered with {read} bytes"
            )));
        }
        for (value, pair) in values.iter_mut().zip(buffer[HEAD..].chunks_exact(2)) {
            *value = pair[0];
        }
        Ok(Times {
            enabled_ns: buffer[1],
            running_ns: buffer[2],
        })
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        borrowed(&self.leader)
    }
}

/// The descriptor of an open counter.
pub fn borrowed(counter: &Counter) -> BorrowedFd<'_> {
    // SAFETY: a counter keeps its descriptor open as long as it lives.
    unsafe { BorrowedFd::borrow_raw(counter.as_raw_fd()) }
}

/// What a read of a group of so many `events` holds, where the one numbered
/// `count` is the count, and the one numbered `time` a clock.
pub fn layout(events: usize, count: usize, time: Option<usize>) -> Layout {
    Layout::Counter {
        words: HEAD + 2 * events,
        count: HEAD + 2 * count,
        time: time.map(|event| HEAD + 2 * event),
    }
}

impl AsRawFd for Group {
    fn as_raw_fd(&self) -> i32 {
        self.leader.as_raw_fd()
    }
}

fn builder(event: EventConfig, target: PerfTarget<'_>, kernel: bool) -> Builder<'_> {
    let mut builder = Builder::new(Software::DUMMY);
    let attrs = builder.attrs_mut();
    attrs.type_ = event.kind;
    attrs.config = event.config;
    attrs.config1 = event.config1;
    attrs.config2 = event.config2;
    attrs.config3 = event.config3;
    builder.exclude_kernel(!kernel).exclude_hv(!kernel);
    builder.read_format(
        ReadFormat::GROUP | ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING,
    );
    match target {
        PerfTarget::CallingThread => builder.observe_self().any_cpu(),
        PerfTarget::Thread(thread) => builder.observe_pid(thread).any_cpu().inherit(true),
        PerfTarget::Cgroup(directory, cpu) => builder.observe_cgroup(directory).one_cpu(cpu),
        PerfTarget::Cpu(cpu) => builder.any_pid().one_cpu(cpu),
    };
    // Drivers of whole-machine PMUs refuse events that leave out a mode.
    if matches!(target, PerfTarget::Cpu(_)) {
        builder.exclude_kernel(false).exclude_hv(false);
    }
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU_CLOCK: EventConfig = EventConfig::software(0);
    const TASK_CLOCK: EventConfig = EventConfig::software(1);
    const FAULTS: EventConfig = EventConfig::software(2);
    const SWITCHES: EventConfig = EventConfig::software(3);

    #[test]
    fn four_are_read_together() {
        let events = [TASK_CLOCK, CPU_CLOCK, FAULTS, SWITCHES];
        let group =
            Group::open(&events, PerfTarget::CallingThread, true).map_err(|failed| failed.error);
        let Some(group) = crate::skip::have("perf", group) else {
            return;
        };
        let mut before = [0; MAX_EVENTS];
        let mut after = [0; MAX_EVENTS];
        let first = group.read(&mut before).unwrap();
        // Fresh memory, in pages of at most 2 MiB.
        let pages = vec![1u8; 32 << 20];
        std::hint::black_box(&pages);
        let last = group.read(&mut after).unwrap();
        // Software events never wait for a register.
        assert_eq!(first.enabled_ns, first.running_ns);
        assert_eq!(last.enabled_ns, last.running_ns);
        assert!(last.enabled_ns > first.enabled_ns);
        // Both clocks of one group saw the same stretch of time.
        let task = after[0] - before[0];
        let cpu = after[1] - before[1];
        let enabled = last.enabled_ns - first.enabled_ns;
        for clock in [task, cpu] {
            assert!(clock.abs_diff(enabled) <= enabled / 2, "{clock} {enabled}");
        }
        assert!(after[2] - before[2] >= 16, "{after:?} {before:?}");
        assert_eq!(after[4..], [0; 4]);
    }

    #[test]
    fn the_refused_event_is_named() {
        let nonsense = EventConfig::software(0xffff);
        let Err(failed) = Group::open(&[TASK_CLOCK, nonsense], PerfTarget::CallingThread, false)
        else {
            panic!("an event that does not exist was opened");
        };
        assert!(failed.index == 1 || failed.error.raw_os_error() != Some(libc::ENOENT));
    }
}
