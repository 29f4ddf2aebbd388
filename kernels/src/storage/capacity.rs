//! `storage-capacity`: a share of the scratch area, read once in large blocks
//! and then at random.

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
use std::ops::Range;
use std::time::Duration;
use std::time::Instant;

/// What is read at once where the disk's alignment allows it, bytes.
const SEGMENT: u32 = 4096;
/// Reads in flight.
const DEPTH: usize = 128;
/// The same while the share is read for the first time after a switch.
const BLOCK: u32 = 256 << 10;
const BLOCK_DEPTH: usize = 8;
/// The intensity counts as in force after this even if the disk is too slow to
/// have reached every segment.
const PATIENCE: Duration = Duration::from_secs(2);
/// The peak is found in this time, as the best of shorter ones.
const FIND_PEAK: Duration = Duration::from_millis(100);
const PEAK_TIME: Duration = Duration::from_millis(20);
/// What was read counts as held through pauses of this length: a cache keeps it until
/// somebody else needs the room.
const KEPT: Duration = Duration::from_secs(30);
/// A read that is later than this is given up.
const MOST_LATE: Duration = Duration::from_millis(100);
/// Longest sleep between two reads.
const NAP: Duration = Duration::from_millis(20);

pub const SPEC: KernelSpec = KernelSpec {
    waiting: Waiting::Sleep,
    operation: "direct read of 4 KiB at random",
    units_per_operation: SEGMENT as u64,
    operations_per_call: DEPTH as u64,
    doc: "Reads 4 KiB at a time, 128 in flight, from the first x % of an unlinked scratch file with \
          O_DIRECT, in an order that looks random and reaches every segment once a pass: caches \
          below the page cache (of the device, its controller, a host) must hold x % of the file \
          or miss. The first pass after a switch reads blocks of 256 KiB, 8 in flight, also in an \
          order that looks random, because a switch lasts until every segment was read once: \
          256 MiB took 0.10 s on a virtual disk (virtio, ext4) where reads of 4 KiB needed \
          0.87 s. The bytes held are those really read, before pauses of up to 30 s too, so \
          that the source can be switched every few milliseconds; on a disk too slow for a pass \
          the intensity counts as in force after 2 s, and then less is reported as held. After \
          that pass the rate is x % of the disk's random-read peak, at even times: \
          the peak is what the worker reached in its first tenth of a second, before any target \
          of ours runs, or later at 100 %, if that was more. Footprint and rate grow together, \
          so a loss is not one of the footprint alone. It does not prove that a cache of that \
          size exists.",
    ..KernelSpec::of(Resource::StorageCapacity, build)
};

fn build(env: &Environment) -> Result<Box<dyn Kernel>, Failure> {
    let mut capacity = Capacity::start(env)?;
    capacity.find_peak()?;
    Ok(Box::new(capacity))
}

struct Capacity {
    first: FirstPass,
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
    /// When it rested last.
    paused: Instant,
    requests: u64,
    /// Of the peak, 0–1.
    share: f64,
    /// `None` before the first pass is over, and at the peak.
    pace: Option<Pace>,
    peak: Peak,
}

/// When random reads are due.
struct Pace {
    origin: Instant,
    /// Reads that were handed over or given up.
    passed: f64,
    per_second: f64,
}

impl Pace {
    /// Reads that are due now. What falls too far behind is given up: catching up
    /// for ever would turn a hiccup of the disk into a burst.
    fn due(&mut self) -> f64 {
        let all = self.origin.elapsed().as_secs_f64() * self.per_second;
        let most = MOST_LATE.as_secs_f64() * self.per_second;
        self.passed = self.passed.max(all - most);
        all - self.passed
    }

    /// Until the next one is due.
    fn left(&self, due: f64) -> Duration {
        Duration::from_secs_f64((1.0 - due).max(0.0) / self.per_second)
    }
}

/// The most reads per second in any short time at full strength.
struct Peak {
    per_second: f64,
    since: Instant,
    reads: u64,
}

