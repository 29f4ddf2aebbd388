//! How well a count would serve as progress, from what it did in short windows.

/// What a count did in windows of about equal length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::metric) struct Look {
    pub per_second: f64,
    /// Standard deviation of a window's count against that of the next, over
    /// the mean: how noisy one window is once drift is taken off.
    pub variation: f64,
    /// Counts of the first half over those of the second, per time.
    pub first_half: f64,
    /// Longest CPU time without a count, in seconds.
    pub pause: f64,
}

/// Useful rates, per second.
pub(super) const SLOWEST: f64 = 1_000.0;
pub(super) const FASTEST: f64 = 20_000.0;
/// Rates below [`SLOWEST`] that are taken where there is nothing else: one count
/// per block of the fastest sources.
pub(super) const COARSEST: f64 = 300.0;
/// Largest share of a CPU that counting may take.
pub(super) const COSTLIEST: f64 = 0.02;
/// Largest variation from window to window.
const NOISIEST: f64 = 1.0;
/// Largest change from one half to the other.
const LARGEST_STEP: f64 = 3.0;
/// Longest time without a count, in seconds: about ten blocks of the fastest
/// sources.
const LONGEST_PAUSE: f64 = 0.040;

/// How much noisier a count may be, and how much longer pause, where there is no
/// better one.
const LENIENT: f64 = 2.5;

/// What was counted in a short time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::metric) struct Window {
    pub seconds: f64,
    /// Of CPU time that the target got.
    pub busy: f64,
    pub count: u64,
}

/// What several did together, window by window; all have the same windows.
pub(super) fn sum<'w>(mut all: impl Iterator<Item = &'w [Window]>) -> Vec<Window> {
    let mut sum = all.next().unwrap_or_default().to_vec();
    for windows in all {
        for (sum, window) in sum.iter_mut().zip(windows) {
            sum.count += window.count;
        }
    }
    sum
}

impl Look {
    /// What `windows` showed, in order. `None` with less than four, or without
    /// any count.
    ///
    /// The rate is that of wall time. How steady it is, is told by CPU time:
    /// that others take the CPU away is none of the target's doing.
    pub(in crate::metric) fn of(windows: &[Window]) -> Option<Look> {
        let sum = |part: &[Window], what: fn(&Window) -> f64| part.iter().map(what).sum::<f64>();
        let count = |part: &[Window]| sum(part, |window| window.count as f64);
        let busy = |part: &[Window]| sum(part, |window| window.busy);
        let seconds = sum(windows, |window| window.seconds);
        let usual = busy(windows) / windows.len() as f64;
        // In a window in which it hardly ran there is nothing to be counted.
        let ran = windows.iter().filter(|window| window.busy > usual / 4.0);
        let ran: Vec<Window> = ran.copied().collect();
        if ran.len() < 4 || count(&ran) == 0.0 || seconds <= 0.0 {
            return None;
        }
        let mean = count(&ran) / busy(&ran);
        let rate = |window: &Window| window.count as f64 / window.busy;
        let squares = ran.windows(2).map(|pair| {
            let step = rate(&pair[1]) - rate(&pair[0]);
            step * step / 2.0
        });
        let variance = squares.sum::<f64>() / (ran.len() - 1) as f64;
        let (first, second) = ran.split_at(ran.len() / 2);
        let [first, second] = [first, second].map(|part| count(part) / busy(part));
        let (mut gap, mut longest) = (0.0, 0.0_f64);
        for window in &ran {
            gap = if window.count == 0 {
                gap + window.busy
            } else {
                0.0
            };
            longest = longest.max(gap);
        }
        Some(Look {
            per_second: count(windows) / seconds,
            variation: variance.sqrt() / mean,
            first_half: first / second,
            pause: longest,
        })
    }

    /// Why it cannot be used, if it cannot; `each` is what one count costs, in
    /// seconds. With `lenient` bursts are taken that leave most blocks something to
    /// count: what a program repeats is taken off later.
    pub(in crate::metric) fn refused(&self, each: f64, lenient: bool) -> Option<Refusal> {
        let more = if lenient { LENIENT } else { 1.0 };
        let share = each * self.per_second;
        if self.per_second < COARSEST {
            Some(Refusal::Slow)
        } else if share > COSTLIEST || self.per_second > FASTEST * 2.0 {
            Some(Refusal::Costly)
        } else if !(1.0 / LARGEST_STEP..=LARGEST_STEP).contains(&self.first_half)
            || self.pause > more * LONGEST_PAUSE
            || self.variation > more * NOISIEST
        {
            Some(Refusal::Unsteady)
        } else {
            None
        }
    }

    /// Lower is better: the noise of a window, the time from one call to the next,
    /// `gap` in seconds, as [`gap`] tells it, and what it costs beyond 1 % of a CPU;
    /// `each` is what one count costs, in seconds.
    ///
    /// What a program repeats is taken off later, noise and all, but where in the time
    /// between two calls it was at the end of a block is never known.
    pub(super) fn score(&self, each: f64, gap: f64) -> f64 {
        let costly = (each * self.per_second - 0.01).max(0.0);
        0.5 * self.variation + gap / COARSE + 10.0 * costly
    }
}

/// Seconds between two counts that are as bad as a window whose noise is twice what it
/// counts.
const COARSE: f64 = 0.004;

