//! Errors of a method over recorded cases.

use super::Case;
use super::methods::Method;
use jostle_statistics::rank_correlation;
use serde::Serialize;

/// Absolute errors in points, and what else is asked of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scores {
    pub cases: usize,
    /// Absent for what ranks and predicts no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Errors>,
    /// Spearman's, between predicted and measured; absent where either is the
    /// same for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank_correlation: Option<f64>,
    /// Percent of the measurements inside the 95 % interval, and the mean width
    /// of it in points; of the default method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub covered_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<f64>,
}

/// Of absolute errors in points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub worst: f64,
    /// Percent of the cases below 5, 10 and 20 points.
    pub below_5: f64,
    pub below_10: f64,
    pub below_20: f64,
}

impl Scores {
    /// Of `method` over the `cases` that it says something about; `None` where
    /// there is none.
    pub(super) fn of(method: Method, cases: &[Case]) -> Option<Scores> {
        let predicted = |case: &Case| case.predicted.get(method.name()).copied();
        let both: Vec<(f64, f64)> = cases
            .iter()
            .filter_map(|case| Some((predicted(case)?, case.measured)))
            .collect();
        let scores = Scores::of_pairs(&both)?;
        let percent = |count: usize| 100.0 * count as f64 / both.len() as f64;
        let default = method == Method::DEFAULT;
        let inside = |case: &&Case| (case.ci95[0]..=case.ci95[1]).contains(&case.measured);
        let widths = cases.iter().map(|case| case.ci95[1] - case.ci95[0]);
        Some(Scores {
            errors: scores.errors.filter(|_| method != Method::L1),
            covered_percent: default.then(|| percent(cases.iter().filter(inside).count())),
            width: default.then(|| 100.0 * widths.sum::<f64>() / both.len() as f64),
            ..scores
        })
    }

    /// Of two numbers for each of several performances; `None` without any.
    pub(super) fn of_pairs(both: &[(f64, f64)]) -> Option<Scores> {
        (!both.is_empty()).then(|| Scores {
            cases: both.len(),
            errors: Some(Errors::of(both)),
            rank_correlation: rank_correlation(both),
            covered_percent: None,
            width: None,
        })
    }
}

impl Errors {
    fn of(both: &[(f64, f64)]) -> Errors {
        let errors = both.iter().map(|(a, b)| (a - b).abs() * 100.0);
        let mut errors: Vec<f64> = errors.collect();
        errors.sort_unstable_by(f64::total_cmp);
        let count = errors.len();
        let at = |share: f64| errors[((share * count as f64).ceil() as usize).clamp(1, count) - 1];
        let below = |points: f64| {
            100.0 * errors.iter().filter(|error| **error < points).count() as f64 / count as f64
        };
        Errors {
            mean: errors.iter().sum::<f64>() / count as f64,
            p50: at(0.5),
            p90: at(0.9),
            worst: errors[count - 1],
            below_5: below(5.0),
            below_10: below(10.0),
            below_20: below(20.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_the_table() {
        let errors = Errors::of(&[(0.5, 0.5), (0.5, 0.54), (0.5, 0.44), (1.0, 0.7)]);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{errors:?}");
        close(errors.mean, 10.0);
        close(errors.p50, 4.0);
        close(errors.p90, 30.0);
        close(errors.worst, 30.0);
        close(errors.below_5, 50.0);
        close(errors.below_10, 75.0);
        close(errors.below_20, 75.0);
    }

    #[test]
    fn a_measurement_is_covered_inside_the_interval() {
        let case = |measured: f64| Case {
            placement: jostle_profile::pairs::GroupPlacement::OwnCpus,
            app: "a".into(),
            beside: vec!["b".into()],
            measured,
            measured_ci95: [measured - 0.2, measured + 0.2],
            predicted: [(Method::DEFAULT.name(), 0.8)].into(),
            ci95: [0.7, 0.9],
            why: Vec::new(),
        };
        let cases = [0.6, 0.7, 0.8, 0.95].map(case);
        let found = Scores::of(Method::DEFAULT, &cases).unwrap();
        assert_eq!(found.covered_percent, Some(50.0));
        assert!((found.width.unwrap() - 20.0).abs() < 1e-9, "{found:?}");
    }
}
