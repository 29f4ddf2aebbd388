//! A thread that reads the target's count every millisecond, and parks every source
//! when the target falls below its floor. Nobody has to be woken for that: the thread
//! that plans blocks may be asleep, or busy with its statistics.

use crate::experiment::floor::rule::Rule;
use crate::experiment::floor::rule::SHORT;
use jostle_host::inject::brake::Brake;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::clock::sleep_until;
use jostle_host::sys::handover::Reader;
use jostle_host::sys::process::has_ended;
use jostle_host::sys::sched::request_slice;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::Release;
use std::thread::JoinHandle;
use std::time::Duration;

/// From one look to the next.
const TICK_NS: u64 = 1_000_000;
/// The same while waiting for sources to be at rest.
const FAST_NS: u64 = 100_000;
/// Asked of the scheduler, so that a look is not kept waiting.
const SLICE_NS: u64 = 100_000;
/// Lengths of a window, milliseconds; the first that holds [`COUNTS`] is used.
const LENGTHS: [u64; 6] = [1, 2, 4, 8, 16, 32];
const COUNTS: f64 = 10.0;
/// A window needs one part in so many of the usual time on the metric's clock.
const LEAST_OF_USUAL: u64 = 4;
/// Windows that the noise is learned from, at least.
const FEWEST: usize = 64;
/// After a command was started again it loads for so long.
const LOADING_NS: u64 = 20_000_000;

/// What the count grew by.
#[derive(Clone, Copy, Debug, Default)]
struct Tick {
    wall_ns: u64,
    operations: u64,
    /// On the metric's clock.
    clock_ns: u64,
    /// CPU time of sources on the target's CPUs, a mean over these.
    taken_ns: u64,
}

/// A fall below the floor. Times on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fall {
    /// Begin of the first window below.
    pub begin_ns: u64,
    pub decided_ns: u64,
    pub parked_ns: Option<u64>,
    /// From there on, a fraction of the baseline.
    pub of_baseline: f64,
}

/// Windows of one length, and what they say.
struct Judge {
    rule: Rule,
    /// Operations per nanosecond of the metric's clock, without interference.
    rate: f64,
    length_ns: u64,
    /// On the metric's clock, that a window needs.
    least_clock_ns: u64,
    open: Tick,
    /// Newest last.
    windows: Vec<(u64, Tick)>,
}

/// Windows that are remembered.
const REMEMBERED: usize = 4096;

impl Judge {
    /// From ticks without interference; `floor` is a fraction of what they say.
    ///
    /// # Errors
    /// In words, why the count cannot be judged so quickly.
    fn learn(ticks: &[Tick], floor: f64) -> Result<Judge, String> {
        let sum = |of: fn(&Tick) -> u64| ticks.iter().map(of).sum::<u64>() as f64;
        let wall = sum(|tick| tick.wall_ns);
        let (operations, clock) = (sum(|tick| tick.operations), sum(|tick| tick.clock_ns));
        if operations <= 0.0 || clock <= 0.0 {
            return Err("the target made no progress without interference".into());
        }
        let enough = |ms: &&u64| operations / wall * **ms as f64 * 1e6 >= COUNTS;
        let Some(length) = LENGTHS.iter().find(enough) else {
            let per_second = operations / wall * 1e9;
            return Err(format!("{per_second:.0} operations per second are too few"));
        };
        let length_ns = length * 1_000_000;
        let mut judge = Judge {
            rule: Rule::new(floor, &[], Duration::from_nanos(length_ns), SHORT),
            rate: operations / clock,
            length_ns,
            least_clock_ns: (clock / wall * length_ns as f64) as u64 / LEAST_OF_USUAL,
            open: Tick::default(),
            windows: Vec::new(),
        };
        let windows = ticks.iter().filter_map(|tick| judge.window(*tick));
        let windows: Vec<Tick> = windows.collect();
        if windows.len() < FEWEST {
            return Err(format!(
                "{} windows of {length} ms were read without interference, {FEWEST} are needed",
                windows.len()
            ));
        }
        let shares: Vec<f64> = windows.iter().map(|it| judge.share(it)).collect();
        judge.rule = Rule::new(floor, &shares, Duration::from_nanos(length_ns), SHORT);
        judge.open = Tick::default();
        Ok(judge)
    }

    fn share(&self, window: &Tick) -> f64 {
        window.operations as f64 / window.clock_ns.max(1) as f64 / self.rate
    }

    /// Adds `tick`; the window that it completes.
    fn window(&mut self, tick: Tick) -> Option<Tick> {
        self.open.wall_ns += tick.wall_ns;
        self.open.operations += tick.operations;
        self.open.clock_ns += tick.clock_ns;
        self.open.taken_ns += tick.taken_ns;
        // A thread that wakes a little early must not make windows twice as long.
        let long = self.open.wall_ns + TICK_NS / 4 >= self.length_ns;
        let done = long && self.open.clock_ns >= self.least_clock_ns;
        done.then(|| std::mem::take(&mut self.open))
    }

