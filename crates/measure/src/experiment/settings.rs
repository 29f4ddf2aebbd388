//! What a caller chooses, and how it is kept informed.

use super::floor::Floor;
use jostle_profile::Readings;
use std::time::Duration;

/// Most pairs of sources that are measured at once.
pub const MOST_TOGETHER: usize = 4;

/// Which half of an entry is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Target performance, treat against control.
    Tolerated,
    /// Source performance, target running against stopped.
    Caused,
}

impl Half {
    pub fn as_str(self) -> &'static str {
        match self {
            Half::Tolerated => "tolerated",
            Half::Caused => "caused",
        }
    }
}

/// Which halves to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halves {
    Both,
    Tolerated,
    Caused,
}

/// How to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Wall-clock time for all windows.
    pub budget: Duration,
    /// What the preparations took before; advice on budgets includes it.
    pub preparation: Duration,
    /// Fewer pairs, intervals twice as wide.
    pub quick: bool,
    /// Decides the order of arms and the resampling.
    pub seed: u64,
    /// Performance that counts as kept, a fraction of undisturbed (0–1).
    pub qos: f64,
    pub halves: Halves,
    /// Only 100 % is measured: nothing is searched, and a half is known once its
    /// interval there is narrow.
    pub full_only: bool,
    /// Longest settle time after a switch. Shorter than a source asks for is
    /// right for targets that do not need what settles so late.
    pub longest_settle: Duration,
    /// How long a turn is that the scheduler gives to each of two busy processes on
    /// a CPU; without it no cost of switches is measured.
    pub turn: Option<Duration>,
    /// Ids of pairs of resources whose sources press at once.
    pub together: [Option<[&'static str; 2]>; MOST_TOGETHER],
    /// Windows with a larger share of stolen time (0–1) are dropped.
    pub steal_bound: f64,
    /// Highest intensity that any source may have, percent. What is searched runs
    /// from 0 to this.
    pub max_intensity: f64,
    /// Performance below which every source stops and the measurement ends.
    pub floor: Option<Floor>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            budget: Duration::from_secs(30),
            preparation: Duration::ZERO,
            quick: false,
            seed: 1,
            qos: 0.95,
            halves: Halves::Both,
            full_only: false,
            longest_settle: Duration::MAX,
            turn: None,
            together: [None; MOST_TOGETHER],
            steal_bound: 0.05,
            max_intensity: 100.0,
            floor: None,
        }
    }
}

impl Settings {
    /// `--quick`: 5 s.
    pub fn quick() -> Self {
        Settings {
            budget: Duration::from_secs(5),
            quick: true,
            ..Settings::default()
        }
    }

    /// Whether the target must be spared: then no source runs without being watched
    /// or above its ceiling, not even to prepare.
    pub fn is_limited(&self) -> bool {
        self.floor.is_some() || self.max_intensity < 100.0
    }

    pub(super) fn min_pairs(&self) -> usize {
        if self.quick { 6 } else { 10 }
    }

    pub(super) fn half_width(&self) -> f64 {
        if self.quick { 10.0 } else { 5.0 }
    }
}

/// Where the measurement stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Resource being measured; `None` during undisturbed windows.
    pub subject: Option<&'static str>,
    pub half: Option<Half>,
    pub elapsed: Duration,
    pub budget: Duration,
    /// What is being done, in words.
    pub note: String,
    /// What is known of the target so far, in the order of the subjects.
    pub so_far: Vec<SoFar>,
}

/// What a source costs the target as it looks.
#[derive(Clone, Debug, PartialEq)]
pub struct SoFar {
    pub resource: &'static str,
    /// Loss at 100, a fraction, with its 95 % interval; `None` while nothing is known.
    pub loss: Option<[f64; 3]>,
    pub settled: bool,
}

/// Is told how the measurement goes.
pub trait Observer {
    /// What is being prepared.
    fn preparing(&mut self, _text: &str) {}

    /// In what the plan differs from the usual one, a line each; before the
    /// sources press.
    fn plan(&mut self, _lines: &[String]) {}

    fn progress(&mut self, _progress: Progress) {}

    /// Something the user should know before the sources press, with the fix.
    fn warn(&mut self, _text: &str) {}

    /// Called again and again: what was read so far can be asked for and kept,
    /// so that a measurement that is cut off can go on elsewhere.
    fn checkpoint(&mut self, _readings: &dyn Fn() -> Readings) {}
}

/// Nobody wants to know.
impl Observer for () {}
