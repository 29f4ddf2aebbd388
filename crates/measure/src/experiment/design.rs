//! Pairs of windows: what is compared with what, in which order, and what a
//! window is worth.

use super::executor::Arm;
use super::executor::Block;
use super::executor::BlockRequest;
use super::executor::Executor;
use super::executor::Subject;
use super::executor::TargetState;
use super::executor::WindowError;
use super::executor::WindowReading;
use super::executor::WindowRequest;
use super::settings::Half;
use super::settings::Settings;
use jostle_host::machine::private::Look;
use jostle_statistics::below;
use rand::rngs::ChaCha8Rng;
use std::time::Duration;

/// Smallest ratio a pair can have. A target that stands still in a treated
/// window is starved, which is an effect and not a failure; its log ratio must
/// be finite all the same.
pub const RATIO_FLOOR: f64 = 1e-3;
/// A switch that costs more than this many windows is expensive.
const DEAR_SWITCH: u32 = 4;
/// Longest window when expensive switches make longer ones worthwhile.
const LONGEST_WINDOW: Duration = Duration::from_millis(500);

/// Whether a switch of arms takes so long that windows are lengthened and
/// ordered to save switches.
pub fn expensive(subject: &Subject) -> bool {
    let switch = subject.switch_cost + subject.settle;
    subject.switch_cost > Duration::ZERO && switch > DEAR_SWITCH * subject.window
}

/// Window length used: the subject's own, or with expensive switches an eighth of a
/// switch, at most half a second; `stretch` times as long for a target whose
/// own ups and downs are shorter than that.
pub fn window_length(subject: &Subject, stretch: u32) -> Duration {
    let own = if expensive(subject) {
        (subject.switch_cost / 8).clamp(subject.window, LONGEST_WINDOW.max(subject.window))
    } else {
        subject.window
    };
    own * stretch
}

/// Settle time of an expensive subject in the caused half: only the target is stopped
/// and continued, what was switched at such cost stays as it is.
pub fn probe_settle(subject: &Subject) -> Duration {
    subject.settle / 10
}

/// The counters of both windows of a pair, one per counter of the executor's
/// list; empty when nothing is counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    pub reference: Vec<Option<f64>>,
    pub treated: Vec<Option<f64>>,
}

/// What one pair showed.
#[derive(Clone, Debug, PartialEq)]
pub enum Pair {
    Ratio {
        /// `ln(treat / control)` or `ln(beside the target / alone)`, at least
        /// `ln(RATIO_FLOOR)`.
        log_ratio: f64,
        /// In the treated window (beside the target).
        pressure: Option<f64>,
        /// The denominator, metric units.
        reference: f64,
        counted: Counted,
    },
    /// Steal above the bound, twice.
    Stolen,
    /// A reading was missing or no number.
    Failed(String),
}

/// Takes windows and keeps the books on them.
pub struct Bench<'a> {
    executor: &'a mut dyn Executor,
    subjects: &'a [Subject],
    settings: &'a Settings,
    rng: ChaCha8Rng,
    /// How many times their own length windows are.
    pub stretch: u32,
    /// What the last window was of.
    last: Option<(usize, Arm, TargetState)>,
    pub kept: u64,
    pub dropped: u64,
    steal_seconds: f64,
    seconds: f64,
}

impl<'a> Bench<'a> {
    pub fn new(
        executor: &'a mut dyn Executor,
        subjects: &'a [Subject],
        settings: &'a Settings,
        rng: ChaCha8Rng,
    ) -> Self {
        Bench {
            executor,
            subjects,
            settings,
            rng,
            stretch: 1,
            last: None,
            kept: 0,
            dropped: 0,
            steal_seconds: 0.0,
            seconds: 0.0,
        }
    }

    pub fn now(&self) -> Duration {
        self.executor.now()
    }

    /// As [`Executor::touched_within`].
    pub fn touched_within(&self, time: Duration) -> Option<f64> {
        self.executor.touched_within(time)
    }

