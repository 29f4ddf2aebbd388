//! What a reader should know before using a curve.

use jostle_profile::WarningFacts;
use serde::Serialize;
use thiserror::Error;

/// A caution, with what is needed to judge it. Its code is the variant's name in
/// kebab case.
#[derive(Clone, Debug, Error, PartialEq, Serialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum ScalingWarning {
    #[error(
        "chose {threads} threads when it started on {cpus} CPUs, and {fewer} on 1 CPU; in blocks \
         with fewer CPUs its {threads} threads shared them, which a start there would not do; \
         --metric runs starts it anew for each block"
    )]
    ThreadsChosenAtStart {
        threads: usize,
        cpus: usize,
        fewer: usize,
    },
    #[error(
        "chose {threads} thread(s) when it started; it may not use {cpus} CPUs as a start with \
         more threads would"
    )]
    FewerThreadsThanCpus { threads: usize, cpus: usize },
    #[error(
        "it ended and was started again in {percent:.0} % of its blocks, so starting it is a part \
         of what was measured; give it more to do in one run"
    )]
    ShortRuns { percent: f64 },
    #[error(
        "at size {}: some blocks hold far more or less work than most, so the mean over all \
         blocks is given and not a robust location",
        list(sizes)
    )]
    UnevenBlocks { sizes: Vec<u32> },
    #[error("it ended after {after_seconds:.1} s, and the measurement with it: {reason}")]
    TargetEnded { after_seconds: f64, reason: String },
    #[error(
        "one reading takes {seconds:.1} s ({metric}), so there are few of them; --metric names a \
         finer one (`jostle metrics`)"
    )]
    MetricCoarse { metric: String, seconds: f64 },
    #[error(
        "a load of a fixed rate is sent: where it is served at every size, the curve says nothing \
         about the rate that could be; --closed sends as fast as answers come"
    )]
    FixedRate,
}

fn list(sizes: &[u32]) -> String {
    let sizes: Vec<String> = sizes.iter().map(u32::to_string).collect();
    sizes.join(", ")
}

impl ScalingWarning {
    /// As it is kept in the file.
    pub fn facts(&self) -> WarningFacts {
        crate::warning::facts(self)
    }
}
