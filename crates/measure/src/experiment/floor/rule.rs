//! When performance counts as below a floor, and not as noise.
//!
//! Performance arrives in windows, as a fraction of what it was without
//! interference. Four cumulative sums (Page 1954) run over them, each tuned to
//! another loss below the floor; the sum of what is missing to a reference value
//! grows while performance is lower than that and shrinks otherwise. Their
//! thresholds are set so that a target that runs exactly *at* the floor, the worst
//! case of one that meets it, is stopped once in [`FALSE_ALARMS`] on average
//! (Siegmund's approximation of the run length, 1985). That holds for independent
//! normal noise. Real targets also stand still for some milliseconds now and then,
//! so a sum alone decides nothing: many of the last windows must be below the floor
//! as well, fewer where a source is seen to have had the CPU meanwhile, and sums that
//! noise reached before anything was stressed are no alarm.

use jostle_statistics::median;
use std::collections::VecDeque;
use std::time::Duration;

/// Mean time to a false alarm of a target that runs at its floor.
pub const FALSE_ALARMS: Duration = Duration::from_secs(3600);
/// Losses below the floor that the first sums are tuned to, fractions of the baseline.
/// Another one is tuned to twice the noise, and the last to half of the floor.
const LOSSES: [f64; 2] = [0.02, 0.1];
/// A window adds at most this much: one in which the target stands still counts
/// as one in which it lost this. To the last sum it adds all: beside a source that has the
/// CPU for half of the time, some milliseconds at once, it would otherwise fall as fast as
/// it rises.
const MOST_ADDED: f64 = 0.25;
/// A sum stands at this many times its threshold at most, so that it falls soon
/// after a loss.
const MOST_SUM: f64 = 2.0;
/// What noise reached without interference, times this, is no alarm.
const ABOVE_NOISE: f64 = 1.25;
/// Largest threshold of the last sum, whatever the noise: a target that lost half of
/// what it must keep is stopped within some ten windows.
const LARGEST_LAST: f64 = 8.0 * MOST_ADDED;
/// Noise that is taken for certain, and the largest that thresholds allow for: one
/// alarm too many ends a measurement, one too late costs the target's users. A target
/// well above its floor is rarely stopped all the same.
const LEAST_NOISE: f64 = 0.005;
const MOST_NOISE: f64 = 0.07;
/// Windows over which noise is looked at: what lasts longer than one shows in
/// longer means.
const LENGTHS: [usize; 3] = [1, 4, 16];
/// Blocks that a noise needs.
const FEWEST_BLOCKS: usize = 8;

/// How many of the last windows must be below the floor: so many of few, or three
/// eighths of [`LONGER`] times as many, for a source that comes and goes within
/// milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Majority {
    pub below: u32,
    pub of: u32,
}

/// See [`Majority`].
const LONGER: u32 = 8;
const SHARE: f64 = 3.0 / 8.0;

/// Windows of milliseconds: what stands still for 4 ms is no alarm. Of so many that two
/// turns of a kernel which switches every 4 ms are among them.
pub const SHORT: Majority = Majority { below: 5, of: 9 };
/// Windows as a slow metric has them.
pub const LONG: Majority = Majority { below: 2, of: 3 };

/// Where a source had the target's CPU, the target did not stand still by itself, and no
/// majority is needed: over as many windows the source took this many times what the floor
/// leaves to it, and so many windows at least.
const TAKEN: f64 = 2.0;
const LEAST_TAKEN: f64 = 2.0;

/// Judges windows one after the other.
#[derive(Clone, Debug)]
pub struct Rule {
    /// A fraction of the baseline.
    floor: f64,
    majority: Majority,
    charts: Vec<Chart>,
    /// Whether noise reaches beyond what the last sum may be.
    restless: bool,
    /// One bit per window, the newest lowest: whether it was below the floor.
    history: u64,
    /// Shares of the last windows that a source had the CPU, 0 of those above the floor.
    taken: VecDeque<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Chart {
    reference: f64,
    /// What one window adds at most.
    most_added: f64,
    threshold: f64,
    /// The same where a source is seen to take the time: what the target lost by itself
    /// before raises it no further.
    beside_a_source: f64,
    sum: f64,
    /// Windows since the sum was 0.
    since: u32,
}

/// An alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// How many windows ago, itself included, performance fell below the floor.
    pub windows: u32,
}

