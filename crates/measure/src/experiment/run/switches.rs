//! What a switch to a source on the target's CPU costs, in turns as the scheduler
//! gives them to two busy processes.
//!
//! In the slices of the sequences a source is on the CPU for a fraction of a
//! millisecond, and pushes out what it can in that time. A neighbour that is
//! never idle has turns of milliseconds, and how much it pushes out then does not
//! follow from the short slices. So a part of the budget goes to blocks in which
//! the source never rests, and the scheduler alone decides whose turn it is; their
//! controls are placebos that never rest either.

use super::Run;
use crate::experiment::design::RATIO_FLOOR;
use crate::experiment::executor::Arm;
use crate::experiment::executor::Block;
use crate::experiment::executor::BlockRequest;
use crate::experiment::executor::TargetState;
use crate::experiment::executor::WindowError;
use crate::experiment::levels::FEWEST_PAIRS;
use crate::experiment::sequences::Judgement;
use crate::experiment::sequences::SequenceLog;
use crate::experiment::settings::Half;
use crate::experiment::settings::Halves;
use jostle_profile::Estimate;
use jostle_profile::Switch;
use jostle_profile::SwitchAt;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Resource;
use jostle_statistics::Bootstrap;
use jostle_statistics::ByNumber;
use jostle_statistics::median;
use jostle_statistics::shuffle;
use jostle_statistics::stream;
use rand::rngs::ChaCha8Rng;
use std::time::Duration;

/// Share of the budget that is kept for this, and the most that it may have of
/// what is left in the end.
pub(super) const SWITCHES: f64 = 0.1;
pub(super) const MOST_SWITCHES: f64 = 0.2;
/// Times that source and target have a turn each in a block.
const TURNS: u32 = 6;
/// Turns that are longer cannot be told from a process that is alone.
const LONGEST_TURN: Duration = Duration::from_millis(50);
/// One control per so many sources, and one more.
const PER_CONTROL: usize = 4;
/// Half-width of the 95 % interval of the loss, a fraction, that is narrow enough.
const NARROW: f64 = 0.01;
/// The same that is too wide to say anything.
const WIDE: f64 = 0.1;
/// Blocks of a source before its interval is believed to be narrow.
const ENOUGH: usize = 8;
/// Blocks of a target that does few operations are made as long as this at most.
const LONGEST_BLOCK: Duration = Duration::from_millis(100);
const RESAMPLES: usize = 1000;
/// Sources that hold nothing: what they cost in short slices bounds what they cost
/// in longer ones.
const HOLD_NOTHING: [Resource; 3] = [Resource::Int, Resource::Fp, Resource::Vector];

/// The sources of one sequence in turns as the scheduler gives them.
pub(super) struct Turns {
    log: SequenceLog,
    members: Vec<usize>,
    rounds: usize,
    spent: Duration,
    /// As of the last judgement.
    known: Judgement,
}

impl Run<'_, '_> {
    /// Time that the sequences leave for [`Self::play_switches`].
    pub(super) fn kept_for_switches(&self) -> Duration {
        match self.turns_wanted().is_empty() {
            true => Duration::ZERO,
            false => self.settings.budget.mul_f64(SWITCHES),
        }
    }

    /// Plays turns of the scheduler's length until their costs are known well, or
    /// they have had this `share` of the budget.
    pub(super) fn play_switches(&mut self, share: f64) -> Result<(), WindowError> {
        if self.switches.is_empty() {
            self.switches = self.turns_wanted();
        }
        let each = share / self.switches.len().max(1) as f64;
        let most = self.settings.budget.mul_f64(each);
        for index in 0..self.switches.len() {
            loop {
                let blocks = self.compose_turns(index);
                let takes: Duration = blocks.iter().map(length).sum();
                let after = self.switches[index].spent + takes;
                if blocks.is_empty() || takes > self.left() || after > most {
                    break;
                }
                self.tell(None, "turns as the scheduler gives them".into());
                let began = self.bench.now();
                self.play_turns(index, &blocks)?;
                let spent = self.bench.now().saturating_sub(began);
                self.switches[index].spent += spent;
            }
            self.switches[index].judge();
        }
        self.say_switches();
        Ok(())
    }