    /// As [`Executor::cache_line_ns`].
    pub fn cache_line_ns(&mut self, subject: usize) -> Option<f64> {
        self.executor.cache_line_ns(subject)
    }

    /// As [`Executor::private_cache`].
    pub fn private_cache(&mut self) -> Option<Look> {
        self.executor.private_cache()
    }

    /// Time-weighted share of CPU time stolen, percent; `None` before any window.
    pub fn steal_percent(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| 100.0 * self.steal_seconds / self.seconds)
    }

    /// One idle window: target performance undisturbed. `None` when it was
    /// dropped or read nothing positive.
    pub fn idle(&mut self, subject: usize) -> Result<Option<f64>, WindowError> {
        self.short_idle(subject, Duration::MAX)
    }

    /// The same in a window of `longest` at most.
    pub fn short_idle(
        &mut self,
        subject: usize,
        longest: Duration,
    ) -> Result<Option<f64>, WindowError> {
        let mut request = self.next_window(subject, Arm::Idle, TargetState::Running, true);
        request.length = request.length.min(longest);
        let reading = self.take(&request)?;
        let value = reading.performance.filter(|p| p.is_finite() && *p > 0.0);
        if value.is_some() && self.clean(&reading) {
            self.kept += 1;
            return Ok(value);
        }
        self.dropped += 1;
        Ok(None)
    }

    /// `pairs` (1 or 2) pairs at `intensity`, each in random order. With expensive
    /// switches the order is C T T C: one way in and one way out for two pairs,
    /// and a steady drift cancels. A pair with stolen time is redone once, if
    /// the budget is not over.
    pub fn pairs(
        &mut self,
        subject: usize,
        half: Half,
        intensity: f64,
        pairs: usize,
    ) -> Result<Vec<Pair>, WindowError> {
        let saving = half == Half::Tolerated && expensive(&self.subjects[subject]);
        let mut results = Vec::with_capacity(pairs);
        for index in 0..pairs {
            if index > 0 && self.now() >= self.settings.budget {
                break;
            }
            let treat_first = if saving {
                index % 2 == 1
            } else {
                below(&mut self.rng, 2) == 1
            };
            let mut pair = self.pair(subject, half, intensity, treat_first)?;
            if pair == Pair::Stolen && self.now() < self.settings.budget {
                pair = self.pair(subject, half, intensity, treat_first)?;
            }
            results.push(pair);
        }
        Ok(results)
    }

    /// The source of all random orders.
    pub fn rng(&mut self) -> &mut ChaCha8Rng {
        &mut self.rng
    }

    /// Whether subjects that have a sequence can be measured in it.
    pub fn plays(&self) -> bool {
        self.executor.plays()
    }

    /// Whether a block holds a whole run of the target.
    pub fn whole_runs(&self) -> bool {
        self.executor.whole_runs()
    }

    /// As [`Executor::runs_watched`].
    pub fn runs_watched(&self) -> &[Vec<f64>] {
        self.executor.runs_watched()
    }

    /// As [`Executor::gap`].
    pub fn gap(&self) -> Option<Duration> {
        self.executor.gap()
    }

    /// Whether windows count something beside the metric.
    pub fn counts(&self) -> bool {
        self.executor.counts()
    }

    /// Whether the sources of two subjects can press at the same time.
    pub fn at_once(&self, one: usize, other: usize) -> Result<(), String> {
        self.executor.at_once(one, other)
    }

    /// Plays blocks of one sequence.
    pub fn play(&mut self, blocks: &[BlockRequest]) -> Result<Vec<Block>, WindowError> {
        self.last = None;
        let results = self.executor.play(blocks)?;
        for (request, result) in blocks.iter().zip(&results) {
            let Block::Read(reading) = result else {
                self.dropped += 1;
                continue;
            };
            self.kept += 1;
            if let Some(sequence) = self.subjects[request.subject].sequence {
                let length = (request.period(&sequence) * request.periods).as_secs_f64();
                self.seconds += length;
                self.steal_seconds += length * reading.steal;
            }
        }
        Ok(results)
    }

    fn pair(
        &mut self,
        subject: usize,
        half: Half,
        intensity: f64,
        treat_first: bool,
    ) -> Result<Pair, WindowError> {
        let treat = match half {
            Half::Tolerated => Arm::Treat(intensity),
            Half::Caused => self.subjects[subject].watched(intensity),
        };
        let (reference_arm, reference_target) = match half {
            Half::Tolerated => (Arm::Control, TargetState::Running),
            Half::Caused => (treat, TargetState::Stopped),
        };
        let read_target = half == Half::Tolerated;
        let (reference, treated);
        if treat_first {
            treated = self.window(subject, treat, TargetState::Running, read_target)?;
            reference = self.window(subject, reference_arm, reference_target, read_target)?;
        } else {
            reference = self.window(subject, reference_arm, reference_target, read_target)?;
            treated = self.window(subject, treat, TargetState::Running, read_target)?;
        }
        let pair = if !self.clean(&reference) || !self.clean(&treated) {
            Pair::Stolen
        } else {
            compare(half, &reference, &treated)
        };
        match pair {
            Pair::Ratio { .. } => self.kept += 2,
            Pair::Stolen | Pair::Failed(_) => self.dropped += 2,
        }
        Ok(pair)
    }

    fn clean(&self, reading: &WindowReading) -> bool {
        // A steal that is no number is not a steal below the bound.
        reading.steal <= self.settings.steal_bound
    }

    fn window(
        &mut self,
        subject: usize,
        arm: Arm,
        target: TargetState,
        read_target: bool,
    ) -> Result<WindowReading, WindowError> {
        let request = self.next_window(subject, arm, target, read_target);
        self.take(&request)
    }

    /// The window that comes after the last one.
    fn next_window(
        &mut self,
        subject: usize,
        arm: Arm,
        target: TargetState,
        read_target: bool,
    ) -> WindowRequest {
        let facts = &self.subjects[subject];
        let held = self.last == Some((subject, arm, target));
        self.last = Some((subject, arm, target));
        WindowRequest {
            subject,
            arm,
            target,
            read_target,
            settle: match expensive(facts) {
                // Nothing changed since the last window.
                true if held => Duration::ZERO,
                true if !read_target => probe_settle(facts),
                _ => facts.settle,
            },
            length: window_length(facts, self.stretch),
        }
    }

    /// Takes a window, and keeps the books on what was stolen.
    fn take(&mut self, request: &WindowRequest) -> Result<WindowReading, WindowError> {
        let reading = self.executor.window(request)?;
        if reading.steal.is_finite() {
            let length = request.length.as_secs_f64();
            self.seconds += length;
            self.steal_seconds += length * reading.steal;
        }
        Ok(reading)
    }
}

fn compare(half: Half, reference: &WindowReading, treated: &WindowReading) -> Pair {
    let read = |reading: &WindowReading| match half {
        Half::Tolerated => reading.performance,
        Half::Caused => reading.probe,
    };
    let what = match half {
        Half::Tolerated => "the metric",
        Half::Caused => "the source",
    };
    let (below, above) = match (read(reference), read(treated)) {
        (Some(below), Some(above)) => (below, above),
        _ => return Pair::Failed(format!("{what} gave no reading")),
    };
    if !below.is_finite() || !above.is_finite() || below < 0.0 || above < 0.0 {
        return Pair::Failed(format!("{what} read {below} and {above}, which is no rate"));
    }
    if below == 0.0 {
        let arm = match half {
            Half::Tolerated => "under control",
            Half::Caused => "with the target stopped",
        };
        return Pair::Failed(format!(
            "{what} read zero {arm}, so there is nothing to lose"
        ));
    }
    Pair::Ratio {
        log_ratio: (above / below).clamp(RATIO_FLOOR, 1.0 / RATIO_FLOOR).ln(),
        pressure: treated.pressure,
        reference: below,
        counted: Counted {
            reference: reference.counters.clone(),
            treated: treated.counters.clone(),
        },
    }
}
