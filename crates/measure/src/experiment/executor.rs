//! The seam between deciding what to measure and measuring it.

use jostle_host::machine::private::Look;
use jostle_host::machine::transfer::APART_NS;
use std::time::Duration;
use thiserror::Error;

/// What the workers of one resource do during a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arm {
    /// Workers sleep.
    Idle,
    /// The placebo: same CPU, same duty cycle, no work on the resource.
    Control,
    /// The source at this intensity, percent.
    Treat(f64),
    /// The source as a victim, over what it holds at this intensity: see
    /// [`Subject::probes`].
    Probe(f64),
}

impl Arm {
    /// The intensity, where the source or its probe runs.
    pub fn intensity(self) -> Option<f64> {
        match self {
            Arm::Treat(percent) | Arm::Probe(percent) => Some(percent),
            Arm::Idle | Arm::Control => None,
        }
    }
}

/// Whether the target runs during a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetState {
    Running,
    /// The whole group is stopped, so that the source is seen alone.
    Stopped,
}

/// One window to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowRequest {
    /// Index into the subjects of the experiment.
    pub subject: usize,
    pub arm: Arm,
    pub target: TargetState,
    /// Whether the target's performance is wanted; without it only the source
    /// is read, and no window waits for a run or a printed line.
    pub read_target: bool,
    /// Discarded after the switch.
    pub settle: Duration,
    /// Measured after the settle time. A metric that has its own natural
    /// window (a run, a printed line) takes as long as it takes.
    pub length: Duration,
}

/// What one window showed.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowReading {
    /// The target's performance, higher is better (a latency or a run time is
    /// inverted), in the metric's unit or its inverse. `None` when the target
    /// was stopped or nothing was read.
    pub performance: Option<f64>,
    /// The source's own performance as a probe, higher is better. `None` when
    /// it was not treating.
    pub probe: Option<f64>,
    /// Pressure achieved, in the resource's unit, summed over workers.
    pub pressure: Option<f64>,
    /// Share of the window the hypervisor took from the CPUs in use, 0–1.
    pub steal: f64,
    /// One per counter of the executor's list, in its unit. `None`: not read in
    /// this window. Empty when nothing is counted.
    pub counters: Vec<Option<f64>>,
}

/// One block of a sequence: a short window whose target is read turn by turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockRequest {
    /// Index into the subjects of the experiment; its sequence is where the block
    /// is played.
    pub subject: usize,
    pub arm: Arm,
    pub target: TargetState,
    /// Periods of the sequence, at the beginning, in which what the source does and
    /// holds is not counted.
    pub skip: u32,
    /// All periods of the block.
    pub periods: u32,
    /// Where the source never rests, and the scheduler gives it and the target turns
    /// of about this length; else it takes its share of the sequence's periods.
    pub turn: Option<Duration>,
    /// Another subject whose source presses at 100 % meanwhile, from other CPUs.
    pub beside: Option<usize>,
}

impl BlockRequest {
    /// From one slice, or one reading, to the next.
    pub fn period(&self, sequence: &Sequence) -> Duration {
        self.turn.map_or(sequence.period, |turn| 2 * turn)
    }
}

/// What the target did between two slices, or two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetTurn {
    /// The period of the block in which it began, counted from 0.
    pub position: u32,
    /// Growth of the metric's count, and the seconds of its clock, in the turn.
    pub operations: f64,
    pub seconds: f64,
    /// The same from the begin of the slice before, so that what the source
    /// takes counts as lost.
    pub all_operations: f64,
    pub all_seconds: f64,
    /// Where in a run of the target it began; `None` where that is not known.
    pub from: Option<Place>,
    /// Whether parts of operations are counted, as far as they had come by the time of
    /// the target.
    pub in_parts: bool,
    /// The first and the last operation that was done in the turn, where their times
    /// are known.
    pub done: Option<[Completion; 2]>,
}

/// An operation that was done in a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completion {
    /// Since the begin of the turn, by the target's own time.
    pub seconds: f64,
    /// Operations done since the begin of the turn, this one included.
    pub operations: f64,
}

/// How far a run of a command has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Number of the run.
    pub run: u32,
    /// Operations since its begin, or since the count began.
    pub operations: f64,
    /// Whether it is counted from its begin.
    pub from_begin: bool,
}

/// What one block showed.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockReading {
    /// Its middle, as [`Executor::now`] counts.
    pub at: Duration,
    /// In order; empty when the target was stopped.
    pub turns: Vec<TargetTurn>,
    /// As in [`WindowReading`].
    pub probe: Option<f64>,
    pub pressure: Option<f64>,
    /// The same of the source beside it, where there was one.
    pub beside: Option<f64>,
    pub steal: f64,
    /// What a cache line took from the source's CPU to the target's and back, before
    /// and after, nanoseconds; `None` where it was not looked at.
    pub line_ns: Option<[f64; 2]>,
}

impl BlockReading {
    /// Whether source and target shared a last-level cache; `None` where that is not
    /// known, or changed.
    pub fn shares_cache(&self) -> Option<bool> {
        let apart = self.line_ns?.map(|ns| ns > APART_NS);
        (apart[0] == apart[1]).then_some(!apart[0])
    }
}

/// How a block of a sequence ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    Read(BlockReading),
    /// It came too late, or what it showed was lost.
    Missed,
    /// Its source cannot press any more, and why.
    Failed(String),
}

