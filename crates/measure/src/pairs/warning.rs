//! What a reader should know before using measured pairs.

use jostle_profile::WarningFacts;
use jostle_profile::pairs::GroupPlacement;
use serde::Serialize;
use thiserror::Error;

/// A caution, with what is needed to judge it. Its code is the variant's name in
/// kebab case.
#[derive(Clone, Debug, Error, PartialEq, Serialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum PairWarning {
    #[error("{member}: its speed could not be read: {reason}")]
    MemberUnread { member: String, reason: String },
    #[error("{member} cannot be paused, so the others were never measured without it: {reason}")]
    MemberNotPaused { member: String, reason: String },
    #[error("{member} ended after {after_seconds:.1} s, and the measurement with it: {reason}")]
    MemberEnded {
        member: String,
        after_seconds: f64,
        reason: String,
    },
    #[error(
        "{member}: some blocks hold far more or less work than most, so the mean over all blocks \
         is given and not a robust location"
    )]
    MemberUneven { member: String },
    #[error(
        "{member}: one reading takes {seconds:.1} s ({metric}), so there are few of them; \
         --metric {member}=METRIC names a finer one (`jostle metrics`)"
    )]
    MetricCoarse {
        member: String,
        metric: String,
        seconds: f64,
    },
    /// What its metric says of its readings.
    #[error("{member}: {warning}")]
    MemberMetric {
        member: String,
        /// Code of that warning.
        about: String,
        warning: String,
    },
    #[error(
        "{member} ended and was started again in {percent:.0} % of its blocks, so starting it is a \
         part of what was measured; give it more to do in one run"
    )]
    MemberShortRuns { member: String, percent: f64 },
    #[error("{placement}: not measured: {reason}")]
    PlacementImpossible {
        placement: GroupPlacement,
        reason: String,
    },
    #[error(
        "others used the last-level cache: an access to three fifths of it took {access_ns:.0} ns \
         ({free_ns:.0} ns at the calibration), and with all of it programs may lose more to each other"
    )]
    LastCacheHeld { access_ns: f64, free_ns: f64 },
    #[error(
        "others use the last-level cache so much that {kept_percent:.0} % of what was read was still \
         there 30 ms later: without them programs may lose more to each other"
    )]
    LastCacheReplaced { kept_percent: f64 },
    #[error("{members} members share {cpus} CPUs with each other")]
    MoreMembersThanCpus { members: usize, cpus: usize },
}

impl PairWarning {
    /// As it is kept in the file.
    pub fn facts(&self) -> WarningFacts {
        crate::warning::facts(self)
    }
}
