//! What the halves that are played still want to know, and what that weighs.

use super::Run;
use super::compose::AT_100;
use super::compose::FEWEST_CONTROLS;
use super::compose::LONG_BLOCK;
use super::compose::curve;
use crate::experiment::levels::FEWEST_PAIRS;
use crate::experiment::queue::HalfRun;
use crate::experiment::sequences::SequenceLog;
use crate::experiment::settings::Half;

/// What a sequence of long blocks gets of the time per open half, at most, in parts
/// of what one of short blocks gets.
const LONG_WEIGHT: f64 = 2.5;
/// What a half that has its answer weighs against one that has none.
const SETTLED: f64 = 0.25;
/// Blocks at 100 that come from more than a moment.
const MOMENT: usize = 40;

impl Run<'_, '_> {
    /// Halves of a sequence that are not settled.
    pub(super) fn open(&self, sequence: usize) -> usize {
        let members = &self.sequences[sequence].members;
        let halves = self.queue.halves.iter();
        halves
            .filter(|run| members.contains(&run.subject) && self.wants(run))
            .count()
    }

    pub(super) fn wants(&self, run: &HalfRun) -> bool {
        if self.for_verdicts.is_some() {
            return self.until_verdict(run).is_some();
        }
        let enough = self.half_width_wanted(run);
        let precise = || run.search.half_width_at_100() <= enough;
        let complete = || precise() && self.not_drawn(run).is_none();
        let known = run.search.settled && (run.half == Half::Caused || complete());
        !run.ended && (!known || self.only_a_moment(run) || self.only_apart(run))
    }

    /// Seconds until the verdict of a half that has none, if its estimates are right; `None`
    /// where it has its pairs, or the time for them is not left.
    pub(super) fn until_verdict(&self, run: &HalfRun) -> Option<f64> {
        let end = self.for_verdicts?;
        let lacks = run.search.until_verdict()?;
        let own = |sequence: &&SequenceLog| sequence.members.contains(&run.subject);
        let sequence = self.sequences.iter().find(own)?;
        let rounds = match run.half {
            Half::Tolerated => lacks / AT_100 as f64,
            // The first few come two at a time.
            Half::Caused => lacks - 0.5 * lacks.min(self.few_caused(run) as f64),
        };
        let halves = self.queue.halves.iter();
        let others = halves.filter(|run| sequence.members.contains(&run.subject));
        let undecided = others.filter(|run| run.search.until_verdict().is_some());
        let blocks: usize = undecided
            .map(|run| match run.half {
                Half::Tolerated => AT_100,
                Half::Caused => 1 + usize::from(self.few_caused(run) > 0),
            })
            .sum();
        let round = sequence.block() * (blocks + FEWEST_CONTROLS) as u32;
        let seconds = rounds.max(1.0) * round.as_secs_f64();
        let left = end.saturating_sub(self.elapsed()).as_secs_f64();
        (!run.ended && run.error.is_none() && seconds <= left).then_some(seconds)
    }

    /// Pairs that what a target does to a source lacks for a look at its verdict; until then
    /// a round gives two.
    fn few_caused(&self, run: &HalfRun) -> usize {
        let levels = run.search.rules.endpoints.iter();
        let fewest = levels.map(|level| run.search.pairs_at(*level)).min();
        let wanted = self.settings.min_pairs();
        wanted.saturating_sub(fewest.unwrap_or(wanted))
    }

    /// A level of its curve that has not enough pairs yet; `None` where blocks are too
    /// expensive for a curve.
    pub(super) fn not_drawn(&self, run: &HalfRun) -> Option<f64> {
        let own = |sequence: &&SequenceLog| sequence.members.contains(&run.subject);
        let sequence = self.sequences.iter().find(own)?;
        let cheap = sequence.block() <= LONG_BLOCK && !self.settings.full_only;
        let few = |level: &f64| run.search.pairs_at(*level) < FEWEST_PAIRS;
        let levels = curve(sequence.sequence.takes_time);
        levels.into_iter().find(|level| cheap && few(level))
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
    pub(super) fn half_width_wanted(&self, run: &HalfRun) -> f64 {
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
    pub(super) fn weight(&self, sequence: usize) -> f64 {
        let length = self.sequences[sequence].block().as_secs_f64();
        let members = &self.sequences[sequence].members;
        let halves = self.queue.halves.iter();
        let open = halves.filter(|run| members.contains(&run.subject) && self.wants(run));
        let open = open.map(|run| if run.search.settled { SETTLED } else { 1.0 });
        open.sum::<f64>() * (length / 0.004).sqrt().clamp(1.0, LONG_WEIGHT)
    }
}
