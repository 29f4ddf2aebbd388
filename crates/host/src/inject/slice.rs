//! The slice period: the shortest whose placebo costs no more than its share.

use crate::inject::error::WorkerError;
use crate::inject::group::WorkerGroup;
use crate::inject::plan::Limits;
use crate::inject::plan::plan;
use crate::inject::worker::Slices;
use crate::machine::Machine;
use crate::sys::clock::monotonic_ns;
use crate::sys::control_page::Order;
use crate::sys::cpus::set_affinity;
use jostle_profile::resource::Resource;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::Duration;

/// Periods tried, shortest first.
pub const PERIODS: [Duration; 5] = [
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(4),
    Duration::from_millis(8),
];

/// How far the placebo may depress a victim below the ideal share, 0–1.
pub const TOLERANCE: f64 = 0.05;

const ROUNDS: usize = 5;
const WINDOW: Duration = Duration::from_millis(16);

/// What the calibration found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SliceChoice {
    pub period: Duration,
    /// Victim speed beside the placebo, fraction of alone.
    pub victim_share: f64,
    /// False when no period kept within the tolerance and the best was taken.
    pub within_tolerance: bool,
}

/// Measures, on `cpu`, a spinning thread beside the placebo of a sliced worker
/// for each period, and picks the shortest period at which the thread keeps
/// within [`TOLERANCE`] of its ideal share 1 − `share`. Takes about a second.
///
/// # Errors
/// When the workers cannot be started within `limits`.
pub fn calibrate(
    machine: &Machine,
    cpu: usize,
    share: f64,
    limits: &Limits,
) -> Result<SliceChoice, WorkerError> {
    let limits = Limits {
        cpus: vec![cpu],
        ..limits.clone()
    };
    let victim = Victim::start(cpu)
        .map_err(|error| WorkerError::Failed(format!("no thread to be its victim: {error}")))?;
    let mut best: Option<SliceChoice> = None;
    for period in PERIODS {
        // Any source that time-shares the CPU will do: the placebo is the same.
        let slices = Slices::of(period, share);
        let plan = plan(machine, Resource::L1d, &[cpu], &limits, slices)?;
        let mut group = WorkerGroup::spawn(plan, Duration::from_secs(5))?;
        let window = WINDOW.max(period * 6);
        let mut ratios: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let mut speed = |order| {
                    group.set(order);
                    sleep(period * 2);
                    victim.speed(window)
                };
                let alone = speed(Order::Idle);
                speed(Order::Control) / alone
            })
            .collect();
        group.check_exits()?;
        ratios.sort_unstable_by(f64::total_cmp);
        let victim_share = ratios[ROUNDS / 2];
        let choice = SliceChoice {
            period,
            victim_share,
            within_tolerance: victim_share >= 1.0 - share - TOLERANCE,
        };
        if choice.within_tolerance {
            return Ok(choice);
        }
        if best.is_none_or(|best| victim_share > best.victim_share) {
            best = Some(choice);
        }
    }
    Ok(best.expect("at least one period was tried"))
}

/// A thread that counts as fast as it can on one CPU.
pub struct Victim {
    id: i32,
    state: std::sync::Arc<(AtomicU64, AtomicBool)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Victim {
    /// Starts it on `cpu`; it ends when this value is dropped.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn start(cpu: usize) -> std::io::Result<Self> {
        let state = std::sync::Arc::new((AtomicU64::new(0), AtomicBool::new(false)));
        let shared = state.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().spawn(move || {
            let _ = set_affinity(0, &[cpu]);
            let _ = tell.send(nix::unistd::gettid().as_raw());
            while !shared.1.load(Relaxed) {
                jostle_kernels::spin::spin(20);
                shared.0.fetch_add(1, Relaxed);
            }
        })?;
        let id = told.recv().map_err(std::io::Error::other)?;
        Ok(Victim {
            id,
            state,
            thread: Some(thread),
        })
    }

    /// The number of its thread.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Turns so far.
    pub fn turns(&self) -> u64 {
        self.state.0.load(Relaxed)
    }

    /// Turns per second during `window`.
    pub fn speed(&self, window: Duration) -> f64 {
        let (count, at) = (self.state.0.load(Relaxed), monotonic_ns());
        sleep(window);
        let turns = self.state.0.load(Relaxed) - count;
        turns as f64 / (monotonic_ns() - at).max(1) as f64 * 1e9
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.state.1.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
