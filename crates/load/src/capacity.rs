//! The highest rate that meets a latency target: doubling until it is missed,
//! then halving the gap on a logarithmic scale. Each rate is judged by windows,
//! as many as it takes until one side leads by two.

use crate::amount::Latency;
use crate::amount::LatencyTarget;
use crate::error::Error;
use crate::error::Result;
use crate::warning::Warning;
use serde::Serialize;
use std::time::Duration;

/// The gap between a rate that met the target and one that missed it is closed
/// to this ratio.
pub(crate) const RESOLUTION: f64 = 1.025;
/// A rate is decided when one verdict leads by this many windows …
const LEAD: usize = 2;
/// … or by majority after this many; that is a matter of noise.
const MOST_WINDOWS: usize = 9;
/// Windows that more than this many were needed for count as noisy.
const CLEAR_WINDOWS: usize = 4;
/// Rates that may be noisy before the search is of no more use.
const MOST_NOISY: usize = 3;
/// Longest sequence of doublings or halvings.
const MOST_STEPS: usize = 40;
/// Below this rate no target is looked for.
const LOWEST_RATE: f64 = 1.0;
/// Times that the rate found may fail its confirmation.
const MOST_RETREATS: usize = 6;
/// When a search ends with what is known; a window under way is waited for.
/// A usual one takes 10 to 40 s, and windows at low rates take up to 10 s each: on a
/// machine that is busy with something else there may be no end to lower rates.
const LONGEST: Duration = Duration::from_secs(180);
/// Share of the bound that the generator's own lateness may take, at the
/// percentile of the target, before a missed target is its fault.
const OWN_SHARE: f64 = 0.5;

/// One window at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialWindow {
    /// At the percentile of the target; `None` when nothing was sent.
    pub latency: Option<Latency>,
    /// Successes per second.
    pub achieved_per_second: f64,
    /// How late the generator itself was, at that percentile, seconds.
    pub own_lateness: f64,
}

/// What one rate led to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// Requests intended per second.
    pub rate_per_second: f64,
    /// Successes per second, median over the windows.
    pub achieved_per_second: f64,
    /// Latency at the percentile of the target, median over the windows.
    pub latency_seconds: f64,
    /// True when requests failed or were not answered in time: the latency is at
    /// least this.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    pub windows: usize,
    /// Windows that met the target.
    pub windows_met: usize,
    /// The majority of them.
    pub met: bool,
    /// The generator's own lateness at that percentile, median.
    pub timing_error_seconds: f64,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StoppedBy {
    /// The gap is as small as asked for.
    Resolution,
    /// The same rate now meets the target and now does not.
    Noise,
    /// The generator could not send faster: the capacity is at least this.
    Generator,
    /// It took too long: the capacity is at least this.
    Time,
}

/// The highest rate that met the target, and how it was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// Like `p99:1ms`.
    pub slo: String,
    pub rate_per_second: f64,
    /// Lowest rate seen to miss the target above that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed_at_per_second: Option<f64>,
    pub stopped_by: StoppedBy,
    pub search_seconds: f64,
    /// Every rate tried, ascending.
    pub curve: Vec<Trial>,
}

impl Capacity {
    /// One that was found before.
    pub(crate) fn known(target: LatencyTarget, rate_per_second: f64) -> Capacity {
        Capacity {
            slo: target.to_string(),
            rate_per_second,
            missed_at_per_second: None,
            stopped_by: StoppedBy::Resolution,
            search_seconds: 0.0,
            curve: Vec::new(),
        }
    }

    /// What a reader must know, if anything.
    pub fn warning(&self) -> Option<Warning> {
        match self.stopped_by {
            StoppedBy::Resolution => None,
            StoppedBy::Noise => Some(Warning::NoisyCapacity {
                slo: self.slo.clone(),
                met_per_second: self.rate_per_second,
                missed_per_second: self.missed_at_per_second,
            }),
            StoppedBy::Generator => Some(Warning::CapacityAtLeast {
                per_second: self.rate_per_second,
            }),
            StoppedBy::Time => Some(Warning::CapacitySearchCutShort {
                limit: LONGEST,
                slo: self.slo.clone(),
                met_per_second: self.rate_per_second,
                missed_per_second: self.missed_at_per_second,
            }),
        }
    }
}

