//! The part of a measurement that is played in sequences: what a round holds,
//! which sequence plays the next one, and when what was played is judged.

use super::Run;
use super::parts::ArmOf;
use super::parts::in_parts;
use crate::experiment::executor::Arm;
use crate::experiment::executor::Block;
use crate::experiment::executor::BlockRequest;
use crate::experiment::executor::TargetState;
use crate::experiment::executor::WindowError;
use crate::experiment::levels::FEWEST_PAIRS;
use crate::experiment::queue::HalfRun;
use crate::experiment::sequences::Judgement;
use crate::experiment::sequences::SequenceLog;
use crate::experiment::sequences::comes_and_goes;
use crate::experiment::settings::Half;
use crate::experiment::settings::Halves;
use crate::machine::transfer::APART_NS;
use jostle_statistics::median;
use jostle_statistics::shuffle;
use std::time::Duration;

/// Intensities of a curve beside those that its search asks for, percent.
const CURVE: [f64; 4] = [80.0, 40.0, 60.0, 20.0];
/// The same for what the target does to a source, in the order in which they are begun.
const PROBED: [f64; 4] = [60.0, 80.0, 40.0, 20.0];
/// The same from the first round on for a source of CPU time: beside a busy target
/// it begins to lose at a small share.
const PROBED_AT_ONCE: [f64; 2] = [40.0, 20.0];
/// Blocks at 100 per round: the verdict falls there.
const AT_100: usize = 2;
/// Blocks per round at the level where the crossing is looked for.
const AT_CROSSING: usize = 2;
/// Half-width of the 95 % interval of the loss at 100, a fraction, from which on the
/// verdict has all of the time and the curve none.
const COARSE: f64 = 0.03;
/// Blocks at a level that draw the curve there.
const DRAWN: usize = 16;
/// Controls of a round: one per this many treated blocks, at least so many.
const TREATED_PER_CONTROL: usize = 8;
const FEWEST_CONTROLS: usize = 3;
/// The same where each takes a whole run.
const FEWEST_OF_RUNS: usize = 2;
/// One block of a gauge per so many: states of the machine show in them. The same where
/// there are such states: they change within few blocks.
const PER_GAUGE: usize = 4;
const PER_GAUGE_OF_STATES: usize = 2;
/// Rounds that a sequence's share of the budget should hold, so that the verdict
/// has its pairs: rounds carry fewer levels of the curve for that.
const ROUNDS: f64 = 8.0;
/// Share of what is left that a sequence may need for its first verdicts, and this
/// part of the share of the subjects that it holds if that is more.
const SEQUENCE_SHARE: f64 = 0.6;
const OF_SUBJECTS: f64 = 0.8;
/// The former where a block is a whole run.
const SHARE_OF_RUNS: f64 = 0.9;
/// Blocks longer than this are too expensive for a curve before the verdict.
const LONG_BLOCK: Duration = Duration::from_millis(20);
/// What a sequence of long blocks gets of the time per open half, at most, in parts
/// of what one of short blocks gets.
const LONG_WEIGHT: f64 = 2.5;
/// How many times its share a sequence may take of the time in which its sources share a
/// cache with the target, where they do not always.
const WHILE_SHARED: f64 = 4.0;
/// What a half that has its answer weighs against one that has none.
const SETTLED: f64 = 0.25;
/// Periods that a source which is watched without the target needs at most to warm up,
/// and then.
const ALONE: [u32; 2] = [30, 20];
/// Rounds by which their number grows from one judgement to the next.
const JUDGED_EVERY: f64 = 1.7;
/// Carry-over is looked for until there are more controls.
const CARRY_OVER_CONTROLS: usize = 64;
/// What the slow sources may keep for themselves while sequences want time.
const SLOW_SHARE: f64 = 0.3;
const QUICK_SLOW_SHARE: f64 = 0.15;
/// Blocks at 100 that come from more than a moment.
const MOMENT: usize = 40;
/// Share of the budget for windows that count what blocks cannot.
const COUNTING_SHARE: f64 = 0.05;

