//! Rounds of blocks until every member's interval is narrow, or the time is over.

use super::bench::Arm;
use super::bench::Bench;
use super::bench::BenchError;
use super::estimate;
use super::estimate::Estimated;
use super::estimate::Sample;
use super::warning::PairWarning;
use jostle_profile::pairs::GroupCacheSharing;
use jostle_profile::pairs::Performance;
use jostle_profile::pairs::PerformanceStatus;
use jostle_profile::reading::Reading;
use jostle_statistics::shuffle;
use jostle_statistics::stream;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long and how exactly to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// For the blocks of one group.
    pub budget: Duration,
    pub seed: u64,
    /// Half-width of all intervals at which a group ends early.
    pub half_width: f64,
}

/// What is known of one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub performances: Vec<Reading<Performance>>,
    pub seconds: f64,
    pub cache_sharing: Option<GroupCacheSharing>,
    pub warnings: Vec<PairWarning>,
    pub interrupted: bool,
}

/// Rounds before an interval is believed to be narrow, and between two looks.
const ENOUGH: usize = 12;
const LOOK: usize = 4;
/// Share of its blocks in which a member may be started again without a word.
const RESTARTED: f64 = 0.2;
/// Share of the rounds in a shared cache from which on these count alone, and from
/// which on the others are too few to matter.
const SHARED_SELDOM: f64 = 0.1;
const SHARED_ALWAYS: f64 = 0.95;
/// Longest that all rounds together wait for a shared cache, in parts of the budget.
const LONGEST_WAIT: f64 = 2.0;
/// Wider than this many of the half-widths asked for is not resolved.
const RESOLVED: f64 = 2.0;

/// Measures the members called `names` on `bench`. `readable` says which of them have
/// a metric, or why not.
pub fn measure(
    bench: &mut dyn Bench,
    names: &[String],
    readable: &[Result<(), String>],
    settings: &Settings,
) -> Measured {
    let began = bench.now();
    let mut run = Run {
        names,
        readable,
        settings,
        samples: vec![Vec::new(); names.len()],
        shared: BTreeMap::new(),
        restarts: vec![0; names.len()],
        found: vec![None; names.len()],
        unpaused: vec![None; names.len()],
        warnings: Vec::new(),
        interrupted: false,
        ended: None,
    };
    let mut rng = stream(settings.seed, 2);
    let budget = settings.budget.as_secs_f64();
    let mut round = 0;
    let mut waited = 0.0;
    while bench.now() - began - waited < budget {
        waited += bench.wait_for_cache(LONGEST_WAIT * budget - waited);
        let mut arms = run.arms();
        if arms.len() < 2 {
            break;
        }
        shuffle(&mut rng, &mut arms);
        for arm in arms {
            run.play(bench, arm, round);
        }
        if run.interrupted || run.ended.is_some() {
            break;
        }
        round += 1;
        if round >= ENOUGH && round % LOOK == 0 && run.is_narrow() {
            break;
        }
    }
    let seconds = bench.now() - began - waited;
    run.finish(seconds)
}

struct Run<'a> {
    names: &'a [String],
    readable: &'a [Result<(), String>],
    settings: &'a Settings,
    samples: Vec<Vec<Sample>>,
    /// Per round whether its block together was played in a shared cache, where known.
    shared: BTreeMap<usize, bool>,
    /// Blocks of each in which it was started again.
    restarts: Vec<usize>,
    found: Vec<Option<Estimated>>,
    /// Why a member cannot be stopped.
    unpaused: Vec<Option<String>>,
    warnings: Vec<PairWarning>,
    interrupted: bool,
    /// Who ended, and why.
    ended: Option<(usize, String)>,
}

