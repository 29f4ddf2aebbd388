//! Demand of the next interval from the same time of earlier days and from now.

/// Days that count (BLOC, section B.6).
const DAYS: usize = 7;

/// A prediction is missed when demand is off by more than this share of it.
const MISS: f64 = 0.05;

/// Demand expected from what `history` says of the time of day and what was
/// seen `now`, weighed by the share of intervals that `history` has missed so
/// far, 0–1 (BLOC, section B.6).
pub fn combine(missed: f64, history: f64, now: f64) -> f64 {
    let weight = match missed {
        a if a < 0.3 => a * a,
        a if a < 0.7 => a,
        _ => 1.0,
    };
    (1.0 - weight) * history + weight * now
}

/// The demand of one application, interval after interval.
///
/// What is counted as missed is what history alone foretold: counted on the
/// combination, a share of 0.7 could never fall again, as from there on only
/// the present is believed, which misses every change.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    per_day: usize,
    /// The last seven days at most, oldest first.
    seen: std::collections::VecDeque<f64>,
    predictions: u32,
    missed: u32,
}

impl Forecast {
    /// With so many intervals a day, at least one.
    pub fn new(per_day: usize) -> Self {
        Forecast {
            per_day: per_day.max(1),
            seen: std::collections::VecDeque::new(),
            predictions: 0,
            missed: 0,
        }
    }

    /// Demand of the interval that has passed; counts whether it was foreseen.
    pub fn observe(&mut self, demand: f64) {
        if let Some(predicted) = self.history() {
            self.predictions += 1;
            self.missed += u32::from((demand - predicted).abs() > MISS * predicted);
        }
        if self.seen.len() == DAYS * self.per_day {
            self.seen.pop_front();
        }
        self.seen.push_back(demand);
    }

    /// Share of intervals that history missed so far, 0–1.
    pub fn missed(&self) -> f64 {
        f64::from(self.missed) / f64::from(self.predictions.max(1))
    }

    /// Demand expected of the next interval: mean over the days of the same
    /// time of day, and now. Without an earlier day, that of now; `None` before
    /// anything was seen.
    pub fn next(&self) -> Option<f64> {
        let now = *self.seen.back()?;
        Some(match self.history() {
            Some(history) => combine(self.missed(), history, now),
            None => now,
        })
    }

    /// Mean over the days of the same time of day as the next interval.
    fn history(&self) -> Option<f64> {
        let earlier = (1..=DAYS)
            .filter_map(|days| self.seen.len().checked_sub(days * self.per_day))
            .filter_map(|at| self.seen.get(at));
        let (sum, count) = earlier.fold((0.0, 0u32), |(sum, count), seen| (sum + seen, count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_by_hand() {
        assert!((combine(0.2, 10.0, 20.0) - 10.4).abs() < 1e-12);
        assert!((combine(0.3, 10.0, 20.0) - 13.0).abs() < 1e-12);
        assert!((combine(0.6, 10.0, 20.0) - 16.0).abs() < 1e-12);
        assert_eq!(combine(0.7, 10.0, 20.0), 20.0);
    }

    #[test]
    fn the_same_time_of_earlier_days() {
        let mut forecast = Forecast::new(2);
        assert_eq!(forecast.next(), None);
        forecast.observe(10.0);
        assert_eq!(forecast.next(), Some(10.0));
        forecast.observe(50.0);
        // A day before the next interval it was 10.
        assert_eq!((forecast.missed(), forecast.next()), (0.0, Some(10.0)));
        forecast.observe(12.0);
        // Missed, so A = 1 and only the present counts; then A = 1/2.
        assert_eq!((forecast.missed(), forecast.next()), (1.0, Some(12.0)));
        forecast.observe(50.0);
        assert_eq!(forecast.missed(), 0.5);
        // History: (10 + 12)/2, weighed with the 50 of now by a half.
        assert_eq!(forecast.next(), Some(0.5 * 11.0 + 0.5 * 50.0));
    }

    #[test]
    fn only_seven_days_count() {
        let mut forecast = Forecast::new(1);
        for day in 0..20 {
            forecast.observe(f64::from(day));
        }
        assert_eq!(forecast.seen.len(), 7);
        assert_eq!(forecast.seen[0], 13.0);
    }
}
