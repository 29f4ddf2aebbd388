//! Sequences of short blocks: what was played in one, and what it says of
//! each of its subjects.
//!
//! All sources and levels of a sequence follow each other in one random order,
//! round by round, and share their control: see [`Contrasts`]. The target's
//! own performance is compared with the control of its time; the source's,
//! with its blocks of the same round in which the target was stopped.

mod apart;
mod course;
mod ends;
mod judge;
mod pair;
mod probes;

pub(super) use self::course::Repetition;
use self::ends::spread;
pub(super) use self::judge::Judgement;
pub(super) use self::judge::comes_and_goes;
pub(super) use self::judge::matters;
use super::arrived::GAUGES;
use super::design::RATIO_FLOOR;
use super::executor::Arm;
use super::executor::BlockReading;
use super::executor::BlockRequest;
use super::executor::Place;
use super::executor::Sequence;
use super::executor::Subject;
use super::executor::TargetState;
use super::executor::TargetTurn;
use super::search::Played;
use super::settings::Half;
use jostle_profile::resource::Resource;
use jostle_statistics::Between;
use jostle_statistics::Block;
use jostle_statistics::Contrasts;
use jostle_statistics::Course;
use jostle_statistics::Grain;
use jostle_statistics::Noise;
use jostle_statistics::RoughContrasts;
use jostle_statistics::between;
use jostle_statistics::block_rate;
use jostle_statistics::mean;
use jostle_statistics::median;
use jostle_statistics::within;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Rounds until a sequence is judged for the first time, and one that is looked at early.
const FIRST_JUDGED: usize = 4;
const FIRST_JUDGED_EARLY: usize = 2;
/// Blocks of an evicting sequence from which on few are enough for a first look.
const LONG_BLOCK: Duration = Duration::from_millis(40);
/// Blocks grow to at most this length when carry-over takes most of them, or their
/// ends are most of their noise.
const LONGEST_BLOCK: Duration = Duration::from_millis(20);

/// Share of the blocks without interference that may be empty where those beside a source of
/// CPU time are to say something: beside it there are twice as many, and from three in ten on
/// a robust mean is of empty ones.
const MOST_EMPTY: f64 = 0.1;
/// So many are no chance among few.
const FEWEST_EMPTY: f64 = 3.0;
/// Blocks of an arm for which those from before blocks were made longer are left out.
const FEWEST_LONG: usize = 8;

/// Operations of the undisturbed target that the part of a block that is read
/// lasts for at least.
const FEWEST_OPERATIONS: f64 = 12.0;

/// The same where parts of operations are counted, in times between two of them.
const FEWEST_GAPS: f64 = 4.0;

/// Blocks of a source that takes half of the time are so many times as long, up to this
/// length. The fewer operations a block has, the further the mean logarithm of their rate
/// lies below the logarithm of their mean rate, and treated blocks have half as many.
const LONGER_OF_TIME: f64 = 4.0;
const LONGEST_OF_TIME: Duration = Duration::from_millis(120);

/// Another way to read blocks is taken where they spread less than this part of what
/// they do otherwise.
const STEADIER: f64 = 0.93;

/// Variance that comes with comparing a block with other runs at its place, in parts of
/// the variance of blocks, times the number of runs: what is wrong with the course at one
/// place is wrong for all blocks there. From simulated runs of known effects.
const ERROR_OF_COURSE: f64 = 6.0;

/// Blocks of an arm from which on some have to be left where operations have known times.
const MANY_OF_ARM: usize = 8;

/// What a walk from line to line needs for each that was evicted, at most, and how much more
/// there is than what the target is seen to hold: the kernel has its own.
const SECONDS_PER_LINE: f64 = 100e-9;
const LINE_BYTES: f64 = 64.0;
const MORE_TOUCHED: f64 = 1.25;

/// What a block is read between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// Its begin and its end.
    Block,
    /// The first operation of the target in it and the last.
    Operations,
    /// The same, each taken to be in the middle of where it may have been, and compared
    /// with the time between the same two in other runs.
    Marks,
}

