//! How good a resource has to be, and how good it is, as one number.

use crate::app::App;
use crate::app::to_points;
use crate::predict::LANES;
use crate::predict::Lanes;
use std::collections::VecDeque;

/// Figures in order of size as digits of base 100, over the largest such
/// number: 0–1, and the largest figure decides before the second is looked at
/// (HCloud, section 8.3.3; [84, 31] is 8431/9999). Each is cut to a whole
/// 0 … 99.
pub fn encoded(points: &mut [f64]) -> f64 {
    points.sort_by(|a, b| b.total_cmp(a));
    let (mut value, mut most, mut place) = (0.0, 0.0, 1.0);
    for point in points {
        place /= 100.0;
        value += point.clamp(0.0, 99.0).floor() * place;
        most += 99.0 * place;
    }
    if most > 0.0 { value / most } else { 0.0 }
}

/// The quality Q that `app` needs, 0–1; `None` when its profile says nothing.
///
/// The paper encodes `c` and reads it as sensitivity, after `t = 99 − c`. Here
/// both are measured, so that what it does not tolerate, `100 − t`, is encoded.
pub fn quality_needed(app: &App) -> Option<f64> {
    let known = app.tolerated_on(false);
    let mut sensitivity: Vec<f64> = known
        .iter()
        .map(|lane| 100.0 - to_points(app.tolerated[lane]))
        .collect();
    (!sensitivity.is_empty()).then(|| encoded(&mut sensitivity))
}

/// The quality of a place under `pressure` (points) of others: 1 − encoded
/// (Tarcil, section 7.3.2).
pub fn quality_left(pressure: &Lanes<f32>) -> f64 {
    let mut points: [f64; LANES] = pressure.map(f64::from);
    1.0 - encoded(&mut points)
}

/// Observations kept.
const KEPT: usize = 512;

/// The quality that instances of one size turned out to have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QualityHistory {
    seen: VecDeque<f64>,
}

impl QualityHistory {
    pub fn observe(&mut self, quality: f64) {
        if !quality.is_finite() {
            return;
        }
        if self.seen.len() == KEPT {
            self.seen.pop_front();
        }
        self.seen.push_back(quality);
    }

    /// The level that a `share` (0–1) of the instances reach; `None` before any
    /// was seen.
    ///
    /// The paper calls it the 90th percentile; with high quality being good
    /// that only protects jobs when read as what 90 % reach or pass, which is
    /// the 10th percentile of the distribution.
    pub fn reached_by(&self, share: f64) -> Option<f64> {
        let mut sorted: Vec<f64> = self.seen.iter().copied().collect();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let rank = (share.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::Responses;

    #[test]
    fn the_papers_example() {
        assert!((encoded(&mut [31.0, 84.0]) - 8431.0 / 9999.0).abs() < 1e-12);
        assert_eq!(encoded(&mut []), 0.0);
        assert!((encoded(&mut [99.9, 99.0]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_known_is_not_taken_for_harmless() {
        let mut app = App::bare("a", Responses::default());
        assert_eq!(quality_needed(&app), None);
        app.set_scores(3, Some(16.0), None);
        app.set_scores(5, Some(69.0), Some(1.0));
        let needed = quality_needed(&app).unwrap();
        assert!((needed - 8431.0 / 9999.0).abs() < 1e-12, "{needed}");
    }

    #[test]
    fn a_free_place_is_best() {
        assert_eq!(quality_left(&[0.0; LANES]), 1.0);
        let mut pressure = [0.0; LANES];
        pressure[2] = 50.0;
        let half = quality_left(&pressure);
        assert!((half - 0.5).abs() < 1e-3, "{half}");
    }

    #[test]
    fn the_level_that_nine_of_ten_reach() {
        let mut history = QualityHistory::default();
        assert_eq!(history.reached_by(0.9), None);
        for tenth in 1..=10 {
            history.observe(f64::from(tenth) / 10.0);
        }
        // 0.2, 0.3 … 1.0 are nine of ten.
        assert_eq!(history.reached_by(0.9), Some(0.2));
        assert_eq!(history.reached_by(1.0), Some(0.1));
        assert_eq!(history.reached_by(0.1), Some(1.0));
    }
}
