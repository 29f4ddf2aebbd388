//! Counting how often a function is called or a tracepoint is passed, without
//! a PMU: the kernel's `uprobe` and `tracepoint` event sources.

use super::clock::thread_cpu_ns;
use super::tracer;
use crate::os::here;
use crate::os::sysfs::event_source;
use perf_event::Builder;
use perf_event::Clock;
use perf_event::Counter;
use perf_event::SampleFlag;
use perf_event::Sampler;
use perf_event::events::Breakpoint;
use perf_event::events::Software;
use perf_event::events::Tracepoint;
use procfs_core::FromRead;
use procfs_core::process::MemoryMaps;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

/// Something that happens now and then in user or kernel code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A function is entered: the ELF file and the offset of its first
    /// instruction in it.
    Uprobe { file: PathBuf, offset: u64 },
    /// A tracepoint is passed: its `id` in tracefs.
    Tracepoint { id: u64 },
}

/// Where occurrences are counted.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// In one thread, and with `inherit` in what it starts from now on.
    Thread { id: i32, inherit: bool },
    /// On one CPU, whoever runs there.
    Cpu(usize),
    /// On one CPU, by the processes of a cgroup (its directory, of version 2 or
    /// of version 1's `perf_event` hierarchy).
    Cgroup(&'a File, usize),
}

impl Event {
    /// Whether counters of this event may be inherited by new threads.
    ///
    /// Those of a uprobe must not: the kernel would read the path of the file
    /// anew at every fork, from the memory of the process that forks, and make
    /// its fork or thread creation fail with EFAULT.
    pub fn inheritable(&self) -> bool {
        matches!(self, Event::Tracepoint { .. })
    }

    /// Counts from now on.
    ///
    /// # Errors
    /// What the system refuses; see [`explain`].
    pub fn count(&self, place: Place<'_>) -> io::Result<Counter> {
        self.open(place, false)
    }

    /// Counts from now on, and writes down when it happened, into a ring of
    /// `ring_bytes`, a power of two.
    ///
    /// # Errors
    /// What the system refuses; `InvalidInput` for what new threads inherit, whose
    /// rings nobody would read.
    pub fn log(&self, place: Place<'_>, ring_bytes: usize) -> io::Result<EventLog> {
        let inherited = matches!(place, Place::Thread { inherit: true, .. });
        if inherited && self.inheritable() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let sampler = self.open(place, true)?.sampled(ring_bytes)?;
        Ok(EventLog { sampler })
    }

    fn open(&self, place: Place<'_>, log: bool) -> io::Result<Counter> {
        if let Event::Uprobe { file, offset } = self {
            check(file, *offset)?;
        }
        // The event holds the address of this text until the counter is open.
        let (path, id) = match self {
            Event::Uprobe { file, .. } => (CString::new(file.as_os_str().as_bytes())?, 0),
            Event::Tracepoint { id } => (CString::default(), *id),
        };
        let mut builder = Builder::new(Tracepoint::with_id(id));
        if log {
            write_down(&mut builder);
        }
        if let Event::Uprobe { offset, .. } = self {
            // The library's own uprobe event cannot be given to its builder.
            let attributes = builder.attrs_mut();
            attributes.type_ = event_source(here(), "uprobe").map_err(io::Error::other)?;
            attributes.config = 0;
            attributes.uprobe_path = path.as_ptr() as usize as u64;
            attributes.probe_offset = *offset;
        }
        // Tracepoints are passed in the kernel; without this nothing counts.
        builder.include_kernel().enabled(true);
        match place {
            Place::Thread { id, inherit } => builder
                .observe_pid(id)
                .any_cpu()
                .inherit(inherit && self.inheritable()),
            Place::Cpu(cpu) => builder.any_pid().one_cpu(cpu),
            Place::Cgroup(directory, cpu) => builder.observe_cgroup(directory).one_cpu(cpu),
        };
        let counter = builder.build();
        drop(path);
        counter
    }
}

/// A probe would change what the program does.
#[derive(Debug, thiserror::Error)]
#[error(
    "it begins with an instruction that the kernel would take for another one when it is probed \
     (AVX, or other vector code), so that the program would compute something else; name another \
     function"
)]
struct Mistaken;

/// Refuses to probe what the kernel would not execute as it is.
fn check(file: &Path, offset: u64) -> io::Result<()> {
    let mut code = [0; LONGEST_INSTRUCTION];
    let read = File::open(file)?.read_at(&mut code, offset)?;
    match is_mistaken(&code[..read]) {
        true => Err(io::Error::new(io::ErrorKind::Unsupported, Mistaken)),
        false => Ok(()),
    }
}