/// What a block was of. The first arm of a sequence is its control.
type ArmOf = (usize, Arm);

/// One block that was read.
struct Kept {
    round: usize,
    arm: usize,
    target: TargetState,
    reading: BlockReading,
    periods: u32,
    /// Periods in which its source was not at its pressure yet, where those are more than the
    /// target needs.
    slow_source: u32,
    /// Part of an operation that was not seen: see [`Grain`].
    rest: f64,
    /// Where in its turn the first and the last operation was: see [`between`].
    when: [f64; 2],
}

/// What one half of one subject showed at one intensity.
pub(super) struct LevelPlayed {
    pub(super) half: Half,
    pub(super) subject: usize,
    pub(super) intensity: f64,
    pub(super) played: Played,
}

/// Everything played in one sequence.
pub(super) struct SequenceLog {
    pub(super) sequence: Sequence,
    /// Subjects of the sequence.
    pub(super) members: Vec<usize>,
    /// Those of them that need nothing but execution units: their speed tells
    /// whether somebody runs on the sibling thread, whatever the target holds in
    /// caches.
    gauges: Vec<usize>,
    /// Whether its sources take something from a cache or memory that they are said to
    /// share with the target from CPUs of their own.
    pub(super) evicts: bool,
    /// Periods of a block whose turns are not counted.
    pub(super) skip: u32,
    /// Periods that are read at least, for enough operations.
    least: u32,
    /// Periods after which the target has back what is evicted, by what it uses.
    recovers_in: Option<u32>,
    arms: Vec<ArmOf>,
    blocks: Vec<Kept>,
    /// Operations that are seen at once: 1 unless they come in bursts.
    grain: f64,
    /// What is not seen of them, and when in its turn one was done.
    rest: Noise,
    when: Noise,
    /// How fast the target is at each place of its runs, where it is run again and
    /// again.
    course: Option<Rc<Course>>,
    /// The same from operation to operation.
    fine: Option<Rc<Course>>,
    /// The same as runs show it in which nobody interfered.
    undisturbed: Option<Rc<Course>>,
    /// Rounds begun.
    pub(super) rounds: usize,
    pub(super) spent: Duration,
    /// Rounds that were judged, and those at which the next judgement falls.
    pub(super) judged: usize,
    pub(super) judged_at: usize,
}

impl SequenceLog {
    /// One log for each sequence of `subjects`.
    pub(super) fn all(subjects: &[Subject]) -> Vec<SequenceLog> {
        let mut sequences: BTreeMap<usize, SequenceLog> = BTreeMap::new();
        for (index, subject) in subjects.iter().enumerate() {
            let Some(sequence) = subject.sequence else {
                continue;
            };
            let log = sequences
                .entry(sequence.number)
                .or_insert_with(|| SequenceLog {
                    sequence,
                    members: Vec::new(),
                    gauges: Vec::new(),
                    evicts: false,
                    skip: sequence.skip,
                    least: 0,
                    recovers_in: None,
                    arms: vec![(index, SequenceLog::control(sequence))],
                    blocks: Vec::new(),
                    grain: 1.0,
                    rest: Noise::seeded(sequence.number as u64),
                    when: Noise::seeded(!(sequence.number as u64)),
                    course: None,
                    fine: None,
                    undisturbed: None,
                    rounds: 0,
                    spent: Duration::ZERO,
                    judged: 0,
                    judged_at: FIRST_JUDGED,
                });
            log.members.push(index);
            let resource = subject.resource.parse::<Resource>();
            let evicts = resource
                .as_ref()
                .is_ok_and(|it| it.evicts_from_last_level());
            log.evicts |= !sequence.slices && evicts;
            if sequence.slices && resource.is_ok_and(|resource| GAUGES.contains(&resource)) {
                log.gauges.push(index);
            }
        }
        sequences.into_values().collect()
    }

    /// A log of the same subjects in turns of `turn`, `periods` of them in a block.
    pub(super) fn in_turns(&self, turn: Duration, periods: u32) -> SequenceLog {
        // The source was not on the CPU for a whole turn before the first.
        self.anew(Sequence {
            period: 2 * turn,
            skip: 1,
            read: periods - 1,
            least_skip: 1,
            ..self.sequence
        })
    }

