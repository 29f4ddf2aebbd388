//! Functions that would serve as progress together, and which of several come first.

use super::call::Call;
use super::steady::Look;
use std::time::Duration;

/// Functions that would serve together.
#[derive(Clone, Debug)]
pub(in crate::metric) struct Found {
    /// At least one.
    pub calls: Vec<Call>,
    /// What one call costs.
    pub each: Duration,
    pub look: Look,
    /// Seconds from one call to the next, at any moment on average.
    pub gap: f64,
    /// How noisy a block would be; see [`super::steady::noise`].
    pub noise: f64,
    /// Lower is better.
    pub(super) score: f64,
    /// Whether nobody else was seen to call them on the target's CPUs.
    pub alone: bool,
    /// Whether it is taken only where there is nothing better.
    pub(super) poor: bool,
    /// Length of a run of a command that has to be seen to do the same in each, since only
    /// then this will do.
    pub repeated: Option<Duration>,
    /// Of whole runs of a command with as many calls in each, one after another: when each
    /// call was, in seconds of CPU time from the begin of the run.
    pub whole_runs: Vec<Vec<f64>>,
    /// How many functions were counted.
    pub tried: usize,
}

/// Best first; others share no call with a better one: they are for when that fails.
pub(super) fn best_apart(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by(|a, b| a.poor.cmp(&b.poor).then(a.score.total_cmp(&b.score)));
    let mut best: Vec<Found> = Vec::new();
    for found in found {
        let same = |other: &Found| other.calls.iter().any(|call| found.calls.contains(call));
        if !best.iter().any(same) {
            best.push(found);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::steady::Window;
    use super::*;
    use std::path::PathBuf;

    fn found(symbols: &[&str], score: f64, poor: bool) -> Found {
        let call = |symbol: &&str| Call {
            file: PathBuf::from("/bin/program"),
            symbol: symbol.to_string(),
            offset: 0,
        };
        Found {
            calls: symbols.iter().map(call).collect(),
            each: Duration::ZERO,
            look: Look::of(
                &[Window {
                    seconds: 0.004,
                    busy: 0.004,
                    count: 4,
                }; 4],
            )
            .unwrap(),
            gap: 0.001,
            noise: score,
            score,
            alone: false,
            poor,
            repeated: None,
            whole_runs: Vec::new(),
            tried: 0,
        }
    }

    #[test]
    fn the_best_come_first_and_have_nothing_in_common() {
        let all = vec![
            found(&["a"], 0.1, true),
            found(&["b", "c"], 0.3, false),
            found(&["c"], 0.4, false),
            found(&["d"], 0.5, false),
        ];
        let best: Vec<f64> = best_apart(all).iter().map(|found| found.score).collect();
        assert_eq!(best, [0.3, 0.5, 0.1]);
    }
}
