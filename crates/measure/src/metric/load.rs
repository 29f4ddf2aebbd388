//! What the load tells: answers per second, latency, goodput. And metrics that
//! read something else while a load is sent.

use super::Metric;
use super::facts;
use crate::error::Error;
use crate::error::Result;
use crate::warning::Warning;
use crate::workload::Target;
use jostle_load::Failure;
use jostle_load::Generator;
use jostle_load::LoadPlan;
use jostle_load::Pace;
use jostle_load::Percentile;
use jostle_load::Window;
use jostle_profile::Direction;
use jostle_profile::MetricFacts;
use jostle_profile::Resolution;
use std::time::Duration;

/// Requests that a window of a mean or of goodput needs.
const ENOUGH: f64 = 200.0;
/// Part of the requests that a percentile needs for itself that a window needs:
/// two beyond it in each. Many short windows tell more than few long ones, since
/// neighbours share the drift, and all arms are read the same way.
const WINDOW_PART: f64 = 0.1;
/// Random arrivals come short of their mean half of the time.
const MARGIN: f64 = 1.2;

/// What is read of the answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Read {
    /// Successes per second.
    Throughput,
    /// Seconds from the intended time to the answer.
    Latency(Percentile),
    MeanLatency,
    /// Successes within this bound per second.
    Goodput(Duration),
}

/// The metric called `name`; `None` when the name is none of these.
pub(super) fn parse(name: &str) -> Result<Option<Read>> {
    let wrong =
        |error: jostle_load::ParseError| Error::request(format!("--metric {name}: {error}"));
    Ok(Some(match name.split_once(':') {
        None if name == "throughput" => Read::Throughput,
        Some(("latency", "mean")) => Read::MeanLatency,
        Some(("latency", percentile)) => Read::Latency(percentile.parse().map_err(wrong)?),
        Some(("goodput", bound)) => Read::Goodput(jostle_load::parse_bound(bound).map_err(wrong)?),
        _ => return Ok(None),
    }))
}

/// Whether `read` fits the load.
pub(super) fn check(read: Option<&Read>, load: Option<&LoadPlan>) -> Result<()> {
    match (read, load) {
        (Some(read), None) => Err(Error::request(format!(
            "--metric {}: needs a load whose answers are read; add --load URL, like \
             --load redis://127.0.0.1:6379 --rate 10k/s",
            read.name()
        ))),
        (Some(Read::Latency(_) | Read::MeanLatency | Read::Goodput(_)), Some(plan))
            if plan.is_closed() =>
        {
            Err(Error::request(
                "--closed: in a closed loop a slow answer delays the next request, so latency \
                 says little; give --rate or --find-capacity, or --metric throughput",
            ))
        }
        _ => Ok(()),
    }
}

impl Read {
    fn name(&self) -> String {
        match self {
            Read::Throughput => "throughput".into(),
            Read::Latency(percentile) => format!("latency:{percentile}"),
            Read::MeanLatency => "latency:mean".into(),
            Read::Goodput(bound) => format!("goodput:{bound:?}"),
        }
    }

    fn unit(&self) -> String {
        match self {
            Read::Throughput => "answers per second".into(),
            Read::Latency(_) | Read::MeanLatency => "seconds".into(),
            Read::Goodput(bound) => format!("answers within {bound:?} per second"),
        }
    }

    fn direction(&self) -> Direction {
        match self {
            Read::Throughput | Read::Goodput(_) => Direction::Higher,
            Read::Latency(_) | Read::MeanLatency => Direction::Lower,
        }
    }

    fn window_rule(&self) -> String {
        let which = format!(
            "requests whose intended times lie in the window, some {} at least; what is not \
             answered in time counts as that late",
            self.requests_needed().ceil()
        );
        match self {
            Read::Throughput => "successful answers in the window ÷ its length".into(),
            Read::Latency(percentile) => format!("{percentile} of the {which}"),
            Read::MeanLatency => format!("mean of the {which}"),
            Read::Goodput(bound) => {
                format!("answers within {bound:?} of the intended time ÷ the window's length")
            }
        }
    }

    /// Requests that a window needs.
    fn requests_needed(&self) -> f64 {
        match self {
            Read::Latency(percentile) => {
                (percentile.samples_needed() * WINDOW_PART).max(ENOUGH) * MARGIN
            }
            Read::Throughput | Read::MeanLatency | Read::Goodput(_) => ENOUGH * MARGIN,
        }
    }
}

/// Reads the answers of a load.
pub(super) struct LoadMetric {
    generator: Generator,
    read: Read,
    because: String,
}

impl LoadMetric {
    pub(super) fn new(generator: Generator, read: Read, because: &str) -> LoadMetric {
        let mut because = because.to_string();
        if read == Read::Throughput
            && let Some(Pace::Open(rate)) = generator.current_pace()
        {
            because += &format!(
                "; {rate:.0} requests/s are sent, so it cannot exceed that, and shows a loss only \
                 where the target cannot keep up"
            );
        }
        LoadMetric {
            generator,
            read,
            because,
        }
    }

    /// Tail latency of an open loop, throughput of a closed one.
    pub(super) fn usual(generator: Generator) -> LoadMetric {
        let (read, because) = match generator.current_pace() {
            Some(Pace::Open(_)) => (
                Read::Latency(Percentile::P99),
                "the usual one for a load at a given rate",
            ),
            _ => (Read::Throughput, "the usual one for a closed loop"),
        };
        LoadMetric::new(generator, read, because)
    }

