//! What `jostle load` tells, for people and as JSON.

use crate::amount::Latency;
use crate::amount::LatencyTarget;
use crate::amount::Percentile;
use crate::capacity::Capacity;
use crate::capacity::Trial;
use crate::failure::Failures;
use crate::generator::Generator;
use crate::spec::Pace;
use crate::window::Window;
use jostle_profile::ArrivalsFact;
use jostle_profile::LoadFacts;
use jostle_profile::cpulist::format_list;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Serialize)]
struct Goodput {
    bound_seconds: f64,
    per_second: f64,
    /// Of all requests that were due.
    percent: f64,
    /// Whether the percentile of the target lies within the bound.
    met: bool,
}

/// Later than the intended time, through the generator's own fault.
#[derive(Clone, Copy, Debug, Serialize)]
struct TimingError {
    p50_seconds: f64,
    p99_seconds: f64,
    max_seconds: f64,
}

/// What a load came to.
#[derive(Clone, Debug, Serialize)]
pub struct LoadOutcome {
    load: LoadFacts,
    duration_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_per_second: Option<f64>,
    /// Successes per second.
    achieved_per_second: f64,
    requests_due: u64,
    successes: u64,
    /// Successes that found no value under their key.
    missing: u64,
    failed: u64,
    failures: Failures,
    /// From the intended time; failures count as slower than all successes.
    latency: BTreeMap<String, Latency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    goodput: Option<Goodput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timing_error: Option<TimingError>,
}

const SHOWN: [Percentile; 4] = [
    Percentile::P50,
    Percentile::P90,
    Percentile::P99,
    Percentile::P999,
];

impl LoadOutcome {
    pub fn new(
        generator: &Generator,
        pace: Pace,
        window: &Window,
        slo: Option<LatencyTarget>,
    ) -> LoadOutcome {
        let mut latency: BTreeMap<String, Latency> = SHOWN
            .iter()
            .filter_map(|&at| Some((at.to_string(), window.percentile(at)?)))
            .collect();
        latency.extend(window.max().map(|max| ("max".to_string(), max)));
        latency.extend(window.mean().map(|mean| ("mean".to_string(), mean)));
        LoadOutcome {
            load: generator.facts(),
            duration_seconds: window.seconds(),
            requested_per_second: match pace {
                Pace::Open(rate) => Some(rate),
                Pace::Closed => None,
            },
            achieved_per_second: window.throughput(),
            requests_due: window.due,
            successes: window.answered,
            missing: window.missing,
            failed: window.failures.total(),
            failures: window.failures.clone(),
            latency,
            goodput: slo.map(|slo| goodput(window, slo)),
            timing_error: timing(window),
        }
    }

    /// Whether the latency target was met; `None` when there was none.
    pub fn slo_met(&self) -> Option<bool> {
        self.goodput.map(|goodput| goodput.met)
    }

    /// For people.
    pub fn text(&self) -> String {
        let load = &self.load;
        let mut text = format!(
            "{}: {} connections{}, {}, {:.1} s\n",
            load.url,
            load.connections,
            match load.pipeline {
                1 => String::new(),
                depth => format!(" × {depth} requests"),
            },
            match load.arrivals {
                ArrivalsFact::Poisson => "Poisson arrivals",
                ArrivalsFact::Uniform => "uniform arrivals",
                ArrivalsFact::Closed => "closed loop",
            },
            self.duration_seconds
        );
        let mut row = |name: &str, words: String| text += &format!("{name:<11}{words}\n");
        let (asked, from) = match self.requested_per_second {
            Some(rate) => (format!("{} asked for, ", per_second(rate)), ""),
            None => (
                String::new(),
                "   (from the sending: a slow answer delays the next request)",
            ),
        };
        let achieved = per_second(self.achieved_per_second);
        row("rate", format!("{asked}{achieved} answered"));
        let latency: Vec<String> = ["p50", "p90", "p99", "p99.9", "max"]
            .iter()
            .filter_map(|&at| Some(format!("{at} {}", words(*self.latency.get(at)?))))
            .collect();
        row("latency", latency.join("   ") + from);
        if let Some(goodput) = &self.goodput {
            let rate = per_second(goodput.per_second);
            let (bound, percent) = (time(goodput.bound_seconds), goodput.percent);
            let words = format!("{rate} within {bound} ({percent:.2} % of the requests)");
            row("goodput", words);
        }
        let failures = match self.failed {
            0 => "none".into(),
            failed => format!(
                "{} ({:.3} % of {} requests)",
                self.failures,
                failed as f64 / self.requests_due.max(1) as f64 * 100.0,
                self.requests_due
            ),
        };
        row("failures", failures);
        if let Some(error) = &self.timing_error {
            let sent = format!(
                "sent p50 {}   p99 {}   max {} after the intended time",
                time(error.p50_seconds),
                time(error.p99_seconds),
                time(error.max_seconds)
            );
            row("timing", sent);
        }
        let (percent, cpus) = (load.generator_cpu_percent, &load.generator_cpus);
        let cpus = format_list(cpus);
        row(
            "generator",
            format!("{percent:.0} % of one CPU, on CPU {cpus}"),
        );
        text
    }
}

