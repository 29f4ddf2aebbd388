//! Keeps a CPU from falling asleep between two turns.
//!
//! A CPU without work is halted, which in a virtual machine hands it to somebody else:
//! a build that is woken then finds cold caches. So a thread that yields to everybody
//! spins wherever nobody's turn is.

use jostle_host::sys::cpus;
use jostle_host::sys::sched;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::Ordering::Release;
use std::thread::JoinHandle;

const PARKED: u8 = 0;
const SPINNING: u8 = 1;
const OVER: u8 = 2;
/// Spins between two looks.
const SPINS: u32 = 50;

pub(super) struct Awake {
    state: Arc<AtomicU8>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// On each of `cpus`, where the system allows such a thread.
    pub(super) fn new(cpus: &[usize]) -> Awake {
        let state = Arc::new(AtomicU8::new(PARKED));
        let threads = cpus.iter().filter_map(|cpu| {
            let (cpu, state) = (*cpu, state.clone());
            let thread = std::thread::Builder::new().name("awake".into());
            thread.spawn(move || keep(cpu, &state)).ok()
        });
        Awake {
            threads: threads.collect(),
            state,
        }
    }

    /// Nobody's turn is.
    pub(super) fn spin(&self) {
        self.state.store(SPINNING, Release);
        self.threads.iter().for_each(|it| it.thread().unpark());
    }

    /// Whose turn it is decides whether the CPU sleeps.
    pub(super) fn rest(&self) {
        self.state.store(PARKED, Release);
    }
}

fn keep(cpu: usize, state: &AtomicU8) {
    // Without both it would take the CPU away from the builds.
    if sched::yield_cpu().is_err() || cpus::set_affinity(0, &[cpu]).is_err() {
        return;
    }
    loop {
        match state.load(Acquire) {
            OVER => return,
            SPINNING => (0..SPINS).for_each(|_| std::hint::spin_loop()),
            _ => std::thread::park(),
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.state.store(OVER, Release);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
