//! Rates, percentiles and latency targets, from words.

use crate::error::ParseError;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Above this one thread cannot even draw the send times.
const MAX_RATE: f64 = 1e8;

/// Parses `50000`, `50000/s`, `50k/s`, `1.5M/s`, `600/m` into requests per
/// second.
///
/// # Errors
/// When it is none, or outside of what one thread can send.
pub fn parse_rate(text: &str) -> Result<f64, ParseError> {
    let wrong = || ParseError::Rate(text.into());
    let (amount, seconds) = match text.split_once('/') {
        None => (text, 1.0),
        Some((amount, "s")) => (amount, 1.0),
        Some((amount, "m" | "min")) => (amount, 60.0),
        Some(_) => return Err(wrong()),
    };
    let (number, factor) = match amount.chars().last() {
        Some('k' | 'K') => (&amount[..amount.len() - 1], 1e3),
        Some('M') => (&amount[..amount.len() - 1], 1e6),
        _ => (amount, 1.0),
    };
    let rate = number.parse::<f64>().map_err(|_| wrong())? * factor / seconds;
    match rate > 0.0 && rate <= MAX_RATE {
        true => Ok(rate),
        false => Err(ParseError::RateRange(text.into())),
    }
}

/// Parses a bound on a latency: `200us`, `1ms`, `1s`; above 0, at most 100 s.
///
/// # Errors
/// When it is none, or outside of that range.
pub fn parse_bound(text: &str) -> Result<Duration, ParseError> {
    let wrong = || ParseError::Bound(text.into());
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(wrong()),
    };
    let seconds = number.parse::<f64>().map_err(|_| wrong())? * scale;
    match (1e-6..=100.0).contains(&seconds) {
        true => Ok(Duration::from_nanos((seconds * 1e9).round() as u64)),
        false => Err(ParseError::BoundRange(text.into())),
    }
}

/// A percentile, above 0 and below 100. Parses `p50`, `p99`, `p99.9`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile(f64);

impl Percentile {
    pub const P50: Percentile = Percentile(50.0);
    pub const P90: Percentile = Percentile(90.0);
    pub const P99: Percentile = Percentile(99.0);
    pub const P999: Percentile = Percentile(99.9);

    /// Share of the requests at or below it, 0–1.
    pub fn share(self) -> f64 {
        self.0 / 100.0
    }

    /// Requests that a reading of it needs: at least 20 beyond it.
    pub fn samples_needed(self) -> f64 {
        20.0 / (1.0 - self.share())
    }
}

impl FromStr for Percentile {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Percentile, ParseError> {
        text.strip_prefix('p')
            .and_then(|number| number.parse().ok())
            .filter(|number| *number > 0.0 && *number < 100.0)
            .map(Percentile)
            .ok_or_else(|| ParseError::Percentile(text.into()))
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// A latency target: this percentile within this bound. Parses `p99:1ms`; a
/// bound alone means p99.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyTarget {
    pub percentile: Percentile,
    pub bound: Duration,
}

impl LatencyTarget {
    /// Whether `latency` meets the bound.
    pub fn is_met_by(&self, latency: Latency) -> bool {
        !latency.at_least && latency.seconds <= self.bound.as_secs_f64()
    }
}

impl FromStr for LatencyTarget {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<LatencyTarget, ParseError> {
        let (percentile, bound) = match text.split_once(':') {
            Some((percentile, bound)) => (percentile.parse()?, bound),
            None => (Percentile::P99, text),
        };
        let bound = parse_bound(bound)?;
        Ok(LatencyTarget { percentile, bound })
    }
}

impl fmt::Display for LatencyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:?}", self.percentile, self.bound)
    }
}

/// A latency that was read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    pub seconds: f64,
    /// True when it lies among requests that failed or were not answered in
    /// time: then it is at least this long.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_percentiles_are_read_and_nonsense_is_not() {
        assert_eq!(parse_rate("50000/s"), Ok(50_000.0));
        assert_eq!(parse_rate("50k/s"), Ok(50_000.0));
        assert_eq!(parse_rate("1.5M"), Ok(1_500_000.0));
        assert_eq!(parse_rate("600/m"), Ok(10.0));
        for text in [
            "", "/s", "0", "-5", "nan", "inf", "5/h", "1e30", "k", "5/s/s",
        ] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        assert_eq!("p99.9".parse::<Percentile>().unwrap(), Percentile::P999);
        assert_eq!(Percentile::P999.to_string(), "p99.9");
        let target = "p99.9:1.5ms".parse::<LatencyTarget>().unwrap();
        assert_eq!(target.to_string(), "p99.9:1.5ms");
        assert_eq!(
            "1ms".parse::<LatencyTarget>().unwrap().percentile,
            Percentile::P99
        );
        for text in [
            "p99", "p99:", "p99:0ms", "p99:1h", "99:1ms", "p99:-1ms", "1000s",
        ] {
            assert!(text.parse::<LatencyTarget>().is_err(), "{text}");
        }
        for text in ["99", "p", "p0", "p100", "pnan"] {
            assert!(text.parse::<Percentile>().is_err(), "{text}");
        }
    }
}