    /// Judges what came until `now_ns`.
    fn step(&mut self, tick: Tick, now_ns: u64) -> Option<Fall> {
        let window = self.window(tick)?;
        if self.windows.len() >= REMEMBERED {
            self.windows.drain(..REMEMBERED / 2);
        }
        let share = self.share(&window);
        // A look that came late covers several windows. Alone it is no majority: when
        // the whole machine stood still, so did the target.
        let by_wall = (window.wall_ns + self.length_ns / 2) / self.length_ns;
        let by_clock = window.clock_ns / (LEAST_OF_USUAL * self.least_clock_ns).max(1);
        let most = u64::from(SHORT.below - 1);
        let covered = by_wall.min(by_clock).clamp(1, most);
        // Where the machine stood still, a source that ran then seems to have run on.
        let taken = match covered {
            1 => window.taken_ns as f64 / window.wall_ns.max(1) as f64,
            _ => 0.0,
        };
        let each = Tick {
            wall_ns: window.wall_ns / covered,
            operations: window.operations / covered,
            clock_ns: window.clock_ns / covered,
            taken_ns: window.taken_ns / covered,
        };
        let mut alarm = None;
        for later in (0..covered).rev() {
            let end_ns = now_ns - later * each.wall_ns;
            self.windows.push((end_ns - each.wall_ns, each));
            alarm = self.rule.step(share, taken);
            if alarm.is_some() {
                break;
            }
        }
        let alarm = alarm?;
        let first = self.windows.len().saturating_sub(alarm.windows as usize);
        let below = &self.windows[first..];
        let mut all = Tick::default();
        for (_, window) in below {
            all.operations += window.operations;
            all.clock_ns += window.clock_ns;
        }
        Some(Fall {
            begin_ns: below[0].0,
            decided_ns: monotonic_ns(),
            parked_ns: None,
            of_baseline: self.share(&all),
        })
    }

    /// What comes next does not follow.
    fn interrupt(&mut self) {
        self.open = Tick::default();
        self.windows.clear();
        self.rule.forget();
    }

    fn describe(&self) -> String {
        let delay = |performance: f64| match self.rule.delay(performance) {
            Some(windows) => format!("{} ms", u64::from(windows) * self.length_ns / 1_000_000),
            None => "never".into(),
        };
        format!(
            "the count is read every millisecond and judged in windows of {} ms; a fall to half of \
             the floor is seen after {}, to 10 points below it after {}, to 2 points after {}; {}",
            self.length_ns / 1_000_000,
            delay(self.rule.floor() / 2.0),
            delay(self.rule.floor() - 0.1),
            delay(self.rule.floor() - 0.02),
            match self.rule.is_restless() {
                true => {
                    "its noise is so large that the measurement may end without a loss"
                }
                false => {
                    "a target exactly at its floor is stopped by mistake once an hour, if its \
                     noise is as before the sources ran"
                }
            },
        )
    }
}

enum Mode {
    Rest,
    /// Without interference.
    Learn,
    Watch(Box<Judge>),
}

struct State {
    readers: Vec<Reader>,
    /// Of what `readers` read.
    version: Option<u64>,
    by_cpu_time: bool,
    /// A child that is started again when it ends.
    leader: Option<i32>,
    mode: Mode,
    learned: Vec<Tick>,
    last: Option<Last>,
    /// Not judged before.
    from_ns: u64,
    brake: Brake,
    fall: Option<Fall>,
}

impl State {
    /// Reads; the growth since the last time.
    fn look(&mut self) -> Option<Tick> {
        let now = monotonic_ns();
        let (mut operations, mut busy_ns) = (0u64, 0u64);
        for reader in &self.readers {
            let (more, longer) = reader.read().ok()?;
            operations = operations.wrapping_add(more);
            busy_ns = busy_ns.wrapping_add(longer);
        }
        let taken_ns = self.brake.taken_ns();
        let last = self.last.replace(Last {
            at_ns: now,
            operations,
            busy_ns,
            taken_ns,
        })?;
        let grown = operations.wrapping_sub(last.operations);
        let wall_ns = now - last.at_ns;
        let clock_ns = match self.by_cpu_time {
            true => busy_ns.wrapping_sub(last.busy_ns),
            false => wall_ns,
        };
        let backwards = grown > u64::MAX / 2 || clock_ns > u64::MAX / 2;
        if backwards || grown == 0 && self.leader.is_some_and(has_ended) {
            self.interrupt();
            return None;
        }
        (now >= self.from_ns).then_some(Tick {
            wall_ns,
            operations: grown,
            clock_ns,
            // Less than before where a source was started again.
            taken_ns: taken_ns.saturating_sub(last.taken_ns),
        })
    }

