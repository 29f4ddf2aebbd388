//! What a round of a sequence holds: treated blocks, gauges, controls, and what is
//! watched without the target.

use super::Run;
use super::parts::ArmOf;
use super::parts::in_parts;
use crate::experiment::executor::Arm;
use crate::experiment::executor::BlockRequest;
use crate::experiment::executor::TargetState;
use crate::experiment::levels::FEWEST_PAIRS;
use crate::experiment::queue::HalfRun;
use crate::experiment::sequences::comes_and_goes;
use crate::experiment::settings::Half;
use crate::experiment::settings::Halves;
use jostle_statistics::shuffle;
use std::time::Duration;

/// Intensities of a curve beside those that its search asks for, percent.
const CURVE: [f64; 4] = [80.0, 40.0, 60.0, 20.0];
/// The same for a source of CPU time: a program that is always busy loses 5 % where 5 % of
/// its CPU are gone.
const CURVE_OF_TIME: [f64; 4] = [10.0, 40.0, 20.0, 70.0];
/// The same for what the target does to a source, in the order in which they are begun.
const PROBED: [f64; 4] = [60.0, 80.0, 40.0, 20.0];
/// The same from the first round on for a source of CPU time: beside a busy target
/// it begins to lose at a small share.
const PROBED_AT_ONCE: [f64; 2] = [40.0, 20.0];
/// Blocks at 100 per round: the verdict falls there.
pub(super) const AT_100: usize = 2;
/// Blocks per round at the level where the crossing is looked for.
const AT_CROSSING: usize = 2;
/// Half-width of the 95 % interval of the loss at 100, a fraction, from which on the
/// verdict has all of the time and the curve none.
const COARSE: f64 = 0.03;
/// Blocks at a level that draw the curve there.
const DRAWN: usize = 16;
/// Controls of a round: one per this many treated blocks, at least so many.
const TREATED_PER_CONTROL: usize = 8;
pub(super) const FEWEST_CONTROLS: usize = 3;
/// The same where each takes a whole run.
const FEWEST_OF_RUNS: usize = 2;
/// One block of a gauge per so many: states of the machine show in them. The same where
/// there are such states: they change within few blocks.
const PER_GAUGE: usize = 4;
const PER_GAUGE_OF_STATES: usize = 2;
/// Rounds that a sequence's share of the budget should hold, so that the verdict
/// has its pairs: rounds carry fewer levels of the curve for that.
const ROUNDS: f64 = 8.0;
/// Blocks longer than this are too expensive for a curve before the verdict.
pub(super) const LONG_BLOCK: Duration = Duration::from_millis(20);
/// Periods that a source which is watched without the target needs at most to warm up,
/// and then.
const ALONE: [u32; 2] = [30, 20];

/// Intensities of the curve of a source, in the order in which they are begun.
pub(super) fn curve(takes_time: bool) -> [f64; 4] {
    match takes_time {
        true => CURVE_OF_TIME,
        false => CURVE,
    }
}

/// What a round has room for.
struct Room {
    /// Levels of its curve per tolerated half.
    levels: usize,
    takes_time: bool,
    round: usize,
    /// Whether all tolerated halves have their answer.
    all_settled: bool,
    /// Tolerated halves that want something.
    tolerated: usize,
    long: bool,
}

impl Room {
    /// Where long blocks only tell what the target does to sources, controls would take
    /// half of the time.
    fn only_caused(&self) -> bool {
        self.long && self.tolerated == 0
    }
}

impl Run<'_, '_> {
    /// The blocks of the next round, in random order in each of its parts: those beside
    /// the target, then those without it.
    pub(super) fn compose(&mut self, index: usize, keep: Duration) -> Vec<BlockRequest> {
        let members = &self.sequences[index].members;
        let halves = self.queue.halves.iter();
        let wanting: Vec<&HalfRun> = halves
            .filter(|run| members.contains(&run.subject) && self.wants(run))
            .collect();
        let room = self.room(index, &wanting, keep);
        let mut beside: Vec<ArmOf> = Vec::new();
        let mut alone: Vec<ArmOf> = Vec::new();
        for run in &wanting {
            match run.half {
                Half::Tolerated => beside.extend(self.treated(run, &room)),
                Half::Caused => {
                    let only = room.only_caused();
                    for arm in self.probed(run, &room) {
                        // No other block tells what a walk loses.
                        let more = usize::from(only || matches!(arm.1, Arm::Probe(_)));
                        alone.extend(std::iter::repeat_n(arm, 1 + more));
                        if !beside.contains(&arm) {
                            beside.extend(std::iter::repeat_n(arm, 1 + more));
                        }
                    }
                }
            }
        }
        beside.extend(self.gauges(index, &beside));
        beside.extend(self.controls(index, beside.len(), &room));
        let twice = self.twice(&wanting);
        let total = beside.len() + alone.len();
        let rng = self.bench.rng();
        let mut parts = in_parts(beside, alone, &twice, rng);
        for blocks in parts.iter_mut().flatten() {
            shuffle(rng, blocks);
        }
        // The last round has to fit into what is left.
        let block = self.sequences[index].block();
        let fits = self.left().saturating_sub(keep).div_duration_f64(block) / total as f64;
        for blocks in parts.iter_mut().flatten() {
            blocks.truncate((blocks.len() as f64 * fits) as usize);
        }
        let run = &*self;
        let request = |target| move |arm| run.request(index, arm, target);
        let parts = parts.into_iter().map(|[beside, alone]| {
            let beside = beside.into_iter().map(request(TargetState::Running));
            beside.chain(alone.into_iter().map(request(TargetState::Stopped)))
        });
        parts.flatten().collect()
    }

