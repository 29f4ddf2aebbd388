//! Rounds of pauses in random order until every candidate is known well enough,
//! or the time is over.

use super::bench::Arm;
use super::bench::Bench;
use super::bench::BenchError;
use super::estimate;
use super::estimate::Beside;
use super::estimate::Part;
use super::estimate::Record;
use super::judge;
use super::judge::Evidence;
use super::judge::Shift;
use super::warning::BlameWarning;
use crate::pairs::Estimated;
use jostle_profile::Estimate;
use jostle_profile::blame::Effect;
use jostle_profile::blame::Verdict;
use jostle_profile::reading::Reading;
use jostle_statistics::below;
use jostle_statistics::median;
use jostle_statistics::shuffle;
use jostle_statistics::stream;
use rand::rngs::ChaCha8Rng;
use std::time::Duration;

/// How long, how exactly, and how much may be taken from a candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub budget: Duration,
    pub seed: u64,
    /// Length of a pause.
    pub pause: Duration,
    /// Most of its time that a candidate may stand still, a fraction.
    pub max_pause: f64,
    /// Half-width of the intervals of all slowdowns at which it ends early, a
    /// fraction; 0 for never.
    pub half_width: f64,
    /// Slowdown that counts as none, a fraction.
    pub least: f64,
}

/// What is known of the candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub effects: Vec<(Verdict, Reading<Effect>)>,
    pub placebo: Reading<Effect>,
    pub seconds: f64,
    pub warnings: Vec<BlameWarning>,
    pub interrupted: bool,
}

/// Shortest time from one pause to the next, in lengths of a pause and in seconds:
/// what the pause before left is over, and there is time to compare with.
const GAP_PAUSES: f64 = 5.0;
const SHORTEST_GAP: f64 = 0.02;
/// Rounds before an interval is believed to be narrow, and how much later, as a
/// factor, the next look comes: few looks cost little, and each is a chance to stop
/// at a lucky moment.
const ENOUGH: usize = 20;
const LATER: f64 = 1.5;
/// How much longer than asked for the first pause is expected to be.
const SLOWER: f64 = 1.1;
/// Fewest pauses that count.
const FEWEST: usize = 8;
/// Operations in a pause below which a metric is coarse.
const COARSE: f64 = 5.0;
/// Share of spoiled pauses above which a word is said.
const SPOILED: f64 = 0.2;

/// Pauses the candidates called `names` on `bench`.
pub fn measure(bench: &mut dyn Bench, names: &[String], settings: &Settings) -> Measured {
    let mut run = Run {
        names,
        settings,
        began: bench.now(),
        records: Vec::new(),
        held: vec![0.0; names.len()],
        pauses: vec![0; names.len()],
        lost: vec![None; names.len()],
        warnings: Vec::new(),
        interrupted: false,
        over: false,
    };
    let mut rng = stream(settings.seed, 3);
    let (mut round, mut look) = (0, ENOUGH);
    while !run.over && bench.now() - run.began < settings.budget.as_secs_f64() {
        let mut arms = run.arms();
        if arms.len() < 2 {
            break;
        }
        shuffle(&mut rng, &mut arms);
        let count = arms.len();
        for arm in arms {
            run.play(bench, arm, count, round, &mut rng);
            if run.over {
                break;
            }
        }
        round += 1;
        if round >= look {
            look = (look as f64 * LATER) as usize;
            if run.is_narrow() {
                break;
            }
        }
    }
    let seconds = bench.now() - run.began;
    run.finish(seconds)
}

struct Run<'a> {
    names: &'a [String],
    settings: &'a Settings,
    began: f64,
    records: Vec<Record>,
    /// Seconds that each candidate was held, and in how many pauses.
    held: Vec<f64>,
    pauses: Vec<usize>,
    /// Why a candidate is not tried any more.
    lost: Vec<Option<String>>,
    warnings: Vec<BlameWarning>,
    interrupted: bool,
    over: bool,
}