impl Default for Peak {
    fn default() -> Peak {
        Peak {
            per_second: 0.0,
            since: Instant::now(),
            reads: 0,
        }
    }
}

impl Peak {
    fn begin(&mut self) {
        self.since = Instant::now();
        self.reads = 0;
    }

    fn add(&mut self, reads: u64) {
        self.reads += reads;
        let elapsed = self.since.elapsed();
        if elapsed >= PEAK_TIME {
            let rate = self.reads as f64 / elapsed.as_secs_f64();
            self.per_second = self.per_second.max(rate);
            self.begin();
        }
    }
}

/// Reads everything that is wanted once.
struct FirstPass {
    queue: Queue,
    segments_per_block: u64,
    order: Order,
    /// Blocks not yet handed over.
    left: u64,
}

/// Segments that were read, and how many of those that are wanted.
struct Covered {
    bits: Vec<u64>,
    wanted: u64,
    count: u64,
}

impl Covered {
    fn new(segments: u64) -> Covered {
        Covered {
            bits: vec![0; segments.div_ceil(64) as usize],
            wanted: 0,
            count: 0,
        }
    }

    fn clear(&mut self) {
        self.bits.fill(0);
        self.count = 0;
    }

    fn contains(&self, segment: u64) -> bool {
        self.bits[(segment / 64) as usize] & 1 << (segment % 64) != 0
    }

    /// From now on the first `segments` are wanted.
    fn want(&mut self, segments: u64) {
        self.wanted = segments;
        let (words, rest) = (segments as usize / 64, segments % 64);
        let known = self.bits[..words].iter().map(|word| word.count_ones());
        let last = self
            .bits
            .get(words)
            .map_or(0, |word| word & ((1 << rest) - 1));
        self.count = u64::from(known.sum::<u32>() + last.count_ones());
    }

    fn add(&mut self, segments: Range<u64>) {
        for segment in segments {
            let new = segment < self.wanted && !self.contains(segment);
            self.count += u64::from(new);
            self.bits[(segment / 64) as usize] |= 1 << (segment % 64);
        }
    }
}

impl Capacity {
    /// Nothing read yet.
    fn start(env: &Environment) -> Result<Capacity, Failure> {
        let scratch = super::scratch(env)?;
        let segment = SEGMENT.max(scratch.alignment.offset);
        let queue = Queue::start(&scratch, DEPTH, segment as usize)?;
        let segments = scratch.bytes / u64::from(segment);
        let block = BLOCK.max(segment);
        Ok(Capacity {
            queue,
            first: FirstPass {
                queue: Queue::start(&scratch, BLOCK_DEPTH, block as usize)?,
                segments_per_block: u64::from(block / segment),
                order: Order::new(1),
                left: 0,
            },
            segment,
            segments,
            wanted: 0,
            order: Order::new(1),
            covered: Covered::new(segments),
            since: Instant::now(),
            paused: Instant::now(),
            requests: 0,
            share: 1.0,
            pace: None,
            peak: Peak::default(),
        })
    }

    /// Reads at random all over the file for a moment, and then all of it.
    fn find_peak(&mut self) -> Result<(), Failure> {
        self.set_intensity(100.0);
        self.first.left = 0;
        let began = Instant::now();
        self.peak.begin();
        while began.elapsed() < FIND_PEAK {
            self.read_at_random(None)?;
        }
        // All of it is read once here, so that the first switch need not wait for that.
        self.set_intensity(100.0);
        while !self.applied() {
            self.work()?;
        }
        self.release();
        self.requests = 0;
        Ok(())
    }

