//! Arrival processes, bursts and traces.

use crate::error::Problem;
use crate::error::ScenarioError;
use crate::number;
use crate::random::normal;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_RECORDING;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand_distr::Distribution;
use rand_distr::Exp1;
use serde::Deserialize;
use std::path::Path;

/// The time between one job and the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Process {
    /// Always the same.
    Constant { seconds: f64 },
    /// Normal; never negative.
    Gaussian { mean: f64, sd: f64 },
    /// Exponential: the jobs of many who know nothing of each other.
    Poisson { mean: f64 },
}

/// Jobs that come on top, close together.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// It begins with the arrival of this job, counted from 1.
    #[serde(deserialize_with = "number::count")]
    pub after: usize,
    #[serde(deserialize_with = "number::count")]
    pub jobs: usize,
    #[serde(deserialize_with = "number::not_negative")]
    pub gap_seconds: f64,
}

impl Process {
    /// Seconds at which `count` jobs come, the first at 0, ascending.
    pub fn times(self, count: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
        let mut now = 0.0;
        (0..count)
            .map(|job| {
                if job > 0 {
                    now += self.gap(rng);
                }
                now
            })
            .collect()
    }

    fn gap(self, rng: &mut ChaCha8Rng) -> f64 {
        match self {
            Process::Constant { seconds } => seconds,
            Process::Gaussian { mean, sd } => (mean + sd * normal(rng)).max(0.0),
            Process::Poisson { mean } => mean * exponential(rng),
        }
    }
}

impl Burst {
    /// `times` with those of the burst among them, ascending.
    pub fn added_to(self, mut times: Vec<f64>) -> Vec<f64> {
        let Some(begin) = self.after.checked_sub(1).and_then(|job| times.get(job)) else {
            return times;
        };
        let begin = *begin;
        times.extend((1..=self.jobs).map(|job| begin + job as f64 * self.gap_seconds));
        times.sort_unstable_by(f64::total_cmp);
        times
    }
}

/// One line of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    pub seconds: f64,
    /// Of this application or class; drawn when absent.
    pub app: Option<String>,
    /// Where the trace says so.
    pub line: usize,
}

/// Reads a trace: a CSV file of `seconds` or `seconds,app` lines, ascending and
/// at least one; a first line `seconds…`, empty lines and lines with `#` are
/// passed over.
pub fn load_trace(path: &Path) -> Result<Vec<Arrival>, ScenarioError> {
    let refuse = |line: Option<usize>, problem| ScenarioError {
        line,
        ..ScenarioError::new(path, problem)
    };
    let text =
        regular::read_text(path, LONGEST_RECORDING).map_err(|error| refuse(None, error.into()))?;
    let mut arrivals: Vec<Arrival> = Vec::new();
    for (line, text) in (1..).zip(text.lines().map(str::trim)) {
        if text.is_empty() || text.starts_with('#') || (line == 1 && text.starts_with("seconds")) {
            continue;
        }
        let arrival = arrival(text, line, arrivals.last());
        arrivals.push(arrival.map_err(|problem| refuse(Some(line), problem))?);
    }
    match arrivals.is_empty() {
        true => Err(refuse(None, Problem::TraceEmpty)),
        false => Ok(arrivals),
    }
}

/// What a line of a trace says.
fn arrival(text: &str, line: usize, last: Option<&Arrival>) -> Result<Arrival, Problem> {
    let (first, app) = text.split_once(',').unwrap_or((text, ""));
    if app.contains(',') {
        return Err(Problem::TraceColumns(text.into()));
    }
    let seconds = first.trim().parse().ok().filter(|it| f64::is_finite(*it));
    let seconds = seconds.ok_or_else(|| Problem::TraceSeconds(text.into()))?;
    if seconds < 0.0 {
        return Err(Problem::TraceNegative(seconds));
    }
    if let Some(last) = last.filter(|last| seconds < last.seconds) {
        let line = last.line;
        return Err(Problem::TraceBackwards { seconds, line });
    }
    let app = Some(app.trim()).filter(|app| !app.is_empty());
    Ok(Arrival {
        seconds,
        app: app.map(str::to_string),
        line,
    })
}

fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    Exp1.sample(rng)
}

/// Moments at which something happens on average `rate` times per second,
/// before `until`.
pub fn poisson_moments(rate: f64, until: f64, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let mut now = 0.0;
    let moment = || {
        now += exponential(rng) / rate;
        (now < until).then_some(now)
    };
    match rate > 0.0 {
        true => std::iter::from_fn(moment).collect(),
        false => Vec::new(),
    }
}

/// A lognormal amount with `median` and `sigma` (of its logarithm).
pub fn lognormal(median: f64, sigma: f64, rng: &mut ChaCha8Rng) -> f64 {
    median * (sigma * normal(rng)).exp()
}

/// Uniform from `least` to `most`.
pub fn uniform(least: f64, most: f64, rng: &mut ChaCha8Rng) -> f64 {
    least + (most - least) * rng.random::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn rng() -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(9)
    }

    fn mean_and_sd(times: &[f64]) -> (f64, f64) {
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let squares: f64 = gaps.iter().map(|gap| (gap - mean).powi(2)).sum();
        (mean, (squares / gaps.len() as f64).sqrt())
    }

    #[test]
    fn gaps_are_as_the_process_says() {
        let times = Process::Constant { seconds: 10.0 }.times(178, &mut rng());
        assert_eq!((times.len(), times[0], times[177]), (178, 0.0, 1770.0));
        let gaussian = Process::Gaussian {
            mean: 10.0,
            sd: 1.0,
        };
        let (mean, sd) = mean_and_sd(&gaussian.times(20_000, &mut rng()));
        assert!(
            (mean - 10.0).abs() < 0.03 && (sd - 1.0).abs() < 0.03,
            "{mean} {sd}"
        );
        let poisson = Process::Poisson { mean: 2.0 };
        let (mean, sd) = mean_and_sd(&poisson.times(20_000, &mut rng()));
        assert!(
            (mean - 2.0).abs() < 0.06 && (sd - 2.0).abs() < 0.1,
            "{mean} {sd}"
        );
        let wide = Process::Gaussian { mean: 1.0, sd: 5.0 }.times(1000, &mut rng());
        assert!(wide.windows(2).all(|pair| pair[1] >= pair[0]));
    }

    #[test]
    fn a_burst_comes_on_top() {
        let base = Process::Constant { seconds: 1.0 }.times(10, &mut rng());
        let burst = Burst {
            after: 3,
            jobs: 4,
            gap_seconds: 0.25,
        };
        let times = burst.added_to(base);
        assert_eq!(times.len(), 14);
        assert_eq!(times[..8], [0.0, 1.0, 2.0, 2.25, 2.5, 2.75, 3.0, 3.0]);
    }

    #[test]
    fn moments_are_as_frequent_as_asked() {
        let moments = poisson_moments(0.5, 20_000.0, &mut rng());
        assert!((moments.len() as f64 - 10_000.0).abs() < 300.0);
        assert!(poisson_moments(0.0, 1e9, &mut rng()).is_empty());
    }

    #[test]
    fn a_bad_trace_is_refused_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.csv");
        for (text, line, says) in [
            ("seconds,app\n0,a\nsoon,b\n", Some(3), "soon"),
            ("0\n-1\n", Some(2), "negative"),
            ("5\n\n4\n", Some(3), "before that of line 1"),
            ("1,a,b\n", Some(1), "more than"),
            ("NaN\n", Some(1), "seconds"),
            ("# nothing\n", None, "no arrival"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = load_trace(&path).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
        std::fs::write(&path, "seconds,app\n0, a\n# later\n2.5\n").unwrap();
        let arrivals = load_trace(&path).unwrap();
        assert_eq!(arrivals[0].app.as_deref(), Some("a"));
        assert_eq!((arrivals[1].seconds, &arrivals[1].app), (2.5, &None));
        let missing = load_trace(&dir.path().join("no.csv")).unwrap_err();
        assert!(missing.to_string().contains("no such file"));
    }
}