    fn room(&self, index: usize, wanting: &[&HalfRun], keep: Duration) -> Room {
        let sequence = &self.sequences[index];
        let weights: f64 = (0..self.sequences.len())
            .map(|sequence| self.weight(sequence))
            .sum();
        let left = self.left().saturating_sub(keep) + sequence.spent;
        let share = left.mul_f64(self.weight(index) / weights.max(1e-9));
        let most = share.div_duration_f64(sequence.block()) / ROUNDS;
        let round = sequence.rounds;
        let tolerated = wanting.iter().filter(|run| run.half == Half::Tolerated);
        let all_settled = tolerated.clone().all(|run| run.search.settled);
        let tolerated = tolerated.count();
        let fixed = AT_100 * tolerated + wanting.len() / 2 + FEWEST_CONTROLS;
        let spare = (most - fixed as f64) / tolerated.max(1) as f64;
        let long = sequence.block() > LONG_BLOCK;
        let fewest = usize::from(!long || round >= self.rounds_to_look(index));
        let levels = match self.settings.full_only {
            true => 0,
            false => (spare as usize).clamp(fewest, CURVE.len()),
        };
        Room {
            levels,
            takes_time: sequence.sequence.takes_time,
            round,
            all_settled,
            tolerated,
            long,
        }
    }

    /// Treated blocks of a tolerated half.
    fn treated(&self, run: &HalfRun, room: &Room) -> Vec<ArmOf> {
        let treat = |level: f64| (run.subject, Arm::Treat(level));
        if self.for_verdicts.is_some() {
            return vec![treat(100.0); AT_100];
        }
        let levels = room.levels;
        let precise = run.search.half_width_at_100() <= self.half_width_wanted(run);
        // What has its answer leaves its time to what has none.
        if run.search.settled && !room.all_settled {
            let missing = (levels > 0).then(|| self.not_drawn(run)).flatten();
            let level = missing.filter(|_| precise || room.round % 2 == 1);
            return vec![treat(level.unwrap_or(100.0))];
        }
        let mut blocks = Vec::new();
        let refinements = run.search.refinements();
        if !precise || refinements.is_empty() {
            blocks.extend([treat(100.0); AT_100]);
        }
        // Infinite before the first look.
        let levels = match run.search.half_width_at_100() > COARSE {
            true => {
                blocks.extend((levels > 0).then(|| treat(100.0)));
                0
            }
            false => levels,
        };
        let first = room.round * levels;
        let curve = curve(room.takes_time);
        let of_curve = (first..first + levels).map(|n| curve[n % curve.len()]);
        // A curve that is drawn leaves its time to its crossing.
        let drawn = |level: &f64| !refinements.is_empty() && run.search.pairs_at(*level) >= DRAWN;
        blocks.extend(of_curve.filter(|level| !drawn(level)).map(treat));
        for level in &refinements {
            let spare = (levels / refinements.len()).max(AT_CROSSING);
            blocks.extend(std::iter::repeat_n(treat(*level), spare));
        }
        blocks
    }

    /// What tells what the target does to a source.
    fn probed(&self, run: &HalfRun, room: &Room) -> Vec<ArmOf> {
        let endpoints = run.search.rules.endpoints;
        // At 100 the target's own blocks tell half of it already.
        // A block is a whole run: lower levels wait until the verdicts at 100 are known.
        let first = self.bench.whole_runs() && room.tolerated > 0;
        let mut levels = match room.long {
            true if first => vec![100.0],
            true => vec![100.0, endpoints[room.round % endpoints.len()]],
            false => endpoints.to_vec(),
        };
        let refinements = run.search.refinements();
        // So that a loss is not found without where it begins: one level
        // after the other where there seems to be one.
        let begun = |level: &&f64| run.search.pairs_at(**level) < FEWEST_PAIRS;
        let next = PROBED.iter().find(begun);
        let next = next.unwrap_or(&PROBED[room.round % PROBED.len()]);
        let seen = run.search.ratio_at_100();
        let loses = seen.is_some_and(|seen| seen < run.search.rules.line.ln());
        let at_once = room.takes_time && seen.is_none_or(|_| loses);
        let few = |level: &&f64| run.search.pairs_at(**level) < 2 * FEWEST_PAIRS;
        let only_verdict = self.settings.full_only || self.for_verdicts.is_some();
        match (only_verdict, refinements.is_empty()) {
            (true, _) => {}
            (false, false) if !room.long => levels.extend(CURVE),
            _ if at_once && PROBED_AT_ONCE.iter().any(|level| few(&level)) => {
                levels.extend(PROBED_AT_ONCE);
            }
            _ if loses => levels.push(*next),
            _ => {}
        }
        if self.for_verdicts.is_none() {
            levels.extend(refinements);
        }
        levels.sort_unstable_by(f64::total_cmp);
        levels.dedup();
        let subject = &self.queue.subjects[run.subject];
        let arms = levels.into_iter();
        arms.map(|level| (run.subject, subject.watched(level)))
            .collect()
    }