    /// The sources that are to be played in the scheduler's turns: as many as have
    /// their fewest rounds in the share of the budget, those that lose most first.
    fn turns_wanted(&self) -> Vec<Turns> {
        let turn = self.settings.turn.filter(|turn| *turn <= LONGEST_TURN);
        let Some(turn) = turn.filter(|_| self.asks_for_switches()) else {
            return Vec::new();
        };
        let rate = median(&mut self.log.baseline().to_vec());
        let gap = self.bench.gap();
        let sliced: Vec<&SequenceLog> =
            self.sequences.iter().filter(|log| is_sliced(log)).collect();
        let share = self
            .settings
            .budget
            .mul_f64(SWITCHES / sliced.len().max(1) as f64);
        let wanted = sliced.into_iter().map(|log| {
            let members = log.members.iter().copied();
            let mut members: Vec<usize> = members
                .filter(|member| self.holds_something(*member))
                .collect();
            members.sort_by_number(|member| self.log_ratio(*member));
            let mut turns = Turns::of(log, turn, (rate, gap), members);
            while turns.round() * FEWEST_PAIRS as u32 > share && turns.members.pop().is_some() {}
            turns
        });
        wanted.filter(|turns| !turns.members.is_empty()).collect()
    }

    /// What the target keeps beside a source in its slices; 0 where that is not
    /// known.
    fn log_ratio(&self, subject: usize) -> f64 {
        let mut halves = self.queue.halves.iter();
        let own = halves.find(|run| run.subject == subject && run.half == Half::Tolerated);
        own.and_then(|run| run.search.ratio_at_100()).unwrap_or(0.0)
    }

    fn asks_for_switches(&self) -> bool {
        self.settings.halves != Halves::Caused && !self.settings.full_only
    }

    fn holds_something(&self, subject: usize) -> bool {
        let resource = self.queue.subjects[subject].resource.parse::<Resource>();
        !resource.is_ok_and(|resource| HOLD_NOTHING.contains(&resource))
    }

    /// The blocks of the next round: every source that is not known well enough,
    /// and placebos.
    fn compose_turns(&mut self, index: usize) -> Vec<BlockRequest> {
        let halves = self.queue.halves.iter();
        let lost: Vec<usize> = halves
            .filter(|run| run.error.is_some())
            .map(|run| run.subject)
            .collect();
        let turns = &mut self.switches[index];
        if turns.rounds > 0 && turns.rounds.is_multiple_of(FEWEST_PAIRS) {
            turns.judge();
        }
        let turns = &self.switches[index];
        let open = |member: &&usize| !lost.contains(member) && !turns.is_narrow(**member);
        let open: Vec<usize> = turns.members.iter().filter(open).copied().collect();
        let mut blocks = Vec::new();
        if open.is_empty() {
            return blocks;
        }
        let log = &turns.log;
        let zero = log.zero();
        let controls = 2 + open.len() / PER_CONTROL;
        let treated = open.iter().map(|member| (*member, Arm::Treat(100.0)));
        let arms = treated
            .chain(std::iter::repeat_n(zero, controls))
            .chain([(zero.0, Arm::Idle)]);
        blocks.extend(arms.map(|(subject, arm)| BlockRequest {
            subject,
            arm,
            target: TargetState::Running,
            skip: log.skip,
            periods: log.periods(),
            turn: Some(log.sequence.period / 2),
            beside: None,
        }));
        let rng = self.bench.rng();
        shuffle(rng, &mut blocks);
        blocks
    }

    fn play_turns(&mut self, index: usize, blocks: &[BlockRequest]) -> Result<(), WindowError> {
        let results = match self.bench.play(blocks) {
            Err(WindowError::Subject(reason)) => {
                for member in self.switches[index].members.clone() {
                    self.queue.end_subject(member, &reason);
                }
                return Ok(());
            }
            results => results?,
        };
        let turns = &mut self.switches[index];
        let mut failures: Vec<(usize, String)> = Vec::new();
        for (request, result) in blocks.iter().zip(results) {
            match result {
                Block::Read(reading) => turns.log.keep(request, reading),
                Block::Missed => {}
                Block::Failed(reason) => failures.push((request.subject, reason)),
            }
        }
        turns.rounds += 1;
        turns.log.rounds += 1;
        for (subject, reason) in failures {
            self.queue.end_subject(subject, &reason);
        }
        Ok(())
    }

    /// Writes down what is known of every source in slices.
    fn say_switches(&mut self) {
        let Some(turn) = self.settings.turn.filter(|_| self.asks_for_switches()) else {
            return;
        };
        let mut rng = stream(self.settings.seed, u64::MAX - 1);
        for log in self.sequences.iter().filter(|log| is_sliced(log)) {
            for &member in &log.members {
                let played = self.switches.iter();
                let played = played.filter_map(|turns| turns.cost(member, &mut rng));
                let mut at: Vec<SwitchAt> = played.collect();
                let switch = if at.is_empty() && self.holds_something(member) {
                    Reading::unavailable(self.too_short_for_turns(turn))
                } else {
                    at.extend(self.cost_in_slices(log, member));
                    let switch = Switch::of(at, turn.as_secs_f64());
                    switch.map_or_else(
                        || Reading::unavailable("no loss at 100 % is known"),
                        Reading::Value,
                    )
                };
                self.log.switches.insert(member, switch);
            }
        }
        self.log.plain_switch = self.switches.iter().find_map(|turns| {
            let (contrasts, arm) = turns.known.idle.as_ref()?;
            let idle = contrasts.bootstrap(*arm, RESAMPLES, &mut rng)?;
            let [low, high] = idle.interval95();
            // The control against idle, where the others are the other way round.
            Some(lost(
                [-idle.location, -high, -low],
                turns.log.turn_seconds(),
            ))
        });
    }

