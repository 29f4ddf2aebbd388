//! Rounds of blocks, one at each size, until every speed-up is known closely or the
//! time is over.

use super::warning::ScalingWarning;
use crate::pairs::BenchError;
use crate::pairs::Did;
use crate::pairs::Sample;
use crate::pairs::estimate;
use jostle_profile::Speedup;
use jostle_profile::SpeedupStatus;
use jostle_profile::reading::Reading;
use jostle_statistics::shuffle;
use jostle_statistics::stream;
use std::time::Duration;

/// How long and how closely to measure one curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub budget: Duration,
    pub seed: u64,
    /// Half-width of all intervals, as a fraction of the speed-up, at which it ends
    /// early.
    pub half_width: f64,
}

/// Plays blocks at a size.
pub trait Bench {
    /// Seconds since some moment.
    fn now(&self) -> f64;

    /// What was done, in sum, in one block at the size with this index.
    ///
    /// # Errors
    /// Those of [`BenchError`]; nothing of the block counts then.
    fn play(&mut self, size: usize) -> Result<Did, BenchError>;
}

/// What the blocks say.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// By size, ascending; the first is 1.
    pub speedups: Vec<Reading<Speedup>>,
    pub seconds: f64,
    pub warnings: Vec<ScalingWarning>,
    pub interrupted: bool,
}

impl Measured {
    /// Nothing was measured, at no size.
    pub(super) fn none(reason: &str) -> Measured {
        Measured {
            speedups: vec![Reading::unavailable(reason)],
            seconds: 0.0,
            warnings: Vec::new(),
            interrupted: false,
        }
    }

    /// At the size with this index; that of the first where there is none.
    pub(super) fn of(&self, size: usize) -> Reading<Speedup> {
        let found = self.speedups.get(size).or(self.speedups.first());
        let none = || Reading::unavailable("it was never measured");
        found.cloned().unwrap_or_else(none)
    }
}

/// Rounds before an interval is believed to be narrow, and between two looks.
const ENOUGH: usize = 12;
const LOOK: usize = 4;
/// Wider than this many of the half-widths asked for is not resolved.
const RESOLVED: f64 = 2.0;
/// Share of its blocks in which it may be started again without a word.
const RESTARTED: f64 = 0.9;

/// Measures at `sizes`, ascending, of which the first is 1.
pub fn measure(bench: &mut dyn Bench, sizes: &[u32], settings: &Settings) -> Measured {
    let began = bench.now();
    let mut run = Run {
        settings,
        samples: vec![Vec::new(); sizes.len()],
        restarts: 0,
        ended: None,
        interrupted: false,
    };
    let mut rng = stream(settings.seed, 3);
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    let mut round = 0;
    while bench.now() - began < settings.budget.as_secs_f64() {
        shuffle(&mut rng, &mut order);
        for &size in &order {
            run.play(bench, size, round);
        }
        if run.interrupted || run.ended.is_some() {
            break;
        }
        round += 1;
        if round >= ENOUGH && round % LOOK == 0 && run.is_narrow() {
            break;
        }
    }
    let seconds = bench.now() - began;
    run.finish(sizes, seconds)
}

struct Run<'a> {
    settings: &'a Settings,
    /// By size.
    samples: Vec<Vec<Sample>>,
    /// Blocks in which the target was started again.
    restarts: usize,
    /// Why there were no more blocks.
    ended: Option<String>,
    interrupted: bool,
}

impl Run<'_> {
    fn play(&mut self, bench: &mut dyn Bench, size: usize, round: usize) {
        if self.interrupted || self.ended.is_some() {
            return;
        }
        match bench.play(size) {
            Ok(did) => {
                self.restarts += usize::from(did.restarted);
                self.samples[size].push(Sample {
                    round,
                    together: size > 0,
                    work: did.work,
                    seconds: did.seconds,
                    place: did.place,
                });
            }
            Err(BenchError::Interrupted) => self.interrupted = true,
            Err(BenchError::Ended { reason, .. } | BenchError::NotPaused { reason, .. }) => {
                self.ended = Some(reason);
            }
        }
    }

    /// Blocks at a size, and those at size 1 that they are compared with.
    fn compared(&self, size: usize) -> Vec<Sample> {
        let own = self.samples[size].iter();
        self.samples[0].iter().chain(own).copied().collect()
    }

    fn found(&self, size: usize) -> Option<crate::pairs::Estimated> {
        let seed = self.settings.seed.wrapping_add(size as u64);
        estimate(&self.compared(size), seed)
    }

    fn is_narrow(&self) -> bool {
        (1..self.samples.len()).all(|size| {
            let found = self.found(size);
            found.is_some_and(|it| it.half_width() <= self.settings.half_width * it.value)
        })
    }

    fn finish(self, sizes: &[u32], seconds: f64) -> Measured {
        let found: Vec<_> = (1..sizes.len()).map(|size| self.found(size)).collect();
        let mut speedups = vec![match found.iter().flatten().next() {
            Some(found) => Reading::Value(Speedup {
                value: 1.0,
                ci95: [1.0, 1.0],
                status: SpeedupStatus::Measured,
                blocks: self.samples[0].len() as u64,
                alone: Some(found.apart),
                unknown: Default::default(),
            }),
            None => self.too_few(0),
        }];
        for (at, found) in found.iter().enumerate() {
            speedups.push(match found {
                None => self.too_few(at + 1),
                Some(found) => {
                    let narrow =
                        found.half_width() <= RESOLVED * self.settings.half_width * found.value;
                    Reading::Value(Speedup {
                        value: found.value,
                        ci95: found.ci95,
                        status: match narrow {
                            true => SpeedupStatus::Measured,
                            false => SpeedupStatus::Unresolved,
                        },
                        blocks: found.blocks,
                        alone: None,
                        unknown: Default::default(),
                    })
                }
            });
        }
        let mut warnings = Vec::new();
        let blocks: usize = self.samples.iter().map(Vec::len).sum();
        let share = self.restarts as f64 / blocks.max(1) as f64;
        if share > RESTARTED {
            warnings.push(ScalingWarning::ShortRuns {
                percent: 100.0 * share,
            });
        }
        let uneven = found.iter().zip(&sizes[1..]);
        let uneven = uneven.filter(|(found, _)| found.as_ref().is_some_and(|it| it.uneven));
        let uneven: Vec<u32> = uneven.map(|(_, size)| *size).collect();
        if !uneven.is_empty() {
            warnings.push(ScalingWarning::UnevenBlocks { sizes: uneven });
        }
        if let Some(reason) = &self.ended {
            warnings.push(ScalingWarning::TargetEnded {
                after_seconds: seconds,
                reason: reason.clone(),
            });
        }
        Measured {
            speedups,
            seconds,
            warnings,
            interrupted: self.interrupted,
        }
    }

    fn too_few(&self, size: usize) -> Reading<Speedup> {
        let blocks = self.samples[size].len();
        Reading::unavailable(match (&self.ended, self.interrupted) {
            (Some(reason), _) => format!("ended after {blocks} blocks: {reason}"),
            (None, true) => format!("interrupted after {blocks} blocks"),
            (None, false) => format!(
                "{blocks} blocks in {:.0} s are too few, or hold no progress; give a longer \
                 --scale-budget or a finer metric",
                self.settings.budget.as_secs_f64()
            ),
        })
    }
}