    /// A log of the same subjects without a block, in blocks of another shape.
    fn anew(&self, sequence: Sequence) -> SequenceLog {
        SequenceLog {
            sequence,
            course: self.course.clone(),
            fine: self.fine.clone(),
            undisturbed: self.undisturbed.clone(),
            members: self.members.clone(),
            gauges: self.gauges.clone(),
            evicts: self.evicts,
            skip: sequence.skip,
            least: self.least,
            recovers_in: self.recovers_in,
            arms: vec![self.zero()],
            blocks: Vec::new(),
            grain: self.grain,
            rest: Noise::seeded(sequence.number as u64),
            when: Noise::seeded(!(sequence.number as u64)),
            rounds: 0,
            spent: Duration::ZERO,
            judged: 0,
            judged_at: FIRST_JUDGED,
        }
    }

    /// How long the target was on the CPU each time, mean, seconds.
    pub(super) fn turn_seconds(&self) -> f64 {
        let shared = self.blocks.iter();
        let shared = shared.filter(|block| self.arms[block.arm].1 != Arm::Idle);
        let turns = shared.flat_map(|block| self.counted(block));
        mean(&turns.map(|turn| turn.seconds).collect::<Vec<f64>>())
    }

    fn control(sequence: Sequence) -> Arm {
        match sequence.takes_time {
            true => Arm::Idle,
            false => Arm::Control,
        }
    }

    /// Control blocks that were read.
    pub(super) fn controls(&self) -> usize {
        self.blocks.iter().filter(|block| block.arm == 0).count()
    }

    /// The subject and arm of a control block.
    pub(super) fn zero(&self) -> ArmOf {
        self.arms[0]
    }

    /// Subjects whose speed tells whether somebody else is on the core; none where
    /// the sources have CPUs of their own.
    pub(super) fn gauges(&self) -> &[usize] {
        &self.gauges
    }

    /// Periods of one block.
    pub(super) fn periods(&self) -> u32 {
        self.skip + self.sequence.read
    }

    /// Makes blocks long enough for a target that does `rate` operations per second, or
    /// needs `gap` from one to the next: rounding to whole ones would else be most of
    /// their noise, and shrinks with their length, not its root; and what is under way
    /// at their ends is partly of their neighbours. At most `longest`.
    pub(super) fn lengthen(&mut self, rate: f64, gap: Option<Duration>, longest: Duration) {
        let period = self.sequence.period.as_secs_f64();
        let windows = self.periods() == 1;
        if windows || !rate.is_finite() || rate <= 0.0 {
            return;
        }
        let least = match gap {
            Some(gap) => FEWEST_GAPS * gap.as_secs_f64(),
            None => FEWEST_OPERATIONS / rate,
        };
        let (least, longest) = match self.sequence.takes_time {
            true => (LONGER_OF_TIME * least, longest.max(LONGEST_OF_TIME)),
            false => (least, longest),
        };
        let needed = (least / period).ceil();
        let most = longest.as_secs_f64() / period;
        self.least = needed.min(most) as u32;
        let most = most - f64::from(self.skip);
        self.sequence.read = self.sequence.read.max(needed.min(most) as u32);
    }

    /// Whether few pairs come to a first look: what takes the target's time costs so much that
    /// few show it, and of long blocks there are few.
    pub(super) fn is_looked_at_early(&self) -> bool {
        self.sequence.takes_time || self.evicts && self.block() > LONG_BLOCK
    }

    /// Plans the first judgement for the time of the first look.
    pub(super) fn plan_first_judgement(&mut self) {
        if self.is_looked_at_early() {
            self.judged_at = FIRST_JUDGED_EARLY;
        }
    }

    /// How long a target may need at most for what was evicted.
    pub(super) fn recovery(&self) -> Duration {
        self.sequence.period * self.sequence.skip
    }