    fn too_short_for_turns(&self, turn: Duration) -> String {
        let milliseconds = turn.as_secs_f64() * 1e3;
        if turn > LONGEST_TURN {
            return format!(
                "two busy threads took turns of {milliseconds:.0} ms here, too long to be told \
                 from a process that is alone"
            );
        }
        format!(
            "in turns of {milliseconds:.1} ms {FEWEST_PAIRS} blocks of each source do not fit into \
             {:.0} % of the {:.0} s that were left for measuring, or they differ by too much; a \
             longer --budget or fewer --resources may do",
            100.0 * SWITCHES,
            self.settings.budget.as_secs_f64()
        )
    }

    /// What the slices of the sequence itself say.
    fn cost_in_slices(&self, log: &SequenceLog, member: usize) -> Option<SwitchAt> {
        let halves = self.queue.halves.iter();
        let mut own = halves.filter(|run| run.subject == member && run.half == Half::Tolerated);
        let search = &own.next()?.search;
        let (ratio, width) = (search.ratio_at_100()?, search.half_width_at_100());
        let seconds = log.turn_seconds();
        let ends =
            [ratio.exp() - width, ratio.exp() + width].map(|kept| kept.max(RATIO_FLOOR).ln());
        (seconds > 0.0 && width.is_finite()).then(|| SwitchAt {
            turn_seconds: seconds,
            cost_microseconds: lost([ratio, ends[0], ends[1]], seconds),
            windows: search.pairs_at(100.0) as u64,
        })
    }
}

impl Turns {
    fn of(
        log: &SequenceLog,
        turn: Duration,
        (rate, gap): (f64, Option<Duration>),
        members: Vec<usize>,
    ) -> Turns {
        let mut log = log.in_turns(turn, TURNS);
        log.lengthen(rate, gap, LONGEST_BLOCK);
        Turns {
            log,
            members,
            rounds: 0,
            spent: Duration::ZERO,
            known: Judgement::default(),
        }
    }

    /// About the time of one round.
    fn round(&self) -> Duration {
        let arms = self.members.len() + self.members.len() / PER_CONTROL + 3;
        self.log.block() * arms as u32
    }

    fn judge(&mut self) {
        self.known = self.log.judge(false);
    }

    /// Whether the loss beside `member` is known well.
    fn is_narrow(&self, member: usize) -> bool {
        let found = self.against_control(member, &mut stream(member as u64, 0));
        let width = |found: &Bootstrap| {
            let [low, high] = found.interval95();
            high.exp() - low.exp()
        };
        found.is_some_and(|found| found.n >= ENOUGH && 0.5 * width(&found) <= NARROW)
    }

    /// The log ratio beside `member` to the control.
    fn against_control(&self, member: usize, rng: &mut ChaCha8Rng) -> Option<Bootstrap> {
        let mut levels = self.known.levels.iter();
        let own = levels.find(|level| level.subject == member && level.half == Half::Tolerated)?;
        let (contrasts, arm) = own.played.contrasts.as_ref()?;
        contrasts.bootstrap(*arm, RESAMPLES, rng)
    }

    fn cost(&self, member: usize, rng: &mut ChaCha8Rng) -> Option<SwitchAt> {
        let found = self.against_control(member, rng)?;
        let seconds = self.log.turn_seconds();
        let [low, high] = found.interval95();
        // Beyond that it says nothing, and may be the target's own ups and downs.
        (0.5 * (high.exp() - low.exp()) <= WIDE).then(|| SwitchAt {
            turn_seconds: seconds,
            cost_microseconds: lost([found.location, low, high], seconds),
            windows: found.n as u64,
        })
    }
}

fn is_sliced(log: &SequenceLog) -> bool {
    log.sequence.slices && !log.sequence.takes_time && log.periods() > 1
}

fn length(block: &BlockRequest) -> Duration {
    2 * block.turn.unwrap_or_default() * block.periods
}

/// Microseconds lost in turns of `seconds`, from a log ratio and its interval.
fn lost([ratio, low, high]: [f64; 3], seconds: f64) -> Estimate {
    let lost = |ratio: f64| (1.0 - ratio.exp()) * seconds * 1e6;
    Estimate {
        value: lost(ratio),
        ci95: [lost(high), lost(low)],
    }
}
