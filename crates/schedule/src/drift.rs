//! Does a profile still describe the application? Live counters against what was
//! recorded while profiling.
//!
//! Every counter is taken on a logarithmic scale and in units of its own recorded
//! spread; two sums per counter gather what lies above and below by more than a
//! slack (a two-sided CUSUM, Page 1954), and the first to pass the limit says
//! that something else runs now than what was profiled. The limit is the one that
//! the recorded windows, drawn again and again in blocks, would pass once in a
//! hundred horizons.

use jostle_profile::Profile;
use jostle_profile::UsedBy;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use std::collections::BTreeMap;
use thiserror::Error;

/// What lies within so many spreads of the middle does not add up.
const SLACK: f64 = 1.5;
/// One window counts for no more than this.
const MOST: f64 = 4.0;
/// No counter is believed steadier than this, as a fraction.
const LEAST_SPREAD: f64 = 0.1;
/// Fewer windows do not say what is usual.
const FEWEST_WINDOWS: usize = 12;
/// Windows of a horizon, in which a false alarm may come once in a hundred.
const HORIZON: usize = 1000;
const RESAMPLED: usize = 200;
/// Least limit, and the one where no windows were recorded one by one: no fewer
/// than four windows in a row, each as far off as can be.
const LEAST_LIMIT: f64 = 12.0;
/// Half of a 95 % interval in standard deviations.
const Z95: f64 = 1.96;

/// Name of the cycles per 1,000 instructions in user mode. Not per instruction: counters
/// are compared on a scale on which values below 1 hardly differ.
pub const CYCLES_PER_1000: &str = "cycles-per-1000-instructions";
/// Name of its inverse among the counters of profiles.
const IPC: &str = "ipc";

/// Why nothing can be watched.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DriftError {
    #[error("{0} windows recorded; at least {FEWEST_WINDOWS} are needed")]
    FewWindows(usize),
    #[error("the profile has no record of what the application used; profile it again")]
    NoUsage,
}

/// Values by counter.
pub type Window = BTreeMap<String, f64>;

/// What no longer fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    pub counter: String,
    /// What was usual, and what the windows since it changed had on average.
    pub recorded: f64,
    pub now: f64,
    /// Windows since it began to change, this one included.
    pub windows: usize,
}

#[derive(Clone, Debug)]
struct Counter {
    /// On the logarithmic scale.
    middle: f64,
    spread: f64,
    above: Sum,
    below: Sum,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    sum: f64,
    values: f64,
    windows: usize,
}

impl Sum {
    fn add(&mut self, off: f64, value: f64) {
        self.sum += off - SLACK;
        if self.sum <= 0.0 {
            *self = Sum::default();
            return;
        }
        self.values += value;
        self.windows += 1;
    }
}

/// Watches one application.
#[derive(Clone, Debug)]
pub struct Watch {
    counters: BTreeMap<String, Counter>,
    limit: f64,
}

impl Watch {
    /// From windows that were recorded one by one while profiling; counters that
    /// are not in all of them are left out.
    ///
    /// # Errors
    /// Too few windows.
    pub fn learn(recorded: &[Window], seed: u64) -> Result<Self, DriftError> {
        if recorded.len() < FEWEST_WINDOWS {
            return Err(DriftError::FewWindows(recorded.len()));
        }
        let names = recorded[0].keys();
        let everywhere = |name: &&String| {
            let finite = |window: &Window| window.get(*name).is_some_and(|value| value.is_finite());
            recorded.iter().all(finite)
        };
        let of = |name: &String| {
            let mut scaled: Vec<f64> = recorded.iter().map(|window| scale(window[name])).collect();
            let middle = median(&mut scaled);
            let mut off: Vec<f64> = scaled.iter().map(|value| (value - middle).abs()).collect();
            // Both: most windows may be alike, and the rest far off as a habit.
            let robust = 1.4826 * median(&mut off);
            let square = off.iter().map(|off| off * off).sum::<f64>() / off.len() as f64;
            (
                name.clone(),
                Counter::new(middle, robust.max(square.sqrt())),
            )
        };
        let counters = names.filter(everywhere).map(of).collect();
        let mut watch = Watch {
            counters,
            limit: f64::INFINITY,
        };
        watch.limit = watch.limit_of(recorded, seed).max(LEAST_LIMIT);
        Ok(watch)
    }