    /// The gauges that `beside` lacks.
    fn gauges(&self, index: usize, beside: &[ArmOf]) -> Vec<ArmOf> {
        let sequence = &self.sequences[index];
        let halves = self.queue.halves.iter();
        let lost: Vec<usize> = halves
            .filter(|run| run.error.is_some())
            .map(|run| run.subject)
            .collect();
        let mut gauges = sequence.gauges().to_vec();
        gauges.retain(|gauge| !lost.contains(gauge));
        let played = beside
            .iter()
            .filter(|(subject, _)| gauges.contains(subject));
        let held = self.log.held.get(&sequence.sequence.number);
        let per_gauge = match held.is_some_and(|(held, _)| comes_and_goes(held)) {
            true => PER_GAUGE_OF_STATES,
            false => PER_GAUGE,
        };
        let missing = (beside.len() / per_gauge).saturating_sub(played.count());
        let gauges = gauges.iter().cycle().skip(sequence.rounds).take(missing);
        gauges.map(|gauge| (*gauge, Arm::Treat(100.0))).collect()
    }

    /// Controls for so many treated blocks.
    fn controls(&self, index: usize, treated: usize, room: &Room) -> Vec<ArmOf> {
        let sequence = &self.sequences[index];
        let zero = sequence.zero();
        if room.only_caused() {
            return vec![zero];
        }
        let fewest = match self.bench.whole_runs() {
            true => FEWEST_OF_RUNS,
            false => FEWEST_CONTROLS - usize::from(room.long && sequence.members.len() == 1),
        };
        let mut blocks = vec![zero; (treated / TREATED_PER_CONTROL).max(fewest)];
        blocks.extend(self.sharing(index));
        blocks
    }

    fn request(&self, index: usize, (subject, arm): ArmOf, target: TargetState) -> BlockRequest {
        let sequence = &self.sequences[index];
        let (skip, periods) = (sequence.skip, sequence.periods());
        let own = self.queue.subjects[subject].sequence;
        let own = own.unwrap_or(sequence.sequence);
        let (skip, periods) = match (arm, target) {
            // A victim needs its time to have back what it lost, whatever the
            // target needs.
            (Arm::Probe(_), _) => (own.skip, own.skip + own.read),
            (Arm::Treat(_), TargetState::Running) => {
                let more = own.least_skip.saturating_sub(skip);
                (skip + more, periods + more)
            }
            (_, TargetState::Running) => (skip, periods),
            (_, TargetState::Stopped) => (skip.min(ALONE[0]), periods.min(ALONE[0] + ALONE[1])),
        };
        BlockRequest {
            beside: None,
            subject,
            arm,
            target,
            skip,
            periods,
            turn: None,
        }
    }

    /// What has too few pairs without the target for a look at its verdict.
    fn twice(&self, wanting: &[&HalfRun]) -> Vec<ArmOf> {
        let caused = wanting.iter().filter(|run| run.half == Half::Caused);
        let few = |run: &HalfRun, level| run.search.pairs_at(level) < self.settings.min_pairs();
        let endpoints = caused.flat_map(|run| {
            let levels = run.search.rules.endpoints.iter();
            let few = levels.filter(move |level| few(run, **level));
            few.map(|level| {
                (
                    run.subject,
                    self.queue.subjects[run.subject].watched(*level),
                )
            })
        });
        endpoints.collect()
    }

    /// Blocks that tell what sharing costs: idle ones beside the placebo of
    /// this sequence, or placebos of another sequence where idle is the control.
    fn sharing(&self, index: usize) -> Vec<ArmOf> {
        let sequence = &self.sequences[index];
        let passes = sequence.block() > LONG_BLOCK && sequence.rounds % 2 == 1;
        if self.settings.halves == Halves::Caused || passes {
            return Vec::new();
        }
        let blocks = if sequence.block() > LONG_BLOCK { 1 } else { 2 };
        if !sequence.sequence.takes_time {
            let apart = self
                .sequences
                .iter()
                .all(|other| !other.sequence.takes_time);
            let own = self.queue.subjects[sequence.members[0]].sequence;
            let on_its_own = own.is_some_and(|own| !own.slices);
            return match apart || on_its_own {
                true => vec![(sequence.members[0], Arm::Idle); blocks],
                false => Vec::new(),
            };
        }
        let sliced = self
            .sequences
            .iter()
            .filter(|other| other.sequence.slices && !other.sequence.takes_time);
        let each = if self.bench.whole_runs() { 1 } else { 2 };
        sliced
            .map(|other| other.zero())
            .flat_map(|zero| std::iter::repeat_n(zero, each))
            .collect()
    }
}
