//! How well a count would serve as progress, from what it did in short windows.

use std::f64::consts::PI;

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

/// Rates that are tried first, per second: a call in the time of a block at least, and
/// cheap.
pub(super) const SLOWEST: f64 = 200.0;
pub(super) const USUAL: f64 = 5_000.0;
/// Largest rate that is taken.
const FASTEST: f64 = 40_000.0;
/// Least rate that is taken.
const COARSEST: f64 = 120.0;
/// Largest share of a CPU that counting may take.
pub(super) const COSTLIEST: f64 = 0.02;
/// Largest noise; see [`noise`].
const NOISIEST: f64 = 1.0;
/// Largest change from one half to the other.
const LARGEST_STEP: f64 = 3.0;
/// Longest time without a count, in seconds: about five of the longest blocks.
const LONGEST_PAUSE: f64 = 0.100;

/// How much noisier a count may be, and how much longer pause, where there is no
/// better one.
const LENIENT: f64 = 2.5;

/// What is demanded of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::metric) enum Demands {
    Usual,
    /// Where there is nothing better: bursts that leave most blocks something to count.
    /// What a program repeats is taken off later.
    Lenient,
    /// Of a program that is seen to do the same in every run: what it does in bursts, and
    /// in one part of a run only, is known from the other runs.
    Repeated,
}

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
    /// seconds, `noise` that of a block.
    pub(in crate::metric) fn refused(
        &self,
        each: f64,
        noise: f64,
        demands: Demands,
    ) -> Option<Refusal> {
        let (noisiest, pause, steps) = match demands {
            Demands::Usual => (NOISIEST, LONGEST_PAUSE, LARGEST_STEP),
            Demands::Lenient => (LENIENT * NOISIEST, LENIENT * LONGEST_PAUSE, LARGEST_STEP),
            // The noise is of the blocks that tell something, and of their share.
            Demands::Repeated => (LENIENT * NOISIEST, f64::INFINITY, f64::INFINITY),
        };
        let share = each * self.per_second;
        if self.per_second < COARSEST {
            Some(Refusal::Slow)
        } else if share > COSTLIEST || self.per_second > FASTEST {
            Some(Refusal::Costly)
        } else if self.first_half.max(1.0 / self.first_half) > steps
            || self.pause > pause
            || noise > noisiest
        {
            Some(Refusal::Unsteady)
        } else {
            None
        }
    }

    /// Lower is better: the `noise` of a block, and what it costs beyond 1 % of a CPU;
    /// `each` is what one count costs, in seconds.
    pub(super) fn score(&self, each: f64, noise: f64) -> f64 {
        let costly = (each * self.per_second - 0.01).max(0.0);
        noise * (1.0 + COSTLY * costly)
    }
}

/// A count that takes 2 % of a CPU is as bad as one a fifth noisier.
const COSTLY: f64 = 20.0;

/// Blocks of the measurement last four times as long as it takes from one count to the
/// next, within these limits, in seconds.
const SHORTEST_BLOCK: f64 = 0.004;
const LONGEST_BLOCK: f64 = 0.020;
const GAPS_PER_BLOCK: f64 = 4.0;
/// What a block takes beside its own length, in the time of a measurement, in seconds: the
/// controls, the switches and the time to settle, all of which longer blocks need more rarely.
/// Of `xz`, 1,093 blocks of 4 ms and 468 of 20 ms were played in 30 s.
const BESIDE_BLOCK: f64 = 0.008;
/// Fewest blocks that tell their noise.
const FEWEST_BLOCKS: usize = 5;
/// Longest step from one block to the next that counts as it is: a block in a pause of
/// what is counted says nothing, however long the pause is, and the others are as good as
/// before.
const LONGEST_STEP: f64 = 1.0;
/// Smallest share of a block between its first call and its last, where it is compared with
/// other runs.
const LEAST_BETWEEN: f64 = 0.25;
/// Smallest share of the blocks that can be compared so.
const LEAST_TOLD: f64 = 0.3;
/// Lengths of blocks that are tried there, in seconds.
const BLOCKS_TRIED: [f64; 4] = [SHORTEST_BLOCK, 0.008, 0.012, LONGEST_BLOCK];
/// What other runs show is uncertain too: blocks vary as if there were so many runs fewer of
/// what is theirs.
const ERROR_OF_OTHERS: f64 = 6.0;
/// What is longer than a block is never known: in this share of the time a block must not
/// be too short.
const SHARE_OF_TIME: f64 = 0.7;

