//! The page that a target shares with us.

use crate::sys::shared::Shared;
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
