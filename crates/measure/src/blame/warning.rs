//! What a reader should know before using a verdict.

use jostle_profile::WarningFacts;
use serde::Serialize;
use thiserror::Error;

/// A caution, with what is needed to judge it. Its code is the variant's name in
/// kebab case.
#[derive(Clone, Debug, Error, PartialEq, Serialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum BlameWarning {
    #[error("{candidate} could not be paused: {reason}")]
    CandidateNotPaused { candidate: String, reason: String },
    #[error("{candidate} ended after {pauses} pauses: {reason}")]
    CandidateEnded {
        candidate: String,
        pauses: usize,
        reason: String,
    },
    #[error("{victim} ended after {after_seconds:.1} s, and the experiment with it: {reason}")]
    VictimEnded {
        victim: String,
        after_seconds: f64,
        reason: String,
    },
    #[error("{victim}: its progress could not be read, so nobody was paused: {reason}")]
    VictimUnread { victim: String, reason: String },
    #[error(
        "pausing a process that does nothing changed the victim's speed by {percent:+.1} %; that \
         much was taken off every candidate"
    )]
    PlaceboShifted { percent: f64 },
    #[error(
        "the victim did {operations:.1} operations in a pause of {milliseconds:.0} ms, so few that \
         the intervals are wide; --metric names a finer count (`jostle metrics`), --pause a longer \
         pause"
    )]
    MetricCoarse { operations: f64, milliseconds: f64 },
    #[error(
        "{candidate}: the victim was still getting faster when the pauses ended ({late_percent:.0} \
         % in their second half): it refills caches, so the slowdown is understated; a longer \
         --pause shows more"
    )]
    StillRecovering {
        candidate: String,
        late_percent: f64,
    },
    #[error(
        "{candidate} needs {milliseconds:.1} ms to stand still, longer than a pause; it counts as \
         held meanwhile"
    )]
    SlowToStop {
        candidate: String,
        milliseconds: f64,
    },
    #[error(
        "the victim ended and was started again in {percent:.0} % of the pauses, which then do not \
         count; give it more to do in one run"
    )]
    VictimShortRuns { percent: f64 },
    #[error("more than {most} candidates; the {most} that use most were tried")]
    TooManyCandidates { most: usize },
    #[error("the connections of {victim} cannot be followed: {reason}")]
    DependenciesUnknown { victim: String, reason: String },
}

impl BlameWarning {
    /// As it is kept in the file.
    pub fn facts(&self) -> WarningFacts {
        crate::warning::facts(self)
    }
}
