//! The page through which the profiler steers a worker and reads what it did.

use super::shape::AtomicU8;
use super::shape::AtomicU32;
use super::shape::AtomicU64;
use super::shape::ENGINE;
use super::shape::MESSAGE;
use super::shared::Shared;
use jostle_kernels::DeviceTraffic;
use std::marker::PhantomData;
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
    /// Use what this intensity holds, as a victim: with a CPU of its own only.
    Probe(f64),
}

impl Order {
    /// The intensity, where there is one.
    pub fn intensity(self) -> Option<f64> {
        match self {
            Order::Treat(percent) | Order::TreatAlone(percent) | Order::Probe(percent) => {
                Some(percent)
            }
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
            Order::Probe(percent) => (5, percent.clamp(0.0, 100.0)),
        };
        let intensity = (intensity * 10_000.0).round() as u64;
        Command(state | (u64::from(sequence) & 0x1fff_ffff) << 3 | intensity << 32)
    }

    /// The number that tells repeats of an order apart.
    pub fn sequence(self) -> u32 {
        (self.0 >> 3) as u32 & 0x1fff_ffff
    }

    pub fn order(self) -> Order {
        let intensity = (self.0 >> 32) as f64 / 10_000.0;
        match self.0 & 7 {
            0 => Order::Park,
            1 => Order::Idle,
            2 => Order::Control,
            3 => Order::Treat(intensity),
            4 => Order::TreatAlone(intensity),
            _ => Order::Probe(intensity),
        }
    }
}

/// What fits in one word of the page, and how; zero stands for a value.
pub trait Plain: Sized {
    const TO_WORD: fn(Self) -> u64;
    const FROM_WORD: fn(u64) -> Self;
}

impl Plain for u64 {
    const TO_WORD: fn(u64) -> u64 = |value| value;
    const FROM_WORD: fn(u64) -> u64 = |word| word;
}

impl Plain for f64 {
    const TO_WORD: fn(f64) -> u64 = f64::to_bits;
    const FROM_WORD: fn(u64) -> f64 = f64::from_bits;
}

impl Plain for bool {
    const TO_WORD: fn(bool) -> u64 = u64::from;
    const FROM_WORD: fn(u64) -> bool = |word| word != 0;
}

impl Plain for Command {
    const TO_WORD: fn(Command) -> u64 = |command| command.0;
    const FROM_WORD: fn(u64) -> Command = Command;
}

/// One word of the page, written by one side and read by the other. Whoever
/// reads a value also sees what was written before it.
#[repr(transparent)]
pub struct Word<T>(AtomicU64, PhantomData<T>);

impl<T> Default for Word<T> {
    fn default() -> Self {
        Word(AtomicU64::new(0), PhantomData)
    }
}

impl<T: Plain> Word<T> {
    pub fn set(&self, value: T) {
        self.0.store(T::TO_WORD(value), Release);
    }

    pub fn get(&self) -> T {
        T::FROM_WORD(self.0.load(Acquire))
    }
}

impl Word<u64> {
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }
}

/// One page per worker. All counters only grow.
#[repr(C, align(4096))]
#[derive(Default)]
pub struct ControlPage {
    // Written by the profiler.
    pub command: Word<Command>,
    /// Peak of this worker, operations per second, that intensity refers to; 0
    /// until it was measured.
    pub peak: Word<f64>,
    /// Whether 100 % is held to the peak as lower intensities are, or goes as
    /// fast as it can.
    pub held_at_peak: Word<bool>,
    _profiler: [u64; 5],
    // Written by the worker.
    /// The command that is fully in force.
    pub applied: Word<Command>,
    /// Whether the worker waits for orders.
    pub ready: Word<bool>,
    failed: Word<bool>,
    pub heartbeat: Word<u64>,
    /// Operations done while treating.
    pub operations: Word<u64>,
    /// CPU time used while treating, nanoseconds.
    pub active_ns: Word<u64>,
    /// What is held now, in the resource's unit.
    pub held: Word<u64>,
    /// What is held at 100 %, in the same unit; 0 for workers that hold nothing.
    pub holds_at_most: Word<u64>,
    /// Peak of a source to which it is given, operations per second; 0 for
    /// those whose peak is measured.
    pub own_peak: Word<f64>,
    /// What passed between the worker and its device.
    requests: Word<u64>,
    behind_ns: Word<u64>,
    message: Text<MESSAGE>,
    engine: Text<ENGINE>,
}

/// A text that is written once, before a flag says that it is there.
#[repr(C)]
struct Text<const BYTES: usize> {
    length: AtomicU32,
    bytes: [AtomicU8; BYTES],
}

impl<const BYTES: usize> Default for Text<BYTES> {
    fn default() -> Self {
        Text {
            length: AtomicU32::new(0),
            bytes: std::array::from_fn(|_| AtomicU8::new(0)),
        }
    }
}

impl<const BYTES: usize> Text<BYTES> {
    /// Keeps as much of `text` as there is room for.
    fn set(&self, text: &str) {
        let fits = |end: &usize| text.is_char_boundary(*end);
        let end = (0..=text.len().min(BYTES)).rfind(fits).unwrap_or(0);
        for (slot, byte) in self.bytes.iter().zip(&text.as_bytes()[..end]) {
            slot.store(*byte, Relaxed);
        }
        self.length.store(end as u32, Release);
    }

    fn get(&self) -> String {
        let length = (self.length.load(Acquire) as usize).min(BYTES);
        let bytes = self.bytes[..length].iter().map(|slot| slot.load(Relaxed));
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
    }
}

// SAFETY: atomics and unread padding only, `repr(C)`, and zero is valid.
unsafe impl Shared for ControlPage {}

impl ControlPage {
    /// Says why the worker ends. The first reason stands.
    pub fn fail(&self, reason: &str) {
        if !self.failed.get() {
            self.message.set(reason);
            self.failed.set(true);
        }
    }

    /// The reason given by [`ControlPage::fail`].
    pub fn failure(&self) -> Option<String> {
        self.failed.get().then(|| self.message.get())
    }

    /// Replaces what passed between the worker and its device.
    pub fn set_traffic(&self, traffic: DeviceTraffic) {
        self.requests.set(traffic.requests);
        self.behind_ns.set(traffic.behind_ns);
    }

    pub fn traffic(&self) -> DeviceTraffic {
        DeviceTraffic {
            requests: self.requests.get(),
            behind_ns: self.behind_ns.get(),
        }
    }

    /// Says what carries the worker's operations, before it is ready.
    pub fn set_engine(&self, engine: &str) {
        self.engine.set(engine);
    }

    /// What carries the worker's operations, where machines differ in that.
    pub fn engine(&self) -> Option<String> {
        Some(self.engine.get()).filter(|engine| !engine.is_empty())
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
            Order::Probe(50.0),
        ] {
            assert_eq!(Command::new(order, 77).order(), order);
        }
        assert_ne!(Command::new(Order::Idle, 1), Command::new(Order::Idle, 2));
    }

    #[test]
    fn a_fresh_page_is_parked_and_failures_keep_their_words() {
        let page: SharedPage<ControlPage> = SharedPage::create("test").unwrap();
        assert_eq!(page.command.get().order(), Order::Park);
        assert_eq!(page.failure(), None);
        page.fail(&"é".repeat(800));
        assert_eq!(page.failure().unwrap(), "é".repeat(512));
        page.fail("a later reason");
        assert_eq!(page.failure().unwrap(), "é".repeat(512));
    }
}