    /// As many reads as there is room for, or as are due; what has ended, in units
    /// of [`SEGMENT`].
    fn read_at_random(&mut self, due: Option<f64>) -> Result<u64, Failure> {
        let mut handed_over = 0.0;
        while self.queue.has_room() && due.is_none_or(|due| handed_over + 1.0 <= due) {
            let segment = self.order.next().expect("an order never ends");
            self.queue.push(Request {
                offset: segment * u64::from(self.segment),
                bytes: self.segment,
                write: false,
            })?;
            handed_over += 1.0;
        }
        let mut left = NAP;
        if let (Some(pace), Some(due)) = (&mut self.pace, due) {
            pace.passed += handed_over;
            left = pace.left(due - handed_over).min(NAP);
        }
        let mut reads = 0;
        let seen = |request: Request| {
            let segment = request.offset / u64::from(self.segment);
            self.covered.add(segment..segment + 1);
            reads += 1;
        };
        match (self.queue.in_flight(), due) {
            (0, _) => std::thread::sleep(left),
            (all, Some(_)) if self.queue.has_room() => {
                let most = left.max(Duration::from_nanos(1));
                self.queue.wait(all, most, seen)?;
            }
            _ => self.queue.wait_for_some(seen)?,
        }
        if due.is_none() {
            self.peak.add(reads);
        }
        self.requests += reads;
        Ok(reads * u64::from(self.segment / SEGMENT))
    }

    /// The next requests of the first pass, and what has ended of it, in units
    /// of [`SEGMENT`].
    fn read_first(&mut self) -> Result<u64, Failure> {
        let FirstPass {
            queue,
            segments_per_block,
            order,
            left,
        } = &mut self.first;
        let segment = u64::from(self.segment);
        while *left > 0 && queue.has_room() {
            let from = order.next().expect("an order never ends") * *segments_per_block;
            let to = (from + *segments_per_block).min(self.wanted);
            queue.push(Request {
                offset: from * segment,
                bytes: ((to - from) * segment) as u32,
                write: false,
            })?;
            *left -= 1;
        }
        let mut units = 0;
        queue.wait_for_some(|request| {
            let from = request.offset / segment;
            let count = u64::from(request.bytes) / segment;
            self.covered.add(from..from + count);
            self.requests += 1;
            units += u64::from(request.bytes / SEGMENT);
        })?;
        Ok(units)
    }
}

impl Kernel for Capacity {
    fn set_intensity(&mut self, percent: f64) {
        // What is still under way belongs to the intensity before.
        self.first.queue.drain();
        self.queue.drain();
        if self.wanted == 0 && self.paused.elapsed() > KEPT {
            self.covered.clear();
        }
        self.wanted = (self.segments as f64 * percent / 100.0).round() as u64;
        self.covered.want(self.wanted);
        // The next ones come next, also after a pause.
        self.order.bound(self.wanted);
        let all = self.covered.count == self.wanted;
        let blocks = self.wanted.div_ceil(self.first.segments_per_block);
        self.first.left = if all { 0 } else { blocks };
        self.first.order = Order::new(blocks);
        self.since = Instant::now();
        self.share = percent / 100.0;
        self.pace = None;
        self.peak.begin();
    }

    fn work(&mut self) -> Result<u64, Failure> {
        if self.wanted == 0 {
            return Ok(0);
        }
        if self.since.elapsed() > PATIENCE {
            self.first.left = 0;
        }
        if self.first.left > 0 || self.first.queue.in_flight() > 0 {
            return self.read_first();
        }
        if self.share >= 1.0 || self.peak.per_second <= 0.0 {
            return self.read_at_random(None);
        }
        let per_second = self.peak.per_second * self.share;
        let pace = self.pace.get_or_insert_with(|| Pace {
            origin: Instant::now(),
            passed: 0.0,
            per_second,
        });
        let due = pace.due();
        self.read_at_random(Some(due))
    }