impl Rule {
    /// For windows of `length` without whose `baseline` (fractions of its own
    /// centre, in time order) nothing is known of the noise.
    pub fn new(floor: f64, baseline: &[f64], length: Duration, majority: Majority) -> Rule {
        let found = noise(baseline);
        let noise = found.min(MOST_NOISE);
        let between = FALSE_ALARMS.as_secs_f64() / length.as_secs_f64().max(1e-6);
        let losses = LOSSES.into_iter();
        let losses: Vec<f64> = losses
            .chain([0.1f64.max(2.0 * noise), floor / 2.0])
            .collect();
        let count = losses.len() as f64;
        let last = losses.len() - 1;
        let charts = losses.into_iter().enumerate().map(|(index, loss)| {
            let threshold = threshold(loss, noise, between * count);
            Chart {
                reference: floor - loss / 2.0,
                most_added: match index == last {
                    true => floor,
                    false => MOST_ADDED,
                },
                threshold,
                beside_a_source: threshold,
                sum: 0.0,
                since: 0,
            }
        });
        let mut rule = Rule {
            floor,
            majority,
            charts: charts.collect(),
            history: 0,
            taken: VecDeque::new(),
            restless: found > MOST_NOISE,
        };
        rule.learn(baseline);
        rule
    }

    /// Raises thresholds above what `baseline` reached.
    fn learn(&mut self, baseline: &[f64]) {
        let mut most = vec![0.0f64; self.charts.len()];
        for window in baseline {
            self.add(*window, 0.0, f64::INFINITY);
            if self.mostly_below() {
                for (most, chart) in most.iter_mut().zip(&self.charts) {
                    *most = most.max(chart.sum);
                }
            }
        }
        for (chart, most) in self.charts.iter_mut().zip(most) {
            chart.threshold = chart.threshold.max(ABOVE_NOISE * most);
        }
        if let Some(last) = self.charts.last_mut() {
            self.restless |= last.threshold > LARGEST_LAST;
            last.threshold = last.threshold.min(LARGEST_LAST);
        }
        self.forget();
    }

    /// Forgets the windows so far: the next one does not follow them.
    pub fn forget(&mut self) {
        self.history = 0;
        self.taken.clear();
        for chart in &mut self.charts {
            (chart.sum, chart.since) = (0.0, 0);
        }
    }

    fn add(&mut self, window: f64, taken: f64, most: f64) {
        let below = window < self.floor;
        self.history = self.history << 1 | u64::from(below);
        self.taken.push_back(if below { taken } else { 0.0 });
        if self.taken.len() > self.majority.of as usize {
            self.taken.pop_front();
        }
        for chart in &mut self.charts {
            let missing = (chart.reference - window).min(chart.most_added);
            chart.sum = (chart.sum + missing).clamp(0.0, most * chart.threshold);
            chart.since = match chart.sum > 0.0 {
                true => chart.since + 1,
                false => 0,
            };
        }
    }

    fn mostly_below(&self) -> bool {
        let Majority { below, of } = self.majority;
        let longer = (LONGER * of).min(u64::BITS);
        self.below(of) >= below || f64::from(self.below(longer)) >= SHARE * f64::from(longer)
    }

    /// How many of the last `count` windows were below the floor.
    fn below(&self, count: u32) -> u32 {
        (self.history << (u64::BITS - count)).count_ones()
    }

    /// Whether a source took so much of the time that no majority is needed.
    fn is_taken(&self) -> bool {
        let leaves = f64::from(self.majority.of) * (1.0 - self.floor);
        self.taken.iter().sum::<f64>() >= (TAKEN * leaves).max(LEAST_TAKEN)
    }

