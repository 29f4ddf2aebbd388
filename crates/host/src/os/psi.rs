//! Pressure stall information: how long somebody (`some`), or everybody
//! (`full`), waited for a resource.

use super::ParseError;
use super::text;

/// Microseconds since boot that the line `degree` of a pressure file tells.
pub fn total_us(text: &str, degree: &str) -> Result<f64, ParseError> {
    let line = text::value(text, degree).ok_or_else(|| ParseError::NoLine(degree.into()))?;
    let total = line
        .split(' ')
        .find_map(|word| word.strip_prefix("total="))
        .ok_or_else(|| ParseError::text(line, "has no total"))?;
    text::count(total)
}
