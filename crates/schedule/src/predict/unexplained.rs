//! What profiles leave open of a co-location, learned from recorded ones.

use serde::Deserialize;
use serde::Serialize;

/// What profiles leave open of a co-location.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unexplained {
    pub own_cpus: ResidualSpread,
    pub same_cpu: ResidualSpread,
}

/// A standard deviation of ln performance that grows with what is expected to be lost:
/// `sd² = base² + (share · ln)²`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResidualSpread {
    pub base: f64,
    pub share: f64,
}

impl Default for Unexplained {
    fn default() -> Self {
        let of = |base| ResidualSpread { base, share: 0.0 };
        Unexplained {
            own_cpus: of(0.03),
            same_cpu: of(0.05),
        }
    }
}

impl Unexplained {
    pub fn of(&self, shares_cpus: bool) -> ResidualSpread {
        match shares_cpus {
            true => self.same_cpu,
            false => self.own_cpus,
        }
    }
}

/// One prediction and what became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// ln of the predicted performance.
    pub predicted: f64,
    /// ln of measured over predicted.
    pub ln: f64,
    /// Variance of `ln` that the profiles explain.
    pub variance: f64,
}

/// What is tried for [`ResidualSpread::share`].
const SHARES: u32 = 20;

impl ResidualSpread {
    /// Variance of ln performance where `ln` is expected.
    pub fn variance(self, ln: f64) -> f64 {
        self.base.powi(2) + (self.share * ln).powi(2)
    }

    /// What makes 19 of 20 residuals lie within their intervals, and these as short as
    /// possible: errors have heavier tails than a normal distribution, and what makes their
    /// squares right on average holds too few. The rank is that of a case still to come
    /// among those that were seen.
    pub fn learned(residuals: &[Residual]) -> ResidualSpread {
        let shares = (0..=SHARES).map(|step| f64::from(step) / f64::from(SHARES));
        let fits = shares.map(|share| {
            let rest = ResidualSpread {
                base: base(residuals, share),
                share,
            };
            let sd = |one: &Residual| (one.variance + rest.variance(one.predicted)).sqrt();
            (rest, residuals.iter().map(sd).sum::<f64>())
        });
        let shortest = fits.min_by(|a, b| a.1.total_cmp(&b.1));
        shortest.map_or_else(ResidualSpread::default, |(rest, _)| rest)
    }
}

fn base(residuals: &[Residual], share: f64) -> f64 {
    let missing = residuals
        .iter()
        .map(|one| (one.ln / 1.96).powi(2) - one.variance - (share * one.predicted).powi(2));
    let mut missing: Vec<f64> = missing.collect();
    missing.sort_unstable_by(f64::total_cmp);
    let at = (0.95 * (missing.len() + 1) as f64).ceil() as usize;
    let needed = missing.get(at.min(missing.len()).saturating_sub(1));
    needed.copied().unwrap_or(0.0).max(0.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;
    use rand_distr::Distribution;
    use rand_distr::StandardNormal;

    /// Residuals with a planted standard deviation, most of them of small losses.
    fn planted(rest: ResidualSpread, count: usize, seed: u64) -> Vec<Residual> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        (0..count)
            .map(|at| {
                let predicted = if at % 4 == 0 { -0.4 } else { -0.01 };
                let variance: f64 = 0.01f64.powi(2);
                let sd = (variance + rest.variance(predicted)).sqrt();
                let normal: f64 = StandardNormal.sample(&mut rng);
                Residual {
                    predicted,
                    ln: sd * normal,
                    variance,
                }
            })
            .collect()
    }

    fn inside(rest: ResidualSpread, residuals: &[Residual], large: bool) -> f64 {
        let of = residuals
            .iter()
            .filter(|one| (one.predicted < -0.2) == large);
        let of: Vec<_> = of.collect();
        let held = of.iter().filter(|one| {
            one.ln.abs() <= 1.96 * (one.variance + rest.variance(one.predicted)).sqrt()
        });
        held.count() as f64 / of.len() as f64
    }

    #[test]
    fn intervals_that_grow_with_the_loss_are_found() {
        let truth = ResidualSpread {
            base: 0.02,
            share: 0.3,
        };
        let known = planted(truth, 200, 1);
        let found = ResidualSpread::learned(&known);
        assert!(found.share >= 0.15, "{found:?}");
        // As many are held where little is lost as where much is, in cases still to come.
        let later = planted(truth, 4000, 2);
        for large in [false, true] {
            let held = inside(found, &later, large);
            assert!((0.85..=1.0).contains(&held), "{large}: {held}, {found:?}");
        }
        let even = ResidualSpread::learned(
            &known
                .iter()
                .map(|one| Residual {
                    predicted: 0.0,
                    ..*one
                })
                .collect::<Vec<_>>(),
        );
        assert!(even.base > 2.0 * found.base, "{even:?} {found:?}");
    }

    #[test]
    fn nothing_is_added_to_what_is_explained() {
        let explained = planted(ResidualSpread::default(), 100, 3);
        let wide: Vec<Residual> = explained
            .iter()
            .map(|one| Residual {
                variance: 4.0 * one.variance,
                ..*one
            })
            .collect();
        assert_eq!(ResidualSpread::learned(&wide), ResidualSpread::default());
        assert_eq!(ResidualSpread::learned(&[]), ResidualSpread::default());
    }
}
