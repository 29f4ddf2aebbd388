//! `kv`: an in-memory key-value store, the demo that resembles a service.

use super::Batch;
use super::Clock;
use super::Demo;
use super::DemoContext;
use super::random;
use crate::error::Result;
use std::hint::black_box;

pub const DEMO: Demo = Demo {
    name: "kv",
    about: "key-value store, 24 MiB, Zipf keys, 95 % reads; as a service would feel it",
    unit: "requests",
    clock: Clock::Wall,
    build,
    ..Demo::USUAL
};

const SLOTS: usize = 1 << 18;
/// A load of 82 %: 23 MiB of the 28 MiB table are in use.
const KEYS: u64 = 215_000;
const VALUE_BYTES: usize = 100;

#[derive(Clone, Copy)]
struct Slot {
    /// 0: free.
    key: u64,
    value: [u8; VALUE_BYTES],
}

/// Open addressing with linear probing; nothing is ever removed.
struct Store {
    slots: Vec<Slot>,
}

impl Store {
    fn new() -> Store {
        let free = Slot {
            key: 0,
            value: [0; VALUE_BYTES],
        };
        Store {
            slots: vec![free; SLOTS],
        }
    }

    fn slot(&self, key: u64) -> usize {
        let mut at = (mix(key) >> 20) as usize % SLOTS;
        while self.slots[at].key != 0 && self.slots[at].key != key {
            at = (at + 1) % SLOTS;
        }
        at
    }

    fn get(&self, key: u64) -> Option<&[u8; VALUE_BYTES]> {
        let slot = &self.slots[self.slot(key)];
        (slot.key == key).then_some(&slot.value)
    }

    fn put(&mut self, key: u64, value: &[u8; VALUE_BYTES]) {
        let at = self.slot(key);
        self.slots[at].key = key;
        self.slots[at].value = *value;
    }
}

/// The finalizer of SplitMix64: spreads popular keys over the table.
fn mix(key: u64) -> u64 {
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

/// Ranks 1..=n with probability ∝ rank^-s by rejection-inversion (Hörmann and
/// Derflinger 1996): a few floating-point operations and no table that would
/// compete for the caches under study.
struct Zipf {
    s: f64,
    n: f64,
    h_x1: f64,
    h_n: f64,
    squeeze: f64,
}

impl Zipf {
    /// `s` must not be 1.
    fn new(n: u64, s: f64) -> Zipf {
        let mut zipf = Zipf {
            s,
            n: n as f64,
            h_x1: 0.0,
            h_n: 0.0,
            squeeze: 0.0,
        };
        zipf.h_x1 = zipf.integral(1.5) - 1.0;
        zipf.h_n = zipf.integral(zipf.n + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - 2f64.powf(-s));
        zipf
    }

    fn integral(&self, x: f64) -> f64 {
        x.powf(1.0 - self.s) / (1.0 - self.s)
    }

    fn inverse(&self, y: f64) -> f64 {
        ((1.0 - self.s) * y).powf(1.0 / (1.0 - self.s))
    }

    fn sample(&self, state: &mut u64) -> u64 {
        loop {
            let uniform = (random(state) >> 11) as f64 / (1u64 << 53) as f64;
            let u = self.h_n + uniform * (self.h_x1 - self.h_n);
            let x = self.inverse(u);
            let rank = (x + 0.5).floor().clamp(1.0, self.n);
            if rank - x <= self.squeeze
                || u >= self.integral(rank + 0.5) - (-rank.ln() * self.s).exp()
            {
                return rank as u64;
            }
        }
    }
}

fn build(_context: &DemoContext) -> Result<Batch> {
    const REQUESTS: u64 = 16;
    let mut store = Store::new();
    for key in 1..=KEYS {
        store.put(key, &[key as u8; VALUE_BYTES]);
    }
    let zipf = Zipf::new(KEYS, 0.99);
    let mut state = 0x5eed_0f2e_a7c0_ffee;
    Ok(Box::new(move || {
        for _ in 0..REQUESTS {
            let key = zipf.sample(&mut state);
            if random(&mut state).is_multiple_of(20) {
                store.put(key, black_box(&[state as u8; VALUE_BYTES]));
            } else if let Some(value) = store.get(key) {
                // A reader uses the whole value.
                let sum: u64 = value.iter().map(|&byte| u64::from(byte)).sum();
                black_box(sum);
            }
        }
        REQUESTS
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_got() {
        let mut store = Store::new();
        for key in 1..=1000 {
            store.put(key, &[key as u8; VALUE_BYTES]);
        }
        for key in 1..=1000 {
            assert_eq!(store.get(key).unwrap(), &[key as u8; VALUE_BYTES]);
        }
        assert!(store.get(1001).is_none());
    }

    #[test]
    fn ranks_follow_the_law() {
        let zipf = Zipf::new(1000, 0.99);
        let mut state = 1;
        let samples = 200_000;
        let mut counts = [0u32; 1001];
        for _ in 0..samples {
            counts[zipf.sample(&mut state) as usize] += 1;
        }
        let norm: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-0.99)).sum();
        for rank in [1, 2, 3, 10, 100] {
            let expected = f64::from(rank).powf(-0.99) / norm * f64::from(samples);
            let found = f64::from(counts[rank as usize]);
            let tolerance = 6.0 * expected.sqrt();
            assert!(
                (found - expected).abs() < tolerance,
                "rank {rank}: {found}, expected {expected}"
            );
        }
    }
}