    fn interrupt(&mut self) {
        self.last = None;
        if let Mode::Watch(judge) = &mut self.mode {
            judge.interrupt();
        }
    }

    /// One look. Whether the target has fallen below its floor.
    fn tick(&mut self) -> bool {
        if self.fall.is_some() {
            return true;
        }
        if matches!(self.mode, Mode::Rest) {
            return false;
        }
        let Some(tick) = self.look() else {
            return false;
        };
        match &mut self.mode {
            Mode::Rest => {}
            Mode::Learn => self.learned.push(tick),
            Mode::Watch(judge) => self.fall = judge.step(tick, monotonic_ns()),
        }
        self.fall.is_some()
    }
}

/// When, and what was read.
#[derive(Clone, Copy)]
struct Last {
    at_ns: u64,
    operations: u64,
    busy_ns: u64,
    taken_ns: u64,
}

/// What is read from now on.
pub(super) struct Followed {
    pub readers: std::io::Result<Vec<Reader>>,
    pub version: u64,
    pub by_cpu_time: bool,
    pub leader: Option<i32>,
}

/// The thread; ends when this is dropped.
pub(super) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    stop: AtomicBool,
    fallen: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        // Older kernels refuse; looks may then come late.
        let _ = request_slice(SLICE_NS);
        let mut next = monotonic_ns();
        let mut pause_ns = TICK_NS;
        while !self.stop.load(Relaxed) {
            next = (next + pause_ns).max(monotonic_ns());
            sleep_until(next);
            let mut state = self.lock();
            if !state.tick() {
                continue;
            }
            self.fallen.store(true, Release);
            state.brake.park();
            if state.brake.parked()
                && let Some(fall) = &mut state.fall
            {
                fall.parked_ns.get_or_insert_with(monotonic_ns);
                pause_ns = TICK_NS;
            } else {
                pause_ns = FAST_NS;
            }
        }
    }
}