/// Who sends at a rate and tells what came of it; errors are those of what can
/// not be measured any more.
pub trait Probe {
    /// Sends at `rate` from now on.
    fn begin(&mut self, rate: f64) -> Result<()>;
    /// The next window at that rate.
    fn window(&mut self) -> Result<TrialWindow>;
    /// Leaves nothing of it to the next rate.
    fn end(&mut self);
    /// Since the search began.
    fn elapsed(&self) -> Duration;
}

/// Searches from rate `start` on; `on_trial` is called after each rate. An
/// environment error when no rate meets the target, or none is known to within
/// [`LONGEST`].
pub fn search(
    target: LatencyTarget,
    start: f64,
    probe: &mut dyn Probe,
    on_trial: &mut dyn FnMut(&Trial),
) -> Result<Capacity> {
    let mut search = Search {
        target,
        probe,
        on_trial,
        curve: Vec::new(),
        noisy: 0,
        generator: false,
    };
    let (rate, missed, stopped_by) = match search.run(start) {
        Err(Stop::TimeOver) => search.best()?,
        Err(Stop::Failed(error)) => return Err(error),
        Ok(found) => found,
    };
    let mut curve = search.curve;
    curve.sort_by(|a, b| a.rate_per_second.total_cmp(&b.rate_per_second));
    Ok(Capacity {
        slo: target.to_string(),
        rate_per_second: rate,
        missed_at_per_second: missed,
        stopped_by,
        search_seconds: 0.0,
        curve,
    })
}

/// The rate that met the target, the lowest above that did not, and why no more
/// were tried.
type Found = (f64, Option<f64>, StoppedBy);

/// Why a search does not go on.
enum Stop {
    TimeOver,
    Failed(Error),
}

type Step<T> = std::result::Result<T, Stop>;

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

struct Search<'a> {
    target: LatencyTarget,
    probe: &'a mut dyn Probe,
    on_trial: &'a mut dyn FnMut(&Trial),
    curve: Vec<Trial>,
    noisy: usize,
    /// Whether the last miss was the generator's fault.
    generator: bool,
}

