//! Before anything presses: the baseline, the noise, how long windows have to
//! be, and whether the budget can show anything at all.

use super::design::Half;
use super::executor::WindowError;
use super::phases;
use super::run::Run;
use super::search::FEWEST_PAIRS;
use super::stats;
use std::time::Duration;

/// Undisturbed windows at the beginning, and the share of the budget they may
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
    /// Undisturbed windows: the baseline, the noise, and how long a window of
    /// this metric takes.
    pub(super) fn undisturbed(&mut self) -> Result<(), WindowError> {
        self.tell(None, None, "undisturbed windows".into());
        self.idle_windows(IDLE_MOST, IDLE_SHARE)?;
        let restless = self.natural.is_zero() && phases::restless(&self.idle);
        if restless {
            self.idle_windows(RESTLESS_MOST, RESTLESS_SHARE)?;
            self.lengthen();
        }
        self.first_idle = self.idle.len();
        Ok(())
    }

    fn idle_windows(&mut self, most: usize, share: f64) -> Result<(), WindowError> {
        let share = self.settings.budget.mul_f64(share);
        let asked = self.subjects[0].settle + self.window(&self.subjects[0]);
        for taken in self.idle.len()..most {
            let before = self.bench.now();
            if taken >= IDLE_FEWEST && self.elapsed() >= share {
                break;
            }
            if self.left() <= asked.max(self.natural) {
                break;
            }
            match self.bench.idle(0) {
                Ok(Some(value)) => {
                    self.idle.push(value);
                    self.idle_at.push(self.elapsed());
                }
                Ok(None) => {}
                // Idle needs no worker of this subject; its failure shows
                // again when the subject is measured.
                Err(WindowError::Subject(_)) => break,
                Err(error) => return Err(error),
            }
            let took = self.bench.now().saturating_sub(before);
            if took > asked + asked / 2 {
                self.natural = took;
            }
        }
        Ok(())
    }

    /// Makes windows longer for a target that takes turns within a few of them.
    fn lengthen(&mut self) {
        let Some(stretch) = phases::stretch(&self.idle) else {
            return;
        };
        let longest = self
            .subjects
            .iter()
            .map(|subject| self.window(subject))
            .max();
        if longest.is_some_and(|longest| longest * stretch.factor > LONGEST) {
            self.doubts.push(format!(
                "the undisturbed target takes turns: neighbouring windows differ by {:.0} %, and by \
                 {:.0} % if {} times as long; that is too long for this budget",
                100.0 * stretch.before,
                100.0 * stretch.after,
                stretch.factor
            ));
            return;
        }
        self.bench.stretch = stretch.factor;
        let doubt = format!(
            "the undisturbed target takes turns: neighbouring windows differed by {:.0} %, so all \
             windows were made {} times as long, where they differ by {:.0} %",
            100.0 * stretch.before,
            stretch.factor,
            100.0 * stretch.after
        );
        self.doubts.push(doubt);
        // What was read counts at the new length.
        let factor = stretch.factor as usize;
        self.idle = self.idle.chunks_exact(factor).map(stats::mean).collect();
        self.idle_at = self
            .idle_at
            .chunks_exact(factor)
            .map(|times| times[factor - 1])
            .collect();
    }

    /// Halves whose minimum costs more than a fair share of the budget get
    /// along with fewer pairs, down to 4.
    pub(super) fn adapt_minima(&mut self) {
        let fair = self.left().as_secs_f64() / self.halves.len().max(1) as f64;
        for index in 0..self.halves.len() {
            if self.halves[index].tried > 0 {
                continue;
            }
            let most = self.settings.min_pairs();
            let endpoints = self.halves[index].search.rules().endpoints.len() as f64;
            let each = endpoints * self.cost(index, 100.0, most) / most as f64;
            let affordable = (fair / each.max(1e-9)) as usize;
            let mut pairs = affordable.clamp(FEWEST_PAIRS, most);
            if self.halves[index].search.rules().dear {
                pairs -= pairs % 2;
            }
            self.halves[index].search.set_min_pairs(pairs);
        }
    }

    /// Says before anything presses when the metric is too slow or too noisy
    /// for the budget, and which budget would do.
    pub(super) fn forecast(&mut self) {
        let cheapest = (0..self.halves.len())
            .filter(|half| self.halves[*half].half == Half::Tolerated)
            .map(|half| self.cost(half, 100.0, FEWEST_PAIRS) / FEWEST_PAIRS as f64)
            .min_by(f64::total_cmp);
        let Some(pair) = cheapest else {
            return;
        };
        let left = self.left().as_secs_f64();
        let preparation = self.settings.preparation.as_secs_f64();
        let spent = self.elapsed().as_secs_f64() + preparation;
        let halves = self.halves.len() as f64;
        let affordable = left / halves / pair;
        let fewest = FEWEST_PAIRS as f64;
        if affordable < fewest {
            let some = (left / (fewest * pair)).floor();
            let enough = spent + 1.1 * halves * fewest * pair;
            self.foretell(format!(
                "the metric is slow for this budget: a pair of windows takes {pair:.1} s, {} of the \
                 {halves:.0} halves can have the {FEWEST_PAIRS} pairs they need at least; --budget \
                 {:.0}s would do for all, or name fewer --resources",
                match some >= 1.0 {
                    true => format!("at most {some:.0}"),
                    false => "none".into(),
                },
                enough.ceil()
            ));
            return;
        }
        let Some(deviation) = phases::deviation(&self.idle) else {
            return;
        };
        let line = 100.0 * (1.0 - self.settings.qos);
        let sd = deviation * std::f64::consts::SQRT_2;
        let smallest = stats::smallest_detectable_percent(sd, affordable as usize);
        let Some(smallest) = smallest.filter(|smallest| *smallest > line) else {
            return;
        };
        // The error shrinks with the root of the number of pairs.
        let needed = affordable * (smallest / line).powi(2);
        let enough = spent + needed * pair * halves;
        let advice = match enough < 50.0 * self.settings.budget.as_secs_f64() {
            true => format!("--budget {:.0}s would do", enough.ceil()),
            false => "no sensible budget would do; a steadier metric may".into(),
        };
        self.foretell(format!(
            "the metric is noisy for this budget: neighbouring windows differ by {:.1} %, so about \
             {affordable:.0} pairs for each of {halves:.0} halves show losses from {smallest:.1} % \
             on, not the {line:.1} % asked for; {advice}",
            100.0 * deviation
        ));
    }

    fn foretell(&mut self, text: String) {
        self.observer.warn(&text);
        self.doubts.push(format!("foretold: {text}"));
    }
}
