//! How a number differs between applications.

use serde::Deserialize;
use serde::Serialize;

/// Fewer applications than this say nothing of others.
pub(super) const LEAST: usize = 4;

/// A mean and the standard deviation around it of an application drawn at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    pub mean: f64,
    pub sd: f64,
}

impl Spread {
    /// Of values with their own variances: mean and spread of what an error-free
    /// measurement would show (DerSimonian and Laird), with what is open about
    /// the mean. `None` for fewer than [`LEAST`].
    pub(super) fn of(values: &[(f64, f64)]) -> Option<Spread> {
        if values.len() < LEAST {
            return None;
        }
        let floor = |variance: f64| variance.max(1e-6);
        let weights: Vec<f64> = values.iter().map(|(_, v)| 1.0 / floor(*v)).collect();
        let sum: f64 = weights.iter().sum();
        let squares: f64 = weights.iter().map(|w| w * w).sum();
        let pairs = || values.iter().zip(&weights);
        let fixed = pairs().map(|((value, _), w)| value * w).sum::<f64>() / sum;
        let q: f64 = pairs()
            .map(|((value, _), w)| w * (value - fixed).powi(2))
            .sum();
        let between = ((q - (values.len() - 1) as f64) / (sum - squares / sum)).max(0.0);
        let weight = |variance: f64| 1.0 / (floor(variance) + between);
        let sum: f64 = values.iter().map(|(_, v)| weight(*v)).sum();
        let mean = values.iter().map(|(x, v)| x * weight(*v)).sum::<f64>() / sum;
        Some(Spread {
            mean,
            sd: (between + 1.0 / sum).sqrt(),
        })
    }

    /// `value` with its variance, drawn towards this.
    ///
    /// Applications differ by more than a normal distribution has: most lose
    /// nothing on a resource, a few much. A value that is far off by more than its
    /// own error explains shows that it is one of the few, and is drawn as little
    /// as that distance warrants (positive-part James–Stein).
    pub(super) fn draws(&self, value: f64, variance: f64) -> (f64, f64) {
        let far = (value - self.mean).powi(2) - variance;
        weighed(value, variance, self.mean, self.sd.powi(2).max(far))
    }

    pub(super) fn rounded(self) -> Spread {
        let round = |x: f64| (x * 1e4).round() / 1e4;
        Spread {
            mean: round(self.mean),
            sd: round(self.sd),
        }
    }
}

/// Mean of `value` and `mean` by their variances, and its own.
fn weighed(value: f64, variance: f64, mean: f64, between: f64) -> (f64, f64) {
    let (own, theirs) = (1.0 / variance.max(1e-9), 1.0 / between.max(1e-9));
    let sum = own + theirs;
    ((value * own + mean * theirs) / sum, 1.0 / sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_that_between_applications_and_not_of_their_errors() {
        // All alike, each wrong by 0.1: nothing is between them.
        let alike: Vec<(f64, f64)> = [-0.1, 0.0, 0.1, 0.0].map(|x| (x, 0.01)).into();
        let spread = Spread::of(&alike).unwrap();
        assert!(
            (spread.mean).abs() < 1e-9 && (spread.sd - 0.05).abs() < 1e-9,
            "{spread:?}"
        );
        // Sure and different: variance 0.2 / 3 between them, a quarter of it of
        // the mean.
        let differ: Vec<(f64, f64)> = [-0.3, -0.1, 0.1, 0.3].map(|x| (x, 0.0)).into();
        let spread = Spread::of(&differ).unwrap();
        let expected = (0.2f64 / 3.0 * 1.25).sqrt();
        assert!((spread.sd - expected).abs() < 1e-3, "{spread:?} {expected}");
        assert_eq!(Spread::of(&differ[..2]), None);
    }

    #[test]
    fn a_value_is_drawn_to_what_is_typical_by_its_variance() {
        let typical = Spread {
            mean: -0.1,
            sd: 0.1,
        };
        let (value, variance) = typical.draws(-0.2, 0.01);
        assert!((value + 0.15).abs() < 1e-9 && (variance - 0.005).abs() < 1e-9);
        // Five standard deviations off: hardly drawn at all.
        let (value, _) = typical.draws(-0.6, 0.01);
        assert!((value + 0.58).abs() < 1e-9, "{value}");
        assert!((typical.draws(-0.3, 0.0).0 + 0.3).abs() < 1e-6);
    }
}