impl Run<'_, '_> {
    /// Marks the halves that are measured in sequences; none when the metric or
    /// the budget does not allow it.
    pub(super) fn begin_sequences(&mut self) {
        if !self.bench.plays() {
            return;
        }
        self.sequences = SequenceLog::all(self.queue.subjects);
        let mut idle = self.log.baseline().to_vec();
        let gap = self.bench.gap();
        for sequence in &mut self.sequences {
            sequence.lengthen(median(&mut idle), gap, LONG_BLOCK);
        }
        SequenceLog::follow_whole_runs(&mut self.sequences, self.bench.whole_runs_seen());
        for run in &mut self.queue.halves {
            run.played = self.queue.subjects[run.subject].sequence.is_some();
        }
        for run in &mut self.queue.halves {
            let sequence = self.queue.subjects[run.subject].sequence;
            let takes_time = sequence.is_some_and(|sequence| sequence.takes_time);
            if takes_time && run.half == Half::Tolerated && run.tried == 0 {
                run.search.set_min_pairs(FEWEST_PAIRS);
            }
        }
        // Where no sequence comes to a verdict, pairs may still tell something.
        let left = self.left().as_secs_f64();
        let fits = |sequence| self.minimum(sequence).as_secs_f64() <= self.share(sequence) * left;
        if self.sequences.len() > 1 && !(0..self.sequences.len()).any(fits) {
            self.sequences.clear();
            for run in &mut self.queue.halves {
                run.played = false;
            }
        }
    }

    /// Share of what is left that the slow sources may have before the sequences have
    /// what they want.
    pub(super) fn slow_share(&self) -> f64 {
        match (self.sequences.is_empty(), self.settings.quick) {
            (true, _) => 1.0,
            (false, true) => QUICK_SLOW_SHARE,
            (false, false) => SLOW_SHARE,
        }
    }

    /// What the halves that are not played need at least, within their share.
    pub(super) fn kept_for_slow(&self) -> Duration {
        let order = self.queue.first_order();
        let left = self.left().as_secs_f64();
        let mut sum = 0.0;
        for index in order {
            let minimum = self.queue.minimum(index);
            if sum + minimum <= self.slow_share() * left {
                sum += minimum;
            }
        }
        Duration::from_secs_f64(sum)
    }

    /// Plays rounds until all is known or only `keep` of the budget is left.
    pub(super) fn play_sequences(&mut self, keep: Duration) -> Result<(), WindowError> {
        while let Some(index) = self.next_sequence(keep) {
            self.round(index, keep)?;
            let sequence = &self.sequences[index];
            if sequence.rounds >= sequence.judged_at {
                self.judge_sequence(index);
            }
            let (log, elapsed) = (&self.log, self.elapsed());
            self.observer.checkpoint(&|| log.readings(elapsed));
        }
        for index in 0..self.sequences.len() {
            if self.sequences[index].judged < self.sequences[index].rounds {
                self.judge_sequence(index);
            }
        }
        Ok(())
    }

    /// The sequence that has not had its first look at its verdicts yet, or else the
    /// one that had least for what it has to find out.
    fn next_sequence(&mut self, keep: Duration) -> Option<usize> {
        let shares = self.look_at_sharing();
        self.log.private_cache.extend(self.bench.private_cache());
        let left = self.left().saturating_sub(keep);
        let mut best: Option<(bool, bool, bool, f64, usize)> = None;
        for index in 0..self.sequences.len() {
            if self.open(index) == 0 || !self.affordable(index) {
                continue;
            }
            let sequence = &self.sequences[index];
            let least = sequence.block() * (FEWEST_CONTROLS as u32 + 2);
            let looked = sequence.rounds >= self.rounds_to_look(index);
            let claim = match looked {
                true => sequence.spent.as_secs_f64() / self.weight(index),
                // Of whole runs there are few: those that tell about many sources come first.
                false if self.bench.whole_runs() => {
                    self.minimum(index).as_secs_f64() / sequence.members.len() as f64
                }
                false => self.minimum(index).as_secs_f64(),
            };
            // What takes the target's own time ends the measurement soonest.
            let harsh = self.settings.floor.is_some() && sequence.sequence.takes_time;
            let claim = match looked {
                true => self.due(index, claim, shares),
                false => claim,
            };
            let waits = sequence.evicts && shares == Some(false);
            // Of those that never shared one there may be nothing to look at.
            let waits = waits && (looked || self.log.looks_at_sharing()[0] == 0);
            let key = (harsh, waits, looked, claim, index);
            if left > least && best.is_none_or(|found| key < found) {
                best = Some(key);
            }
        }
        best.map(|(_, _, _, _, index)| index)
    }

