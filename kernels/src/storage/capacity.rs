//! `storage-capacity`: random reads over a share of the scratch area.

use super::engine::Queue;
use super::order::Order;
use super::request::Request;
use crate::DeviceTraffic;
use crate::Environment;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::Waiting;
use jostle_profile::resource::Resource;
use std::time::Duration;
use std::time::Instant;

/// What is read at once where the disk's alignment allows it, bytes.
const SEGMENT: u32 = 4096;
/// Reads in flight.
const DEPTH: usize = 128;
/// The intensity counts as in force after this even if the disk is too slow to
/// have reached every segment.
const PATIENCE: Duration = Duration::from_secs(2);

pub const SPEC: KernelSpec = KernelSpec {
    waiting: Waiting::Sleep,
    operation: "direct read of 4 KiB at random",
    units_per_operation: SEGMENT as u64,
    operations_per_call: DEPTH as u64,
    doc: "Reads 4 KiB at a time, 128 in flight, from the first x % of an unlinked scratch file with \
          O_DIRECT, in an order that looks random and reaches every segment once a pass: caches \
          below the page cache (of the device, its controller, a host) must hold x % of the file \
          or miss. The bytes held are those really read since the intensity was set; it counts \
          as in force when every segment was read once, or after 2 s on a disk too slow for \
          that, and then less is reported as held. The rate is the disk's random-read peak at \
          every intensity above 0: even 1 % takes requests from everybody else on the device, so \
          what a target loses at low intensity is lost to the rate, and only what it loses more \
          at high intensity to the footprint. It does not prove that a cache of that size \
          exists.",
    ..KernelSpec::of(Resource::StorageCapacity, build)
};

fn build(env: &Environment) -> Result<Box<dyn Kernel>, Failure> {
    let scratch = super::scratch(env)?;
    let segment = SEGMENT.max(scratch.alignment.offset);
    let queue = Queue::start(&scratch, DEPTH, segment as usize)?;
    let segments = scratch.bytes / u64::from(segment);
    Ok(Box::new(Capacity {
        queue,
        segment,
        segments,
        wanted: 0,
        order: Order::new(1),
        covered: Covered::new(segments),
        since: Instant::now(),
        requests: 0,
    }))
}

struct Capacity {
    queue: Queue,
    /// Bytes of one.
    segment: u32,
    /// In the file, and in the share that is wanted.
    segments: u64,
    wanted: u64,
    order: Order,
    covered: Covered,
    /// When the intensity was set.
    since: Instant,
    requests: u64,
}

/// Segments that were read since the intensity was set.
struct Covered {
    bits: Vec<u64>,
    count: u64,
}

impl Covered {
    fn new(segments: u64) -> Covered {
        Covered {
            bits: vec![0; segments.div_ceil(64) as usize],
            count: 0,
        }
    }

    fn clear(&mut self) {
        self.bits.fill(0);
        self.count = 0;
    }

    fn add(&mut self, segment: u64) {
        let word = &mut self.bits[(segment / 64) as usize];
        let bit = 1 << (segment % 64);
        self.count += u64::from(*word & bit == 0);
        *word |= bit;
    }
}

impl Kernel for Capacity {
    fn set_intensity(&mut self, percent: f64) {
        // What is still under way belongs to the intensity before.
        self.queue.drain();
        self.wanted = (self.segments as f64 * percent / 100.0).round() as u64;
        self.order = Order::new(self.wanted);
        self.covered.clear();
        self.since = Instant::now();
    }

    fn work(&mut self) -> Result<u64, Failure> {
        if self.wanted == 0 {
            return Ok(0);
        }
        while self.queue.has_room() {
            let segment = self.order.next().expect("an order never ends");
            self.queue.push(Request {
                offset: segment * u64::from(self.segment),
                bytes: self.segment,
                write: false,
            })?;
        }
        let mut reads = 0;
        self.queue.wait_for_some(|request| {
            self.covered.add(request.offset / u64::from(self.segment));
            reads += 1;
        })?;
        self.requests += reads;
        Ok(reads * u64::from(self.segment / SEGMENT))
    }

    fn release(&mut self) {
        self.queue.drain();
        self.wanted = 0;
        self.covered.clear();
    }

    fn applied(&self) -> bool {
        self.covered.count == self.wanted || self.since.elapsed() > PATIENCE
    }

    fn held(&self) -> u64 {
        self.covered.count * u64::from(self.segment)
    }

    fn holds_at_most(&self) -> u64 {
        self.segments * u64::from(self.segment)
    }

    fn engine(&self) -> Option<&str> {
        Some(&self.queue.note)
    }

    fn traffic(&self) -> Option<DeviceTraffic> {
        Some(DeviceTraffic {
            requests: self.requests,
            behind_ns: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::environment;
    use super::super::tests::place;
    use super::*;

    #[test]
    fn what_is_held_was_read_since_the_intensity_was_set() {
        let Some(here) = place() else {
            return;
        };
        let mut kernel = build(&environment(here.path())).unwrap();
        let all = kernel.holds_at_most();
        assert_eq!(all, 4 << 20);
        for percent in [75u64, 25] {
            kernel.set_intensity(percent as f64);
            assert_eq!(kernel.held(), 0);
            assert!(!kernel.applied());
            let mut reads = 0;
            while kernel.held() < all * percent / 100 {
                reads += kernel.work().unwrap();
            }
            assert!(kernel.applied());
            assert!(reads * u64::from(SEGMENT) >= kernel.held());
            for _ in 0..20 {
                kernel.work().unwrap();
            }
            assert_eq!(kernel.held(), all * percent / 100, "and no more than that");
        }
        kernel.release();
        assert_eq!(kernel.held(), 0);
        assert!(kernel.applied(), "nothing is wanted");
    }
}