/// Bytes of an instruction at most.
const LONGEST_INSTRUCTION: usize = 15;

/// Whether the kernel takes the instruction that `code` begins with for another one when it
/// is probed, and imitates that. On x86-64 it looks at the byte of the operation alone,
/// whichever table of operations a VEX, EVEX or XOP prefix selects: `vpbroadcastb` (7a) of
/// `memset` becomes a conditional jump, and a move to memory (7f) too. In Linux 6.18 1,000 of
/// 1,000 such instructions were not executed while they were probed. Neither is `xchg` with
/// r8, whose byte is that of `nop`. REX2 is newer than most kernels.
pub fn is_mistaken(code: &[u8]) -> bool {
    const PREFIXES: [u8; 11] = [
        0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3,
    ];
    let prefixes = code.iter().take_while(|byte| PREFIXES.contains(byte));
    let rest = &code[prefixes.count()..];
    cfg!(target_arch = "x86_64")
        && match rest {
            [0x62 | 0xc4 | 0xc5 | 0xd5, ..] => true,
            // Else a pop.
            [0x8f, tables, ..] => tables & 0x1f >= 8,
            [0x40..=0x4f, 0x90, ..] => rest[0] & 1 == 1,
            _ => false,
        }
}

/// Has every occurrence written down with its process and its time.
fn write_down(builder: &mut Builder<'_>) {
    builder
        .sample(SampleFlag::TID | SampleFlag::TIME)
        .sample_period(1)
        .clockid(Clock::MONOTONIC);
}

/// When an event happened, again and again. Reading it interrupts nobody, where
/// reading the count of another CPU takes 9 to 20 µs of both (2-vCPU VMs).
pub struct EventLog {
    sampler: Sampler,
}

/// Some of a log was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// Types of records: lost ones, and a sample (`PERF_RECORD_LOST`,
/// `PERF_RECORD_LOST_SAMPLES`, `PERF_RECORD_SAMPLE`).
const LOST: [u32; 2] = [2, 13];
const SAMPLE: u32 = 9;

impl EventLog {
    /// Adds the times since the last call to `times`, on CLOCK_MONOTONIC, and the processes
    /// to `callers`.
    ///
    /// # Errors
    /// When the ring was full in the meantime.
    pub fn take(&mut self, times: &mut Vec<u64>, callers: &mut BTreeSet<i32>) -> Result<(), Lost> {
        let mut lost = false;
        let mut before = None;
        while let Some(record) = self.sampler.next_record() {
            let is_sample = record.ty() == SAMPLE;
            // Process and thread, 4 bytes each, and the time.
            match record.to_contiguous().as_chunks::<8>().0 {
                [[a, b, c, d, ..], time, ..] if is_sample => {
                    times.push(u64::from_ne_bytes(*time));
                    let process = i32::from_ne_bytes([*a, *b, *c, *d]);
                    if before != Some(process) {
                        callers.insert(process);
                        before = Some(process);
                    }
                }
                _ => lost |= is_sample || LOST.contains(&record.ty()),
            }
        }
        if lost { Err(Lost) } else { Ok(()) }
    }

    /// How often it happened.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&mut self) -> io::Result<u64> {
        self.sampler.as_counter_mut().read()
    }

    pub fn counter(&self) -> &Counter {
        self.sampler.as_counter()
    }
}

/// How many breakpoints a thread can have at once.
pub const BREAKPOINTS: usize = 4;

/// Counts how often `thread` executes the instruction at `address`, by a
/// breakpoint of the CPU: opened and closed within microseconds, where closing a
/// uprobe makes the kernel wait for all others (60 to 150 ms in a 2-vCPU VM).
///
/// # Errors
/// What the system refuses: no breakpoint is free, or there are none.
pub fn breakpoint(thread: i32, address: u64) -> io::Result<Counter> {
    open_breakpoint(thread, address, false)
}

/// The same, and when it was executed, in a ring of `ring_bytes`, a power of two.
///
/// # Errors
/// As [`breakpoint`].
pub fn breakpoint_log(thread: i32, address: u64, ring_bytes: usize) -> io::Result<EventLog> {
    let sampler = open_breakpoint(thread, address, true)?.sampled(ring_bytes)?;
    Ok(EventLog { sampler })
}