    /// How much of its due a sequence has had, where it had `claim`: one whose sources should
    /// share a cache with the target, and do not always, comes sooner while they do. `shares`
    /// is of now.
    fn due(&self, index: usize, claim: f64, shares: Option<bool>) -> f64 {
        let evicts = self.sequences[index].evicts;
        let changes = self.log.looks_at_sharing()[1] > 0;
        match shares {
            Some(true) if evicts && changes => claim / WHILE_SHARED,
            _ => claim,
        }
    }

    /// Looks whether the sources on other CPUs share a cache with the target now.
    fn look_at_sharing(&mut self) -> Option<bool> {
        let mut sequences = self.sequences.iter();
        let evicts = sequences.find(|sequence| sequence.evicts)?;
        self.log.evicting.clone_from(&evicts.members);
        let line_ns = self.bench.cache_line_ns(evicts.members[0]);
        self.log.lines_ns.extend(line_ns);
        line_ns.map(|ns| ns <= APART_NS)
    }

    /// Rounds until the first look at the verdicts of a sequence.
    fn rounds_to_look(&self, sequence: usize) -> usize {
        // More whole runs would leave nothing to the other sequences; and what takes the
        // target's time costs so much that few pairs show it.
        let few = self.bench.whole_runs() || self.sequences[sequence].sequence.takes_time;
        let pairs = match few {
            true => FEWEST_PAIRS,
            false => self.settings.min_pairs(),
        };
        pairs.div_ceil(AT_100)
    }

    /// About the time until a sequence's first look.
    fn minimum(&self, sequence: usize) -> Duration {
        self.lasts(sequence, self.rounds_to_look(sequence))
    }

    /// About the time of so many rounds.
    fn lasts(&self, sequence: usize, rounds: usize) -> Duration {
        let blocks = AT_100 * self.sequences[sequence].members.len()
            + FEWEST_CONTROLS
            + self.open(sequence) / 2;
        self.sequences[sequence].block() * (blocks * rounds) as u32
    }

    /// Whether a sequence that has not begun can come to the fewest pairs that the look
    /// at the end needs without eating up the run; its halves are told what would do
    /// where it cannot.
    fn affordable(&mut self, index: usize) -> bool {
        let members = &self.sequences[index].members;
        let recalled = |run: &HalfRun| members.contains(&run.subject) && run.tried > 0;
        if self.sequences[index].rounds > 0 || self.queue.halves.iter().any(recalled) {
            return true;
        }
        let minimum = self.lasts(index, FEWEST_PAIRS.div_ceil(AT_100));
        let left = self.left();
        let share = self.share(index);
        if minimum.as_secs_f64() <= share * left.as_secs_f64() || self.sequences.len() == 1 {
            return true;
        }
        let budget = self.settings.budget;
        let before = budget.saturating_sub(left) + self.settings.preparation;
        let enough = before.as_secs_f64() + minimum.as_secs_f64() / share;
        let reason = format!(
            "its first verdict needs about {:.1} s (a block takes {:.2} s), more than {:.0} % of the \
             {:.1} s that were left; --budget {:.0}s would do",
            minimum.as_secs_f64(),
            self.sequences[index].block().as_secs_f64(),
            100.0 * share,
            left.as_secs_f64(),
            (1.1 * enough).ceil()
        );
        let members = &self.sequences[index].members;
        let halves = self.queue.halves.iter_mut();
        for run in halves.filter(|run| members.contains(&run.subject)) {
            run.ended = true;
            run.skipped = Some(reason.clone());
        }
        false
    }

    /// Share of what is left that a sequence may need.
    fn share(&self, sequence: usize) -> f64 {
        let all: usize = self
            .sequences
            .iter()
            .map(|sequence| sequence.members.len())
            .sum();
        let own = self.sequences[sequence].members.len() as f64 / all.max(1) as f64;
        // Pairs of runs tell less about one source than these about all of them.
        let share = match self.bench.whole_runs() {
            true => SHARE_OF_RUNS,
            false => SEQUENCE_SHARE,
        };
        share.max(OF_SUBJECTS * own)
    }

