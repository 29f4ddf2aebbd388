//! What the measured levels of a search say together: the monotone fit, where
//! it crosses the line, and whether the levels contradict it.

use crate::warning::Warning;
use jostle_profile::CurvePoint;
use jostle_statistics::Bootstrap;
use jostle_statistics::Contrasts;
use jostle_statistics::crossing;
use jostle_statistics::mean;
use jostle_statistics::median;
use jostle_statistics::performance_fit;
use rand::rngs::ChaCha8Rng;
use std::rc::Rc;

/// Fewer pairs than this say nothing about a level.
pub const FEWEST_PAIRS: usize = 4;

/// One intensity and the pairs measured there.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) intensity: f64,
    /// Log ratios, in time order.
    pub(super) ratios: Vec<f64>,
    pub(super) pressures: Vec<f64>,
    /// The sequence that all ratios are from, and which of its arms they are.
    contrasts: Option<(Rc<Contrasts>, usize)>,
    /// How many of `ratios` and `pressures`, the first, an earlier run recorded.
    pub(super) recalled: (usize, usize),
    pub(super) bootstrap: Option<Bootstrap>,
    /// Resampled performance, expanded for small n.
    pub(super) spread: Vec<f64>,
}

impl Level {
    pub(super) fn usable(&self) -> bool {
        self.ratios.len() >= FEWEST_PAIRS
    }

    /// Whether it was measured in a sequence.
    pub(super) fn is_played(&self) -> bool {
        self.contrasts.is_some()
    }

    /// Replaces what was played at this level, but not what was recalled.
    pub(super) fn replace(&mut self, played: Played) {
        let (ratios, pressures) = self.recalled;
        self.ratios.truncate(ratios);
        self.pressures.truncate(pressures);
        self.contrasts = played.contrasts.filter(|_| ratios == 0);
        self.ratios.extend(played.ratios);
        self.pressures.extend(played.pressures);
        self.forget();
    }

    /// Drops what was resampled: it is not of the ratios any more.
    pub(super) fn forget(&mut self) {
        self.bootstrap = None;
        self.spread.clear();
    }

    pub(super) fn resample(&mut self, count: usize, rng: &mut ChaCha8Rng) {
        let of_sequence = self
            .contrasts
            .as_ref()
            .and_then(|(contrasts, arm)| contrasts.bootstrap(*arm, count, rng));
        let bootstrap = of_sequence.unwrap_or_else(|| Bootstrap::of(&self.ratios, count, rng));
        self.spread = bootstrap.expanded().into_iter().map(f64::exp).collect();
        self.bootstrap = Some(bootstrap);
    }
}

/// What a sequence says of one half at one level.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// Log ratios, in time order.
    pub ratios: Vec<f64>,
    pub pressures: Vec<f64>,
    /// Where the ratios are from, for their uncertainty; `None` where each
    /// stands for itself.
    pub contrasts: Option<(Rc<Contrasts>, usize)>,
}

/// Where the crossing lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// Estimate, points.
    pub at: f64,
    /// 95 % interval, points.
    pub low: f64,
    pub high: f64,
}

impl Bracket {
    pub fn half_width(&self) -> f64 {
        0.5 * (self.high - self.low)
    }
}

/// The levels of one search, ascending; 100 is last.
#[derive(Debug)]
pub(super) struct Levels {
    /// Performance that counts as kept, a fraction (0–1).
    line: f64,
    pub(super) all: Vec<Level>,
}

impl Levels {
    pub(super) fn new(line: f64) -> Levels {
        let mut levels = Levels {
            line,
            all: Vec::new(),
        };
        levels.level(100.0);
        levels
    }

    pub(super) fn find(&self, intensity: f64) -> Option<&Level> {
        self.all.iter().find(|l| l.intensity == intensity)
    }

    /// The level at 100.
    pub(super) fn endpoint(&self) -> &Level {
        &self.all[self.all.len() - 1]
    }

    /// The level at `intensity`, made when missing.
    pub(super) fn level(&mut self, intensity: f64) -> &mut Level {
        let index = self.all.partition_point(|l| l.intensity < intensity);
        let found = self.all.get(index).map(|level| level.intensity);
        if found != Some(intensity) {
            let level = Level {
                intensity,
                ratios: Vec::new(),
                pressures: Vec::new(),
                contrasts: None,
                recalled: (0, 0),
                bootstrap: None,
                spread: Vec::new(),
            };
            self.all.insert(index, level);
        }
        &mut self.all[index]
    }

    /// Resamples what changed since the last time, where it is `wanted`.
    pub(super) fn refresh(
        &mut self,
        count: usize,
        wanted: impl Fn(f64) -> bool,
        rng: &mut ChaCha8Rng,
    ) {
        for level in &mut self.all {
            if level.usable() && level.bootstrap.is_none() && wanted(level.intensity) {
                level.resample(count, rng);
            }
        }
    }

