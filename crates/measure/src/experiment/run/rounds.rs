//! The part of a measurement that is played in sequences: which sequence plays the
//! next round ([`super::compose`]), and when what was played is judged.

use super::Run;
use super::compose::AT_100;
use super::compose::FEWEST_CONTROLS;
use super::compose::LONG_BLOCK;
use crate::experiment::executor::Arm;
use crate::experiment::executor::Block;
use crate::experiment::executor::WindowError;
use crate::experiment::levels::FEWEST_PAIRS;
use crate::experiment::queue::HalfRun;
use crate::experiment::sequences::Judgement;
use crate::experiment::sequences::SequenceLog;
use crate::experiment::sequences::comes_and_goes;
use crate::experiment::settings::Half;
use jostle_host::machine::transfer::APART_NS;
use jostle_statistics::ByNumber;
use jostle_statistics::median;
use std::time::Duration;

/// Share of what is left that a sequence may need for its first verdicts, and this
/// part of the share of the subjects that it holds if that is more.
const SEQUENCE_SHARE: f64 = 0.6;
const OF_SUBJECTS: f64 = 0.8;
/// The former where a block is a whole run.
const SHARE_OF_RUNS: f64 = 0.9;
/// How many times its share a sequence may take of the time in which its sources share a
/// cache with the target, where they do not always.
const WHILE_SHARED: f64 = 4.0;
/// How many times as many rounds as usual a source of CPU time has before its first look.
const MOST_FIRST_LOOKS: usize = 4;
/// Rounds by which their number grows from one judgement to the next.
const JUDGED_EVERY: f64 = 1.7;
/// Part of the budget, the last, in which time goes where the next verdict takes least. Of 560
/// planted sources (`the_last_of_the_time_goes_to_verdicts_that_can_be_had` prints it) 309 had
/// a verdict then, about 280 with 0.4, 295 with 0.8 and 235 with 0.
const FINALE: f64 = 0.6;
/// [`JUDGED_EVERY`] in that time: what decides there is of the last judgement.
const JUDGED_EVERY_IN_FINALE: f64 = 1.2;
/// Carry-over is looked for from so many rounds on, until there are more controls.
const ROUNDS_FOR_CARRY_OVER: usize = 4;
const CARRY_OVER_CONTROLS: usize = 64;
/// What the slow sources may keep for themselves while sequences want time.
const SLOW_SHARE: f64 = 0.3;
const QUICK_SLOW_SHARE: f64 = 0.15;
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
            sequence.plan_first_judgement();
        }
        SequenceLog::follow_whole_runs(&mut self.sequences, self.bench.runs_watched());
        for run in &mut self.queue.halves {
            run.played = self.queue.subjects[run.subject].sequence.is_some();
        }
        let early = self
            .sequences
            .iter()
            .filter(|sequence| sequence.is_looked_at_early());
        let early: Vec<usize> = early
            .flat_map(|sequence| sequence.members.clone())
            .collect();
        for run in &mut self.queue.halves {
            if early.contains(&run.subject) && run.half == Half::Tolerated && run.tried == 0 {
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
            if sequence.rounds >= sequence.judged_at || self.lacks_pairs(index) {
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
        self.look_for_verdicts(keep);
        let shares = self.look_at_sharing();
        self.log.private_cache.extend(self.bench.private_cache());
        let left = self.left().saturating_sub(keep);
        let mut best: Option<(bool, bool, bool, f64, f64, usize)> = None;
        for index in 0..self.sequences.len() {
            if self.open(index) == 0 || !self.affordable(index) {
                continue;
            }
            let sequence = &self.sequences[index];
            let least = sequence.block() * (FEWEST_CONTROLS as u32 + 2);
            let looked = sequence.rounds >= self.rounds_to_look(index) && !self.lacks_pairs(index);
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
            let soon = match self.for_verdicts.is_some() && looked {
                true => self.next_verdict(index).unwrap_or(f64::INFINITY),
                false => 0.0,
            };
            let key = (harsh, waits, looked, soon, claim, index);
            if left > least && best.is_none_or(|found| key < found) {
                best = Some(key);
            }
        }
        best.map(|(.., index)| index)
    }

    /// Decides whether time goes to the next verdicts from now on: when little of it is left,
    /// and one can be had in that time. What has its verdict waits then.
    fn look_for_verdicts(&mut self, keep: Duration) {
        self.for_verdicts = None;
        let budget = self.settings.budget;
        if self.settings.full_only || self.left() > budget.mul_f64(FINALE) {
            return;
        }
        if !std::mem::replace(&mut self.in_finale, true) {
            // The estimates are of the last judgement.
            for index in 0..self.sequences.len() {
                if self.sequences[index].judged < self.sequences[index].rounds {
                    self.judge_sequence(index);
                }
            }
        }
        let end = budget.saturating_sub(keep);
        self.for_verdicts = Some(end);
        let mut indices = 0..self.sequences.len();
        if !indices.any(|index| self.next_verdict(index).is_some()) {
            self.for_verdicts = None;
        }
    }

    /// Seconds until the next of its verdicts, where one can be had in the time.
    fn next_verdict(&self, index: usize) -> Option<f64> {
        let members = &self.sequences[index].members;
        let halves = self.queue.halves.iter();
        let own = halves.filter(|run| members.contains(&run.subject));
        let seconds = own.filter_map(|run| self.until_verdict(run));
        seconds.min_by(f64::total_cmp)
    }

    /// Whether a source of CPU time has had its rounds and still too few pairs for a verdict:
    /// its blocks are long, and one in which a run of the target ends does not count. Every
    /// target loses to it, and what it keeps is what predictions on a shared CPU rest on.
    fn lacks_pairs(&self, index: usize) -> bool {
        let sequence = &self.sequences[index];
        if !sequence.sequence.takes_time
            || sequence.rounds >= MOST_FIRST_LOOKS * self.rounds_to_look(index)
        {
            return false;
        }
        let halves = self.queue.halves.iter();
        let mut own = halves
            .filter(|run| sequence.members.contains(&run.subject) && run.half == Half::Tolerated);
        own.any(|run| run.error.is_none() && run.search.pairs_at(100.0) < FEWEST_PAIRS)
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
    pub(super) fn rounds_to_look(&self, sequence: usize) -> usize {
        // More whole runs would leave nothing to the other sequences.
        let pairs = match self.bench.whole_runs() || self.sequences[sequence].is_looked_at_early() {
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
        played.sort_by_number(|it| it.0);
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
        let every = match self.in_finale {
            true => JUDGED_EVERY_IN_FINALE,
            false => JUDGED_EVERY,
        };
        sequence.judged_at = ((sequence.rounds as f64 * every) as usize).max(sequence.rounds + 1);
        let early = sequence.controls() <= CARRY_OVER_CONTROLS;
        let enough = sequence.rounds >= ROUNDS_FOR_CARRY_OVER && early;
        let judgement =
            sequence.judge(!sequence.sequence.takes_time && sequence.periods() > 1 && enough);
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
        if judgement.in_bursts {
            let block = sequence.block();
            let own = self.queue.halves.iter_mut();
            let own = own.filter(|run| members.contains(&run.subject));
            for run in own.filter(|run| run.half == Half::Tolerated) {
                run.ended = true;
                run.skipped = Some(format!(
                    "in many blocks of {:.0} ms without interference the metric does not grow: \
                     it comes in bursts; name another with --metric",
                    1e3 * block.as_secs_f64()
                ));
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
