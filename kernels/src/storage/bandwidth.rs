//! `storage-bandwidth`: a pattern of direct I/O at a share of the rate the
//! disk sustains for it.

use super::engine::Queue;
use super::pattern::Pattern;
use super::pattern::SECTOR;
use super::request::Request;
use super::walk::Step;
use super::walk::Walk;
use crate::DeviceTraffic;
use crate::Environment;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::Waiting;
use jostle_profile::resource::Resource;
use std::time::Duration;
use std::time::Instant;

/// Kept in flight at full strength, bytes, within the bounds below.
const IN_FLIGHT: f64 = (2 << 20) as f64;
/// Fewest and most requests in flight.
const DEPTH: (f64, f64) = (4.0, 128.0);
/// A schedule that falls behind further than this gives up what is beyond.
const MOST_LATE_NS: f64 = 100e6;
/// Longest wait before the worker looks for orders.
const NAP: Duration = Duration::from_micros(80);

pub const SPEC: KernelSpec = KernelSpec {
    waiting: Waiting::Sleep,
    operation: "direct transfer of 512 bytes",
    units_per_operation: SECTOR as u64,
    operations_per_call: 1,
    doc: "Transfers between memory and an unlinked scratch file with O_DIRECT, so that the page \
          cache neither helps nor suffers: by io_uring, or by threads in pread and pwrite where \
          that is refused (`jostle run` says which, and why). What it asks for is a pattern \
          (--storage-pattern): a Markov chain of I/Os whose kinds keep their shares exactly. \
          `sequential`, the default, reads 512 KiB at a time in order, four in flight; `random` \
          reads 4 KiB anywhere, 128 in flight; `mail` is a made-up mail server; or a file. At \
          100 % as much is in flight as the queue holds, and the rate reached then is the peak. \
          At x % each I/O is due at a time of its own, whether or not earlier ones are done, \
          and all times between I/Os are 100/x times as long: relations between kinds of I/O \
          stay, only the rate changes. What falls more than 0.1 s behind is given up and \
          reported. Between I/Os the worker sleeps. It presses on the device that holds the \
          scratch directory and on no other. It does not prove what writes cost unless the \
          pattern writes, nor what a device does whose cache or host holds less than the \
          scratch file; and on a virtual disk the peak is what the host gave at that moment.",
    ..KernelSpec::of(Resource::StorageBandwidth, build)
};

fn build(env: &Environment) -> Result<Box<dyn Kernel>, Failure> {
    let pattern = &env.storage_pattern;
    let scratch = super::scratch(env)?;
    let walk = Walk::new(pattern, scratch.bytes, scratch.alignment.offset)?;
    let mean_bytes = pattern.mean(|kind| f64::from(kind.block_bytes));
    let depth = (IN_FLIGHT / mean_bytes).clamp(DEPTH.0, DEPTH.1) as usize;
    let queue = Queue::start(&scratch, depth, pattern.largest_block_bytes() as usize)?;
    Ok(Box::new(Bandwidth {
        queue,
        walk,
        schedule: None,
        next: None,
        requests: 0,
        behind_ns: 0.0,
        pattern: pattern.clone(),
    }))
}

struct Bandwidth {
    queue: Queue,
    walk: Walk,
    /// `None` while it is not held back.
    schedule: Option<Schedule>,
    /// Taken from the walk and not yet handed over.
    next: Option<Step>,
    requests: u64,
    behind_ns: f64,
    pattern: Pattern,
}

/// When I/Os are due, whether or not earlier ones are done.
struct Schedule {
    origin: Instant,
    /// When the next is due, nanoseconds since the origin.
    due_ns: f64,
    /// Real nanoseconds for a µs of the pattern.
    stretch: f64,
}

impl Bandwidth {
    fn next_step(&mut self) -> Step {
        let walk = || self.walk.next().expect("a walk never ends");
        self.next.take().unwrap_or_else(walk)
    }

