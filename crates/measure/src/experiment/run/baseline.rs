//! Before anything is stressed: the baseline, the noise, how long windows have to
//! be, and whether the budget can show anything at all.

use super::Run;
use crate::experiment::executor::WindowError;
use crate::experiment::levels::FEWEST_PAIRS;
use crate::experiment::phases;
use crate::experiment::queue::Queue;
use crate::experiment::settings::Half;
use crate::experiment::settings::Settings;
use crate::warning::Warning;
use jostle_statistics as stats;
use std::time::Duration;

/// Windows at the beginning, and the share of the budget they may
/// take once there are the fewest that give an interval.
const IDLE_MOST: usize = 16;
const IDLE_FEWEST: usize = 3;
const IDLE_SHARE: f64 = 0.04;
/// The same for a target whose windows differ so much that it matters whether
/// longer ones would differ less.
const RESTLESS_MOST: usize = 64;
const RESTLESS_SHARE: f64 = 0.06;
/// Longer windows than this are no help: too few fit into any budget.
const LONGEST: Duration = Duration::from_secs(2);

impl Run<'_, '_> {
    /// Measures the baseline, the noise, and how long a window of this metric
    /// takes.
    pub(super) fn baseline(&mut self) -> Result<(), WindowError> {
        self.idle_windows(IDLE_MOST, IDLE_SHARE, self.longest_idle())?;
        self.log.first_idle = self.log.idle.len();
        Ok(())
    }

    /// Longest window of the baseline. Of a metric that counts slowly and is measured in blocks
    /// the fewest windows fit into the time, though they hold less than those that are compared.
    fn longest_idle(&self) -> Duration {
        let sequences = self
            .queue
            .subjects
            .iter()
            .filter_map(|it| it.sequence.as_ref());
        let part = self.settings.budget.mul_f64(IDLE_SHARE) / IDLE_FEWEST as u32;
        match sequences.map(|it| it.period).max() {
            // What can only be read once in a window is played in whole windows.
            Some(period) if self.bench.plays() => part.max(period),
            _ => Duration::MAX,
        }
    }

    /// Looks longer at a target whose windows differ, where any are to be compared: blocks of
    /// sequences have lengths of their own.
    pub(super) fn lengthen_windows(&mut self) -> Result<(), WindowError> {
        let first = self.queue.window(&self.queue.subjects[0]);
        let windows = self.sequences.is_empty()
            || !self.kept_for_slow().is_zero() && first <= self.longest_idle();
        if windows && self.queue.natural.is_zero() && phases::restless(&self.log.idle) {
            self.idle_windows(RESTLESS_MOST, RESTLESS_SHARE, Duration::MAX)?;
            let warning = self.lengthen();
            self.warnings.extend(warning);
            self.log.first_idle = self.log.idle.len();
        }
        Ok(())
    }

    fn idle_windows(
        &mut self,
        most: usize,
        share: f64,
        longest: Duration,
    ) -> Result<(), WindowError> {
        let share = self.settings.budget.mul_f64(share);
        let first = &self.queue.subjects[0];
        let asked = first.settle + self.queue.window(first).min(longest);
        for taken in self.log.idle.len()..most {
            let before = self.bench.now();
            if taken >= IDLE_FEWEST && self.elapsed() >= share {
                break;
            }
            if self.left() <= asked.max(self.queue.natural) {
                break;
            }
            match self.bench.short_idle(0, longest) {
                Ok(Some(value)) => {
                    let at = self.elapsed();
                    self.log.push_idle(value, at);
                }
                Ok(None) => {}
                // Idle needs no worker of this subject; its failure shows
                // again when the subject is measured.
                Err(WindowError::Subject(_)) => break,
                Err(error) => return Err(error),
            }
            let took = self.bench.now().saturating_sub(before);
            if took > asked + asked / 2 {
                self.queue.natural = took;
            }
        }
        Ok(())
    }

    /// Makes windows longer for a target that alternates between activities within a few of them.
    fn lengthen(&mut self) -> Option<Warning> {
        let stretch = phases::stretch(&self.log.idle)?;
        let queue = &self.queue;
        let subjects = queue.subjects.iter();
        let longest = subjects.map(|subject| queue.window(subject)).max();
        let fits = longest.is_none_or(|longest| longest * stretch.factor <= LONGEST);
        let warning = Warning::TargetAlternates {
            difference_percent: 100.0 * stretch.before,
            factor: stretch.factor,
            lengthened_percent: 100.0 * stretch.after,
            lengthened: fits,
        };
        if !fits {
            return Some(warning);
        }
        self.bench.stretch = stretch.factor;
        self.queue.stretch = stretch.factor;
        // What was read counts at the new length.
        self.log.merge_idle(stretch.factor as usize);
        Some(warning)
    }
}

/// Whether the metric is too slow or too noisy for the budget, and which budget
/// would do. `idle` is performance without interference; `elapsed` was spent.
pub(super) fn forecast(
    queue: &Queue,
    idle: &[f64],
    elapsed: Duration,
    settings: &Settings,
) -> Option<Warning> {
    let cheapest = (0..queue.halves.len())
        .filter(|half| queue.halves[*half].half == Half::Tolerated)
        .map(|half| queue.cost(half, 100.0, FEWEST_PAIRS) / FEWEST_PAIRS as f64)
        .min_by(f64::total_cmp);
    let pair = cheapest?;
    let left = settings.budget.saturating_sub(elapsed).as_secs_f64();
    let preparation = settings.preparation.as_secs_f64();
    let spent = elapsed.as_secs_f64() + preparation;
    let halves = queue.halves.len() as f64;
    let affordable = left / halves / pair;
    let fewest = FEWEST_PAIRS as f64;
    if affordable < fewest {
        return Some(Warning::SlowMetric {
            pair_seconds: pair,
            affordable: (left / (fewest * pair)).floor(),
            wanted: halves,
            fewest_pairs: FEWEST_PAIRS,
            sufficient_budget_seconds: (spent + 1.1 * halves * fewest * pair).ceil(),
        });
    }
    let deviation = phases::deviation(idle)?;
    let line = 100.0 * (1.0 - settings.qos);
    let sd = deviation * std::f64::consts::SQRT_2;
    let smallest = stats::smallest_detectable_percent(sd, affordable as usize);
    let smallest = smallest.filter(|smallest| *smallest > line)?;
    // The error shrinks with the root of the number of pairs.
    let needed = affordable * (smallest / line).powi(2);
    let enough = spent + needed * pair * halves;
    let sensible = enough < 50.0 * settings.budget.as_secs_f64();
    Some(Warning::NoisyMetric {
        deviation_percent: 100.0 * deviation,
        pairs: affordable,
        wanted: halves,
        smallest_percent: smallest,
        loss_percent: line,
        sufficient_budget_seconds: sensible.then_some(enough.ceil()),
    })
}