/// How noisy blocks of the measurement would be: the standard deviation of the log of
/// one's progress against that of the next, as if blocks lasted 4 ms. What is under way
/// at the end of a block counts by its time, so what is even is not noisy, however slow.
///
/// `times` are those of all counts, ascending, in seconds of CPU time; `span` is when
/// they were looked for; `gap` is that of [`gap`]. `None` for too short a time.
pub(super) fn noise(times: &[f64], span: [f64; 2], gap: f64) -> Option<f64> {
    let block = (GAPS_PER_BLOCK * gap).clamp(SHORTEST_BLOCK, LONGEST_BLOCK);
    let blocks = ((span[1] - span[0]) / block).floor();
    if blocks < FEWEST_BLOCKS as f64 {
        return None;
    }
    // Progress is counted from the begin of the time, and reaches 1 at the first call.
    let marks: Vec<f64> = std::iter::once(span[0])
        .chain(times.iter().copied())
        .chain([span[1]])
        .collect();
    let progress = |at: f64| {
        let after = marks.partition_point(|mark| *mark <= at);
        let after = after.clamp(1, marks.len() - 1);
        let (from, to) = (marks[after - 1], marks[after]);
        let part = if to > from {
            (at - from) / (to - from)
        } else {
            1.0
        };
        (after - 1) as f64 + part.clamp(0.0, 1.0)
    };
    let ends = (0..=blocks as usize).map(|end| progress(span[0] + end as f64 * block));
    let ends: Vec<f64> = ends.collect();
    let logs = ends
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).max(1e-9).ln());
    let logs: Vec<f64> = logs.collect();
    let steps = logs.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    // Two values of normal noise differ by 2/√π standard deviations on average. The mean
    // of the differences is less sensitive to a few large ones than that of their squares.
    let steps: f64 = steps.map(|step| step.min(LONGEST_STEP)).sum();
    let deviation = steps / (logs.len() - 1) as f64 * PI.sqrt() / 2.0;
    Some(deviation * worse(block, &marks))
}

/// The same where a program does the same in every run, so that a block is compared with
/// what `others` show of the same calls: `one` and `other` are the times of all calls in two
/// runs, as of [`noise`]; `runs` is how many others there will be.
///
/// A block is read from its first call to its last; one of which these are less than a
/// quarter of it apart tells nothing. What drifts from one block to the next is left out, as
/// in [`noise`]. Also the gap by which blocks are made as long as is best. `None` where too
/// few blocks tell something.
pub(super) fn noise_between_runs(
    one: &[f64],
    other: &[f64],
    span: [f64; 2],
    runs: f64,
) -> Option<(f64, f64)> {
    let tried = BLOCKS_TRIED.iter().filter_map(|block| {
        let noise = noise_of_block(one, other, span, *block)?;
        Some((noise, block / GAPS_PER_BLOCK))
    });
    let (noise, gap) = tried.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((noise * (1.0 + ERROR_OF_OTHERS / runs.max(1.0)).sqrt(), gap))
}

/// The same for blocks of one length, as if what others show were known.
fn noise_of_block(one: &[f64], other: &[f64], span: [f64; 2], block: f64) -> Option<f64> {
    let blocks = ((span[1] - span[0]) / block).floor() as usize;
    let place = |end: usize| {
        let time = span[0] + end as f64 * block;
        one.partition_point(|call| *call < time)
    };
    let compared = (0..blocks).filter_map(|number| {
        let (first, last) = (place(number), place(number + 1).checked_sub(1)?);
        let own = one.get(last)? - one.get(first)?;
        let others = other.get(last)? - other.get(first)?;
        (last > first && own >= LEAST_BETWEEN * block && others > 0.0).then(|| (own / others).ln())
    });
    let compared: Vec<f64> = compared.collect();
    let told = compared.len() as f64 / blocks as f64;
    if compared.len() < FEWEST_BLOCKS || told < LEAST_TOLD {
        return None;
    }
    let steps = compared.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    let steps: f64 = steps.map(|step| step.min(LONGEST_STEP)).sum();
    // As in [`noise`]; each is the difference of two blocks.
    let deviation = steps / (compared.len() - 1) as f64 * (PI / 8.0).sqrt();
    Some(deviation * fewer(block) / told.sqrt())
}

/// How much worse than with blocks of 4 ms it is that blocks last as long as `block`, in
/// seconds: longer ones are fewer, and may be too short for the gaps between `marks`.
fn worse(block: f64, marks: &[f64]) -> f64 {
    let diluted = (GAPS_PER_BLOCK * usual_gap(marks) / LONGEST_BLOCK).max(1.0);
    fewer(block) * diluted
}

/// How much noisier the result is because blocks last as long as `block`, in seconds, and are
/// fewer for that.
fn fewer(block: f64) -> f64 {
    ((BESIDE_BLOCK + block) / (BESIDE_BLOCK + SHORTEST_BLOCK)).sqrt()
}