    /// Hands over what is due, and returns how long nothing will be.
    fn hand_over_due(&mut self) -> Result<Duration, Failure> {
        let Some(mut schedule) = self.schedule.take() else {
            return Ok(NAP);
        };
        let now = schedule.origin.elapsed().as_nanos() as f64;
        while schedule.due_ns <= now && self.queue.has_room() {
            let step = self.next_step();
            self.queue.push(step.request)?;
            let following = self.next_step();
            schedule.due_ns += following.after_us * schedule.stretch;
            self.next = Some(following);
        }
        let lost = now - MOST_LATE_NS - schedule.due_ns;
        if lost > 0.0 {
            schedule.due_ns += lost;
            self.behind_ns += lost;
        }
        let left = Duration::from_nanos((schedule.due_ns - now).max(0.0) as u64);
        self.schedule = Some(schedule);
        Ok(left)
    }
}

impl Kernel for Bandwidth {
    fn set_rate(&mut self, operations_per_second: Option<f64>) -> bool {
        self.schedule = operations_per_second
            .filter(|rate| *rate > 0.0)
            .map(|rate| Schedule {
                origin: Instant::now(),
                due_ns: 0.0,
                stretch: self.pattern.stretch(rate),
            });
        true
    }

    fn work(&mut self) -> Result<u64, Failure> {
        let left = match self.schedule {
            Some(_) => self.hand_over_due()?.min(NAP),
            None => {
                while self.queue.has_room() {
                    let step = self.next_step();
                    self.queue.push(step.request)?;
                }
                NAP
            }
        };
        let mut sectors = 0;
        let seen = |request: Request| {
            sectors += u64::from(request.bytes / SECTOR);
            self.requests += 1;
        };
        match (self.queue.in_flight(), self.queue.has_room()) {
            (0, _) => std::thread::sleep(left),
            // Nothing can be handed over before one is done.
            (_, false) => self.queue.wait_for_some(seen)?,
            (all, true) => self
                .queue
                .wait(all, left.max(Duration::from_nanos(1)), seen)?,
        }
        Ok(sectors)
    }

    fn release(&mut self) {
        self.queue.drain();
    }

    fn engine(&self) -> Option<&str> {
        Some(&self.queue.note)
    }

    fn traffic(&self) -> Option<DeviceTraffic> {
        Some(DeviceTraffic {
            requests: self.requests,
            behind_ns: self.behind_ns as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::environment;
    use super::super::tests::place;
    use super::*;

    #[test]
    fn nothing_comes_before_it_is_due_and_what_cannot_come_is_counted() {
        let Some(here) = place() else { return };
        let mut env = environment(here.path());
        env.storage_pattern = Pattern::random();
        let mut kernel = build(&env).unwrap();
        let sectors_each = 8;
        // 500 a second, even on a disk that does a thousand times that.
        assert!(kernel.set_rate(Some(500.0 * sectors_each as f64)));
        let start = Instant::now();
        let mut sectors = 0;
        while start.elapsed() < Duration::from_millis(200) || sectors == 0 {
            sectors += kernel.work().unwrap();
        }
        let due = start.elapsed().as_secs_f64() * 500.0 + 1.0;
        let traffic = kernel.traffic().unwrap();
        assert_eq!(sectors, traffic.requests * sectors_each);
        assert!((1.0..=due).contains(&(traffic.requests as f64)));
        // More than any disk does.
        kernel.set_rate(Some(1e12));
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            kernel.work().unwrap();
        }
        let behind = kernel.traffic().unwrap().behind_ns - traffic.behind_ns;
        let given_up = Duration::from_nanos(behind);
        assert!(given_up > Duration::from_millis(100), "{given_up:?}");
        assert!(given_up < start.elapsed(), "{given_up:?}");
        kernel.release();
    }

    #[test]
    fn no_place_is_a_reason() {
        let Failure(reason) = build(&Environment::default()).err().unwrap();
        assert!(reason.contains("no scratch directory"), "{reason}");
    }
}