fn open_breakpoint(thread: i32, address: u64, log: bool) -> io::Result<Counter> {
    let open = || {
        let mut builder = Builder::new(Breakpoint::execute(address));
        if log {
            write_down(&mut builder);
        }
        builder.enabled(true).observe_pid(thread).any_cpu().build()
    };
    let deadline = Instant::now() + UNTIL_CLOSED;
    loop {
        match open() {
            Err(error) if is_taken(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_micros(500));
            }
            opened => return opened,
        }
    }
}

/// For how long a breakpoint that was just closed may stay taken: a process that is
/// forked meanwhile has it open until it starts its program.
const UNTIL_CLOSED: Duration = Duration::from_millis(100);

/// Whether all breakpoints of a thread are in use.
fn is_taken(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOSPC)
}

/// Why a breakpoint was refused.
pub fn why_no_breakpoint(error: &io::Error) -> String {
    match is_taken(error) {
        true => "all of them are in use; is a debugger attached to it?".into(),
        false => error.to_string(),
    }
}

/// Counts the CPU time of `thread` in nanoseconds, exact at any instant: the
/// clock of another process lags behind by up to a tick.
///
/// # Errors
/// What the system refuses.
pub fn cpu_time(thread: i32) -> io::Result<Counter> {
    Builder::new(Software::TASK_CLOCK)
        .include_kernel()
        .enabled(true)
        .observe_pid(thread)
        .any_cpu()
        .build()
}

/// Closes counters without waiting for them.
pub fn close_later<T: Send + 'static>(counters: Vec<T>) {
    if !counters.is_empty() {
        // Where no thread can be started the closure, and with it the counters,
        // is dropped here.
        let _ = std::thread::Builder::new()
            .name("close-counters".into())
            .spawn(move || drop(counters));
    }
}

/// Why an event cannot be counted, in words, and what to change.
pub fn explain(event: &Event, error: &io::Error) -> String {
    let file = match event {
        Event::Uprobe { file, .. } => file.display().to_string(),
        Event::Tracepoint { .. } => String::new(),
    };
    match (event, error.raw_os_error()) {
        (Event::Uprobe { .. }, None) if error.kind() == io::ErrorKind::Unsupported => {
            format!("this function in {file} cannot be probed: {error}")
        }
        (Event::Uprobe { .. }, Some(libc::EACCES | libc::EPERM)) => {
            "probing functions needs root or CAP_PERFMON and CAP_SYS_ADMIN: run jostle with sudo"
                .into()
        }
        (Event::Tracepoint { .. }, Some(libc::EACCES | libc::EPERM)) => format!(
            "tracepoints are forbidden: kernel.perf_event_paranoid is {}; run jostle as root, \
             grant CAP_PERFMON, or set it to -1 (sysctl -w kernel.perf_event_paranoid=-1)",
            super::perf::paranoid()
        ),
        (Event::Uprobe { .. }, Some(libc::ENOENT)) if !Path::new(&file).exists() => {
            format!("{file} is gone")
        }
        (Event::Uprobe { .. }, None | Some(libc::ENOENT | libc::ENODEV)) => {
            format!("this kernel offers no uprobes (/sys/bus/event_source/devices/uprobe): {error}")
        }
        (Event::Uprobe { .. }, Some(libc::EIO | libc::EINVAL)) => format!(
            "the kernel cannot probe {file} (it must lie on an ordinary file system): {error}"
        ),
        (Event::Uprobe { .. }, Some(libc::EOPNOTSUPP)) => {
            format!("the kernel cannot probe the first instruction of this function in {file}")
        }
        (_, Some(libc::ENOSYS)) => {
            "this kernel or sandbox has no perf_event_open system call".into()
        }
        (_, Some(libc::EMFILE)) => {
            "too many open files for one counter per thread: raise `ulimit -n`".into()
        }
        _ => format!("perf_event_open failed: {error}"),
    }
}

/// Whether the kernel imitates the instruction that `code` begins with: a push,
/// a nop, a direct call or jump.
pub fn is_cheap(code: &[u8]) -> bool {
    cfg!(target_arch = "x86_64")
        && matches!(
            code,
            [0x50..=0x57 | 0x70..=0x7f | 0x90 | 0xe8 | 0xe9 | 0xeb, ..]
                | [0x41, 0x50..=0x57, ..]
                | [0x0f, 0x80..=0x8f, ..]
        )
}

/// Functions to be called in [`uprobe_cost`]. What a probe costs depends on the
/// first instruction: one that the kernel cannot imitate is executed apart and
/// trapped a second time, which a virtual machine can make twenty times dearer.
#[cfg(target_arch = "x86_64")]
mod called {
    use std::arch::naked_asm;