    /// Shortens blocks that are long only because sources may evict much, beside a target
    /// that uses `touched` bytes within [`SequenceLog::recovery`].
    pub(super) fn shorten_for(&mut self, touched: f64) {
        let [least, read] = Sequence::BESIDE;
        if !self.evicts || self.sequence.skip <= least {
            return;
        }
        let seconds = MORE_TOUCHED * touched / LINE_BYTES * SECONDS_PER_LINE;
        let needed = (seconds / self.sequence.period.as_secs_f64()).ceil();
        let needed = (needed as u32).clamp(least, self.sequence.skip);
        // What blocks have shown since counts more, unless the target has grown.
        let grown = self.recovers_in.is_some_and(|known| needed > known);
        if self.recovers_in.is_none() || grown {
            self.recovers_in = Some(needed);
            self.skip = if grown { self.skip.max(needed) } else { needed };
            self.sequence.read = self.least.max(read).max(self.skip / 2);
        }
    }

    /// Gives blocks that are long only because sources may leave much behind the usual
    /// length, where the target shows nothing of it.
    fn shorten(&mut self) {
        let [skip, read] = Sequence::BESIDE;
        let worth = self.skip > 2 * skip && self.periods() > 2 * (skip + read);
        if !worth || !self.evicts {
            return;
        }
        let known = self.contrasts_by(Ends::Block, None);
        if self.settles_within(skip, &known) {
            self.skip = skip;
            self.sequence.read = read.max(self.least);
        }
    }

    /// Length of one block.
    pub(super) fn block(&self) -> Duration {
        self.sequence.period * self.periods()
    }

    /// Keeps what `request` of the current round showed.
    pub(super) fn keep(&mut self, request: &BlockRequest, reading: BlockReading) {
        // All controls of a sequence do the same.
        let of = match request.arm == self.zero().1 {
            true => self.zero(),
            false => (request.subject, request.arm),
        };
        let known = self.arms.iter().position(|arm| *arm == of);
        let arm = known.unwrap_or_else(|| {
            self.arms.push(of);
            self.arms.len() - 1
        });
        self.blocks.push(Kept {
            round: self.rounds,
            arm,
            target: request.target,
            reading,
            periods: request.periods,
            slow_source: if request.skip > self.skip {
                request.skip
            } else {
                0
            },
            rest: self.rest.uniform() - 0.5,
            when: [self.when.uniform(), self.when.uniform()],
        });
    }