    /// Judges the next window, of which a source had the target's CPU for the share `taken`.
    pub fn step(&mut self, window: f64, taken: f64) -> Option<Alarm> {
        self.add(window, taken, MOST_SUM);
        let taken = self.is_taken();
        if !taken && !self.mostly_below() {
            return None;
        }
        let reached = |chart: &&Chart| match taken {
            true => chart.sum >= chart.beside_a_source,
            false => chart.sum >= chart.threshold,
        };
        let since = self
            .charts
            .iter()
            .filter(reached)
            .map(|it| it.since)
            .min()?;
        // The sum may have begun later than the majority did.
        let last = self.history & ((1 << self.majority.of) - 1);
        let windows = since.max(u64::BITS - last.leading_zeros());
        Some(Alarm { windows })
    }

    /// Whether false alarms come more often than [`FALSE_ALARMS`] says, for the noise
    /// is as large as what must be seen.
    pub fn is_restless(&self) -> bool {
        self.restless
    }

    /// A fraction of the baseline.
    pub fn floor(&self) -> f64 {
        self.floor
    }

    /// Windows from a fall to `performance` (a fraction of the baseline) to the
    /// alarm, without noise; `None` where there would be none.
    pub fn delay(&self, performance: f64) -> Option<u32> {
        let mut rule = self.clone();
        rule.forget();
        (1..100_000).find(|_| rule.step(performance, 0.0).is_some())
    }
}

/// Standard deviation of one window, so that the error of a mean over many is
/// right: the largest of what windows and longer stretches say. Robust, for a
/// target that stands still now and then is not noisy all the time.
fn noise(baseline: &[f64]) -> f64 {
    let of = |length: usize| {
        let mut means: Vec<f64> = baseline
            .chunks_exact(length)
            .map(jostle_statistics::mean)
            .collect();
        if means.len() < FEWEST_BLOCKS {
            return 0.0;
        }
        let centre = median(&mut means);
        let mut apart: Vec<f64> = means.iter().map(|mean| (mean - centre).abs()).collect();
        // Of a normal law.
        1.4826 * median(&mut apart) * (length as f64).sqrt()
    };
    LENGTHS
        .iter()
        .map(|length| of(*length))
        .fold(LEAST_NOISE, f64::max)
}

