//! Values that are checked as they are read: `deserialize_with` these, and the
//! error names the value, what to write instead, and the line.

use crate::error::Problem;
use jostle_schedule::parse_memory;
use serde::Deserialize;
use serde::Deserializer;
use serde::de::Error;
use std::fmt::Display;

/// The largest count that a scenario may ask for.
const MOST: i64 = 10_000_000;

fn checked<'de, D, T>(from: D, valid: fn(&T) -> bool, expected: &str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Display,
{
    let value = T::deserialize(from)?;
    match valid(&value) {
        true => Ok(value),
        false => Err(D::Error::custom(Problem::out_of_range(value, expected))),
    }
}

/// A finite number above 0.
pub fn positive<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let valid = |value: &f64| value.is_finite() && *value > 0.0;
    checked(from, valid, "a number above 0")
}

/// A finite number, 0 or more.
pub fn not_negative<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let valid = |value: &f64| value.is_finite() && *value >= 0.0;
    checked(from, valid, "a number of 0 or more")
}

/// 0–100.
pub fn percentage<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let valid = |value: &f64| (0.0..=100.0).contains(value);
    checked(from, valid, "a percentage from 0 to 100")
}

/// 0–100 in the file, 0–1 as a value.
pub fn percent<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(percentage(from)? / 100.0)
}

/// Strictly between 0 and 1.
pub fn fraction<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let valid = |value: &f64| *value > 0.0 && *value < 1.0;
    checked(from, valid, "a fraction between 0 and 1")
}

/// A rate per hour in the file, per second as a value.
pub fn per_hour<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(not_negative(from)? / 3600.0)
}

/// A factor; one below 1 counts as 1.
pub fn factor<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(positive(from)?.max(1.0))
}

/// Two numbers above 0, the lower one first.
pub fn interval<'de, D: Deserializer<'de>>(from: D) -> Result<[f64; 2], D::Error> {
    let [least, most] = <[f64; 2]>::deserialize(from)?;
    match least > 0.0 && least <= most && most.is_finite() {
        true => Ok([least, most]),
        false => Err(D::Error::custom(Problem::Interval { least, most })),
    }
}

/// A whole number, 1 or more.
pub fn count<'de, D: Deserializer<'de>, N: TryFrom<i64>>(from: D) -> Result<N, D::Error> {
    let expected = "a whole number from 1 to 10,000,000";
    let value = checked(from, |value| (1..=MOST).contains(value), expected)?;
    N::try_from(value).map_err(|_| D::Error::custom(Problem::out_of_range(value, expected)))
}

/// A size such as `64GiB`, in bytes.
pub fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    parse_memory(&String::deserialize(from)?).map_err(D::Error::custom)
}

pub fn some_positive<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    positive(from).map(Some)
}

pub fn some_not_negative<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    not_negative(from).map(Some)
}

pub fn some_fraction<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    fraction(from).map(Some)
}

pub fn some_count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    count(from).map(Some)
}