#[derive(Clone, Debug, Error, PartialEq)]
pub enum WindowError {
    /// This resource cannot be measured further; the others can.
    #[error("{0}")]
    Subject(String),
    /// The target is gone; nothing more can be measured.
    #[error("{0}")]
    Target(String),
    /// The target fell below its floor; everything is parked.
    #[error("{0}")]
    Floor(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Measures windows, one at a time, or blocks in sequences.
pub trait Executor {
    /// Time since the measurement began. Virtual in tests.
    fn now(&self) -> Duration;

    /// Switches to the asked arm, waits the settle time, measures.
    fn window(&mut self, request: &WindowRequest) -> Result<WindowReading, WindowError>;

    /// Whether subjects that have a sequence can be measured in it.
    fn plays(&self) -> bool {
        false
    }

    /// Whether a block holds a whole run of the target.
    fn whole_runs(&self) -> bool {
        false
    }

    /// From one operation of the target to the next, at a moment taken at random, where
    /// parts of operations are counted.
    fn gap(&self) -> Option<Duration> {
        None
    }

    /// Whole runs of the target without interference, one after another: when each of its
    /// operations was done, in seconds of CPU time from the begin of the run; none where
    /// that is not known.
    fn runs_watched(&self) -> &[Vec<f64>] {
        &[]
    }

    /// Whether windows count something beside the metric, which blocks do not.
    fn counts(&self) -> bool {
        false
    }

    /// Memory that the target may use within `time`, bytes; `None` where that is not known.
    fn touched_within(&self, _time: Duration) -> Option<f64> {
        None
    }

    /// What a cache line takes now from the CPU of the source of `subject` to the target's
    /// and back, nanoseconds: up to [`APART_NS`] where they share a last-level cache. `None`
    /// where that is not known, or does not change.
    fn cache_line_ns(&mut self, _subject: usize) -> Option<f64> {
        None
    }

    /// Looks at the cache that only the target's core has; `None` where nobody else can
    /// have it, or where that cannot be seen.
    fn private_cache(&mut self) -> Option<Look> {
        None
    }

    /// Whether the sources of two subjects can press at the same time.
    ///
    /// # Errors
    /// Why they cannot, in words.
    fn at_once(&self, _one: usize, _other: usize) -> Result<(), String> {
        Err("sources cannot press at the same time here".to_string())
    }

    /// Plays `blocks` one after the other and returns one result for each. All
    /// are of subjects with the same sequence.
    ///
    /// # Errors
    /// Those that end the whole measurement; what concerns one source stands in
    /// its blocks.
    fn play(&mut self, blocks: &[BlockRequest]) -> Result<Vec<Block>, WindowError> {
        Ok(vec![Block::Missed; blocks.len()])
    }
}

/// Subjects whose blocks may follow each other directly: their sources run on
/// the same CPUs in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence {
    /// Equal for the subjects of one sequence.
    pub number: usize,
    /// From one slice, or one reading, to the next.
    pub period: Duration,
    /// Periods to skip and to read after a switch, unless carry-over asks for
    /// more.
    pub skip: u32,
    pub read: u32,
    /// Periods of `skip` that the source needs; the rest is for a target of any size to have
    /// back what is evicted.
    pub least_skip: u32,
    /// Whether the sources time-share the target's CPU.
    pub slices: bool,
    /// Whether the source takes its pressure from the target's own time, so
    /// that its lost time is the effect, and idle the control.
    pub takes_time: bool,
}

impl Sequence {
    /// Periods to skip and to read beside a source on other CPUs that leaves nothing
    /// behind.
    pub const BESIDE: [u32; 2] = [4, 12];

    /// The same sources where a block is one window that lasts `window`, of which nothing
    /// is skipped: sources settle before it begins.
    pub fn in_windows(self, window: Duration) -> Sequence {
        let Sequence {
            number,
            slices,
            takes_time,
            ..
        } = self;
        Sequence {
            number,
            period: window,
            skip: 0,
            read: 1,
            least_skip: 0,
            slices,
            takes_time,
        }
    }
}

/// One resource to measure and how its windows are cut.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    pub resource: &'static str,
    /// Settle time after each switch.
    pub settle: Duration,
    /// Window length.
    pub window: Duration,
    /// Extra time one switch into or out of treatment at 100 % takes beyond
    /// the settle time (filling memory), the mean of both ways; zero for most.
    /// Proportional to intensity.
    pub switch_cost: Duration,
    /// Whether the target may be stopped, so that `c` can be measured.
    pub stoppable: bool,
    /// Intensities, ascending, at which the verdict about the source as a probe
    /// falls; the last is 100. A probe that holds a cache suffers alone already
    /// when it wants all of it, and shows what a neighbour does at less.
    pub probe_endpoints: &'static [f64],
    /// Whether its workers have a way to be victims that is not the one to press: what
    /// the target causes is seen by that.
    pub probes: bool,
    /// Where its blocks are played; `None` for one that must be measured window
    /// by window.
    pub sequence: Option<Sequence>,
}

impl Subject {
    /// What the source does at `intensity` where it is watched instead of the target.
    pub fn watched(&self, intensity: f64) -> Arm {
        match self.probes {
            true => Arm::Probe(intensity),
            false => Arm::Treat(intensity),
        }
    }
}
