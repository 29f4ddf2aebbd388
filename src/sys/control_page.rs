//! The page through which the profiler steers a worker and reads what it did.

use super::shared::Shared;
use jostle_kernels::DeviceTraffic;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::Release;

/// What a worker is asked to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// Sleep, and look at the page every few milliseconds.
    Park,
    /// Sleep, and look often enough to follow a switch at once.
    Idle,
    /// The placebo.
    Control,
    /// Press at this intensity, percent.
    Treat(f64),
    /// The same while the target is stopped: the gaps between slices are spun
    /// away in registers. A CPU left idle may sleep so deeply, or be given away
    /// by a hypervisor for so long, that its caches are lost; then the source
    /// alone would look as slow as beside the worst neighbour.
    TreatAlone(f64),
}

impl Order {
    /// The intensity, where there is one.
    pub fn intensity(self) -> Option<f64> {
        match self {
            Order::Treat(percent) | Order::TreatAlone(percent) => Some(percent),
            _ => None,
        }
    }
}

/// An order as one word, so that a switch is one store: three bits of state, a
/// sequence number that tells repeats apart, the intensity in 1/10,000 percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command(u64);

impl Command {
    pub fn new(order: Order, sequence: u32) -> Self {
        let (state, intensity) = match order {
            Order::Park => (0, 0.0),
            Order::Idle => (1, 0.0),
            Order::Control => (2, 0.0),
            Order::Treat(percent) => (3, percent.clamp(0.0, 100.0)),
            Order::TreatAlone(percent) => (4, percent.clamp(0.0, 100.0)),
        };
        let intensity = (intensity * 10_000.0).round() as u64;
        Command(state | (u64::from(sequence) & 0x1fff_ffff) << 3 | intensity << 32)
    }

    pub fn order(self) -> Order {
        let intensity = (self.0 >> 32) as f64 / 10_000.0;
        match self.0 & 7 {
            0 => Order::Park,
            1 => Order::Idle,
            2 => Order::Control,
            3 => Order::Treat(intensity),
            _ => Order::TreatAlone(intensity),
        }
    }
}

/// One page per worker. All counters only grow.
#[repr(C, align(4096))]
pub struct ControlPage {
    // Written by the profiler.
    command: AtomicU64,
    /// Peak of this worker, operations per second, as bits of an f64.
    peak: AtomicU64,
    /// Whether 100 % is held to the peak too.
    held_at_peak: AtomicU64,
    _profiler: [u64; 5],
    // Written by the worker.
    applied: AtomicU64,
    ready: AtomicU32,
    failed: AtomicU32,
    heartbeat: AtomicU64,
    operations: AtomicU64,
    active_ns: AtomicU64,
    held: AtomicU64,
    holds_at_most: AtomicU64,
    requests: AtomicU64,
    behind_ns: AtomicU64,
    message: Text<1024>,
    engine: Text<256>,
}

/// A text that is written once, before a flag says that it is there.
#[repr(C)]
struct Text<const BYTES: usize> {
    length: AtomicU32,
    bytes: [AtomicU8; BYTES],
}

