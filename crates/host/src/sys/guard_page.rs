//! The page that the profiler shares with the guard of its target.

use super::shape;
use super::shape::AtomicU8;
use super::shape::AtomicU64;
use super::shared::Shared;
use std::io;
use std::sync::atomic::Ordering::SeqCst;

/// What has to be undone when the profiler is suddenly gone, and whether it
/// still is there.
///
/// The page lies in a file, so that `jostle release` finds it when the guard
/// was killed as well.
#[repr(C)]
pub struct GuardPage {
    /// [`GuardPage::MAGIC`] once the page may be read.
    pub magic: AtomicU64,
    /// The profiler and the guard: pid, then start time in clock ticks since
    /// boot, which tells a process from a later one with the same pid.
    pub profiler: [AtomicU64; 2],
    pub guard: [AtomicU64; 2],
    /// 1 as soon as the guard watches and no signal but SIGKILL ends it.
    pub ready: AtomicU64,
    /// When the profiler last said that it runs, nanoseconds of
    /// CLOCK_MONOTONIC.
    pub renewed: AtomicU64,
    /// How often the target was released by the guard or `jostle release`.
    pub let_go: AtomicU64,
    /// How many are at it: a target may already run again whose release is not yet
    /// counted.
    pub letting_go: AtomicU64,
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
    /// time. For [`GuardPage::END_GROUPS`], the leaders of process groups.
    pub processes: [[AtomicU64; 2]; GuardPage::CAPACITY],
    /// Kind of the freezer that holds a cgroup: 0 for none, else 1 or 2 for the
    /// cgroup version.
    pub freezer: AtomicU64,
    /// The frozen cgroup.
    pub directory: Bytes<{ GuardPage::LONGEST_PATH }>,
    /// What the target's processes carry in their environment.
    pub marker: Bytes<{ GuardPage::LONGEST_MARKER }>,
    /// The boot in which all this holds, as the kernel names it.
    pub boot: Bytes<64>,
}

impl GuardPage {
    /// `JOSTLEG3` read as a big-endian number.
    pub const MAGIC: u64 = 0x4a4f_5354_4c45_4733;
    /// Most processes of an attached target that can be stopped together by
    /// signals.
    pub const CAPACITY: usize = shape::PROCESSES;
    pub const LONGEST_PATH: usize = shape::PATH;
    pub const LONGEST_MARKER: usize = shape::MARKER;
    pub const NOTHING: u64 = 0;
    /// We started the target: end its groups and what carries its marker.
    pub const END_GROUPS: u64 = 1;
    /// We attached to it: thaw or resume whatever we froze or stopped.
    pub const CONTINUE: u64 = 2;
    /// Hooks were begun: end the one that runs, and tear down.
    pub const TEAR_DOWN: u64 = 3;

    /// Releases the target by `resume`, and counts that where it succeeds: a profiler that
    /// was only stopped may be in the middle of holding it.
    ///
    /// # Errors
    /// Those of `resume`.
    pub fn release(&self, resume: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.letting_go.fetch_add(1, SeqCst);
        let resumed = resume();
        if resumed.is_ok() {
            self.let_go.fetch_add(1, SeqCst);
        }
        self.letting_go.fetch_sub(1, SeqCst);
        resumed
    }

    /// How often the target was released; `None` while somebody is at it.
    pub fn releases(&self) -> Option<u64> {
        let nobody = self.letting_go.load(SeqCst) == 0;
        nobody.then(|| self.let_go.load(SeqCst))
    }
}

/// As a new page is.
impl Default for GuardPage {
    fn default() -> GuardPage {
        let zero = || AtomicU64::new(0);
        let pair = || [zero(), zero()];
        GuardPage {
            magic: zero(),
            profiler: pair(),
            guard: pair(),
            ready: zero(),
            renewed: zero(),
            let_go: zero(),
            letting_go: zero(),
            duty: zero(),
            group: zero(),
            awaited: zero(),
            count: zero(),
            processes: std::array::from_fn(|_| pair()),
            freezer: zero(),
            directory: Bytes::default(),
            marker: Bytes::default(),
            boot: Bytes::default(),
        }
    }
}

// SAFETY: `repr(C)`, atomics only, all-zero is valid.
unsafe impl Shared for GuardPage {}

/// Up to `N` bytes.
#[repr(C)]
pub struct Bytes<const N: usize> {
    length: AtomicU64,
    bytes: [AtomicU8; N],
}

impl<const N: usize> Default for Bytes<N> {
    fn default() -> Self {
        Bytes {
            length: AtomicU64::new(0),
            bytes: std::array::from_fn(|_| AtomicU8::new(0)),
        }
    }
}

impl<const N: usize> Bytes<N> {
    /// False, and nothing is changed, when there are too many.
    pub fn set(&self, bytes: &[u8]) -> bool {
        if bytes.len() > N {
            return false;
        }
        for (slot, &byte) in self.bytes.iter().zip(bytes) {
            slot.store(byte, SeqCst);
        }
        self.length.store(bytes.len() as u64, SeqCst);
        true
    }

    pub fn get(&self) -> Vec<u8> {
        let length = self.length.load(SeqCst) as usize;
        let used = self.bytes.iter().take(length);
        used.map(|byte| byte.load(SeqCst)).collect()
    }
}