impl Run<'_> {
    /// The arms of a round: together, and apart every member that can be read and
    /// whose neighbours can be stopped.
    fn arms(&self) -> Vec<Arm> {
        let apart = (0..self.names.len()).filter(|member| self.can_be_apart(*member).is_ok());
        let mut arms: Vec<Arm> = apart.map(Arm::Apart).collect();
        arms.push(Arm::Together);
        arms
    }

    fn can_be_apart(&self, member: usize) -> Result<(), String> {
        self.readable[member].clone()?;
        let mut others = self.unpaused.iter().enumerate();
        let held = others.find_map(|(other, reason)| {
            let reason = reason.as_ref().filter(|_| other != member)?;
            Some(format!("{} cannot be paused: {reason}", self.names[other]))
        });
        held.map_or(Ok(()), Err)
    }

    fn play(&mut self, bench: &mut dyn Bench, arm: Arm, round: usize) {
        if self.interrupted || self.ended.is_some() {
            return;
        }
        let block = match bench.play(arm) {
            Ok(block) => block,
            Err(BenchError::Interrupted) => {
                self.interrupted = true;
                return;
            }
            Err(BenchError::Ended { member, reason }) => {
                self.ended = Some((member, reason));
                return;
            }
            Err(BenchError::NotPaused { member, reason }) => {
                self.unpaused[member].get_or_insert(reason);
                return;
            }
        };
        self.shared
            .extend(block.shares_cache.map(|shared| (round, shared)));
        for (restarts, did) in self.restarts.iter_mut().zip(&block.did) {
            *restarts += usize::from(did.is_some_and(|did| did.restarted));
        }
        for (samples, did) in self.samples.iter_mut().zip(block.did) {
            samples.extend(did.map(|did| Sample {
                round,
                together: arm == Arm::Together,
                work: did.work,
                seconds: did.seconds,
                place: did.place,
            }));
        }
    }

    /// How long the members shared a cache.
    fn cache_sharing(&self) -> Option<GroupCacheSharing> {
        let near = self.shared.values().filter(|shared| **shared).count();
        let share = near as f64 / self.shared.len() as f64;
        (!self.shared.is_empty()).then_some(GroupCacheSharing {
            shared_percent: 100.0 * share,
            of_shared_time: share > SHARED_ALWAYS
                || share >= SHARED_SELDOM && near >= estimate::FEWEST,
        })
    }

    /// Rounds in a shared cache count alone where there are enough of them: then a
    /// neighbour costs what it costs on a machine whose CPUs stay where they are.
    fn judge(&mut self) {
        let sharing = self.cache_sharing();
        let only_shared = sharing.is_some_and(|sharing| sharing.of_shared_time);
        for (member, samples) in self.samples.iter().enumerate() {
            let seed = self.settings.seed.wrapping_add(member as u64);
            let counted = samples.iter().filter(|sample| {
                !only_shared || self.shared.get(&sample.round).copied().unwrap_or(false)
            });
            let counted: Vec<Sample> = counted.copied().collect();
            self.found[member] = estimate::estimate(&counted, seed);
        }
    }

    fn is_narrow(&mut self) -> bool {
        self.judge();
        (0..self.names.len()).all(|member| {
            let width = self.found[member].as_ref().map(Estimated::half_width);
            self.can_be_apart(member).is_err()
                || width.is_some_and(|width| width <= self.settings.half_width)
        })
    }

    fn finish(mut self, seconds: f64) -> Measured {
        self.judge();
        let members = 0..self.names.len();
        let performances = members.map(|member| self.performance(member)).collect();
        for (member, reason) in self.unpaused.iter().enumerate() {
            self.warnings
                .extend(reason.clone().map(|reason| PairWarning::MemberNotPaused {
                    member: self.names[member].clone(),
                    reason,
                }));
        }
        for (member, readable) in self.readable.iter().enumerate() {
            if let Err(reason) = readable {
                self.warnings.push(PairWarning::MemberUnread {
                    member: self.names[member].clone(),
                    reason: reason.clone(),
                });
            }
        }
        for (member, restarts) in self.restarts.iter().enumerate() {
            let share = *restarts as f64 / self.samples[member].len().max(1) as f64;
            if share > RESTARTED {
                self.warnings.push(PairWarning::MemberShortRuns {
                    member: self.names[member].clone(),
                    percent: 100.0 * share,
                });
            }
        }
        for (member, found) in self.found.iter().enumerate() {
            if found.as_ref().is_some_and(|found| found.uneven) {
                self.warnings.push(PairWarning::MemberUneven {
                    member: self.names[member].clone(),
                });
            }
        }
        let cache_sharing = self.cache_sharing();
        if let Some((member, reason)) = self.ended {
            self.warnings.push(PairWarning::MemberEnded {
                member: self.names[member].clone(),
                after_seconds: seconds,
                reason,
            });
        }
        Measured {
            performances,
            seconds,
            cache_sharing,
            warnings: self.warnings,
            interrupted: self.interrupted,
        }
    }

    fn performance(&self, member: usize) -> Reading<Performance> {
        if let Err(reason) = self.can_be_apart(member) {
            return Reading::unavailable(reason);
        }
        let Some(found) = &self.found[member] else {
            let blocks = self.samples[member].len();
            return Reading::unavailable(match (&self.ended, self.interrupted) {
                (Some((ended, reason)), _) => {
                    let who = match *ended == member {
                        true => "it".to_string(),
                        false => self.names[*ended].clone(),
                    };
                    format!("{who} ended after {blocks} blocks: {reason}")
                }
                (None, true) => format!("interrupted after {blocks} blocks"),
                (None, false) => format!(
                    "{blocks} blocks in {:.0} s are too few, or hold no progress; give a longer \
                     --budget or a finer metric",
                    self.settings.budget.as_secs_f64()
                ),
            });
        };
        let status = match found.half_width() <= RESOLVED * self.settings.half_width {
            true => PerformanceStatus::Measured,
            false => PerformanceStatus::Unresolved,
        };
        Reading::Value(Performance {
            value: found.value,
            ci95: found.ci95,
            blocks: found.blocks,
            status,
            apart: Some(found.apart),
            unknown: Default::default(),
        })
    }
}
