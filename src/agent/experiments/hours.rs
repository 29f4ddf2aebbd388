//! Times of the day, as `22:00-06:00`.

/// From one minute of the day to before another; over midnight where the second is
/// the smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    from: u32,
    to: u32,
}

const DAY: u32 = 24 * 60;

impl Hours {
    pub fn contain(self, minute: u32) -> bool {
        match self.from <= self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        }
    }
}

/// # Errors
/// In words, what is wrong with it.
pub fn parse(text: &str) -> Result<Hours, String> {
    let wrong = || format!("'{text}' are no hours; write for example \"22:00-06:00\"");
    let minute = |part: &str| -> Option<u32> {
        let (hours, minutes) = part.trim().split_once(':')?;
        let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
        let minute = hours * 60 + minutes;
        (minutes < 60 && minute <= DAY).then_some(minute)
    };
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    match (minute(from), minute(to)) {
        (Some(from), Some(to)) if from != to && from < DAY => Ok(Hours { from, to }),
        _ => Err(wrong()),
    }
}

/// Whether `minute` of the day is within any of `hours`; always where there are none.
pub fn allow(hours: &[String], minute: Option<u32>) -> bool {
    if hours.is_empty() {
        return true;
    }
    let Some(minute) = minute else {
        return false;
    };
    hours
        .iter()
        .filter_map(|text| parse(text).ok())
        .any(|hours| hours.contain(minute))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_may_go_over_midnight() {
        let night = parse("22:00-06:30").unwrap();
        let at = |hours: u32, minutes: u32| night.contain(hours * 60 + minutes);
        assert!(at(22, 0) && at(0, 0) && at(6, 29));
        assert!(!at(6, 30) && !at(21, 59) && !at(12, 0));
        let day = parse("9:00-24:00").unwrap();
        assert!(day.contain(9 * 60) && day.contain(DAY - 1) && !day.contain(0));
        for wrong in [
            "",
            "22:00",
            "22-6",
            "25:00-06:00",
            "22:60-23:00",
            "6:00-6:00",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(allow(&[], None));
        assert!(!allow(&["22:00-06:00".into()], None));
    }
}