/// The threshold of a sum tuned to `loss` at which a target at its floor is
/// stopped once in `between` windows.
fn threshold(loss: f64, noise: f64, between: f64) -> f64 {
    let shift = loss / (2.0 * noise);
    let length = |b: f64| {
        let x = 2.0 * shift * b;
        (x.exp() - x - 1.0) / (2.0 * shift * shift)
    };
    let (mut low, mut high) = (0.0, 700.0 / (2.0 * shift));
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        match length(middle) < between {
            true => low = middle,
            false => high = middle,
        }
    }
    // Siegmund's correction for the overshoot.
    ((high - 1.166) * noise).max(loss / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;
    use rand::rngs::ChaCha8Rng;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn normal(rng: &mut ChaCha8Rng) -> f64 {
        let mut sum = -6.0;
        for _ in 0..12 {
            sum += rng.random::<f64>();
        }
        sum
    }

    fn windows(seed: u64, count: usize, mean: f64, sd: f64) -> Vec<f64> {
        let mut rng = jostle_statistics::stream(seed, 0);
        (0..count).map(|_| mean + sd * normal(&mut rng)).collect()
    }

    fn rule(floor: f64, sd: f64) -> Rule {
        Rule::new(floor, &windows(1, 300, 1.0, sd), MILLISECOND, SHORT)
    }

    /// Windows until the alarm.
    fn run(rule: &mut Rule, windows: &[f64]) -> Option<usize> {
        rule.forget();
        windows
            .iter()
            .position(|window| rule.step(*window, 0.0).is_some())
    }

    #[test]
    fn a_target_at_its_floor_is_rarely_stopped_and_one_at_its_baseline_never() {
        // 20 minutes of windows of 1 ms at the floor: a third of an alarm expected.
        for (seed, sd) in [(2, 0.03), (3, 0.1)] {
            let mut rule = rule(0.9, sd);
            let minute = |minute| windows(100 * seed + minute, 60_000, 0.9, sd);
            let alarms = (0..20).filter(|it| run(&mut rule, &minute(*it)).is_some());
            let alarms = alarms.count();
            assert!(alarms <= 2 || rule.is_restless(), "{sd}");
            assert_eq!(rule.is_restless(), sd > MOST_NOISE);
            let usual = windows(seed, 600_000, 1.0, sd);
            assert_eq!(run(&mut rule, &usual), None, "{sd}");
        }
    }

    #[test]
    fn a_large_loss_is_seen_within_ten_windows_and_a_small_one_sooner_or_later() {
        for sd in [0.01, 0.03, 0.1] {
            let mut rule = rule(0.9, sd);
            for seed in 10..40 {
                let seen = run(&mut rule, &windows(seed, 1000, 0.6, sd));
                assert!(seen.is_some_and(|seen| seen < 9), "{sd}: {seen:?}");
            }
            let small = run(&mut rule, &windows(50, 20_000, 0.87, sd));
            assert!(small.is_some(), "{sd}");
        }
        let quiet = rule(0.9, 0.01);
        assert_eq!(quiet.delay(0.5), Some(5));
        assert_eq!(quiet.delay(0.95), None);
    }

    #[test]
    fn standing_still_for_some_milliseconds_is_no_loss() {
        let mut rule = rule(0.9, 0.02);
        let mut usual = windows(60, 60_000, 1.0, 0.02);
        for at in (500..60_000).step_by(500) {
            usual[at..at + 4].fill(0.0);
        }
        assert_eq!(run(&mut rule, &usual), None);
        // For longer it is.
        usual[1000..1006].fill(0.0);
        assert_eq!(run(&mut rule, &usual), Some(1004));
    }

    #[test]
    fn a_source_that_comes_and_goes_is_seen_by_what_it_costs_on_average() {
        // Blocks of 4 ms, half of them under pressure: 80 % on average.
        for sd in [0.02, 0.1] {
            let mut rule = rule(0.9, sd);
            let mut blocks = windows(65, 2000, 1.0, sd);
            for at in (0..2000).step_by(8) {
                blocks[at..at + 4].iter_mut().for_each(|it| *it -= 0.4);
            }
            let seen = run(&mut rule, &blocks);
            assert!(seen.is_some_and(|seen| seen < 300), "{sd}: {seen:?}");
            // 95 % on average: it keeps its floor.
            let mut mild = windows(66, 20_000, 1.0, sd);
            for at in (0..20_000).step_by(8) {
                mild[at..at + 4].iter_mut().for_each(|it| *it -= 0.1);
            }
            let stopped = run(&mut rule, &mild);
            // Noise beyond what thresholds allow for may end a measurement, but not soon.
            let late = rule.is_restless() && stopped.is_some_and(|seen| seen > 10_000);
            assert!(stopped.is_none() || late, "{sd}: {stopped:?}");
        }
    }

    /// From window 200 on a source has the CPU for 4 ms of every 8.
    fn turns(seed: u64, sd: f64) -> Vec<f64> {
        let mut turns = windows(seed, 400, 1.0, sd);
        for at in (200..400).step_by(8) {
            turns[at..at + 4].fill(0.0);
        }
        turns
    }

    #[test]
    fn turns_of_the_kernel_are_seen_in_their_second_round() {
        for sd in [0.01, 0.03] {
            let seen = run(&mut rule(0.9, sd), &turns(67, sd));
            assert!(
                seen.is_some_and(|seen| (204..210).contains(&seen)),
                "{sd}: {seen:?}"
            );
        }
    }

    /// Thresholds of a target that stood at half of its speed for a while by itself are as
    /// high as they get.
    #[test]
    fn turns_of_the_kernel_are_seen_beside_a_restless_target_too() {
        let mut baseline = windows(68, 400, 1.0, 0.02);
        baseline[100..120].fill(0.5);
        let mut rule = Rule::new(0.9, &baseline, MILLISECOND, SHORT);
        assert!(rule.is_restless());
        let seen = run(&mut rule, &turns(69, 0.02));
        assert!(
            seen.is_some_and(|seen| (204..210).contains(&seen)),
            "{seen:?}"
        );
    }

    /// The target has two turns in a row now and then, so that five of nine windows are
    /// below the floor only much later.
    #[test]
    fn a_turn_of_a_source_is_seen_in_its_first_round() {
        let mut turns = windows(71, 400, 1.0, 0.02);
        for at in (200..400).step_by(12) {
            turns[at..at + 4].fill(0.0);
        }
        let first = |floor, windows: &[f64], taken: &dyn Fn(f64) -> f64| {
            let mut rule = rule(floor, 0.02);
            let mut windows = windows.iter();
            windows.position(|it| rule.step(*it, taken(*it)).is_some())
        };
        let lost = |window: f64| (1.0 - window).clamp(0.0, 1.0);
        assert!(first(0.9, &turns, &|_| 0.0).is_some_and(|seen| seen > 210));
        assert_eq!(first(0.9, &turns, &lost), Some(201));
        assert_eq!(first(0.8, &turns, &lost), Some(203));
        // Thresholds that a restless target raises are none for a source.
        let mut baseline = windows(68, 400, 1.0, 0.02);
        baseline[100..120].fill(0.5);
        let mut restless = Rule::new(0.9, &baseline, MILLISECOND, SHORT);
        let mut all = turns.iter();
        let seen = all.position(|it| restless.step(*it, lost(*it)).is_some());
        assert_eq!((seen, restless.is_restless()), (Some(201), true));
        // A third is what this floor leaves to the source.
        assert!(first(0.6, &turns, &lost).is_some_and(|seen| seen > 210));
        // As much CPU time without a loss, or in shorter turns, is no alarm.
        let usual = windows(72, 20_000, 1.0, 0.02);
        assert_eq!(first(0.9, &usual, &|_| 1.0), None);
        let mut short = windows(73, 20_000, 1.0, 0.02);
        for at in (0..20_000).step_by(20) {
            short[at..at + 1].fill(0.0);
        }
        assert_eq!(first(0.9, &short, &lost), None);
    }

    #[test]
    fn an_alarm_says_when_performance_fell() {
        let mut rule = rule(0.9, 0.02);
        let mut fallen = windows(70, 200, 1.0, 0.02);
        fallen[100..].fill(0.5);
        let alarms = fallen.iter().map(|window| rule.step(*window, 0.0));
        let alarms: Vec<Option<Alarm>> = alarms.collect();
        let first = alarms.iter().position(Option::is_some).unwrap();
        let windows = alarms[first].unwrap().windows as usize;
        assert!(
            (99..=100).contains(&(first + 1 - windows)),
            "{first} {windows}"
        );
    }

    #[test]
    fn what_a_restless_baseline_reached_is_no_alarm() {
        // Every now and then it is slow for 20 windows by itself.
        let mut baseline = windows(80, 2000, 1.0, 0.02);
        for at in (100..2000).step_by(400) {
            baseline[at..at + 20].fill(0.7);
        }
        let mut rule = Rule::new(0.9, &baseline, MILLISECOND, SHORT);
        assert_eq!(run(&mut rule, &baseline), None);
        let mut longer = baseline.clone();
        longer[1000..1100].fill(0.7);
        assert!(run(&mut rule, &longer).is_some());
        assert!(!rule.is_restless());
        // What is as noisy as it likes is stopped all the same when it loses half.
        let wild = windows(90, 2000, 1.0, 0.5);
        let mut rule = Rule::new(0.9, &wild, MILLISECOND, SHORT);
        assert!(rule.is_restless());
        assert!(run(&mut rule, &windows(91, 100, 0.3, 0.1)).is_some_and(|seen| seen < 10));
    }
}