    /// The turns of a block after what a switch leaves behind. An idle block is
    /// read in two parts, whatever is skipped elsewhere.
    fn counted<'b>(&self, block: &'b Kept) -> impl Iterator<Item = &'b TargetTurn> {
        let idle = self.arms[block.arm].1 == Arm::Idle;
        let skip = if idle { self.skip.min(1) } else { self.skip };
        let skip = skip.max(block.slow_source);
        let turns = block.reading.turns.iter();
        turns.filter(move |turn| turn.position >= skip)
    }

    /// Whether parts of operations are counted: then nothing has to be made of whole ones.
    fn is_in_parts(&self) -> bool {
        let mut turns = self.blocks.iter().flat_map(|block| &block.reading.turns);
        turns.next().is_some_and(|turn| turn.in_parts)
    }

    /// From the first operation in a block to the last, and the place that the first
    /// one was at, where known; `None` where it is counted in other ways.
    fn between(&self, block: &Kept) -> Option<(Between, Option<Place>)> {
        if self.sequence.takes_time || self.periods() == 1 {
            return None;
        }
        let turns: Vec<&TargetTurn> = self.counted(block).collect();
        if turns.iter().any(|turn| turn.in_parts) {
            return None;
        }
        let done: Vec<(f64, f64)> = turns
            .iter()
            .map(|turn| (turn.seconds, turn.operations))
            .collect();
        let found = between(&done, block.when)?;
        let run = turns.last()?.from.map(|last| last.run);
        let from = turns.first()?.from.filter(|from| run == Some(from.run));
        let at = from.map(|from| Place {
            operations: from.operations + found.before,
            ..from
        });
        Some((found, at))
    }

    /// Log rate of the target in one block, read as `ends` says, negative infinity
    /// where it was starved; `None` where it was not read.
    fn value(&self, block: &Kept, ends: Ends) -> Option<f64> {
        if ends == Ends::Operations
            && let Some((found, _)) = self.between(block)
        {
            return Some((found.operations / found.seconds).ln());
        }
        if ends == Ends::Marks
            && let Some((from, to)) = self.outer_marks(block)
        {
            return Some(((to.0 - from.0) / (to.1 - from.1)).ln());
        }
        let counted = self.counted(block);
        let windows = self.periods() == 1;
        let grain = match self.is_in_parts() {
            true => Grain {
                operations: 1.0,
                rest: 0.0,
            },
            false => Grain {
                operations: self.grain,
                rest: block.rest,
            },
        };
        if !self.sequence.takes_time && !windows {
            let turns: Vec<(f64, f64)> = counted
                .map(|turn| (turn.seconds, turn.operations))
                .collect();
            return block_rate(&turns, grain);
        }
        let (mut operations, mut seconds) = (0.0, 0.0);
        for turn in counted {
            operations += turn.all_operations;
            seconds += turn.all_seconds;
        }
        if !windows {
            operations = within(operations, grain);
        }
        let value = (operations / seconds).ln();
        (seconds > 0.0 && !value.is_nan() && value < f64::INFINITY).then_some(value)
    }

    /// The blocks beside the target whose rates are known, and what they say
    /// against the control of their time: from operation to operation, and with the
    /// course of the target's runs taken off, where that makes them steadier.
    fn contrasts(&self) -> (Vec<(&Kept, Block)>, Contrasts) {
        // Standard deviation of a mean of all blocks, but for a factor.
        let error = |(blocks, contrasts): &(Vec<(&Kept, Block)>, RoughContrasts)| {
            let pairs = blocks.iter().zip(&contrasts.ratios);
            let rest = pairs
                .filter_map(|((_, block), ratio)| Some((*ratio)? - contrasts.effects[block.arm]));
            let rest: Vec<f64> = rest.collect();
            let count = rest.len() as f64;
            spread(rest) / count.sqrt()
        };
        // Blocks of each arm.
        let counts = |(blocks, _): &(Vec<(&Kept, Block)>, RoughContrasts)| {
            let mut counts = vec![0; self.arms.len()];
            for (_, block) in blocks {
                counts[block.arm] += 1;
            }
            counts
        };
        let mut best = self.contrasts_by(Ends::Block, None);
        let mut least = error(&best);
        let mut compared_with = None;
        let all = counts(&best);
        let (course, fine) = (self.course.as_deref(), self.fine.as_deref());
        let undisturbed = self.undisturbed.as_deref();
        for (ends, course, of_blocks) in [
            (Ends::Operations, None, true),
            (Ends::Block, course, true),
            (Ends::Operations, course, true),
            (Ends::Marks, fine, true),
            (Ends::Block, undisturbed, false),
            (Ends::Marks, undisturbed, false),
        ] {
            // With parts of operations nothing but the course makes a difference.
            let same = ends == Ends::Operations && self.is_in_parts();
            if same || ends != Ends::Operations && course.is_none() {
                continue;
            }
            let other = self.contrasts_by(ends, course);
            let error = error(&other);
            // What lies where no other run was seen is left out, but not most of an arm. Of
            // operations of known times those that should be in a block, and are not, count as
            // slow: there less is enough.
            let (few, part) = match self.is_in_parts() {
                true => (MANY_OF_ARM, 4),
                false => (0, 2),
            };
            let enough = |(all, kept): (&usize, usize)| *all < few || part * kept >= *all;
            let kept = counts(&other);
            let in_all = part * kept.iter().sum::<usize>() >= all.iter().sum();
            let most = in_all && all.iter().zip(kept).all(enough);
            if most && error < STEADIER * least {
                (best, least) = (other, error);
                // Runs in which no block was played err independently of all blocks.
                compared_with = course.map(Course::seen).filter(|_| of_blocks);
            }
        }
        let (mut blocks, _) = best;
        let mut contrasts = self.contrasts_of(&blocks);
        if let Some(runs) = compared_with {
            widen(
                &mut blocks,
                &contrasts,
                (1.0 + ERROR_OF_COURSE / runs as f64).sqrt(),
            );
            contrasts = self.contrasts_of(&blocks);
        }
        (blocks, contrasts)
    }

    fn contrasts_of(&self, blocks: &[(&Kept, Block)]) -> Contrasts {
        Contrasts::of(&values(blocks), self.arms.len())
    }

    /// As [`SequenceLog::contrasts`], with blocks read as `ends` says, and what
    /// `course` says of their place taken off.
    fn contrasts_by(
        &self,
        ends: Ends,
        course: Option<&Course>,
    ) -> (Vec<(&Kept, Block)>, RoughContrasts) {
        let ahead =
            |block: &Kept| course.map_or(Some(0.0), |course| self.ahead(course, block, ends));
        let beside = self.blocks.iter();
        let beside = beside.filter(|block| block.target == TargetState::Running);
        // Those from before blocks were made longer are mostly noise, but better than
        // none.
        let is_long = |block: &Kept| 2 * block.periods > self.periods();
        let mut long = vec![0; self.arms.len()];
        for block in beside.clone().filter(|block| is_long(block)) {
            long[block.arm] += 1;
        }
        let beside = beside.filter(|block| is_long(block) || long[block.arm] < FEWEST_LONG);
        let mut read: Vec<(&Kept, Block)> = beside
            .filter_map(|block| {
                let value = Block {
                    at: block.reading.at.as_secs_f64(),
                    stratum: block.round,
                    arm: block.arm,
                    value: self.value(block, ends)? - ahead(block)?,
                };
                Some((block, value))
            })
            .collect();
        if self.is_in_bursts() {
            read.clear();
        }
        // A starved target is an effect and not a failure.
        let controls = read.iter().filter(|(block, _)| block.arm == 0);
        let finite = controls
            .map(|(_, block)| block.value)
            .filter(|value| value.is_finite());
        let floor = median(&mut finite.collect::<Vec<f64>>()) + RATIO_FLOOR.ln();
        for (_, block) in &mut read {
            block.value = block.value.max(floor);
        }
        read.retain(|(_, block)| block.value.is_finite());
        let contrasts = RoughContrasts::of(&values(&read), self.arms.len());
        (read, contrasts)
    }

    /// Whether the target does nothing in many blocks without interference, so that those
    /// beside a source of CPU time say nothing: they are not read from operation to operation.
    pub(super) fn is_in_bursts(&self) -> bool {
        let controls = self.blocks.iter().filter(|block| block.arm == 0);
        let controls = controls.filter(|block| block.target == TargetState::Running);
        let values = controls.filter_map(|block| self.value(block, Ends::Block));
        let (mut all, mut empty) = (0, 0.0);
        for value in values {
            all += 1;
            empty += f64::from(value == f64::NEG_INFINITY);
        }
        self.sequence.takes_time && empty >= FEWEST_EMPTY && empty > MOST_EMPTY * f64::from(all)
    }

    fn by_round(&self) -> impl Iterator<Item = &[Kept]> {
        self.blocks.chunk_by(|a, b| a.round == b.round)
    }

    /// Parts of rounds: blocks beside the target, and those without it that follow.
    fn by_part(&self) -> impl Iterator<Item = &[Kept]> {
        let begins = |a: &Kept, b: &Kept| {
            let resumed = [a.target, b.target] == [TargetState::Stopped, TargetState::Running];
            a.round != b.round || resumed
        };
        self.blocks.chunk_by(move |a, b| !begins(a, b))
    }
}

fn values(blocks: &[(&Kept, Block)]) -> Vec<Block> {
    blocks.iter().map(|(_, value)| *value).collect()
}

/// Makes all that `blocks` differ by from the effects `times` as large.
fn widen(blocks: &mut [(&Kept, Block)], contrasts: &Contrasts, times: f64) {
    for ((_, block), ratio) in blocks.iter_mut().zip(&contrasts.ratios) {
        if let Some(ratio) = ratio {
            block.value += (times - 1.0) * (ratio - contrasts.effects[block.arm]);
        }
    }
}