    /// Halves of a sequence that are not settled.
    fn open(&self, sequence: usize) -> usize {
        let members = &self.sequences[sequence].members;
        let halves = self.queue.halves.iter();
        halves
            .filter(|run| members.contains(&run.subject) && self.wants(run))
            .count()
    }

    fn wants(&self, run: &HalfRun) -> bool {
        let enough = self.half_width_wanted(run);
        let precise = || run.search.half_width_at_100() <= enough;
        let complete = || precise() && self.not_drawn(run).is_none();
        let known = run.search.settled && (run.half == Half::Caused || complete());
        !run.ended && (!known || self.only_a_moment(run) || self.only_apart(run))
    }

    /// A level of its curve that has not enough pairs yet; `None` where blocks are too
    /// expensive for a curve.
    fn not_drawn(&self, run: &HalfRun) -> Option<f64> {
        let own = |sequence: &&SequenceLog| sequence.members.contains(&run.subject);
        let sequence = self.sequences.iter().find(own)?;
        let cheap = sequence.block() <= LONG_BLOCK && !self.settings.full_only;
        let few = |level: &f64| run.search.pairs_at(*level) < FEWEST_PAIRS;
        CURVE.into_iter().find(|level| cheap && few(level))
    }

    /// Whether its source did not yet share the cache with the target that they are
    /// said to share.
    fn only_apart(&self, run: &HalfRun) -> bool {
        let nearby = self.log.nearby.values();
        let mut of = nearby.filter(|(_, members)| members.contains(&run.subject));
        of.any(|(nearby, _)| !nearby.of_shared_time)
    }

    /// Whether all blocks of a half that nothing is searched for come from a
    /// moment: what changes every second is not in its interval then.
    fn only_a_moment(&self, run: &HalfRun) -> bool {
        let sequence = self
            .sequences
            .iter()
            .find(|sequence| sequence.members.contains(&run.subject));
        let short = sequence.is_some_and(|sequence| sequence.block() <= LONG_BLOCK);
        self.settings.full_only && short && run.search.pairs_at(100.0) < MOMENT
    }

    /// Half-width of the 95 % interval of the loss at 100, a fraction, that is
    /// narrow enough.
    fn half_width_wanted(&self, run: &HalfRun) -> f64 {
        let sequence = self.queue.subjects[run.subject].sequence;
        let slices = sequence.is_some_and(|sequence| sequence.slices);
        match (self.settings.quick, slices) {
            (false, true) => 0.011,
            (false, false) | (true, true) => 0.025,
            (true, false) => 0.05,
        }
    }

    /// What a sequence still has to find out: answers, and how much beyond those. Long
    /// blocks need more time for as much.
    fn weight(&self, sequence: usize) -> f64 {
        let length = self.sequences[sequence].block().as_secs_f64();
        let members = &self.sequences[sequence].members;
        let halves = self.queue.halves.iter();
        let open = halves.filter(|run| members.contains(&run.subject) && self.wants(run));
        let open = open.map(|run| if run.search.settled { SETTLED } else { 1.0 });
        open.sum::<f64>() * (length / 0.004).sqrt().clamp(1.0, LONG_WEIGHT)
    }

    /// Plays one round of a sequence.
    fn round(&mut self, index: usize, keep: Duration) -> Result<(), WindowError> {
        let began = self.bench.now();
        let sequence = &mut self.sequences[index];
        if let Some(touched) = self.bench.touched_within(sequence.recovery()) {
            sequence.shorten_for(touched);
        }
        let blocks = self.compose(index, keep);
        let members = self.sequences[index].members.iter();
        let names: Vec<&str> = members
            .map(|member| self.queue.subjects[*member].resource)
            .collect();
        let note = format!("in turns: {}", names.join(", "));
        self.tell(None, note);
        let results = match self.bench.play(&blocks) {
            Err(WindowError::Subject(reason)) => {
                for member in self.sequences[index].members.clone() {
                    self.queue.end_subject(member, &reason);
                }
                return Ok(());
            }
            results => results?,
        };
        let sequence = &mut self.sequences[index];
        let mut failures: Vec<(usize, String)> = Vec::new();
        for (request, result) in blocks.iter().zip(results) {
            match result {
                Block::Read(reading) => sequence.keep(request, reading),
                Block::Missed => {}
                Block::Failed(reason) => failures.push((request.subject, reason)),
            }
        }
        sequence.rounds += 1;
        sequence.spent += self.bench.now().saturating_sub(began);
        for (subject, reason) in failures {
            self.queue.end_subject(subject, &reason);
        }
        Ok(())
    }

