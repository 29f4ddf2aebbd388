//! Times on the command line.

use std::time::Duration;

/// Parses `90s`, `1.5m`, `2ms`, `500us`, `1h`; a bare number means seconds.
///
/// # Errors
/// In words, with an example.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic() || c == 'µ')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(format!(
                "'{unit}' is not a unit of time; use us, ms, s, m or h"
            ));
        }
    };
    number
        .trim()
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && *number >= 0.0)
        .and_then(|number| Duration::try_from_secs_f64(number * scale).ok())
        .ok_or_else(|| format!("'{text}' is not a time; write for example 90s or 2ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_nonsense_is_not() {
        assert_eq!(parse_duration("90s").unwrap(), Duration::from_secs(90));
        assert_eq!(parse_duration("1.5m").unwrap(), Duration::from_secs(90));
        assert_eq!(parse_duration("2ms").unwrap(), Duration::from_millis(2));
        assert_eq!(parse_duration("500us").unwrap(), Duration::from_micros(500));
        assert_eq!(parse_duration("7").unwrap(), Duration::from_secs(7));
        for text in ["", "s", "-1s", "1x", "nan", "1e400s", "ten"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