    /// From the ranges in a profile: what the application used by itself, and its
    /// [`CYCLES_PER_1000`] alone and beside all sources. A window should be about as
    /// long as the parts that were read then.
    ///
    /// # Errors
    /// A profile without such a record.
    pub fn of_profile(profile: &Profile) -> Result<Self, DriftError> {
        let usage = profile.usage.as_ref().ok_or(DriftError::NoUsage)?;
        let quantities = usage.quantities.iter().filter_map(|(name, quantity)| {
            let quantity = quantity.value()?;
            (quantity.of == UsedBy::Target).then_some((name, quantity))
        });
        let mut counters: BTreeMap<String, Counter> = quantities
            .map(|(name, quantity)| {
                let [low, high] = quantity.ci95.map(scale);
                let of_mean = (high - low) / (2.0 * Z95);
                // Of one part, and not knowing the mean better than this.
                let spread = of_mean * (usage.parts as f64 + 1.0).sqrt();
                (name.clone(), Counter::new(scale(quantity.value), spread))
            })
            .collect();
        let cycles = cycles_per_1000(profile);
        counters.extend(cycles.map(|counter| (CYCLES_PER_1000.into(), counter)));
        match counters.is_empty() {
            true => Err(DriftError::NoUsage),
            false => Ok(Watch {
                counters,
                limit: 2.0 * LEAST_LIMIT,
            }),
        }
    }

    /// Takes one window; counters that it lacks are passed over. Some drift when
    /// the profile no longer describes the application: it does so until
    /// [`Watch::reset`].
    pub fn see(&mut self, window: &Window) -> Option<Drift> {
        for (name, counter) in &mut self.counters {
            if let Some(value) = window.get(name).filter(|value| value.is_finite()) {
                counter.see(*value);
            }
        }
        let farthest = self
            .counters
            .iter()
            .flat_map(|(name, counter)| {
                [counter.above, counter.below].map(|sum| (name, counter, sum))
            })
            .max_by(|a, b| a.2.sum.total_cmp(&b.2.sum))?;
        let (name, counter, sum) = farthest;
        (sum.sum > self.limit).then(|| Drift {
            counter: name.clone(),
            recorded: unscale(counter.middle),
            now: sum.values / sum.windows as f64,
            windows: sum.windows,
        })
    }

    /// Forgets what was seen, not what was learned.
    pub fn reset(&mut self) {
        for counter in self.counters.values_mut() {
            (counter.above, counter.below) = (Sum::default(), Sum::default());
        }
    }

    /// What the largest sum of a horizon of recorded windows, drawn in blocks so
    /// that what follows each other stays so, passes once in a hundred.
    fn limit_of(&self, recorded: &[Window], seed: u64) -> f64 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let block = (recorded.len() as f64).sqrt().ceil() as usize;
        let mut most: Vec<f64> = (0..RESAMPLED)
            .map(|_| {
                let mut watch = self.clone();
                let mut largest: f64 = 0.0;
                for _ in 0..HORIZON.div_ceil(block) {
                    let from = rng.random_range(0..=recorded.len() - block);
                    for window in &recorded[from..from + block] {
                        watch.see(window);
                        let sums = watch.counters.values();
                        let sums = sums.map(|counter| counter.above.sum.max(counter.below.sum));
                        largest = sums.fold(largest, f64::max);
                    }
                }
                largest
            })
            .collect();
        most.sort_unstable_by(f64::total_cmp);
        most[RESAMPLED * 99 / 100]
    }
}

/// Usual is anything between the least and the most that was seen, alone and beside
/// sources: neighbours may raise it as much.
fn cycles_per_1000(profile: &Profile) -> Option<Counter> {
    let entries = profile.resources.values();
    let pairs = entries.filter_map(|entry| entry.counters.get(IPC)?.value());
    let seen = pairs.flat_map(|pair| [pair.control, pair.treat]);
    let seen = seen.filter(|ipc| ipc.is_finite() && *ipc > 0.0);
    let seen: Vec<f64> = seen.map(|ipc| scale(1000.0 / ipc)).collect();
    let least = seen.iter().copied().min_by(f64::total_cmp)?;
    let most = seen.iter().copied().max_by(f64::total_cmp)?;
    Some(Counter::new(
        0.5 * (least + most),
        0.5 * (most - least) / SLACK,
    ))
}

impl Counter {
    fn new(middle: f64, spread: f64) -> Self {
        Counter {
            middle,
            spread: spread.max(LEAST_SPREAD),
            above: Sum::default(),
            below: Sum::default(),
        }
    }

    fn see(&mut self, value: f64) {
        let off = ((scale(value) - self.middle) / self.spread).clamp(-MOST, MOST);
        self.above.add(off, value);
        self.below.add(-off, value);
    }
}

/// Differences of large values become ratios; around 0 it is the value itself.
fn scale(value: f64) -> f64 {
    value.signum() * value.abs().ln_1p()
}

fn unscale(scaled: f64) -> f64 {
    scaled.signum() * scaled.abs().exp_m1()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
