//! Numbers that say what is wrong with them. The reader of a scenario adds the
//! file, the line and the key.

use serde::Deserialize;
use std::fmt;

/// A finite number above 0.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Positive(pub f64);

/// A finite number, 0 or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct NotNegative(pub f64);

/// 0–100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Percent(pub f64);

/// Strictly between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Fraction(pub f64);

/// A whole number, 1 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "i64")]
pub struct Count(pub usize);

impl Percent {
    /// As a fraction, 0–1.
    pub fn fraction(self) -> f64 {
        self.0 / 100.0
    }
}

/// Most of anything that is counted here.
const MOST: i64 = 10_000_000;

/// A value that is refused, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check(ok: bool, value: impl fmt::Display, write: &str) -> Result<(), Refused> {
    match ok {
        true => Ok(()),
        false => Err(Refused(format!("is {value}; write {write}"))),
    }
}

impl TryFrom<f64> for Positive {
    type Error = Refused;

    fn try_from(value: f64) -> Result<Self, Refused> {
        let ok = value.is_finite() && value > 0.0;
        check(ok, value, "a number above 0").map(|()| Positive(value))
    }
}

impl TryFrom<f64> for NotNegative {
    type Error = Refused;

    fn try_from(value: f64) -> Result<Self, Refused> {
        let ok = value.is_finite() && value >= 0.0;
        check(ok, value, "a number of 0 or more").map(|()| NotNegative(value))
    }
}

impl TryFrom<f64> for Percent {
    type Error = Refused;

    fn try_from(value: f64) -> Result<Self, Refused> {
        let ok = (0.0..=100.0).contains(&value);
        check(ok, value, "a percentage from 0 to 100").map(|()| Percent(value))
    }
}

impl TryFrom<f64> for Fraction {
    type Error = Refused;

    fn try_from(value: f64) -> Result<Self, Refused> {
        let ok = value > 0.0 && value < 1.0;
        check(ok, value, "a fraction between 0 and 1").map(|()| Fraction(value))
    }
}

impl TryFrom<i64> for Count {
    type Error = Refused;

    fn try_from(value: i64) -> Result<Self, Refused> {
        let write = "a whole number from 1 to 10,000,000";
        check((1..=MOST).contains(&value), value, write).map(|()| Count(value as usize))
    }
}
