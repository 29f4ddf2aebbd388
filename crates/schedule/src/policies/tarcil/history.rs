//! How often units become free, over the recent past.

/// Length of the past that counts, in seconds (Tarcil, section 7.4.1: 2 h).
pub const WINDOW_SECONDS: f64 = 7200.0;

const SLOTS: usize = 12;
const SLOT_SECONDS: f64 = WINDOW_SECONDS / SLOTS as f64;

/// The 90 % point of the normal distribution: an estimate of "almost surely".
const ALMOST_SURELY: f64 = 1.2816;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Slot {
    freed: u32,
    /// Seconds between one unit becoming free and the next, and their squares.
    gaps: f64,
    squares: f64,
}

/// When units of one bucket became free, in slots of ten minutes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    slots: [Slot; SLOTS],
    total: Slot,
    /// Slots since the clock's zero.
    slot: i64,
    last: Option<f64>,
}

impl History {
    /// `units` became free together.
    pub fn freed(&mut self, units: u32, now: f64) {
        self.advance(now);
        let gap = self.last.map_or(0.0, |last| (now - last).max(0.0));
        self.last = Some(now);
        let at = self.slot.rem_euclid(SLOTS as i64) as usize;
        for slot in [&mut self.slots[at], &mut self.total] {
            slot.freed += units;
            slot.gaps += gap;
            slot.squares += gap * gap;
        }
    }

    fn advance(&mut self, now: f64) {
        let slot = (now / SLOT_SECONDS).floor() as i64;
        if slot <= self.slot {
            return;
        }
        for passed in (self.slot + 1..=slot).take(SLOTS) {
            self.slots[passed.rem_euclid(SLOTS as i64) as usize] = Slot::default();
        }
        self.slot = slot;
        self.total = Slot::default();
        for slot in &self.slots {
            self.total.freed += slot.freed;
            self.total.gaps += slot.gaps;
            self.total.squares += slot.squares;
        }
    }
}

/// When units of several buckets together become free.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    freed: u32,
    /// Units per second between one and the next, summed over buckets.
    pace: f64,
    /// Squared variation (σ/μ)² of the gaps, weighted by pace.
    variation: f64,
}

/// Fewer than this many units freed say nothing about the next.
const LEAST_FREED: u32 = 8;

impl Flow {
    /// Adds one bucket as of `now`.
    pub fn add(&mut self, history: &mut History, now: f64) {
        history.advance(now);
        let Slot {
            freed,
            gaps,
            squares,
        } = history.total;
        if freed == 0 || gaps <= 0.0 {
            return;
        }
        let mean = gaps / f64::from(freed);
        let variance = (squares / f64::from(freed) - mean * mean).max(0.0);
        self.freed += freed;
        self.pace += 1.0 / mean;
        self.variation += variance / (mean * mean) / mean;
    }

    /// Seconds until `units` more are there almost surely, by the rate at
    /// which they became free in the `observed` seconds up to now (at most the
    /// window); and the longest worth waiting for them, μ + 2σ of the time
    /// between frees (Tarcil, section 7.4.1). The two differ in that the rate
    /// also knows that nothing has become free for a while. `None` when too few
    /// became free to say.
    pub fn wait(&self, units: u32, observed: f64) -> Option<(f64, f64)> {
        if self.freed < LEAST_FREED || observed <= 0.0 {
            return None;
        }
        let units = f64::from(units);
        let spread = (self.variation / self.pace * units).sqrt();
        let rate = f64::from(self.freed) / observed.min(WINDOW_SECONDS);
        Some((
            (units + ALMOST_SURELY * spread) / rate,
            (units + 2.0 * spread) / self.pace,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(history: &mut History, now: f64) -> Flow {
        let mut flow = Flow::default();
        flow.add(history, now);
        flow
    }

    #[test]
    fn regular_frees_by_hand() {
        let mut history = History::default();
        // One unit every 10 s; the first gap is not known and counts as none.
        for n in 1..=100 {
            history.freed(1, f64::from(n) * 10.0);
        }
        let flow = flow(&mut history, 1000.0);
        let mean = 990.0 / 100.0;
        let sd = (9900.0f64 / 100.0 - mean * mean).sqrt();
        let (estimate, bound) = flow.wait(1, 1000.0).unwrap();
        assert!((bound - (mean + 2.0 * sd)).abs() < 1e-9, "{bound}");
        assert!((estimate - 10.0 * (1.0 + 1.2816 * sd / mean)).abs() < 1e-9);
        assert!(estimate < bound);
    }

    #[test]
    fn what_has_dried_up_is_not_worth_waiting_for() {
        let mut history = History::default();
        for n in 1..=100 {
            history.freed(1, f64::from(n));
        }
        let (estimate, bound) = flow(&mut history, 3000.0).wait(1, 3000.0).unwrap();
        assert!(estimate > bound, "{estimate} {bound}");
    }

    #[test]
    fn the_past_is_forgotten() {
        let mut history = History::default();
        for n in 1..=100 {
            history.freed(1, f64::from(n));
        }
        assert!(flow(&mut history, 6000.0).wait(1, 6000.0).is_some());
        assert_eq!(flow(&mut history, 8000.0).wait(1, 8000.0), None);
        assert_eq!(flow(&mut History::default(), 1.0).wait(1, 1.0), None);
    }

    #[test]
    fn two_buckets_free_twice_as_fast() {
        let mut history = History::default();
        for n in 1..=1000 {
            history.freed(1, f64::from(n));
        }
        let one = flow(&mut history, 1000.0);
        let mut two = one;
        two.add(&mut history, 1000.0);
        let (a, b) = (one.wait(2, 1000.0).unwrap(), two.wait(2, 1000.0).unwrap());
        assert!((a.0 / b.0 - 2.0).abs() < 1e-9 && (a.1 / b.1 - 2.0).abs() < 1e-9);
    }
}