/// Seconds from one count to the next, as at a moment taken at random: long ones
/// count by their length. `all`: times within `span`, nanoseconds.
pub(super) fn gap<'t>(all: impl Iterator<Item = &'t [u64]>, span: [u64; 2]) -> f64 {
    let mut times: Vec<u64> = all.flatten().copied().chain(span).collect();
    times.sort_unstable();
    let gaps = times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64 / 1e9);
    let (sum, squares) = gaps.fold((0.0, 0.0), |(sum, squares), gap| {
        (sum + gap, squares + gap * gap)
    });
    if sum > 0.0 {
        squares / sum
    } else {
        f64::INFINITY
    }
}

/// What is wrong with a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::metric) enum Refusal {
    /// Too few per second.
    Slow,
    /// Counting would cost too much.
    Costly,
    /// It comes in bursts, or belongs to a phase.
    Unsteady,
}

impl Refusal {
    /// What was wrong with the best of them.
    pub(in crate::metric) fn words(self) -> &'static str {
        match self {
            Refusal::Slow => "those that were called are called too rarely",
            Refusal::Costly => {
                "those that are called often enough are called so often that counting would slow the target down"
            }
            Refusal::Unsteady => "those that are called at a useful rate are called in bursts",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: f64 = 0.8e-6;

    fn window(count: u64) -> Window {
        Window {
            seconds: 0.004,
            busy: 0.004,
            count,
        }
    }

    fn look(counts: impl IntoIterator<Item = u64>) -> Look {
        let windows: Vec<Window> = counts.into_iter().map(window).collect();
        Look::of(&windows).unwrap()
    }

    #[test]
    fn steady_counts_are_taken() {
        let look = look([20, 21, 20, 19, 20, 20]);
        assert!((look.per_second - 5000.0).abs() < 1.0);
        assert!(look.variation < 0.05, "{look:?}");
        assert_eq!(look.refused(EACH, false), None);
    }

    #[test]
    fn two_that_take_turns_are_steady_together() {
        let one: Vec<Window> = [40, 0, 40, 0, 40, 0, 40, 0].map(window).to_vec();
        let other: Vec<Window> = [0, 38, 1, 39, 0, 40, 1, 38].map(window).to_vec();
        let alone = Look::of(&one).unwrap();
        let both = Look::of(&sum([&one[..], &other].into_iter())).unwrap();
        assert!(alone.variation > 1.0 && both.variation < 0.05, "{both:?}");
        assert!(both.score(EACH, 2e-4) < alone.score(EACH, 2e-4));
        assert!(sum(std::iter::empty()).is_empty());
    }

    #[test]
    fn the_reason_of_a_refusal_is_told() {
        assert_eq!(
            look([0, 1, 0, 0, 1, 0]).refused(EACH, false),
            Some(Refusal::Slow)
        );
        assert_eq!(look([120; 6]).refused(EACH, false), Some(Refusal::Costly));
        // The same rate is cheap or not by what one costs.
        assert_eq!(look([20; 6]).refused(9.5e-6, false), Some(Refusal::Costly));
        let bursts = look([0, 60, 0, 0, 60, 0, 0, 60]);
        assert!((bursts.pause - 0.008).abs() < 1e-9);
        assert_eq!(bursts.refused(EACH, false), Some(Refusal::Unsteady));
        // Where there is nothing better it is.
        assert_eq!(bursts.refused(EACH, true), None);
        let over = look([40, 40, 40, 40, 0, 0, 0, 0]);
        assert_eq!(over.refused(EACH, false), Some(Refusal::Unsteady));
    }

    #[test]
    fn better_counts_score_lower() {
        let middle = look([18; 8]);
        let slow = look([2; 8]);
        let noisy = look([10, 26, 9, 27, 11, 25, 10, 26]);
        let score = |look: Look| look.score(EACH, 1.0 / look.per_second);
        assert!(score(middle) < score(slow));
        assert!(score(middle) < score(noisy));
        assert!(score(look([30; 8])) < score(noisy));
        assert!(middle.score(EACH, 2e-4) < middle.score(4.0e-6, 2e-4));
    }

    #[test]
    fn bursts_leave_long_gaps() {
        let span = [0, 100_000_000];
        let of = |all: &[&[u64]]| gap(all.iter().copied(), span);
        let even: Vec<u64> = (0..100).map(|n| n * 1_000_000).collect();
        assert!((of(&[&even]) - 0.001).abs() < 1e-12);
        // As many in bursts of ten.
        let burst: Vec<u64> = (0..100).map(|n| n / 10 * 10_000_000 + n % 10).collect();
        assert!((of(&[&burst]) - 0.010).abs() < 1e-4);
        // Each fills what the other leaves.
        let other: Vec<u64> = burst.iter().map(|time| time + 5_000_000).collect();
        assert!((of(&[&burst, &other]) - 0.005).abs() < 1e-4);
        // One burst in all the time.
        assert!(of(&[&burst[..10]]) > 0.099);
        assert_eq!(gap([].into_iter(), [0, 0]), f64::INFINITY);
    }

    #[test]
    fn time_that_others_take_is_not_the_targets_doing() {
        let mut windows = vec![window(20); 20];
        // Every other window half of the CPU goes to somebody else, and once all.
        for window in windows.iter_mut().step_by(2) {
            (window.busy, window.count) = (0.002, 10);
        }
        (windows[7].busy, windows[7].count) = (0.0, 0);
        let look = Look::of(&windows).unwrap();
        assert!(look.variation < 1e-9 && look.pause == 0.0, "{look:?}");
        assert!((look.per_second - 3500.0).abs() < 1.0, "{look:?}");
    }

    #[test]
    fn nothing_has_no_look() {
        assert_eq!(Look::of(&[]), None);
        assert_eq!(Look::of(&[window(0); 8]), None);
        assert_eq!(Look::of(&[window(9); 3]), None);
    }
}
