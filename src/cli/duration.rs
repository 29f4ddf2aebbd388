//! Times on the command line.

use std::time::Duration;

/// Parses `90s`, `1.5m`, `1h30m`, `2ms`, `500us`; a bare number means seconds.
///
/// # Errors
/// In words, with an example.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let no_time = || format!("'{text}' is not a time; write for example 90s, 10m or 2ms");
    let mut rest = text.trim();
    let bare = rest.parse::<f64>().is_ok();
    let mut seconds = 0.0;
    let mut last_scale = f64::INFINITY;
    while !rest.is_empty() {
        let digits = |c: char| c.is_ascii_digit() || c == '.';
        let (number, after) = rest.split_at(rest.find(|c| !digits(c)).unwrap_or(rest.len()));
        let number: f64 = number.parse().map_err(|_| no_time())?;
        let unit_end = after.find(digits).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let scale = match unit.trim() {
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "" if bare => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "" => return Err(format!("'{text}': the last number has no unit of time")),
            unit => {
                return Err(format!(
                    "'{unit}' is not a unit of time; use us, ms, s, m or h"
                ));
            }
        };
        // `30m1h` and `1m2m` are slips, not times.
        if scale >= last_scale {
            return Err(no_time());
        }
        last_scale = scale;
        seconds += number * scale;
        rest = after;
    }
    match text.trim().is_empty() {
        true => Err(no_time()),
        false => Duration::try_from_secs_f64(seconds).map_err(|_| no_time()),
    }
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
        assert_eq!(parse_duration("10m").unwrap(), Duration::from_secs(600));
        assert_eq!(parse_duration("1h30m").unwrap(), Duration::from_secs(5400));
        assert_eq!(
            parse_duration("1m 2.5s").unwrap(),
            Duration::from_millis(62_500)
        );
        for text in [
            "", "s", "-1s", "1x", "nan", "1e400s", "ten", "1m30", "30m1h", "1s1s", ".",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