    /// Levels up to `highest` with enough pairs and their share of refits at or above
    /// the line.
    fn shares(&self, highest: f64) -> Vec<(&Level, f64)> {
        let known = |level: &&Level| !level.spread.is_empty() && level.intensity <= highest;
        let fitted: Vec<&Level> = self.all.iter().filter(known).collect();
        let weights = self.weights(&fitted);
        let rounds = fitted.iter().map(|l| l.spread.len()).min().unwrap_or(0);
        let mut kept = vec![0usize; fitted.len()];
        let mut values = vec![0.0; fitted.len()];
        for round in 0..rounds {
            for (value, level) in values.iter_mut().zip(&fitted) {
                *value = level.spread[round];
            }
            let fit = performance_fit(&values, &weights);
            for (count, performance) in kept.iter_mut().zip(&fit) {
                *count += usize::from(*performance >= self.line);
            }
        }
        fitted
            .into_iter()
            .zip(kept)
            .map(|(level, count)| (level, count as f64 / rounds.max(1) as f64))
            .collect()
    }

    /// Standard deviation of one pair that is typical of all levels.
    pub(super) fn typical_sd(&self) -> f64 {
        let mut sds: Vec<f64> = self
            .all
            .iter()
            .filter_map(|level| level.bootstrap.as_ref())
            .map(pair_sd)
            .collect();
        median(&mut sds)
    }

    /// Weights of the fit: the inverse squared error, but no level is trusted
    /// beyond its number of pairs. By the number alone a level of few pairs
    /// with a wild one among them would drag its neighbours over the line.
    fn weights(&self, levels: &[&Level]) -> Vec<f64> {
        let typical = self.typical_sd();
        levels
            .iter()
            .map(|level| {
                let own = level.bootstrap.as_ref().map_or(typical, pair_sd);
                let doubt = own.max(typical).max(1e-6) / typical.max(1e-6);
                level.ratios.len() as f64 / (doubt * doubt)
            })
            .collect()
    }

    /// The crossing and its interval; `None` while 100 has too few pairs.
    pub(super) fn bracket_at(&self, tail: f64) -> Option<Bracket> {
        self.bracket_below(100.0, tail)
    }

    /// The same of the levels up to `highest` alone; `None` while that has too few
    /// pairs.
    pub(super) fn bracket_below(&self, highest: f64, tail: f64) -> Option<Bracket> {
        let shares = self.shares(highest);
        if shares
            .last()
            .is_none_or(|(level, _)| level.intensity != highest)
        {
            return None;
        }
        let low = shares
            .iter()
            .filter(|(_, share)| *share >= 1.0 - tail)
            .map(|(level, _)| level.intensity)
            .fold(0.0, f64::max);
        let high = shares
            .iter()
            .filter(|(level, share)| *share <= tail && level.intensity > low)
            .map(|(level, _)| level.intensity)
            .fold(100.0, f64::min);
        let levels: Vec<f64> = shares.iter().map(|(level, _)| level.intensity).collect();
        let estimates: Vec<f64> = shares.iter().map(|(level, _)| estimate(level)).collect();
        let fitted: Vec<&Level> = shares.iter().map(|(level, _)| *level).collect();
        let weights = self.weights(&fitted);
        let fit = performance_fit(&estimates, &weights);
        let at = crossing(&levels, &fit, self.line).clamp(low, high);
        Some(Bracket { at, low, high })
    }

    pub(super) fn curve(&self) -> Vec<CurvePoint> {
        self.all
            .iter()
            .filter_map(|level| {
                let bootstrap = level.bootstrap.as_ref()?;
                let [low, high] = bootstrap.interval95();
                Some(CurvePoint {
                    intensity: level.intensity,
                    requested: None,
                    performance: bootstrap.location.exp(),
                    ci95: [low.exp(), high.min(50.0).exp()],
                    pressure: (!level.pressures.is_empty()).then(|| mean(&level.pressures)),
                    windows: level.ratios.len() as u64,
                })
            })
            .collect()
    }

    /// The two levels that contradict a monotone curve most, beyond three
    /// standard errors and one percent; `direction` is what they are of.
    pub(super) fn contradiction(&self, direction: &'static str) -> Option<Warning> {
        let known: Vec<(f64, &Bootstrap)> = self
            .all
            .iter()
            .filter_map(|l| Some((l.intensity, l.bootstrap.as_ref()?)))
            .collect();
        let mut worst: Option<(f64, Warning)> = None;
        for (i, (intensity, lower)) in known.iter().enumerate() {
            for (higher_intensity, upper) in &known[i + 1..] {
                let rise = upper.location - lower.location;
                let error = lower.error.hypot(upper.error);
                let beyond = rise > 0.01 && rise > 3.0 * error;
                if beyond && worst.as_ref().is_none_or(|(most, _)| rise > *most) {
                    let warning = Warning::NotMonotone {
                        direction,
                        intensity: *intensity,
                        kept_percent: 100.0 * lower.location.exp(),
                        higher_intensity: *higher_intensity,
                        higher_kept_percent: 100.0 * upper.location.exp(),
                    };
                    worst = Some((rise, warning));
                }
            }
        }
        worst.map(|(_, warning)| warning)
    }
}

pub(super) fn pair_sd(bootstrap: &Bootstrap) -> f64 {
    bootstrap.error * (bootstrap.n as f64).sqrt()
}

pub(super) fn estimate(level: &Level) -> f64 {
    level
        .bootstrap
        .as_ref()
        .map_or(1.0, |bootstrap| bootstrap.location.exp())
}