impl Watch {
    /// Starts the thread, which does nothing yet.
    ///
    /// # Errors
    /// When there cannot be another thread.
    pub(super) fn start(brake: Brake) -> std::io::Result<Watch> {
        let state = State {
            readers: Vec::new(),
            version: None,
            by_cpu_time: false,
            leader: None,
            mode: Mode::Rest,
            learned: Vec::new(),
            last: None,
            from_ns: 0,
            brake,
            fall: None,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            stop: AtomicBool::new(false),
            fallen: AtomicBool::new(false),
        });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("floor".into());
        let thread = thread.spawn(move || of_thread.run())?;
        Ok(Watch {
            shared,
            thread: Some(thread),
        })
    }

    /// Parks these from now on.
    pub(super) fn hold(&self, brake: Brake) {
        self.shared.lock().brake = brake;
    }

    /// Whether what is read has another version.
    pub(super) fn is_behind(&self, version: u64) -> bool {
        self.shared.lock().version != Some(version)
    }

    /// Reads this from now on. Counts that cannot be read are as if the target had
    /// fallen: nobody would see it.
    pub(super) fn follow(&self, followed: Followed) -> Result<(), String> {
        let readers = followed.readers.map_err(|error| error.to_string())?;
        let mut state = self.shared.lock();
        let again = state.version.replace(followed.version).is_some();
        state.readers = readers;
        state.by_cpu_time = followed.by_cpu_time;
        state.leader = followed.leader;
        state.interrupt();
        if again {
            state.from_ns = monotonic_ns() + LOADING_NS;
        }
        Ok(())
    }

    /// Learns what is usual until [`Self::rest`].
    pub(super) fn learn(&self) {
        let mut state = self.shared.lock();
        if !matches!(state.mode, Mode::Watch(_)) {
            state.last = None;
            state.mode = Mode::Learn;
        }
    }

    pub(super) fn rest(&self) {
        let mut state = self.shared.lock();
        if matches!(state.mode, Mode::Learn) {
            state.mode = Mode::Rest;
        }
    }

    /// Time for which it learned.
    pub(super) fn learned(&self) -> Duration {
        let state = self.shared.lock();
        Duration::from_nanos(state.learned.iter().map(|tick| tick.wall_ns).sum())
    }

    /// Watches from now on; how, in words.
    ///
    /// # Errors
    /// In words, why that is not possible.
    pub(super) fn arm(&self, floor: f64) -> Result<String, String> {
        let mut state = self.shared.lock();
        let judge = Judge::learn(&state.learned, floor)?;
        let how = judge.describe();
        state.last = None;
        state.mode = Mode::Watch(Box::new(judge));
        Ok(how)
    }

    /// Whether the target fell below its floor.
    pub(super) fn has_fallen(&self) -> bool {
        self.shared.fallen.load(Acquire)
    }

    /// How it fell; where it did, waits for the sources to be at rest.
    pub(super) fn fall(&self) -> Option<Fall> {
        self.shared.lock().fall
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(operations: u64, clock_ns: u64) -> Tick {
        Tick {
            wall_ns: TICK_NS,
            operations,
            clock_ns,
            taken_ns: 0,
        }
    }

    #[test]
    fn a_fall_is_seen_in_milliseconds_and_says_how_far() {
        let usual: Vec<Tick> = (0..300).map(|n| tick(99 + n % 3, TICK_NS)).collect();
        let mut judge = Judge::learn(&usual, 0.9).unwrap();
        assert_eq!(judge.length_ns, TICK_NS);
        let mut step = |now: u64, operations| judge.step(tick(operations, TICK_NS), now * TICK_NS);
        for now in 1..=1000 {
            assert_eq!(step(now, 100), None);
        }
        let (now, fall) = (1001..1020)
            .find_map(|now| Some((now, step(now, 60)?)))
            .unwrap();
        assert!(now < 1006, "{fall:?}");
        assert_eq!(fall.begin_ns, 1000 * TICK_NS);
        assert!((fall.of_baseline - 0.6).abs() < 0.01, "{fall:?}");
        assert!(judge.describe().contains("windows of 1 ms"));
    }

    /// Looks come late when others have the CPUs.
    #[test]
    fn late_looks_count_by_the_time_that_they_cover() {
        let usual: Vec<Tick> = (0..300).map(|n| tick(99 + n % 3, TICK_NS)).collect();
        let late = |operations, ms: u64| Tick {
            wall_ns: ms * TICK_NS,
            ..tick(operations, ms * TICK_NS)
        };
        let learned = || Judge::learn(&usual, 0.9).unwrap();
        let mut judge = learned();
        assert_eq!(judge.step(late(120, 3), 3 * TICK_NS), None);
        let fall = judge.step(late(120, 3), 6 * TICK_NS).unwrap();
        assert_eq!(fall.begin_ns, 0);
        assert!((fall.of_baseline - 0.4).abs() < 0.01, "{fall:?}");
        // The whole machine stood still for 20 ms, now and then.
        let mut judge = learned();
        let mut now = 0;
        for _ in 0..20 {
            now += 20 * TICK_NS;
            assert_eq!(judge.step(late(10, 20), now), None);
            for _ in 0..100 {
                now += TICK_NS;
                assert_eq!(judge.step(tick(100, TICK_NS), now), None);
            }
        }
    }

    #[test]
    fn a_source_that_had_the_cpu_meanwhile_is_believed_sooner() {
        let usual: Vec<Tick> = (0..300).map(|n| tick(99 + n % 3, TICK_NS)).collect();
        let taken = |ms: u64| Tick {
            wall_ns: ms * TICK_NS,
            taken_ns: ms * TICK_NS * 9 / 10,
            ..tick(10, ms * TICK_NS)
        };
        let mut judge = Judge::learn(&usual, 0.9).unwrap();
        let seen = (1..20).find(|now| judge.step(taken(1), now * TICK_NS).is_some());
        assert_eq!(seen, Some(3));
        // Where a look comes late, the clock of the source may have gone on by itself.
        let mut judge = Judge::learn(&usual, 0.9).unwrap();
        assert_eq!(judge.step(taken(20), 20 * TICK_NS), None);
    }

    #[test]
    fn few_operations_make_longer_windows_and_too_few_none() {
        let usual = |one_in: u64| -> Vec<Tick> {
            let grown = |n: u64| u64::from(n.is_multiple_of(one_in));
            (0..3000).map(|n| tick(grown(n), TICK_NS)).collect()
        };
        assert_eq!(Judge::learn(&usual(2), 0.9).unwrap().length_ns, 32_000_000);
        let slow = Judge::learn(&usual(20), 0.9).err().unwrap();
        assert!(slow.contains("50 operations per second"), "{slow}");
        let short = Judge::learn(&usual(1)[..100], 0.9).err().unwrap();
        assert!(short.contains("are needed"), "{short}");
        assert!(Judge::learn(&[], 0.9).is_err());
    }

    #[test]
    fn by_cpu_time_waiting_is_no_loss() {
        // Half of the time it has no CPU.
        let usual: Vec<Tick> = (0..600).map(|_| tick(50, TICK_NS / 2)).collect();
        let mut judge = Judge::learn(&usual, 0.9).unwrap();
        for now in 1..100 {
            assert_eq!(judge.step(tick(0, 0), now * TICK_NS), None);
        }
        for now in 100..200 {
            let seen = judge.step(tick(30, 300_000), now * TICK_NS);
            assert_eq!(seen, None, "{now}");
        }
        let slow = |now: u64| judge.step(tick(30, TICK_NS / 2), now * TICK_NS);
        assert!((200..220).find_map(slow).is_some());
    }
}