    /// The blocks of the next round, in random order in each of its parts: those beside
    /// the target, then those without it.
    fn compose(&mut self, index: usize, keep: Duration) -> Vec<BlockRequest> {
        let sequence = &self.sequences[index];
        let weights: f64 = (0..self.sequences.len())
            .map(|sequence| self.weight(sequence))
            .sum();
        let left = self.left().saturating_sub(keep) + sequence.spent;
        let share = left.mul_f64(self.weight(index) / weights.max(1e-9));
        let most = share.div_duration_f64(sequence.block()) / ROUNDS;
        let round = sequence.rounds;
        let wanting: Vec<&HalfRun> = self
            .queue
            .halves
            .iter()
            .filter(|run| sequence.members.contains(&run.subject) && self.wants(run))
            .collect();
        let tolerated = wanting.iter().filter(|run| run.half == Half::Tolerated);
        let all_settled = tolerated.clone().all(|run| run.search.settled);
        let tolerated = tolerated.count();
        let fixed = AT_100 * tolerated + wanting.len() / 2 + FEWEST_CONTROLS;
        let spare = (most - fixed as f64) / tolerated.max(1) as f64;
        let long = sequence.block() > LONG_BLOCK;
        // Where long blocks only tell what the target does to sources, controls would take
        // half of the time.
        let only_caused = long && tolerated == 0;
        let fewest = usize::from(!long || round >= self.rounds_to_look(index));
        let levels = match self.settings.full_only {
            true => 0,
            false => (spare as usize).clamp(fewest, CURVE.len()),
        };
        let mut beside: Vec<(usize, Arm)> = Vec::new();
        let mut alone: Vec<(usize, Arm)> = Vec::new();
        for run in &wanting {
            let subject = run.subject;
            match run.half {
                Half::Tolerated => {
                    let precise = run.search.half_width_at_100() <= self.half_width_wanted(run);
                    let refinements = run.search.refinements();
                    let treat = |level: f64| (subject, Arm::Treat(level));
                    // What has its answer leaves its time to what has none.
                    if run.search.settled && !all_settled {
                        let missing = (levels > 0).then(|| self.not_drawn(run)).flatten();
                        let level = missing.filter(|_| precise || round % 2 == 1);
                        beside.push(treat(level.unwrap_or(100.0)));
                        continue;
                    }
                    if !precise || refinements.is_empty() {
                        beside.extend([treat(100.0); AT_100]);
                    }
                    // Infinite before the first look.
                    let levels = match run.search.half_width_at_100() > COARSE {
                        true => {
                            beside.extend((levels > 0).then(|| treat(100.0)));
                            0
                        }
                        false => levels,
                    };
                    let first = round * levels;
                    let of_curve = (first..first + levels).map(|n| CURVE[n % CURVE.len()]);
                    // A curve that is drawn leaves its time to its crossing.
                    let drawn = |level: &f64| {
                        !refinements.is_empty() && run.search.pairs_at(*level) >= DRAWN
                    };
                    beside.extend(of_curve.filter(|level| !drawn(level)).map(treat));
                    for level in &refinements {
                        let spare = (levels / refinements.len()).max(AT_CROSSING);
                        beside.extend(std::iter::repeat_n(treat(*level), spare));
                    }
                }
                Half::Caused => {
                    let endpoints = run.search.rules.endpoints;
                    // At 100 the target's own blocks tell half of it already.
                    // A block is a whole run: lower levels wait until the verdicts at 100 are known.
                    let first = self.bench.whole_runs() && tolerated > 0;
                    let mut levels = match long {
                        true if first => vec![100.0],
                        true => vec![100.0, endpoints[round % endpoints.len()]],
                        false => endpoints.to_vec(),
                    };
                    let refinements = run.search.refinements();
                    // So that a loss is not found without where it begins: one level
                    // after the other where there seems to be one.
                    let begun = |level: &&f64| run.search.pairs_at(**level) < FEWEST_PAIRS;
                    let next = PROBED.iter().find(begun);
                    let next = next.unwrap_or(&PROBED[round % PROBED.len()]);
                    let seen = run.search.ratio_at_100();
                    let loses = seen.is_some_and(|seen| seen < run.search.rules.line.ln());
                    let at_once = sequence.sequence.takes_time && seen.is_none_or(|_| loses);
                    let few = |level: &&f64| run.search.pairs_at(**level) < 2 * FEWEST_PAIRS;
                    match (self.settings.full_only, refinements.is_empty()) {
                        (true, _) => {}
                        (false, false) if !long => levels.extend(CURVE),
                        _ if at_once && PROBED_AT_ONCE.iter().any(|level| few(&level)) => {
                            levels.extend(PROBED_AT_ONCE);
                        }
                        _ if loses => levels.push(*next),
                        _ => {}
                    }
                    levels.extend(refinements);
                    levels.sort_unstable_by(f64::total_cmp);
                    levels.dedup();
                    for level in levels {
                        let arm = (subject, self.queue.subjects[subject].watched(level));
                        // No other block tells what a walk loses.
                        let more = usize::from(only_caused || matches!(arm.1, Arm::Probe(_)));
                        alone.extend(std::iter::repeat_n(arm, 1 + more));
                        if !beside.contains(&arm) {
                            beside.extend(std::iter::repeat_n(arm, 1 + more));
                        }
                    }
                }
            }
        }
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
        let gauges = gauges.iter().cycle().skip(round).take(missing);
        beside.extend(gauges.map(|gauge| (*gauge, Arm::Treat(100.0))));
        let zero = sequence.zero();
        let fewest = match self.bench.whole_runs() {
            true => FEWEST_OF_RUNS,
            false => FEWEST_CONTROLS - usize::from(long && sequence.members.len() == 1),
        };
        if only_caused {
            beside.push(zero);
        } else {
            let controls = (beside.len() / TREATED_PER_CONTROL).max(fewest);
            beside.extend(std::iter::repeat_n(zero, controls));
            beside.extend(self.sharing(index));
        }
        let sequence = &self.sequences[index];
        let (skip, periods) = (sequence.skip, sequence.periods());
        let (shape, subjects) = (sequence.sequence, self.queue.subjects);
        let request = |target| {
            move |(subject, arm): (usize, Arm)| {
                let (skip, periods) = match (arm, target) {
                    // A victim needs its time to have back what it lost, whatever the
                    // target needs.
                    (Arm::Probe(_), _) => {
                        let own = subjects[subject].sequence.unwrap_or(shape);
                        (own.skip, own.skip + own.read)
                    }
                    (Arm::Treat(_), TargetState::Running) => {
                        let own = subjects[subject].sequence.unwrap_or(shape);
                        let more = own.least_skip.saturating_sub(skip);
                        (skip + more, periods + more)
                    }
                    (_, TargetState::Running) => (skip, periods),
                    (_, TargetState::Stopped) => {
                        (skip.min(ALONE[0]), periods.min(ALONE[0] + ALONE[1]))
                    }
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
        };
        let (block, total) = (sequence.block(), beside.len() + alone.len());
        let twice = self.twice(&wanting);
        let rng = self.bench.rng();
        let mut parts = in_parts(beside, alone, &twice, rng);
        for blocks in parts.iter_mut().flatten() {
            shuffle(rng, blocks);
        }
        // The last round has to fit into what is left.
        let fits = self.left().saturating_sub(keep).div_duration_f64(block) / total as f64;
        for blocks in parts.iter_mut().flatten() {
            blocks.truncate((blocks.len() as f64 * fits) as usize);
        }
        let parts = parts.into_iter().map(|[beside, alone]| {
            let beside = beside.into_iter().map(request(TargetState::Running));
            beside.chain(alone.into_iter().map(request(TargetState::Stopped)))
        });
        parts.flatten().collect()
    }

    /// What has too few pairs without the target for a look at its verdict.
    fn twice(&self, wanting: &[&HalfRun]) -> Vec<ArmOf> {
        let caused = wanting.iter().filter(|run| run.half == Half::Caused);
        let caused = caused.filter(|_| !self.bench.whole_runs());
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
    fn sharing(&self, index: usize) -> Vec<(usize, Arm)> {
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

    /// Takes a few windows that are long enough to count in, of the sources that
    /// cost the target most: they say why.
    pub(super) fn count(&mut self) -> Result<(), WindowError> {
        if !self.bench.counts() {
            return Ok(());
        }
        let most = self.settings.budget.mul_f64(COUNTING_SHARE);
        let until = (self.elapsed() + most).min(self.settings.budget);
        let halves = self.queue.halves.iter().enumerate();
        let mut played: Vec<(f64, usize)> = halves
            .filter(|(_, run)| run.played && run.half == Half::Tolerated && run.error.is_none())
            .filter_map(|(index, run)| Some((run.search.ratio_at_100()?, index)))
            .collect();
        played.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, index) in played {
            let subject = self.queue.halves[index].subject;
            let price = self
                .queue
                .price(subject, Half::Tolerated, 100.0, FEWEST_PAIRS);
            if self.elapsed() + Duration::from_secs_f64(price) > until {
                continue;
            }
            self.tell(None, "counting".into());
            match self
                .bench
                .pairs(subject, Half::Tolerated, 100.0, FEWEST_PAIRS)
            {
                Ok(pairs) => {
                    for pair in pairs {
                        self.log_pair(subject, Half::Tolerated, 100.0, pair);
                    }
                }
                Err(WindowError::Subject(reason)) => self.queue.end_subject(subject, &reason),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the searches what was played so far.
    fn judge_sequence(&mut self, index: usize) {
        SequenceLog::follow_course(&mut self.sequences, &mut self.repetition);
        let sequence = &mut self.sequences[index];
        sequence.judged = sequence.rounds;
        sequence.judged_at =
            ((sequence.rounds as f64 * JUDGED_EVERY) as usize).max(sequence.rounds + 1);
        let early = sequence.controls() <= CARRY_OVER_CONTROLS;
        let judgement =
            sequence.judge(!sequence.sequence.takes_time && sequence.periods() > 1 && early);
        self.take(index, judgement);
    }

    /// Tells the searches what all blocks say, where some of them were left out so far.
    pub(super) fn judge_at_the_end(&mut self) {
        for index in 0..self.sequences.len() {
            let held = self.log.held.get(&self.sequences[index].sequence.number);
            if held.is_some_and(|(held, _)| comes_and_goes(held)) {
                self.take(index, self.sequences[index].judge_last());
            }
        }
    }

    fn take(&mut self, index: usize, judgement: Judgement) {
        let sequence = &self.sequences[index];
        let (number, spent) = (sequence.sequence.number, sequence.spent);
        let members = sequence.members.clone();
        for level in judgement.levels {
            let half = self
                .queue
                .halves
                .iter_mut()
                .find(|run| run.subject == level.subject && run.half == level.half);
            if let Some(run) = half {
                run.search.replace(level.intensity, level.played);
            }
        }
        for run in &mut self.queue.halves {
            if members.contains(&run.subject) {
                run.tried = run.search.pairs() as u64;
                run.spent = spent / members.len().max(1) as u32;
                run.search.judge(false);
            }
        }
        for (subject, arm, ratios) in judgement.sharing {
            match arm {
                // The control against idle is minus idle against the control.
                Arm::Idle => {
                    let against: Vec<f64> = ratios.iter().map(|ratio| -ratio).collect();
                    for member in &members {
                        self.log.sharing[*member].clone_from(&against);
                    }
                }
                _ => {
                    let sequence = self.queue.subjects[subject].sequence;
                    for (index, other) in self.queue.subjects.iter().enumerate() {
                        if other.sequence == sequence {
                            self.log.sharing[index].clone_from(&ratios);
                        }
                    }
                }
            }
        }
        for member in &members {
            self.log.mixtures.remove(member);
        }
        for (subject, contrasts, arm) in judgement.mixtures {
            self.log.mixtures.insert(subject, (contrasts, arm));
        }
        if let Some(nearby) = judgement.nearby {
            self.log.nearby.insert(number, (nearby, members.clone()));
        }
        if let Some(held) = judgement.held {
            self.log.held.insert(number, (held, members));
        }
        self.log.played.insert(number, judgement.pairs);
        self.log.levels.insert(number, judgement.level);
    }
}