impl<const BYTES: usize> Text<BYTES> {
    /// Keeps as much of `text` as there is room for.
    fn set(&self, text: &str) {
        let mut end = text.len().min(BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        for (slot, byte) in self.bytes.iter().zip(&text.as_bytes()[..end]) {
            slot.store(*byte, Relaxed);
        }
        self.length.store(end as u32, Release);
    }

    fn get(&self) -> String {
        let length = (self.length.load(Acquire) as usize).min(BYTES);
        let bytes: Vec<u8> = self.bytes[..length]
            .iter()
            .map(|slot| slot.load(Relaxed))
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

// SAFETY: atomics and unread padding only, `repr(C)`, and zero is valid.
unsafe impl Shared for ControlPage {}

/// Counters of a worker at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub heartbeat: u64,
    /// Operations done while treating.
    pub operations: u64,
    /// CPU time used while treating, nanoseconds.
    pub active_ns: u64,
    /// What is held now, in the resource's unit.
    pub held: u64,
    /// What passed between a worker and its device.
    pub traffic: DeviceTraffic,
}

impl ControlPage {
    pub fn set_command(&self, command: Command) {
        self.command.store(command.0, Release);
    }

    pub fn command(&self) -> Command {
        Command(self.command.load(Acquire))
    }

    /// Says that `command` is fully in force.
    pub fn set_applied(&self, command: Command) {
        self.applied.store(command.0, Release);
    }

    /// The command in force, as far as the worker said.
    pub fn applied(&self) -> Command {
        Command(self.applied.load(Acquire))
    }

    /// Sets the peak, operations per second, that intensity refers to.
    pub fn set_peak(&self, operations_per_second: f64) {
        self.peak.store(operations_per_second.to_bits(), Release);
    }

    /// Whether 100 % is held to the peak as lower intensities are, or goes as
    /// fast as it can.
    pub fn hold_at_peak(&self, hold: bool) {
        self.held_at_peak.store(u64::from(hold), Release);
    }

    /// As set by [`ControlPage::hold_at_peak`]; at first false.
    pub fn held_at_peak(&self) -> bool {
        self.held_at_peak.load(Acquire) != 0
    }

    /// The peak, operations per second; 0 until it was measured.
    pub fn peak(&self) -> f64 {
        f64::from_bits(self.peak.load(Acquire))
    }

    /// Says that the worker waits for orders, and what it holds at 100 %, in
    /// the resource's unit.
    pub fn set_ready(&self, holds_at_most: u64) {
        self.holds_at_most.store(holds_at_most, Relaxed);
        self.ready.store(1, Release);
    }

    /// What the worker holds at 100 %, in the resource's unit; 0 for workers
    /// that hold nothing.
    pub fn holds_at_most(&self) -> u64 {
        self.holds_at_most.load(Relaxed)
    }

    pub fn is_ready(&self) -> bool {
        self.ready.load(Acquire) != 0
    }

    /// Says why the worker ends. The first reason stands.
    pub fn fail(&self, reason: &str) {
        if self.failed.load(Acquire) != 0 {
            return;
        }
        self.message.set(reason);
        self.failed.store(1, Release);
    }

    /// The reason given by [`ControlPage::fail`].
    pub fn failure(&self) -> Option<String> {
        (self.failed.load(Acquire) != 0).then(|| self.message.get())
    }

    pub fn beat(&self) {
        self.heartbeat.fetch_add(1, Relaxed);
    }

    /// Adds to what was done under treatment.
    pub fn add(&self, operations: u64, active_ns: u64) {
        self.operations.fetch_add(operations, Relaxed);
        self.active_ns.fetch_add(active_ns, Relaxed);
    }

    /// Replaces the count of operations by what someone else confirmed.
    pub fn set_operations(&self, operations: u64) {
        self.operations.store(operations, Relaxed);
    }

    pub fn set_held(&self, units: u64) {
        self.held.store(units, Relaxed);
    }

    /// Replaces what passed between the worker and its device.
    pub fn set_traffic(&self, traffic: DeviceTraffic) {
        self.requests.store(traffic.requests, Relaxed);
        self.behind_ns.store(traffic.behind_ns, Relaxed);
    }

    /// Says what carries the worker's operations, before it is ready.
    pub fn set_engine(&self, engine: &str) {
        self.engine.set(engine);
    }

    /// What carries the worker's operations, where machines differ in that.
    pub fn engine(&self) -> Option<String> {
        Some(self.engine.get()).filter(|engine| !engine.is_empty())
    }

    pub fn counters(&self) -> Counters {
        Counters {
            heartbeat: self.heartbeat.load(Relaxed),
            operations: self.operations.load(Relaxed),
            active_ns: self.active_ns.load(Relaxed),
            held: self.held.load(Relaxed),
            traffic: DeviceTraffic {
                requests: self.requests.load(Relaxed),
                behind_ns: self.behind_ns.load(Relaxed),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::shared::SharedPage;

    #[test]
    fn commands_round_trip() {
        for order in [
            Order::Park,
            Order::Idle,
            Order::Control,
            Order::Treat(0.0),
            Order::Treat(12.5),
            Order::Treat(100.0),
            Order::TreatAlone(50.0),
        ] {
            assert_eq!(Command::new(order, 77).order(), order);
        }
        assert_ne!(Command::new(Order::Idle, 1), Command::new(Order::Idle, 2));
    }

    #[test]
    fn a_fresh_page_is_parked_and_failures_keep_their_words() {
        let page: SharedPage<ControlPage> = SharedPage::create("test").unwrap();
        assert_eq!(page.command().order(), Order::Park);
        assert_eq!(page.failure(), None);
        page.fail(&"é".repeat(800));
        assert_eq!(page.failure().unwrap(), "é".repeat(512));
        page.fail("a later reason");
        assert_eq!(page.failure().unwrap(), "é".repeat(512));
    }
}
