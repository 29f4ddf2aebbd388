//! How much longer the profiles would have to be measured to tell.

use crate::change::Change;
use jostle_profile::Profile;
use serde::Serialize;
use std::cmp::Ordering;

/// Half an interval in standard errors: it has to be as narrow as the margin.
const ERRORS: f64 = 2.0;
/// Seconds are rounded up to these.
const STEP_SECONDS: f64 = 10.0;

/// What would decide an open question.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum More {
    /// Each profile this much longer.
    SecondsEach(f64),
    /// Longer runs do not help: so many runs of each program, merged.
    RunsEach(u64),
}

/// What it takes until a difference of `margin` would be seen in `change`.
pub fn needed(change: &Change, margin: f64, old: &Profile, new: &Profile) -> More {
    let error = change.tested.errors[0].max(change.tested.errors[1]);
    let wanted = (margin / ERRORS).powi(2);
    let inside = (error * error - change.between_runs).max(0.0);
    let left = wanted - change.between_runs;
    // Where most of the error is between runs, length buys little.
    if left < wanted / 8.0 {
        let runs = (2.0 * change.between_runs / wanted).ceil().max(2.0);
        return More::RunsEach(runs as u64);
    }
    let longest = old
        .conditions
        .duration_seconds
        .max(new.conditions.duration_seconds);
    let seconds = longest * (inside / left - 1.0).max(0.0);
    More::SecondsEach(((seconds / STEP_SECONDS).ceil() * STEP_SECONDS).max(STEP_SECONDS))
}

impl More {
    /// What decides half of several questions, or the only one.
    pub fn for_half(mut all: Vec<More>) -> Option<More> {
        let cost = |more: &More| match more {
            More::SecondsEach(seconds) => (0, *seconds),
            More::RunsEach(runs) => (1, *runs as f64),
        };
        all.sort_by(|a, b| cost(a).partial_cmp(&cost(b)).unwrap_or(Ordering::Equal));
        all.get(all.len().saturating_sub(1) / 2).copied()
    }

    /// As people say it.
    pub fn words(self) -> String {
        match self {
            More::SecondsEach(seconds) if seconds < 600.0 => {
                format!("measure {seconds:.0} s longer")
            }
            More::SecondsEach(seconds) if seconds < 7200.0 => {
                format!("measure {:.0} min longer", (seconds / 60.0).ceil())
            }
            More::SecondsEach(seconds) => {
                format!("measure {:.0} h longer", (seconds / 3600.0).ceil())
            }
            More::RunsEach(runs) => {
                format!("record each program {runs} times and merge the runs")
            }
        }
    }
}