/// The longest of the gaps between `marks` in which [`SHARE_OF_TIME`] passes, shortest
/// first.
fn usual_gap(marks: &[f64]) -> f64 {
    let gaps = marks.windows(2).map(|pair| pair[1] - pair[0]);
    let mut gaps: Vec<f64> = gaps.collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let all: f64 = gaps.iter().sum();
    let mut passed = 0.0;
    let usual = gaps.iter().find(|gap| {
        passed += **gap;
        passed >= SHARE_OF_TIME * all
    });
    usual.copied().unwrap_or(f64::INFINITY)
}

/// Seconds from one count to the next, as at a moment taken at random: long ones
/// count by their length. `times` are ascending, within `span`, in seconds.
pub(super) fn gap(times: &[f64], span: [f64; 2]) -> f64 {
    let marks = std::iter::once(span[0])
        .chain(times.iter().copied())
        .chain([span[1]]);
    let gaps = marks
        .clone()
        .zip(marks.skip(1))
        .map(|(one, next)| next - one);
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
    /// It follows a clock, not the work.
    Clock,
    /// It is called by threads that hardly work, while others do.
    Idle,
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
            Refusal::Idle => {
                "those that are called at a useful rate are called by threads that hardly use a CPU while others work"
            }
            Refusal::Clock => {
                "those that are called at a useful rate follow a clock: they are called as often while others take most of the target's CPU"
            }
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
        assert_eq!(look.refused(EACH, 0.1, Demands::Usual), None);
    }

    #[test]
    fn two_that_take_turns_are_steady_together() {
        let one: Vec<Window> = [40, 0, 40, 0, 40, 0, 40, 0].map(window).to_vec();
        let other: Vec<Window> = [0, 38, 1, 39, 0, 40, 1, 38].map(window).to_vec();
        let alone = Look::of(&one).unwrap();
        let both = Look::of(&sum([&one[..], &other].into_iter())).unwrap();
        assert!(alone.variation > 1.0 && both.variation < 0.05, "{both:?}");
        assert!(sum(std::iter::empty()).is_empty());
    }

    #[test]
    fn the_reason_of_a_refusal_is_told() {
        assert_eq!(
            look([0, 0, 0, 0, 1, 0]).refused(EACH, 0.1, Demands::Usual),
            Some(Refusal::Slow)
        );
        assert_eq!(
            look([200; 6]).refused(EACH, 0.1, Demands::Usual),
            Some(Refusal::Costly)
        );
        // The same rate is cheap or not by what one costs.
        assert_eq!(
            look([20; 6]).refused(9.5e-6, 0.1, Demands::Usual),
            Some(Refusal::Costly)
        );
        let bursts = look([0, 60, 0, 0, 60, 0, 0, 60]);
        assert!((bursts.pause - 0.008).abs() < 1e-9);
        assert_eq!(
            bursts.refused(EACH, 1.5, Demands::Usual),
            Some(Refusal::Unsteady)
        );
        // Where there is nothing better it is.
        assert_eq!(bursts.refused(EACH, 1.5, Demands::Lenient), None);
        let over = look([40, 40, 40, 40, 0, 0, 0, 0]);
        assert_eq!(
            over.refused(EACH, 0.1, Demands::Usual),
            Some(Refusal::Unsteady)
        );
    }

    /// Counts `every` so many seconds, each off by up to `jitter` of that.
    fn times(every: f64, jitter: f64) -> Vec<f64> {
        let mut draws = jostle_statistics::Noise::seeded(7);
        let count = (SPAN[1] / every) as usize;
        let late = |n: usize, draw: f64| (n as f64 + 0.5 + jitter * (draw - 0.5)) * every;
        (0..count).map(|n| late(n, draws.uniform())).collect()
    }

    const SPAN: [f64; 2] = [0.0, 0.400];

    fn noise_of(times: &[f64]) -> f64 {
        noise(times, SPAN, gap(times, SPAN)).unwrap()
    }

    #[test]
    fn even_counts_are_not_noisy_however_slow() {
        // 250 per second, to a tenth of the time between two.
        let slow = noise_of(&times(0.004, 0.1));
        assert!(slow < 0.06, "{slow}");
        // 5,000 per second, in bursts of 5 ms at most, now and then.
        let mut draws = jostle_statistics::Noise::seeded(5);
        let open: Vec<bool> = (0..80).map(|_| draws.uniform() < 0.5).collect();
        let bursts: Vec<f64> = times(0.000_1, 0.0)
            .into_iter()
            .filter(|time| open[(time * 200.0) as usize % 80])
            .collect();
        let noisy = noise_of(&bursts);
        assert!(noisy > 3.0 * slow, "{noisy} {slow}");
        let fast = noise_of(&times(0.000_2, 0.1));
        assert!(fast < slow, "{fast} {slow}");
    }

    #[test]
    fn bursts_are_not_noisy_where_they_are_the_same_in_every_run() {
        let bursts = |every: f64| -> Vec<f64> {
            let open = |time: &f64| (time / every).fract() < 0.75;
            times(0.000_1, 0.2).into_iter().filter(open).collect()
        };
        // Another run, in which each piece of 4 ms takes up to a tenth longer.
        let again = |one: &[f64]| -> Vec<f64> {
            let mut draws = jostle_statistics::Noise::seeded(11);
            let slower: Vec<f64> = (0..=100).map(|_| 1.0 + 0.1 * draws.uniform()).collect();
            let (mut now, mut last) = (0.0, 0.0);
            let took = one.iter().map(|time| {
                now += (time - last) * slower[(time / SHORTEST_BLOCK) as usize];
                last = *time;
                now
            });
            took.collect()
        };
        let known = |one: &[f64]| noise_between_runs(one, &again(one), SPAN, 1e9);
        let short = bursts(0.008);
        assert!(noise_of(&short) > 0.3);
        let (noise, gap) = known(&short).unwrap();
        assert!((0.01..0.06).contains(&noise), "{noise}");
        assert!(BLOCKS_TRIED.contains(&(gap * GAPS_PER_BLOCK)), "{gap}");
        // What few runs show is uncertain.
        let (few, _) = noise_between_runs(&short, &again(&short), SPAN, 6.0).unwrap();
        assert!((few / noise - 2.0_f64.sqrt()).abs() < 1e-6);
        // Where calls are seen in a small part of the run only, most blocks tell nothing.
        let part: Vec<f64> = times(0.000_1, 0.2)
            .into_iter()
            .filter(|time| *time < 0.06)
            .collect();
        assert_eq!(known(&part), None);
        // Nor do phases of a run matter.
        let over = look([40, 40, 40, 40, 0, 0, 0, 0]);
        assert_eq!(over.refused(EACH, 0.1, Demands::Repeated), None);
        let slow = look([0, 0, 0, 0, 1, 0]);
        assert_eq!(
            slow.refused(EACH, 0.1, Demands::Repeated),
            Some(Refusal::Slow)
        );
    }

    #[test]
    fn pauses_and_long_gaps_are_noise() {
        let even = times(0.001, 0.2);
        let pauses = |time: &f64| (time * 10.0).fract() > 0.3;
        let paused: Vec<f64> = even.iter().copied().filter(pauses).collect();
        assert!(noise_of(&paused) > 10.0 * noise_of(&even));
        let rare = times(0.012, 0.3);
        assert!(noise_of(&rare) > 2.0 * noise_of(&times(0.003, 0.3)));
        assert_eq!(noise(&even[..10], [0.0, 0.010], 0.001), None);
    }

    #[test]
    fn noise_is_that_of_blocks() {
        // Normal steps of the rate from one 4 ms to the next: a standard deviation of 0.2.
        let mut draws = jostle_statistics::Noise::seeded(3);
        let mut all = Vec::new();
        let span = [0.0, 8.0];
        for block in 0..2_000 {
            let rate = 5_000.0 * (0.2 * draws.normal()).exp();
            let begin = f64::from(block) * SHORTEST_BLOCK;
            let count = (rate * SHORTEST_BLOCK) as usize;
            all.extend((0..count).map(|n| begin + (n as f64 + 0.5) / rate));
        }
        let found = noise(&all, span, gap(&all, span)).unwrap();
        assert!((found - 0.2).abs() < 0.03, "{found}");
    }

    #[test]
    fn what_costs_less_scores_lower() {
        let middle = look([18; 8]);
        assert!(middle.score(EACH, 0.1) < middle.score(4.0e-6, 0.1));
        assert!(middle.score(EACH, 0.1) < middle.score(EACH, 0.2));
    }

    #[test]
    fn bursts_leave_long_gaps() {
        let span = [0.0, 0.1];
        let even: Vec<f64> = (0..100).map(|n| f64::from(n) * 1e-3).collect();
        assert!((gap(&even, span) - 0.001).abs() < 1e-12);
        // As many in bursts of ten.
        let burst: Vec<f64> = (0..100)
            .map(|n| f64::from(n / 10) * 1e-2 + f64::from(n % 10) * 1e-8)
            .collect();
        assert!((gap(&burst, span) - 0.010).abs() < 1e-4);
        // Each fills what the other leaves.
        let other = burst.iter().map(|time| time + 5e-3);
        let mut both: Vec<f64> = burst.iter().copied().chain(other).collect();
        both.sort_by(f64::total_cmp);
        assert!((gap(&both, span) - 0.005).abs() < 1e-4);
        // One burst in all the time.
        assert!(gap(&burst[..10], span) > 0.099);
        assert_eq!(gap(&[], [0.0, 0.0]), f64::INFINITY);
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