impl Search<'_> {
    fn run(&mut self, start: f64) -> Step<Found> {
        let (low, high) = self.bracket(start)?;
        let mut found = self.narrow(low, high)?;
        // A machine that stalled during one trial is not the target's limit: the
        // rate that was missed must be missed once more, or the search goes on.
        for _ in 0..MOST_RETREATS {
            let (_, Some(again), _) = found else { break };
            if !self.meets(again)? {
                break;
            }
            let (low, high) = self.bracket(again)?;
            found = self.narrow(low, high)?;
        }
        Ok(found)
    }

    /// What is known when the time is over: of the last verdicts on each rate, the
    /// highest that met the target below all that missed it.
    fn best(&self) -> Result<Found> {
        let last = |index: usize, trial: &Trial| {
            let later = &self.curve[index + 1..];
            later
                .iter()
                .all(|other| other.rate_per_second != trial.rate_per_second)
        };
        let verdicts = self.curve.iter().enumerate();
        let verdicts = verdicts.filter(|(index, trial)| last(*index, trial));
        let (met, missed): (Vec<&Trial>, Vec<&Trial>) = verdicts
            .map(|(_, trial)| trial)
            .partition(|trial| trial.met);
        let rate = |trial: &&Trial| trial.rate_per_second;
        let by_rate = |a: &&Trial, b: &&Trial| rate(a).total_cmp(&rate(b));
        let missed = missed.into_iter().min_by(by_rate);
        let below = |trial: &&Trial| missed.is_none_or(|missed| rate(trial) < rate(&missed));
        match met.into_iter().filter(below).max_by(by_rate) {
            Some(best) => Ok((rate(&best), missed.as_ref().map(rate), StoppedBy::Time)),
            None => Err(Error::SearchTooLong {
                target: self.target.to_string(),
                limit: LONGEST,
                rate_per_second: missed.as_ref().map_or(LOWEST_RATE, rate),
                seen: seen(missed),
            }),
        }
    }

    /// A rate that meets the target, and one above that does not, if any could
    /// be sent.
    fn bracket(&mut self, start: f64) -> Step<(f64, Option<f64>)> {
        let mut rate = start.max(LOWEST_RATE);
        let (mut low, mut high) = (None, None);
        for _ in 0..MOST_STEPS {
            match self.meets(rate)? {
                true => low = Some(rate),
                false => high = Some(rate),
            }
            rate = match (low, high) {
                (Some(low), Some(_)) => return Ok((low, high)),
                (Some(low), None) => low * 2.0,
                (None, Some(high)) if high <= LOWEST_RATE => return Err(self.hopeless().into()),
                (None, Some(high)) => (high / 2.0).max(LOWEST_RATE),
                (None, None) => unreachable!("one of them was just set"),
            };
        }
        low.map(|low| (low, None))
            .ok_or_else(|| self.hopeless().into())
    }

    fn hopeless(&self) -> Error {
        let last = self.curve.last();
        Error::TargetMissed {
            target: self.target.to_string(),
            rate_per_second: last.map_or(LOWEST_RATE, |trial| trial.rate_per_second),
            seen: seen(last),
        }
    }
    fn narrow(&mut self, mut low: f64, mut high: Option<f64>) -> Step<Found> {
        let mut stopped_by = StoppedBy::Resolution;
        while let Some(missed) = high
            && missed / low > RESOLUTION
        {
            if self.noisy >= MOST_NOISY {
                stopped_by = StoppedBy::Noise;
                break;
            }
            let middle = (low * missed).sqrt();
            match self.meets(middle)? {
                true => low = middle,
                false => high = Some(middle),
            }
        }
        let fault = self.generator;
        // Once more, so that luck is not taken for capacity.
        let mut retreats = 0;
        while !self.meets(low)? {
            stopped_by = StoppedBy::Noise;
            retreats += 1;
            if retreats > MOST_RETREATS || low <= LOWEST_RATE {
                return Err(self.hopeless().into());
            }
            high = Some(low);
            low /= RESOLUTION.powi(1 << retreats);
        }
        if stopped_by == StoppedBy::Resolution && (high.is_none() || fault) {
            stopped_by = StoppedBy::Generator;
        }
        Ok((low, high, stopped_by))
    }

    /// Whether the target is met at `rate`; a rate that is not decided when the time
    /// is over says nothing.
    fn meets(&mut self, rate: f64) -> Step<bool> {
        if self.probe.elapsed() >= LONGEST {
            return Err(Stop::TimeOver);
        }
        self.probe.begin(rate)?;
        let mut windows: Vec<TrialWindow> = Vec::new();
        let mut met = 0;
        let decided = loop {
            let window = self.probe.window()?;
            met += usize::from(window.latency.is_some_and(|it| self.target.is_met_by(it)));
            windows.push(window);
            let missed = windows.len() - met;
            if met.abs_diff(missed) >= LEAD || windows.len() >= MOST_WINDOWS {
                break met > missed;
            }
            if self.probe.elapsed() >= LONGEST {
                self.probe.end();
                return Err(Stop::TimeOver);
            }
        };
        self.probe.end();
        self.noisy += usize::from(windows.len() > CLEAR_WINDOWS);
        let median = |of: fn(&TrialWindow) -> f64| {
            let mut values: Vec<f64> = windows.iter().map(of).collect();
            values.sort_unstable_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let at_least = |window: &&TrialWindow| window.latency.is_none_or(|it| it.at_least);
        let trial = Trial {
            rate_per_second: rate,
            achieved_per_second: median(|window| window.achieved_per_second),
            latency_seconds: median(|window| window.latency.map_or(f64::NAN, |it| it.seconds)),
            at_least: windows.iter().filter(at_least).count() * 2 > windows.len(),
            windows: windows.len(),
            windows_met: met,
            met: decided,
            timing_error_seconds: median(|window| window.own_lateness),
        };
        if !decided {
            let bound = self.target.bound.as_secs_f64();
            self.generator = trial.timing_error_seconds > bound * OWN_SHARE;
        }
        (self.on_trial)(&trial);
        self.curve.push(trial);
        Ok(decided)
    }
}

/// What came of a rate.
fn seen(trial: Option<&Trial>) -> String {
    trial.map_or_else(String::new, |trial| {
        let least = if trial.at_least { "at least " } else { "" };
        format!("there it took {least}{:.3} ms", trial.latency_seconds * 1e3)
    })
}

#[cfg(test)]
mod tests;
