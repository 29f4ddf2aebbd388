//! `--floor`: the performance below which every source stops. Here is what it
//! means; [`rule`] tells a loss from noise, and `live` watches and parks.

pub mod rule;

use jostle_load::parse_bound;
use jostle_profile::Direction;
use jostle_profile::MetricFacts;
use std::fmt;

/// A floor as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Floor {
    /// Fraction of the target's performance without interference.
    OfBaseline(f64),
    /// `>NUMBER`: a rate that is kept at least, in the metric's unit.
    AtLeast(f64),
    /// `<NUMBER`: a latency or run time that is not exceeded, in the metric's unit.
    AtMost(f64),
    /// `<5ms`: the same with a unit of its own, seconds.
    WithinSeconds(f64),
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Floor::OfBaseline(fraction) => {
                let percent = (fraction * 1e8).round() / 1e6;
                write!(f, "{percent}%")
            }
            Floor::AtLeast(value) => write!(f, ">{value}"),
            Floor::AtMost(value) => write!(f, "<{value}"),
            Floor::WithinSeconds(seconds) => {
                let bound = std::time::Duration::from_secs_f64(*seconds);
                write!(f, "<{bound:?}")
            }
        }
    }
}

/// Reads `90%`, `>1200`, `>1.2k` or `<5ms`.
///
/// # Errors
/// In words, with the fix.
pub fn parse(text: &str) -> Result<Floor, String> {
    let usage = "write 90% (of the baseline), >1200 (at least, in the metric's unit) or <5ms (at \
                 most)";
    let text = text.trim();
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.trim().parse().map_err(|_| usage.to_string())?;
        return match (1.0..100.0).contains(&percent) {
            true => Ok(Floor::OfBaseline(percent / 100.0)),
            false => Err(format!("{percent} %: give 1 to 99.9 % of the baseline")),
        };
    }
    let (sign, rest) = match text.chars().next() {
        Some(sign @ ('<' | '>')) => (sign, text[1..].trim()),
        _ => return Err(usage.into()),
    };
    let number = number(rest);
    match (sign, number) {
        ('>', Some(value)) => Ok(Floor::AtLeast(value)),
        ('<', Some(value)) => Ok(Floor::AtMost(value)),
        ('<', None) => match parse_bound(rest) {
            Ok(bound) => Ok(Floor::WithinSeconds(bound.as_secs_f64())),
            Err(_) => Err(usage.into()),
        },
        _ => Err(usage.into()),
    }
}

/// A number above 0, with k, M or G for thousands, millions or billions.
fn number(text: &str) -> Option<f64> {
    let scales = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
    let scaled = scales
        .iter()
        .find_map(|(suffix, scale)| Some((text.strip_suffix(suffix)?, *scale)));
    let (digits, scale) = scaled.unwrap_or((text, 1.0));
    let value: f64 = digits.trim().parse().ok()?;
    (value.is_finite() && value > 0.0).then_some(value * scale)
}

impl Floor {
    /// The lowest performance allowed, higher being better (a latency inverted),
    /// where performance without interference is `baseline`.
    ///
    /// # Errors
    /// In words, where the floor does not fit the metric.
    pub fn performance(self, baseline: f64, metric: &MetricFacts) -> Result<f64, String> {
        self.check(metric)?;
        Ok(match self {
            Floor::OfBaseline(fraction) => fraction * baseline,
            Floor::AtLeast(value) => value,
            Floor::AtMost(value) | Floor::WithinSeconds(value) => 1.0 / value,
        })
    }

    /// Whether the floor fits the metric.
    ///
    /// # Errors
    /// In words, with the fix.
    pub fn check(self, metric: &MetricFacts) -> Result<(), String> {
        let MetricFacts {
            name,
            unit,
            direction,
            ..
        } = metric;
        let wrong = match (self, direction) {
            (Floor::AtLeast(_), Direction::Lower) => {
                format!("{name} is better when lower; write --floor '<…'")
            }
            (Floor::AtMost(_) | Floor::WithinSeconds(_), Direction::Higher) => {
                format!("{name} is better when higher; write --floor '>…' or '90%'")
            }
            (Floor::WithinSeconds(_), Direction::Lower) if unit != "seconds" => {
                format!("{name} is in {unit}; write a number in that unit, without another unit")
            }
            _ => return Ok(()),
        };
        Err(format!("--floor '{self}': {wrong}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(unit: &str, direction: Direction) -> MetricFacts {
        MetricFacts {
            name: "m".into(),
            unit: unit.into(),
            direction,
            chosen_because: String::new(),
            window_rule: None,
            resolution: None,
            cost: None,
            load: None,
            baseline: None,
            unknown: Default::default(),
        }
    }

    #[test]
    fn floors_are_read_and_come_back() {
        for text in ["90%", "99.5%", ">1200", "<5", "<5ms", "<1.5s"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse(" > 1.2k "), Ok(Floor::AtLeast(1200.0)));
        assert_eq!(parse("90 %"), Ok(Floor::OfBaseline(0.9)));
        for text in [
            "", "90", "100%", "0%", "-5%", ">0", ">5ms", "<", "<fast", "p99<5ms",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_floor_is_in_the_unit_and_direction_of_the_metric() {
        let rate = metric("answers per second", Direction::Higher);
        let latency = metric("seconds", Direction::Lower);
        let of = |text: &str, metric| parse(text).unwrap().performance(200.0, metric);
        assert_eq!(of("90%", &rate), Ok(180.0));
        assert_eq!(of(">150", &rate), Ok(150.0));
        assert_eq!(of("<5ms", &latency), Ok(200.0));
        assert_eq!(of("<0.01", &latency), Ok(100.0));
        for (text, metric) in [("<5ms", &rate), ("<5", &rate), (">5", &latency)] {
            let wrong = of(text, metric).unwrap_err();
            assert!(
                wrong.contains("--floor") && wrong.contains("write"),
                "{wrong}"
            );
        }
        let printed = metric("frames", Direction::Lower);
        assert!(of("<5ms", &printed).unwrap_err().contains("in frames"));
        assert_eq!(of("<5", &printed), Ok(0.2));
    }
}
