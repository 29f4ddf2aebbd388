//! The pages a target shares with us, and we with the guard.

use crate::sys::shared::Shared;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;

/// What a program publishes so that the metric `progress` can read it: a memfd
/// named `jostle-progress`, at least 4096 bytes long, sealed with
/// `F_SEAL_SHRINK`, and kept open; this struct stands at its start, in native
/// byte order.
///
/// A publisher fills in everything else first and stores `magic` last.
#[repr(C)]
#[derive(Default)]
pub struct ProgressPage {
    /// [`ProgressPage::MAGIC`] once the page may be read.
    pub magic: AtomicU64,
    /// [`ProgressPage::VERSION`].
    pub version: AtomicU64,
    /// Operations done since the start; only ever grows.
    pub operations: AtomicU64,
    /// Nanoseconds of `clock` spent on them; 0 throughout if not kept. Stored
    /// right after `operations`, so that a reader finds what belongs together.
    pub busy_ns: AtomicU64,
    /// Which time performance is counted by: 0 wall time, 1 the CPU time that
    /// `busy_ns` holds.
    pub clock: AtomicU64,
}

impl ProgressPage {
    /// Name of the memfd.
    pub const NAME: &'static str = "jostle-progress";
    /// `JOSTLEPG` read as a big-endian number.
    pub const MAGIC: u64 = 0x4a4f_5354_4c45_5047;
    pub const VERSION: u64 = 1;
    pub const CLOCK_WALL: u64 = 0;
    pub const CLOCK_CPU: u64 = 1;

    /// Operations and busy nanoseconds, of one moment where nothing moved in
    /// between: a publisher too quick for that costs one batch of precision.
    pub fn read(&self) -> (u64, u64) {
        let mut busy = self.busy_ns.load(Acquire);
        for _ in 0..8 {
            let operations = self.operations.load(Acquire);
            let again = self.busy_ns.load(Acquire);
            if again == busy {
                return (operations, busy);
            }
            busy = again;
        }
        (self.operations.load(Acquire), busy)
    }
}

// SAFETY: `repr(C)`, atomics only, all-zero is valid.
unsafe impl Shared for ProgressPage {}

/// What the guard has to do when the profiler is suddenly gone.
#[repr(C)]
pub struct GuardPage {
    /// One of the constants below.
    pub duty: AtomicU64,
    /// Process group of a hook that runs, 0 for none; for
    /// [`GuardPage::TEAR_DOWN`].
    pub group: AtomicU64,
    /// Process to wait for before the tear-down, 0 for none.
    pub awaited: AtomicU64,
    /// Entries of `processes` in use.
    pub count: AtomicU64,
    /// For [`GuardPage::CONTINUE`], processes that we stopped: pid, then start
    /// time in clock ticks since boot (which tells a process from a later one
    /// with the same pid). For [`GuardPage::END_GROUPS`], process groups.
    pub processes: [[AtomicU64; 2]; GuardPage::CAPACITY],
    /// Kind of the freezer that holds a cgroup: 0 for none, else 1 or 2 for the
    /// cgroup version.
    pub freezer: AtomicU64,
    /// Bytes of `directory` in use.
    pub length: AtomicU64,
    /// The frozen cgroup.
    pub directory: [AtomicU8; GuardPage::LONGEST_PATH],
}

impl GuardPage {
    pub const NAME: &'static str = "jostle-guard";
    /// Most processes of an attached target that can be stopped together by
    /// signals.
    pub const CAPACITY: usize = 16_384;
    /// `PATH_MAX`.
    pub const LONGEST_PATH: usize = 4096;
    pub const NOTHING: u64 = 0;
    /// We started the target: end its groups and what carries its marker.
    pub const END_GROUPS: u64 = 1;
    /// We attached to it: thaw and let go on whatever we froze or stopped.
    pub const CONTINUE: u64 = 2;
    /// Hooks were begun: end the one that runs, and tear down.
    pub const TEAR_DOWN: u64 = 3;
}

// SAFETY: `repr(C)`, atomics only, all-zero is valid.
unsafe impl Shared for GuardPage {}