    fn release(&mut self) {
        self.first.queue.drain();
        self.first.left = 0;
        self.queue.drain();
        if self.wanted > 0 {
            self.paused = Instant::now();
        }
        self.wanted = 0;
        self.covered.want(0);
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
        let all = 4 << 20;
        let requests = |kernel: &dyn Kernel| kernel.traffic().unwrap().requests;
        // The last block of 10 % is cut where the share ends.
        for (percent, share, blocks) in [
            (75.0, 3 << 20, 12),
            (10.0, 102 * 4096, 2),
            (25.0, 1 << 20, 4),
        ] {
            let mut kernel = Capacity::start(&environment(here.path())).unwrap();
            assert_eq!(kernel.holds_at_most(), all);
            let before = requests(&kernel);
            kernel.set_intensity(percent);
            assert_eq!(kernel.held(), 0);
            assert!(!kernel.applied());
            let mut units = 0;
            while !kernel.applied() {
                units += kernel.work().unwrap();
            }
            assert_eq!(kernel.held(), share);
            assert_eq!(units * u64::from(SEGMENT), share);
            assert_eq!(requests(&kernel) - before, blocks, "at {percent} %");
            let until = Instant::now() + Duration::from_millis(50);
            while Instant::now() < until {
                units += kernel.work().unwrap();
            }
            assert!(units * u64::from(SEGMENT) > share, "it goes on reading");
            assert_eq!(kernel.held(), share, "and holds no more than that");
        }
        // A pass that was broken off is begun again.
        let mut kernel = Capacity::start(&environment(here.path())).unwrap();
        kernel.set_intensity(100.0);
        kernel.work().unwrap();
        kernel.set_intensity(50.0);
        while !kernel.applied() {
            kernel.work().unwrap();
        }
        assert_eq!(kernel.held(), all / 2);
        kernel.release();
        assert_eq!(kernel.held(), 0);
        assert!(kernel.applied(), "nothing is wanted");
    }

    #[test]
    fn what_was_read_is_held_through_a_pause() {
        let Some(here) = place() else {
            return;
        };
        let mut kernel = Capacity::start(&environment(here.path())).unwrap();
        kernel.set_intensity(75.0);
        while !kernel.applied() {
            kernel.work().unwrap();
        }
        for (percent, held) in [(75.0, 3 << 20), (50.0, 2 << 20), (100.0, 3 << 20)] {
            kernel.release();
            assert_eq!(kernel.held(), 0);
            kernel.set_intensity(percent);
            assert_eq!((kernel.held(), kernel.applied()), (held, percent < 80.0));
        }
        while !kernel.applied() {
            kernel.work().unwrap();
        }
        assert_eq!(kernel.held(), 4 << 20);
    }

    #[test]
    fn a_share_that_ends_within_a_word_is_counted() {
        let mut covered = Covered::new(200);
        covered.want(200);
        covered.add(60..150);
        covered.add(100..110);
        assert_eq!(covered.count, 90);
        for (wanted, count) in [(64, 4), (70, 10), (128, 68), (200, 90), (0, 0)] {
            covered.want(wanted);
            assert_eq!(covered.count, count, "{wanted}");
        }
        // What is not wanted is remembered, and not counted.
        covered.want(10);
        covered.add(0..20);
        assert_eq!(covered.count, 10);
        covered.want(20);
        assert_eq!(covered.count, 20);
    }

    #[test]
    fn the_rate_follows_the_intensity() {
        let Some(here) = place() else {
            return;
        };
        let mut kernel = build(&environment(here.path())).unwrap();
        let mut rate = |percent: f64| {
            kernel.set_intensity(percent);
            while !kernel.applied() {
                kernel.work().unwrap();
            }
            let (began, mut units) = (Instant::now(), 0);
            while began.elapsed() < Duration::from_millis(300) {
                units += kernel.work().unwrap();
            }
            units as f64 / began.elapsed().as_secs_f64()
        };
        let full = rate(100.0);
        let quarter = rate(25.0) / full;
        assert!(
            (0.1..0.6).contains(&quarter),
            "{quarter} of the peak at 25 %"
        );
        let hundredth = rate(1.0) / full;
        assert!(hundredth < 0.1, "{hundredth} of the peak at 1 %");
    }

    #[test]
    fn what_is_too_late_is_given_up() {
        let mut pace = Pace {
            origin: Instant::now() - Duration::from_secs(10),
            passed: 0.0,
            per_second: 100.0,
        };
        let due = pace.due();
        assert!((due - 10.0).abs() < 0.1, "{due}");
        assert!(pace.left(due).is_zero());
        assert!(pace.left(0.25) > Duration::from_millis(7));
    }
}