    fn performance(&self, window: &Window, target: &Target) -> Result<f64> {
        let read = match self.read {
            Read::Throughput => Some(window.throughput()),
            Read::Goodput(bound) => Some(window.within(bound) as f64 / window.seconds()),
            Read::Latency(percentile) => window.percentile(percentile).map(|it| 1.0 / it.seconds),
            Read::MeanLatency => window.mean().map(|it| 1.0 / it.seconds),
        };
        let unreachable = window.answered == 0
            && [Failure::Refused, Failure::Reset, Failure::Closed]
                .iter()
                .any(|&failure| window.failures.of(failure) > 0);
        match read {
            Some(performance) if !unreachable => Ok(performance),
            _ => Err(Error::environment(format!(
                "{} does not answer at {}: of {} requests none succeeded: {}",
                target.name(),
                self.generator.spec().url,
                window.due,
                window.failures
            ))),
        }
    }
}

impl Metric for LoadMetric {
    fn facts(&self) -> MetricFacts {
        facts(
            &self.read.name(),
            &self.read.unit(),
            self.read.direction(),
            &self.because,
        )
    }

    fn natural_window(&self) -> Option<Duration> {
        match self.generator.current_pace() {
            Some(Pace::Open(rate)) => {
                Duration::try_from_secs_f64(self.read.requests_needed() / rate).ok()
            }
            _ => None,
        }
    }

    fn window_rule(&self) -> String {
        self.read.window_rule()
    }

    fn resolution(&self) -> Resolution {
        Resolution::Request
    }

    fn cost(&self) -> String {
        "none in the target but the load itself".into()
    }

    fn begin(&mut self, target: &mut Target) -> Result<()> {
        target.check_alive()?;
        self.generator.open_window();
        Ok(())
    }

    fn end(&mut self, target: &mut Target) -> Result<f64> {
        let window = self.generator.close_window()?;
        // A queue that this arm left must not be charged to the next one.
        self.generator.restart_schedule();
        target.check_alive()?;
        self.performance(&window, target)
    }

    fn suspend(&mut self) {
        self.generator.suspend();
    }

    fn resume(&mut self) {
        self.generator.resume();
    }

    fn load(&self) -> Option<&Generator> {
        Some(&self.generator)
    }
}

/// Another metric, read while a load is sent. Each window of it is one of the
/// load too, so that the timing of the load is known.
///
/// It offers no turns: requests that wait in a block of a few milliseconds are
/// served in the next one, which may be another arm's. redis-server at 20 000
/// requests per second, read by a uprobe in turns, seemed to lose nothing to
/// cpu-time at 100 %, where windows show 30 %.
pub(super) struct UnderLoad {
    inner: Box<dyn Metric>,
    generator: Generator,
}

impl UnderLoad {
    pub(super) fn new(inner: Box<dyn Metric>, generator: Generator) -> UnderLoad {
        UnderLoad { inner, generator }
    }
}

impl Metric for UnderLoad {
    fn facts(&self) -> MetricFacts {
        self.inner.facts()
    }

    fn natural_window(&self) -> Option<Duration> {
        self.inner.natural_window()
    }

    fn one_run_per_window(&self) -> bool {
        self.inner.one_run_per_window()
    }

    fn window_rule(&self) -> String {
        self.inner.window_rule()
    }

    fn resolution(&self) -> Resolution {
        self.inner.resolution()
    }

    fn cost(&self) -> String {
        self.inner.cost()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.inner.warnings()
    }

    fn begin(&mut self, target: &mut Target) -> Result<()> {
        self.generator.open_window();
        self.inner.begin(target)
    }

    fn end(&mut self, target: &mut Target) -> Result<f64> {
        let performance = self.inner.end(target)?;
        self.generator.close_window()?;
        self.generator.restart_schedule();
        Ok(performance)
    }

    fn suspend(&mut self) {
        self.generator.suspend();
        self.inner.suspend();
    }

    fn resume(&mut self) {
        self.inner.resume();
        self.generator.resume();
    }

    fn load(&self) -> Option<&Generator> {
        Some(&self.generator)
    }

    fn in_unit(&self, performance: f64) -> f64 {
        self.inner.in_unit(performance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_come_back() {
        for name in [
            "throughput",
            "latency:p50",
            "latency:p99.9",
            "latency:mean",
            "goodput:200µs",
        ] {
            assert_eq!(parse(name).unwrap().unwrap().name(), name);
        }
        assert_eq!(parse("latency").unwrap(), None);
        for name in [
            "latency:99",
            "latency:p100",
            "goodput:",
            "goodput:0",
            "goodput:fast",
        ] {
            assert_eq!(parse(name).unwrap_err().exit_code(), 2, "{name}");
        }
    }

    #[test]
    fn they_need_a_load() {
        let read = parse("latency:p99").unwrap().unwrap();
        let error = check(Some(&read), None).unwrap_err();
        assert!(error.to_string().contains("--load"), "{error}");
        assert!(check(None, None).is_ok());
    }

    #[test]
    fn windows_hold_what_a_percentile_needs() {
        let needs = |name| parse(name).unwrap().unwrap().requests_needed();
        assert!((needs("latency:p99") - 240.0).abs() < 1e-6);
        assert!((needs("latency:p99.9") - 2400.0).abs() < 1e-6);
        assert!((needs("latency:p50") - 240.0).abs() < 1e-6);
    }
}