impl Run<'_> {
    fn arms(&self) -> Vec<Arm> {
        let left = self.lost.iter().enumerate();
        let left = left.filter(|(_, lost)| lost.is_none());
        let mut arms: Vec<Arm> = left.map(|(index, _)| Arm::Candidate(index)).collect();
        arms.push(Arm::Placebo);
        arms
    }

    /// How long the next pause of a candidate takes, with stopping it.
    fn expected(&self, index: usize) -> f64 {
        let mean = self.held[index] / self.pauses[index].max(1) as f64;
        mean.max(SLOWER * self.settings.pause.as_secs_f64())
    }

    /// How long everybody runs before `arm`, one of `count`, is paused: so long that
    /// no candidate ever stood still for more than its share of the time.
    fn gap(&self, now: f64, arm: Arm, count: usize, rng: &mut ChaCha8Rng) -> f64 {
        let pause = self.settings.pause.as_secs_f64();
        let share = self.settings.max_pause;
        let longest = (0..self.held.len()).map(|it| self.expected(it));
        let longest = longest.fold(pause, f64::max);
        let even = longest / share / count as f64 - pause;
        let usual = even.max(GAP_PAUSES * pause).max(SHORTEST_GAP);
        // At no fixed distance: what repeats itself must not meet every pause.
        let gap = usual * (0.7 + 0.6 * below(rng, 1000) as f64 / 1000.0);
        match arm {
            Arm::Placebo => gap,
            Arm::Candidate(index) => {
                let due = self.began + (self.held[index] + self.expected(index)) / share;
                gap.max(due - now)
            }
        }
    }

    fn play(
        &mut self,
        bench: &mut dyn Bench,
        arm: Arm,
        count: usize,
        round: usize,
        rng: &mut ChaCha8Rng,
    ) {
        let now = bench.now();
        let gap = self.gap(now, arm, count, rng);
        let left = self.began + self.settings.budget.as_secs_f64() - now;
        if gap > left {
            self.over = true;
            return;
        }
        let pause = self.settings.pause.as_secs_f64();
        let mut lose = |index: usize, warning: BlameWarning, reason: String| {
            self.warnings.push(warning);
            self.lost[index] = Some(reason);
        };
        match (bench.play(arm, gap, pause), arm) {
            (Ok(pause), _) => {
                if let Arm::Candidate(index) = arm {
                    self.held[index] += pause.held_seconds;
                    self.pauses[index] += 1;
                }
                self.records.push(Record { round, arm, pause });
            }
            (Err(BenchError::Interrupted), _) => {
                self.interrupted = true;
                self.over = true;
            }
            (Err(BenchError::VictimEnded(reason)), _) => {
                self.warnings.push(BlameWarning::VictimEnded {
                    victim: "the victim".into(),
                    after_seconds: now - self.began,
                    reason,
                });
                self.over = true;
            }
            (Err(BenchError::Ended(reason)), Arm::Candidate(index)) => {
                let pauses = self.records.iter().filter(|it| it.arm == arm).count();
                let warning = BlameWarning::CandidateEnded {
                    candidate: self.names[index].clone(),
                    pauses,
                    reason: reason.clone(),
                };
                lose(index, warning, format!("it ended: {reason}"));
            }
            (Err(BenchError::NotPaused(reason)), Arm::Candidate(index)) => {
                let warning = BlameWarning::CandidateNotPaused {
                    candidate: self.names[index].clone(),
                    reason: reason.clone(),
                };
                lose(index, warning, format!("it cannot be paused: {reason}"));
            }
            // A placebo that fails is no placebo; the candidates stay.
            (Err(_), Arm::Placebo) => {}
        }
    }

    /// Every estimate, with the best comparison for all.
    fn estimates(&self) -> (Beside, Vec<Option<Estimated>>, Option<Estimated>) {
        let mut arms: Vec<Arm> = (0..self.names.len()).map(Arm::Candidate).collect();
        arms.push(Arm::Placebo);
        let seed = self.settings.seed;
        let beside = estimate::best(&self.records, &arms, seed);
        let of = |arm: Arm| {
            let own = self.records.iter();
            let pauses = own.filter(|it| it.arm == arm && !it.pause.spoiled).count();
            (pauses >= FEWEST)
                .then(|| estimate::of(&self.records, arm, beside, Part::Whole, seed))
                .flatten()
        };
        let candidates = (0..self.names.len()).map(|index| of(Arm::Candidate(index)));
        (beside, candidates.collect(), of(Arm::Placebo))
    }

    fn is_narrow(&self) -> bool {
        if self.settings.half_width <= 0.0 {
            return false;
        }
        let (_, found, _) = self.estimates();
        let narrow = |found: &Estimated| found.half_width() <= self.settings.half_width;
        let lost = self.lost.iter();
        found
            .iter()
            .zip(lost)
            .all(|(found, lost)| lost.is_some() || found.as_ref().is_some_and(narrow))
    }

    fn finish(mut self, seconds: f64) -> Measured {
        let (beside, found, placebo) = self.estimates();
        let shift = Shift::of(placebo.as_ref());
        let evidence = found.iter().map(|found| {
            let found = found.as_ref()?;
            Some(Evidence::of(found, shift))
        });
        let evidence: Vec<Option<Evidence>> = evidence.collect();
        let verdicts = judge::verdicts(&evidence, self.settings.least);
        let mut effects = Vec::new();
        for (index, (verdict, family)) in verdicts.into_iter().enumerate() {
            let effect = match (&evidence[index], family) {
                (Some(evidence), Some(family)) => {
                    let arm = Arm::Candidate(index);
                    Reading::Value(self.effect(arm, evidence, family, beside, shift, seconds))
                }
                _ => Reading::unavailable(self.why_nothing(index)),
            };
            effects.push((verdict, effect));
        }
        let without = placebo.map(|placebo| Evidence::of(&placebo, Shift::default()));
        let placebo = match without {
            Some(evidence) => {
                let family = evidence.interval95();
                let none = Shift::default();
                let arm = Arm::Placebo;
                Reading::Value(self.effect(arm, &evidence, family, beside, none, seconds))
            }
            None => Reading::unavailable("too few pauses of the process that does nothing"),
        };
        if shift.log_ratio != 0.0 {
            let percent = 100.0 * ((-shift.log_ratio).exp() - 1.0);
            self.warnings.push(BlameWarning::PlaceboShifted { percent });
        }
        self.warn(&effects);
        Measured {
            effects,
            placebo,
            seconds,
            warnings: self.warnings,
            interrupted: self.interrupted,
        }
    }

    fn why_nothing(&self, index: usize) -> String {
        if let Some(reason) = &self.lost[index] {
            return reason.clone();
        }
        let own = Arm::Candidate(index);
        let pauses = self.records.iter().filter(|it| it.arm == own).count();
        let budget = self.settings.budget.as_secs_f64();
        match self.interrupted {
            true => format!("interrupted after {pauses} pauses"),
            false => format!(
                "{pauses} pauses in {budget:.0} s are too few, or hold no progress; give a longer \
                 --budget, a larger --max-pause or a finer --metric"
            ),
        }
    }

    fn effect(
        &self,
        arm: Arm,
        evidence: &Evidence,
        family: [f64; 2],
        beside: Beside,
        shift: Shift,
        seconds: f64,
    ) -> Effect {
        let own: Vec<&Record> = self.records.iter().filter(|it| it.arm == arm).collect();
        let counted = own.iter().filter(|it| !it.pause.spoiled);
        let mut stops: Vec<f64> = own.iter().map(|it| it.pause.stop_seconds).collect();
        let mut resumes: Vec<f64> = own.iter().map(|it| it.pause.resume_seconds).collect();
        let held: f64 = own.iter().map(|it| it.pause.held_seconds).sum();
        let seed = self.settings.seed;
        let late = estimate::of(&self.records, arm, beside, Part::Late, seed);
        let late = late.map(|late| {
            let evidence = Evidence::of(&late, shift);
            slowed(evidence.log_ratio, evidence.interval95())
        });
        let time = estimate::split(&self.records, arm).ok_or_else(|| {
            "the CPU time or the waiting time of the victim cannot be read".to_string()
        });
        let ends = evidence.interval95();
        Effect {
            slowed_percent: slowed(evidence.log_ratio, ends),
            gain_percent: gain(evidence.log_ratio, ends),
            family95: slowed(evidence.log_ratio, family).ci95,
            late_slowed_percent: late,
            pauses: counted.count() as u64,
            paused_percent: 100.0 * held / seconds.max(1e-9),
            stop_seconds: median(&mut stops),
            resume_seconds: median(&mut resumes),
            time: time.into(),
            unknown: Default::default(),
        }
    }

    fn warn(&mut self, effects: &[(Verdict, Reading<Effect>)]) {
        let pause = self.settings.pause.as_secs_f64();
        for ((verdict, effect), name) in effects.iter().zip(self.names) {
            let Some(effect) = effect.value() else {
                continue;
            };
            if let Some(late) = &effect.late_slowed_percent
                && *verdict == Verdict::Slows
                && late.ci95[0] > effect.slowed_percent.ci95[1]
            {
                self.warnings.push(BlameWarning::StillRecovering {
                    candidate: name.clone(),
                    late_percent: late.value,
                });
            }
            if effect.stop_seconds > pause {
                self.warnings.push(BlameWarning::SlowToStop {
                    candidate: name.clone(),
                    milliseconds: 1e3 * effect.stop_seconds,
                });
            }
        }
        let all = self.records.len().max(1) as f64;
        let spoiled = self.records.iter().filter(|it| it.pause.spoiled).count() as f64;
        if spoiled / all > SPOILED {
            let percent = 100.0 * spoiled / all;
            self.warnings
                .push(BlameWarning::VictimShortRuns { percent });
        }
        let work = self.records.iter().map(|it| {
            let [early, late] = it.pause.paused;
            early.work + late.work
        });
        let operations = work.sum::<f64>() / all;
        if !self.records.is_empty() && operations < COARSE {
            self.warnings.push(BlameWarning::MetricCoarse {
                operations,
                milliseconds: 1e3 * pause,
            });
        }
    }
}

/// Of the log of the speed beside over the speed without.
fn slowed(log_ratio: f64, [low, high]: [f64; 2]) -> Estimate {
    let of = |log: f64| 100.0 * (1.0 - log.exp());
    Estimate {
        value: of(log_ratio),
        ci95: [of(high), of(low)],
    }
}

fn gain(log_ratio: f64, [low, high]: [f64; 2]) -> Estimate {
    let of = |log: f64| 100.0 * ((-log).exp() - 1.0);
    Estimate {
        value: of(log_ratio),
        ci95: [of(high), of(low)],
    }
}
