//! How straight a line is.

/// A least-squares line, and the distance from the line that was wished for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    pub slope: f64,
    pub intercept: f64,
    /// 1 − residual ÷ total sum of squares; 0 when nothing varies.
    pub r_squared: f64,
    /// Largest |achieved − requested|, and at which requested value.
    pub worst: f64,
    pub worst_at: f64,
}

/// Fits `points`, (requested, achieved) in percent, two or more with different
/// requests.
pub fn fit(points: &[(f64, f64)]) -> Fit {
    let n = points.len() as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / n;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / n;
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points
            .iter()
            .map(|point| of(point.0 - mean_x, point.1 - mean_y))
            .sum()
    };
    let slope = sum(&|x, y| x * y) / sum(&|x, _| x * x);
    let total = sum(&|_, y| y * y);
    let residual = sum(&|x, y| (y - slope * x).powi(2));
    let (worst_at, worst) = points
        .iter()
        .map(|(requested, achieved)| (*requested, (achieved - requested).abs()))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((0.0, 0.0));
    Fit {
        slope,
        intercept: mean_y - slope * mean_x,
        r_squared: match total > 0.0 {
            true => 1.0 - residual / total,
            false => 0.0,
        },
        worst,
        worst_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn levels(of: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..=10)
            .map(|step| (f64::from(step) * 10.0, of(f64::from(step) * 10.0)))
            .collect()
    }

    #[test]
    fn a_true_dial_is_perfect() {
        let fit = fit(&levels(|x| x));
        assert!((fit.slope - 1.0).abs() < 1e-12 && fit.intercept.abs() < 1e-9);
        assert_eq!(fit.worst, 0.0);
        assert!((fit.r_squared - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_saturating_dial_is_found_out() {
        let fit = fit(&levels(|x| (2.0 * x).min(60.0)));
        assert!(fit.r_squared < 0.9, "{fit:?}");
        assert_eq!((fit.worst, fit.worst_at), (40.0, 100.0));
    }

    #[test]
    fn a_straight_line_may_still_be_the_wrong_one() {
        let fit = fit(&levels(|x| x / 2.0));
        assert!((fit.r_squared - 1.0).abs() < 1e-12);
        assert_eq!((fit.worst, fit.worst_at), (50.0, 100.0));
    }

    #[test]
    fn a_dead_dial_explains_nothing() {
        assert_eq!(fit(&levels(|_| 7.0)).r_squared, 0.0);
    }

    proptest! {
        #[test]
        fn a_line_is_recovered(slope in 0.1f64..3.0, intercept in -20.0f64..20.0) {
            let fit = fit(&levels(|x| slope * x + intercept));
            prop_assert!((fit.slope - slope).abs() < 1e-9);
            prop_assert!((fit.intercept - intercept).abs() < 1e-6);
            prop_assert!(fit.r_squared > 1.0 - 1e-9);
        }
    }
}