    // SAFETY: keeps the C calling convention: the stack is as it was, and only
    // rax, which the caller does not rely on, may change.
    #[unsafe(naked)]
    pub(super) extern "C" fn push() {
        naked_asm!("push rax", "pop rax", "ret")
    }

    // SAFETY: a landing mark that does nothing, and a return.
    #[unsafe(naked)]
    pub(super) extern "C" fn mark() {
        naked_asm!("endbr64", "ret")
    }

    // SAFETY: changes only rax, which the caller does not rely on.
    #[unsafe(naked)]
    pub(super) extern "C" fn other() {
        naked_asm!("lea eax, [rdi + 1]", "ret")
    }

    /// The one that begins like `code`.
    pub(super) fn like(code: &[u8]) -> extern "C" fn() {
        match code {
            [0x50..=0x57, ..] | [0x41, 0x50..=0x57, ..] => push,
            [0xf3, 0x0f, 0x1e, 0xfa, ..] => mark,
            _ => other,
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod called {
    #[inline(never)]
    extern "C" fn any() {
        std::hint::black_box(0);
    }

    pub(super) fn like(_code: &[u8]) -> extern "C" fn() {
        any
    }
}

/// Calls of the own function that are timed.
const CALLS: u32 = 500;

/// Times each thing is timed; the fastest is the least disturbed.
const ROUNDS: u64 = 5;

/// CPU time of this thread that `work` takes, the fastest of some rounds.
pub fn fastest(work: impl Fn()) -> Duration {
    let round = || {
        let begin = thread_cpu_ns();
        work();
        Duration::from_nanos(thread_cpu_ns() - begin)
    };
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default()
}

/// What a breakpoint adds to one execution of an instruction here.
///
/// # Errors
/// Why there are none, in words.
pub fn breakpoint_cost() -> Result<Duration, String> {
    let function = called::like(&[]);
    let address = function as *const () as usize as u64;
    let round = || {
        for _ in 0..CALLS / 5 {
            std::hint::black_box(function)();
        }
    };
    let without = fastest(round);
    let refused = |error: io::Error| format!("breakpoints of the CPU cannot be counted: {error}");
    tracer::survive_own();
    let mut counter = breakpoint(0, address).map_err(refused)?;
    let with = fastest(round);
    let counted = counter.read().map_err(refused)?;
    let made = u64::from(CALLS / 5) * ROUNDS;
    // An interrupt that comes with one may have it seen twice: 501 of 500 once.
    match counted.abs_diff(made) <= made / 50 {
        true => Ok(with.saturating_sub(without) / (CALLS / 5)),
        false => Err(format!(
            "breakpoints of the CPU counted {counted} of {made} calls of jostle's own function"
        )),
    }
}

/// What a probe adds to one call of a function here: a function of our own that
/// begins like `code`, called with and without one.
///
/// # Errors
/// Why it cannot be probed, in words.
pub fn uprobe_cost(code: &[u8]) -> Result<Duration, String> {
    let function = called::like(code);
    let address = function as *const () as usize as u64;
    let maps = MemoryMaps::from_file("/proc/self/maps").map_err(|error| error.to_string())?;
    let offset = maps
        .iter()
        .find(|map| (map.address.0..map.address.1).contains(&address))
        .map(|map| address - map.address.0 + map.offset)
        .ok_or("jostle's own code is not mapped from a file")?;
    let event = Event::Uprobe {
        file: "/proc/self/exe".into(),
        offset,
    };
    let round = || {
        for _ in 0..CALLS {
            std::hint::black_box(function)();
        }
    };
    let without = fastest(round);
    let here = Place::Thread {
        id: 0,
        inherit: false,
    };
    let mut counter = event.count(here).map_err(|error| explain(&event, &error))?;
    let with = fastest(round);
    let counted = counter.read().map_err(|error| error.to_string())?;
    close_later(vec![counter]);
    let made = u64::from(CALLS) * ROUNDS;
    // Another thread may be here too, but it is not the one that is counted.
    if counted != made {
        return Err(format!(
            "a probe counted {counted} of {made} calls of jostle's own function"
        ));
    }
    Ok(with.saturating_sub(without) / CALLS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::monotonic_ns;

    #[test]
    fn errors_are_explained() {
        let uprobe = Event::Uprobe {
            file: "/bin/sh".into(),
            offset: 0,
        };
        let tracepoint = Event::Tracepoint { id: 1 };
        let words = |event, errno| explain(event, &io::Error::from_raw_os_error(errno));
        assert!(words(&uprobe, libc::EACCES).contains("root"));
        assert!(words(&uprobe, libc::EIO).contains("/bin/sh"));
        assert!(words(&uprobe, libc::ENODEV).contains("no uprobes"));
        assert!(words(&tracepoint, libc::EPERM).contains("perf_event_paranoid is "));
        assert!(words(&tracepoint, libc::EMFILE).contains("ulimit"));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn instructions_that_the_kernel_would_change_are_not_probed() {
        // vpbroadcastb of memset, vpcmpeqb, vmovdqu to memory, one of XOP, push with REX2,
        // xchg with r8, and one behind a prefix.
        let mistaken: [&[u8]; 7] = [
            &[0x62, 0xe2, 0x7d, 0x48, 0x7a, 0xc6],
            &[0xc5, 0xfd, 0x74, 0xc1],
            &[0xc4, 0xc1, 0x7e, 0x7f, 0x00],
            &[0x8f, 0xe8, 0x78, 0xa2, 0xc1, 0x00],
            &[0xd5, 0x10, 0x50],
            &[0x49, 0x90],
            &[0x65, 0xc5, 0xfe, 0x6f, 0x00],
        ];
        // push, pop, endbr64, nops, movdqu, a jump and a jump with a long distance.
        let executed: [&[u8]; 9] = [
            &[0x55],
            &[0x8f, 0xc0],
            &[0xf3, 0x0f, 0x1e, 0xfa],
            &[0x90],
            &[0x66, 0x90],
            &[0x48, 0x90],
            &[0xf3, 0x0f, 0x6f, 0x06],
            &[0x74, 0x10],
            &[0x0f, 0x84, 0, 0, 0, 0],
        ];
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = |code: &[u8]| {
            std::fs::write(file.path(), code).unwrap();
            check(file.path(), 0).is_err()
        };
        for code in mistaken {
            assert!(is_mistaken(code) && refused(code), "{code:x?}");
        }
        for code in executed {
            assert!(!is_mistaken(code) && !refused(code), "{code:x?}");
        }
        std::fs::write(file.path(), mistaken[0]).unwrap();
        let event = Event::Uprobe {
            file: file.path().into(),
            offset: 0,
        };
        let place = Place::Thread {
            id: 0,
            inherit: false,
        };
        let error = event.count(place).err().unwrap();
        assert!(explain(&event, &error).contains("name another function"));
    }

    #[inline(never)]
    extern "C" fn happens() {
        std::hint::black_box(1);
    }

    #[test]
    fn it_is_written_down_when_something_happens() {
        let address = happens as *const () as usize as u64;
        let log = breakpoint_log(0, address, 4096);
        let Some(mut log) = crate::skip::have("perf", log) else {
            return;
        };
        let (mut times, mut callers) = (Vec::new(), BTreeSet::new());
        let begin = monotonic_ns();
        for _ in 0..3 {
            for _ in 0..20 {
                std::hint::black_box(happens as extern "C" fn())();
            }
            log.take(&mut times, &mut callers).unwrap();
        }
        let end = monotonic_ns();
        assert_eq!((times.len() as u64, log.read().unwrap()), (60, 60));
        assert!(times.is_sorted() && begin <= times[0] && times[59] <= end);
        assert_eq!(Vec::from_iter(callers), [std::process::id() as i32]);
        let mut callers = BTreeSet::new();
        // More than the ring holds.
        for _ in 0..1000 {
            std::hint::black_box(happens as extern "C" fn())();
        }
        // What did not fit is told with the next that does.
        let first = log.take(&mut times, &mut callers);
        std::hint::black_box(happens as extern "C" fn())();
        assert_eq!(first.and(log.take(&mut times, &mut callers)), Err(Lost));
        // Nobody would read what a new thread inherits.
        let event = Event::Tracepoint { id: 1 };
        let inherited = Place::Thread {
            id: 0,
            inherit: true,
        };
        let refused = event.log(inherited, 4096).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn the_cost_of_a_probe_is_measured() {
        for code in [&[0x55][..], &[0xf3, 0x0f, 0x1e, 0xfa], &[0x8d]] {
            if let Some(cost) = crate::skip::have("uprobe", uprobe_cost(code)) {
                assert!(cost > Duration::from_nanos(50), "{code:x?}: {cost:?}");
            }
        }
    }
}