fn words(latency: Latency) -> String {
    match latency.at_least {
        true => format!("≥ {}", time(latency.seconds)),
        false => time(latency.seconds),
    }
}

fn goodput(window: &Window, slo: LatencyTarget) -> Goodput {
    let within = window.within(slo.bound);
    Goodput {
        bound_seconds: slo.bound.as_secs_f64(),
        per_second: within as f64 / window.seconds(),
        percent: within as f64 / window.due.max(1) as f64 * 100.0,
        met: window
            .percentile(slo.percentile)
            .is_some_and(|it| slo.is_met_by(it)),
    }
}

fn timing(window: &Window) -> Option<TimingError> {
    Some(TimingError {
        p50_seconds: window.lateness(Percentile::P50)?,
        p99_seconds: window.lateness(Percentile::P99)?,
        max_seconds: window.worst_lateness()?,
    })
}

/// One second of a load, on one line.
pub fn line(window: &Window) -> String {
    let latency = |at| window.percentile(at).map_or_else(|| "-".to_string(), words);
    let failed = match window.failures.total() {
        0 => String::new(),
        _ => format!("   failed: {}", window.failures),
    };
    format!(
        "{} answered   p50 {}   p99 {}{failed}",
        per_second(window.throughput()),
        latency(Percentile::P50),
        latency(Percentile::P99)
    )
}

/// One rate of a search, on one line.
pub fn trial_line(trial: &Trial, target: LatencyTarget) -> String {
    let latency = Latency {
        seconds: trial.latency_seconds,
        at_least: trial.at_least,
    };
    let (verdict, times) = match trial.met {
        true => ("met   ", trial.windows_met),
        false => ("missed", trial.windows - trial.windows_met),
    };
    format!(
        "{:>12}   {} {:<10} {verdict} in {times} of {} windows",
        per_second(trial.rate_per_second),
        target.percentile,
        words(latency),
        trial.windows
    )
}

/// The search as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct CapacityOutcome<'a> {
    pub url: String,
    pub connections: usize,
    pub pipeline: usize,
    #[serde(flatten)]
    pub capacity: &'a Capacity,
}

/// The search for people: the curve, then the capacity.
pub fn capacity_text(found: &Capacity, target: LatencyTarget) -> String {
    let trials = found.curve.iter();
    let lines = trials.map(|trial| trial_line(trial, target) + "\n");
    let missed = found.missed_at_per_second;
    let missed = missed.map(|missed| format!(" (missed at {})", per_second(missed)));
    lines.collect::<String>()
        + &format!(
            "capacity   {} at {target}{}, found in {:.1} s\n",
            per_second(found.rate_per_second),
            missed.unwrap_or_default(),
            found.search_seconds
        )
}

fn per_second(rate: f64) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{:.3} M/s", rate / 1e6),
        rate if rate >= 1e5 => format!("{:.1} k/s", rate / 1e3),
        rate if rate >= 1e4 => format!("{:.2} k/s", rate / 1e3),
        rate if rate >= 100.0 => format!("{rate:.0}/s"),
        rate => format!("{rate:.1}/s"),
    }
}

fn time(seconds: f64) -> String {
    let time = Duration::from_secs_f64(seconds.clamp(0.0, 1e6));
    match seconds {
        s if s < 1e-6 => format!("{} ns", time.as_nanos()),
        s if s < 1e-5 => format!("{:.1} µs", s * 1e6),
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1e-1 => format!("{:.2} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!(time(0.0000005), "500 ns");
        assert_eq!(time(0.0000815), "82 µs");
        assert_eq!(time(0.0123), "12.30 ms");
        assert_eq!(time(2.0), "2.00 s");
        assert_eq!(per_second(52_345.0), "52.34 k/s");
        assert_eq!(per_second(12.0), "12.0/s");
    }
}
